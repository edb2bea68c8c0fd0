"""Every number that the chapter's prose prints, worked out from the recording: none is typed in."""

from __future__ import annotations

from ringi_lab.core.contention import sm_share_bound, wave_bound
from ringi_lab.core.result import Recording, Result, recorded
from ringi_lab.core.stats import median
from ringi_lab.core.validation import rows
from ringi_lab.overlap import MiB, Overlap, analysis
from ringi_lab.overlap.analysis import summary
from ringi_lab.overlap.grid import HELD_OUT_GEMM, HELD_OUT_SMS, MARGINS, STEP_WORK, held_out, step
from ringi_lab.overlap.model import CLUSTER, TILINGS
from ringi_lab.overlap.validate import BOUNDS, stored


def told() -> dict[str, str]:
    """The numbers by name, formatted for prose (units are in the prose)."""
    recording = recorded("overlap")
    found = _headlines(recording) | _band(recording) | _drift(recording) | _step(recording) | _errors()
    litmus = {r.parameters["copy"]: analysis.needs_sm(r) for r in recorded("sm_free")}
    found["litmus_free"] = ", ".join(sorted(c for c, needs in litmus.items() if not needs))
    found["litmus_needs"] = ", ".join(sorted(c for c, needs in litmus.items() if needs))
    return found


def _headlines(recording: Recording) -> dict[str, str]:
    points = {
        "h2d": Overlap(8192, "h2d", 256 * MiB),
        "d2h": Overlap(8192, "d2h", 256 * MiB),
        "d2d": Overlap(8192, "d2d", 256 * MiB),
        "shared": Overlap(8192, "sm", 256 * MiB, 16),
        "part": Overlap(8192, "sm", 256 * MiB, 16, sm_margin=16),
        "small": Overlap(2048, "h2d", 64 * MiB),
    }
    found = {}
    for name, point in points.items():
        result = recording.find(point)
        s = summary(result)
        found[f"{name}_k_comm"] = _k(s.k_comm)
        found[f"{name}_k_comp"] = _k(s.k_comp)
        found[f"{name}_fraction"] = f"{s.fraction.value:.0%}"
        found[f"{name}_gemm_ms"] = f"{result.median('gemm_solo') * 1e3:.2f}"
        found[f"{name}_copy_us"] = f"{result.median('copy_solo') * 1e6:.0f}"
    shared, part = (recording.find(points[n]) for n in ("shared", "part"))
    found["shared_run"] = _k(shared.median("copy_run_overlap") / shared.median("copy_run_solo"))
    wait = shared.median("copy_overlap") - shared.median("copy_run_overlap")
    found["shared_wait_us"] = f"{wait * 1e6:.0f}"
    found["shared_wait_share"] = f"{wait / shared.median('copy_overlap'):.0%}"
    found["margin_price"] = f"{part.median('gemm_solo') / shared.median('gemm_solo') - 1:.0%}"
    found["margin_bound"] = f"{sm_share_bound(int(part.facts['sms']), 16):.3f}"
    sms, tiles = int(part.facts["sms"]), TILINGS[8192].clusters(8192)
    found["margin_waves"] = f"{wave_bound(tiles, sms // CLUSTER, 16 // CLUSTER):.3f}"
    found["sms"] = str(part.facts["sms"])
    found["queue_guess"] = f"{1 + _ratio(recording.find(points['d2d'])):.1f}"
    return found


def _ratio(result: Result) -> float:
    return result.median("gemm_solo") / result.median("copy_solo")


def _band(recording: Recording) -> dict[str, str]:
    pairs = [(r, summary(r)) for r in recording if r.parameters["order"] == "interleaved"]
    comm = [s.k_comm.value for _, s in pairs if s.k_comm]
    comp = [s.k_comp.value for _, s in pairs if s.k_comp]
    low, high = analysis.POPULAR
    return {
        "points": str(len(pairs)),
        "k_comm_low": _k(min(comm)),
        "k_comm_high": f"{max(comm):.0f}",
        "k_comp_median": _k(median(comp)),
        "k_comp_low": _k(min(comp)),
        "k_comp_high": f"{max(comp):.1f}",
        "in_band_comm": f"{sum(low <= k <= high for k in comm) / len(comm):.0%}",
        "in_band_comp": f"{sum(low <= k <= high for k in comp) / len(comp):.0%}",
        "held_out_gemm": " and ".join(map(str, HELD_OUT_GEMM)),
        "held_out_sms": " and ".join(map(str, HELD_OUT_SMS)),
        "held_out": str(sum(held_out(Overlap(**r.parameters)) for r, _ in pairs)),
    }


def _drift(recording: Recording) -> dict[str, str]:
    """One card, one GEMM, no competitor: its first block against its last ones."""
    result = recording.find(Overlap(8192, "h2d", 256 * MiB, order="sequential"))
    solo = result.samples["gemm_solo"].values
    clocks = result.samples["sm_clock_gemm"].values
    late = median(solo[len(solo) // 2 :])
    return {
        "trials": str(len(solo)),
        "drift_first_ms": f"{solo[0] * 1e3:.2f}",
        "drift_late_ms": f"{late * 1e3:.2f}",
        "drift_k": f"{late / solo[0]:.2f}",
        "sequential_k_comp": _k(summary(result).k_comp),
        "naive_k": f"{result.median('gemm_overlap') / solo[0]:.2f}",
        "clock_first_mhz": f"{clocks[0] / 1e6:.0f}",
        "clock_late_mhz": f"{median(clocks[len(clocks) // 2 :]) / 1e6:.0f}",
    }


def _step(recording: Recording) -> dict[str, str]:
    n = 8192
    steps = {margin: recording.find(step(n, margin)).median("together") for margin in MARGINS}
    best = min(steps, key=lambda margin: steps[margin])
    gemms, copies = STEP_WORK[n]
    alone = recording.find(Overlap(n, "sm", 256 * MiB, 48))  # 48 SMs saturate the HBM: the fastest copy alone
    serial = gemms * alone.median("gemm_solo") + copies * alone.median("copy_solo")
    return {
        "step_gemms": str(gemms),
        "step_copies": str(copies),
        "step_best_sms": str(best),
        "step_best_ms": f"{steps[best] * 1e3:.1f}",
        "step_worst_ms": f"{max(steps.values()) * 1e3:.1f}",
        "step_serial_ms": f"{serial * 1e3:.1f}",
        "step_gain": f"{1 - steps[best] / serial:.0%}",
    }


def _errors() -> dict[str, str]:
    found = {}
    for row in rows(stored(), BOUNDS):
        found[f"{row.kind}_{row.quantity}_median"] = f"{row.median:.1%}"
        found[f"{row.kind}_{row.quantity}_worst"] = f"{row.worst:.0%}"
    return found


def _k(value) -> str:
    value = getattr(value, "value", value)
    return f"{value:.2f}" if value < 9.95 else f"{value:.1f}"
