"""Overlap and k: what a matrix product and a copy cost each other when they run at the same time.

Experiments: :class:`Overlap` (k_comm, k_comp and the overlap fraction of one pair) and :class:`SmFree`
(does this copy need an SM at all?). ``summary`` turns a result of either source into the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ringi_lab.core.errors import FieldError, MeasurementRefused
from ringi_lab.core.experiment import Experiment
from ringi_lab.core.result import Result
from ringi_lab.overlap.analysis import Summary, summary

__all__ = ["COPIES", "MiB", "Overlap", "SmFree", "Summary", "summary"]

MiB = 1 << 20

# What can run beside the GEMM. Copy engine: h2d, d2h, p2p. SMs: sm (our kernel) and d2d (the driver's).
COPIES = ("h2d", "d2h", "p2p", "sm", "d2d")
ORDERS = ("interleaved", "sequential")

BLOCK_S = 8e-3  # shortest block: long beside the gate's skew of a few microseconds
BLOCK_OPS = 5  # of the slower operation, at least
ARRIVES_S = 2e-3  # the litmus' copy is queued so long after the SMs are taken
SLOWEST_COPY = 20e9  # bytes/s that any copy of the litmus reaches alone: less than half of PCIe 5 x16
LEAST_COUNT, MOST_COUNT = 3, 400  # operations of one side: each also needs a fencepost in the launch queue


@dataclass(frozen=True)
class Overlap(Experiment):
    """A square bf16 GEMM on one stream, copies on another, both going on without a pause.

    ``gemm_n``: M = N = K, a multiple of 8 from 256 to 32768. ``copy``: one of :data:`COPIES`.
    ``copy_bytes``: bytes of one copy, a multiple of 16 up to 4 GiB. ``copy_sms``: SMs that an ``sm`` copy
    occupies (None for the other kinds). ``sm_margin``: SMs taken from the GEMM by a green context, 0 for
    none; an ``sm`` copy then runs on exactly these. ``order``: ``interleaved`` (the protocol) or
    ``sequential`` (all solo trials first: the mistake that lets clock drift pass for contention).
    ``pinned``: page-locked host memory; pageable copies are refused, since they are not asynchronous.
    ``gemm_count`` and ``copy_count``: operations in one block; None for as many as make both sides last
    about equally long alone. ``trials``: blocks of each kind, at least 3.
    """

    name: ClassVar[str] = "overlap"
    effort: ClassVar[tuple[str, ...]] = ("trials",)

    gemm_n: int = 8192
    copy: str = "h2d"
    copy_bytes: int = 256 * MiB
    copy_sms: int | None = None
    sm_margin: int = 0
    order: str = "interleaved"
    pinned: bool = True
    gemm_count: int | None = None
    copy_count: int | None = None
    trials: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gemm_n % 8 or not 256 <= self.gemm_n <= 32768:
            raise FieldError("gemm_n", self.gemm_n, "a multiple of 8 from 256 to 32768")
        if self.copy not in COPIES:
            raise FieldError("copy", self.copy, f"one of {', '.join(COPIES)}")
        if self.copy_bytes % 16 or not 16 <= self.copy_bytes <= 4096 * MiB:
            raise FieldError("copy_bytes", self.copy_bytes, "a multiple of 16 from 16 to 4 GiB")
        if self.copy == "sm" and (self.copy_sms is None or not 1 <= self.copy_sms <= 1024):
            raise FieldError("copy_sms", self.copy_sms, "1 to the number of SMs for an 'sm' copy")
        if self.copy != "sm" and self.copy_sms is not None:
            raise FieldError("copy_sms", self.copy_sms, f"None: a {self.copy!r} copy does not choose its SMs")
        if self.sm_margin < 0:
            raise FieldError("sm_margin", self.sm_margin, ">= 0 SMs")
        if self.copy == "sm" and self.sm_margin not in (0, self.copy_sms):
            raise FieldError("sm_margin", self.sm_margin, f"0 or copy_sms = {self.copy_sms}")
        if self.order not in ORDERS:
            raise FieldError("order", self.order, f"one of {', '.join(ORDERS)}")
        for field in ("gemm_count", "copy_count"):
            count = getattr(self, field)
            if count is not None and not LEAST_COUNT <= count <= MOST_COUNT:
                raise FieldError(field, count, f"None, or {LEAST_COUNT} to {MOST_COUNT}")
        if self.trials < 3:
            raise FieldError("trials", self.trials, ">= 3")

    def counts(self, gemm_s: float, copy_s: float) -> tuple[int, int]:
        """Operations of each side in one block, from their solo times (s).

        Both sides last :data:`BLOCK_S`, or :data:`BLOCK_OPS` of the slower operation, as far as
        :data:`MOST_COUNT` allows. Raises :class:`MeasurementRefused` when the two are so unequal that the
        faster side would end before the slower one had :data:`LEAST_COUNT` operations.
        """
        length = max(BLOCK_S, BLOCK_OPS * gemm_s, BLOCK_OPS * copy_s)
        fast, slow = min(gemm_s, copy_s), max(gemm_s, copy_s)
        if self.copy in ("h2d", "d2h", "p2p") and MOST_COUNT * fast < LEAST_COUNT * slow:
            raise MeasurementRefused(
                f"one copy of {self.copy_bytes} bytes and one GEMM of {self.gemm_n} are too unequal "
                f"({copy_s * 1e3:.3f} and {gemm_s * 1e3:.3f} ms) for a block of at most {MOST_COUNT} operations"
            )
        fit = [min(MOST_COUNT, max(LEAST_COUNT, round(length / t))) for t in (gemm_s, copy_s)]
        return self.gemm_count or fit[0], self.copy_count or fit[1]

    def simulate(self, gpu: str) -> Result:
        from ringi_lab.overlap import simulator

        return simulator.overlap(self, gpu)

    def measure(self) -> Result:
        from ringi_lab.overlap import measure

        return measure.overlap(self)


@dataclass(frozen=True)
class SmFree(Experiment):
    """The litmus: hold every SM with a spinning kernel and see whether a copy finishes all the same.

    ``copy`` and ``copy_bytes`` as in :class:`Overlap` (an ``sm`` copy on one SM is the control that must
    wait); ``hold_s``: how long the SMs are held (s), 0.01 to 1.
    """

    name: ClassVar[str] = "sm_free"
    effort: ClassVar[tuple[str, ...]] = ("trials",)

    copy: str = "h2d"
    copy_bytes: int = 64 * MiB
    hold_s: float = 0.03
    trials: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copy not in COPIES:
            raise FieldError("copy", self.copy, f"one of {', '.join(COPIES)}")
        if self.copy_bytes % 16 or not 16 <= self.copy_bytes <= 4096 * MiB:
            raise FieldError("copy_bytes", self.copy_bytes, "a multiple of 16 from 16 to 4 GiB")
        if not 0.01 <= self.hold_s <= 1.0:
            raise FieldError("hold_s", self.hold_s, "0.01 to 1 s")
        least = 2 * (ARRIVES_S + self.copy_bytes / SLOWEST_COPY)
        if self.hold_s < least:
            raise FieldError(
                "hold_s", self.hold_s, f">= {least:.3g} s: the copy alone must end well within it"
            )
        if self.trials < 3:
            raise FieldError("trials", self.trials, ">= 3")

    def simulate(self, gpu: str) -> Result:
        from ringi_lab.overlap import simulator

        return simulator.sm_free(self, gpu)

    def measure(self) -> Result:
        from ringi_lab.overlap import measure

        return measure.sm_free(self)
