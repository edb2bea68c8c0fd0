"""Who gets how much of what is shared: max-min fair rates, the standard library only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringi_lab.core.errors import FieldError


@dataclass(frozen=True)
class Demand:
    """``count`` equal flows that each want at most ``cap`` (units/s) and weigh ``weight``."""

    count: int
    cap: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.count < 0:
            raise FieldError("count", self.count, ">= 0")
        if not self.cap > 0:
            raise FieldError("cap", self.cap, "> 0")
        if not self.weight > 0:
            raise FieldError("weight", self.weight, "> 0")


def fair_level(capacity: float, demands: Sequence[Demand]) -> float:
    """The weighted max-min water level: each flow gets ``min(cap, weight * level)``.

    ``capacity`` in units/s, > 0. The level is infinite when all caps fit together. Weighted by bytes in
    flight, the level is one over the loaded latency: rate = bytes in flight / latency, Little's law
    (bib keys ``bertsekas1992``, section 6.5, and ``little1961``).
    """
    if not capacity > 0:
        raise FieldError("capacity", capacity, "> 0")
    # Flows leave the waterline in the order of the level at which their cap is reached.
    waiting = sorted((d for d in demands if d.count), key=lambda d: d.cap / d.weight)
    left = capacity
    # Weights of a demand and all after it, summed from the end: subtracting would lose the small ones.
    weights = list(itertools.accumulate(d.count * d.weight for d in reversed(waiting)))
    for demand, weight in zip(waiting, reversed(weights), strict=True):
        if left < weight * (demand.cap / demand.weight):
            return left / weight
        left -= demand.count * demand.cap
    return math.inf


def fair_rates(capacity: float, demands: Sequence[Demand]) -> list[float]:
    """Max-min fair rate of one flow of each demand (units/s), in the order given.

    No flow gets more than its cap, all together get no more than ``capacity``, and nobody could get more
    without taking it from a flow that has less (by weight).
    """
    level = fair_level(capacity, demands)
    return [min(d.cap, d.weight * level) for d in demands]


def bottleneck(demands: Mapping[str, float], capacities: Mapping[str, float]) -> tuple[str, float]:
    """The resource that bounds a job alone and the time it takes there (s): ``max(demand / capacity)``.

    Both map resource names to amounts (units) and capacities (units/s). Source: bib key
    ``williams2009roofline``.
    """
    missing = demands.keys() - capacities.keys()
    if not demands:
        raise FieldError("demands", 0, "at least one")
    if missing:
        raise FieldError("capacities", sorted(missing), f"given for every demand ({', '.join(demands)})")
    for name in demands:
        if not capacities[name] > 0:
            raise FieldError(f"capacity of {name!r}", capacities[name], "> 0")
    times = {name: demands[name] / capacities[name] for name in demands}
    worst = max(times, key=lambda name: times[name])
    return worst, times[worst]


def sm_share_bound(sms: int, taken: int) -> float:
    """Least slowdown of an SM-bound job when ``taken`` of ``sms`` SMs are held by something else.

    The compute ceiling is (sms - taken)/sms; one communication CTA can hold a whole SM (bib keys
    ``nccl_689``, ``nccl_1432``).
    """
    if not 0 <= taken < sms:
        raise FieldError("taken", taken, f"0 to {sms - 1}")
    return sms / (sms - taken)


def wave_bound(tiles: int, sms: int, taken: int) -> float:
    """The same bound with whole waves: ``ceil(tiles/(sms - taken)) / ceil(tiles/sms)``, one CTA an SM."""
    if tiles < 1:
        raise FieldError("tiles", tiles, ">= 1")
    if not 0 <= taken < sms:
        raise FieldError("taken", taken, f"0 to {sms - 1}")
    return math.ceil(tiles / (sms - taken)) / math.ceil(tiles / sms)
