"""The player in a real Chromium: on pages over http and from a file, and as a widget's module."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_player import HOSTILE, crowd, hostile, small

from ringi_lab.core.trace import Span, Trace
from ringi_lab.core.view.player import SCRIPT, STYLE, WIDGET, Player, page
from ringi_lab.core.view.still import time_text, value_text

ROOT = Path(__file__).parents[1]
END = 2e-3  # of small()
COUNT_FRAMES = """(() => {
  const ask = window.requestAnimationFrame.bind(window);
  window.frames_ = 0;
  window.requestAnimationFrame = (act) => { window.frames_ += 1; return ask(act); };
})()"""

PAGES = {
    "one": [Player(small())],
    "sources": [Player(small(source=s)) for s in ("simulated", "measured", "recorded")],
    "many": [Player(crowd(2000, 8))],
    "chinese": [
        Player(
            Trace(
                "分工与等待", "recorded", "NVIDIA H200", ("计算流", "拷贝引擎 " * 12),
                (Span("计算流", "矩阵乘", 0.0, 1.0, "gemm"), Span("计算流", "等待", 1.0, 2.0, "wait")),
            )
        )
    ],
    "hostile": [Player(hostile(text)) for text in HOSTILE],
    "odd": [
        Player(Trace("nothing", "simulated", "d", ())),
        Player(Trace("an instant", "measured", "d", ("a",), (Span("a", "s", 1.0, 1.0),))),
        Player(Trace("long ago", "measured", "d", ("a",), (Span("a", "s", -2.0, -1.0),)), speed=4, height=200),
    ],
}  # fmt: skip


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the pages are: by http and as files."""
    folder = tmp_path_factory.mktemp("pages")
    for name, players in PAGES.items():
        (folder / f"{name}.html").write_text(page(*players, title=name), encoding="utf-8")
    broken = Player(small()).html().replace('"ringi-trace/1"', '"ringi-trace/0"')
    (folder / "broken.html").write_text(page().replace("<main>", f"<main>{broken}"), encoding="utf-8")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield {"http": f"http://127.0.0.1:{server.server_port}", "file": folder.as_uri()}
    server.shutdown()
    thread.join()
    server.server_close()


Open = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, bases: dict[str, str]) -> Iterator[Open]:
    """Opens a page in a browser of its own; afterwards nothing may have gone wrong on it."""
    contexts, troubles = [], []

    def visit(name: str = "one", over: str = "http", wait: bool = True, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 900, "height": 700}, **options})
        contexts.append(context)
        if options.get("java_script_enabled", True):
            context.add_init_script(COUNT_FRAMES)
        tab = context.new_page()
        tab.on("console", lambda m: m.type in ("error", "warning") and troubles.append(m.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("dialog", lambda dialog: (troubles.append(f"dialog {dialog.message}"), dialog.dismiss()))
        tab.on(
            "request", lambda r: r.url.startswith((bases[over], "data:", "blob:")) or troubles.append(r.url)
        )
        tab.goto(f"{bases[over]}/{name}.html")
        if wait:
            tab.wait_for_selector(".ringi-player[data-rp-live]")
        tab.troubles = troubles
        return tab

    yield visit
    for context in contexts:
        context.close()
    assert [t for t in troubles if "favicon" not in t and "404" not in t] == []


def now(tab: Any, root: str = ".ringi-player") -> float:
    return float(tab.get_attribute(root, "data-time"))


def picture(tab: Any) -> str:
    return tab.evaluate("document.querySelector('.rp-stage canvas').toDataURL()")


def frames_in(tab: Any, milliseconds: int) -> int:
    """How many animation frames were asked for in that time."""
    before = tab.evaluate("frames_")
    tab.wait_for_timeout(milliseconds)
    return tab.evaluate("frames_") - before


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["http", "file"])
def test_plays_and_pauses(visit: Open, over: str) -> None:
    tab = visit(over=over)
    assert now(tab) == pytest.approx(END), "it opens on the whole picture"
    assert tab.get_attribute(".ringi-player", "data-playing") is None
    assert not tab.is_visible(".ringi-still")
    assert frames_in(tab, 200) == 0
    tab.click(".rp-play")
    tab.wait_for_timeout(300)
    first, before = now(tab), picture(tab)
    assert tab.get_attribute(".rp-play", "title") == "Pause"
    tab.wait_for_timeout(400)
    assert first < now(tab) < END / 2
    assert picture(tab) != before
    tab.click(".rp-play")
    tab.wait_for_timeout(100)
    stopped, still = now(tab), picture(tab)
    assert tab.get_attribute(".rp-play", "title") == "Play"
    assert frames_in(tab, 300) == 0
    assert (now(tab), picture(tab)) == (stopped, still)


def test_a_whole_trace_takes_eight_seconds_at_speed_one(visit: Open) -> None:
    tab = visit()
    # The page's clock is held and moved by hand: a busy machine draws fewer frames, but not others.
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    rates = {}
    for speed in ("1", "4"):
        tab.select_option(".rp-speed", speed)
        tab.click(".rp-restart")
        tab.evaluate("document.querySelector('.ringi-player').ringi.play()")
        tab.clock.run_for(1000)
        rates[speed] = now(tab) / END * 8
        tab.evaluate("document.querySelector('.ringi-player').ringi.pause()")
    assert rates["1"] == pytest.approx(1, abs=0.15)
    assert rates["4"] == pytest.approx(4, abs=0.6)
    assert tab.inner_text(".rp-pace") == "1 ms = 1 s · slowed 1,000×"


def test_it_stops_at_the_end_and_starts_anew(visit: Open) -> None:
    tab = visit()
    tab.evaluate("document.querySelector('.ringi-player').ringi.seek(0.00195)")
    tab.click(".rp-play")
    tab.wait_for_function("!document.querySelector('.ringi-player').hasAttribute('data-playing')")
    assert now(tab) == pytest.approx(END)
    tab.click(".rp-play")
    tab.wait_for_timeout(200)
    assert now(tab) < END / 4


def test_steps_go_from_change_to_change(visit: Open) -> None:
    tab = visit()
    tab.click(".rp-restart")
    seen = [now(tab)]
    for _ in range(5):
        tab.click(".rp-next")
        seen.append(now(tab))
    assert seen == pytest.approx([0, 0.2e-3, 1e-3, 1.5e-3, 2e-3, 2e-3])
    for time in (1.5e-3, 1e-3, 0.2e-3, 0, 0):
        tab.click(".rp-back")
        assert now(tab) == pytest.approx(time)


def test_scrubs(visit: Open) -> None:
    tab = visit()
    whole = picture(tab)
    tab.fill(".rp-scrub", "500")
    assert now(tab) == pytest.approx(END / 2)
    assert picture(tab) != whole
    box = tab.locator(".rp-stage").bounding_box()
    tab.mouse.move(box["x"] + 300, box["y"] + 40)
    tab.mouse.down()
    left = now(tab)
    tab.mouse.move(box["x"] + 500, box["y"] + 400)  # the hand may leave the picture
    tab.wait_for_timeout(150)
    assert now(tab) > left
    tab.mouse.up()
    right = now(tab)
    tab.mouse.move(box["x"] + 300, box["y"] + 40)
    assert now(tab) == right


def test_time_is_told_at_most_ten_times_a_second(visit: Open) -> None:
    tab = visit()
    tab.evaluate("""() => {
        window.told = 0;
        new MutationObserver(list => { told += list.length })
            .observe(document.querySelector('.ringi-player'), { attributeFilter: ['data-time'] });
        document.querySelector('.ringi-player').ringi.play();
    }""")
    tab.wait_for_timeout(1000)
    assert 4 <= tab.evaluate("told") <= 13


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [".rp-stage", ".rp-scrub"])
def test_keys(visit: Open, part: str) -> None:
    tab = visit()
    tab.focus(part)
    tab.keyboard.press("Home")
    assert now(tab) == 0
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert now(tab) == pytest.approx(1e-3)
    tab.keyboard.press("ArrowLeft")
    assert now(tab) == pytest.approx(0.2e-3)
    tab.keyboard.press("End")
    assert now(tab) == pytest.approx(END)
    tab.keyboard.press("Space")
    assert tab.get_attribute(".ringi-player", "data-playing") is not None
    tab.keyboard.press("Space")
    assert tab.get_attribute(".ringi-player", "data-playing") is None
    whole = picture(tab)
    tab.keyboard.press("+")
    near = picture(tab)
    assert near != whole
    tab.keyboard.press("-")
    assert picture(tab) == whole


def test_keys_do_not_trap(visit: Open) -> None:
    tab = visit()
    tab.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<a id=after href=#>after</a>')"
    )
    tab.focus(".rp-stage")
    seen = []
    for _ in range(14):
        seen.append(tab.evaluate("document.activeElement.className || document.activeElement.id"))
        if seen[-1] == "after":
            break
        tab.keyboard.press("Tab")
        ring = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", "focus cannot be seen"
    assert seen[-1] == "after"
    assert {"rp-stage", "rp-scrub", "rp-play", "rp-speed"} < set(seen)


def test_keys_of_other_parts_stay_theirs(visit: Open) -> None:
    """Space presses a button, arrows choose in a list; a key that is not ours is left alone."""
    tab = visit()
    tab.focus(".rp-back")
    tab.keyboard.press("Space")
    assert now(tab) == pytest.approx(1.5e-3)
    assert tab.get_attribute(".ringi-player", "data-playing") is None
    tab.focus(".rp-speed")
    tab.keyboard.press("ArrowDown")
    assert tab.input_value(".rp-speed") == "2"
    tab.keyboard.press("Home")
    assert tab.input_value(".rp-speed") == "0.1"
    assert now(tab) == pytest.approx(1.5e-3)
    left = tab.evaluate("""() => ['a', 'PageDown', 'ArrowRight'].map((key) => {
        const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
        document.querySelector('.rp-stage').dispatchEvent(event);
        return event.defaultPrevented;
    })""")
    assert left == [False, False, True]


def test_keyboard_reaches_every_span(visit: Open) -> None:
    tab = visit()
    tab.focus(".rp-stage")
    tab.keyboard.press("Home")
    names = []
    for _ in range(5):
        tab.keyboard.press("ArrowDown")
        names.append(tab.inner_text(".rp-tip b"))
    assert names == ["GEMM 0", "H2D", "wait", "arrived", "GEMM 1"]
    tab.wait_for_function("document.querySelector('.rp-hidden').textContent.includes('GEMM 1')")
    assert "1.5 ms – 2 ms (500 µs)" in tab.inner_text(".rp-hidden")
    tab.keyboard.press("Escape")
    assert not tab.is_visible(".rp-tip")


# --- what it says -----------------------------------------------------------------------------


def test_hover_tells_the_facts(visit: Open) -> None:
    tab = visit()
    box = tab.locator(".rp-stage").bounding_box()
    tab.mouse.move(box["x"] + 200, box["y"] + 40)
    assert tab.inner_text(".rp-tip").split("\n") == [
        "GEMM 0", "compute · gemm", "0 s – 1 ms (1 ms)", "bytes: 64 MiB",
    ]  # fmt: skip
    tab.mouse.move(box["x"] + 200, box["y"] - 60)
    assert not tab.is_visible(".rp-tip")


def test_text_follows_the_time(visit: Open) -> None:
    tab = visit()
    tab.fill(".rp-scrub", "250")
    tab.wait_for_function("document.querySelector('.rp-hidden').textContent.startsWith('500 µs')")
    assert tab.inner_text(".rp-hidden") == "500 µs: compute: GEMM 0; copy: H2D"
    assert tab.inner_text(".rp-now") == "compute: GEMM 0; copy: H2D"
    assert tab.get_attribute(".rp-scrub", "aria-valuetext") == "500 µs of 2 ms"
    assert tab.get_attribute(".rp-hidden", "role") == "status"


def test_a_screen_reader_is_not_flooded(visit: Open) -> None:
    tab = visit("many")
    tab.evaluate("""() => {
        window.said = 0;
        new MutationObserver(() => { said += 1 }).observe(document.querySelector('.rp-hidden'), { childList: true });
        document.querySelector('.ringi-player').ringi.play();
    }""")
    tab.wait_for_timeout(3000)
    assert 1 <= tab.evaluate("said") <= 2


def test_time_line_as_text(visit: Open) -> None:
    tab = visit()
    assert tab.locator(".rp-table td").count() == 0, "made only when it is wanted"
    tab.click(".rp-text summary")
    rows = [r.split("\t") for r in tab.locator(".rp-table tr").all_inner_texts()]
    assert [c.strip() for c in rows[0]] == ["Lane", "What", "Start", "End"]
    assert ["compute", "wait", "1 ms", "1.5 ms"] in rows
    assert ["copy", "arrived", "1.5 ms", ""] in rows
    assert len(rows) == 1 + 5
    assert "HBM traffic: up to 2 TB/s" in tab.inner_text(".rp-table")


def test_long_time_line_says_how_much_is_left_out(visit: Open) -> None:
    tab = visit("many")
    tab.click(".rp-text summary")
    assert tab.locator(".rp-table tr").count() == 1 + 200
    assert "+ 1800 more not listed" in tab.inner_text(".rp-table")


def test_sources_cannot_be_confused(visit: Open) -> None:
    tab = visit("sources")
    badges = tab.locator(".rp-badge")
    assert badges.all_inner_texts() == [f"{s} · NVIDIA H200" for s in ("simulated", "measured", "recorded")]
    looks = badges.evaluate_all(
        "all => all.map(e => { const s = getComputedStyle(e); return s.borderTopStyle + s.color + s.backgroundColor })"
    )
    assert len(set(looks)) == 3
    assert looks[0].startswith("dashed")
    names = tab.locator(".rp-live").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert all("NVIDIA H200" in name for name in names)


@pytest.mark.parametrize(("value", "unit"), [(3.35e12, "B/s"), (999.96e9, "B/s"), (1 << 26, "B"), (1000, "B"),
    (132, "SMs"), (0.5, ""), (0, "B/s"), (2e-3, "s"), (-4.2e9, "B/s"), (1.23456e4, "W"), (45.678, "%")])  # fmt: skip
def test_script_and_still_format_alike(visit: Open, value: float, unit: str) -> None:
    tab = visit()
    assert tab.evaluate("([v, u]) => RingiPlayer.format.value(v, u)", [value, unit]) == value_text(
        value, unit
    )
    for seconds in (value, 1e-9 * value, 4.123456e-4, 0.99989e-3):
        assert tab.evaluate("s => RingiPlayer.format.time(s)", seconds) == time_text(seconds)


@pytest.mark.parametrize("over", ["http", "file"])
def test_no_word_of_a_trace_becomes_code(visit: Open, over: str) -> None:
    tab = visit("hostile", over)
    for player in tab.locator(".ringi-player").all():
        player.locator(".rp-text summary").click()
        player.locator(".rp-stage").focus()
        tab.keyboard.press("ArrowUp")
    tab.wait_for_timeout(400)
    assert tab.locator(".rp-live img, .rp-live script, .rp-live a, .rp-live b b").count() == 0
    assert tab.locator(".rp-title").first.inner_text() == HOSTILE[0]


# --- readers and their screens ----------------------------------------------------------------


def test_reduced_motion_goes_in_leaps(visit: Open) -> None:
    tab = visit(reduced_motion="reduce")
    tab.click(".rp-play")
    seen = set()
    for _ in range(32):
        seen.add(now(tab))
        tab.wait_for_timeout(50)
    assert 2 <= len(seen) <= 5
    assert frames_in(tab, 200) == 0
    tab.emulate_media(reduced_motion="no-preference")
    tab.wait_for_timeout(100)
    tab.evaluate("document.querySelector('.ringi-player').ringi.seek(0)")
    assert frames_in(tab, 300) > 5 or tab.get_attribute(".ringi-player", "data-playing") is None


@pytest.mark.parametrize("over", ["http", "file"])
def test_still_without_scripts(visit: Open, over: str) -> None:
    tab = visit("sources", over, wait=False, java_script_enabled=False)
    assert tab.locator(".ringi-still").count() == 3
    for still in tab.locator(".ringi-still").all():
        assert still.is_visible()
        assert still.bounding_box()["height"] > 150
    assert tab.locator(".rp-live").count() == 0


def test_print_shows_the_still(visit: Open) -> None:
    tab = visit()
    tab.emulate_media(media="print")
    assert tab.is_visible(".ringi-still")
    assert not tab.is_visible(".rp-live")


@pytest.mark.parametrize("name", ["one", "many", "chinese", "hostile", "odd"])
@pytest.mark.parametrize("width", [320, 360])
def test_fits_a_phone(visit: Open, name: str, width: int) -> None:
    tab = visit(name, viewport={"width": width, "height": 740}, has_touch=True)
    for at in (0, 500, 1000):
        for scrub in tab.locator(".rp-scrub").all():
            scrub.fill(str(at))
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    small = tab.evaluate("""() => [...document.querySelectorAll('.rp-live button, .rp-live select, .rp-live input, .rp-live summary')]
        .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect())
        .filter(r => r.width < 24 || r.height < 24).length""")
    assert small == 0


def test_a_narrow_page_names_lanes_above_them(visit: Open) -> None:
    tab = visit(viewport={"width": 360, "height": 740})
    narrow = tab.locator(".rp-stage").bounding_box()["height"]
    tab.set_viewport_size({"width": 900, "height": 740})
    tab.wait_for_timeout(150)
    assert tab.locator(".rp-stage").bounding_box()["height"] < narrow
    canvas = tab.evaluate("(c => [c.width, c.clientWidth])(document.querySelector('.rp-stage canvas'))")
    assert abs(canvas[0] - canvas[1]) <= 1


def test_sharp_on_a_dense_screen(visit: Open) -> None:
    tab = visit(device_scale_factor=2)
    canvas = tab.evaluate("(c => [c.width, c.clientWidth])(document.querySelector('.rp-stage canvas'))")
    assert abs(canvas[0] - 2 * canvas[1]) <= 2


# Whether the picture's corner is dark, and whether the ground behind it is.
IS_DARK = """() => {
  const corner = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  corner.drawImage(document.querySelector('.rp-stage canvas'), 0, 0);
  const ground = getComputedStyle(document.querySelector('.rp-live')).backgroundColor.match(/\\d+/g)[0];
  return [corner.getImageData(0, 0, 1, 1).data[0] < 60, ground < 60];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_of_the_page_wins_over_the_system(visit: Open, scheme: str) -> None:
    tab = visit(color_scheme=scheme)
    assert tab.evaluate(IS_DARK) == [scheme == "dark"] * 2
    steps = [
        ("document.documentElement.dataset.theme = 'dark'", True),
        ("document.documentElement.dataset.theme = 'light'", False),
        ("delete document.documentElement.dataset.theme; document.body.dataset.jpThemeLight = 'false'", True),
        ("document.body.dataset.jpThemeLight = 'true'", False),
        ("delete document.body.dataset.jpThemeLight; document.body.className = 'vscode-dark'", True),
        ("document.body.className = ''", scheme == "dark"),
    ]
    for act, dark in steps:
        tab.evaluate(act)
        tab.wait_for_timeout(60)
        assert tab.evaluate(IS_DARK) == [dark, dark], act
    tab.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    tab.wait_for_timeout(60)
    assert tab.evaluate(IS_DARK) == [scheme == "light"] * 2


def test_odd_traces_do_no_harm(visit: Open) -> None:
    tab = visit("odd")
    assert tab.locator(".rp-play:disabled").count() == 2
    assert "Nothing happened" in tab.locator(".rp-pace").first.inner_text()
    last = tab.locator(".ringi-player").last
    assert last.locator(".rp-speed").input_value() == "4"
    assert float(last.get_attribute("data-time")) == -1
    last.locator(".rp-play").click()
    tab.wait_for_timeout(300)
    assert -2 <= float(last.get_attribute("data-time")) < -1


# --- the interface ----------------------------------------------------------------------------


def test_set_trace_changes_everything(visit: Open) -> None:
    tab = visit()
    before, seen = tab.get_attribute(".ringi-player", "data-trace-hash"), picture(tab)
    shorter = small(
        title="shorter",
        source="measured",
        spans=(Span("copy", "H2D", 0.0, 1e-3, "copy"),),
        events=(),
        counters=(),
    )
    tab.click(".rp-text summary")
    tab.evaluate("t => document.querySelector('.ringi-player').ringi.setTrace(t)", shorter.to_dict())
    assert tab.get_attribute(".ringi-player", "data-trace-hash") != before
    assert picture(tab) != seen
    assert tab.inner_text(".rp-title") == "shorter"
    assert tab.inner_text(".rp-badge") == "measured · NVIDIA H200"
    assert tab.locator(".rp-table tr").count() == 2
    assert now(tab) == pytest.approx(1e-3), "a picture that was whole stays whole"
    assert tab.input_value(".rp-scrub") == "500", "the axis stays, so that shorter looks shorter"
    tab.evaluate("t => document.querySelector('.ringi-player').ringi.setTrace(t)", small().to_dict())
    assert tab.get_attribute(".ringi-player", "data-trace-hash") == before
    assert tab.locator(".ringi-still").count() == 0, "the still of another trace is not printed"


def test_a_bad_trace_is_refused_and_the_old_one_stays(visit: Open) -> None:
    tab = visit()
    before = tab.get_attribute(".ringi-player", "data-trace-hash")
    error = tab.evaluate("""() => {
        try { document.querySelector('.ringi-player').ringi.setTrace({ schema: 'x' }); } catch (e) { return e.message; }
    }""")
    assert error == "RingiPlayer: schema = x: must be ringi-trace/1"
    assert tab.get_attribute(".ringi-player", "data-trace-hash") == before
    tab.click(".rp-back")
    assert now(tab) == pytest.approx(1.5e-3)


def test_broken_data_leaves_the_still(visit: Open) -> None:
    tab = visit("broken", wait=False)
    assert tab.is_visible(".ringi-still")
    assert tab.locator(".rp-live").count() == 0
    assert any("must be ringi-trace/1" in t for t in tab.troubles)
    tab.troubles.clear()


def test_destroy_leaves_nothing_running(visit: Open) -> None:
    tab = visit()
    tab.evaluate("window.api = document.querySelector('.ringi-player').ringi; api.play()")
    assert frames_in(tab, 300) > 5
    tab.evaluate("api.destroy()")
    assert frames_in(tab, 300) == 0
    assert tab.locator(".rp-live").count() == 0
    assert tab.is_visible(".ringi-still")
    # Nothing that happens to the page makes it draw again.
    tab.evaluate("""() => {
        window.drawn = 0;
        CanvasRenderingContext2D.prototype.drawImage = () => { drawn += 1; };
        document.documentElement.dataset.theme = 'dark';
        api.play();
    }""")
    tab.set_viewport_size({"width": 500, "height": 700})
    tab.evaluate("delete document.documentElement.dataset.theme")
    tab.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert frames_in(tab, 300) == 0
    assert tab.evaluate("drawn") == 0
    tab.evaluate("RingiPlayer.upgrade()")
    assert tab.locator(".rp-live").count() == 1


def test_no_frames_where_no_one_looks(visit: Open) -> None:
    tab = visit()
    tab.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<div style=height:3000px></div>')"
    )
    tab.click(".rp-play")
    assert frames_in(tab, 300) > 5
    tab.evaluate("scrollTo(0, 2500)")
    tab.wait_for_timeout(200)
    away = now(tab)
    assert frames_in(tab, 400) == 0
    assert now(tab) == away
    tab.evaluate("scrollTo(0, 0)")
    tab.wait_for_timeout(200)
    assert frames_in(tab, 300) > 5
    assert now(tab) > away


def test_widget_module_as_a_notebook_loads_it(visit: Open) -> None:
    """What anywidget does: import the module, render with a model, change the model, clean up."""
    tab = visit()
    tab.evaluate(
        """async ([code, css, trace]) => {
            delete globalThis.RingiPlayer;
            const module = await import(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })));
            const data = { trace, options: { speed: 2, alt: 'words' } }, acts = {};
            window.model = {
                get: (name) => data[name], on: (name, act) => { acts[name] = act; },
                set: (name, value) => { data[name] = value; acts[`change:${name}`](); },
            };
            document.body.insertAdjacentHTML('beforeend', '<div id=cell></div>');
            window.clean = module.default.render({ model, el: document.getElementById('cell') });
        }""",
        [SCRIPT.read_text(encoding="utf-8") + WIDGET, STYLE.read_text(encoding="utf-8"), small().to_dict()],
    )
    cell = tab.locator("#cell")
    assert cell.locator(".rp-title").inner_text() == small().title
    assert cell.locator(".rp-speed").input_value() == "2"
    before = cell.get_attribute("data-trace-hash")
    tab.evaluate("t => model.set('trace', t)", small(title="moved").to_dict())
    assert cell.locator(".rp-title").inner_text() == "moved"
    assert cell.get_attribute("data-trace-hash") != before
    tab.evaluate("clean()")
    assert cell.locator(".rp-live").count() == 0


def test_two_thousand_spans_cost_little(browser: Any) -> None:
    """The script's share of a frame; the rate itself depends on what else the machine does."""
    spec = importlib.util.spec_from_file_location("player_fps", ROOT / "benchmarks" / "player_fps.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    found = bench.measure(browser, bench.busy_trace(2000, 8), 1.5, 2.0)
    assert found["script_median_ms"] < 6, json.dumps(found)
    assert found["frames_per_s"] > 20, json.dumps(found)
