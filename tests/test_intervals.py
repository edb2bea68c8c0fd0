"""Arithmetic on fenceposts: what is counted as overlapped, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringi_lab.core.errors import FieldError
from ringi_lab.core.intervals import both_busy, contained, durations, overlap_fraction

TIMES = st.floats(1e-6, 10.0)
POSTS = st.lists(st.floats(0.0, 10.0), min_size=2, max_size=20).map(sorted)


def test_durations_are_the_gaps_between_posts() -> None:
    assert durations([1.0, 1.5, 3.0]) == [0.5, 1.5]
    assert durations([1.0, 1.0]) == [0.0]


@given(POSTS)
def test_durations_add_up_to_the_whole(posts: list[float]) -> None:
    assert sum(durations(posts)) == pytest.approx(posts[-1] - posts[0])


@pytest.mark.parametrize("posts", [[], [1.0]])
def test_one_post_has_no_duration(posts: list[float]) -> None:
    with pytest.raises(FieldError, match=rf"posts = {len(posts)}: must be at least two"):
        durations(posts)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(FieldError, match="posts = 'times': must be in order"):
        durations([0.0, 2.0, 1.0])


@given(POSTS, POSTS)
def test_the_common_window_is_symmetric_and_inside_both(first: list[float], second: list[float]) -> None:
    start, end = both_busy(first, second)
    assert (start, end) == both_busy(second, first)
    if end > start:
        for side in (first, second):
            assert side[0] <= start
            assert end <= side[-1]


def test_sides_one_after_the_other_have_no_window() -> None:
    start, end = both_busy([0.0, 1.0], [2.0, 3.0])
    assert end <= start
    start, end = both_busy([0.0, 1.0], [1.0, 3.0])
    assert end <= start


def test_only_operations_wholly_inside_count() -> None:
    posts = [0.0, 1.0, 2.0, 3.0, 4.5]
    assert contained(posts, (0.5, 4.0)) == [1.0, 1.0]  # the first begins before, the last ends after
    assert contained(posts, (0.0, 4.5)) == [1.0, 1.0, 1.0, 1.5]  # edges belong to it
    assert contained(posts, (1.2, 1.8)) == []
    assert contained(posts, (4.0, 0.5)) == []


def test_the_lead_in_is_skipped_from_the_front_whether_inside_or_not() -> None:
    posts = [0.0, 5.0, 6.0, 7.0]
    assert contained(posts, (0.0, 7.0), skip=1) == [1.0, 1.0]
    assert contained(posts, (5.0, 7.0), skip=1) == [1.0, 1.0]  # it was outside; no second one goes
    assert contained(posts, (0.0, 7.0), skip=9) == []


@given(POSTS, POSTS)
def test_what_is_contained_fits_in_the_window(first: list[float], second: list[float]) -> None:
    window = both_busy(first, second)
    assert sum(contained(first, window)) <= max(0.0, window[1] - window[0]) + 1e-9


# --- overlap fraction ---------------------------------------------------------------------------


def test_the_fraction_is_one_when_the_shorter_is_hidden_and_zero_when_nothing_is_gained() -> None:
    assert overlap_fraction(3.0, 1.0, 3.0) == 1.0
    assert overlap_fraction(3.0, 1.0, 4.0) == 0.0
    assert overlap_fraction(3.0, 1.0, 3.5) == 0.5


def test_the_fraction_is_reported_beyond_its_range_and_not_clipped() -> None:
    assert overlap_fraction(3.0, 1.0, 4.5) == -0.5
    assert overlap_fraction(3.0, 1.0, 2.5) == 1.5


@given(TIMES, TIMES, st.floats(0.0, 1.0))
def test_between_the_longer_and_the_sum_it_is_between_one_and_zero(a: float, b: float, x: float) -> None:
    together = max(a, b) + x * min(a, b)
    assert overlap_fraction(a, b, together) == pytest.approx(1.0 - x, abs=1e-6)
    assert overlap_fraction(a, b, together) == overlap_fraction(b, a, together)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_times_are_positive(place: int, bad: float) -> None:
    times = [1.0, 1.0, 1.0]
    times[place] = bad
    with pytest.raises(FieldError, match=rf"^{('gemm_alone', 'copy_alone', 'together')[place]} = "):
        overlap_fraction(*times)
