"""The discrete-event engine: SimPy with two resources that GPUs have and SimPy does not.

:class:`Fluid` serves many flows at once at speeds that change with the company they keep (bandwidth);
:class:`Pool` hands out several units at a time by priority (SMs to CTAs). Both need only the standard
library and SimPy (bib key ``simpy``).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping

import simpy

from ringi_lab.core.contention import Demand, fair_rates
from ringi_lab.core.errors import FieldError

Speeds = Callable[[Mapping[str, int]], Mapping[str, float]]


class Fluid:
    """Flows in named groups; all flows of a group go at one speed.

    ``speeds(counts)`` maps the number of flows in each group to the speed of one flow (units/s, > 0) and
    is asked again whenever a flow begins or ends. Cost: O(log n) a flow, whatever the number of flows.
    """

    def __init__(self, env: simpy.Environment, speeds: Speeds) -> None:
        self._env = env
        self._speeds = speeds
        self._order = itertools.count()
        self._done: dict[str, list[tuple[float, int, simpy.Event]]] = {}  # heap by progress at the end
        self._progress: dict[str, float] = {}
        self._speed: dict[str, float] = {}
        self._since = env.now
        self._alarm = 0  # only the latest alarm counts
        self._due = ("", 0.0)  # the group that it rings for, and the progress that it then has reached
        self._stale = False

    def flow(self, group: str, amount: float) -> simpy.Event:
        """An event that happens when ``amount`` units (>= 0) have flowed."""
        if not amount >= 0:
            raise FieldError("amount", amount, ">= 0")
        self._advance()
        event = self._env.event()
        heap = self._done.setdefault(group, [])
        end = self._progress.setdefault(group, 0.0) + amount
        heapq.heappush(heap, (end, next(self._order), event))
        self._changed()
        return event

    def nudge(self) -> None:
        """Ask for the speeds again: something that they depend on has changed outside."""
        self._advance()
        self._changed()

    def _advance(self) -> None:
        elapsed = self._env.now - self._since
        if elapsed:
            for group, speed in self._speed.items():
                self._progress[group] += speed * elapsed
            self._since = self._env.now

    def _changed(self) -> None:
        # Many flows begin and end at one instant: the speeds are worked out once, at its end.
        if not self._stale:
            self._stale = True
            settle = self._env.event()
            settle.callbacks.append(self._settle)
            settle._ok, settle._value = True, None
            self._env.schedule(settle, priority=2)  # after everything else of this instant

    def _settle(self, _event: simpy.Event) -> None:
        self._stale = False
        self._advance()
        counts = {group: len(heap) for group, heap in self._done.items() if heap}
        asked = self._speeds(counts) if counts else {}
        self._speed = {group: asked[group] for group in counts}
        waits = []
        for group in counts:
            if not self._speed[group] > 0:
                raise FieldError(f"speed of {group!r}", self._speed[group], "> 0")
            end = self._done[group][0][0]
            waits.append((max(0.0, end - self._progress[group]) / self._speed[group], group, end))
        self._alarm += 1
        if waits:
            wait, *due = min(waits)
            self._due = tuple(due)
            alarm = self._env.timeout(wait, value=self._alarm)
            alarm.callbacks.append(self._ring)

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm.value != self._alarm:
            return
        self._advance()
        # Rounding must not leave a flow a hair short of its end: it would ring for ever. A wait can even
        # be too short to move the clock, so the flow that rang is at its end whatever the clock says.
        due, end = self._due
        self._progress[due] = max(self._progress[due], end)
        for group, heap in self._done.items():
            reach = self._progress.get(group, 0.0) * (1 + 1e-12) + 1e-18
            while heap and heap[0][0] <= reach:
                heapq.heappop(heap)[2].succeed()
        self._changed()


class SharedBandwidth(Fluid):
    """One link or memory of ``capacity`` (bytes/s) shared max-min fairly by transfers with their own caps."""

    def __init__(self, env: simpy.Environment, capacity: float) -> None:
        if not capacity > 0:
            raise FieldError("capacity", capacity, "> 0 bytes/s")
        self.capacity = capacity
        self._caps: dict[str, float] = {}
        super().__init__(env, self._fair)

    def transfer(self, size: float, cap: float | None = None) -> simpy.Event:
        """An event that happens when ``size`` bytes have passed; ``cap`` (bytes/s) limits this transfer."""
        cap = self.capacity if cap is None else cap
        if not cap > 0:
            raise FieldError("cap", cap, "> 0 bytes/s")
        group = repr(cap)
        self._caps[group] = cap
        return self.flow(group, size)

    def _fair(self, counts: Mapping[str, int]) -> Mapping[str, float]:
        demands = [Demand(n, self._caps[group]) for group, n in counts.items()]
        return dict(zip(counts, fair_rates(self.capacity, demands), strict=True))


class Pool:
    """``size`` equal units, asked for several at a time; a lower ``priority`` is served first.

    Within one priority requests are served in order, and a request that does not fit yet holds back the
    ones behind it, as a kernel's CTAs do. Units can be given back *for* a priority: until
    :meth:`reopen` they serve only requests that come before it.
    """

    def __init__(self, env: simpy.Environment, size: int) -> None:
        if size < 1:
            raise FieldError("size", size, ">= 1")
        self._env = env
        self.size = size
        self.free = size
        self.kept = 0  # free too, but only for requests before `_kept_from`
        self._kept_from = 0
        self._queues: dict[int, deque[tuple[int, Callable[[], int], simpy.Event]]] = {}

    def request(self, units: int, priority: int = 0, spare: Callable[[], int] = lambda: 0) -> simpy.Event:
        """An event that happens when ``units`` (1 to size) have been handed over.

        ``spare()`` more units must be free at that moment without being taken: a request that needs its
        units side by side may find some that lie apart.
        """
        if not 1 <= units <= self.size:
            raise FieldError("units", units, f"1 to {self.size}")
        event = self._env.event()
        self._queues.setdefault(priority, deque()).append((units, spare, event))
        self._serve()
        return event

    def release(self, units: int, before: int | None = None) -> None:
        """Give ``units`` back; with ``before``, only to requests of a lower priority number until reopened."""
        out = self.size - self.free - self.kept
        if not 1 <= units <= out:
            raise FieldError("units", units, f"1 to {out}, which are out")
        if before is None:
            self.free += units
        else:
            self.kept += units
            self._kept_from = before
        self._serve()

    def reopen(self) -> None:
        """Let every request have the units that were given back for some only."""
        self.free, self.kept = self.free + self.kept, 0
        self._serve()

    def _serve(self) -> None:
        for priority in sorted(self._queues):
            queue = self._queues[priority]
            early = priority < self._kept_from
            while queue and queue[0][0] + queue[0][1]() <= self.free + (self.kept if early else 0):
                units, _, event = queue.popleft()
                from_kept = min(units, self.kept) if early else 0
                self.kept -= from_kept
                self.free -= units - from_kept
                event.succeed()
            if queue:
                return
