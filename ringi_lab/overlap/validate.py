"""The model against the recording, on the points that the held-out rule kept from the fit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from ringi_lab.core.errors import FieldError
from ringi_lab.core.validation import ALL, Bound, Point
from ringi_lab.overlap import MiB, Overlap, analysis
from ringi_lab.overlap.calibrate import Known, known, predict, recording_digest
from ringi_lab.overlap.grid import held_out
from ringi_lab.overlap.model import CALIBRATED_ON, calibration, machine

QUANTITIES = ("k_comm", "k_comp")

# What the model promises for points it has not seen (median, worst). Where SMs are shared, a copy that finds
# no SM waits for a whole GEMM: one copy more or fewer fits into a GEMM's tail, k jumps, and the recorded k
# itself depends on which SMs the copy got. There the promise is weaker, and says so.
BOUNDS = {
    ("link", "k_comm"): Bound(0.01, 0.03),
    ("link", "k_comp"): Bound(0.03, 0.06),
    ("partition", "k_comm"): Bound(0.06, 0.13),
    ("partition", "k_comp"): Bound(0.06, 0.13),
    ("sm", "k_comm"): Bound(0.08, 0.46),
    ("sm", "k_comp"): Bound(0.06, 0.18),
    ("d2d", "k_comm"): Bound(0.10, 0.30),
    ("d2d", "k_comp"): Bound(0.06, 0.13),
    (ALL, "k_comm"): Bound(0.06, 0.46),
    (ALL, "k_comp"): Bound(0.06, 0.18),
}


def label(e: Overlap) -> str:
    """Short name of a point for people."""
    sms = f" on {e.copy_sms} SMs" if e.copy_sms else ""
    margin = f", {e.sm_margin} SMs kept from the GEMM" if e.sm_margin else ""
    step = f", {e.gemm_count} GEMMs and {e.copy_count} copies" if e.gemm_count else ""
    return f"GEMM {e.gemm_n}, {e.copy} {e.copy_bytes / MiB:g} MiB{sms}{margin}{step}"


def compare(points: Iterable[Known] | None = None) -> list[Point]:
    """Predict every recorded point anew (about a minute) and pair it with its recorded value."""
    m = machine(CALIBRATED_ON)
    spread = calibration()[1]["spread"]
    pairs = []
    for p in known() if points is None else points:
        kind = analysis.kind(p.experiment)
        predicted = predict(m, p.experiment, QUANTITIES)
        for name in QUANTITIES:
            if name in predicted and name in p.values:
                pairs.append(
                    Point(
                        kind=kind,
                        quantity=name,
                        label=label(p.experiment),
                        predicted=float(f"{predicted[name]:.6g}"),
                        recorded=p.values[name],
                        spread=spread[kind][name],
                        held_out=held_out(p.experiment),
                    )
                )
    return pairs


def stored() -> list[Point]:
    """The same pairs as :func:`compare` found when the calibration was made: what pages draw.

    Raises :class:`FieldError` when they belong to another recording; a test compares them with new ones.
    """
    text = resources.files("ringi_lab.overlap").joinpath("predictions.json").read_text(encoding="utf-8")
    data = json.loads(text)
    if data["recording"] != recording_digest():
        raise FieldError("predictions.json", data["recording"], f"made for recording {recording_digest()}")
    return [Point(**p) for p in data["points"]]


def store(pairs: list[Point], path: Path | None = None) -> Path:
    """Keep the pairs for the pages."""
    path = path or Path(str(resources.files("ringi_lab.overlap"))) / "predictions.json"
    rows: list[Any] = [vars(p) for p in pairs]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f'{{"recording":"{recording_digest()}","points":[\n{lines}\n]}}\n', encoding="utf-8")
    return path
