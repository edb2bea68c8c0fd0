"""Overlap: fields are checked, blocks are judged right, the simulator obeys the physics and the recording."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from ringi_lab.core.contention import sm_share_bound, wave_bound
from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.experiment import run
from ringi_lab.core.result import Recording, recorded
from ringi_lab.core.validation import ALL, rows
from ringi_lab.overlap import (
    MOST_COUNT,
    MiB,
    Overlap,
    SmFree,
    analysis,
    exercises,
    grid,
    numbers,
    summary,
    validate,
)
from ringi_lab.overlap.analysis import Block, needs_sm
from ringi_lab.overlap.calibrate import Known, known, recording_digest
from ringi_lab.overlap.model import TILINGS, calibration, machine, tiling

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def h200() -> Recording:
    return recorded("overlap")


# --- fields -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gemm_n", 0),
        ("gemm_n", "8192"),
        ("gemm_n", 8192.0),
        ("gemm_n", None),
        ("copy_bytes", 1e6),
        ("copy_sms", 2.5),
        ("sm_margin", True),
        ("gemm_count", 3.5),
        ("pinned", "no"),
        ("trials", float("nan")),
        ("gemm_n", 1001),
        ("gemm_n", 65536),
        ("copy", "usb"),
        ("copy_bytes", 0),
        ("copy_bytes", -16),
        ("copy_bytes", 1000),
        ("copy_bytes", 2**40),
        ("copy_sms", 8),
        ("sm_margin", -8),
        ("order", "random"),
        ("gemm_count", 1),
        ("copy_count", MOST_COUNT + 1),
        ("trials", 2),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_limit(field: str, value: object) -> None:
    with pytest.raises(FieldError) as caught:
        Overlap(**{field: value})
    assert caught.value.field == field
    assert repr(value) in str(caught.value)


def test_an_sm_copy_says_how_many_sms() -> None:
    with pytest.raises(FieldError, match="copy_sms"):
        Overlap(copy="sm")
    with pytest.raises(FieldError, match="sm_margin"):
        Overlap(copy="sm", copy_sms=16, sm_margin=8)


@pytest.mark.parametrize(
    ("field", "value"),
    [("copy", "x"), ("copy_bytes", 0), ("hold_s", 5.0), ("hold_s", "a"), ("hold_s", 0.01), ("trials", 1)],
)
def test_the_litmus_checks_its_fields(field: str, value: object) -> None:
    with pytest.raises(FieldError, match=field):
        SmFree(**{field: value})


def test_a_gpu_it_does_not_know_or_an_sm_it_does_not_have() -> None:
    with pytest.raises(FieldError, match="RTX"):
        run(Overlap(), on="sim", gpu="RTX 9999")
    with pytest.raises(FieldError, match=r"copy_sms = 133: must be <= 132"):
        run(Overlap(copy="sm", copy_sms=133), on="sim")


@pytest.mark.parametrize("margin", [12, 4, 128, 132])
def test_a_margin_that_no_green_context_grants(margin: int) -> None:
    with pytest.raises(FieldError, match=r"sm_margin = \d+: must be a multiple of 8 from 8 to 120"):
        run(Overlap(copy="sm", copy_sms=margin, sm_margin=margin), on="sim")


def test_too_unequal_sides_are_refused_with_both_times() -> None:
    with pytest.raises(MeasurementRefused, match=r"too unequal \(9\.\d+ and 0\.02"):
        run(Overlap(2048, "h2d", 512 * MiB), on="sim")


def test_pageable_memory_is_refused_in_every_source() -> None:
    with pytest.raises(MeasurementRefused, match="not asynchronous"):
        run(Overlap(copy="d2h", pinned=False), on="sim")


# --- judging a block ------------------------------------------------------------------------------------


def posts(start: float, step: float, count: int) -> list[float]:
    return [start + i * step for i in range(count + 1)]


def test_a_block_gives_the_two_factors_that_were_put_in() -> None:
    block = Block(posts(0, 1.0, 10), posts(0, 0.5, 20), posts(0, 1.2, 10), posts(0, 0.75, 20))
    found, notes = analysis.samples([block] * 3)
    assert not notes
    assert found["gemm_overlap"].median / found["gemm_solo"].median == pytest.approx(1.2)
    assert found["copy_overlap"].median / found["copy_solo"].median == pytest.approx(1.5)
    assert found["together"].median == pytest.approx(15.0)


def test_an_operation_that_outlives_its_competitor_does_not_count() -> None:
    slow_then_fast = [0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # the GEMM side ends at 4.0
    block = Block(posts(0, 1.0, 4), posts(0, 1.0, 6), posts(0, 1.0, 4), slow_then_fast)
    found, _ = analysis.samples([block])
    assert found["copy_overlap"].median == pytest.approx(2.0)


def test_sides_one_after_the_other_are_no_overlap() -> None:
    """What one hardware queue does (CUDA_DEVICE_MAX_CONNECTIONS=1): the copies come after the GEMMs."""
    block = Block(posts(0, 1.0, 4), posts(0, 1.0, 4), posts(0, 1.0, 4), posts(4.0, 1.0, 4))
    with pytest.raises(MeasurementRefused, match="no overlap"):
        analysis.samples([block])


def test_a_side_without_a_counted_operation_is_refused_in_words() -> None:
    block = Block(posts(0, 1.0, 3), posts(0, 0.1, 30), posts(0, 2.5, 3), posts(0, 0.1, 40))
    found, notes = analysis.samples([block] * 4)
    assert "gemm_overlap" not in found
    assert "k of the gemm refused" in notes[0]


def test_the_litmus_refuses_a_guess(h200: Recording) -> None:
    result = next(iter(recorded("sm_free")))
    late = dataclasses.replace(
        result,
        samples={"copy_end": dataclasses.replace(result.samples["hold_end"], values=(0.0295,)),
                 "hold_end": dataclasses.replace(result.samples["hold_end"], values=(0.03,))},
    )  # fmt: skip
    with pytest.raises(MeasurementRefused, match="hold the SMs for longer"):
        needs_sm(late)


# --- the grid and what is held out ----------------------------------------------------------------------


def test_held_out_sizes_and_counts_are_held_out_whole() -> None:
    points = grid.grid()
    for e in points:
        assert grid.held_out(e) == (e.gemm_n in grid.HELD_OUT_GEMM or e.copy_sms in grid.HELD_OUT_SMS)
    fitted = [e for e in points if not grid.held_out(e)]
    assert not {e.gemm_n for e in fitted} & set(grid.HELD_OUT_GEMM)
    assert not {e.copy_sms for e in fitted} & set(grid.HELD_OUT_SMS)
    # Neither kind of hold-out sits at the rim, so every prediction is an interpolation, and none is a
    # neighbour of another.
    for held, axis in ((grid.HELD_OUT_GEMM, grid.GEMM), (grid.HELD_OUT_SMS, grid.SMS)):
        at = [axis.index(value) for value in held]
        assert 0 < min(at) <= max(at) < len(axis) - 1
        assert all(b - a > 1 for a, b in zip(at, at[1:], strict=False))


def test_the_recording_is_the_grid(h200: Recording) -> None:
    recorded_points = {Overlap(**r.parameters) for r in h200}
    missing = set(grid.grid()) - recorded_points
    assert not recorded_points - set(grid.grid())
    # Refused there, as the simulator refuses them here: far too unequal sides.
    assert missing == {Overlap(12288, copy, MiB) for copy in ("h2d", "d2h")}
    for e in missing:
        with pytest.raises(MeasurementRefused, match="too unequal"):
            run(e, on="sim")
    assert all(len(s.values) >= 24 for r in h200 for s in r.samples.values())
    assert all(h200.find(e).trace is not None for e in grid.TRACED)


def test_tilings_are_the_ones_that_were_recorded(h200: Recording) -> None:
    seen = {}
    for r in h200:
        seen[r.parameters["gemm_n"]] = r.facts["gemm_kernel"]
    assert set(TILINGS) == set(seen)
    for n, kernel in seen.items():
        t = TILINGS[n]
        assert [t.rows, t.columns] == kernel["tile"][:2]
        assert [t.cluster_rows, t.cluster_columns] == kernel["cluster"]


def test_another_size_gets_the_tiling_that_wastes_least() -> None:
    assert tiling(5120, 132) in TILINGS.values()
    assert tiling(2048, 132).clusters(2048) == 64


# --- physics of the simulator -----------------------------------------------------------------------------

SAMPLE = (
    Overlap(2048, "d2h", 16 * MiB),
    Overlap(8192, "h2d", 256 * MiB),
    Overlap(4096, "d2d", 64 * MiB),
    Overlap(8192, "sm", 256 * MiB, 32),
    Overlap(8192, "sm", 256 * MiB, 16, sm_margin=16),
    Overlap(6144, "sm", 64 * MiB, 64, sm_margin=64),
)


@pytest.mark.parametrize("e", SAMPLE, ids=validate.label)
def test_together_takes_no_less_than_the_longer_and_no_more_than_both(e: Overlap) -> None:
    found = run(e, on="sim")
    a, b, t = (found.median(n) for n in ("gemm_alone", "copy_alone", "together"))
    assert max(a, b) * (1 - 1e-9) <= t <= (a + b) * 1.02


@pytest.mark.parametrize("e", SAMPLE, ids=validate.label)
def test_no_copy_is_faster_than_its_hardware(e: Overlap) -> None:
    gpu = machine("H200").gpu
    copied = e.copy_bytes / run(e, on="sim").median("copy_solo")
    if e.copy in ("h2d", "d2h"):
        assert copied <= gpu.pcie_bandwidth
    else:
        assert 2 * copied <= gpu.hbm_bandwidth


def test_no_recorded_copy_is_faster_than_its_hardware(h200: Recording) -> None:
    gpu = machine("H200").gpu
    for r in h200:
        peak = gpu.pcie_bandwidth if r.parameters["copy"] in ("h2d", "d2h") else gpu.hbm_bandwidth / 2
        assert r.parameters["copy_bytes"] / min(r.samples["copy_solo"].values) <= peak
        flops = 2 * r.parameters["gemm_n"] ** 3 / min(r.samples["gemm_solo"].values)
        assert flops <= gpu.bf16_flops


def test_a_vanishing_competitor_leaves_k_at_one() -> None:
    tiny = summary(run(Overlap(2048, "d2h", 4096), on="sim"))
    large = summary(run(Overlap(2048, "d2h", 16 * MiB), on="sim"))
    assert tiny.k_comp.value == pytest.approx(1.0, abs=0.01)
    assert large.k_comp.value > 1.03
    few = summary(run(Overlap(8192, "sm", 256 * MiB, 8, sm_margin=8), on="sim"))
    many = summary(run(Overlap(8192, "sm", 256 * MiB, 64, sm_margin=64), on="sim"))
    assert 1.0 < few.k_comp.value < 1.1 < many.k_comp.value


def test_a_copy_of_its_own_sms_never_waits() -> None:
    part = run(Overlap(8192, "sm", 256 * MiB, 16, sm_margin=16), on="sim")
    shared = run(Overlap(8192, "sm", 256 * MiB, 16), on="sim")

    def waited(r) -> float:
        return r.median("copy_overlap") - r.median("copy_run_overlap")

    assert waited(part) < 20e-6
    assert waited(shared) > 10 * waited(part)


def test_a_margin_costs_what_the_waves_say() -> None:
    whole = run(Overlap(8192, "h2d", 256 * MiB), on="sim").median("gemm_solo")
    fewer = run(Overlap(8192, "h2d", 256 * MiB, sm_margin=16), on="sim").median("gemm_solo")
    clusters = TILINGS[8192].clusters(8192)
    assert fewer / whole >= min(sm_share_bound(132, 16), wave_bound(clusters, 66, 8)) * 0.95


def test_sixteen_of_132_sms_leave_87_9_percent() -> None:
    assert 1 / sm_share_bound(132, 16) == pytest.approx(0.879, abs=5e-4)
    assert sm_share_bound(132, 16) == pytest.approx(1.138, abs=5e-4)


def test_two_runs_are_the_same_to_the_bit() -> None:
    e = Overlap(8192, "sm", 256 * MiB, 16)
    a, b = (run(e, on="sim") for _ in range(2))
    assert a.to_dict() == b.to_dict()


@pytest.mark.parametrize("gpu", ["A100", "H100 SXM", "H100 PCIe", "B200"])
def test_another_gpu_is_simulated_and_says_that_it_extrapolates(gpu: str) -> None:
    found = run(Overlap(8192, "h2d", 256 * MiB), on="sim", gpu=gpu)
    assert any("extrapolated" in note for note in found.notes)
    assert found.source == "simulated"


def test_a_point_outside_the_recorded_range_says_so() -> None:
    found = run(Overlap(1024, "d2h", 64 * 1024), on="sim")
    assert any("outside the recorded range: gemm_n" in note for note in found.notes)
    assert not run(Overlap(8192, "h2d"), on="sim").notes


def test_litmus_verdicts_are_the_recorded_ones() -> None:
    for r in recorded("sm_free"):
        e = SmFree(**r.parameters)
        assert needs_sm(run(e, on="sim")) == needs_sm(r) == (e.copy in ("sm", "d2d"))


# --- the model against the recording -------------------------------------------------------------------------


def test_the_calibration_belongs_to_the_recording() -> None:
    _, fit = calibration()
    assert fit["recording"] == recording_digest()
    assert fit["points"] == sum(not grid.held_out(p.experiment) for p in known())


def test_no_k_is_typed_into_the_model() -> None:
    for name in ("model.py", "simulator.py"):
        text = (ROOT / "ringi_lab/overlap" / name).read_text(encoding="utf-8")
        assert not re.search(r"\bk_comm\b|\bk_comp\b", text)


def test_every_promise_is_kept_on_points_that_no_fit_has_seen() -> None:
    """The same numbers as ``python -m ringi_lab validate`` and the chapter print."""
    found = rows(validate.stored(), validate.BOUNDS)
    assert [r for r in found if not r.kept] == []


def test_the_model_beats_a_constant_and_stays_in_the_range_it_states() -> None:
    whole = {r.quantity: r for r in rows(validate.stored(), validate.BOUNDS) if r.kind == ALL}
    assert sum(r.inside * r.count for r in whole.values()) / sum(r.count for r in whole.values()) >= 0.95
    for row in whole.values():
        assert row.median <= 0.06
        # Wherever k exceeds 1.1: at most half the error of the best guess of one number.
        assert row.model_error <= row.constant_error / 2


def test_stored_predictions_are_what_the_model_says_now() -> None:
    stored = {(p.label, p.quantity): p for p in validate.stored()}
    points = known()
    assert len({label for label, _ in stored}) == len({validate.label(p.experiment) for p in points})
    # Every seventh point, so that the test stays short; `validate` predicts all of them anew.
    some: list[Known] = [p for p in points if p.experiment.copy != "d2d"][::7]
    for fresh in validate.compare(some):
        kept = stored[fresh.label, fresh.quantity]
        assert fresh.predicted == pytest.approx(kept.predicted, rel=1e-6), fresh.label
        assert fresh.recorded == pytest.approx(kept.recorded, rel=1e-9), fresh.label


# --- teaching ----------------------------------------------------------------------------------------------


def test_every_number_of_the_chapter_exists_and_every_number_is_used() -> None:
    text = (ROOT / "chapters/04_overlap.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\{glue:text\}`([a-z0-9_]+)`", text))
    told = numbers.told()
    assert used <= set(told)
    assert all(value and "nan" not in value for value in told.values())


def test_right_and_wrong_answers_get_their_points() -> None:
    assert exercises.prediction(11.5, "queueing").points == 3.0
    assert exercises.prediction(1.25, "contention").points == 0.0
    assert exercises.prediction(1.25, "queueing").points == 1.0
    assert exercises.diagnosis("drift").points == 2.0
    assert exercises.diagnosis("contention").points == 0.0
    marks = [exercises.quota(8192, sms).points for sms in grid.MARGINS]
    assert max(marks) == 3.0
    assert marks[-1] == 0.0


@pytest.mark.parametrize("wrong", [float("nan"), -1.0, 0.0, "eleven"])
def test_a_prediction_must_be_a_number(wrong: object) -> None:
    with pytest.raises(FieldError, match="k_comm"):
        exercises.prediction(wrong, "queueing")  # type: ignore[arg-type]


def test_a_cause_must_be_one_of_three() -> None:
    with pytest.raises(FieldError, match="cause"):
        exercises.diagnosis("magic")


def test_the_calibration_file_is_plain_and_finite() -> None:
    data = json.loads((ROOT / "ringi_lab/overlap/calibration.json").read_text(encoding="utf-8"))
    assert all(math.isfinite(v) and v > 0 for v in data["parameters"].values())
