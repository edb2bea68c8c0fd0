"""Measure overlap on the GPU that is present, by the gated and interleaved protocol."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ringi_lab.core import plausibility
from ringi_lab.core.cuda.compile import kernels
from ringi_lab.core.cuda.device import Monitor, check_memory, provenance, require_gpu
from ringi_lab.core.cuda.timing import Gate, Work, abba, elapsed, interval, mark
from ringi_lab.core.errors import FieldError, GpuUnavailable, MeasurementRefused
from ringi_lab.core.hardware import gpu_spec
from ringi_lab.core.intervals import durations
from ringi_lab.core.result import Result, Samples
from ringi_lab.overlap import ARRIVES_S, MOST_COUNT, MiB, Overlap, SmFree, analysis

REGION = 512 * MiB  # copies walk through this much memory, many times the L2, so that none is served by it
EXCLUSIVE = 120_000  # bytes of shared memory that keep a second CTA off the SM: more than half of 227 KiB
SOAK_S = 0.6  # of uncounted blocks first: the clock settles, and k does not depend on what ran before
REST_S = 2.0  # a "sequential" run starts from a rested card, as such runs do
POISON = 0xA5


@dataclass
class Copy:
    """One kind of copy on a stream: its work, and (for our own kernel) when each one really ran."""

    work: Work
    check: Callable[[], None]
    reset: Callable[[], None]
    stamps: Callable[[int], list[tuple[float, float]]] | None = None


class Bench:
    """Everything that outlives one experiment: streams, buffers, matrices, the gate, the monitor."""

    def __init__(self, index: int = 0) -> None:
        self.device = require_gpu(index)
        import torch

        self.torch = torch
        self.monitor = Monitor(index)
        self.gate = Gate(self.device)
        self.low = torch.cuda.Stream(self.device, priority=0)
        self.high = torch.cuda.Stream(self.device, priority=-1)
        self.sms = torch.cuda.get_device_properties(self.device).multi_processor_count
        self._buffers: dict[str, Any] = {}
        self._matrices: tuple[int, Any] | None = None
        self._partitions: dict[int, tuple[Any, Any, Any]] = {}
        self._checked: set[Any] = set()
        self._shapes: dict[tuple[int, int], dict[str, Any]] = {}

    def region(self, where: str, at_least: int) -> Any:
        """Random bytes on the device (``src``), room for them (``dst``), pinned host memory (``host``)."""
        torch = self.torch
        size = max(REGION, at_least)
        held = self._buffers.get(where)
        if held is not None and held.numel() >= size:
            return held
        self._buffers.pop(where, None)
        device = "cpu" if where == "host" else self.device
        if where == "host":
            try:
                made = torch.empty(size, dtype=torch.uint8, pin_memory=True)
            except RuntimeError as error:
                raise FieldError("copy_bytes", at_least, f"what can be page-locked here ({error})") from error
            made.random_(0, 256)
        else:
            check_memory("copy_bytes", size, torch.cuda.mem_get_info(self.device)[0])
            made = torch.empty(size, dtype=torch.uint8, device=device)
            if where == "src":
                made.random_(0, 256)
        self._buffers[where] = made
        return made

    def gemm(self, n: int, stream: Any) -> Work:
        """``c = a @ b`` in bf16 on random data, checked once against float32 on some rows."""
        torch = self.torch
        if self._matrices is None or self._matrices[0] != n:
            self._matrices = None
            check_memory(
                f"bytes of a GEMM with gemm_n = {n}", 6 * n * n, torch.cuda.mem_get_info(self.device)[0]
            )
            a, b = (torch.randn(n, n, device=self.device).to(torch.bfloat16) for _ in range(2))
            plausibility.gemm_input(int(a.count_nonzero()) / a.numel()).require()
            c = torch.full((n, n), float("nan"), device=self.device, dtype=torch.bfloat16)
            self._matrices = (n, (a, b, c))
            torch.mm(a, b, out=c)
            check_gemm(a, b, c)
        a, b, c = self._matrices[1]
        return Work("gemm", stream, lambda: torch.mm(a, b, out=c))

    def partition(self, margin: int) -> tuple[Any, Any]:
        """Streams (GEMM, copy) confined by green contexts to all SMs but ``margin``, and to ``margin``."""
        from cuda.core import ContextOptions, Device, SMResourceOptions, StreamOptions

        if margin not in self._partitions:
            device = Device(self.device.index)
            device.set_current()
            resource = device.resources.sm
            step = resource.min_partition_size
            if margin % step or not step <= margin <= resource.sm_count - step:
                raise FieldError(
                    "sm_margin", margin, f"a multiple of {step} from {step} to {resource.sm_count - step}"
                )
            (group,), rest = resource.split(SMResourceOptions(count=margin))
            if group.sm_count != margin:
                raise FieldError("sm_margin", margin, f"a size the driver grants (it gave {group.sm_count})")
            contexts = [device.create_context(ContextOptions(resources=[r])) for r in (rest, group)]
            queues = [
                c.create_stream(StreamOptions(priority=p)) for c, p in zip(contexts, (0, -1), strict=True)
            ]
            device.set_current()
            streams = [self.torch.cuda.ExternalStream(int(q.handle), self.device) for q in queues]
            self._partitions[margin] = (streams[0], streams[1], (contexts, queues))
        return self._partitions[margin][:2]

    def copy(self, kind: str, size: int, sms: int | None, stream: Any) -> Copy:
        """One kind of copy of ``size`` bytes; each call of its work takes the next slice of the region."""
        torch = self.torch
        if kind == "p2p":
            return self._peer_copy(size, stream)
        source = self.region("host" if kind == "h2d" else "src", size)
        target = self.region("host" if kind == "d2h" else "dst", size)
        slots = source.numel() // size
        turn = 0

        def offset() -> int:
            nonlocal turn
            turn += 1
            return (turn - 1) % slots * size

        def reset() -> None:
            nonlocal turn
            turn = 0

        stamps = None
        if kind == "sm":
            if not 1 <= (sms or 0) <= self.sms:
                raise FieldError("copy_sms", sms, f"1 to {self.sms}, the SMs of this device")
            launch = kernels("ringi_lab.overlap", "kernels.cu", self.device.index).launcher(
                "copy_lsu", stream.cuda_stream, sms, 1024, EXCLUSIVE
            )
            marks = torch.zeros(MOST_COUNT + 16, 2, dtype=torch.int64, device=self.device)
            fresh = torch.tensor([torch.iinfo(torch.int64).max, 0], device=self.device)
            read, write, mark = source.data_ptr(), target.data_ptr(), marks.data_ptr()

            def enqueue() -> None:
                slot = turn
                at = offset()
                launch(read + at, write + at, size // 16, mark + 16 * (slot % (MOST_COUNT + 16)))

            def reset() -> None:
                nonlocal turn
                turn = 0
                marks.copy_(fresh.expand_as(marks))
                torch.cuda.synchronize(self.device)

            def stamps(count: int) -> list[tuple[float, float]]:
                return [(a * 1e-9, b * 1e-9) for a, b in marks[:count].tolist()]

            reset()
        else:

            def enqueue() -> None:
                at = offset()
                target[at : at + size].copy_(source[at : at + size], non_blocking=True)

        work = Work("copy", stream, enqueue)

        def check() -> None:
            key = (kind, size, sms)
            if key in self._checked:
                return
            reset()
            target[:size].fill_(POISON)
            torch.cuda.synchronize(self.device)
            with torch.cuda.stream(stream):
                work.enqueue()
            torch.cuda.synchronize(self.device)
            if not torch.equal(target[:size].to(source.device), source[:size]):
                raise MeasurementRefused(f"the {kind} copy of {size} bytes is wrong: nothing was timed")
            self._checked.add(key)

        return Copy(work, check, reset, stamps)

    def _peer_copy(self, size: int, stream: Any) -> Copy:
        torch = self.torch
        others = [i for i in range(torch.cuda.device_count()) if i != self.device.index]
        if not others:
            raise GpuUnavailable("a second GPU", "one GPU", "two GPUs for a 'p2p' copy")
        peer = others[0]
        if not torch.cuda.can_device_access_peer(self.device.index, peer):
            raise GpuUnavailable("peer access", f"none between GPU {self.device.index} and {peer}", "P2P")
        source = self.region("src", size)
        target = torch.empty(source.numel(), dtype=torch.uint8, device=f"cuda:{peer}")
        slots = source.numel() // size
        turn = 0

        def enqueue() -> None:
            nonlocal turn
            at = turn % slots * size
            turn += 1
            target[at : at + size].copy_(source[at : at + size], non_blocking=True)

        def check() -> None:
            target[:size].fill_(POISON)
            torch.cuda.synchronize(peer)
            target[:size].copy_(source[:size])
            torch.cuda.synchronize(peer)
            if not torch.equal(target[:size].cpu(), source[:size].cpu()):
                raise MeasurementRefused("the P2P copy is wrong on read-back (an active IOMMU drops writes)")

        return Copy(Work("copy", stream, enqueue), check, lambda: None)

    def gemm_shape(self, n: int, margin: int, stream: Any) -> dict[str, Any]:
        """Which kernel the library launched, with its grid; from a profile outside the timed blocks."""
        if (n, margin) not in self._shapes:
            self._shapes[n, margin] = profile_gemm(self.torch, self.gemm(n, stream))
        return self._shapes[n, margin]


@functools.cache
def bench(index: int = 0) -> Bench:
    """The bench of one device, made once in a process."""
    return Bench(index)


def check_gemm(a: Any, b: Any, c: Any, rows: int = 64) -> None:
    """Refuse a product that differs from float32 by more than bf16 explains (relative error 1e-2)."""
    import torch

    pick = torch.linspace(0, a.shape[0] - 1, min(rows, a.shape[0]), device=a.device).long()
    truth = a[pick].float() @ b.float()
    error = float((c[pick].float() - truth).norm() / truth.norm())
    if not error < 1e-2:
        raise MeasurementRefused(f"the GEMM is wrong (relative error {error:.3g}): nothing was timed")


def overlap(experiment: Overlap, index: int = 0) -> Result:
    """Measure one :class:`Overlap`; raises GpuUnavailable, FieldError or MeasurementRefused."""
    analysis.check_pinned(experiment.copy, experiment.pinned)
    launches = (plausibility.Launch("gemm", "low"), plausibility.Launch("copy", "high"))
    plausibility.queueing(os.environ, launches, "copy").require()
    b = bench(index)
    e = experiment
    streams = (b.low, b.high)
    if e.sm_margin:
        gemm_stream, confined = b.partition(e.sm_margin)
        streams = (gemm_stream, confined if e.copy == "sm" else b.high)
    copy = b.copy(e.copy, e.copy_bytes, e.copy_sms, streams[1])
    gemm = b.gemm(e.gemm_n, streams[0])
    copy.check()
    counts = _counts(b, gemm, copy, e)
    sides = {"gemm": [(gemm, counts[0], 1)], "copy": [(copy.work, counts[1], 1)]}
    sides["both"] = sides["gemm"] + sides["copy"]
    kept: dict[str, list[Any]] = {name: [] for name in sides}
    clocks: dict[str, list[float]] = {name: [] for name in sides}
    ran: list[list[tuple[float, float]]] = []
    alone: list[float] = []
    if e.order == "sequential":
        time.sleep(REST_S)
        order = [name for name in ("gemm", "copy", "both") for _ in range(e.trials)]
    else:
        order = list(abba(("gemm", "copy", "both"), e.trials))
        _soak(b, sides, copy)
    before = b.monitor.state()
    for name in order:
        copy.reset()
        clock = clocks[name]
        kept[name].append(b.gate.block(sides[name], lambda clock=clock: clock.append(b.monitor.sm_clock())))
        if copy.stamps and name == "both":
            shift = kept[name][-1][1][0] - b.gate.opened(1)
            ran.append([(s + shift, t + shift) for s, t in copy.stamps(counts[1])])
        elif copy.stamps and name == "copy":
            posts = kept[name][-1][0]
            shift = posts[0] - b.gate.opened(0)
            alone.append(
                analysis.mean_run(posts, [(s + shift, t + shift) for s, t in copy.stamps(counts[1])])
            )
    after = b.monitor.state()
    blocks = [
        analysis.Block(g[0], c[0], both[0], both[1])
        for g, c, both in zip(kept["gemm"], kept["copy"], kept["both"], strict=True)
    ]
    rows, notes = analysis.samples(blocks)
    for name, values in clocks.items():
        rows[f"sm_clock_{name}"] = Samples("Hz", tuple(values))
    if ran:
        rows["copy_run_solo"] = Samples("s", tuple(alone))
        ends = (min(x.gemm_both[-1], x.copy_both[-1]) for x in blocks)
        runs = (analysis.mean_run(x.copy_both, r, end) for x, r, end in zip(blocks, ran, ends, strict=True))
        rows["copy_run_overlap"] = Samples("s", tuple(runs))
    notes += _judge(b, e, rows, (before["memory_hz"], after["memory_hz"]))
    source = provenance(index, b.monitor, before, after)
    facts = {
        "gemm_count": counts[0],
        "copy_count": counts[1],
        "sms": b.sms,
        "gemm_kernel": b.gemm_shape(e.gemm_n, e.sm_margin, streams[0]),
    }
    # The time line shown is that of the trial with the median length.
    lengths = [max(x.gemm_both[-1], x.copy_both[-1]) for x in blocks]
    middle = sorted(range(len(blocks)), key=lengths.__getitem__)[len(blocks) // 2]
    seen = ran[middle] if ran else None
    trace = analysis.block_trace(e, blocks[middle], seen, "measured", source.device)
    return Result("overlap", e.parameters(), "measured", source, rows, facts, trace, tuple(notes))


def _soak(b: Bench, sides: Mapping[str, list[Any]], copy: Copy) -> None:
    """Run the very blocks that will be measured until the card is as warm as they keep it."""
    begun = time.monotonic()
    while time.monotonic() - begun < SOAK_S:
        for block in sides.values():
            copy.reset()
            b.gate.block(block)


def _judge(b: Bench, e: Overlap, rows: Mapping[str, Samples], memory_hz: tuple[float, float]) -> list[str]:
    """Refuse what no hardware can do (MeasurementRefused), and say in words what makes figures doubtful."""
    effect = plausibility.clock_effect(rows["sm_clock_gemm"].median, rows["sm_clock_both"].median, *memory_hz)
    notes = effect.compute.notes() + effect.bandwidth.notes()
    try:
        gpu = gpu_spec(b.torch.cuda.get_device_name(b.device))
    except FieldError as unknown:
        return [*notes, f"not checked against peaks: {unknown}"]
    seconds = min(rows["copy_solo"].values)
    if e.copy in ("h2d", "d2h"):
        plausibility.link_rate(e.copy_bytes / seconds, gpu.pcie_bandwidth).require()
    elif e.copy == "p2p":
        plausibility.link_rate(e.copy_bytes / seconds, gpu.require("nvlink_bandwidth")).require()
    else:
        traffic = plausibility.copy_rates(e.copy_bytes, seconds).traffic
        walked = max(REGION, e.copy_bytes)
        plausibility.bandwidth(traffic, gpu.hbm_bandwidth, walked, gpu.l2_bytes).require()
    for name in ("gemm_solo", "gemm_overlap"):
        if name in rows:
            plausibility.duration(min(rows[name].values), 2.0 * e.gemm_n**3, gpu.peak_flops("bf16"))
    return notes


def _counts(b: Bench, gemm: Work, copy: Copy, e: Overlap) -> tuple[int, int]:
    """How many of each make two sides of about equal length, long enough and within the queue."""
    for _ in range(2):  # the first round warms up: modules, workspaces, clocks
        each = []
        for work in (gemm, copy.work):
            copy.reset()
            posts = b.gate.block([(work, 4, 1)])[0]
            each.append(min(durations(posts)))
    return e.counts(*each)


def profile_gemm(torch: Any, work: Work) -> dict[str, Any]:
    """Name, grid, CTA size, registers and shared memory of the kernel behind a GEMM, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        with torch.cuda.stream(work.stream):
            work.enqueue()
        torch.cuda.synchronize()
    for event in profiler.profiler.kineto_results.events():
        if "gemm" in event.name().lower() or "nvjet" in event.name().lower():
            return {"name": event.name(), **_tile(event.name())}
    return {}


def _tile(name: str) -> Mapping[str, Any]:
    """Tile and cluster from a cuBLAS ``nvjet`` kernel name: ``…_256x128_64x4_1x2_…``."""
    found = re.search(r"_(\d+)x(\d+)_(\d+)x(\d+)_(\d+)x(\d+)_", name)
    if not found:
        return {}
    m, n, k, stages, cluster_m, cluster_n = map(int, found.groups())
    return {"tile": [m, n, k], "stages": stages, "cluster": [cluster_m, cluster_n]}


def sm_free(experiment: SmFree, index: int = 0) -> Result:
    """Run the litmus: see :class:`SmFree`."""
    b = bench(index)
    torch = b.torch
    e = experiment
    copy = b.copy(e.copy, e.copy_bytes, 1 if e.copy == "sm" else None, b.high)
    copy.check()
    holder = torch.cuda.Stream(b.device, priority=0)
    hold = kernels("ringi_lab.core.cuda", "gate.cu", index).launcher(
        "hold", holder.cuda_stream, 2 * b.sms, 1024
    )
    rows: dict[str, list[float]] = {"copy_end": [], "hold_end": []}
    before = b.monitor.state()
    for _ in range(e.trials):
        copy.reset()
        torch.cuda.synchronize(b.device)
        begun = mark(holder)
        hold(int(e.hold_s * 1e9))
        let_go = mark(holder)
        time.sleep(ARRIVES_S)  # the hold must be resident before the copy asks for anything
        with torch.cuda.stream(b.high):
            copy_begun = mark(b.high)
            copy.work.enqueue()
            copied = mark(b.high)
        torch.cuda.synchronize(b.device)
        hold_end = interval(begun, let_go, holder)
        copy_start, copy_end = elapsed(begun, copy_begun), elapsed(begun, copied)
        rows["copy_end"].append(copy_end)
        rows["hold_end"].append(hold_end)
    source = provenance(index, b.monitor, before, b.monitor.state())
    trace = analysis.litmus_trace(e, hold_end, copy_start, copy_end, "measured", source.device)
    samples = {name: Samples("s", tuple(values)) for name, values in rows.items()}
    return Result("sm_free", e.parameters(), "measured", source, samples, {"sms": b.sms}, trace)
