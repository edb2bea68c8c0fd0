"""What there is to run: every topic folder is found by itself, with its experiments and its recordings."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import ringi_lab
from ringi_lab.core.errors import FieldError
from ringi_lab.core.experiment import Experiment

NOT_TOPICS = {"core", "recordings"}


def topics() -> list[str]:
    """Names of the topic packages, in alphabetical order."""
    return sorted(
        m.name for m in pkgutil.iter_modules(ringi_lab.__path__) if m.ispkg and m.name not in NOT_TOPICS
    )


def experiments() -> dict[str, type[Experiment]]:
    """Every experiment class of every topic, by its name."""
    for topic in topics():
        importlib.import_module(f"ringi_lab.{topic}")
    ours = (cls for cls in Experiment.__subclasses__() if cls.__module__.startswith("ringi_lab."))
    return {cls.name: cls for cls in ours}


def recordings(topic: str) -> dict[str, list[Experiment]]:
    """What a topic records: for each experiment name the points of its grid."""
    return {name: points() for name, points in part(topic, "grid").RECORDED.items()}


def traced(topic: str) -> tuple[Experiment, ...]:
    """The points whose time lines are recorded too."""
    return part(topic, "grid").TRACED


def part(topic: str, name: str) -> ModuleType:
    """One module of a topic, such as its ``grid``; raises :class:`FieldError` for an unknown topic."""
    if topic not in topics():
        raise FieldError("topic", topic, f"one of {', '.join(topics())}")
    return importlib.import_module(f"ringi_lab.{topic}.{name}")
