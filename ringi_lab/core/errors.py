"""The errors a user can meet. Each says what was wrong, what it was, and what would be right.

Each keeps its parts in ``args`` too, so that it survives pickling and SimPy's re-raising.
"""

from __future__ import annotations

from typing import Any


class RingiError(Exception):
    """Base of every error that this package raises on purpose."""


class FieldError(RingiError, ValueError):
    """A value outside its limits: names the field, the value and the limit."""

    def __init__(self, field: str, value: Any, limit: str) -> None:
        super().__init__(field, value, limit)
        self.field, self.value, self.limit = field, value, limit

    def __str__(self) -> str:
        return f"{self.field} = {self.value!r}: must be {self.limit}"


class RecordingError(RingiError, ValueError):
    """A recording that cannot be trusted: names the file, the field and why."""

    def __init__(self, file: str, field: str, why: str) -> None:
        super().__init__(file, field, why)
        self.file, self.field, self.why = file, field, why

    def __str__(self) -> str:
        return f"{self.file}: {self.field}: {self.why}"


class GpuUnavailable(RingiError, RuntimeError):
    """Something that a measurement needs is missing: names it, what was found and what is needed."""

    def __init__(self, missing: str, found: str, needed: str) -> None:
        super().__init__(missing, found, needed)
        self.missing, self.found, self.needed = missing, found, needed

    def __str__(self) -> str:
        return f"cannot measure: {self.missing}: found {self.found}; needed {self.needed}"


class MeasurementRefused(RingiError, RuntimeError):
    """A measurement that ran but does not show what it should: says what was seen and why it is refused."""
