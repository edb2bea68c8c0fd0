"""The contention model: tiles, CTAs and bytes in flight; what the simulator plays out in time.

Three ideas, each with its own parameters, none of them a k:

* **SM residency.** The GEMM is one persistent kernel: clusters of two CTAs, an SM each, that draw tiles
  until none is left. It leaves no room beside it (registers and shared memory), so a copy that needs an
  SM waits until a cluster ends, and a cluster whose SMs a copy holds starts late.
* **Bytes in flight.** A copy's CTA keeps a fixed number of bytes in flight, so its rate is that number
  over the loaded latency (Little's law, bib key ``little1961``). GEMM traffic and a saturated HBM
  raise the latency for everyone; a GEMM tile, fed by loads, stretches with it.
* **The front of the machine.** Launches and copy commands take microseconds, more while the host link or
  a second queue is busy. A copy engine is a FIFO on one direction of the link.

Times in s, sizes in bytes, rates in bytes/s or FLOP/s. :class:`Parameters` come from a fit on recorded
points (:mod:`ringi_lab.overlap.calibrate`), never from a recorded k.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

from ringi_lab.core.contention import Demand, fair_level
from ringi_lab.core.errors import FieldError
from ringi_lab.core.hardware import GpuSpec, gpu_spec

CALIBRATED_ON = "NVIDIA H200"
CLUSTER = 2  # CTAs, and so SMs, in one cluster of the GEMM kernel
LINK = ("h2d", "d2h", "p2p")

# Bytes that one CTA of copy_lsu keeps in flight: 1024 threads x 4 loads of 16 bytes (kernels.cu).
COPY_IN_FLIGHT = 1024 * 4 * 16


@dataclass(frozen=True)
class Parameters:
    """What a fit must find; each with its unit. Sourced constants stay in ``core.hardware``."""

    tile_rate: float  # FLOP/s of one SM inside a tile, memory idle
    gemm_launch: float  # s from the end of one GEMM to the next one's CTAs
    gemm_prologue: float  # s that a CTA holds its SM before its first tile and after its last
    jitter_192: float  # spread of 192x192 tiles' times: half the width of a uniform distribution, a fraction
    jitter_128: float  # the same for tiles of 128 columns
    stretch_256: float  # exponent: how a 256x128 tile's time grows with the latency it sees
    stretch_320: float  # the same for a 320x128 tile
    stretch_192: float  # the same for a 192x192 tile
    pressure: float  # latency that copies add for GEMM tiles when their bytes in flight fill the HBM once
    pressure_power: float  # exponent of that growth with the bytes in flight
    latency: float  # s, loaded latency of copy_lsu without other traffic
    gemm_latency: float  # latency added by GEMM traffic on every SM, as a fraction of `latency`
    gemm_latency_mixed: float  # the same for copies whose SMs lie among the GEMM's
    gemm_hbm: float  # HBM bytes/s of one SM at GEMM work, memory idle
    hbm_lsu: float  # fraction of the HBM peak that copy_lsu reaches (read + write)
    hbm_ce: float  # the same for the driver's own device-to-device kernel
    ce_in_flight: float  # bytes in flight of one SM under the driver's kernel
    lsu_launch: float  # s between two copy_lsu on one stream
    d2d_launch: float  # s between two device-to-device copies on one stream
    queue_delay: float  # s added to a small launch while another stream has work queued
    h2d_bandwidth: float  # fraction of the link's raw rate
    d2h_bandwidth: float
    h2d_launch: float  # s between two copies on the copy engine
    d2h_launch: float
    h2d_queue: float  # s added to a copy command while a GEMM stream is fed
    d2h_queue: float
    h2d_fetch: float  # s added to a GEMM launch while the copy engine reads host memory
    d2h_fetch: float
    h2d_latency: float  # latency added by link traffic, as a fraction of `latency`
    d2h_latency: float

    warm_time: float  # s of GEMM in one block after which power has pulled the clock most of the way down
    warm_tile: float  # how much longer a tile takes on a card so warm, as a fraction
    warm_latency: float  # the same for the latency that copies see

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise FieldError(field.name, value, "a finite number >= 0")


@dataclass(frozen=True)
class Tiling:
    """How the library cuts a GEMM: tile (rows, columns) of one SM, and CTAs of a cluster along each."""

    rows: int
    columns: int
    cluster_rows: int
    cluster_columns: int

    def clusters(self, n: int) -> int:
        """Cluster tiles in an n x n result, the ragged edge included."""
        return math.ceil(n / (self.rows * self.cluster_rows)) * math.ceil(
            n / (self.columns * self.cluster_columns)
        )

    def flops(self, n: int) -> float:
        """FLOP of one SM's tile with an inner dimension of n."""
        return 2.0 * self.rows * self.columns * n


# Which tile cuBLAS 13.0 chose on the H200, by GEMM size, as the recording's `gemm_kernel` facts say (a test
# compares). Other sizes: the tile whose whole waves waste least, as a heuristic.
TILINGS: Mapping[int, Tiling] = {
    2048: Tiling(256, 128, 1, 2),
    3072: Tiling(192, 192, 2, 1),
    4096: Tiling(256, 128, 1, 2),
    6144: Tiling(192, 192, 2, 1),
    8192: Tiling(320, 128, 1, 2),
    12288: Tiling(192, 192, 2, 1),
    16384: Tiling(192, 192, 2, 1),
}


def tiling(n: int, sms: int) -> Tiling:
    """The tiling of an n x n x n GEMM on ``sms`` SMs: as recorded, else the one that wastes least."""
    if n in TILINGS:
        return TILINGS[n]
    pairs = sms // CLUSTER

    def waste(t: Tiling) -> float:
        return math.ceil(t.clusters(n) / pairs) * t.flops(n)

    return min(dict.fromkeys(TILINGS.values()), key=waste)


@dataclass(frozen=True)
class Machine:
    """A GPU specification with the parameters that were fitted on :data:`CALIBRATED_ON`."""

    gpu: GpuSpec
    parameters: Parameters
    warmth: float = 0.0  # 0 rested to 1 held at the power limit

    def warmed(self, gemm_s: float) -> Machine:
        """This machine as blocks with ``gemm_s`` (s) of GEMM in a row leave it: long ones run into the
        power limit, the clock falls, and tiles and latencies grow."""
        return replace(self, warmth=1.0 - math.exp(-gemm_s / self.parameters.warm_time))

    @property
    def extrapolated(self) -> bool:
        """True when this is another GPU than the one the parameters were fitted on."""
        return self.gpu.name != gpu_spec(CALIBRATED_ON).name

    @functools.cached_property
    def tile_rate(self) -> float:
        """FLOP/s of one SM inside a tile: as fitted, scaled by the dense peak of one SM."""
        fitted = gpu_spec(CALIBRATED_ON)
        own = self.gpu.peak_flops("bf16") / self.gpu.sms
        cold = self.parameters.tile_rate * own / (fitted.peak_flops("bf16") / fitted.sms)
        return cold / (1.0 + self.parameters.warm_tile * self.warmth)

    def link(self, copy: str) -> float:
        """Rate of one copy-engine copy (bytes/s): ``h2d``, ``d2h`` over PCIe, ``p2p`` over NVLink."""
        if copy == "p2p":
            # No NVLink copy is recorded yet: the link's one-way rate at the efficiency of the host link.
            return self.gpu.require("nvlink_bandwidth") * self.parameters.d2h_bandwidth
        return self.gpu.pcie_bandwidth * getattr(self.parameters, f"{copy}_bandwidth")

    def launch(self, copy: str, queued: bool = False) -> float:
        """Time (s) before a copy-engine copy begins to move, longer while a GEMM stream is ``queued``."""
        # A P2P copy is not recorded yet: its command costs what a D2H command does.
        side = "d2h" if copy == "p2p" else copy
        p = self.parameters
        return getattr(p, f"{side}_launch") + (getattr(p, f"{side}_queue") if queued else 0.0)

    def latency(
        self, gemm_sms: int, lsu_sms: int, d2d_sms: int, link: str | None = None, apart: bool = False
    ) -> tuple[float, float]:
        """Loaded memory latency (s) that copies and that GEMM tiles see.

        ``gemm_sms``, ``lsu_sms``, ``d2d_sms``: SMs at GEMM tiles, at copy_lsu and at the driver's copy;
        ``link``: the direction in which the host link is busy, or None; ``apart``: copies run on SMs of
        their own.
        """
        p = self.parameters
        by_link = getattr(p, f"{link}_latency", 0.0) if link else 0.0
        share = gemm_sms / self.gpu.sms
        tiles = p.latency * (1.0 + p.gemm_latency * share + by_link)
        if not (lsu_sms or d2d_sms):
            return tiles, tiles
        by_gemm = p.gemm_latency if apart else p.gemm_latency_mixed
        free = p.latency * (1.0 + by_gemm * share + by_link + p.warm_latency * self.warmth)
        # Read and write both cross the HBM, so a copy in flight counts twice.
        flights = [(lsu_sms, 2.0 * COPY_IN_FLIGHT), (d2d_sms, 2.0 * p.ce_in_flight)]
        capacity = self.gpu.hbm_bandwidth * (p.hbm_lsu if lsu_sms else p.hbm_ce)
        demands = [Demand(sms, flight / free, flight) for sms, flight in flights]
        demands.append(Demand(gemm_sms, p.gemm_hbm, p.gemm_hbm * tiles))
        copies = max(free, 1.0 / fair_level(capacity, demands))
        filled = sum(sms * flight for sms, flight in flights) / (capacity * p.latency)
        return copies, tiles + p.latency * p.pressure * filled**p.pressure_power

    def tile_speed(self, rows: int, latency: float) -> float:
        """Speed of a GEMM tile of so many rows at a loaded latency, relative to an idle memory."""
        return (self.parameters.latency / latency) ** getattr(self.parameters, f"stretch_{rows}")


def machine(gpu: str) -> Machine:
    """The model of a GPU by name; raises :class:`FieldError` naming the GPUs that are known."""
    return Machine(gpu_spec(gpu), calibration()[0])


@functools.cache
def calibration() -> tuple[Parameters, Mapping[str, Any]]:
    """The fitted parameters and what the fit says of itself (residuals, range), as shipped."""
    text = resources.files("ringi_lab.overlap").joinpath("calibration.json").read_text(encoding="utf-8")
    data = json.loads(text)
    try:
        return Parameters(**data["parameters"]), data["fit"]
    except (KeyError, TypeError) as error:
        again = "made for this model: run python -m ringi_lab calibrate overlap"
        raise FieldError("calibration.json", str(error), again) from error
