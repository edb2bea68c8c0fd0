"""The discrete-event engine: transfers share a link, units of a pool go round, nothing is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ringi_lab.core.engine import Fluid, Pool, SharedBandwidth
from ringi_lab.core.errors import FieldError, MeasurementRefused

LINK = 100.0  # bytes/s
sizes = st.floats(1.0, 1e4)
caps = st.floats(1.0, 300.0)
transfers = st.lists(st.tuples(st.floats(0.0, 20.0), sizes, caps), min_size=1, max_size=8)
quick = settings(max_examples=60)


def ends(jobs: list[tuple[float, float, float]], capacity: float = LINK, start: float = 0.0) -> list[float]:
    """When each transfer (start, size, cap) ends, all on one link."""
    env = simpy.Environment(start)
    link = SharedBandwidth(env, capacity)
    done = [math.nan] * len(jobs)

    def one(i: int, at: float, size: float, cap: float):
        yield env.timeout(at)
        yield link.transfer(size, cap)
        done[i] = env.now

    for i, job in enumerate(jobs):
        env.process(one(i, *job))
    env.run()
    return done


# --- a shared link ------------------------------------------------------------------------------------


def test_a_transfer_alone_takes_size_over_rate() -> None:
    assert ends([(0.0, 1000.0, LINK)]) == [10.0]
    assert ends([(0.0, 1000.0, 40.0)]) == [25.0]
    assert ends([(2.0, 1000.0, 1e9)]) == [12.0]


def test_two_share_and_the_longer_one_speeds_up_when_it_is_alone() -> None:
    # Half each until 20 s (1000 bytes each), then the other 1000 bytes at full rate.
    assert ends([(0.0, 1000.0, LINK), (0.0, 2000.0, LINK)]) == [20.0, 30.0]
    # One that wants only a quarter leaves the rest.
    assert ends([(0.0, 1000.0, 25.0), (0.0, 3000.0, LINK)]) == [40.0, 40.0]


@quick
@given(sizes, sizes)
def test_two_transfers_overlap_between_the_longer_and_the_sum(a: float, b: float) -> None:
    alone = ends([(0.0, a, LINK)])[0], ends([(0.0, b, LINK)])[0]
    together = max(ends([(0.0, a, LINK), (0.0, b, LINK)]))
    assert max(alone) * (1 - 1e-9) <= together
    # The link is the only resource and never idle, so nothing is gained at all: it is the sum.
    assert together == pytest.approx(sum(alone))


@quick
@given(sizes, caps, sizes, caps)
def test_with_caps_too(a: float, cap_a: float, b: float, cap_b: float) -> None:
    alone = ends([(0.0, a, cap_a)])[0], ends([(0.0, b, cap_b)])[0]
    both = ends([(0.0, a, cap_a), (0.0, b, cap_b)])
    assert max(alone) * (1 - 1e-9) <= max(both) <= sum(alone) * (1 + 1e-9)
    for solo, shared in zip(alone, both, strict=True):
        assert shared >= solo * (1 - 1e-9)  # company speeds nobody up
    if cap_a + cap_b <= LINK:
        assert both == pytest.approx(list(alone))  # and costs nothing where the link is wide enough


@quick
@given(transfers)
def test_bytes_are_neither_lost_nor_made(jobs: list[tuple[float, float, float]]) -> None:
    """What the link carried up to each end is at most its capacity, and all bytes arrive."""
    done = ends(jobs)
    assert all(math.isfinite(t) for t in done)
    first = min(at for at, _, _ in jobs)
    for end in done:
        arrived = sum(size for (_, size, _), t in zip(jobs, done, strict=True) if t <= end)
        assert arrived <= LINK * (end - first) * (1 + 1e-9)
    for (at, size, cap), end in zip(jobs, done, strict=True):
        assert end - at >= size / min(cap, LINK) * (1 - 1e-9)
    # Never slower than one after the other at each one's own rate.
    last = max(at for at, _, _ in jobs)
    assert max(done) <= last + sum(size / min(cap, LINK) for _, size, cap in jobs) * (1 + 1e-9)


@quick
@given(transfers, st.randoms(use_true_random=False))
def test_the_order_of_asking_does_not_matter(jobs: list[tuple[float, float, float]], draw) -> None:
    places = list(range(len(jobs)))
    draw.shuffle(places)
    shuffled = ends([jobs[i] for i in places])
    done = ends(jobs)
    assert shuffled == pytest.approx([done[i] for i in places], rel=1e-9)


def test_equal_transfers_end_together_however_many() -> None:
    done = ends([(0.0, 7.0, LINK)] * 333)
    assert set(done) == {done[0]}
    assert done[0] == pytest.approx(333 * 7.0 / LINK)


@pytest.mark.parametrize("start", [0.0, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("size", [1e-3, 1.0, 16.0])
def test_a_wait_too_short_for_the_clock_still_ends(start: float, size: float) -> None:
    env = simpy.Environment(start)
    done = SharedBandwidth(env, 4.8e12).transfer(size)
    for _ in range(50):  # it used to ring for ever
        if done.processed:
            break
        env.step()
    assert done.processed
    assert env.now - start <= size / 4.8e12 + 2 * math.ulp(start)


def test_nothing_takes_no_time() -> None:
    assert ends([(1.0, 0.0, LINK), (0.0, 200.0, LINK)]) == [1.0, 2.0]


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_amounts_and_rates_have_limits(bad: float) -> None:
    env = simpy.Environment()
    with pytest.raises(FieldError, match="capacity"):
        SharedBandwidth(env, bad)
    link = SharedBandwidth(env, LINK)
    with pytest.raises(FieldError, match="amount"):
        link.transfer(bad)
    with pytest.raises(FieldError, match="cap = "):
        link.transfer(1.0, cap=bad)
    with pytest.raises(FieldError, match="cap = 0"):
        link.transfer(1.0, cap=0)


# --- a fluid whose speeds depend on the company -----------------------------------------------------------


def test_groups_go_at_their_own_speeds_and_are_asked_once_an_instant() -> None:
    env = simpy.Environment()
    asked: list[dict[str, int]] = []

    def speeds(counts: Mapping[str, int]) -> Mapping[str, float]:
        asked.append(dict(counts))
        return {"a": 1.0, "b": 1.0 if "a" in counts else 3.0}

    fluid = Fluid(env, speeds)
    a, b = fluid.flow("a", 2.0), fluid.flow("b", 5.0)
    env.run(a)
    assert env.now == 2.0
    env.run(b)
    assert env.now == 3.0  # 2 of 5 at speed 1, the other 3 at speed 3
    assert asked == [{"a": 1, "b": 1}, {"b": 1}]


def test_a_nudge_makes_a_change_outside_count() -> None:
    env = simpy.Environment()
    speed = [1.0]
    fluid = Fluid(env, lambda counts: dict.fromkeys(counts, speed[0]))
    done = fluid.flow("a", 10.0)

    def faster():
        yield env.timeout(4.0)
        speed[0] = 2.0
        fluid.nudge()

    env.process(faster())
    env.run(done)
    assert env.now == 7.0


def test_a_flow_that_would_never_end_is_an_error_that_keeps_its_text() -> None:
    env = simpy.Environment()
    Fluid(env, lambda counts: {"tile": 0.0}).flow("tile", 1.0)
    with pytest.raises(FieldError) as caught:
        env.run()
    assert str(caught.value) == "speed of 'tile' = 0.0: must be > 0"
    assert (caught.value.field, caught.value.value, caught.value.limit) == ("speed of 'tile'", 0.0, "> 0")


@pytest.mark.parametrize("error", [FieldError("sms", 200, "<= 132"), MeasurementRefused("no overlap")])
def test_errors_keep_their_text_through_simpy(error: Exception) -> None:
    env = simpy.Environment()

    def inner():
        yield env.timeout(1.0)
        raise error

    def outer():
        yield env.process(inner())

    env.process(outer())
    with pytest.raises(type(error)) as caught:
        env.run()
    assert str(caught.value) == str(error)


# --- a pool of units ----------------------------------------------------------------------------------------


def ask(pool: Pool, order: list[str], name: str, units: int, priority: int = 0, **options) -> simpy.Event:
    event = pool.request(units, priority, **options)
    event.callbacks.append(lambda _: order.append(name))
    return event


def test_units_are_handed_out_and_come_back() -> None:
    env = simpy.Environment()
    pool, order = Pool(env, 4), []
    ask(pool, order, "a", 3)
    late = ask(pool, order, "b", 2)
    env.run()
    assert (order, pool.free) == (["a"], 1)
    assert not late.triggered
    pool.release(3)
    env.run()
    assert (order, pool.free) == (["a", "b"], 2)


def test_a_request_that_does_not_fit_holds_back_those_behind_it() -> None:
    env = simpy.Environment()
    pool, order = Pool(env, 4), []
    for name, units, priority in (("a", 3, 0), ("big", 4, 0), ("small", 1, 0), ("later", 1, 1)):
        ask(pool, order, name, units, priority)
    env.run()
    assert order == ["a"]  # one unit is free, and "small" and "later" wait all the same
    pool.release(3)
    env.run()
    assert order == ["a", "big"]
    pool.release(4)
    env.run()
    assert order == ["a", "big", "small", "later"]


def test_a_lower_number_is_served_first() -> None:
    env = simpy.Environment()
    pool, order = Pool(env, 2), []
    ask(pool, order, "holder", 2, 1)
    for name, priority in (("gemm 0", 1), ("gemm 1", 1), ("copy", 0)):
        ask(pool, order, name, 1, priority)
    env.run()
    pool.release(1)
    env.run()
    assert order == ["holder", "copy"]
    pool.release(1)
    pool.release(1)
    env.run()
    assert order == ["holder", "copy", "gemm 0", "gemm 1"]


def test_units_kept_for_a_priority_serve_only_those_before_it() -> None:
    env = simpy.Environment()
    pool, order = Pool(env, 4), []
    ask(pool, order, "holder", 4)
    ask(pool, order, "gemm", 2, 1)
    pool.release(2, before=1)
    env.run()
    assert (order, pool.free, pool.kept) == (["holder"], 0, 2)
    ask(pool, order, "copy", 1, 0)
    env.run()
    assert (order, pool.kept) == (["holder", "copy"], 1)
    pool.release(1)  # the copy's own unit comes back for all, one of them is still kept
    env.run()
    assert order == ["holder", "copy"]
    pool.reopen()
    env.run()
    assert (order, pool.free, pool.kept) == (["holder", "copy", "gemm"], 0, 0)


def test_spare_units_must_be_free_but_are_not_taken() -> None:
    env = simpy.Environment()
    pool, order = Pool(env, 4), []
    spare = [1]
    ask(pool, order, "holder", 2)
    ask(pool, order, "pair", 2, spare=lambda: spare[0])
    env.run()
    assert order == ["holder"]
    pool.release(1)
    env.run()
    assert (order, pool.free) == (["holder", "pair"], 1)


@quick
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=12))
def test_units_are_conserved_and_everyone_is_served(size: int, wishes: list[tuple[int, int]]) -> None:
    env = simpy.Environment()
    pool = Pool(env, size)
    out, most, finished = [0], [0], []

    def one(i: int, units: int, priority: int):
        yield pool.request(units, priority)
        out[0] += units
        most[0] = max(most[0], out[0])
        yield env.timeout(1.0 + i / 7)
        out[0] -= units
        pool.release(units)
        finished.append(i)

    for i, (units, priority) in enumerate(wishes):
        env.process(one(i, min(units, size), priority))
    env.run()
    assert sorted(finished) == list(range(len(wishes)))
    assert most[0] <= size
    assert (pool.free, pool.kept) == (size, 0)


def test_what_a_pool_does_not_have_is_refused() -> None:
    env = simpy.Environment()
    with pytest.raises(FieldError, match="size = 0"):
        Pool(env, 0)
    pool = Pool(env, 4)
    for units in (0, 5):
        with pytest.raises(FieldError, match=rf"units = {units}: must be 1 to 4"):
            pool.request(units)
    pool.request(2)
    for units in (0, 3):
        with pytest.raises(FieldError, match=rf"units = {units}: must be 1 to 2, which are out"):
            pool.release(units)
