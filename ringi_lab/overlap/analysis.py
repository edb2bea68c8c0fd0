"""From samples to figures: k_comm, k_comp, the overlap fraction, and the verdict of the litmus.

The same functions serve measured, simulated and recorded results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.intervals import both_busy, contained, durations, overlap_fraction
from ringi_lab.core.result import Result, Samples
from ringi_lab.core.stats import Estimate, bootstrap, paired_ratio

LEAD_IN = 1  # the first operation of a side starts on an idle machine and is not counted
LEAST_COMMON = 0.5  # of the shorter side: less common time than this is not an overlap
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
    trials with their 95% bootstrap intervals; None where it was refused (``result.notes`` says why).
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

    def ratio(over: str, solo: str) -> Estimate | None:
        return paired_ratio(s[over].values, s[solo].values) if over in s else None

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
        for name in ("gemm_solo", "copy_solo", "gemm_overlap", "copy_overlap", "gemm_alone", "copy_alone", "together")
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


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
