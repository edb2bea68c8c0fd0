"""Can this number be true? Guards on what was measured; the standard library only.

Each guard is a pure function of plain numbers in SI units. It returns a :class:`Verdict` (or a small
frozen dataclass that holds one), or raises :class:`MeasurementRefused` where there is nothing to report.
A wrong argument is a :class:`FieldError`. The measured cases behind them are cited by bib key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringi_lab.core.errors import FieldError, MeasurementRefused

TOLERANCE = 0.02  # above a peak: timers and rounding explain that much, not more
CLOCK_DRIFT = 0.05  # change of a clock beyond which numbers taken under it are not one sample
LEAST_NONZERO = 0.5  # of a GEMM's input: sparser operands draw less power than real data

QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
DEFAULT_QUEUES, MOST_QUEUES = 8, 32  # bib key nvidia_cuda_guide, environment variables

ON_DEVICE, PINNED, PAGEABLE = "device", "pinned", "pageable"
MEMORY = (ON_DEVICE, PINNED, PAGEABLE)


@dataclass(frozen=True)
class Verdict:
    """What a guard found: true when there is nothing to object to; ``reason`` says why, in words."""

    clean: bool
    reason: str

    def __bool__(self) -> bool:
        return self.clean

    def require(self) -> None:
        """Raise :class:`MeasurementRefused` with the reason unless clean."""
        if not self.clean:
            raise MeasurementRefused(self.reason)

    def notes(self) -> list[str]:
        """The reason as a note for a result; nothing when clean."""
        return [] if self.clean else [self.reason]


@dataclass(frozen=True)
class Range:
    """A number with what it can be: ``low <= value <= high``, all in one unit."""

    value: float
    low: float
    high: float


# --- bandwidth ---------------------------------------------------------------------------------


def bandwidth(rate: float, peak: float, working_set: int, l2_bytes: int) -> Verdict:
    """Can ``rate`` be the bandwidth of the device memory?

    ``rate`` and ``peak`` in bytes/s, both counting the same traffic; ``working_set``: bytes that the
    repeated runs walk through; ``l2_bytes``: the L2 cache. A replayed set that fits the L2 is flagged
    even under the peak, since the memory was not asked (bib keys ``tilegym_82``, ``tilegym_118``).
    """
    _positive(rate=rate, peak=peak, working_set=working_set, l2_bytes=l2_bytes)
    fits = working_set <= l2_bytes
    size = f"the {_size(working_set)} working set fits the {_size(l2_bytes)} L2"
    if rate > peak * (1.0 + TOLERANCE):
        why = (
            size
            if fits
            else f"the {_size(working_set)} working set is beyond the L2, so time or bytes are wrong"
        )
        return Verdict(False, f"{_rate(rate)} is above the DRAM peak of {_rate(peak)}: {why}")
    if fits:
        return Verdict(False, f"{_rate(rate)} may be the L2's: {size}")
    return Verdict(True, f"{_rate(rate)} is {rate / peak:.1%} of the DRAM peak of {_rate(peak)}")


def link_rate(rate: float, one_way: float) -> Verdict:
    """Can ``rate`` (bytes/s) have passed a link of ``one_way`` bytes/s, its raw rate in one direction?"""
    _positive(rate=rate, one_way=one_way)
    if rate > one_way * (1.0 + TOLERANCE):
        return Verdict(
            False,
            f"{_rate(rate)} is above the link's {_rate(one_way)} in one direction: time or bytes are wrong, "
            "or two directions were added",
        )
    return Verdict(True, f"{_rate(rate)} is {rate / one_way:.1%} of the link's {_rate(one_way)} one way")


@dataclass(frozen=True)
class CopyRates:
    """A copy on one device, counted both ways (bytes/s).

    ``copied``: bytes copied over time. ``traffic``: bytes read and written over time, which is what a
    memory's peak counts.
    """

    copied: float
    traffic: float


def copy_rates(size: int, seconds: float) -> CopyRates:
    """Both rates of a same-device copy of ``size`` bytes in ``seconds``: N/t and 2N/t.

    The memory reads N and writes N (bib key ``nvbandwidth_48``).
    """
    _positive(size=size, seconds=seconds)
    return CopyRates(size / seconds, 2.0 * size / seconds)


def one_way(marketed: float) -> float:
    """One direction (bytes/s) of a link whose data sheet adds both, as NVLink's do.

    Source of the case: bib key ``ml_engineering_38``.
    """
    _positive(marketed=marketed)
    return marketed / 2.0


@dataclass(frozen=True)
class TwoWay:
    """One direction's rate while the other direction runs too; the rate of both together is not known.

    ``per_direction`` and ``alone`` in bytes/s; ``label`` is what a table prints.
    """

    per_direction: float
    alone: float
    verdict: Verdict

    @property
    def label(self) -> str:
        """The rate with what it counts."""
        return f"{_rate(self.per_direction)} per direction, both directions running"


def two_way(per_direction: float, alone: float) -> TwoWay:
    """Label a rate that was measured in one direction while the other one ran (bytes/s).

    ``alone``: the same direction by itself. About half is interference on the way to host memory, seen on
    sound machines, often unequal in the two directions; flagged only where the rate exceeds ``alone``,
    since then two directions were added (bib keys ``nvbandwidth_11``, ``nvbandwidth_53``,
    ``nvbandwidth_67``).
    """
    _positive(per_direction=per_direction, alone=alone)
    share = per_direction / alone
    seen = f"{_rate(per_direction)} in one direction while both run, {share:.0%} of {_rate(alone)} alone"
    if share > 1.0 + TOLERANCE:
        return TwoWay(per_direction, alone, Verdict(False, f"{seen}: this adds two directions"))
    return TwoWay(per_direction, alone, Verdict(True, f"{seen}: what the two cost each other"))


# --- time --------------------------------------------------------------------------------------


def duration(
    seconds: float,
    flop: float = 0.0,
    peak_flops: float = math.inf,
    moved: float = 0.0,
    peak_bandwidth: float = math.inf,
) -> Verdict:
    """Can the work have been done in ``seconds``?

    ``flop`` at ``peak_flops`` (FLOP/s, dense), ``moved`` bytes at ``peak_bandwidth`` (bytes/s): the
    longer of the two is the least time that there is. Raises :class:`MeasurementRefused` below it:
    without a synchronisation a host clock sees the launch only.
    """
    _positive(seconds=seconds, peak_flops=peak_flops, peak_bandwidth=peak_bandwidth)
    for name, value in (("flop", flop), ("moved", moved)):
        if not value >= 0:
            raise FieldError(name, value, ">= 0")
    bounds = {
        f"{flop:.4g} FLOP at {peak_flops / 1e12:.4g} TFLOP/s": flop / peak_flops,
        f"{_size(moved)} at {_rate(peak_bandwidth)}": moved / peak_bandwidth,
    }
    what = max(bounds, key=lambda name: bounds[name])
    least = bounds[what]
    if least == 0.0:
        raise FieldError("work", (flop, moved), "FLOP or bytes > 0, with their peak")
    if seconds * (1.0 + TOLERANCE) < least:
        raise MeasurementRefused(
            f"launch time only: {seconds * 1e3:.4g} ms, but {what} takes at least {least * 1e3:.4g} ms"
        )
    return Verdict(True, f"{seconds * 1e3:.4g} ms, {seconds / least:.2f} times the bound of {what}")


def asynchronous(source: str, target: str) -> Verdict:
    """Does a ``non_blocking`` copy between two kinds of memory run beside other work?

    ``source`` and ``target``: one of :data:`MEMORY`. A pageable end makes the driver stage the copy
    through the host, which blocks (bib keys ``pytorch_19571``, ``pytorch_39694``, ``pytorch_42539``).
    """
    ends = {"source": source, "target": target}
    for field, kind in ends.items():
        if kind not in MEMORY:
            raise FieldError(field, kind, f"one of {', '.join(MEMORY)}")
    pageable = [field for field, kind in ends.items() if kind == PAGEABLE]
    if pageable:
        return Verdict(
            False,
            f"not asynchronous: the {' and the '.join(pageable)} of the copy is pageable host memory, so the "
            "driver stages it and the host waits, non_blocking or not; no overlap is claimed",
        )
    return Verdict(True, f"asynchronous: {source} to {target}")


# --- queues ------------------------------------------------------------------------------------


def hardware_queues(environment: Mapping[str, str]) -> int:
    """Hardware queues between host and device that ``environment`` asks for, 1 to 32 (8 when unset).

    Source: bib key ``nvidia_cuda_guide``, environment variables.
    """
    text = environment.get(QUEUES, "").strip()
    if not text:
        return DEFAULT_QUEUES
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_QUEUES):
        raise FieldError(QUEUES, environment[QUEUES], f"1 to {MOST_QUEUES}, or unset")
    return int(text)


@dataclass(frozen=True)
class Launch:
    """One long piece of work in the order of launching: its name and the name of its stream."""

    name: str
    stream: str


def queueing(environment: Mapping[str, str], launches: Sequence[Launch], late: str) -> Verdict:
    """Will the work called ``late`` run beside what was launched before it?

    ``launches``: independent work in the order in which the host launches it. One hardware queue hands
    work over in that order, so whatever stands behind long work of another stream waits for it; work
    that was launched first is not held up by what comes after, which is why tensor parallelism asks for
    one queue. (Bib keys ``megatron_533``, ``megatron_636``, ``megatron_1468``.)
    """
    names = [launch.name for launch in launches]
    if late not in names or names.count(late) > 1:
        raise FieldError("late", late, f"exactly one of {', '.join(names)}")
    place = names.index(late)
    mine = launches[place].stream
    same = [x.name for x in launches[:place] if x.stream == mine]
    if same:
        return Verdict(False, f"no overlap: {late!r} follows {same[-1]!r} on the same stream, {mine!r}")
    earlier = launches[:place]
    if not earlier:
        return Verdict(True, f"{late!r} is launched first: nothing stands before it in any queue")
    queues = hardware_queues(environment)
    before = ", ".join(repr(x.name) for x in earlier)
    if queues == 1:
        return Verdict(
            False,
            f"no overlap: with {QUEUES}=1 there is one hardware queue, and {late!r} waits in it behind "
            f"{before}, launched earlier on another stream",
        )
    streams = len({launch.stream for launch in launches})
    if streams > queues:
        return Verdict(
            False,
            f"overlap is not sure: {streams} streams share {queues} hardware queues, so {late!r} may wait "
            f"behind {before}",
        )
    return Verdict(True, f"overlap: each of {streams} streams has one of {queues} hardware queues")


# --- clocks and data ---------------------------------------------------------------------------


def clock_change(before: float, after: float) -> float:
    """Change of a clock as a fraction of what it was (Hz, Hz): -0.196 for 1965 to 1580 MHz."""
    _positive(before=before, after=after)
    return after / before - 1.0


def clock_trace(hertz: Sequence[float]) -> Verdict:
    """Did the clock hold still? Compares the sample farthest from the first one with it (Hz).

    Source of the case: bib key ``flashinfer_2899``.
    """
    if not hertz:
        raise FieldError("hertz", 0, "at least one sample")
    first = hertz[0]
    last = max(hertz, key=lambda hz: abs(clock_change(first, hz)))
    change = clock_change(first, last)
    text = f"clock {first / 1e6:.0f} -> {last / 1e6:.0f} MHz ({change:+.1%})"
    return Verdict(abs(change) <= CLOCK_DRIFT, text)


@dataclass(frozen=True)
class Kept:
    """Values that remain after throttled ones were put aside; all of them where none would remain."""

    values: tuple[float, ...]
    verdict: Verdict


def unthrottled(values: Sequence[float], throttled: Sequence[bool]) -> Kept:
    """Put aside the samples taken while the clock was throttled, but never all of them.

    One flag for each value. Where every sample was throttled the result stands and is marked: a card at
    its power limit would otherwise be measured for ever (bib key ``flashinfer_2899``).
    """
    if len(values) != len(throttled):
        raise FieldError("throttled", len(throttled), f"one flag for each of {len(values)} values")
    if not values:
        raise FieldError("values", 0, "at least one")
    kept = tuple(v for v, bad in zip(values, throttled, strict=True) if not bad)
    if not kept:
        text = f"all {len(values)} samples were taken under a throttled clock: kept and marked"
        return Kept(tuple(values), Verdict(False, text))
    return Kept(kept, Verdict(True, f"{len(values) - len(kept)} of {len(values)} samples put aside"))


@dataclass(frozen=True)
class ClockEffect:
    """What a change of clocks does to two kinds of result."""

    bandwidth: Verdict
    compute: Verdict


def clock_effect(sm_before: float, sm_after: float, memory_before: float, memory_after: float) -> ClockEffect:
    """Which results survive a change of the SM and the memory clock (all Hz).

    A power cap lowers the SM clock and leaves the memory clock alone: FLOP/s are then those of another
    clock, the memory's bandwidth is not.
    """
    sm = clock_change(sm_before, sm_after)
    memory = clock_change(memory_before, memory_after)
    clocks = f"SM clock {sm:+.1%}, memory clock {memory:+.1%}"
    still = abs(memory) <= CLOCK_DRIFT
    held = abs(sm) <= CLOCK_DRIFT
    return ClockEffect(
        bandwidth=Verdict(
            still, f"{clocks}: the bandwidth is {'valid' if still else 'that of another clock'}"
        ),
        compute=Verdict(
            held, f"{clocks}: the compute rate is {'valid' if held else 'that of another clock'}"
        ),
    )


def gemm_input(nonzero: float) -> Verdict:
    """Is a GEMM's input like real data? ``nonzero``: fraction of its elements that are not 0, in [0, 1].

    Zeros switch fewer bits, draw less power and so run at a higher clock than random data.
    """
    if not 0.0 <= nonzero <= 1.0:
        raise FieldError("nonzero", nonzero, "0 to 1")
    if nonzero < LEAST_NONZERO:
        what = "all zeros" if nonzero == 0.0 else f"zeros for {1.0 - nonzero:.0%}"
        return Verdict(
            False, f"the GEMM input is {what}: it draws less power than real data and runs too fast"
        )
    return Verdict(True, f"the GEMM input is {nonzero:.0%} nonzero")


# --- published numbers -------------------------------------------------------------------------


def rounded_ratio(after: float, before: float, digit: float) -> Range:
    """k = after / before from published values that were rounded to a multiple of ``digit`` (> 0, same unit).

    Each value may be half a digit off either way; the first of them to reach 0 leaves no ratio at all.
    Example: 0.02 to 0.05 ms, rounded to 0.01, is 2.5 with a range of 1.8 to 3.7 (bib key ``nccl_1428``).
    """
    _positive(after=after, before=before, digit=digit)
    half = digit / 2.0
    if not before > half * (1 + 1e-9):
        raise FieldError("before", before, f"> {half:g}, half of the last digit")
    return Range(after / before, max(0.0, after - half) / (before + half), (after + half) / (before - half))


def traffic_share(rate: float, passes: tuple[float, float], peak: float) -> tuple[Range, Range]:
    """HBM traffic of a transfer of ``rate`` bytes/s that crosses the memory ``passes`` (least, most) times.

    Returns the traffic (bytes/s) and its share of ``peak`` (bytes/s), with the middle as the value.
    Source of "two to three times": bib key ``nccl_1428``.
    """
    _positive(rate=rate, peak=peak)
    low, high = passes
    if not 0 < low <= high:
        raise FieldError("passes", passes, "0 < least <= most")
    traffic = [rate * n for n in ((low + high) / 2.0, low, high)]
    return Range(*traffic), Range(*(t / peak for t in traffic))


def _positive(**fields: float) -> None:
    for name, value in fields.items():
        if not value > 0:
            raise FieldError(name, value, "> 0")


def _rate(value: float) -> str:
    return f"{value / 1e9:.4g} GB/s"


def _size(value: float) -> str:
    return f"{value / 2**20:.4g} MiB" if value >= 2**20 else f"{value:.0f} bytes"
