"""What the timing code decides on the host, without a GPU: orders, limits of a block, marks."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringi_lab.core.cuda import timing
from ringi_lab.core.cuda.timing import MAX_STREAMS, QUEUE_LIMIT, Gate, Work, abba
from ringi_lab.core.errors import FieldError


def test_blocks_go_forwards_then_backwards() -> None:
    assert list(abba("AB", 2)) == ["A", "B", "B", "A"]
    assert list(abba(("gemm", "copy", "both"), 3)) == [
        *("gemm", "copy", "both"),
        *("both", "copy", "gemm"),
        *("gemm", "copy", "both"),
    ]
    assert list(abba("AB", 0)) == []


@given(st.integers(1, 20), st.integers(1, 5))
def test_every_kind_has_as_many_blocks_as_rounds(rounds: int, kinds: int) -> None:
    order = list(abba([str(i) for i in range(kinds)], rounds))
    assert len(order) == rounds * kinds
    assert {order.count(str(i)) for i in range(kinds)} == {rounds}


@given(st.integers(1, 10), st.floats(-5, 5))
def test_linear_drift_meets_all_kinds_alike(pairs: int, slope: float) -> None:
    """Over an even number of rounds every kind has the same mean place in time."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(abba("ABC", 2 * pairs)):
        places.setdefault(name, []).append(place)
    means = [slope * sum(p) / len(p) for p in places.values()]
    assert means == pytest.approx([means[0]] * 3)


def test_a_round_ends_with_the_kind_that_the_next_one_begins_with() -> None:
    order = list(abba("ABC", 6))
    rounds = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert all(a[-1] == b[0] for a, b in pairwise(rounds))


# --- the limits of a block -----------------------------------------------------------------------------


class NeverTouched:
    """Fails the test when a gate begins to queue anything."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the block was begun ({name})")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A gate on no device: only what is checked before anything is queued can run."""
    monkeypatch.setitem(sys.modules, "torch", NeverTouched())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=NeverTouched()))
    made = object.__new__(Gate)
    made.__dict__.update(dict.fromkeys(("_words", "_control", "_opened", "_kernels"), NeverTouched()))
    return made


def work(name: str = "copy") -> Work:
    return Work(name, NeverTouched(), lambda: pytest.fail("something was enqueued"))


@pytest.mark.parametrize("works", [0, MAX_STREAMS + 1])
def test_a_block_has_one_to_eight_streams(gate: Gate, works: int) -> None:
    with pytest.raises(FieldError, match=rf"works = {works}: must be 1 to {MAX_STREAMS} streams"):
        gate.block([(work(), 1, 1)] * works)


@pytest.mark.parametrize(
    ("count", "group", "queued"),
    [(450, 1, 902), (899, 899, 902), (10**9, 10**9, 10**9 + 3), (600, 2, 902)],
)
def test_a_block_must_fit_the_launch_queue(gate: Gate, count: int, group: int, queued: int) -> None:
    with pytest.raises(FieldError) as caught:
        gate.block([(work("copy"), count, group)])
    assert str(caught.value) == (f"operations of 'copy' in one block = {queued}: must be <= {QUEUE_LIMIT}")


@pytest.mark.parametrize(("count", "group"), [(449, 1), (898 - 1, 897), (598, 2)])
def test_a_block_that_just_fits_is_begun(gate: Gate, count: int, group: int) -> None:
    with pytest.raises(AssertionError, match=r"the block was begun"):
        gate.block([(work(), count, group)])


@pytest.mark.parametrize(("count", "group"), [(0, 1), (1, 0), (-3, 1), (3, -1)])
def test_a_block_of_nothing_is_refused(gate: Gate, count: int, group: int) -> None:
    with pytest.raises(FieldError, match=r"operations of 'copy' = .*: must be >= 1, in groups of >= 1"):
        gate.block([(work(), count, group)])


def test_every_work_is_checked_before_any_is_queued(gate: Gate) -> None:
    with pytest.raises(FieldError, match="'second'"):
        gate.block([(work("first"), 3, 1), (work("second"), 3000, 1)])


# --- marks: see test_plausibility for what they refuse -----------------------------------------------------


def test_streams_are_named_by_their_handles() -> None:
    assert timing._stream(SimpleNamespace(cuda_stream=0)) == "the NULL stream"
    assert timing._stream(SimpleNamespace(cuda_stream=255)) == "stream 0xff"


def test_the_timing_code_imports_without_torch() -> None:
    code = "import sys, ringi_lab.core.cuda.timing, ringi_lab.overlap.measure; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
