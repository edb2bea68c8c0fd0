"""Controls that run an experiment anew and show its time line: live in a kernel, said in words on a page."""

from __future__ import annotations

import asyncio
import html
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringi_lab.core.errors import FieldError, RingiError
from ringi_lab.core.result import Result
from ringi_lab.core.trace import Trace
from ringi_lab.core.view.player import STATIC, Player, live_kernel

PAUSE_S = 0.15  # of the reader, before anything is computed: a moving slider asks once, not twenty times
NEEDS = "needs a kernel"

Function = Callable[..., Trace | Result]


@dataclass(frozen=True)
class Choice:
    """One parameter: its values with their labels in order, the first one shown, and what it looks like."""

    name: str
    label: str
    labels: tuple[str, ...]
    values: tuple[Any, ...]
    start: int
    slider: bool


class Explorer:
    """A function, its parameters and the player of what it returns; made by :func:`explore`.

    ``values`` are the parameters on the screen; :meth:`set` changes some of them from code. ``result`` is
    what the function last returned, ``error`` the words on the screen when it refused, else "".
    """

    def __init__(
        self,
        function: Function,
        title: str,
        choices: Sequence[Choice],
        tell: Callable[[Any], str] | None,
    ) -> None:
        self.title, self.choices = title, tuple(choices)
        self.values = {c.name: c.values[c.start] for c in choices}
        self.result: Trace | Result | None = None
        self.error = ""
        self.player: Player | None = None
        self._function, self._tell = function, tell
        self._widgets: dict[str, Any] = {}
        self._screen: Any = None
        self._status: Any = None
        self._picture: Any = None
        self._timer: asyncio.TimerHandle | None = None
        if os.environ.get(STATIC):
            self._run()  # a page that cannot be made must fail its build
        else:
            self._try()

    # --- running ------------------------------------------------------------------------------

    def set(self, **values: Any) -> None:
        """Choose other values and run at once; raises :class:`FieldError` for one that is not offered."""
        known = {c.name: c for c in self.choices}
        for name, value in values.items():
            if name not in known:
                raise FieldError("parameter", name, f"one of {', '.join(known)}")
            if value not in known[name].values:
                raise FieldError(name, value, f"one of {', '.join(map(repr, known[name].values))}")
        self.values.update(values)
        for name in values:
            if name in self._widgets:
                self._widgets[name].index = known[name].values.index(values[name])
        self._stop()
        self._try()
        self._show()

    def _run(self) -> None:
        made = self._function(**self.values)
        trace = made.trace if isinstance(made, Result) else made
        if not isinstance(trace, Trace):
            raise FieldError("result", type(made).__name__, "a Trace, or a Result with a time line")
        if self.player is None:
            self.player = Player(trace)
        else:
            self.player.trace = trace
        self.result, self.error = made, ""

    def _try(self) -> None:
        """Run; what is refused is said in words, and the notebook goes on."""
        try:
            self._run()
        except RingiError as refused:
            self.error = str(refused)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _changed(self, name: str, index: int) -> None:
        """A control was moved: run when it has come to rest."""
        choice = next(c for c in self.choices if c.name == name)
        if self.values[name] == choice.values[index]:
            return
        self.values[name] = choice.values[index]
        self._stop()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no event loop, so nothing to wait in
            self._settled()
        else:
            self._timer = loop.call_later(PAUSE_S, self._settled)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settled(self) -> None:
        self._timer = None
        self._try()
        self._show()

    # --- words --------------------------------------------------------------------------------

    @property
    def said(self) -> str:
        """What stands below the controls: the result in words, or why there is none."""
        if self.error:
            still = f"; the picture still shows {self._shown()}" if self.player is not None else ""
            return f"{self.error}{still}"
        words = _source(self.result)
        return f"{words}: {self._tell(self.result)}" if self._tell is not None else words

    def _shown(self) -> str:
        trace = self.player.trace
        return f"“{trace.title}” ({trace.source} · {trace.device})"

    def _words(self, name: str) -> str:
        choice = next(c for c in self.choices if c.name == name)
        return choice.labels[choice.values.index(self.values[name])]

    def __repr__(self) -> str:
        chosen = ", ".join(f"{c.label} = {self._words(c.name)}" for c in self.choices)
        picture = repr(self.player) if self.player is not None else "no time line"
        return f"{self.title} ({chosen})\n{self.said}\n{picture}"

    # --- a page -------------------------------------------------------------------------------

    def html(self, hint: str = "") -> str:
        """The page without a kernel: the player, and every control disabled with its value.

        ``hint`` is one line that says why, where it is not a page's nature.
        """
        rows = []
        for c in self.choices:
            options = "".join(
                f"<option{' selected' if value == self.values[c.name] else ''}>{_safe(label)}</option>"
                for label, value in zip(c.labels, c.values, strict=True)
            )
            rows.append(
                f'<li><label>{_safe(c.label)}: <select disabled aria-disabled="true" title="{NEEDS}">'
                f"{options}</select></label> <small>({NEEDS})</small></li>"
            )
        picture = self.player.html() if self.player is not None else ""
        role = "alert" if self.error else "status"
        why = hint or "To change these values, run this lab in Jupyter."
        return (
            f'<div class="ringi-explorer"><p><strong>{_safe(self.title)}</strong></p>'
            f'<ul style="list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3em 1.5em">{"".join(rows)}</ul>'
            f'<p role="{role}">{_safe(self.said)}</p>{picture}<p><small>{_safe(why)}</small></p></div>'
        )

    # --- a live kernel --------------------------------------------------------------------------

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What Jupyter shows: widgets in a live kernel; elsewhere the page's HTML, and words."""
        view: dict[str, Any] = {}
        hint = ""
        if live_kernel():
            try:
                if self._screen is None:
                    self._build()
                view = {kind: data for kind, data in _bundle(self._screen).items() if "widget" in kind}
            except Exception as error:  # whatever is wrong with the widgets, the notebook goes on
                self._screen, self._widgets = None, {}
                hint = f"Fixed values: controls need a working ipywidgets ({type(error).__name__}: {error})."
        return {**view, "text/html": self.html(hint), "text/plain": repr(self)}

    def _build(self) -> None:
        """Make the widgets; ipywidgets is imported here, since pages do without it."""
        import ipywidgets as widgets

        for c in self.choices:
            kind = widgets.SelectionSlider if c.slider else widgets.Dropdown
            # A slider sends its value when it is let go; arrow keys send each step, hence the pause.
            options = {"continuous_update": False} if c.slider else {}
            made = kind(
                options=[(label, i) for i, label in enumerate(c.labels)],
                index=c.values.index(self.values[c.name]),
                description=c.label,
                style={"description_width": "initial"},
                layout=widgets.Layout(width="min(100%, 24rem)"),
                **options,
            )
            made.observe(lambda change, name=c.name: self._changed(name, change["new"]), names="index")
            self._widgets[c.name] = made
        flow = widgets.Layout(flex_flow="row wrap", grid_gap="4px 24px", width="100%")
        controls = widgets.Box(list(self._widgets.values()), layout=flow)
        self._status = widgets.HTML()
        self._picture = widgets.VBox(layout=widgets.Layout(width="100%"))
        title = widgets.HTML(f"<strong>{_safe(self.title)}</strong>")
        self._screen = widgets.VBox([title, controls, self._status, self._picture])
        self._show()

    def _show(self) -> None:
        """Bring what is on the screen up to date; the player's own widget follows its trace by itself."""
        if self._screen is None:
            return
        import ipywidgets as widgets

        self._status.value = f'<p role="{"alert" if self.error else "status"}">{_safe(self.said)}</p>'
        if self.player is None:
            return
        moving = _player_widget(self.player)
        if moving is not None:
            if self._picture.children != (moving,):
                self._picture.children = (moving,)
        else:
            self._picture.children = (widgets.HTML(self.player.html("A still: anywidget is missing.")),)


def explore(
    function: Function,
    *,
    title: str,
    tell: Callable[[Any], str] | None = None,
    start: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    **choices: Any,
) -> Explorer:
    """Controls for the parameters of ``function``, and a player for the Trace or Result it returns.

    Each of ``choices`` is named like a parameter and is a list of values, a list of ``(label, value)``, or
    a ``range``. Numbers in ascending order become a slider with these stops, anything else a menu.
    ``start`` gives first values (default: the first of each list), ``names`` what people read for a
    parameter, with its unit. ``tell(result)`` says the result in a few words below the controls. Errors
    of the function are shown there in words.
    While a book is built (RINGI_STATIC) no widgets are made, and an error of the function is raised.
    Raises :class:`FieldError` for a choice without values, or one that the function does not take.
    """
    if not title.strip():
        raise FieldError("title", title, "words that say what can be explored")
    taken = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        for name in choices:
            if name not in taken:
                raise FieldError("choice", name, f"a parameter of the function ({', '.join(taken)})")
    start = start or {}
    for name in start:
        if name not in choices:
            raise FieldError("start", name, f"one of {', '.join(choices)}")
    said = {name: (names or {}).get(name, name.replace("_", " ")) for name in choices}
    made = [_choice(name, said[name], given, start.get(name)) for name, given in choices.items()]
    return Explorer(function, title, made, tell)


def _choice(name: str, label: str, given: Any, start: Any) -> Choice:
    pairs = [
        (item[0], item[1]) if isinstance(item, tuple) and len(item) == 2 else (_text(item), item)
        for item in given
    ]
    if not pairs:
        raise FieldError(name, given, "at least one value")
    labels, values = zip(*pairs, strict=True)
    if len(set(labels)) != len(labels):
        raise FieldError(name, labels, "labels that are all different")
    if start is not None and start not in values:
        raise FieldError(f"start of {name}", start, f"one of {', '.join(map(repr, values))}")
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    slider = numbers and len(values) > 2 and list(values) == sorted(values)
    first = 0 if start is None else values.index(start)
    return Choice(name, label, tuple(map(str, labels)), values, first, slider)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _source(made: Trace | Result | None) -> str:
    return f"{made.source} · {made.device}" if made is not None else ""


def _safe(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def _bundle(widget: Any) -> Mapping[str, Any]:
    bundle = widget._repr_mimebundle_()
    return (bundle[0] if isinstance(bundle, tuple) else bundle) or {}


def _player_widget(player: Player) -> Any:
    """The widget that the player shows itself with in a live kernel; None where it cannot be made."""
    player._repr_mimebundle_()
    return player._widget
