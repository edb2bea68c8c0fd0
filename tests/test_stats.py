"""Medians, bootstrap intervals and paired ratios."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringi_lab.core.errors import FieldError
from ringi_lab.core.stats import Estimate, bootstrap, median, paired_ratio

VALUES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)


def test_median_is_the_middle_and_not_the_mean_or_the_first() -> None:
    assert median([9.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 100.0]) == 3.0


def test_no_data_is_an_error_and_never_zero() -> None:
    for ask in (median, bootstrap):
        with pytest.raises(FieldError, match="samples = 0: must be at least one sample"):
            ask([])
    with pytest.raises(FieldError, match="trials = 0: must be at least one"):
        paired_ratio([], [])


@given(VALUES)
def test_the_interval_holds_the_value_and_stays_inside_the_samples(samples: list[float]) -> None:
    found = bootstrap(samples, resamples=100)
    assert found.value == statistics.median(samples)
    assert min(samples) <= found.low <= found.value <= found.high <= max(samples)
    assert found.count == len(samples)


def test_the_interval_is_the_same_for_a_seed_and_leaves_the_global_one_alone() -> None:
    draw = random.Random(1)
    samples = [draw.gauss(10, 1) for _ in range(30)]
    random.seed(5)
    expected = random.Random(5).random()
    first, again, other = (bootstrap(samples, seed=s) for s in (0, 0, 1))
    assert first == again == bootstrap(samples)
    assert (first.low, first.high) != (other.low, other.high)
    assert random.random() == expected


def test_more_confidence_is_a_wider_interval_and_more_samples_a_narrower_one() -> None:
    draw = random.Random(2)
    few = [draw.gauss(10, 1) for _ in range(20)]
    many = [draw.gauss(10, 1) for _ in range(500)]
    assert bootstrap(few, confidence=0.5).spread < bootstrap(few, confidence=0.99).spread
    assert bootstrap(many).spread < bootstrap(few).spread / 2


def test_the_interval_covers_as_often_as_it_says() -> None:
    # The median of an exponential is ln 2; 95% of intervals should hold it. 150 trials: within 89 to 99%.
    draw = random.Random(3)
    hits = 0
    for _ in range(150):
        found = bootstrap([draw.expovariate(1.0) for _ in range(40)], resamples=200)
        hits += found.low <= math.log(2) <= found.high
    assert 0.89 <= hits / 150 <= 0.99


def test_equal_samples_have_no_spread() -> None:
    assert bootstrap([2.0] * 5) == Estimate(2.0, 2.0, 2.0, 5)
    assert Estimate(0.0, 0.0, 0.0, 1).spread == 0.0
    assert Estimate(2.0, 1.0, 3.0, 9).spread == 1.0


def test_another_statistic_can_be_asked_for() -> None:
    assert bootstrap([1.0, 2.0, 6.0], statistic=max).value == 6.0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"confidence": 0.0}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"resamples": 99}, "resamples"),
    ],
)
def test_options_have_limits(options: dict[str, float], field: str) -> None:
    with pytest.raises(FieldError, match=f"^{field} = "):
        bootstrap([1.0, 2.0], **options)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(FieldError, match="finite"):
        bootstrap([1.0, bad, 2.0])
    with pytest.raises(FieldError):
        paired_ratio([1.0, bad], [1.0, 1.0])
    with pytest.raises(FieldError):
        paired_ratio([1.0, 1.0], [1.0, math.nan])


# --- paired ratios ------------------------------------------------------------------------------


def test_drift_that_meets_both_sides_of_a_trial_cancels() -> None:
    drift = [1.0 + 0.02 * i for i in range(20)]
    solo, both = [1e-3 * d for d in drift], [1.04e-3 * d for d in drift]
    found = paired_ratio(both, solo)
    assert found.value == pytest.approx(1.04)
    assert found.spread < 1e-9
    # Unpaired, the same trials taken one kind after the other would say 1.3 and more.
    assert median(both[10:]) / median(solo[:10]) > 1.2


def test_the_ratio_is_the_median_of_ratios() -> None:
    assert paired_ratio([1.0, 4.0, 9.0], [1.0, 2.0, 3.0]).value == 2.0


def test_couples_are_summed_before_they_are_divided() -> None:
    # A linear drift of 1 a block, taken A B B A: positions 0 1 2 3. A couple has both sides at 1.5.
    solo, both = [10.0 + 0, 10.0 + 3], [10.0 + 1, 10.0 + 2]
    assert paired_ratio(both, solo, couple=2).value == 1.0
    assert paired_ratio(both, solo).low < 1.0 < paired_ratio(both, solo).high


def test_an_incomplete_couple_is_left_out_unless_it_is_all_there_is() -> None:
    found = paired_ratio([1.0, 1.0, 50.0], [1.0, 1.0, 1.0], couple=2)
    assert (found.value, found.count) == (1.0, 1)
    assert paired_ratio([3.0], [2.0], couple=2).value == 1.5
    with pytest.raises(FieldError, match="couple = 0"):
        paired_ratio([1.0], [1.0], couple=0)


def test_sides_of_different_length_and_zero_denominators_are_refused() -> None:
    with pytest.raises(FieldError, match=r"trials = \(2, 1\): must be the same number on both sides"):
        paired_ratio([1.0, 2.0], [1.0])
    for bad in (0.0, -1.0):
        with pytest.raises(FieldError, match=r"denominator = -?\d\.0: must be > 0"):
            paired_ratio([1.0, 1.0], [1.0, bad])


@given(VALUES, st.floats(0.1, 10))
def test_scaling_a_side_scales_the_ratio(samples: list[float], factor: float) -> None:
    found = paired_ratio([factor * s for s in samples], samples, resamples=100)
    assert found.value == pytest.approx(factor)
