"""The command line: what it lists, what it refuses, and that it writes nothing then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from test_result import MEASURED

from ringi_lab import __main__ as cli
from ringi_lab import catalog
from ringi_lab.core import validation
from ringi_lab.core.errors import FieldError, GpuUnavailable, MeasurementRefused
from ringi_lab.core.experiment import Experiment
from ringi_lab.core.result import Recording, Result, Samples
from ringi_lab.core.validation import Bound
from ringi_lab.overlap import Overlap

ROOT = Path(__file__).parents[1]


def test_list_names_every_experiment_with_its_purpose() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ringi_lab", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert {"overlap", "sm_free"} <= lines.keys()
    assert lines["overlap"].startswith("A square bf16 GEMM on one stream, copies on another")
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [[], ["fly"], ["record"], ["record", "overlap", "--in", "x"]])
def test_a_wrong_call_is_told_how_and_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m ringi_lab" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["record", "calibrate", "validate"])
def test_an_unknown_topic_ends_with_2_and_names_the_topics(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")] if command == "record" else []
    assert cli.main([command, "teleport", *out]) == 2
    said = capsys.readouterr()
    assert f"error: topic = 'teleport': must be one of {', '.join(catalog.topics())}" in said.err
    assert list(tmp_path.iterdir()) == []


# --- record ------------------------------------------------------------------------------------------


def test_record_without_a_gpu_ends_with_2_says_why_and_writes_nothing(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch (a CPU build is enough)")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: it would record")
    command = [sys.executable, "-m", "ringi_lab", "record", "overlap", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: cannot measure: CUDA in torch: found torch" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


class Machine:
    """Stands in for a GPU: measures every point, except those that it is told to refuse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, points: list[Overlap]) -> None:
        self.points = points
        self.asked: list[Overlap] = []
        self.errors: dict[Overlap, Exception] = {}
        monkeypatch.setattr(catalog, "recordings", lambda topic: {topic: list(points)})
        monkeypatch.setattr(catalog, "traced", lambda topic: (points[0],))
        monkeypatch.setattr(cli, "run", self.run)

    def run(self, point: Experiment, on: str) -> Result:
        assert on == "gpu"
        self.asked.append(point)
        if point in self.errors:
            raise self.errors[point]
        samples = {"together": Samples("s", (1e-3,))}
        return Result(point.name, point.parameters(), "measured", MEASURED, samples)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch, [Overlap(2048), Overlap(4096), Overlap(8192)])


def test_record_writes_one_file_for_the_device(machine: Machine, tmp_path: Path) -> None:
    assert cli.main(["record", "overlap", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.rglob("*.json")
    assert path.relative_to(tmp_path).as_posix() == "nvidia_h200/overlap.json"
    assert [r.parameters["gemm_n"] for r in Recording.load(path)] == [2048, 4096, 8192]


@pytest.mark.parametrize(
    "error", [MeasurementRefused("no overlap: 0.000 ms in common"), FieldError("gemm_n", 4096, "small")]
)
def test_a_refused_point_is_named_and_left_out(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    machine.errors[Overlap(4096)] = error
    assert cli.main(["record", "overlap", "--out", str(tmp_path)]) == 0
    assert "refused: overlap(gemm_n=4096, copy=h2d" in (said := capsys.readouterr().out)
    assert str(error) in said
    assert [r.parameters["gemm_n"] for r in Recording.load(next(tmp_path.rglob("*.json")))] == [2048, 8192]


def test_when_every_point_is_refused_nothing_is_written(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.errors = {point: MeasurementRefused("no overlap") for point in machine.points}
    assert cli.main(["record", "overlap", "--out", str(tmp_path)]) == 2
    assert "error: overlap: every point was refused, nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_goes_away_ends_it_and_leaves_the_old_recording(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["record", "overlap", "--out", str(tmp_path)])
    (path,) = tmp_path.rglob("*.json")
    old = path.read_bytes()
    machine.errors[Overlap(8192)] = GpuUnavailable("a CUDA GPU", "none", "one")
    assert cli.main(["record", "overlap", "--out", str(tmp_path)]) == 2
    assert "error: cannot measure: a CUDA GPU" in capsys.readouterr().err
    assert path.read_bytes() == old
    assert len(list(tmp_path.rglob("*"))) == 2  # the folder and the file


# --- validate ----------------------------------------------------------------------------------------


def points(error: float) -> list[validation.Point]:
    """Three held-out points with this relative error, and a bad one that the fit was allowed to see."""
    recorded = (1.0, 1.5, 2.0)
    made = [
        validation.Point("link", "k_comm", f"point {r}", r * (1 + error), r, 0.1, held_out=True)
        for r in recorded
    ]
    return [*made, validation.Point("link", "k_comm", "fitted", 9.0, 1.0, 0.1, held_out=False)]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    """Sets the error of the model that ``validate`` asks."""

    def of(error: float) -> None:
        class Part:
            BOUNDS: ClassVar = {("link", "k_comm"): Bound(median=0.02, worst=0.05)}

            @staticmethod
            def compare() -> list[validation.Point]:
                return points(error)

        monkeypatch.setattr(catalog, "part", lambda topic, name: Part)

    return of


@pytest.mark.parametrize(("error", "status"), [(0.01, 0), (-0.015, 0), (0.03, 1), (-0.2, 1)])
def test_validate_fails_when_a_bound_is_broken(model, capsys, error: float, status: int) -> None:
    model(error)
    assert cli.main(["validate", "overlap"]) == status
    said = capsys.readouterr().out
    assert ("BROKEN" in said) is bool(status)
    assert ("every promise is kept" in said) is not bool(status)
    assert "worst link k_comm" in said


@pytest.mark.parametrize(("error", "kept"), [(0.01, True), (0.03, False)])
def test_validate_prints_the_same_as_json(model, capsys, error: float, kept: bool) -> None:
    model(error)
    assert cli.main(["validate", "overlap", "--json"]) == (0 if kept else 1)
    said = json.loads(capsys.readouterr().out)
    (row,) = said["topics"]["overlap"]
    assert said["kept"] is row["kept"] is kept
    assert (row["kind"], row["quantity"], row["count"]) == ("link", "k_comm", 3)
    assert row["median"] == pytest.approx(error)
    assert row["worst"] == pytest.approx(error)
    assert row["bound"] == {"median": 0.02, "worst": 0.05}


def test_validate_without_a_topic_asks_them_all(model, capsys) -> None:
    model(0.0)
    assert cli.main(["validate", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["topics"]) == catalog.topics()
