"""On a real GPU: the copy kernel is right, the gate opens together, and overlap is measured as promised."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ringi_lab.core import plausibility
from ringi_lab.core.errors import FieldError, GpuUnavailable, MeasurementRefused
from ringi_lab.core.experiment import run
from ringi_lab.core.hardware import GpuSpec, gpu_spec
from ringi_lab.core.result import Result
from ringi_lab.overlap import COPIES, MiB, Overlap, SmFree, measure, summary
from ringi_lab.overlap.analysis import needs_sm

pytestmark = pytest.mark.gpu

POISON = 0xA5
BLOCKS = {"gemm_solo", "copy_solo", "gemm_overlap", "copy_overlap", "gemm_alone", "copy_alone", "together"}
CLOCKS = {"sm_clock_gemm", "sm_clock_copy", "sm_clock_both"}
RUNS = {"copy_run_solo", "copy_run_overlap"}
TOGETHER_S = 50e-6  # skew of two gates: a few microseconds are usual


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    if not module.cuda.is_available():
        pytest.skip(f"torch {module.__version__} has no CUDA device")
    return module


@pytest.fixture(scope="module")
def bench(torch: Any) -> measure.Bench:
    return measure.bench(0)


@pytest.fixture(scope="module")
def spec(torch: Any) -> GpuSpec:
    try:
        return gpu_spec(torch.cuda.get_device_name(0))
    except FieldError as unknown:
        pytest.skip(str(unknown))


# --- the copy kernel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ctas", [1, 7, 132])
@pytest.mark.parametrize("vectors", [0, 1, 1023, 4096, 4097, 132 * 4096 - 1, 1_000_003])
def test_copy_lsu_copies_all_and_nothing_more(torch: Any, bench: Any, ctas: int, vectors: int) -> None:
    """Random data into poisoned room, with a guard before and behind it that must stay as it was."""
    from ringi_lab.core.cuda.compile import kernels

    guard, size = 4096, 16 * vectors
    source = torch.randint(0, 256, (max(size, 16),), dtype=torch.uint8, device=bench.device)
    room = torch.full((size + 2 * guard,), POISON, dtype=torch.uint8, device=bench.device)
    stamps = torch.tensor([torch.iinfo(torch.int64).max, 0], device=bench.device)
    torch.cuda.synchronize()
    launch = kernels("ringi_lab.overlap", "kernels.cu", 0).launcher(
        "copy_lsu", bench.high.cuda_stream, ctas, 1024, measure.EXCLUSIVE
    )
    launch(source.data_ptr(), room.data_ptr() + guard, vectors, stamps.data_ptr())
    torch.cuda.synchronize()
    assert torch.equal(room[guard : guard + size], source[:size])
    assert bool((room[:guard] == POISON).all())
    assert bool((room[guard + size :] == POISON).all())
    start, end = stamps.tolist()
    assert 0 < start <= end


def test_copy_lsu_holds_an_sm_with_each_cta(torch: Any, bench: Any) -> None:
    """Its shared memory keeps a second CTA off the SM, by the driver's own occupancy calculation."""
    from ringi_lab.core.cuda.compile import kernels

    occupancy = kernels("ringi_lab.overlap", "kernels.cu", 0)["copy_lsu"].occupancy
    assert occupancy.max_active_blocks_per_multiprocessor(1024, measure.EXCLUSIVE) == 1
    assert occupancy.max_active_blocks_per_multiprocessor(1024, 0) == 2


def small_work(torch: Any, name: str, stream: Any, delay: float = 0.0) -> Any:
    """A fill of 4 MiB on ``stream``, queued by a host that takes ``delay`` seconds over it."""
    from ringi_lab.core.cuda.timing import Work

    room = torch.zeros(4 * MiB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()

    def enqueue() -> None:
        time.sleep(delay)
        room.fill_(1)

    return Work(name, stream, enqueue)


def test_streams_start_together_however_long_the_host_takes(torch: Any, bench: Any) -> None:
    works = [
        (small_work(torch, "quick", bench.low), 6, 2),
        (small_work(torch, "slow", bench.high, delay=0.02), 3, 1),
    ]
    bench.gate.block(works)  # modules are loaded by now
    called = []
    posts = bench.gate.block(works, lambda: called.append(True))
    assert called == [True]
    assert [len(p) for p in posts] == [1 + 3, 1 + 3]
    assert all(a <= b for p in posts for a, b in zip(p, p[1:], strict=False))
    assert posts[0][0] > 0.0
    assert abs(posts[0][0] - posts[1][0]) < TOGETHER_S
    # All was queued before the gates opened, so the host's 20 ms a launch are not in the times.
    assert posts[1][-1] < 0.02


def test_a_gate_that_nobody_opens_ends_by_itself(torch: Any, bench: Any) -> None:
    from ringi_lab.core.cuda.compile import kernels

    words = torch.zeros(2, dtype=torch.int32, device=bench.device)
    opened = torch.zeros(1, dtype=torch.int64, device=bench.device)
    torch.cuda.synchronize()
    launch = kernels("ringi_lab.core.cuda", "gate.cu", 0).launcher("gate", bench.low.cuda_stream, 1, 1)
    begun = time.monotonic()
    launch(words.data_ptr(), 50_000_000, words.data_ptr() + 4, opened.data_ptr())
    torch.cuda.synchronize()
    assert 0.045 < time.monotonic() - begun < 1.0
    assert words.tolist() == [0, 1]  # never opened, expired once
    assert opened.item() > 0


def test_a_block_whose_gate_expired_is_refused_and_the_next_one_is_not(torch: Any, bench: Any) -> None:
    from ringi_lab.core.cuda.timing import Gate

    gate = Gate(bench.device, limit=0.05)
    with pytest.raises(MeasurementRefused, match=r"opened by its time limit of 0\.05 s"):
        gate.block([(small_work(torch, "late", bench.low, delay=0.2), 1, 1)])
    assert len(gate.block([(small_work(torch, "fine", bench.low), 1, 1)])[0]) == 2


def test_a_failure_while_queueing_opens_the_gates(torch: Any, bench: Any) -> None:
    from ringi_lab.core.cuda.timing import Gate, Work

    def fail() -> None:
        raise RuntimeError("cannot be queued")

    gate = Gate(bench.device, limit=2.0)
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="cannot be queued"):
        gate.block([(small_work(torch, "fine", bench.low), 1, 1), (Work("bad", bench.high, fail), 1, 1)])
    torch.cuda.synchronize()
    assert time.monotonic() - begun < 1.0  # did not wait for the time limit
    assert len(gate.block([(small_work(torch, "fine", bench.low), 1, 1)])[0]) == 2


def test_a_block_beyond_the_launch_queue_is_refused_before_anything_is_queued(torch: Any, bench: Any) -> None:
    with pytest.raises(FieldError, match=r"operations of 'many' in one block = 1002: must be <= 900"):
        bench.gate.block([(small_work(torch, "many", bench.low, delay=1.0), 500, 1)])


def test_real_events_are_checked_like_any(torch: Any, bench: Any) -> None:
    from ringi_lab.core.cuda.timing import elapsed, interval, mark

    work = small_work(torch, "fill", bench.low)
    null = torch.cuda.default_stream(bench.device)
    start, before, silent = mark(bench.low), mark(null), mark(bench.low, timed=False)
    with torch.cuda.stream(bench.low):
        work.enqueue()
    end, after = mark(bench.low), mark(null)
    torch.cuda.synchronize()
    assert 0.0 < interval(start, end, bench.low) < 0.1
    assert elapsed(before, end) > 0.0
    with pytest.raises(FieldError, match=r"stream of the start event = 'the NULL stream': must be stream 0x"):
        interval(before, after, bench.low)
    with pytest.raises(FieldError, match="timing of the start event = False"):
        interval(silent, end, bench.low)


# --- overlap -------------------------------------------------------------------------------------------


def point(copy: str, **options: Any) -> Overlap:
    """A small and quick setting of one kind of copy."""
    sms = {"copy_sms": 16} if copy == "sm" else {}
    return Overlap(4096, copy, 64 * MiB, trials=3, **{**sms, **options})


@pytest.fixture(scope="module")
def measured(torch: Any) -> dict[str, Result]:
    """One measurement of each kind of copy that this machine can do."""
    kinds = [c for c in COPIES if c != "p2p" or torch.cuda.device_count() > 1]
    return {copy: run(point(copy), on="gpu") for copy in kinds}


@pytest.mark.parametrize("copy", COPIES)
def test_every_kind_of_copy_is_measured(measured: dict[str, Result], copy: str, tmp_path: Path) -> None:
    if copy == "p2p" and copy not in measured:
        with pytest.raises(GpuUnavailable, match="a second GPU: found one GPU; needed two GPUs"):
            run(point("p2p"), on="gpu")
        return
    result = measured[copy]
    assert result.source == "measured"
    assert result.samples.keys() == BLOCKS | CLOCKS | (RUNS if copy == "sm" else set())
    for name, samples in result.samples.items():
        assert samples.unit == ("Hz" if name in CLOCKS else "s")
        assert len(samples.values) == 3
        assert min(samples.values) > 0
    found = summary(result)
    for k in (found.k_comm, found.k_comp):
        assert k is not None
        assert 0.8 < k.value < 100
    assert result.facts["gemm_kernel"].get("name")
    # The whole account is there: a recording would take it, and it names no folder of this machine.
    assert Result.load(result.save(tmp_path / "result.json")).parameters == point(copy).parameters()
    assert "/root" not in result.provenance.command
    assert "/home" not in result.provenance.command


def test_auto_measures_here(measured: dict[str, Result]) -> None:
    result = run(point("h2d"))
    assert result.source == "measured"
    assert result.device == measured["h2d"].device
    assert not any("simulated" in note for note in result.notes)


def test_no_bandwidth_and_no_compute_rate_is_above_its_peak(
    measured: dict[str, Result], spec: GpuSpec
) -> None:
    for copy, result in measured.items():
        best = min(result.samples["copy_solo"].values)
        if copy in ("h2d", "d2h"):
            plausibility.link_rate(64 * MiB / best, spec.pcie_bandwidth).require()
        elif copy == "p2p":
            plausibility.link_rate(64 * MiB / best, spec.require("nvlink_bandwidth")).require()
        else:
            for name in ("copy_solo", *(RUNS & result.samples.keys())):
                seconds = min(result.samples[name].values)
                traffic = plausibility.copy_rates(64 * MiB, seconds).traffic
                plausibility.bandwidth(traffic, spec.hbm_bandwidth, measure.REGION, spec.l2_bytes).require()
        for name in ("gemm_solo", "gemm_overlap"):
            seconds = min(result.samples[name].values)
            plausibility.duration(seconds, flop=2.0 * 4096**3, peak_flops=spec.peak_flops("bf16"))


def test_the_h2d_copy_comes_near_the_link(measured: dict[str, Result], spec: GpuSpec) -> None:
    """A bound from below too: a pageable or staged copy would be far under half of the raw rate."""
    assert 64 * MiB / measured["h2d"].median("copy_solo") > 0.5 * spec.pcie_bandwidth


def test_a_copy_on_its_own_sms_is_measured(torch: Any, bench: Any) -> None:
    if torch.cuda.get_device_capability(0) < (9, 0):
        pytest.skip("this test's SM counts are those of Hopper's green contexts")
    result = run(point("sm", sm_margin=16), on="gpu")
    assert result.samples.keys() >= BLOCKS - {"gemm_overlap", "copy_overlap"} | RUNS
    found = summary(result)
    assert found.step.value > 0


@pytest.mark.parametrize("margin", [12, 4, 132])
def test_a_partition_that_the_hardware_cannot_make_is_refused(torch: Any, bench: Any, margin: int) -> None:
    if torch.cuda.get_device_capability(0) != (9, 0):
        pytest.skip("this test's SM counts are those of Hopper's green contexts")
    with pytest.raises(FieldError, match=rf"sm_margin = {margin}: must be a multiple of 8 from 8 to"):
        run(point("sm", copy_sms=margin, sm_margin=margin), on="gpu")
    assert torch.cuda.current_device() == 0
    torch.zeros(1, device="cuda").add_(1).item()  # the primary context is still the current one


def test_more_sms_than_there_are_are_refused(bench: Any) -> None:
    sms = bench.sms + 1
    with pytest.raises(
        FieldError, match=rf"copy_sms = {sms}: must be 1 to {bench.sms}, the SMs of this device"
    ):
        run(point("sm", copy_sms=sms), on="gpu")


def test_a_device_that_is_not_there_is_refused(torch: Any) -> None:
    count = torch.cuda.device_count()
    for index in (count, -1):
        with pytest.raises(FieldError, match=rf"device = {index}: must be 0 to {count - 1}"):
            measure.overlap(point("h2d"), index=index)


def test_a_size_beyond_the_memory_is_refused(bench: Any) -> None:
    with pytest.raises(FieldError, match=r"copy_bytes = 10000000000000: must be <= \d+ bytes"):
        bench.region("dst", 10**13)
    with pytest.raises(FieldError, match=r"gemm_n = 1000000 = \d+: must be <= \d+ bytes"):
        bench.gemm(1_000_000, bench.low)
    assert bench.region("dst", 16).numel() >= measure.REGION  # and the bench still works


@pytest.mark.parametrize("copy", ["h2d", "d2h"])
def test_pageable_memory_is_refused(torch: Any, copy: str) -> None:
    with pytest.raises(MeasurementRefused, match="not asynchronous"):
        run(point(copy, pinned=False), on="gpu")


def test_a_wrong_gemm_is_refused(torch: Any, bench: Any) -> None:
    a, b = (torch.randn(512, 512, device=bench.device).to(torch.bfloat16) for _ in range(2))
    c = a @ b
    measure.check_gemm(a, b, c)
    c[256:] = 0.0
    with pytest.raises(MeasurementRefused, match="the GEMM is wrong"):
        measure.check_gemm(a, b, c)


@pytest.mark.parametrize("kind", ["h2d", "d2h", "d2d", "sm"])
def test_a_copy_that_does_not_copy_is_refused(torch: Any, bench: Any, kind: str) -> None:
    """Nothing is timed before the copy was seen to be right."""
    size = 5 * MiB + 16  # a size that no other test has checked
    copy = bench.copy(kind, size, 7 if kind == "sm" else None, bench.high)
    real = copy.work.enqueue
    object.__setattr__(copy.work, "enqueue", lambda: None)
    with pytest.raises(MeasurementRefused, match=rf"the {kind} copy of {size} bytes is wrong"):
        copy.check()
    object.__setattr__(copy.work, "enqueue", real)
    copy.check()


# --- the litmus ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("copy", "needs"), [("h2d", False), ("d2h", False), ("d2d", True), ("sm", True)])
def test_the_litmus_tells_copy_engine_from_sms(torch: Any, copy: str, needs: bool) -> None:
    result = run(SmFree(copy, trials=3), on="gpu")
    assert result.samples.keys() == {"copy_end", "hold_end"}
    assert min(result.samples["hold_end"].values) == pytest.approx(0.03, rel=0.1)
    assert needs_sm(result) is needs


# --- repeatability ---------------------------------------------------------------------------------------


def test_the_headline_is_the_same_twice(torch: Any) -> None:
    headline = Overlap(8192, "h2d", 256 * MiB, trials=10)
    first, second = (summary(run(headline, on="gpu")) for _ in range(2))
    for name in ("k_comm", "k_comp"):
        a, b = getattr(first, name).value, getattr(second, name).value
        assert abs(a - b) / min(a, b) < 0.05, name
