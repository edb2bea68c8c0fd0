"""Every rendered page in a real browser: nothing from outside, nothing broken, everything that moves moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pages import CHAPTERS, LABS, MADE, PAGES

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}


@dataclass
class Visit:
    """One page in a browser of its own, and everything that went wrong on it."""

    page: Any
    base: str
    troubles: list[str] = field(default_factory=list)

    def open(self, name: str, until: str = "load") -> Any:
        """Load a page of the book; ``until="networkidle"`` waits for what its scripts fetch."""
        self.page.goto(f"{self.base}/{name}.html", wait_until=until)
        return self.page


@contextmanager
def visiting(browser: Any, site_url: str, **options: Any) -> Iterator[Visit]:
    """A fresh browser context that reaches the site and nothing else."""
    context = browser.new_context(**{"viewport": DESK, **options})
    seen = Visit(context.new_page(), site_url)

    def gate(route: Any) -> None:
        url = route.request.url
        if url.startswith(site_url + "/"):
            route.continue_()
        else:
            seen.troubles.append(f"request to another host: {url}")
            route.abort()

    context.route("**/*", gate)
    seen.page.on("console", lambda m: m.type == "error" and seen.troubles.append(f"console: {m.text}"))
    seen.page.on("pageerror", lambda e: seen.troubles.append(f"script error: {e}"))
    seen.page.on("requestfailed", lambda r: seen.troubles.append(f"failed: {r.url} {r.failure}"))
    seen.page.on("response", lambda r: r.status >= 400 and seen.troubles.append(f"{r.status}: {r.url}"))
    yield seen
    context.close()


@pytest.fixture
def visit(browser: Any, site_url: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A visit of its own for one test; parametrize it indirectly with options of ``new_context``."""
    with visiting(browser, site_url, **getattr(request, "param", {})) as seen:
        yield seen


@pytest.fixture(scope="module", params=PAGES + MADE)
def opened(browser: Any, site_url: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Each page, loaded once on a desk's screen for all tests that only look."""
    with visiting(browser, site_url) as seen:
        seen.open(request.param, until="networkidle")
        yield seen


def with_options(*options: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test once per set of browser options."""
    return pytest.mark.parametrize(
        "visit", options, indirect=True, ids=lambda o: " ".join(map(str, o.values()))
    )


pages_with_player = pytest.mark.parametrize("name", CHAPTERS + LABS)


def test_page_is_clean(opened: Visit) -> None:
    """No console error, no failed request, no request to another host; math is typeset."""
    page = opened.page
    if page.locator("span.math, div.math").count():
        page.wait_for_selector("mjx-container", timeout=10_000)
        assert page.locator("mjx-merror").count() == 0
    # Give scripts that start late the time to ask for something.
    page.wait_for_timeout(200)
    assert opened.troubles == []


@with_options({"viewport": PHONE})
@pytest.mark.parametrize("name", PAGES + MADE)
def test_page_fits_a_phone(visit: Visit, name: str) -> None:
    page = visit.open(name)
    page.wait_for_timeout(200)
    width = page.evaluate("document.documentElement.scrollWidth")
    wide = page.evaluate(
        """limit => [...document.querySelectorAll('main *')].filter(e =>
             e.getBoundingClientRect().right > limit + 1 && e.checkVisibility()
        ).slice(0, 5).map(e => e.outerHTML.slice(0, 120))""",
        PHONE["width"],
    )
    assert width <= PHONE["width"], f"{width} px wide; beyond the edge: {wide}"


def test_images_have_alternative_text(opened: Visit) -> None:
    """Also images that scripts made: text that says something, not "Image" and not a file's name."""
    alts = opened.page.evaluate(
        "[...document.images].filter(i => i.closest('article')).map(i => [i.alt, i.src.slice(0, 80)])"
    )
    bad = [(alt, src) for alt, src in alts if not says_something(alt)]
    assert not bad


def says_something(alt: str) -> bool:
    """Whether an alternative text describes its picture."""
    text = alt.strip().lower()
    is_file = ("/" in text and " " not in text) or text.endswith((".png", ".svg", ".jpg", ".gif"))
    return len(text) > 8 and text not in {"image", "figure", "plot", "picture"} and not is_file


@pytest.mark.parametrize("alt", ["", "Image", "../_images/abc.png", "overlap.svg", "_images/b0a1"])
def test_alternative_text_can_fail(alt: str) -> None:
    assert not says_something(alt)


def test_no_dead_controls(opened: Visit) -> None:
    """What can be moved does something without a kernel, or is disabled and says that it needs one."""
    dead = opened.page.evaluate(
        """() => [...document.querySelectorAll('article input, article select, article textarea')]
             .filter(e => !e.closest('.rp-live') && e.type !== 'hidden')
             .filter(e => !(e.disabled && /needs a kernel/i.test(
                 (e.closest('[data-needs-kernel], fieldset, form, figure') || e.parentElement).textContent + e.title)))
             .filter(e => !(e.closest('.sd-tab-set') || e.closest('#search-documentation, .bd-search')))
             .map(e => e.outerHTML.slice(0, 160))"""
    )
    assert dead == []


@with_options({"color_scheme": "light"}, {"color_scheme": "dark"})
@pytest.mark.parametrize("name", PAGES)
def test_theme_follows_the_reader(visit: Visit, name: str, request: pytest.FixtureRequest) -> None:
    """A reader who prefers dark gets a dark page with light text, and the other way round."""
    page = visit.open(name)
    wanted = request.node.callspec.params["visit"]["color_scheme"]
    assert page.evaluate("document.documentElement.dataset.theme") == wanted
    back, ink = page.evaluate(
        """() => ['backgroundColor', 'color'].map(p => {
             const rgb = getComputedStyle(document.body)[p].match(/[\\d.]+/g).slice(0, 3).map(Number);
             return (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255 })"""
    )
    assert (back < ink) == (wanted == "dark")
    assert abs(back - ink) > 0.5


# --- the animation ---------------------------------------------------------------------------


def players(page: Any) -> list[Any]:
    """Every animation of a page; at least one, and each upgraded by its script."""
    page.wait_for_selector(".ringi-player[data-rp-live]", timeout=10_000)
    found = page.locator(".ringi-player").all()
    assert all(p.get_attribute("data-rp-live") is not None for p in found)
    return found


@pages_with_player
def test_player_plays_pauses_and_scrubs(visit: Visit, name: str) -> None:
    page = visit.open(name)
    for player in players(page):
        player.scroll_into_view_if_needed()
        clock, play, scrub = (player.locator(s) for s in (".rp-clock", ".rp-play", ".rp-scrub"))
        play.click()
        page.wait_for_timeout(250)
        first = clock.inner_text()
        page.wait_for_timeout(400)
        second = clock.inner_text()
        assert first != second, "time does not advance while it plays"
        play.click()
        page.wait_for_timeout(100)
        paused = clock.inner_text()
        page.wait_for_timeout(400)
        assert clock.inner_text() == paused, "time goes on after a pause"
        scrub.fill("100")
        early = clock.inner_text()
        scrub.fill("900")
        assert clock.inner_text() != early, "the scrubber does not move the time"
    assert visit.troubles == []


@pages_with_player
def test_player_obeys_the_keyboard(visit: Visit, name: str) -> None:
    page = visit.open(name)
    player = players(page)[0]
    clock = player.locator(".rp-clock")
    player.locator(".rp-stage").focus()
    page.keyboard.press("Home")
    home = clock.inner_text()
    page.keyboard.press("ArrowRight")
    step = clock.inner_text()
    page.keyboard.press("End")
    assert len({home, step, clock.inner_text()}) == 3


@with_options({"java_script_enabled": False})
@pages_with_player
def test_still_without_javascript(visit: Visit, name: str) -> None:
    """Without scripts each animation shows its still, with a text for those who cannot see it."""
    page = visit.open(name)
    count = page.locator(".ringi-player").count()
    assert count >= 1
    stills = page.locator(".ringi-player > img.ringi-still")
    assert stills.count() == count
    for still in stills.all():
        assert still.is_visible()
        assert still.bounding_box()["height"] > 40
        assert says_something(still.get_attribute("alt"))


@with_options({"reduced_motion": "reduce"})
@pages_with_player
def test_nothing_sweeps_for_readers_who_ask_for_calm(visit: Visit, name: str) -> None:
    """No animation starts by itself, whatever the reader prefers; with less motion it moves in few leaps."""
    page = visit.open(name)
    for player in players(page):
        assert player.get_attribute("data-playing") is None
    player = players(page)[0]
    player.scroll_into_view_if_needed()
    player.locator(".rp-play").click()
    seen = set()
    for _ in range(20):
        seen.add(player.locator(".rp-clock").inner_text())
        page.wait_for_timeout(50)
    assert len(seen) <= 5
