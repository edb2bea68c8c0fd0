"""Results and recordings: raw samples with their provenance, checked on the way in and out."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ringi_lab.core import stats
from ringi_lab.core.errors import FieldError, RecordingError
from ringi_lab.core.trace import SOURCES, Trace

RESULT_SCHEMA = "ringi-result/1"
RECORDING_SCHEMA = "ringi-recording/1"
# What a sample may be counted in: SI units without prefixes, so that no number can be off by a thousand.
UNITS = ("s", "Hz", "bytes", "bytes/s", "FLOP", "FLOP/s", "W", "count", "1")
SIGNIFICANT_DIGITS = 6  # of a stored sample: far below the timer's resolution, and a third of the size


@dataclass(frozen=True)
class Samples:
    """Raw values of one quantity in one unit, one per trial, in the order they were taken."""

    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median, in :attr:`unit`."""
        return stats.median(self.values)

    def bootstrap(self, **options: Any) -> stats.Estimate:
        """Median with its bootstrap interval (see :func:`ringi_lab.core.stats.bootstrap`)."""
        return stats.bootstrap(self.values, **options)


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from; enough to run it again and to judge it.

    ``clocks_before`` and ``clocks_after`` hold ``sm_hz``, ``memory_hz``, ``power_w``, ``temperature_c``
    and ``throttle`` (a list of reasons); both are empty for a simulation. ``time`` is UTC, ISO 8601;
    ``code`` is a digest of the package's own sources.
    """

    device: str
    driver: str = ""
    cuda: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    clocks_before: Mapping[str, Any] = field(default_factory=dict)
    clocks_after: Mapping[str, Any] = field(default_factory=dict)
    time: str = ""
    commit: str = ""
    command: str = ""
    code: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in vars(self).items()}


@dataclass(frozen=True)
class Result:
    """What one run of one experiment gave.

    ``source`` is ``simulated``, ``measured`` or ``recorded`` (a measurement loaded from a file);
    ``samples`` are raw, one value per trial; ``facts`` are JSON data that are not samples (counts, the
    name of the kernel that ran); ``notes`` say what was refused or is unusual, in words.
    """

    experiment: str
    parameters: Mapping[str, Any]
    source: str
    provenance: Provenance
    samples: Mapping[str, Samples]
    facts: Mapping[str, Any] = field(default_factory=dict)
    trace: Trace | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise FieldError("source", self.source, f"one of {', '.join(SOURCES)}")
        for name, samples in self.samples.items():
            if samples.unit not in UNITS:
                raise FieldError(f"samples[{name!r}].unit", samples.unit, f"one of {', '.join(UNITS)}")
            if not samples.values:
                raise FieldError(f"samples[{name!r}]", "values", "at least one number")
            if not all(math.isfinite(v) for v in samples.values):
                raise FieldError(f"samples[{name!r}]", "values", "finite numbers")
        if self.trace is not None and (self.trace.source, self.trace.device) != (self.source, self.device):
            raise FieldError("trace.source", (self.trace.source, self.trace.device), "the result's own")

    @property
    def device(self) -> str:
        """Name of the GPU that was measured, or of the specification that was simulated."""
        return self.provenance.device

    @property
    def label(self) -> str:
        """What every picture and table says of its numbers: the source and the device."""
        return f"{self.source} · {self.device}"

    def median(self, name: str) -> float:
        """Median of one series; raises :class:`FieldError` naming the series there are."""
        if name not in self.samples:
            raise FieldError("samples", name, f"one of {', '.join(self.samples)}")
        return self.samples[name].median

    def to_dict(self) -> dict[str, Any]:
        """JSON data, samples rounded to six significant digits."""
        return {
            "schema": RESULT_SCHEMA,
            "source": self.source,
            "provenance": self.provenance.to_dict(),
            **_entry(self),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], file: str = "<data>") -> Result:
        """The inverse of :meth:`to_dict`; raises :class:`RecordingError` naming file, field and why."""
        _check(data, "result", file)
        return _result(data, data["experiment"], data["source"], Provenance(**data["provenance"]), file)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one checked file, whole or not at all. Returns its path."""
        data = self.to_dict()
        _check(data, "result", str(path))
        return _write(Path(path), _compact(data))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read and check one file written by :meth:`save`."""
        return cls.from_dict(_read(Path(path)), str(path))


class Recording:
    """All results of one experiment that one device gave in one run.

    ``find(experiment)`` gives the recorded result with these very parameters. Iterating gives all.
    """

    def __init__(self, experiment: str, provenance: Provenance, results: Sequence[Result]) -> None:
        keys = [_key(r.parameters) for r in results]
        if len(set(keys)) != len(keys):
            raise FieldError("results", "parameters", "different in every result")
        for r in results:
            if r.experiment != experiment:
                raise FieldError("experiment", r.experiment, f"{experiment!r}, as the recording's")
            if r.source == "simulated":
                raise FieldError("source", r.source, "measured: a simulation is no recording")
            if r.device != provenance.device:
                raise FieldError("device", r.device, f"{provenance.device!r}, as the recording's")
        self.experiment = experiment
        self.provenance = provenance
        self._results = {
            key: replace(r, source="recorded", provenance=provenance, trace=_as_recorded(r.trace))
            for key, r in zip(keys, results, strict=True)
        }

    @property
    def device(self) -> str:
        """Name of the GPU that was measured."""
        return self.provenance.device

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results.values())

    def __len__(self) -> int:
        return len(self._results)

    def find(self, experiment: Any) -> Result:
        """The recorded result of an Experiment; raises :class:`FieldError` when it was not recorded."""
        key = _key(experiment.parameters())
        if experiment.name != self.experiment or key not in self._results:
            raise FieldError(
                "experiment",
                experiment,
                f"one of the {len(self)} recorded for {self.experiment!r} on {self.device}",
            )
        return self._results[key]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a checked file of one line per result, whole or not at all."""
        head = {
            "schema": RECORDING_SCHEMA,
            "experiment": self.experiment,
            "provenance": self.provenance.to_dict(),
        }
        entries = [_entry(r) for r in self]
        _check({**head, "results": entries}, "recording", str(path))
        lines = ",\n".join(_compact(e) for e in entries)
        return _write(Path(path), f'{_compact(head)[:-1]},"results":[\n{lines}\n]}}\n')

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read and check; raises :class:`RecordingError` that names the file, the field and why."""
        file = str(path)
        data = _read(Path(path))
        _check(data, "recording", file)
        provenance = Provenance(**data["provenance"])
        try:
            results = [_result(r, data["experiment"], "recorded", provenance, file) for r in data["results"]]
            return cls(data["experiment"], provenance, results)
        except FieldError as error:
            raise RecordingError(file, error.field, str(error)) from error


def device_folder(device: str) -> str:
    """Folder name of a device's recordings: ``NVIDIA H200`` -> ``nvidia_h200``."""
    return re.sub(r"[^a-z0-9]+", "_", device.lower()).strip("_")


def recorded(experiment: str, device: str = "NVIDIA H200") -> Recording:
    """The recording that ships with the book; raises :class:`FieldError` naming those that do."""
    root = resources.files("ringi_lab") / "recordings"
    file = root / device_folder(device) / f"{experiment}.json"
    if not file.is_file():
        have = sorted(f"{d.name}/{f.name}" for d in root.iterdir() if d.is_dir() for f in d.iterdir())
        raise FieldError(
            "recording", f"{device_folder(device)}/{experiment}.json", f"one of {', '.join(have)}"
        )
    with resources.as_file(file) as path:
        return _load_cached(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _load_cached(path: Path, _modified: int) -> Recording:
    return Recording.load(path)


def _as_recorded(trace: Trace | None) -> Trace | None:
    return None if trace is None else replace(trace, source="recorded")


def _key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)


def _round(value: float) -> float | int:
    rounded = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _entry(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "experiment": result.experiment,
        "parameters": dict(result.parameters),
        "samples": {
            name: {"unit": s.unit, "values": [_round(v) for v in s.values]}
            for name, s in result.samples.items()
        },
        "facts": dict(result.facts),
        "notes": list(result.notes),
    }
    if result.trace is not None:
        entry["trace"] = result.trace.to_dict()
    return entry


def _result(
    data: Mapping[str, Any], experiment: str, source: str, provenance: Provenance, file: str
) -> Result:
    if data["experiment"] != experiment:
        raise RecordingError(file, "experiment", f"{data['experiment']!r} inside a file of {experiment!r}")
    try:
        trace = Trace.from_dict({**data["trace"], "source": source}) if "trace" in data else None
        return Result(
            experiment=experiment,
            parameters=data["parameters"],
            source=source,
            provenance=provenance,
            samples={n: Samples(s["unit"], tuple(s["values"])) for n, s in data["samples"].items()},
            facts=data["facts"],
            trace=trace,
            notes=tuple(data["notes"]),
        )
    except FieldError as error:
        raise RecordingError(file, error.field, str(error)) from error
    except OverflowError as error:
        raise RecordingError(file, "samples", f"a number beyond floating point ({error})") from error


def _check(data: Any, kind: str, file: str) -> None:
    # jsonschema is imported here, since the simulators must load without it (in a browser, say).
    import jsonschema

    errors = sorted(_validator(kind).iter_errors(data), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        worst = jsonschema.exceptions.best_match(errors)
        where = "/".join(map(str, worst.absolute_path)) or "top level"
        raise RecordingError(file, where, worst.message[:300])


@functools.cache
def _validator(kind: str) -> Any:
    import jsonschema

    text = resources.files("ringi_lab.core").joinpath("result.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"})


def _compact(data: Any) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FieldError("result", type(error).__name__, f"JSON data ({error})") from error


def _read(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise RecordingError(str(path), "file", error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(str(path), "file", f"not JSON ({error})") from error


def _write(path: Path, text: str) -> Path:
    # A reader must never see half a file: write beside it, then rename.
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
