"""How far a model is from the recordings, on points that no fit has seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ringi_lab.core.errors import FieldError
from ringi_lab.core.stats import median


@dataclass(frozen=True)
class Point:
    """One quantity of one experiment: what the model says and what was recorded (both > 0).

    ``kind`` groups points whose errors belong together; ``spread`` is the model's own range: |ln(predicted/recorded)| that it
    claims not to exceed; ``held_out`` says whether the point was
    kept out of every fit; ``label`` names it for people.
    """

    kind: str
    quantity: str
    label: str
    predicted: float
    recorded: float
    spread: float
    held_out: bool

    def __post_init__(self) -> None:
        for name in ("predicted", "recorded"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise FieldError(f"{name} of {self.label}", getattr(self, name), "a finite number > 0")

    @property
    def error(self) -> float:
        """Relative error, predicted / recorded - 1."""
        return self.predicted / self.recorded - 1.0

    @property
    def inside(self) -> bool:
        """True when the recorded value lies within the model's own range."""
        return abs(math.log(self.predicted / self.recorded)) <= self.spread


@dataclass(frozen=True)
class Bound:
    """What a model promises for one kind: median and worst absolute relative error."""

    median: float
    worst: float


@dataclass(frozen=True)
class Row:
    """The errors of one kind and quantity on the points kept out of the fit.

    ``excess_error``: median error of (quantity - 1), which is what a slowdown adds, as a fraction of the
    recorded excess where that is over 0.1 (None where no such point exists). ``constant_error``: median
    error there of the best constant guess; ``inside``: fraction of points within the model's own range.
    """

    kind: str
    quantity: str
    count: int
    median: float
    worst: float
    worst_at: str
    excess_error: float | None
    model_error: float | None
    constant_error: float | None
    inside: float
    bound: Bound

    @property
    def kept(self) -> bool:
        """True when the promise holds."""
        return self.median <= self.bound.median and self.worst <= self.bound.worst

    def to_dict(self) -> dict[str, Any]:
        """JSON data, with the verdict."""
        return {**asdict(self), "kept": self.kept}


ALL = "all"
LARGE = 0.1  # an excess over 1 beyond which a slowdown matters, and a constant guess is compared


def rows(points: Iterable[Point], bounds: Mapping[tuple[str, str], Bound]) -> list[Row]:
    """One :class:`Row` for each kind and quantity of the held-out ``points``, in the order of ``bounds``.

    The kind ``all`` gathers the points of every kind. Raises :class:`FieldError` when a promised kind has no held-out point, or a point has no promise.
    """
    groups: dict[tuple[str, str], list[Point]] = {key: [] for key in bounds}
    for point in points:
        if not point.held_out:
            continue
        if (point.kind, point.quantity) not in groups:
            raise FieldError("bounds", (point.kind, point.quantity), "given for every kind of point")
        groups[point.kind, point.quantity].append(point)
        if (ALL, point.quantity) in groups:
            groups[ALL, point.quantity].append(point)
    return [_row(group, bounds[key], key) for key, group in groups.items()]


def _row(points: Sequence[Point], bound: Bound, key: tuple[str, str]) -> Row:
    if not points:
        raise FieldError("points", key, "at least one held-out point of each promised kind")
    errors = [abs(p.error) for p in points]
    worst = max(points, key=lambda p: abs(p.error))
    large = [p for p in points if abs(p.recorded - 1.0) > LARGE]
    excess = model = constant = None
    if large:
        excess = median([abs(p.predicted - p.recorded) / abs(p.recorded - 1.0) for p in large])
        model = median([abs(p.error) for p in large])
        constant = best_constant([p.recorded for p in large])
    return Row(
        kind=key[0],
        quantity=key[1],
        count=len(points),
        median=median(errors),
        worst=max(errors),
        worst_at=worst.label,
        excess_error=excess,
        model_error=model,
        constant_error=constant,
        inside=sum(p.inside for p in points) / len(points),
        bound=bound,
    )


def best_constant(recorded: Sequence[float]) -> float:
    """Median relative error of the one number that guesses ``recorded`` best (tried: each of them)."""
    return min(median([abs(guess / r - 1.0) for r in recorded]) for guess in recorded)


def table(found: Sequence[Row]) -> str:
    """The rows as aligned text, the verdict last."""

    def percent(value: float | None) -> str:
        return "—" if value is None else f"{value:.1%}"

    head = (
        "kind",
        "quantity",
        "points",
        "median",
        "worst",
        "promised",
        "k>1.1: model",
        "constant",
        "in range",
        "",
    )
    lines = [head] + [
        (
            r.kind,
            r.quantity,
            str(r.count),
            percent(r.median),
            percent(r.worst),
            f"{percent(r.bound.median)} / {percent(r.bound.worst)}",
            percent(r.model_error),
            percent(r.constant_error),
            percent(r.inside),
            "kept" if r.kept else "BROKEN",
        )
        for r in found
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
