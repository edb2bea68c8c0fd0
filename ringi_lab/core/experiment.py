"""One experiment, three sources: measured on this GPU, simulated for a named GPU, or recorded."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from ringi_lab.core.errors import FieldError, GpuUnavailable
from ringi_lab.core.result import Result

ON = ("auto", "gpu", "sim")


@dataclass(frozen=True)
class Experiment:
    """Base of all experiments: a frozen dataclass of parameters in SI units.

    A subclass sets ``name`` (unique; also the name of its recording) and implements ``simulate`` and
    ``measure``. Its fields must be JSON data. Subclasses check their fields in ``__post_init__`` and
    raise :class:`FieldError`.
    """

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse a field of another type than it is declared with; subclasses call this first."""
        for field, declared in get_type_hints(type(self)).items():
            if get_origin(declared) is ClassVar or declared is ClassVar:
                continue
            value, kinds = getattr(self, field), get_args(declared) or (declared,)
            if not any(_is(value, kind) for kind in kinds):
                names = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
                raise FieldError(field, value, f"of type {names}")

    def simulate(self, gpu: str) -> Result:
        """What the model says for a GPU specification, by name."""
        raise NotImplementedError

    def measure(self) -> Result:
        """What the GPU that is present does. Raises :class:`GpuUnavailable` when it cannot be asked."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields as JSON data; with ``name`` they identify a recorded result."""
        return dataclasses.asdict(self)


def _is(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)  # True is no count
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)


def run(experiment: Experiment, on: str = "auto", gpu: str = "H200") -> Result:
    """Run ``experiment`` and say where the numbers come from (``result.source``, ``result.device``).

    ``on="gpu"`` measures and never falls back: it raises :class:`GpuUnavailable` saying what is missing.
    ``on="sim"`` simulates for the specification ``gpu``. ``on="auto"`` measures where that is possible
    and simulates otherwise; the reason for not measuring is then in ``result.notes``.
    """
    if not isinstance(experiment, Experiment):
        raise FieldError("experiment", experiment, "an Experiment, such as Overlap()")
    if on not in ON:
        raise FieldError("on", on, f"one of {', '.join(ON)}")
    if on == "sim":
        return experiment.simulate(gpu)
    if on == "gpu":
        return experiment.measure()
    try:
        return experiment.measure()
    except GpuUnavailable as missing:
        result = experiment.simulate(gpu)
        return dataclasses.replace(result, notes=(*result.notes, f"simulated, since {missing}"))
