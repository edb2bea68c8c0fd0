"""Max-min fairness: what every division of a shared resource must satisfy."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ringi_lab.core.contention import Demand, bottleneck, fair_level, fair_rates, sm_share_bound, wave_bound
from ringi_lab.core.errors import FieldError

SLACK = 1e-9
amounts = st.floats(1e-3, 1e3)
weights = st.floats(1e-6, 1e6)
demands = st.builds(Demand, st.integers(0, 200), amounts, weights)
crowds = st.lists(demands, min_size=1, max_size=6)


def used(rates: list[float], crowd: list[Demand]) -> float:
    return sum(d.count * rate for d, rate in zip(crowd, rates, strict=True))


@given(amounts, crowds)
def test_nobody_gets_more_than_their_cap_nor_all_more_than_there_is(
    capacity: float, crowd: list[Demand]
) -> None:
    rates = fair_rates(capacity, crowd)
    assert all(0 < rate <= d.cap for rate, d in zip(rates, crowd, strict=True))
    assert used(rates, crowd) <= capacity * (1 + SLACK)


@given(amounts, crowds)
def test_nothing_is_wasted(capacity: float, crowd: list[Demand]) -> None:
    wanted = sum(d.count * d.cap for d in crowd)
    assert used(fair_rates(capacity, crowd), crowd) == pytest.approx(min(capacity, wanted), rel=1e-6)


@given(amounts, st.integers(1, 200), amounts)
def test_equal_flows_get_equal_shares(capacity: float, count: int, cap: float) -> None:
    (rate,) = fair_rates(capacity, [Demand(count, cap)])
    assert rate == pytest.approx(min(cap, capacity / count))
    # One crowd of n flows, or n crowds of one: the same.
    each = fair_rates(capacity, [Demand(1, cap)] * count)
    assert each == pytest.approx([rate] * count)


@given(amounts, crowds, st.randoms(use_true_random=False))
def test_the_order_of_the_demands_does_not_matter(capacity: float, crowd: list[Demand], draw) -> None:
    places = list(range(len(crowd)))
    draw.shuffle(places)
    rates = fair_rates(capacity, crowd)
    shuffled = fair_rates(capacity, [crowd[i] for i in places])
    assert shuffled == pytest.approx([rates[i] for i in places], rel=1e-9)


@given(amounts, crowds, demands)
def test_company_speeds_nobody_up(capacity: float, crowd: list[Demand], newcomer: Demand) -> None:
    before = fair_rates(capacity, crowd)
    after = fair_rates(capacity, [*crowd, newcomer])
    for old, new in zip(before, after[:-1], strict=True):
        assert new <= old * (1 + SLACK)


@given(amounts, amounts, crowds)
def test_more_capacity_slows_nobody_down(capacity: float, more: float, crowd: list[Demand]) -> None:
    before, after = fair_rates(capacity, crowd), fair_rates(capacity + more, crowd)
    assert all(new >= old * (1 - SLACK) for old, new in zip(before, after, strict=True))


@given(amounts, crowds)
def test_whoever_is_held_down_has_the_highest_rate_by_weight(capacity: float, crowd: list[Demand]) -> None:
    """The definition of max-min: to gain, a held-down flow would have to take from a smaller one."""
    rates = fair_rates(capacity, crowd)
    level = fair_level(capacity, crowd)
    for rate, d in zip(rates, crowd, strict=True):
        assert rate == min(d.cap, d.weight * level)
        if rate < d.cap:
            assert all(
                r / e.weight <= rate / d.weight * (1 + SLACK) for r, e in zip(rates, crowd, strict=True)
            )


@given(amounts, st.lists(st.tuples(st.integers(1, 50), amounts), min_size=1, max_size=4))
def test_weighted_by_bytes_in_flight_the_level_is_one_over_the_latency(
    capacity: float, crowd: list[tuple[int, float]]
) -> None:
    """Little's law: rate = bytes in flight / latency, with one latency for all who share the memory."""
    flows = [Demand(count, math.inf, flight) for count, flight in crowd]
    latency = 1.0 / fair_level(capacity, flows)
    assert latency == pytest.approx(sum(count * flight for count, flight in crowd) / capacity)
    rates = fair_rates(capacity, flows)
    assert rates == pytest.approx([flight / latency for _, flight in crowd])


def test_a_worked_example() -> None:
    # 10 between a flow that wants 2 and two that want all: 2, 4, 4. Then one of them counts double.
    assert fair_rates(10.0, [Demand(1, 2.0), Demand(2, 99.0)]) == [2.0, 4.0]
    crowd = [Demand(1, 2.0), Demand(1, 99.0, 1.0), Demand(1, 99.0, 3.0)]
    assert fair_rates(10.0, crowd) == [2.0, 2.0, 6.0]
    assert fair_level(10.0, [Demand(1, 2.0), Demand(2, 4.0)]) == math.inf  # all caps fit exactly
    assert fair_level(10.0, [Demand(0, 2.0)]) == math.inf
    assert fair_rates(10.0, []) == []


def test_a_light_flow_is_not_lost_behind_a_heavy_one() -> None:
    assert fair_rates(1.5, [Demand(1, 1.0, 1e17), Demand(1, 1.0, 1.0)]) == [1.0, 0.5]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_limits(bad: float) -> None:
    with pytest.raises(FieldError, match="capacity"):
        fair_rates(bad, [Demand(1, 1.0)])
    with pytest.raises(FieldError, match="cap"):
        Demand(1, bad)
    with pytest.raises(FieldError, match="weight"):
        Demand(1, 1.0, bad)
    with pytest.raises(FieldError, match="count"):
        Demand(-1, 1.0)


# --- bounds ----------------------------------------------------------------------------------------


def test_the_bottleneck_is_the_slowest_resource() -> None:
    demand = {"flops": 2e12, "hbm": 1e9}
    assert bottleneck(demand, {"flops": 1e15, "hbm": 1e12, "link": 5e10}) == ("flops", 2e-3)
    assert bottleneck(demand, {"flops": 1e16, "hbm": 1e12}) == ("hbm", 1e-3)


def test_the_bottleneck_needs_demands_and_their_capacities() -> None:
    with pytest.raises(FieldError, match=r"capacities = \['hbm'\]: must be given for every demand"):
        bottleneck({"flops": 1.0, "hbm": 1.0}, {"flops": 1.0})
    with pytest.raises(FieldError, match="demands"):
        bottleneck({}, {"flops": 1.0})
    with pytest.raises(FieldError, match=r"capacity of 'hbm' = 0\.0"):
        bottleneck({"hbm": 1.0}, {"hbm": 0.0})


@given(st.integers(1, 300), st.integers(0, 299))
def test_taking_sms_slows_down_by_their_share_at_least(sms: int, taken: int) -> None:
    assume(taken < sms)
    bound = sm_share_bound(sms, taken)
    assert bound >= 1.0
    assert bound * (sms - taken) == pytest.approx(sms)
    if taken:
        assert bound > sm_share_bound(sms, taken - 1)


def test_whole_waves_cost_whole_waves() -> None:
    assert wave_bound(264, 132, 16) == 1.5  # 2 waves become 3
    assert wave_bound(132, 132, 1) == 2.0
    assert wave_bound(100, 132, 16) == 1.0  # there was room
    assert wave_bound(132_000, 132, 16) == pytest.approx(sm_share_bound(132, 16), rel=1e-3)


@pytest.mark.parametrize("taken", [-1, 132, 200])
def test_somebody_must_be_left(taken: int) -> None:
    with pytest.raises(FieldError, match=rf"taken = {taken}: must be 0 to 131"):
        sm_share_bound(132, taken)
    with pytest.raises(FieldError, match="taken"):
        wave_bound(10, 132, taken)
    with pytest.raises(FieldError, match="tiles = 0"):
        wave_bound(0, 132, 1)
