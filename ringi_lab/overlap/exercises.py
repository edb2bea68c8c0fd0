"""The graded questions of lab 4. Marks come from the simulator's facts, never from a clock.

So a student gets the same mark with a GPU and without one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ringi_lab.core.errors import FieldError
from ringi_lab.core.experiment import run
from ringi_lab.overlap import MiB, Overlap, analysis
from ringi_lab.overlap.grid import MARGINS, step

CAUSES = ("queueing", "contention", "drift")
NEAR = 1.25  # a prediction within this factor gets the full points, within its square half of them


@dataclass(frozen=True)
class Mark:
    """Points for one answer, out of how many, and why."""

    points: float
    of: float
    words: str

    def __str__(self) -> str:
        return f"{self.points:g} of {self.of:g} points: {self.words}"


def prediction(k_comm: float, cause: str) -> Mark:
    """Mark a predicted k_comm (> 0) of the d2d copy of 256 MiB beside GEMM 8192, and its main cause."""
    _check_cause(cause)
    if not (isinstance(k_comm, int | float) and math.isfinite(k_comm) and k_comm > 0):
        raise FieldError("k_comm", k_comm, "a number > 0")
    result = run(Overlap(8192, "d2d", 256 * MiB), on="sim")
    right = analysis.summary(result).k_comm.value
    factor = max(k_comm / right, right / k_comm)
    points = 2.0 if factor <= NEAR else 1.0 if factor <= NEAR**2 else 0.0
    bonus = 1.0 if cause == "queueing" else 0.0
    words = f"you said {k_comm:g}, the model says {right:.1f}"
    words += (
        "; the cause is right"
        if bonus
        else "; the copy keeps its speed once it runs: what does it do before?"
    )
    return Mark(points + bonus, 3.0, words)


def quota(gemm_n: int, sms: int) -> Mark:
    """Mark the number of SMs given to the copy that makes the step of ``gemm_n`` shortest, by the model.

    ``gemm_n``: one of the steps of :data:`ringi_lab.overlap.grid.STEP_WORK`; ``sms``: one of the margins
    tried. A number whose step is within 2% of the shortest is right too.
    """
    if sms not in MARGINS:
        raise FieldError("sms", sms, f"one of {', '.join(map(str, MARGINS))}")
    steps = {margin: run(step(gemm_n, margin), on="sim").median("together") for margin in MARGINS}
    best = min(steps.values())
    over = steps[sms] / best - 1
    points = 3.0 if over <= 0.02 else 1.0 if over <= 0.08 else 0.0
    return Mark(points, 3.0, f"your step takes {steps[sms] * 1e3:.1f} ms, the shortest {best * 1e3:.1f} ms")


def diagnosis(cause: str) -> Mark:
    """Mark the cause of a k_comp that is over 1 with the solo trials first and 1.0 with them interleaved."""
    _check_cause(cause)
    if cause == "drift":
        return Mark(
            2.0, 2.0, "right: the order of the trials cannot change what two kernels do to each other"
        )
    return Mark(0.0, 2.0, f"{cause} would show in both orders")


def _check_cause(cause: str) -> None:
    if cause not in CAUSES:
        raise FieldError("cause", cause, f"one of {', '.join(CAUSES)}")
