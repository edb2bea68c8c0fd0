"""Errors of a model on held-out points: the arithmetic, the promise, and a broken promise."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ringi_lab import __main__ as cli
from ringi_lab import catalog
from ringi_lab.core.errors import FieldError
from ringi_lab.core.validation import ALL, Bound, Point, best_constant, rows, table

SURE = {("link", "k"): Bound(0.05, 0.10)}


def point(predicted: float, recorded: float, **changes: Any) -> Point:
    fields = {"kind": "link", "quantity": "k", "label": f"at {recorded}", "spread": 0.1, "held_out": True}
    return Point(predicted=predicted, recorded=recorded, **{**fields, **changes})


def test_median_worst_and_where() -> None:
    (row,) = rows([point(1.02, 1.0), point(2.0, 2.0), point(2.7, 3.0)], SURE)
    assert row.count == 3
    assert row.median == pytest.approx(0.02)
    assert row.worst == pytest.approx(0.1)
    assert row.worst_at == "at 3.0"
    assert row.kept


def test_points_of_the_fit_do_not_count() -> None:
    (row,) = rows([point(1.0, 1.0), point(9.0, 1.0, held_out=False)], SURE)
    assert (row.count, row.worst) == (1, 0.0)


@pytest.mark.parametrize(("predicted", "kept"), [(1.04, True), (1.06, False), (1.2, False)])
def test_a_promise_is_kept_or_broken(predicted: float, kept: bool) -> None:
    (row,) = rows([point(predicted, 1.0)], SURE)
    assert row.kept is kept
    assert ("BROKEN" in table([row])) is not kept
    json.dumps(row.to_dict())


def test_all_gathers_every_kind() -> None:
    bounds = {**SURE, ("sm", "k"): Bound(1, 1), (ALL, "k"): Bound(1, 1)}
    found = rows([point(1.0, 1.0), point(3.0, 2.0, kind="sm")], bounds)
    assert [r.count for r in found] == [1, 1, 2]


def test_large_slowdowns_are_compared_with_the_best_constant() -> None:
    (row,) = rows(
        [point(1.0, 1.0), point(2.0, 2.0), point(4.4, 4.0), point(8.0, 8.0)], {("link", "k"): Bound(1, 1)}
    )
    assert row.model_error == 0.0
    assert row.excess_error == 0.0
    # No one number is within half of the other two of 2, 4 and 8.
    assert row.constant_error == pytest.approx(0.5)
    assert best_constant([3.0, 3.0, 30.0]) == 0.0


def test_a_point_inside_its_own_range() -> None:
    assert point(1.1, 1.0, spread=math.log(1.1)).inside
    assert not point(1.2, 1.0, spread=0.1).inside
    (row,) = rows([point(1.0, 1.0), point(1.2, 1.0)], {("link", "k"): Bound(1, 1)})
    assert row.inside == 0.5


def test_a_kind_without_promise_or_without_points_is_an_error() -> None:
    with pytest.raises(FieldError, match="bounds"):
        rows([point(1.0, 1.0, kind="new")], SURE)
    with pytest.raises(FieldError, match="at least one held-out point"):
        rows([point(1.0, 1.0, held_out=False)], SURE)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_value_that_is_no_time_or_ratio_is_refused(bad: float) -> None:
    with pytest.raises(FieldError, match="predicted"):
        point(bad, 1.0)


class Part:
    """Stands for a topic's ``validate`` module."""

    BOUNDS = SURE

    def __init__(self, *points: Point) -> None:
        self.compare = lambda: list(points)


@pytest.mark.parametrize(("predicted", "status"), [(1.01, 0), (1.5, 1)])
def test_the_command_fails_when_a_bound_is_broken(
    predicted: float, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "topics", lambda: ["overlap"])
    monkeypatch.setattr(catalog, "part", lambda topic, name: Part(point(predicted, 1.0)))
    assert cli.main(["validate"]) == status
    assert ("BROKEN" in capsys.readouterr().out) is bool(status)
    assert cli.main(["validate", "overlap", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["kept"] is not bool(status)


def test_an_unknown_topic_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "nothing"]) == 2
    assert "topic = 'nothing'" in capsys.readouterr().err
