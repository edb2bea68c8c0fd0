"""Gated, interleaved timing on CUDA streams.

The protocol (why each step is there is told in the chapter "how we measure"):

1. every stream starts with a *gate*, so that nothing runs before everything is queued;
2. fenceposts (timing events) stand between the operations of a stream, *on that stream*;
3. one control stream records the common origin and opens all gates with one memory write;
4. solo and overlapped blocks are interleaved (A B B A), so that clock drift meets them alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ringi_lab.core.cuda.compile import kernels
from ringi_lab.core.errors import FieldError, MeasurementRefused

# Launches that may wait behind a gate before the driver's queue is full and the host blocks (the queue
# holds about a thousand; seen with cuda-core and torch alike). A block that needs more is refused.
QUEUE_LIMIT = 900
MAX_STREAMS = 8


@dataclass(frozen=True)
class Work:
    """One operation that is enqueued again and again on its own stream.

    ``enqueue()`` puts one operation on ``stream`` (a ``torch.cuda.Stream``) and returns at once.
    """

    name: str
    stream: Any
    enqueue: Callable[[], None]


@dataclass(frozen=True)
class Mark:
    """A timing event and where it was recorded, which CUDA forgets: the stream, and whether it keeps time."""

    event: Any
    stream: Any
    timed: bool = True


def mark(stream: Any, timed: bool = True) -> Mark:
    """Record an event on ``stream`` (a ``torch.cuda.Stream``), now."""
    import torch

    event = torch.cuda.Event(enable_timing=timed)
    event.record(stream)
    return Mark(event, stream, timed)


def elapsed(start: Mark, end: Mark) -> float:
    """Seconds between two marks of one device, on any of its streams; both must have happened.

    Raises :class:`FieldError` for marks of two devices and for events made without timing.
    """
    for name, one in (("start", start), ("end", end)):
        if not one.timed:
            raise FieldError(f"timing of the {name} event", False, "enabled: this event keeps no time")
    if start.stream.device != end.stream.device:
        where = f"{start.stream.device}, the start event's: no clock is common to two devices"
        raise FieldError("device of the end event", str(end.stream.device), where)
    return start.event.elapsed_time(end.event) * 1e-3


def interval(start: Mark, end: Mark, stream: Any) -> float:
    """Seconds that work on ``stream`` took: like :func:`elapsed`, with both marks on that very stream.

    Events on another stream do not wait for the work and read about 0 ms; raises :class:`FieldError`
    that names both streams (bib key ``quadrants_407``).
    """
    for name, one in (("start", start), ("end", end)):
        if one.stream.device != stream.device:
            limit = f"{stream.device}, the device of the work"
            raise FieldError(f"device of the {name} event", str(one.stream.device), limit)
        if one.stream.cuda_stream != stream.cuda_stream:
            limit = f"{_stream(stream)}, the stream of the work: an event elsewhere does not wait for it"
            raise FieldError(f"stream of the {name} event", _stream(one.stream), limit)
    return elapsed(start, end)


def _stream(stream: Any) -> str:
    return f"stream {stream.cuda_stream:#x}" if stream.cuda_stream else "the NULL stream"


class Gate:
    """Holds streams until all work is queued, then opens them together.

    ``limit`` (s) is the time after which the gate opens by itself; a block in which that happened is
    refused, since its streams did not start together.
    """

    def __init__(self, device: Any, limit: float = 2.0) -> None:
        import torch

        self.device = torch.device(device)
        self.limit = limit
        self._control = torch.cuda.Stream(self.device)
        self._words = torch.zeros(2, dtype=torch.int32, device=self.device)  # flag, expired
        self._opened = torch.zeros(MAX_STREAMS, dtype=torch.int64, device=self.device)
        self._kernels = kernels("ringi_lab.core.cuda", "gate.cu", self.device.index or 0)
        self._events: dict[tuple[int, int], Any] = {}
        self._launchers: dict[int, Callable[..., None]] = {}
        torch.cuda.synchronize(self.device)

    def _event(self, slot: int, index: int) -> Any:
        # Creating an event costs microseconds: they are made once and recorded anew in each block.
        import torch

        key = (slot, index)
        if key not in self._events:
            self._events[key] = torch.cuda.Event(enable_timing=True)
        return self._events[key]

    def block(
        self,
        works: Sequence[tuple[Work, int, int]],
        while_running: Callable[[], None] | None = None,
    ) -> list[list[float]]:
        """Run each ``(work, count, group)`` concurrently from a common start.

        Returns for each work its fenceposts in seconds from the common origin: the start, then the end
        of each group of ``group`` operations. ``while_running`` is called on the host after the gates
        opened (to read clocks under load). Raises :class:`FieldError` for a block that would not fit
        the launch queue and :class:`MeasurementRefused` when the gate's time limit opened it.
        """
        import torch
        from cuda.bindings import driver

        if not 1 <= len(works) <= MAX_STREAMS:
            raise FieldError("works", len(works), f"1 to {MAX_STREAMS} streams")
        for work, count, group in works:
            if count < 1 or group < 1:
                raise FieldError(f"operations of {work.name!r}", (count, group), ">= 1, in groups of >= 1")
            queued = count + -(-count // group) + 2
            if queued > QUEUE_LIMIT:
                raise FieldError(f"operations of {work.name!r} in one block", queued, f"<= {QUEUE_LIMIT}")
        with torch.cuda.stream(self._control):
            self._words.zero_()
        self._control.synchronize()
        flag = self._words.data_ptr()
        posts: list[list[Any]] = []
        try:
            for slot, (work, count, group) in enumerate(works):
                handle = work.stream.cuda_stream
                if handle not in self._launchers:
                    self._launchers[handle] = self._kernels.launcher("gate", handle, 1, 1)
                opened = self._opened.data_ptr() + 8 * slot
                self._launchers[handle](flag, int(self.limit * 1e9), flag + 4, opened)
                with torch.cuda.stream(work.stream):
                    marks = [self._event(slot, 0)]
                    marks[0].record(work.stream)
                    for first in range(0, count, group):
                        for _ in range(min(group, count - first)):
                            work.enqueue()
                        mark = self._event(slot, len(marks))
                        mark.record(work.stream)
                        marks.append(mark)
                posts.append(marks)
        finally:
            origin = self._event(-1, 0)
            origin.record(self._control)
            handle = driver.CUstream(self._control.cuda_stream)
            (status,) = driver.cuStreamWriteValue32(handle, driver.CUdeviceptr(flag), 1, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise MeasurementRefused(f"the gate could not be opened: {status}")
        if while_running is not None:
            while_running()
        torch.cuda.synchronize(self.device)
        if int(self._words[1].item()):
            raise MeasurementRefused(
                f"the gate opened by its time limit of {self.limit} s: the host was too slow to queue the block"
            )
        return [[origin.elapsed_time(mark) * 1e-3 for mark in marks] for marks in posts]

    def opened(self, slot: int) -> float:
        """When the gate of the ``slot``-th stream of the last block opened: global timer (s).

        The stream's first fencepost follows at once, which ties in-kernel time stamps to the posts.
        """
        return int(self._opened[slot].item()) * 1e-9


def abba(names: Sequence[str], rounds: int) -> Iterator[str]:
    """``names`` forwards, then backwards, ``rounds`` times in all (A B B A): drift meets all alike."""
    orders = itertools.cycle((tuple(names), tuple(reversed(names))))
    for order in itertools.islice(orders, rounds):
        yield from order
