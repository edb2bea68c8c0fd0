"""Results and recordings: round trip, every kind of damage, and never half a file."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringi_lab.core import result as module
from ringi_lab.core.errors import FieldError, RecordingError
from ringi_lab.core.result import (
    UNITS,
    Provenance,
    Recording,
    Result,
    Samples,
    device_folder,
    recorded,
)
from ringi_lab.core.trace import Span, Trace

CLOCKS = {"sm_hz": 1.98e9, "memory_hz": 3.2e9, "power_w": 120.5, "temperature_c": 40, "throttle": []}
MEASURED = Provenance(
    device="NVIDIA H200",
    driver="580.159.04",
    cuda="13.0",
    libraries={"torch": "2.11.0"},
    clocks_before=CLOCKS,
    clocks_after={**CLOCKS, "throttle": ["software power cap"]},
    time="2026-12-01T03:14:39+00:00",
    commit="f52ba2b",
    command="python -m ringi_lab record demo",
    code="400229daccfc04ec",
)
SIMULATED = Provenance(device="H200", libraries={"simpy": "4.1.2"})


@dataclass(frozen=True)
class Point:
    """What a recording is asked for: like an experiment, without the list of all experiments."""

    name: ClassVar[str] = "demo"
    size: int = 1

    def parameters(self) -> dict[str, Any]:
        return {"size": self.size}


def a_result(size: int = 1, source: str = "measured", **changes: Any) -> Result:
    """A small result with one of everything."""
    provenance = MEASURED if source != "simulated" else SIMULATED
    trace = Trace("demo", source, provenance.device, ("lane",), (Span("lane", "x", 0.0, 1e-3),))
    parts = {
        "experiment": "demo",
        "parameters": {"size": size},
        "source": source,
        "provenance": provenance,
        "samples": {"time": Samples("s", (1e-3, 1.5e-3, 1.2e-3)), "clock": Samples("Hz", (1.98e9,))},
        "facts": {"kernel": {"tile": [256, 128]}},
        "trace": trace,
        "notes": ("nothing unusual",),
    }
    return Result(**{**parts, **changes})


def a_recording(*sizes: int) -> Recording:
    """A recording of one result for each size."""
    return Recording("demo", MEASURED, [a_result(size) for size in sizes or (1, 2)])


# --- results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["simulated", "measured", "recorded"])
def test_a_result_survives_a_file(tmp_path: Path, source: str) -> None:
    result = a_result(source=source)
    path = result.save(tmp_path / "deep" / "result.json")
    assert Result.load(path) == result
    assert path.stat().st_mode & 0o777 == 0o644


def test_every_number_says_where_it_is_from() -> None:
    assert a_result().label == "measured · NVIDIA H200"
    assert a_result(source="simulated").label == "simulated · H200"
    assert a_result().median("time") == 1.2e-3
    assert a_result().samples["time"].bootstrap().value == 1.2e-3
    with pytest.raises(FieldError, match="samples = 'speed': must be one of time, clock"):
        a_result().median("speed")


@given(st.floats(-1e300, 1e300, allow_subnormal=False))
def test_stored_samples_keep_six_digits(value: float) -> None:
    result = a_result(samples={"x": Samples("s", (value,))})
    kept = Result.from_dict(result.to_dict()).samples["x"].values[0]
    assert kept == pytest.approx(value, rel=6e-6, abs=0)
    assert kept == float(f"{value:.6g}")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": "guessed"}, "source"),
        ({"samples": {"time": Samples("", (1.0,))}}, "samples['time'].unit"),
        ({"samples": {"time": Samples("ms", (1.0,))}}, "samples['time'].unit"),
        ({"samples": {"time": Samples("GB/s", (1.0,))}}, "samples['time'].unit"),
        ({"samples": {"time": Samples("s", (math.nan,))}}, "samples['time']"),
        ({"samples": {"time": Samples("s", (1.0, math.inf))}}, "samples['time']"),
        ({"samples": {"time": Samples("s", ())}}, "samples['time']"),
        ({"trace": Trace("t", "simulated", "NVIDIA H200", ())}, "trace.source"),
        ({"trace": Trace("t", "measured", "H100", ())}, "trace.source"),
    ],
)
def test_a_result_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        a_result(**changes)
    assert caught.value.field == field


def test_units_have_no_prefix() -> None:
    assert "s" in UNITS
    assert not {"ms", "us", "GB/s", "MiB", "MHz", "%"} & set(UNITS)


@pytest.mark.parametrize("facts", [{"x": math.nan}, {"x": {1}}])
def test_facts_must_be_json_and_nothing_is_written(tmp_path: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match="JSON data"):
        a_result(facts=facts).save(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


def test_a_measurement_needs_its_whole_provenance_and_a_simulation_does_not(tmp_path: Path) -> None:
    a_result(source="simulated").save(tmp_path / "sim.json")
    bare = replace(SIMULATED, device="NVIDIA H200")
    with pytest.raises(RecordingError, match=r"x\.json: provenance"):
        a_result(provenance=bare).save(tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


# --- recordings ---------------------------------------------------------------------------------------


def test_a_recording_survives_a_file_and_says_recorded(tmp_path: Path) -> None:
    path = a_recording(1, 2, 3).save(tmp_path / "demo.json")
    loaded = Recording.load(path)
    assert len(loaded) == 3
    assert [r.parameters["size"] for r in loaded] == [1, 2, 3]
    assert {r.source for r in loaded} == {"recorded"}
    assert {r.trace.source for r in loaded} == {"recorded"}
    assert loaded.provenance == MEASURED
    assert loaded.device == "NVIDIA H200"
    assert list(loaded) == list(a_recording(1, 2, 3))
    # Written again it is the same file, byte for byte.
    assert loaded.save(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_file_has_a_line_for_each_result(tmp_path: Path) -> None:
    lines = a_recording(1, 2, 3).save(tmp_path / "demo.json").read_text().splitlines()
    assert len(lines) == 5
    assert all(json.loads(line.rstrip(","))["experiment"] == "demo" for line in lines[1:4])


def test_a_recording_is_found_by_its_parameters() -> None:
    recording = a_recording(1, 2)
    assert recording.find(Point(2)).parameters == {"size": 2}
    with pytest.raises(FieldError, match="must be one of the 2 recorded for 'demo' on NVIDIA H200"):
        recording.find(Point(3))

    class Other(Point):
        name = "other"

    with pytest.raises(FieldError, match="experiment"):
        recording.find(Other(2))


@pytest.mark.parametrize(
    ("results", "field"),
    [
        ([a_result(1), a_result(1)], "results"),
        ([a_result(1, experiment="other")], "experiment"),
        ([a_result(1, provenance=replace(MEASURED, device="NVIDIA A100"), trace=None)], "device"),
        (
            [
                a_result(
                    1, source="simulated", provenance=replace(SIMULATED, device="NVIDIA H200"), trace=None
                )
            ],
            "source",
        ),
    ],
    ids=["twice", "another experiment", "another device", "simulated"],
)
def test_what_does_not_belong_is_not_recorded(results: list[Result], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        Recording("demo", MEASURED, results)
    assert caught.value.field == field


def test_an_empty_recording_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"x\.json: results"):
        Recording("demo", MEASURED, []).save(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []


# --- damage ---------------------------------------------------------------------------------------------


def first(data: dict[str, Any]) -> dict[str, Any]:
    return data["results"][0]


def time_of(data: dict[str, Any]) -> dict[str, Any]:
    return first(data)["samples"]["time"]


DAMAGE = {
    "wrong schema": (lambda d: d.update(schema="ringi-recording/2"), "schema", "ringi-recording/1"),
    "no schema": (lambda d: d.pop("schema"), "top level", "'schema' is a required property"),
    "unknown field": (lambda d: d.update(extra=1), "top level", "extra"),
    "no results": (lambda d: d.update(results=[]), "results", "non-empty|too short"),
    "results no list": (lambda d: d.update(results={}), "results", "array"),
    "no driver": (lambda d: d["provenance"].pop("driver"), "provenance", "'driver' is a required"),
    "no device": (lambda d: d["provenance"].update(device=""), "provenance/device", "non-empty|too short"),
    "no code": (lambda d: d["provenance"].update(code="latest"), "provenance/code", "match"),
    "local time": (lambda d: d["provenance"].update(time="yesterday"), "provenance/time", "match"),
    "no throttle": (
        lambda d: d["provenance"]["clocks_after"].pop("throttle"),
        "provenance/clocks_after",
        "'throttle' is a required",
    ),
    "no commit": (lambda d: d["provenance"].update(commit=""), "provenance/commit", "''"),
    "no facts": (lambda d: first(d).pop("facts"), "results/0", "'facts' is a required"),
    "no unit": (lambda d: time_of(d).pop("unit"), "results/0/samples/time", "'unit' is a required"),
    "empty unit": (lambda d: time_of(d).update(unit=""), "results/0/samples/time/unit", "''"),
    "wrong unit": (lambda d: time_of(d).update(unit="ms"), "samples['time'].unit", "'ms': must be one of s"),
    "empty values": (lambda d: time_of(d).update(values=[]), "results/0/samples/time/values", r"\[\]"),
    "text value": (lambda d: time_of(d).update(values=["1"]), "results/0/samples/time/values/0", "number"),
    "null value": (lambda d: time_of(d).update(values=[None]), "results/0/samples/time/values/0", "None"),
    "true value": (lambda d: time_of(d).update(values=[True]), "results/0/samples/time/values/0", "True"),
    "huge value": (lambda d: time_of(d).update(values=[10**400]), "samples", "beyond floating point"),
    "twice": (lambda d: d["results"].append(first(d)), "results", "different in every result"),
    "another experiment": (lambda d: first(d).update(experiment="other"), "experiment", "'other' inside"),
    "notes no list": (lambda d: first(d).update(notes="none"), "results/0/notes", "array"),
    "trace of another shape": (lambda d: first(d).update(trace={"schema": "x"}), "schema", "ringi-trace/1"),
    "trace with a span outside": (
        lambda d: first(d)["trace"]["spans"][0].__setitem__(0, -1),
        "spans lane",
        "-1",
    ),
    "trace of another device": (
        lambda d: first(d)["trace"].update(device="NVIDIA A100"),
        "trace.source",
        "NVIDIA A100",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_with_file_field_and_reason(tmp_path: Path, kind: str) -> None:
    change, field, why = DAMAGE[kind]
    path = a_recording(1, 2).save(tmp_path / "demo.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordingError, match=why) as caught:
        Recording.load(path)
    error = caught.value
    assert error.file == str(path)
    assert error.field == field
    assert str(error).startswith(f"{path}: {field}: ")


TEXTS = {
    "NaN": lambda text: text.replace("0.0012", "NaN"),
    "infinity": lambda text: text.replace("0.0012", "-Infinity"),
    "overflow": lambda text: text.replace("0.0012", "1e999"),
    "truncated": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "nested": lambda text: "[" * 100_000,
    "no object": lambda text: "[1, 2]",
    "page": lambda text: "<!DOCTYPE html>",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, kind: str) -> None:
    path = a_recording(1).save(tmp_path / "demo.json")
    text = TEXTS[kind](path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    for load in (Recording.load, Result.load):
        with pytest.raises(RecordingError) as caught:
            load(path)
        assert caught.value.file == str(path)
        assert caught.value.field
        assert caught.value.why


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = a_recording(1).save(tmp_path / "demo.json")
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 7):  # the last byte is a line's end, which may go
        path.write_bytes(whole[:length])
        with pytest.raises(RecordingError, match="file: not JSON"):
            Recording.load(path)


def test_a_file_that_is_not_text_or_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    with pytest.raises(RecordingError, match=r"demo\.json: file: No such file"):
        Recording.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordingError, match=r"demo\.json: file: not JSON"):
        Recording.load(path)
    with pytest.raises(RecordingError, match=r"file: Is a directory"):
        Recording.load(tmp_path)


# --- never half a file ----------------------------------------------------------------------------------


class Crash(BaseException):
    """The machine goes down: not an Exception, so nothing may swallow it."""


def crash(*_args: Any) -> None:
    raise Crash


@pytest.mark.parametrize("step", ["replace", "chmod", "fdopen"])
def test_a_crash_while_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = a_recording(1).save(tmp_path / "demo.json")
    old = path.read_bytes()
    real = os.fdopen

    def half(handle: int, *args: Any, **options: Any) -> Any:
        stream = real(handle, *args, **options)
        write = stream.write

        def cut(text: str) -> None:
            write(text[: len(text) // 2])
            stream.flush()
            raise Crash

        stream.write = cut
        return stream

    with monkeypatch.context() as patch:
        patch.setattr(module.os, step, half if step == "fdopen" else crash)
        with pytest.raises(Crash):
            a_recording(1, 2, 3).save(path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["demo.json"]
    assert len(Recording.load(path)) == 1


def test_a_process_that_is_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = a_recording(1).save(tmp_path / "demo.json")
    old = path.read_bytes()
    # No cleaning up: gone between writing and renaming.
    code = (
        "import os, sys, pathlib\n"
        "from ringi_lab.core import result\n"
        "result.os.chmod = lambda *_: os._exit(9)\n"
        "result._write(pathlib.Path(sys.argv[1]), 'new')\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    assert path.read_bytes() == old


def test_a_bad_result_does_not_touch_the_old_file(tmp_path: Path) -> None:
    path = a_recording(1).save(tmp_path / "demo.json")
    old = path.read_bytes()
    with pytest.raises(RecordingError, match="provenance"):
        Recording("demo", replace(MEASURED, driver=""), [a_result(1)]).save(path)
    assert path.read_bytes() == old


# --- what ships with the book -----------------------------------------------------------------------------


def test_folders_are_named_after_devices() -> None:
    assert device_folder("NVIDIA H200") == "nvidia_h200"
    assert device_folder("NVIDIA A100-SXM4-80GB") == "nvidia_a100_sxm4_80gb"
    assert device_folder("../../etc/passwd") == "etc_passwd"


def test_an_unknown_recording_names_those_that_exist() -> None:
    for device, experiment in (("NVIDIA H200", "nothing"), ("NVIDIA X1", "overlap")):
        with pytest.raises(FieldError, match=r"must be one of .*nvidia_h200/overlap\.json"):
            recorded(experiment, device)


def test_the_shipped_recording_is_read_once() -> None:
    assert recorded("overlap") is recorded("overlap")
    assert recorded("overlap").device == "NVIDIA H200"
