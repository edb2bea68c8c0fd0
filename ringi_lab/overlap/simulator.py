"""Overlap in simulated time: the same block that is measured, played out by the discrete-event engine."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import simpy

from ringi_lab import __version__
from ringi_lab.core.engine import Fluid, Pool, SharedBandwidth
from ringi_lab.core.errors import FieldError
from ringi_lab.core.intervals import durations
from ringi_lab.core.result import Provenance, Result, Samples
from ringi_lab.core.trace import Counter
from ringi_lab.overlap import ARRIVES_S, Overlap, SmFree, analysis
from ringi_lab.overlap.analysis import Block
from ringi_lab.overlap.model import (
    CALIBRATED_ON,
    CLUSTER,
    COPY_IN_FLIGHT,
    LINK,
    Machine,
    calibration,
    machine,
    tiling,
)

COPY_FIRST, GEMM_AFTER = 0, 1  # priorities in the SM pool: copies are on the high-priority stream
CHUNKS = 2  # rounds of CTAs of the driver's copy kernel: short CTAs, so that few SMs can do all the work
SMALLEST_CHUNK = 64 * 1024
COUNTER_STEPS = 300
SEED = 20260117  # of the tile jitter: one seed, so that a simulation is the same every time
STRANDED = 4  # SMs: with 4 or more held by copies, so many find no neighbour for a cluster (probed)


@dataclass
class _Kernel:
    """One GEMM in flight: work of a tile, tiles still to draw, clusters not yet started, and running."""

    work: float
    drawn: int
    waiting: int
    running: int = 0


@dataclass
class Side:
    """What one stream did: fenceposts, and for a copy on SMs the time its CTAs really ran."""

    posts: list[float] = field(default_factory=list)
    ran: list[tuple[float, float]] = field(default_factory=list)


class Playground:
    """One block in simulated time: GEMMs on one stream, copies on another, either may be absent."""

    def __init__(self, m: Machine, e: Overlap) -> None:
        self.m, self.e = m, e
        self.env = simpy.Environment()
        self.sms = m.gpu.sms
        self.tiles = tiling(e.gemm_n, self.sms)
        self.jitter = getattr(m.parameters, f"jitter_{self.tiles.columns}")
        rest = self.sms - e.sm_margin
        step, least = m.gpu.green_context_sm_step, m.gpu.green_context_min_sms
        if e.sm_margin and (e.sm_margin % step or e.sm_margin < least or rest < least):
            most = (self.sms - least) // step * step
            limit = f"a multiple of {step} from {least} to {most} on the {m.gpu.name}"
            raise FieldError("sm_margin", e.sm_margin, limit)
        self.gemm_pool = Pool(self.env, rest)
        self.apart = e.copy == "sm" and e.sm_margin > 0
        self.copy_pool = Pool(self.env, e.sm_margin) if self.apart else self.gemm_pool
        if e.copy == "sm" and e.copy_sms > self.sms:
            raise FieldError("copy_sms", e.copy_sms, f"<= {self.sms}, the SMs of {m.gpu.name}")
        self.memory = Fluid(self.env, self._speeds)
        self.link_busy = False
        self.gemm_busy = False
        self.gemm, self.copy = Side(), Side()
        self.copy_sms_held = 0
        self.at_work: list[tuple[float, int, int]] = []  # (time, SMs at GEMM tiles, SMs copying)
        self.random = random.Random(SEED)

    def _speeds(self, counts: Mapping[str, int]) -> Mapping[str, float]:
        gemm, lsu, d2d = counts.get("tile", 0) * CLUSTER, counts.get("lsu", 0), counts.get("d2d", 0)
        self.at_work.append((self.env.now, gemm, lsu + d2d))
        copies, tiles = self.m.latency(gemm, lsu, d2d, self.e.copy if self.link_busy else None, self.apart)
        return {
            "tile": self.m.tile_speed(self.tiles.rows, tiles),
            "lsu": COPY_IN_FLIGHT / copies,
            "d2d": self.m.parameters.ce_in_flight / copies,
        }

    def run(self, gemms: int, copies: int) -> None:
        """Play the block to its end."""
        if gemms:
            self.env.process(self._gemm_stream(gemms))
        if copies:
            self.env.process(self._copy_stream(copies))
        self.env.run()

    def counters(self) -> tuple[Counter, ...]:
        """SMs at GEMM tiles and SMs copying, over time, thinned to what a picture can show."""
        end = max(self.gemm.posts[-1], self.copy.posts[-1])
        steps: dict[int, tuple[float, int, int]] = {}
        for point in self.at_work:  # the last of each sliver of time stands for it
            steps[round(point[0] / end * COUNTER_STEPS)] = point
        points = [*steps.values(), (end, 0, 0)]
        names = ("SMs at GEMM tiles", "SMs copying")
        return tuple(
            Counter(name, "SM", tuple((p[0], float(p[i])) for p in points), float(self.sms))
            for i, name in enumerate(names, 1)
        )

    # GEMM: one persistent kernel after another -------------------------------------------------------

    def _gemm_stream(self, count: int) -> Generator[simpy.Event, Any, None]:
        p, env = self.m.parameters, self.env
        tiles = self.tiles
        total = tiles.clusters(self.e.gemm_n)
        clusters = min(total, self.sms // CLUSTER)
        work = tiles.flops(self.e.gemm_n) / self.m.tile_rate
        self.gemm_busy = True
        self.gemm.posts.append(env.now)
        for _ in range(count):
            fetch = getattr(p, f"{self.e.copy}_fetch", 0.0) if self.link_busy else 0.0
            yield env.timeout(p.gemm_launch + fetch)
            # Every cluster brings its first tile; the rest are drawn from a common counter.
            kernel = _Kernel(work, drawn=total - clusters, waiting=clusters)
            yield env.all_of([env.process(self._cluster(kernel)) for _ in range(clusters)])
            self.gemm.posts.append(env.now)
        self.gemm_busy = False

    def _jitter(self) -> float:
        """Factor on one tile's time: neighbours drift apart, or the last wave would be too sharp."""
        return 1.0 + self.jitter * self.random.uniform(-1.0, 1.0)

    def _stranded(self) -> int:
        """SMs that no cluster can use, since copies hold their neighbours."""
        return min(STRANDED, self.copy_sms_held) if self.copy_pool is self.gemm_pool else 0

    def _cluster(self, kernel: _Kernel) -> Generator[simpy.Event, Any, None]:
        pool = self.gemm_pool
        yield pool.request(CLUSTER, GEMM_AFTER, self._stranded)
        kernel.waiting -= 1
        kernel.running += 1
        yield self.env.timeout(self.m.parameters.gemm_prologue)
        yield self.memory.flow("tile", kernel.work * self._jitter())
        while kernel.drawn > 0:
            kernel.drawn -= 1
            yield self.memory.flow("tile", kernel.work * self._jitter())
        kernel.running -= 1
        # Seen on the H200: a cluster that found no SM starts only when all that did have run dry, while
        # copies get the SMs of those that run dry early.
        pool.release(CLUSTER, before=GEMM_AFTER if kernel.waiting else None)
        if not kernel.running:
            pool.reopen()

    # Copies: on the copy engine, on our own CTAs, or by the driver's kernel ---------------------------

    def _copy_stream(self, count: int) -> Generator[simpy.Event, Any, None]:
        self.copy.posts.append(self.env.now)
        one = self._engine_copy if self.e.copy in LINK else self._sm_copy
        for left in reversed(range(count)):
            begun, alone = self.env.now, not self.gemm_busy
            yield from one()
            self.copy.posts.append(self.env.now)
            if alone:
                # Nothing will come beside the rest: they repeat this one, and need not be played.
                self._repeat(left, self.env.now - begun)
                break

    def _repeat(self, count: int, period: float) -> None:
        last, ran = self.copy.posts[-1], self.copy.ran[-1:]
        for i in range(1, count + 1):
            self.copy.posts.append(last + i * period)
            self.copy.ran += [(start + i * period, end + i * period) for start, end in ran]

    def _engine_copy(self) -> Generator[simpy.Event, Any, None]:
        copy = self.e.copy
        yield self.env.timeout(self.m.launch(copy, queued=self.gemm_busy))
        self._link(True)
        yield self.env.timeout(self.e.copy_bytes / self.m.link(copy))
        self._link(False)

    def _link(self, busy: bool) -> None:
        self.link_busy = busy
        self.memory.nudge()

    def _sm_copy(self) -> Generator[simpy.Event, Any, None]:
        p, env, e = self.m.parameters, self.env, self.e
        own = e.copy == "sm"
        queue = p.queue_delay if self.gemm_busy else 0.0
        yield env.timeout((p.lsu_launch if own else p.d2d_launch) + queue)
        if own:  # one CTA an SM, each with its fixed share
            part = e.copy_bytes / e.copy_sms
            left, ctas = [0], e.copy_sms
        else:  # short CTAs: whoever holds an SM draws the next one
            chunks = max(1, min(CHUNKS * self.sms, round(e.copy_bytes / SMALLEST_CHUNK)))
            part = e.copy_bytes / chunks
            ctas = min(chunks, self.sms)
            left = [chunks]
        starts: list[float] = []
        group = "lsu" if own else "d2d"
        yield env.all_of([env.process(self._cta(group, part, left, starts)) for _ in range(ctas)])
        self.copy.ran.append((min(starts), env.now))

    def _cta(
        self, group: str, size: float, left: list[int], starts: list[float]
    ) -> Generator[simpy.Event, Any, None]:
        yield self.copy_pool.request(1, COPY_FIRST)
        self.copy_sms_held += 1
        starts.append(self.env.now)
        if group == "lsu":
            yield self.memory.flow(group, size)
        while left[0] > 0:
            left[0] -= 1
            yield self.memory.flow(group, size)
        self.copy_sms_held -= 1
        self.copy_pool.release(1)


def simulate_block(m: Machine, e: Overlap, gemms: int, copies: int) -> Playground:
    """Play one block of ``gemms`` and ``copies`` operations (either may be 0) and return it."""
    block = Playground(m, e)
    block.run(gemms, copies)
    return block


def play(m: Machine, e: Overlap) -> tuple[Block, list[Playground], tuple[int, int]]:
    """One trial: its fenceposts, the three blocks (GEMM alone, copy alone, both), and the counts."""
    gemm_s = min(durations(simulate_block(m, e, 2, 0).gemm.posts))
    copy_s = min(durations(simulate_block(m, e, 0, 2).copy.posts))
    counts = e.counts(gemm_s, copy_s)
    # Interleaving puts all three blocks at the same clock, so one machine plays them all.
    m = m.warmed(counts[0] * gemm_s)
    blocks = [simulate_block(m, e, *n) for n in ((counts[0], 0), (0, counts[1]), counts)]
    gemm, copy, both = blocks
    return Block(gemm.gemm.posts, copy.copy.posts, both.gemm.posts, both.copy.posts), blocks, counts


def overlap(e: Overlap, gpu: str) -> Result:
    """Simulate an :class:`Overlap` for a GPU specification: one trial, the same on every run.

    Raises :class:`FieldError` for an unknown GPU or a size it does not have, and
    :class:`MeasurementRefused` where a measurement would be refused too.
    """
    analysis.check_pinned(e.copy, e.pinned)
    m = machine(gpu)
    block, (_, alone, both), counts = play(m, e)
    rows, notes = analysis.samples([block])
    clock = m.gpu.boost_clock / (1.0 + m.parameters.warm_tile * both.m.warmth)
    for kind in ("gemm", "copy", "both"):
        rows[f"sm_clock_{kind}"] = Samples("Hz", (clock,))
    if e.copy == "sm":
        rows["copy_run_solo"] = Samples("s", (analysis.mean_run(block.copy, alone.copy.ran),))
        end = min(block.gemm_both[-1], block.copy_both[-1])
        rows["copy_run_overlap"] = Samples("s", (analysis.mean_run(block.copy_both, both.copy.ran, end),))
    provenance = _provenance(m)
    tile = tiling(e.gemm_n, m.gpu.sms)
    facts = {
        "gemm_count": counts[0],
        "copy_count": counts[1],
        "sms": m.gpu.sms,
        "gemm_kernel": {
            "tile": [tile.rows, tile.columns],
            "cluster": [tile.cluster_rows, tile.cluster_columns],
        },
        "range": expected_range(e),
    }
    notes += doubts(m, e)
    device = provenance.device
    ran = both.copy.ran if e.copy in ("sm", "d2d") else None
    trace = analysis.block_trace(e, block, ran, "simulated", device, both.counters())
    return Result("overlap", e.parameters(), "simulated", provenance, rows, facts, trace, tuple(notes))


def expected_range(e: Overlap) -> dict[str, float]:
    """How far off the model was at most on the points it was fitted on: |ln(model/recorded)|, by quantity."""
    return dict(calibration()[1]["spread"][analysis.kind(e)])


def doubts(m: Machine, e: Overlap) -> list[str]:
    """What a reader must know before trusting a simulated figure, in words; empty inside the range."""
    said = []
    if m.extrapolated:
        said.append(
            f"extrapolated: the parameters were fitted on the {CALIBRATED_ON}, not on the {m.gpu.name}"
        )
    limits = calibration()[1]["limits"]
    for name in ("gemm_n", "copy_bytes"):
        low, high = limits[name]
        if not low <= getattr(e, name) <= high:
            said.append(f"outside the recorded range: {name} = {getattr(e, name)}, recorded {low} to {high}")
    if e.copy == "p2p":
        said.append("not recorded: no P2P copy was measured yet; the link's rate is an assumption")
    return said


def sm_free(e: SmFree, gpu: str) -> Result:
    """The litmus in simulated time: a copy arrives while every SM is held."""
    m = machine(gpu)
    env = simpy.Environment()
    pool = Pool(env, m.gpu.sms)
    memory = SharedBandwidth(env, m.gpu.hbm_bandwidth * m.parameters.hbm_lsu / 2)
    ends: dict[str, float] = {}

    def hold() -> Generator[simpy.Event, Any, None]:
        yield pool.request(pool.size, COPY_FIRST)
        yield env.timeout(e.hold_s)
        pool.release(pool.size)
        ends["hold"] = env.now

    def copy() -> Generator[simpy.Event, Any, None]:
        yield env.timeout(ARRIVES_S)
        if e.copy in LINK:
            yield env.timeout(m.launch(e.copy) + e.copy_bytes / m.link(e.copy))
        else:
            sms = 1 if e.copy == "sm" else pool.size
            yield pool.request(sms, COPY_FIRST)
            yield memory.transfer(e.copy_bytes, sms * COPY_IN_FLIGHT / m.parameters.latency)
            pool.release(sms)
        ends["copy"] = env.now

    env.process(hold())
    env.process(copy())
    env.run()
    provenance = _provenance(m)
    rows = {f"{name}_end": Samples("s", (end,)) for name, end in ends.items()}
    trace = analysis.litmus_trace(e, ends["hold"], ARRIVES_S, ends["copy"], "simulated", provenance.device)
    return Result("sm_free", e.parameters(), "simulated", provenance, rows, {"sms": m.gpu.sms}, trace)


def _provenance(m: Machine) -> Provenance:
    return Provenance(device=m.gpu.name, libraries={"simpy": simpy.__version__, "ringi-lab": __version__})
