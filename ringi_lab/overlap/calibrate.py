"""Find the model's parameters from the recorded points that the held-out rule leaves to it.

``python -m ringi_lab calibrate overlap`` runs the stages below in order, each a small least-squares fit of
a few parameters on the points that show them, and writes ``calibration.json``: the parameters, what the
fit used, and how far the fitted points are off. SciPy (bib key ``scipy2020``) is needed for this alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ringi_lab.core.hardware import gpu_spec
from ringi_lab.core.intervals import durations
from ringi_lab.core.result import recorded
from ringi_lab.overlap import MiB, Overlap, analysis
from ringi_lab.overlap.grid import held_out
from ringi_lab.overlap.model import CALIBRATED_ON, Machine, Parameters
from ringi_lab.overlap.simulator import play, simulate_block

# Where the search begins: the last fit, rounded. A fit from orders of magnitude ends at the same place, slower.
START = Parameters(
    tile_rate=8900000000000.0,
    gemm_launch=2.09e-06,
    gemm_prologue=3.15e-06,
    jitter_192=0.035,
    jitter_128=0.06,
    stretch_256=1.07,
    stretch_320=1.18,
    stretch_192=1.32,
    pressure=0.358,
    pressure_power=1.97,
    latency=1.28e-06,
    gemm_latency=0.256,
    gemm_latency_mixed=0.24,
    gemm_hbm=11100000000.0,
    hbm_lsu=0.798,
    hbm_ce=0.851,
    ce_in_flight=51000.0,
    lsu_launch=5.08e-06,
    d2d_launch=3.7e-06,
    queue_delay=2.76e-06,
    h2d_bandwidth=0.881,
    d2h_bandwidth=0.879,
    h2d_launch=3.99e-06,
    d2h_launch=3.22e-06,
    h2d_queue=4.24e-07,
    d2h_queue=6.93e-07,
    h2d_fetch=5.25e-06,
    d2h_fetch=1.23e-06,
    h2d_latency=0.00783,
    d2h_latency=0.00394,
    warm_time=0.015,
    warm_tile=0.114,
    warm_latency=0.242,
)


@dataclass(frozen=True)
class Known:
    """One recorded point: its experiment and the recorded medians of the quantities (s, or ratios)."""

    experiment: Overlap
    values: dict[str, float]


@dataclass(frozen=True)
class Stage:
    """One fit: which parameters, on which quantities of which points."""

    parameters: tuple[str, ...]
    quantities: tuple[str, ...]
    on: Callable[[Overlap], bool]


def _link(e: Overlap, direction: str) -> bool:
    return e.copy == direction and not e.sm_margin and e.gemm_n <= 8192 and e.copy_bytes <= 64 * MiB


def _long(e: Overlap) -> bool:
    if e.sm_margin:
        return False
    return (e.copy in ("h2d", "d2h") and e.gemm_n >= 6144) or (e.copy == "sm" and e.gemm_n in (6144, 16384))


def _queueing(e: Overlap) -> bool:
    if e.sm_margin or e.gemm_n not in (6144, 8192, 16384):
        return False
    return e.copy == "sm" or (e.copy == "d2d" and e.copy_bytes >= 16 * MiB)


# A tile's time depends on what the stages between these leave of the latency: fitted anew after each.
_TILES = Stage(
    ("tile_rate", "gemm_prologue"), ("gemm_s",), lambda e: _link(e, "d2h") and e.copy_bytes == 64 * MiB
)

STAGES = (
    Stage(("latency", "hbm_lsu", "lsu_launch"), ("copy_s",), lambda e: e.copy == "sm" and e.gemm_n == 2048),
    Stage(("hbm_ce", "d2d_launch"), ("copy_s",), lambda e: e.copy == "d2d" and e.gemm_n == 2048),
    Stage(("h2d_bandwidth", "h2d_launch"), ("copy_s",), lambda e: _link(e, "h2d")),
    Stage(("d2h_bandwidth", "d2h_launch"), ("copy_s",), lambda e: _link(e, "d2h")),
    _TILES,
    Stage(
        (
            "stretch_256",
            "stretch_320",
            "stretch_192",
            "pressure",
            "pressure_power",
            "gemm_latency",
            "gemm_hbm",
        ),
        ("k_comm", "k_comp"),
        lambda e: e.copy == "sm" and e.sm_margin > 0 and e.gemm_count is None and e.gemm_n < 16384,
    ),
    _TILES,
    Stage(("warm_time", "warm_tile", "warm_latency"), ("gemm_s", "copy_s"), _long),
    Stage(("h2d_fetch", "h2d_latency", "h2d_queue"), ("k_comm", "k_comp"), lambda e: _link(e, "h2d")),
    Stage(("d2h_fetch", "d2h_latency", "d2h_queue"), ("k_comm", "k_comp"), lambda e: _link(e, "d2h")),
    Stage(
        ("gemm_latency_mixed", "jitter_192", "jitter_128", "ce_in_flight", "queue_delay", "gemm_launch"),
        ("k_comm", "k_comp"),
        _queueing,
    ),
    _TILES,
)


def known(device: str = CALIBRATED_ON) -> list[Known]:
    """The recorded points of the interleaved protocol, held-out ones included."""
    points = []
    for result in recorded("overlap", device):
        e = Overlap(**result.parameters)
        if e.order != "interleaved":
            continue
        s = analysis.summary(result)
        values = {"gemm_s": result.median("gemm_solo"), "copy_s": result.median("copy_solo")}
        values |= {n: k.value for n, k in (("k_comm", s.k_comm), ("k_comp", s.k_comp)) if k is not None}
        points.append(Known(e, values))
    return points


def predict(m: Machine, e: Overlap, quantities: Sequence[str]) -> dict[str, float]:
    """The model's values of some quantities; only the blocks that they need are played."""
    if set(quantities) <= {"gemm_s", "copy_s"}:
        gemm_s = durations(simulate_block(m, e, 3, 0).gemm.posts)[-1]
        copy_s = durations(simulate_block(m, e, 0, 3).copy.posts)[-1]
        warm = m.warmed(e.counts(gemm_s, copy_s)[0] * gemm_s)
        found = {
            "gemm_s": durations(simulate_block(warm, e, 3, 0).gemm.posts)[-1],
            "copy_s": durations(simulate_block(warm, e, 0, 3).copy.posts)[-1],
        }
        return {name: found[name] for name in quantities}
    rows, _ = analysis.samples([play(m, e)[0]])
    value = {name: s.values[0] for name, s in rows.items()}
    found = {"gemm_s": value["gemm_solo"], "copy_s": value["copy_solo"]}
    if "copy_overlap" in value:
        found["k_comm"] = value["copy_overlap"] / value["copy_solo"]
    if "gemm_overlap" in value:
        found["k_comp"] = value["gemm_overlap"] / value["gemm_solo"]
    return {name: found[name] for name in quantities if name in found}


def fit(start: Parameters = START, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Run all stages and return the content of ``calibration.json``. Takes some minutes."""
    from scipy.optimize import least_squares

    points = [p for p in known() if not held_out(p.experiment)]
    parameters = start
    for stage in STAGES:
        chosen = [p for p in points if stage.on(p.experiment)]

        residuals = functools.partial(_residuals, parameters, stage, chosen)
        first = [math.log(getattr(parameters, n)) for n in stage.parameters]
        # Steps of 2% see past the grain of whole tiles; the soft loss keeps one odd point from ruling.
        found = least_squares(residuals, first, diff_step=0.02, loss="soft_l1", f_scale=0.05, max_nfev=8)
        best = {n: float(f"{math.exp(x):.4g}") for n, x in zip(stage.parameters, found.x, strict=True)}
        parameters = replace(parameters, **best)
        sizes = sorted(abs(r) for r in found.fun)
        say(f"{len(chosen)} points, median {sizes[len(sizes) // 2]:.1%}, worst {sizes[-1]:.1%}: {best}")
    return {"parameters": asdict(parameters), "fit": describe(parameters, points)}


def _residuals(
    parameters: Parameters, stage: Stage, points: Sequence[Known], logs: Sequence[float]
) -> list[float]:
    """ln(model / recorded) of a stage's quantities, with the stage's parameters at exp(``logs``)."""
    found = {n: math.exp(x) for n, x in zip(stage.parameters, logs, strict=True)}
    m = Machine(gpu_spec(CALIBRATED_ON), replace(parameters, **found))
    return [off for point in points for off in _off(m, point, stage.quantities).values()]


def _off(m: Machine, point: Known, quantities: Sequence[str]) -> dict[str, float]:
    """ln(model / recorded) of those quantities of a point that both have."""
    predicted = predict(m, point.experiment, quantities)
    return {n: math.log(v / point.values[n]) for n, v in predicted.items() if n in point.values}


def describe(parameters: Parameters, points: Sequence[Known]) -> dict[str, Any]:
    """What the fit says of itself: its points, their range, and its spread by kind and quantity."""
    m = Machine(gpu_spec(CALIBRATED_ON), parameters)
    off: dict[str, dict[str, list[float]]] = {}
    for point in points:
        for name, value in _off(m, point, ("k_comm", "k_comp")).items():
            off.setdefault(analysis.kind(point.experiment), {}).setdefault(name, []).append(abs(value))
    spread = {
        kind: {name: float(f"{max(values):.3g}") for name, values in sorted(by_name.items())}
        for kind, by_name in sorted(off.items())
    }
    sizes = {name: [getattr(p.experiment, name) for p in points] for name in ("gemm_n", "copy_bytes")}
    return {
        "device": CALIBRATED_ON,
        "points": len(points),
        "recording": recording_digest(),
        "limits": {name: [min(values), max(values)] for name, values in sizes.items()},
        "spread": spread,
    }


def recording_digest() -> str:
    """SHA-256 (16 hex digits) of the recording that the fit used: a new recording asks for a new fit."""
    file = resources.files("ringi_lab") / "recordings" / "nvidia_h200" / "overlap.json"
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def write(content: dict[str, Any], path: Path | None = None) -> Path:
    """Write the calibration beside this module, or to ``path``."""
    path = path or Path(str(resources.files("ringi_lab.overlap"))) / "calibration.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path
