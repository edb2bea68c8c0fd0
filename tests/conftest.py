"""What the tests share: the rule for skips in CI, the GPU marker, the built site and a browser."""

from __future__ import annotations

import ctypes
import functools
import http.server
import importlib.util
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Examples are the same on every run, and a busy machine does not make one too slow.
hypothesis.settings.register_profile("ringi", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ringi")

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# `make book` sets this for its kernels; here the views must behave as in a reader's own notebook.
os.environ.pop("RINGI_STATIC", None)


# --- skips -----------------------------------------------------------------------------------


@functools.cache
def no_gpu() -> str | None:
    """Why tests marked ``gpu`` cannot run here; None where they can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver (libcuda.so.1) on this machine"
    count = ctypes.c_int(0)
    if (code := driver.cuInit(0)) != 0:
        return f"the CUDA driver does not start (cuInit gave {code})"
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the CUDA driver sees no device"
    missing = [name for name in ("torch", "cuda", "pynvml") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (make gpu)" if missing else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests, with the reason, where there is no GPU."""
    for item in items:
        if item.get_closest_marker("gpu") and (reason := no_gpu()):
            item.add_marker(pytest.mark.skip(reason=f"gpu: {reason}"))


def forbid_skip(report: pytest.TestReport | pytest.CollectReport, name: str) -> None:
    """Turn a skip into a failure: CI installs everything but a GPU, so nothing else may be missing."""
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{name}: skipped, which CI does not allow. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Apply the rule for skips to tests; a notebook's cell may carry the tag nbval-skip."""
    report = yield
    if not item.get_closest_marker("gpu") and item.fspath.ext != ".ipynb":
        forbid_skip(report, item.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Apply the rule for skips to whole modules (``pytest.importorskip`` at their top)."""
    report = yield
    forbid_skip(report, collector.nodeid)
    return report


# --- the site and a browser ------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder on a free port of the loopback; ``url`` is where."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server_port}"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Writes no log: what the browser asked for is checked in the browser."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the rendered book; the test fails where it is missing."""
    if not (SITE / "index.html").exists():
        pytest.fail("the book is not rendered: make book")
    return SITE


@pytest.fixture(scope="session")
def site_url(site: Path) -> Iterator[str]:
    """Address of the rendered book on this machine."""
    server = Server(site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.url
    server.shutdown()
    server.server_close()
    thread.join()


def find_chromium() -> str | None:
    """Path of a Chromium: the environment's choice (CHROMIUM), or the first one installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """A headless Chromium; skips with a reason where none is installed."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium found (set CHROMIUM to one, or: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()
