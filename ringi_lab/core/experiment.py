"""One experiment, three sources: measured on this GPU, simulated for a named GPU, or recorded."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

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

    def simulate(self, gpu: str) -> Result:
        """What the model says for a GPU specification, by name."""
        raise NotImplementedError

    def measure(self) -> Result:
        """What the GPU that is present does. Raises :class:`GpuUnavailable` when it cannot be asked."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields as JSON data; with ``name`` they identify a recorded result."""
        return dataclasses.asdict(self)


def run(experiment: Experiment, on: str = "auto", gpu: str = "H200") -> Result:
    """Run ``experiment`` and say where the numbers come from (``result.source``, ``result.device``).

    ``on="gpu"`` measures and never falls back: it raises :class:`GpuUnavailable` saying what is missing.
    ``on="sim"`` simulates for the specification ``gpu``. ``on="auto"`` measures where that is possible
    and simulates otherwise; the reason for not measuring is then in ``result.notes``.
    """
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
