"""How long ``import ringi_lab`` takes in a fresh interpreter: ``python benchmarks/import_time.py``.

Prints the median of several starts, less the median of an interpreter that imports nothing, and fails
beyond the limit. A benchmark and not a test: a busy machine must not fail the tests.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 0.3  # s
STARTS = 15


def median_start(code: str) -> float:
    """Median wall time (s) of a fresh interpreter that runs ``code``."""
    times = []
    for _ in range(STARTS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    taken = median_start("import ringi_lab") - median_start("pass")
    print(f"import ringi_lab: {taken * 1e3:.1f} ms (limit {LIMIT * 1e3:.0f} ms)")
    sys.exit(taken > LIMIT)
