"""A time line: what ran where and when, ready to be drawn, replayed or exported.

A :class:`Trace` is the only thing that the player and the plots know. It is plain data made of the
standard library, so the simulators can build one inside a browser too. Times are seconds from the
trace's own zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ringi_lab.core.errors import FieldError

SCHEMA = "ringi-trace/1"
SOURCES = ("simulated", "measured", "recorded")


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time on one lane.

    ``lane`` names one of the trace's lanes; ``start`` and ``end`` are seconds, ``start <= end``;
    ``kind`` chooses the colour (spans of one kind look alike); ``args`` is shown on request and must
    be JSON data.
    """

    lane: str
    name: str
    start: float
    end: float
    kind: str = "work"
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one instant (seconds) on one lane."""

    lane: str
    name: str
    time: float
    kind: str = "event"
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counter:
    """A quantity that holds its value from one point to the next (a step function).

    ``points`` are ``(time in s, value in unit)`` with times that never go back; ``maximum``, in the
    same unit, is what the drawing scales to (a physical peak where there is one).
    """

    name: str
    unit: str
    points: tuple[tuple[float, float], ...]
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A checked time line.

    ``source`` is one of ``simulated``, ``measured``, ``recorded`` and ``device`` names the machine or
    the specification: both are always drawn, so that a simulated line cannot pass for a measured one.
    Raises :class:`~ringi_lab.core.errors.FieldError` for an unknown lane, a span that ends before it
    starts, or a time that is not a finite number.
    """

    title: str
    source: str
    device: str
    lanes: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    events: tuple[Event, ...] = ()
    counters: tuple[Counter, ...] = ()

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise FieldError("source", self.source, f"one of {', '.join(SOURCES)}")
        if len(set(self.lanes)) != len(self.lanes):
            raise FieldError("lanes", self.lanes, "names that are all different")
        known = set(self.lanes)
        for span in self.spans:
            if span.lane not in known:
                raise FieldError("span.lane", span.lane, f"one of {', '.join(self.lanes)}")
            if not (math.isfinite(span.start) and math.isfinite(span.end) and span.start <= span.end):
                raise FieldError("span", (span.start, span.end), "finite, and start <= end")
        for event in self.events:
            if event.lane not in known:
                raise FieldError("event.lane", event.lane, f"one of {', '.join(self.lanes)}")
            if not math.isfinite(event.time):
                raise FieldError("event.time", event.time, "a finite number")
        for counter in self.counters:
            times = [t for t, _ in counter.points]
            if any(b < a for a, b in zip(times, times[1:], strict=False)):
                raise FieldError(f"counter {counter.name!r}", "points", "times that never go back")
            if not all(math.isfinite(x) for point in counter.points for x in point):
                raise FieldError(f"counter {counter.name!r}", "points", "finite numbers")
            if counter.maximum is not None and not (math.isfinite(counter.maximum) and counter.maximum > 0):
                raise FieldError(
                    f"maximum of counter {counter.name!r}", counter.maximum, "finite and > 0, or None"
                )

    @property
    def start(self) -> float:
        """Time of the first thing in the trace (s); 0.0 for an empty trace."""
        return min(self._times(), default=0.0)

    @property
    def end(self) -> float:
        """Time of the last thing in the trace (s); 0.0 for an empty trace."""
        return max(self._times(), default=0.0)

    def _times(self) -> list[float]:
        times = [t for s in self.spans for t in (s.start, s.end)]
        times += [e.time for e in self.events]
        times += [t for c in self.counters for t, _ in c.points]
        return times

    def on(self, lane: str) -> tuple[Span, ...]:
        """The spans of one lane in order of their start."""
        if lane not in self.lanes:
            raise FieldError("lane", lane, f"one of {', '.join(self.lanes)}")
        return tuple(sorted((s for s in self.spans if s.lane == lane), key=lambda s: (s.start, s.end)))

    def to_dict(self) -> dict[str, Any]:
        """Compact JSON data: what the player reads (arrays, so that a page stays light)."""
        index = {lane: i for i, lane in enumerate(self.lanes)}
        return {
            "schema": SCHEMA,
            "title": self.title,
            "source": self.source,
            "device": self.device,
            "lanes": list(self.lanes),
            "spans": [[index[s.lane], s.name, s.start, s.end, s.kind, dict(s.args)] for s in self.spans],
            "events": [[index[e.lane], e.name, e.time, e.kind, dict(e.args)] for e in self.events],
            "counters": [
                {"name": c.name, "unit": c.unit, "max": c.maximum, "points": [list(p) for p in c.points]}
                for c in self.counters
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trace:
        """The inverse of :meth:`to_dict`. Raises :class:`FieldError` for data of another shape."""
        if not isinstance(data, Mapping):
            raise FieldError("trace", type(data).__name__, f"the shape {SCHEMA} (an object)")
        if data.get("schema") != SCHEMA:
            raise FieldError("schema", data.get("schema"), SCHEMA)
        try:
            _check_types(data)
            lanes = tuple(data["lanes"])
            return cls(
                title=data["title"],
                source=data["source"],
                device=data["device"],
                lanes=lanes,
                spans=tuple(Span(lanes[i], n, a, b, k, args) for i, n, a, b, k, args in data["spans"]),
                events=tuple(Event(lanes[i], n, t, k, args) for i, n, t, k, args in data["events"]),
                counters=tuple(
                    Counter(c["name"], c["unit"], tuple((t, v) for t, v in c["points"]), c["max"])
                    for c in data["counters"]
                ),
            )
        except FieldError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise FieldError("trace", type(error).__name__, f"the shape {SCHEMA} ({error})") from error

    def to_chrome(self) -> str:
        """JSON text in the Trace Event Format, which Perfetto and chrome://tracing open.

        Lanes become threads of one process, times microseconds. Source: bib key ``trace_event_format``.
        """
        index = {lane: i for i, lane in enumerate(self.lanes)}
        rows: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": f"{self.device} ({self.source})"}}
        ]
        rows += [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": i, "args": {"name": lane}}
            for lane, i in index.items()
        ]
        rows += [
            {
                "ph": "X",
                "name": s.name,
                "cat": s.kind,
                "pid": 0,
                "tid": index[s.lane],
                "ts": s.start * 1e6,
                "dur": s.duration * 1e6,
                "args": dict(s.args),
            }
            for s in self.spans
        ]
        rows += [
            {
                "ph": "i",
                "name": e.name,
                "cat": e.kind,
                "pid": 0,
                "tid": index[e.lane],
                "s": "t",
                "ts": e.time * 1e6,
                "args": dict(e.args),
            }
            for e in self.events
        ]
        rows += [
            {"ph": "C", "name": f"{c.name} [{c.unit}]", "pid": 0, "ts": t * 1e6, "args": {c.name: v}}
            for c in self.counters
            for t, v in c.points
        ]
        meta = {"title": self.title, "source": self.source, "device": self.device}
        try:
            whole = {"traceEvents": rows, "displayTimeUnit": "ms", "otherData": meta}
            return json.dumps(whole, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise FieldError("args", type(error).__name__, f"JSON data ({error})") from error


def _check_types(data: Mapping[str, Any]) -> None:
    """Refuse what Python would take for something else: a lane of -1 or True, text for a list of lanes."""

    def must(good: bool, field: str, value: Any, what: str) -> None:
        if not good:
            raise FieldError(field, value, what)

    for name in ("title", "source", "device"):
        must(isinstance(data[name], str), name, data[name], "text")
    for name in ("lanes", "spans", "events", "counters"):
        must(isinstance(data[name], list), name, type(data[name]).__name__, "a list")
    must(all(isinstance(lane, str) for lane in data["lanes"]), "lanes", data["lanes"], "texts")
    for kind in ("spans", "events"):
        for lane, name, *times, colour, args in data[kind]:
            must(
                type(lane) is int and 0 <= lane < len(data["lanes"]),
                f"{kind} lane",
                lane,
                "the number of a lane",
            )
            must(isinstance(name, str) and isinstance(colour, str), f"{kind} name", (name, colour), "texts")
            must(all(type(t) in (int, float) for t in times), f"{kind} times", times, "numbers")
            must(isinstance(args, Mapping), f"{kind} args", args, "an object")
    for counter in data["counters"]:
        name, unit = counter["name"], counter["unit"]
        must(isinstance(name, str) and isinstance(unit, str), "counter name", (name, unit), "texts")
