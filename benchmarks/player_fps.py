"""How smoothly the player runs in a real Chromium: prints JSON, fails below the bound.

    python benchmarks/player_fps.py [--spans 2000] [--lanes 8] [--seconds 4] [--scale 2] [--least 55]

Two numbers: frames that the player drew in a second while it plays, and the time of the script in
one frame (ms). Both without a graphics card, so a reader's machine does better.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from ringi_lab.core.trace import Counter, Event, Span, Trace
from ringi_lab.core.view.player import Player, page

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]

# Times every frame callback that the page asks for.
WATCH = """
(() => {
  const ask = window.requestAnimationFrame.bind(window);
  window.frames_ = [];
  window.requestAnimationFrame = (act) => ask((stamp) => {
    const before = performance.now();
    act(stamp);
    frames_.push([stamp, performance.now() - before]);
  });
})();
"""


def busy_trace(spans: int, lanes: int) -> Trace:
    """``spans`` short spans of six kinds on ``lanes`` lanes, with events and two counters; deterministic."""
    kinds = ("gemm", "copy", "wait", "spin", "store", "prefetch")
    names = tuple(f"SM {i}" for i in range(lanes))
    drawn = tuple(
        Span(names[i % lanes], f"tile {i}", i * 1e-6, i * 1e-6 + lanes * 0.9e-6, kinds[i * 7 % len(kinds)])
        for i in range(spans)
    )
    events = tuple(Event(names[i % lanes], f"e{i}", i * 2e-5, "mbarrier") for i in range(spans // 40))
    load = tuple((i * 4e-6, float(i * 7919 % 4800) * 1e9) for i in range(spans // 4))
    queue = tuple((i * 9e-6, float(i % 7)) for i in range(spans // 10))
    counters = (Counter("HBM traffic", "B/s", load, 4.8e12), Counter("queue", "jobs", queue))
    return Trace(f"{spans} spans", "simulated", "benchmark", names, drawn, events, counters)


def measure(browser: Browser, trace: Trace, seconds: float, scale: float) -> dict[str, float]:
    """Frames per second, and percentiles (ms) of the gaps between frames and of the script's time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page(Player(trace)), encoding="utf-8")
        tab = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=scale)
        tab.add_init_script(WATCH)
        tab.goto(path.as_uri())
        tab.wait_for_selector(".ringi-player[data-rp-live]")
        tab.evaluate("document.querySelector('.ringi-player').ringi.play()")
        tab.wait_for_timeout(500)
        tab.evaluate("frames_.length = 0")
        tab.wait_for_timeout(seconds * 1000)
        frames = tab.evaluate("frames_")
        tab.close()
    stamps = [stamp for stamp, _ in frames]
    gaps = sorted(b - a for a, b in itertools.pairwise(stamps))
    script = sorted(took for _, took in frames)
    return {
        "frames_per_s": round(1000 * len(gaps) / (stamps[-1] - stamps[0]), 1),
        "gap_p95_ms": round(gaps[int(0.95 * len(gaps))], 2),
        "script_median_ms": round(script[len(script) // 2], 2),
        "script_p95_ms": round(script[int(0.95 * len(script))], 2),
    }


def main() -> int:
    """Measure, print, and return 1 where the rate is below the bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=2000)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--scale", type=float, default=2.0, help="device pixels per CSS pixel")
    parser.add_argument("--least", type=float, default=55.0, help="frames per second that must be reached")
    args = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("no Chromium found: set CHROMIUM to one", file=sys.stderr)
        return 2
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = measure(browser, busy_trace(args.spans, args.lanes), args.seconds, args.scale)
        browser.close()
    print(json.dumps({"spans": args.spans, "lanes": args.lanes, "scale": args.scale, **found}))
    return int(found["frames_per_s"] < args.least)


if __name__ == "__main__":
    raise SystemExit(main())
