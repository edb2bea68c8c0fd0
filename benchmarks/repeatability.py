"""Do five fresh processes on one card find the same k? Prints (max - min)/median for each headline setting.

    python benchmarks/repeatability.py [--processes 5] [--trials 30]

Needs a GPU. Exit status 1 when a k spreads by more than the promised 2%, 2 when it cannot run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys

from ringi_lab.core.errors import RingiError
from ringi_lab.core.experiment import run
from ringi_lab.overlap.analysis import summary
from ringi_lab.overlap.grid import HEADLINES
from ringi_lab.overlap.validate import label

PROMISED = 0.02


def measure(trials: int) -> dict[str, float]:
    """k_comm and k_comp of every headline setting, measured in this process."""
    found = {}
    for point in HEADLINES:
        s = summary(run(dataclasses.replace(point, trials=trials), on="gpu"))
        for name, k in (("k_comm", s.k_comm), ("k_comp", s.k_comp)):
            if k is not None:
                found[f"{label(point)}: {name}"] = k.value
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.trials)))
        return 0
    command = [sys.executable, __file__, "--child", "--trials", str(options.trials)]
    runs = []
    for _ in range(options.processes):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 2
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    worst = 0.0
    for name in runs[0]:
        values = [r[name] for r in runs if name in r]
        spread = (max(values) - min(values)) / statistics.median(values)
        worst = max(worst, spread)
        print(
            f"{name:75} {statistics.median(values):7.3f}  spread {spread:6.2%}  {'' if spread <= PROMISED else 'OVER'}"
        )
    print(f"worst spread {worst:.2%} over {options.processes} processes, promised {PROMISED:.0%}")
    return 0 if worst <= PROMISED else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RingiError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
