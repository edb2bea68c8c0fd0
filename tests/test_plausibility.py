"""Guards on measured numbers: the published cases that each of them was made for, with the right values."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from ringi_lab.core import contention, plausibility
from ringi_lab.core.cuda import timing
from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.hardware import GIB, MIB, gpu_spec
from ringi_lab.core.plausibility import Launch, Verdict
from ringi_lab.overlap import Overlap, analysis

# --- the verdict ---------------------------------------------------------------------------------


def test_a_clean_verdict_lets_pass_and_says_nothing_to_the_reader() -> None:
    clean = Verdict(True, "fine")
    clean.require()
    assert clean
    assert clean.notes() == []


def test_a_flag_is_false_becomes_a_note_and_can_be_required() -> None:
    flag = Verdict(False, "too fast")
    assert not flag
    assert flag.notes() == ["too fast"]
    with pytest.raises(MeasurementRefused, match=r"^too fast$"):
        flag.require()


# --- bandwidth above the memory's peak (TileGym 82, 118, 126) --------------------------------------

CARD = {"peak": 1792e9, "l2_bytes": 96 * MIB}


def test_bandwidth_above_the_dram_peak_is_flagged_with_the_cache_as_the_reason() -> None:
    verdict = plausibility.bandwidth(5019e9, working_set=64 * MIB, **CARD)
    assert not verdict
    assert verdict.reason == (
        "5019 GB/s is above the DRAM peak of 1792 GB/s: the 64 MiB working set fits the 96 MiB L2"
    )


def test_a_set_beyond_the_cache_and_a_rate_under_the_peak_are_clean() -> None:
    verdict = plausibility.bandwidth(1451e9, working_set=256 * MIB, **CARD)
    assert verdict
    assert verdict.reason == "1451 GB/s is 81.0% of the DRAM peak of 1792 GB/s"


def test_above_the_peak_beyond_the_cache_the_cache_is_not_blamed() -> None:
    verdict = plausibility.bandwidth(5019e9, working_set=256 * MIB, **CARD)
    assert not verdict
    assert "above the DRAM peak" in verdict.reason
    assert "beyond the L2" in verdict.reason
    assert "fits" not in verdict.reason


def test_a_cached_set_is_flagged_under_the_peak_too() -> None:
    # On a GB200 (129 MB of L2) a 64 MiB set read up to 1.6 times the rate of a 256 MiB one.
    set_64 = plausibility.bandwidth(6e12, peak=8e12, working_set=64 * MIB, l2_bytes=129_000_000)
    set_256 = plausibility.bandwidth(6e12, peak=8e12, working_set=256 * MIB, l2_bytes=129_000_000)
    assert (bool(set_64), bool(set_256)) == (False, True)
    assert "may be the L2's" in set_64.reason


@pytest.mark.parametrize(("share", "clean"), [(1.0, True), (1.02, True), (1.021, False)])
def test_the_peak_has_the_tolerance_of_a_timer(share: float, clean: bool) -> None:
    assert bool(plausibility.bandwidth(share * 1e12, 1e12, GIB, MIB)) is clean


@pytest.mark.parametrize("field", ["rate", "peak", "working_set", "l2_bytes"])
@pytest.mark.parametrize("bad", [0, -1, math.nan])
def test_bandwidth_needs_positive_numbers(field: str, bad: float) -> None:
    arguments = {"rate": 1e12, "peak": 2e12, "working_set": GIB, "l2_bytes": MIB, field: bad}
    with pytest.raises(FieldError, match=rf"^{field} = .*must be > 0$"):
        plausibility.bandwidth(**arguments)


def test_a_link_cannot_carry_more_than_its_raw_rate_in_one_direction() -> None:
    pcie = gpu_spec("H200").pcie_bandwidth
    assert plausibility.link_rate(55.4e9, pcie)
    too_fast = plausibility.link_rate(2 * 55.4e9, pcie)
    assert not too_fast
    assert "110.8 GB/s is above the link's 63.02 GB/s in one direction" in too_fast.reason


# --- copies counted once and twice, links quoted both ways (nvbandwidth 48) -------------------------


def test_a_local_copy_is_reported_as_copied_and_as_traffic() -> None:
    rates = plausibility.copy_rates(GIB, GIB / 1.1e12)
    assert rates.copied == pytest.approx(1.1e12)
    assert rates.traffic == pytest.approx(2.2e12)
    assert rates.traffic < gpu_spec("H100 SXM").hbm_bandwidth


def test_nvlink_quoted_both_ways_is_compared_one_way() -> None:
    assert plausibility.one_way(600e9) == 300e9 == gpu_spec("A100").nvlink_bandwidth
    assert plausibility.link_rate(280e9, plausibility.one_way(600e9))
    assert not plausibility.link_rate(560e9, plausibility.one_way(600e9))


# --- both directions at once (nvbandwidth 11, 53, 67) -----------------------------------------------


def test_a_bidirectional_figure_is_one_direction_and_no_fault() -> None:
    both = plausibility.two_way(12.5e9, 25.5e9)
    assert both.verdict
    assert both.label == "12.5 GB/s per direction, both directions running"
    assert (both.per_direction, both.alone) == (12.5e9, 25.5e9)
    assert "49% of 25.5 GB/s alone" in both.verdict.reason
    said = both.label + both.verdict.reason
    for invented in ("broken", "fault", "25 GB/s", "sum", "total"):
        assert invented not in said


def test_more_than_alone_can_only_be_two_directions_added() -> None:
    both = plausibility.two_way(741e9, 370e9)
    assert not both.verdict
    assert both.verdict.reason.endswith("this adds two directions")


# --- less time than the work can take (mlx-benchmark 21) ---------------------------------------------

H200 = gpu_spec("H200")
FLOP = 2.0 * 8192**3
WORK = {"flop": FLOP, "peak_flops": H200.peak_flops("bf16")}


def test_a_launch_is_not_a_gemm() -> None:
    with pytest.raises(MeasurementRefused) as caught:
        plausibility.duration(0.03e-3, **WORK)
    assert str(caught.value).startswith("launch time only: 0.03 ms, but 1.1e+12 FLOP at 989.")
    assert "takes at least 1.11" in str(caught.value)
    assert plausibility.duration(1.36e-3, **WORK)


def test_bytes_bound_a_time_too_and_the_longer_bound_counts() -> None:
    memory = {"moved": 1e9, "peak_bandwidth": 1e12}  # at least 1 ms
    assert plausibility.duration(1e-3, **memory)
    with pytest.raises(MeasurementRefused, match=r"launch time only: 0\.03 ms, but 953\.7 MiB at 1000 GB/s"):
        plausibility.duration(0.03e-3, **memory)
    # 1 ms of bytes and 2 ms of FLOP: 1.5 ms is too short by the FLOP.
    with pytest.raises(MeasurementRefused, match="FLOP"):
        plausibility.duration(1.5e-3, flop=2e9, peak_flops=1e12, **memory)


def test_no_work_has_no_bound() -> None:
    with pytest.raises(FieldError, match="work"):
        plausibility.duration(1.0)
    with pytest.raises(FieldError, match="flop = -1"):
        plausibility.duration(1.0, flop=-1)
    with pytest.raises(FieldError, match="seconds = 0"):
        plausibility.duration(0.0, **WORK)


# --- copies that only look asynchronous (PyTorch 19571, 39694, 42539) --------------------------------


@pytest.mark.parametrize(
    ("source", "target", "clean"),
    [
        ("device", "pageable", False),
        ("pageable", "device", False),
        ("device", "pinned", True),
        ("pinned", "device", True),
        ("device", "device", True),
    ],
)
def test_only_page_locked_copies_are_asynchronous(source: str, target: str, clean: bool) -> None:
    verdict = plausibility.asynchronous(source, target)
    assert bool(verdict) is clean
    assert verdict.reason.startswith("asynchronous" if clean else "not asynchronous: the ")
    if not clean:
        assert (
            f"the {'source' if source == 'pageable' else 'target'} of the copy is pageable" in verdict.reason
        )
        assert "no overlap is claimed" in verdict.reason


def test_memory_kinds_are_checked() -> None:
    with pytest.raises(FieldError, match=r"target = 'host': must be one of device, pinned, pageable"):
        plausibility.asynchronous("device", "host")


@pytest.mark.parametrize("copy", ["h2d", "d2h"])
def test_the_overlap_lab_claims_nothing_for_pageable_memory(copy: str) -> None:
    with pytest.raises(
        MeasurementRefused, match=r"pinned = False: not asynchronous\.?.* no overlap is claimed"
    ):
        analysis.check_pinned(copy, pinned=False)
    analysis.check_pinned(copy, pinned=True)
    analysis.check_pinned("sm", pinned=False)  # no host memory in it
    for run in (
        Overlap(copy=copy, pinned=False).simulate,
        lambda _: Overlap(copy=copy, pinned=False).measure(),
    ):
        with pytest.raises(MeasurementRefused, match="not asynchronous"):
            run("H200")


# --- events on another stream, another device, or without timing (quadrants 407) ---------------------


def stream(handle: int, device: str = "cuda:0") -> SimpleNamespace:
    return SimpleNamespace(cuda_stream=handle, device=device)


class Event:
    """Stands in for a CUDA event: ``at`` in ms. Asking one that must not be asked fails the test."""

    def __init__(self, at: float | None) -> None:
        self.at = at

    def elapsed_time(self, other: Event) -> float:
        assert self.at is not None, "a time was read although the events cannot give one"
        assert other.at is not None, "a time was read although the events cannot give one"
        return other.at - self.at


WORK_STREAM = stream(0x7F00)


def test_events_around_the_work_on_its_own_stream_give_its_time() -> None:
    start, end = (timing.Mark(Event(at), stream(0x7F00)) for at in (1.0, 3.5))
    assert timing.interval(start, end, WORK_STREAM) == pytest.approx(2.5e-3)


@pytest.mark.parametrize("name", ["start", "end"])
def test_an_event_on_another_stream_is_an_error_that_names_both(name: str) -> None:
    marks = {n: timing.Mark(Event(None), WORK_STREAM) for n in ("start", "end")}
    marks[name] = timing.Mark(Event(None), stream(0))
    with pytest.raises(FieldError) as caught:
        timing.interval(marks["start"], marks["end"], WORK_STREAM)
    assert str(caught.value).startswith(
        f"stream of the {name} event = 'the NULL stream': must be stream 0x7f00, the stream of the work"
    )
    assert "GB/s" not in str(caught.value)


def test_events_of_two_devices_have_no_common_clock() -> None:
    here, there = stream(0x10, "cuda:0"), stream(0x10, "cuda:1")
    marks = timing.Mark(Event(None), here), timing.Mark(Event(None), there)
    with pytest.raises(FieldError, match=r"device of the end event = 'cuda:1': must be cuda:0, the start"):
        timing.elapsed(*marks)
    with pytest.raises(FieldError, match=r"device of the end event = 'cuda:1': must be cuda:0, the device"):
        timing.interval(*marks, here)
    with pytest.raises(FieldError, match=r"device of the start event = 'cuda:0': must be cuda:1, the device"):
        timing.interval(*marks, there)


@pytest.mark.parametrize("name", ["start", "end"])
def test_an_event_without_timing_is_an_error(name: str) -> None:
    marks = {n: timing.Mark(Event(None), WORK_STREAM, timed=n != name) for n in ("start", "end")}
    with pytest.raises(FieldError, match=rf"timing of the {name} event = False: must be enabled"):
        timing.interval(marks["start"], marks["end"], WORK_STREAM)


def test_marks_of_two_streams_can_be_compared_where_that_is_meant() -> None:
    origin, end = timing.Mark(Event(1.0), stream(0)), timing.Mark(Event(3.0), WORK_STREAM)
    assert timing.elapsed(origin, end) == pytest.approx(2e-3)


# --- one hardware queue (Megatron-LM 533, 636, 1468) --------------------------------------------------

ONE = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
GEMM_FIRST = (Launch("gemm", "compute"), Launch("all-reduce", "communication"))


def test_one_queue_and_the_gemm_first_means_no_overlap() -> None:
    verdict = plausibility.queueing(ONE, GEMM_FIRST, "all-reduce")
    assert not verdict
    assert verdict.reason == (
        "no overlap: with CUDA_DEVICE_MAX_CONNECTIONS=1 there is one hardware queue, and 'all-reduce' waits "
        "in it behind 'gemm', launched earlier on another stream"
    )


@pytest.mark.parametrize("environment", [{}, {"CUDA_DEVICE_MAX_CONNECTIONS": ""}, {"HOME": "/"}])
def test_unset_means_overlap(environment: dict[str, str]) -> None:
    verdict = plausibility.queueing(environment, GEMM_FIRST, "all-reduce")
    assert verdict
    assert verdict.reason == "overlap: each of 2 streams has one of 8 hardware queues"


def test_one_queue_keeps_the_order_of_launching() -> None:
    # What tensor parallelism wants: the communication launched first is not held up by the GEMM.
    verdict = plausibility.queueing(ONE, GEMM_FIRST[::-1], "all-reduce")
    assert verdict
    assert "launched first" in verdict.reason
    assert not plausibility.queueing(ONE, GEMM_FIRST[::-1], "gemm")


def test_one_stream_is_one_order_whatever_the_queues() -> None:
    same = (Launch("gemm", "s"), Launch("copy", "s"))
    verdict = plausibility.queueing({}, same, "copy")
    assert not verdict
    assert "follows 'gemm' on the same stream, 's'" in verdict.reason


def test_more_streams_than_queues_promise_nothing() -> None:
    work = (*(Launch(f"w{i}", f"s{i}") for i in range(4)), Launch("late", "s4"))
    assert not plausibility.queueing({"CUDA_DEVICE_MAX_CONNECTIONS": "4"}, work, "late")
    assert plausibility.queueing({"CUDA_DEVICE_MAX_CONNECTIONS": "5"}, work, "late")


@pytest.mark.parametrize(("text", "queues"), [("1", 1), (" 32 ", 32), ("8", 8)])
def test_the_queues_asked_for(text: str, queues: int) -> None:
    assert plausibility.hardware_queues({"CUDA_DEVICE_MAX_CONNECTIONS": text}) == queues


@pytest.mark.parametrize("text", ["0", "33", "-1", "many", "1.0", "²"])
def test_a_number_of_queues_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match=r"CUDA_DEVICE_MAX_CONNECTIONS = .*: must be 1 to 32, or unset"):
        plausibility.hardware_queues({"CUDA_DEVICE_MAX_CONNECTIONS": text})


def test_the_work_asked_about_must_be_launched_once() -> None:
    for launches, late in ((GEMM_FIRST, "copy"), (GEMM_FIRST * 2, "gemm")):
        with pytest.raises(FieldError, match="late"):
            plausibility.queueing({}, launches, late)


def test_blocks_without_common_time_are_refused() -> None:
    """What one queue looks like in the samples: the copies begin when the GEMMs are done."""
    gemm, copy = [0.0, 1e-3, 2e-3, 3e-3], [0.0, 1e-3, 2e-3, 3e-3]
    late = [t + 3e-3 for t in copy]
    serial = analysis.Block(gemm, copy, gemm, late)
    with pytest.raises(MeasurementRefused) as caught:
        analysis.samples([serial])
    assert "no overlap: the two sides had only 0.000 ms in common, of 3.000 ms" in str(caught.value)
    assert "CUDA_DEVICE_MAX_CONNECTIONS=1" in str(caught.value)
    rows, notes = analysis.samples([analysis.Block(gemm, copy, gemm, copy)])
    assert rows["copy_overlap"].values == pytest.approx((1e-3,))
    assert notes == []


def test_one_block_without_common_time_spoils_the_lot() -> None:
    posts = [0.0, 1e-3, 2e-3, 3e-3]
    good = analysis.Block(posts, posts, posts, posts)
    bad = analysis.Block(posts, posts, posts, [t + 2e-3 for t in posts])  # a third in common
    with pytest.raises(MeasurementRefused, match=r"1\.000 ms in common"):
        analysis.samples([good, bad, good])


# --- published slowdowns (NCCL 1428) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "k", "low", "high"),
    [
        (1.18, 2.08, 1.76, 1.75, 1.77),
        (0.18, 0.33, 1.83, 1.76, 1.91),
        (0.02, 0.05, 2.5, 1.8, 3.67),
    ],
)
def test_a_ratio_of_rounded_numbers_has_a_range(
    before: float, after: float, k: float, low: float, high: float
) -> None:
    found = plausibility.rounded_ratio(after, before, digit=0.01)
    assert (round(found.value, 2), round(found.low, 2), round(found.high, 2)) == (k, low, high)


def test_a_number_that_may_be_zero_gives_no_ratio() -> None:
    with pytest.raises(FieldError, match=r"before = 0\.01: must be > 0\.01, half of the last digit"):
        plausibility.rounded_ratio(0.05, 0.01, digit=0.02)


def test_communication_takes_its_share_of_the_memory() -> None:
    traffic, share = plausibility.traffic_share(300e9, (2, 3), peak=2000e9)
    assert (traffic.low, traffic.value, traffic.high) == (600e9, 750e9, 900e9)
    assert (share.low, share.high) == (0.3, 0.45)
    for passes in ((3, 2), (0, 1)):
        with pytest.raises(FieldError, match="passes"):
            plausibility.traffic_share(300e9, passes, peak=2000e9)


# --- SMs taken (NCCL 689, 1432) ------------------------------------------------------------------------


def test_taken_sms_bound_a_gemm_from_below() -> None:
    k = contention.sm_share_bound(132, 16)
    assert round(k, 3) == 1.138
    assert round(1 / k, 3) == 0.879  # the ceiling for compute
    assert contention.sm_share_bound(132, 0) == 1.0


# --- clocks and data (flashinfer 2899) ------------------------------------------------------------------


def test_a_falling_clock_is_flagged_with_its_change() -> None:
    verdict = plausibility.clock_trace([1965e6, 1900e6, 1710e6, 1580e6])
    assert not verdict
    assert verdict.reason == "clock 1965 -> 1580 MHz (-19.6%)"
    assert plausibility.clock_change(1965e6, 1580e6) == pytest.approx(-0.196, abs=5e-4)


def test_a_dip_that_recovers_is_seen_and_a_steady_clock_is_clean() -> None:
    assert not plausibility.clock_trace([1965e6, 1580e6, 1965e6])
    assert not plausibility.clock_trace([345e6, 1980e6])  # was still waking up
    assert plausibility.clock_trace([1980e6, 1965e6, 1980e6])
    with pytest.raises(FieldError, match="hertz"):
        plausibility.clock_trace([])


def test_throttled_samples_are_put_aside_but_never_all() -> None:
    some = plausibility.unthrottled([1450.0, 1237.0, 1440.0], [False, True, False])
    assert some.values == (1450.0, 1440.0)
    assert some.verdict
    every = plausibility.unthrottled([1300.0, 1237.0], [True, True])
    assert every.values == (1300.0, 1237.0)
    assert not every.verdict
    assert every.verdict.reason == "all 2 samples were taken under a throttled clock: kept and marked"


@pytest.mark.parametrize(("values", "flags"), [([1.0], []), ([], [])])
def test_each_value_has_a_flag(values: list[float], flags: list[bool]) -> None:
    with pytest.raises(FieldError):
        plausibility.unthrottled(values, flags)


def test_a_lower_sm_clock_spoils_compute_and_not_bandwidth() -> None:
    effect = plausibility.clock_effect(1980e6, 0.89 * 1980e6, 9501e6, 9501e6)
    assert effect.bandwidth
    assert "the bandwidth is valid" in effect.bandwidth.reason
    assert not effect.compute
    assert effect.compute.reason == (
        "SM clock -11.0%, memory clock +0.0%: the compute rate is that of another clock"
    )
    other = plausibility.clock_effect(1980e6, 1980e6, 3201e6, 2619e6)
    assert (bool(other.bandwidth), bool(other.compute)) == (False, True)


@pytest.mark.parametrize(("nonzero", "clean"), [(0.0, False), (0.49, False), (0.5, True), (1.0, True)])
def test_zeros_are_no_input_for_a_gemm(nonzero: float, clean: bool) -> None:
    assert bool(plausibility.gemm_input(nonzero)) is clean


def test_the_warning_about_zeros_says_what_they_do() -> None:
    assert plausibility.gemm_input(0.0).reason.startswith("the GEMM input is all zeros: it draws less power")
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(FieldError, match="nonzero"):
            plausibility.gemm_input(bad)
