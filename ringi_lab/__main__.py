"""The command line: ``python -m ringi_lab list | record TOPIC | calibrate TOPIC | validate``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ringi_lab import catalog
from ringi_lab.core import validation
from ringi_lab.core.errors import FieldError, MeasurementRefused, RingiError
from ringi_lab.core.experiment import Experiment, run
from ringi_lab.core.result import Recording, Result, device_folder


def record(topic: str, out: Path, say=print) -> list[Path]:
    """Measure a topic's whole grid on the GPU that is present and write its recordings under ``out``.

    Points that the protocol refuses are named at the end and left out. Nothing is written when a grid
    gives no result. Returns the files written.
    """
    keep_trace = catalog.traced(topic)
    _writable(out)
    written = []
    for name, points in catalog.recordings(topic).items():
        results: list[Result] = []
        refused: list[str] = []
        begun = time.monotonic()
        for done, point in enumerate(points, 1):
            try:
                result = run(point, on="gpu")
            except (FieldError, MeasurementRefused) as error:
                refused.append(f"{_short(point)}: {error}")
                continue
            finally:
                say(f"\r{name}: {done}/{len(points)}, {time.monotonic() - begun:.0f} s", end="", flush=True)
            has_trace = point in keep_trace or name != topic
            results.append(result if has_trace else replace(result, trace=None))
        say()
        for line in refused:
            say(f"  refused: {line}")
        if not results:
            raise RingiError(f"{name}: every point was refused, nothing was written")
        first, last = results[0].provenance, results[-1].provenance
        whole = replace(last, clocks_before=first.clocks_before)
        path = out / device_folder(whole.device) / f"{name}.json"
        written.append(Recording(name, whole, results).save(path))
        say(f"{name}: {len(results)} results in {path}")
    return written


def _writable(folder: Path) -> None:
    """Refuse a folder that cannot be written before minutes of measuring go into it; makes nothing."""
    standing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not standing.is_dir() or not os.access(standing, os.W_OK):
        raise FieldError("out", str(folder), "a folder that can be made and written")


def calibrate(topic: str) -> list[Path]:
    """Fit a topic's model to its recording and write the parameters and the predictions for the pages."""
    fitter, validator = catalog.part(topic, "calibrate"), catalog.part(topic, "validate")
    written = [fitter.write(fitter.fit())]
    catalog.part(topic, "model").calibration.cache_clear()
    return [*written, validator.store(validator.compare())]


def validate(topics: Sequence[str]) -> dict[str, list[validation.Row]]:
    """Each topic's errors on its held-out points, predicted anew."""
    found = {}
    for topic in topics:
        part = catalog.part(topic, "validate")
        found[topic] = validation.rows(part.compare(), part.BOUNDS)
    return found


def _report(found: Mapping[str, list[validation.Row]], as_json: bool) -> int:
    kept = all(row.kept for rows in found.values() for row in rows)
    if as_json:
        print(
            json.dumps(
                {"kept": kept, "topics": {t: [r.to_dict() for r in rows] for t, rows in found.items()}}
            )
        )
        return 0 if kept else 1
    for topic, rows in found.items():
        print(f"{topic}: model against recording, on points kept out of the fit")
        print(validation.table(rows))
        for row in rows:
            print(f"  worst {row.kind} {row.quantity}: {row.worst:.1%} at {row.worst_at}")
    print("every promise is kept" if kept else "a promise is BROKEN")
    return 0 if kept else 1


def _short(point: Experiment) -> str:
    changed = {k: v for k, v in point.parameters().items() if v is not None}
    return f"{point.name}({', '.join(f'{k}={v}' for k, v in changed.items())})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status (0 good, 1 a bound broken, 2 cannot be done)."""
    parser = argparse.ArgumentParser(prog="python -m ringi_lab", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the topics and their experiments")
    recorder = commands.add_parser("record", help="measure a topic's grid on this GPU and keep it")
    recorder.add_argument("topic")
    recorder.add_argument("--out", type=Path, default=Path(__file__).parent / "recordings")
    fitter = commands.add_parser("calibrate", help="fit a topic's model to its recording")
    fitter.add_argument("topic")
    checker = commands.add_parser("validate", help="the models' errors on points kept out of their fits")
    checker.add_argument("topics", nargs="*", help="all of them where none is named")
    checker.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            for name, cls in sorted(catalog.experiments().items()):
                print(f"{name:12} {(cls.__doc__ or '').splitlines()[0]}")
        elif options.command == "record":
            record(options.topic, options.out)
        elif options.command == "calibrate":
            for path in calibrate(options.topic):
                print(path)
        elif options.command == "validate":
            return _report(validate(options.topics or catalog.topics()), options.json)
        sys.stdout.flush()
    except RingiError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output has enough; Python must not complain of it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
