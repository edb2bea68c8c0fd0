"""Controls: live in a kernel, disabled words on a page, and errors that are said and not thrown."""

from __future__ import annotations

import asyncio
import html
import re
import sys
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.result import Provenance, Result, Samples
from ringi_lab.core.trace import Span, Trace
from ringi_lab.core.view import controls
from ringi_lab.core.view.controls import explore
from ringi_lab.core.view.player import STATIC

ROOT = Path(__file__).parents[1]


def trace(size: int = 1, copy: str = "h2d") -> Trace:
    """A copy of some MiB; 13 is refused, 99 is a mistake of ours."""
    if size == 13:
        raise MeasurementRefused("size = 13: the copies <never> overlapped")
    if size == 99:
        raise ZeroDivisionError("a mistake")
    spans = (Span("copy", copy, 0.0, size * 1e-3, "copy"),)
    return Trace(f"{copy} of {size} MiB", "simulated", "NVIDIA H200 SXM", ("copy",), spans)


def made(**options: Any) -> controls.Explorer:
    """Two parameters: a slider and a menu."""
    given = {"size": [1, 4, 13, 64, 99], "copy": [("to the device", "h2d"), ("to the host", "d2h")]}
    return explore(trace, title="A copy", **{**given, **options})


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run in an IPython kernel, without its comms."""
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.delenv(STATIC, raising=False)


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch, kernel: None) -> None:
    """Pretend to build the book: a kernel with nobody at the other end."""
    monkeypatch.setenv(STATIC, "1")


# --- a page -----------------------------------------------------------------------------------------


def test_a_page_has_no_widgets_and_no_live_control(static: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # importing it would raise
    bundle = made(start={"size": 4})._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    page = bundle["text/html"]
    found = re.findall(r"<(?:select|input|button|textarea)\b[^>]*>", page)
    assert len(found) == 2
    assert all(" disabled" in control and 'title="needs a kernel"' in control for control in found)
    text = re.sub(r"<[^>]+>", " ", page)
    assert text.count("needs a kernel") == 2
    assert "<option selected>4</option>" in page
    assert "<option selected>to the device</option>" in page
    assert "simulated · NVIDIA H200 SXM" in text
    assert 'class="ringi-player"' in page
    assert "h2d of 4 MiB" in page
    assert "size = 4, copy = to the device" in bundle["text/plain"]


def test_a_page_that_cannot_be_made_fails_its_build(static: None) -> None:
    with pytest.raises(MeasurementRefused, match="never"):
        made(start={"size": 13})


# --- errors in words --------------------------------------------------------------------------------


def test_a_refusal_is_said_and_the_picture_named() -> None:
    shown = made(start={"size": 4})
    shown.set(size=13)
    page = shown.html()
    assert shown.error == "size = 13: the copies <never> overlapped"
    assert '<p role="alert">size = 13: the copies &lt;never&gt; overlapped;' in page
    assert "still shows “h2d of 4 MiB” (simulated · NVIDIA H200 SXM)" in html.unescape(page)
    assert "Traceback" not in page
    assert shown.player.trace.title == "h2d of 4 MiB"
    shown.set(size=64, copy="d2h")
    assert shown.error == ""
    assert 'role="status"' in shown.html()
    assert shown.player.trace.title == "d2h of 64 MiB"


def test_a_first_run_that_is_refused_shows_words_alone() -> None:
    shown = made(start={"size": 13})
    assert shown.player is None
    assert "the copies" in repr(shown)
    assert "ringi-player" not in shown.html()
    shown.set(size=1)
    assert "ringi-player" in shown.html()


def test_an_unexpected_error_is_named() -> None:
    shown = made(start={"size": 99})
    assert shown.error == "ZeroDivisionError: a mistake"


def test_a_result_without_a_time_line_is_an_error_in_words() -> None:
    p = Provenance("NVIDIA H200")
    bare = Result("overlap", {}, "recorded", p, {"t": Samples("s", (1.0,))})
    shown = explore(lambda n: bare, title="t", n=[1, 2])
    assert "a Result with a time line" in shown.error


def test_tell_says_the_result() -> None:
    shown = explore(lambda n: trace(n), title="t", tell=lambda t: f"ends at {t.end * 1e3:g} ms", n=[4, 8])
    assert shown.said == "simulated · NVIDIA H200 SXM: ends at 4 ms"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"title": " "}, "title"),
        ({"size": []}, "size"),
        ({"colour": [1, 2]}, "choice"),
        ({"start": {"size": 3}}, "start of size"),
        ({"start": {"sizes": 3}}, "start"),
        ({"copy": [("a", 1), ("a", 2)]}, "copy"),
    ],
)
def test_what_explore_refuses(options: dict[str, Any], field: str) -> None:
    given = {"title": "t", "size": [1, 4], "copy": ["h2d"], **options}
    with pytest.raises(FieldError) as refused:
        explore(trace, **given)
    assert refused.value.field == field


def test_set_refuses_what_is_not_offered() -> None:
    with pytest.raises(FieldError, match="size = 5"):
        made().set(size=5)
    with pytest.raises(FieldError, match="parameter"):
        made().set(colour=5)


def test_hostile_words_stay_words() -> None:
    bad = "</select><script>alert(1)</script>\ud800"
    shown = explore(lambda v: trace(), title=bad, names={"v": bad}, v=[(bad, 1)])
    assert shown.html().count("<script") == 1  # the player's data
    assert "alert(1)</script>" not in shown.html()
    shown.html().encode()


# --- widgets ----------------------------------------------------------------------------------------


def test_missing_ipywidgets_leaves_a_picture_and_a_hint(
    kernel: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    bundle = made()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/html"].count("controls need a working ipywidgets") == 1
    assert "ringi-player" in bundle["text/html"]


@pytest.fixture
def live(kernel: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[controls.Explorer]:
    """An explorer with its widgets, whose messages go nowhere."""
    import comm

    monkeypatch.setattr(comm, "create_comm", lambda *a, **k: comm.DummyComm(*a, **k))
    shown = made()
    shown._build()
    yield shown
    shown._screen.close_all()


def elsewhere(act: Callable[[], None]) -> None:
    """Run in a thread of its own: a browser test on this worker leaves an event loop running here."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(act).result()


def test_controls_are_labelled_and_native(live: controls.Explorer) -> None:
    import ipywidgets

    size, copy = live._widgets["size"], live._widgets["copy"]
    assert isinstance(size, ipywidgets.SelectionSlider)
    assert isinstance(copy, ipywidgets.Dropdown)
    assert (size.description, copy.description) == ("size", "copy")
    assert not size.continuous_update
    assert not size.disabled


def test_a_moved_control_changes_the_players_trace(live: controls.Explorer) -> None:
    moving = live._picture.children[0]

    def move(index: int) -> None:
        live._widgets["size"].index = index

    elsewhere(lambda: move(3))  # no event loop: at once
    assert live.player.trace.title == "h2d of 64 MiB"
    assert moving.trace["title"] == "h2d of 64 MiB"
    assert live._picture.children == (moving,)
    assert "NVIDIA H200 SXM" in live._status.value
    elsewhere(lambda: move(2))
    assert 'role="alert"' in live._status.value
    assert "the copies &lt;never&gt; overlapped" in live._status.value
    assert moving.trace["title"] == "h2d of 64 MiB"
    live.set(copy="d2h", size=1)
    assert (live._widgets["copy"].index, live._widgets["size"].index) == (1, 0)
    assert moving.trace["title"] == "d2h of 1 MiB"


def test_a_moving_slider_runs_once(live: controls.Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(live, "_function", lambda **values: calls.append(values) or trace(**values))
    monkeypatch.setattr(controls, "PAUSE_S", 0.02)

    async def drag() -> None:
        for step in range(20):
            live._widgets["size"].index = (1, 3)[step % 2]
        assert calls == []
        await asyncio.sleep(0.2)

    elsewhere(lambda: asyncio.run(drag()))
    assert calls == [{"size": 64, "copy": "h2d"}]


def test_in_a_real_kernel_twenty_moves_run_once() -> None:
    """Messages as a front end sends them, to a kernel of its own."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(ROOT / "tests"))
    try:
        code = """
import test_controls as t
from ringi_lab.core.view import controls
calls = []
def slow(size):
    import time; time.sleep(0.05); calls.append(size); return t.trace(size)
shown = controls.explore(slow, title="t", size=range(1, 12))
shown
"""
        found: list[dict[str, Any]] = []
        reply = client.execute_interactive(code, timeout=60, output_hook=found.append)
        assert reply["content"]["status"] == "ok", reply["content"]
        shown = next(m["content"]["data"] for m in found if m["msg_type"] == "execute_result")
        assert "application/vnd.jupyter.widget-view+json" in shown
        assert "text/html" in shown
        model = ask(client, "shown._widgets['size'].model_id").strip("'")
        for index in (*range(1, 11), *range(9, -1, -1), 5):
            state = {
                "comm_id": model,
                "data": {"method": "update", "state": {"index": index}, "buffer_paths": []},
            }
            client.shell_channel.send(client.session.msg("comm_msg", state))
        time.sleep(1.0)
        assert ask(client, "calls") == "[1, 6]"  # the first picture, and where the slider came to rest
        assert ask(client, "shown.player.trace.title") == "'h2d of 6 MiB'"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def ask(client: Any, expression: str) -> str:
    """The repr of an expression in the kernel."""
    reply = client.execute_interactive("", user_expressions={"x": expression}, timeout=30)
    return reply["content"]["user_expressions"]["x"]["data"]["text/plain"]
