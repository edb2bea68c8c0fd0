"""One way to run an experiment, and the contract that every experiment of the catalogue keeps."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringi_lab import catalog
from ringi_lab.core.errors import FieldError, GpuUnavailable, MeasurementRefused
from ringi_lab.core.experiment import ON, Experiment, run
from ringi_lab.core.hardware import gpu_spec
from ringi_lab.core.result import UNITS, Provenance, Recording, Result, Samples, recorded

# Found by itself: a new topic needs no line here.
CATALOG = {
    name: cls for name, cls in catalog.experiments().items() if cls.__module__.startswith("ringi_lab.")
}
EVERY = pytest.mark.parametrize("name", sorted(CATALOG))
RECORDINGS = Path(catalog.__file__).parent / "recordings"
SHIPPED = sorted((path.parent.name, path.stem) for path in RECORDINGS.glob("*/*.json"))


# --- run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe(Experiment):
    """Counts nothing, measures nothing: says what ``run`` asked of it."""

    name = "probe"
    fails: str = ""

    def simulate(self, gpu: str) -> Result:
        samples = {"time": Samples("s", (1.0,))}
        return Result("probe", {}, "simulated", Provenance(gpu), samples, notes=("first",))

    def measure(self) -> Result:
        if self.fails == "gpu":
            raise GpuUnavailable("a CUDA GPU", "none", "one")
        if self.fails == "field":
            raise FieldError("copy_sms", 200, "<= 132")
        if self.fails == "refused":
            raise MeasurementRefused("no overlap")
        return Result("probe", {}, "measured", Provenance("NVIDIA X"), {"time": Samples("s", (2.0,))})


def test_sim_simulates_for_the_named_gpu_even_where_it_could_measure() -> None:
    result = run(Probe(), on="sim", gpu="A100")
    assert (result.source, result.device, result.notes) == ("simulated", "A100", ("first",))


@pytest.mark.parametrize("on", ["auto", "gpu"])
def test_auto_and_gpu_measure_where_that_is_possible(on: str) -> None:
    result = run(Probe(), on=on, gpu="A100")
    assert (result.source, result.device, result.notes) == ("measured", "NVIDIA X", ())


def test_auto_simulates_where_it_cannot_measure_and_says_why() -> None:
    result = run(Probe("gpu"), on="auto", gpu="B200")
    assert (result.source, result.device) == ("simulated", "B200")
    assert result.notes == (
        "first",
        "simulated, since cannot measure: a CUDA GPU: found none; needed one",
    )
    assert run(Probe("gpu")) == run(Probe("gpu"), on="auto", gpu="H200")


def test_gpu_never_falls_back() -> None:
    with pytest.raises(GpuUnavailable, match="cannot measure: a CUDA GPU: found none; needed one"):
        run(Probe("gpu"), on="gpu")


@pytest.mark.parametrize("on", ["auto", "gpu"])
@pytest.mark.parametrize(("fails", "error"), [("field", FieldError), ("refused", MeasurementRefused)])
def test_a_bad_value_or_a_refusal_is_never_covered_up_by_a_simulation(
    on: str, fails: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(Probe(fails), on=on)


@pytest.mark.parametrize("on", ["", "GPU", "cpu", None, 1])
def test_an_unknown_source_is_refused(on: Any) -> None:
    with pytest.raises(FieldError, match=rf"on = {on!r}: must be one of auto, gpu, sim"):
        run(Probe(), on=on)
    assert ON == ("auto", "gpu", "sim")


def test_an_experiment_without_a_body_says_so() -> None:
    for ask in (lambda e: e.simulate("H200"), lambda e: e.measure()):
        with pytest.raises(NotImplementedError):
            ask(Experiment())


# --- the contract of every experiment -------------------------------------------------------------------


def simulated(name: str, **parameters: Any) -> Result:
    return run(CATALOG[name](**parameters), on="sim")


def digest(result: Result) -> str:
    """Of everything in a result, to the last digit."""
    samples = {n: (s.unit, s.values) for n, s in result.samples.items()}
    text = json.dumps([samples, result.to_dict()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_catalogue_is_not_empty_and_names_are_those_of_the_classes() -> None:
    assert {"overlap", "sm_free"} <= CATALOG.keys()
    for name, cls in CATALOG.items():
        assert cls.name == name
        assert dataclasses.is_dataclass(cls)
        assert cls.__dataclass_params__.frozen
        assert cls.__doc__


@EVERY
def test_its_parameters_are_json_and_make_it_again(name: str) -> None:
    experiment = CATALOG[name]()
    stored = json.loads(json.dumps(experiment.parameters(), allow_nan=False))
    assert CATALOG[name](**stored) == experiment
    assert hash(experiment) == hash(CATALOG[name]())


@EVERY
def test_its_simulation_is_the_same_every_time(name: str) -> None:
    assert digest(simulated(name)) == digest(simulated(name))


def test_simulations_are_the_same_in_another_process() -> None:
    """Nothing may hang on the order of a set, an address or a global random state."""
    code = (
        "import random; random.seed()\n"
        "import test_experiment as t\n"
        "print([t.digest(t.simulated(n)) for n in sorted(t.CATALOG)])"
    )
    folder = Path(__file__).parent
    paths = os.pathsep.join([str(folder), str(folder.parent)])
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == str([digest(simulated(n)) for n in sorted(CATALOG)]), done.stderr


@EVERY
def test_its_simulation_says_what_it_is(name: str) -> None:
    result = simulated(name)
    assert result.experiment == name
    assert result.source == "simulated"
    assert result.device == gpu_spec("H200").name
    assert result.parameters == CATALOG[name]().parameters()
    assert result.samples
    assert {s.unit for s in result.samples.values()} <= set(UNITS)
    assert len({len(s.values) for s in result.samples.values()}) == 1
    assert (result.provenance.driver, result.provenance.clocks_before) == ("", {})  # nothing was measured
    if result.trace is not None:
        assert (result.trace.source, result.trace.device) == (result.source, result.device)
        assert result.trace.end > result.trace.start


@EVERY
def test_its_simulation_survives_a_file(name: str, tmp_path: Path) -> None:
    result = simulated(name)
    loaded = Result.load(result.save(tmp_path / "result.json"))
    assert loaded.samples.keys() == result.samples.keys()
    for key, samples in result.samples.items():
        assert loaded.samples[key].unit == samples.unit
        assert loaded.samples[key].values == pytest.approx(samples.values, rel=6e-6)
    assert (loaded.trace, loaded.facts, loaded.notes) == (result.trace, result.facts, result.notes)
    assert (loaded.label, loaded.parameters) == (result.label, result.parameters)


@EVERY
def test_an_unknown_gpu_is_named(name: str) -> None:
    with pytest.raises(FieldError, match="GT 710"):
        run(CATALOG[name](), on="sim", gpu="GT 710")


@EVERY
def test_its_fields_are_checked(name: str) -> None:
    for field in dataclasses.fields(CATALOG[name]):
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            with pytest.raises(FieldError, match=field.name):
                CATALOG[name](**{field.name: -1})


# --- the contract of every recording ----------------------------------------------------------------------


def test_every_topic_ships_what_it_records() -> None:
    grids = {name for topic in catalog.topics() for name in catalog.recordings(topic)}
    assert grids <= {name for _, name in SHIPPED}
    assert {name for _, name in SHIPPED} <= CATALOG.keys()


@pytest.mark.parametrize(("folder", "name"), SHIPPED)
def test_a_recording_is_whole_and_found_by_its_experiments(folder: str, name: str) -> None:
    recording = recorded(name, folder)
    assert recording.experiment == name
    gpu_spec(recording.device)  # a device whose peaks are known
    for result in recording:
        experiment = CATALOG[name](**result.parameters)
        assert recording.find(experiment) is result
        assert result.source == "recorded"
        assert {s.unit for s in result.samples.values()} <= set(UNITS)
        assert all(min(s.values) >= 0 for s in result.samples.values())
        assert len({len(s.values) for s in result.samples.values()}) == 1


@pytest.mark.parametrize(("folder", "name"), SHIPPED)
def test_a_simulation_has_the_samples_of_the_recording(folder: str, name: str) -> None:
    """Names and units are the same, whichever the source; a series that was refused is left aside."""
    recording = recorded(name, folder)
    kinds: dict[tuple, list[Result]] = defaultdict(list)
    for result in recording:
        if not any("refused" in note for note in result.notes):
            kinds[tuple(sorted((n, s.unit) for n, s in result.samples.items()))].append(result)
    assert kinds
    for kind, results in kinds.items():
        shown = run(CATALOG[name](**results[0].parameters), on="sim", gpu=recording.device)
        assert tuple(sorted((n, s.unit) for n, s in shown.samples.items())) == kind


@pytest.mark.parametrize(("folder", "name"), SHIPPED)
def test_a_recording_tells_no_secrets(folder: str, name: str) -> None:
    """No folders of the machine it was made on, and no addresses."""
    text = json.dumps(recorded(name, folder).provenance.to_dict())
    assert "://" not in text
    assert "/root" not in text
    assert "/home" not in text


@pytest.mark.parametrize(("folder", "name"), SHIPPED)
def test_a_shipped_recording_saved_again_is_the_same_file(folder: str, name: str, tmp_path: Path) -> None:
    shipped = RECORDINGS / folder / f"{name}.json"
    assert Recording.load(shipped).save(tmp_path / "again.json").read_bytes() == shipped.read_bytes()
