"""Medians, ratios and bootstrap intervals, in the standard library, the same on every run for one seed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringi_lab.core.errors import FieldError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with its bootstrap interval: ``low <= value <= high``, and the number of samples."""

    value: float
    low: float
    high: float
    count: int

    @property
    def spread(self) -> float:
        """Width of the interval as a fraction of the value (0 for a value of 0)."""
        return (self.high - self.low) / self.value if self.value else 0.0


def median(samples: Sequence[float]) -> float:
    """Median of at least one sample; raises :class:`FieldError` for none (never 0.0 for "no data")."""
    if not samples:
        raise FieldError("samples", 0, "at least one sample")
    return statistics.median(samples)


def bootstrap(
    samples: Sequence[float],
    statistic: Callable[[Sequence[float]], float] = median,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Percentile bootstrap of ``statistic`` (source: bib key ``efron1994bootstrap``, chapter 13).

    ``confidence`` in (0, 1); ``resamples`` >= 100. The interval is deterministic for a seed.
    """
    if not 0.0 < confidence < 1.0:
        raise FieldError("confidence", confidence, "between 0 and 1, both excluded")
    if resamples < 100:
        raise FieldError("resamples", resamples, ">= 100")
    if not all(math.isfinite(s) for s in samples):
        raise FieldError("samples", list(samples), "finite numbers")
    value = statistic(samples)
    draw = random.Random(seed)
    drawn = sorted(statistic(draw.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = (1.0 - confidence) / 2.0
    low = drawn[round(tail * (resamples - 1))]
    high = drawn[round((1.0 - tail) * (resamples - 1))]
    # A percentile interval can miss the value itself for very few samples; it never should on paper.
    return Estimate(value, min(low, value), max(high, value), len(samples))


def paired_ratio(
    numerator: Sequence[float], denominator: Sequence[float], couple: int = 1, **options
) -> Estimate:
    """Median of the trial-by-trial ratios: drift that meets both sides of a trial cancels.

    Both sequences have one value per trial, in the same order; denominators are > 0. ``couple``
    neighbouring trials are summed before they are divided: 2 for trials taken A B B A, where only the two
    together put both sides at the same mean time. A last incomplete couple is left out, unless it is the
    only one. ``options`` go to :func:`bootstrap`.
    """
    if len(numerator) != len(denominator):
        raise FieldError("trials", (len(numerator), len(denominator)), "the same number on both sides")
    if couple < 1:
        raise FieldError("couple", couple, ">= 1")
    if not numerator:
        raise FieldError("trials", 0, "at least one")
    if not all(d > 0 for d in denominator):
        raise FieldError("denominator", min(denominator), "> 0")
    starts = range(0, max(1, len(numerator) - couple + 1), couple)
    ratios = [sum(numerator[i : i + couple]) / sum(denominator[i : i + couple]) for i in starts]
    return bootstrap(ratios, **options)
