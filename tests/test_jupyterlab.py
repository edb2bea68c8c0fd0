"""A real JupyterLab: run the lab, move a slider, and see the animation show another trace."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import LABS, ROOT
from playwright.sync_api import expect

START_LIMIT = 60.0  # s until the server answers
RUN_LIMIT = 90.0  # s for all cells of a lab

# JupyterLab would ask its makers' server for news and updates.
OFFLINE = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a JupyterLab without a token, and the folder that it shows; everything of it is temporary."""
    home = tmp_path_factory.mktemp("jupyter")
    work = home / "work"
    work.mkdir()
    share = Path(sys.prefix) / "share" / "jupyter" / "lab"
    settings = home / "settings"
    settings.mkdir()
    (settings / "overrides.json").write_text(json.dumps(OFFLINE), encoding="utf-8")
    port = free_port()
    folders = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    env = {**os.environ, **folders, "HOME": str(home), "IPYTHONDIR": str(home / "ipython")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--allow-root", "--IdentityProvider.token=", f"--notebook-dir={work}"]
    # The test asks the running application to run all cells, and waits for its answer.
    command += ["--LabApp.expose_app_in_browser=True"]
    command += [f"--LabApp.app_settings_dir={settings}", f"--LabApp.app_dir={share}"]
    log = home / "log.txt"
    with log.open("w") as sink:
        server = subprocess.Popen(command, cwd=work, env=env, stdout=sink, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/api/status", server, log)
        yield url, work
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return when ``url`` answers; raise with the server's log when it ends or stays silent."""
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start: {log.read_text()}")


@pytest.mark.parametrize("page", LABS)
def test_a_slider_changes_the_trace(browser: Any, jupyterlab: tuple[str, Path], page: str) -> None:
    url, work = jupyterlab
    notebook = shutil.copy(ROOT / f"{page}.ipynb", work)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    outside: list[str] = []

    def gate(route: Any) -> None:
        if route.request.url.startswith((url + "/", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", gate)
    tab = context.new_page()
    tab.goto(f"{url}/lab/tree/{Path(notebook).name}?reset")
    tab.wait_for_selector(".jp-NotebookPanel .jp-CodeCell", timeout=60_000)
    # A run that is asked for before the kernel answers is dropped in silence.
    tab.wait_for_function(
        """() => {
             const kernel = jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
             return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
           }""",
        timeout=60_000,
        polling=200,
    )
    run_all(tab)

    # The cells' outputs are drawn when they come into view: walk through the notebook to the player.
    cell = tab.locator(".jp-CodeCell:has(.ringi-player):has(.widget-slider, .jupyter-widget-slider)").first
    for _ in range(60):
        if cell.count():
            break
        tab.locator(".jp-WindowedPanel-outer").first.evaluate("e => e.scrollBy(0, 400)")
        tab.wait_for_timeout(100)
    assert cell.count(), "no cell shows a player together with a slider"
    player = cell.locator(".ringi-player[data-trace-hash]").first
    slider = cell.locator(".noUi-handle").first
    slider.scroll_into_view_if_needed()
    before = player.get_attribute("data-trace-hash")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    expect(player).not_to_have_attribute("data-trace-hash", before, timeout=20_000)
    assert outside == []
    context.close()


def run_all(tab: Any) -> None:
    """Run every cell as a reader does and wait for the last; fail with what a cell that raised says."""
    tab.locator(".jp-NotebookPanel .jp-CodeCell").first.click()
    tab.get_by_role("menuitem", name="Run", exact=True).click()
    tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    # Asked of the notebook's own model, since cells outside the view are not in the page.
    errors = tab.wait_for_function(
        """() => {
             const cells = [...jupyterapp.shell.currentWidget.content.model.cells].filter(c => c.type === 'code');
             const errors = cells.flatMap(c => c.outputs.toJSON()).filter(o => o.output_type === 'error');
             const done = cells.every(c => c.executionCount !== null && c.executionState !== 'running');
             return (done || errors.length) && {list: errors.map(o => `${o.ename}: ${o.evalue}`)};
           }""",
        timeout=RUN_LIMIT * 1000,
        polling=200,
    ).json_value()["list"]
    assert errors == []
