"""From samples to figures: k_comm, k_comp, the overlap fraction, and the verdict of the litmus.

The same functions serve measured, simulated and recorded results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ringi_lab.core import plausibility
from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.intervals import both_busy, contained, durations, overlap_fraction
from ringi_lab.core.result import Result, Samples
from ringi_lab.core.stats import Estimate, bootstrap, paired_ratio
from ringi_lab.core.trace import Counter, Span, Trace

if TYPE_CHECKING:  # the experiments import this module
    from ringi_lab.overlap import Overlap, SmFree

POPULAR = (1.1, 1.4)  # the k that is passed around; where it comes from nobody says
LEAD_IN = 1  # the first operation of a side starts on an idle machine and is not counted
LEAST_COMMON = 0.5  # of the shorter side: less common time than this is not an overlap
TRACE_SPANS = 400  # of one time line: more cannot be told apart on a page
MOST_DROPPED = 0.2  # of the trials may lack a contained operation before a series is refused

Posts = Sequence[float]


@dataclass(frozen=True)
class Block:
    """One trial: the fenceposts (s) of the GEMM alone, the copy alone, and both together."""

    gemm: Posts
    copy: Posts
    gemm_both: Posts
    copy_both: Posts


@dataclass(frozen=True)
class Summary:
    """The figures of one overlap result.

    ``k_comm`` and ``k_comp``: overlapped over solo time of a copy and of a GEMM, medians of the paired
    trials (two and two, as the A B B A order asks) with their 95% bootstrap intervals; None where it was refused (``result.notes`` says why).
    ``fraction``: the overlap fraction (1 = the shorter side is hidden, 0 = nothing gained). ``step``: time
    of the whole block together (s).
    """

    k_comm: Estimate | None
    k_comp: Estimate | None
    fraction: Estimate
    step: Estimate


def summary(result: Result) -> Summary:
    """The figures of an ``overlap`` result; raises :class:`FieldError` for another experiment's."""
    if result.experiment != "overlap":
        raise FieldError("experiment", result.experiment, "overlap")
    s = result.samples
    couple = 1 if result.parameters["order"] == "sequential" else 2

    def ratio(over: str, solo: str) -> Estimate | None:
        return paired_ratio(s[over].values, s[solo].values, couple) if over in s else None

    pairs = zip(s["gemm_alone"].values, s["copy_alone"].values, s["together"].values, strict=True)
    return Summary(
        k_comm=ratio("copy_overlap", "copy_solo"),
        k_comp=ratio("gemm_overlap", "gemm_solo"),
        fraction=bootstrap([overlap_fraction(*p) for p in pairs]),
        step=s["together"].bootstrap(),
    )


def samples(blocks: Sequence[Block]) -> tuple[dict[str, Samples], list[str]]:
    """The raw samples of some trials (s, one value a trial) and the notes on what was refused.

    Raises :class:`MeasurementRefused` when the two sides did not run at the same time.
    """
    if not blocks:
        raise FieldError("blocks", 0, "at least one trial")
    rows: dict[str, list[float | None]] = {
        name: []
        for name in (
            "gemm_solo",
            "copy_solo",
            "gemm_overlap",
            "copy_overlap",
            "gemm_alone",
            "copy_alone",
            "together",
        )
    }
    for block in blocks:
        window = both_busy(block.gemm_both, block.copy_both)
        shorter = min(p[-1] - p[0] for p in (block.gemm_both, block.copy_both))
        if window[1] - window[0] < LEAST_COMMON * shorter:
            raise MeasurementRefused(
                f"no overlap: the two sides had only {max(0.0, window[1] - window[0]) * 1e3:.3f} ms in common, "
                f"of {shorter * 1e3:.3f} ms of the shorter one (one queue for both, as with "
                "CUDA_DEVICE_MAX_CONNECTIONS=1, looks like this)"
            )
        rows["gemm_solo"].append(_mean(durations(block.gemm)[LEAD_IN:]))
        rows["copy_solo"].append(_mean(durations(block.copy)[LEAD_IN:]))
        rows["gemm_overlap"].append(_mean(contained(block.gemm_both, window, LEAD_IN)))
        rows["copy_overlap"].append(_mean(contained(block.copy_both, window, LEAD_IN)))
        rows["gemm_alone"].append(block.gemm[-1] - block.gemm[0])
        rows["copy_alone"].append(block.copy[-1] - block.copy[0])
        start = min(block.gemm_both[0], block.copy_both[0])
        rows["together"].append(max(block.gemm_both[-1], block.copy_both[-1]) - start)
    return _complete(rows, len(blocks))


def _complete(rows: dict[str, list[float | None]], trials: int) -> tuple[dict[str, Samples], list[str]]:
    notes = []
    for name, other in (("gemm_overlap", "copy"), ("copy_overlap", "GEMM")):
        missing = sum(v is None for v in rows[name])
        if missing > MOST_DROPPED * trials:
            del rows[name]
            side = name.split("_")[0]
            notes.append(
                f"k of the {side} refused: in {missing} of {trials} trials no {side} operation lay wholly "
                f"inside the time in which the {other} side ran"
            )
    keep = [i for i in range(trials) if all(row[i] is not None for row in rows.values())]
    if not keep:
        raise MeasurementRefused("no trial has a counted operation on each side: lengthen the block")
    if len(keep) < trials:
        notes.append(f"{trials - len(keep)} of {trials} trials dropped: a side had no counted operation")
    return {n: Samples("s", tuple(row[i] for i in keep)) for n, row in rows.items()}, notes  # type: ignore[misc]


def needs_sm(result: Result) -> bool:
    """The litmus' verdict: True when the copy could not finish while every SM was held.

    ``copy_end`` and ``hold_end`` are seconds from the start of the hold. Refuses (MeasurementRefused) when
    the trials disagree, or a copy ends so late that the answer would be a guess.
    """
    if result.experiment != "sm_free":
        raise FieldError("experiment", result.experiment, "sm_free")
    verdicts = set()
    for copy_end, hold_end in zip(
        result.samples["copy_end"].values, result.samples["hold_end"].values, strict=True
    ):
        if 0.9 * hold_end < copy_end < hold_end:
            raise MeasurementRefused(
                f"the copy ended at {copy_end * 1e3:.2f} of {hold_end * 1e3:.2f} ms: hold the SMs for longer"
            )
        verdicts.add(copy_end >= hold_end)
    if len(verdicts) != 1:
        raise MeasurementRefused("some copies finished under the hold and some did not")
    return verdicts.pop()


def kind(e: Overlap) -> str:
    """The competitor's kind, for which errors are reported: link, partition, sm or d2d."""
    if e.copy in ("h2d", "d2h", "p2p"):
        return "link"
    return "partition" if e.sm_margin else e.copy


def check_pinned(copy: str, pinned: bool) -> None:
    """Refuse pageable host memory: its copies are staged by the host and do not run asynchronously."""
    if copy in ("h2d", "d2h") and not pinned:
        ends = (plausibility.PAGEABLE, plausibility.ON_DEVICE)
        found = plausibility.asynchronous(*(ends if copy == "h2d" else reversed(ends)))
        raise MeasurementRefused(f"pinned = False: {found.reason}")


def mean_run(posts: Posts, ran: Sequence[tuple[float, float]], end: float | None = None) -> float:
    """Mean time that copies really ran (s), without their wait for an SM; the lead-in is left out.

    ``ran``: (start, end) of each copy; with ``end`` only those that ended by then are counted.
    """
    end = posts[-1] if end is None else end
    counted = [t - s for s, t in ran[LEAD_IN:] if t <= end] or [ran[0][1] - ran[0][0]]
    return sum(counted) / len(counted)


def block_trace(
    e: Overlap,
    block: Block,
    ran: Sequence[tuple[float, float]] | None,
    source: str,
    device: str,
    counters: tuple[Counter, ...] = (),
) -> Trace:
    """One block as a time line; where it is known when a copy really ran, its waiting is drawn apart."""
    lanes = ("GEMM stream", "copy stream")
    start = min(block.gemm_both[0], block.copy_both[0])
    spans = [
        Span(lanes[0], f"GEMM {i}", a - start, b - start, "gemm")
        for i, (a, b) in enumerate(zip(block.gemm_both, block.gemm_both[1:], strict=False))
    ]
    for i, (a, b) in enumerate(zip(block.copy_both, block.copy_both[1:], strict=False)):
        begun = a
        if ran is not None:
            begun = min(max(a, ran[i][0]), b)
            spans.append(Span(lanes[1], f"copy {i} waits for an SM", a - start, begun - start, "wait"))
        spans.append(Span(lanes[1], f"copy {i}", begun - start, b - start, "copy", {"bytes": e.copy_bytes}))
    if len(spans) > TRACE_SPANS:
        # Both lanes are cut at one time, so that the picture still shows one and the same stretch.
        cut = sorted(s.end for s in spans)[TRACE_SPANS - 1]
        spans = [s for s in spans if s.end <= cut]
        counters = tuple(replace(c, points=tuple(p for p in c.points if p[0] <= cut)) for c in counters)
    title = f"GEMM {e.gemm_n} beside {e.copy} copies of {e.copy_bytes / 2**20:g} MiB"
    return Trace(title, source, device, lanes, tuple(spans), (), counters)


def litmus_trace(
    e: SmFree, hold_end: float, copy_start: float, copy_end: float, source: str, device: str
) -> Trace:
    """The litmus as a time line (all times in s from the start of the hold)."""
    lanes = ("all SMs", "copy stream")
    spans = (
        Span(lanes[0], "held by a spinning kernel", 0.0, hold_end, "spin"),
        Span(lanes[1], f"{e.copy} copy", copy_start, copy_end, "copy", {"bytes": e.copy_bytes}),
    )
    return Trace(f"Does a {e.copy} copy need an SM?", source, device, lanes, spans)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
