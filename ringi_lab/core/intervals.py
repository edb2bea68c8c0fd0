"""Arithmetic on fenceposts: what ran inside what.

A side of a block is its list of *posts* (s): the start, then the end of each group of operations, all
on one time axis. Measured and simulated blocks go through the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringi_lab.core.errors import FieldError


def durations(posts: Sequence[float]) -> list[float]:
    """Time from each post to the next (s); waiting in a queue counts as part of the operation behind it."""
    if len(posts) < 2:
        raise FieldError("posts", len(posts), "at least two")
    if any(b < a for a, b in zip(posts, posts[1:], strict=False)):
        raise FieldError("posts", "times", "in order")
    return [b - a for a, b in zip(posts, posts[1:], strict=False)]


def both_busy(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The window in which both sides had work queued or running; empty if ``end <= start``."""
    return max(first[0], second[0]), min(first[-1], second[-1])


def contained(posts: Sequence[float], window: tuple[float, float], skip: int = 0) -> list[float]:
    """Durations of the operations that lie wholly inside ``window``, the first ``skip`` left out.

    An operation that straddles the end of the window ran partly without its competitor and says nothing
    about either state, so it is not counted.
    """
    start, end = window
    pairs = list(zip(posts, posts[1:], strict=False))[skip:]
    return [b - a for a, b in pairs if a >= start and b <= end]


def overlap_fraction(gemm_alone: float, copy_alone: float, together: float) -> float:
    """How much of the shorter side was hidden: 1 = all of it, 0 = none (s, s, s; all > 0).

    (T_serial - T_together) / (T_serial - max(T_gemm, T_copy)). Below 0 the two cost more together than
    one after the other; above 1 a side ran faster than alone (a clock that was not power limited, say).
    """
    for name, value in (("gemm_alone", gemm_alone), ("copy_alone", copy_alone), ("together", together)):
        if not value > 0:
            raise FieldError(name, value, "> 0 s")
    return (gemm_alone + copy_alone - together) / min(gemm_alone, copy_alone)
