"""The errors a user can meet. Each says what was wrong, what it was, and what would be right."""

from __future__ import annotations

from typing import Any


class RingiError(Exception):
    """Base of every error that this package raises on purpose."""


class FieldError(RingiError, ValueError):
    """A value outside its limits: names the field, the value and the limit."""

    def __init__(self, field: str, value: Any, limit: str) -> None:
        super().__init__(f"{field} = {value!r}: must be {limit}")
        self.field, self.value, self.limit = field, value, limit


class RecordingError(RingiError, ValueError):
    """A recording that cannot be trusted: names the file, the field and why."""

    def __init__(self, file: str, field: str, why: str) -> None:
        super().__init__(f"{file}: {field}: {why}")
        self.file, self.field, self.why = file, field, why


class GpuUnavailable(RingiError, RuntimeError):
    """Something that a measurement needs is missing: names it, what was found and what is needed."""

    def __init__(self, missing: str, found: str, needed: str) -> None:
        super().__init__(f"cannot measure: {missing}: found {found}; needed {needed}")
        self.missing, self.found, self.needed = missing, found, needed


class MeasurementRefused(RingiError, RuntimeError):
    """A measurement that ran but does not show what it should: says what was seen and why it is refused."""
