"""What is recorded, and what of it is kept out of every fit. Fixed before the first recording.

The rule: a GEMM size or an SM count in the lists below is held out *whole*. No point with a held-out
size or count is ever used for fitting, so a prediction for it cannot lean on a grid neighbour that
differs in the copy's size alone.
"""

from __future__ import annotations

from ringi_lab.overlap import MiB, Overlap, SmFree

# The settings that the chapter talks about; their time lines are recorded too.
TRACED = (
    Overlap(8192, "h2d", 256 * MiB),
    Overlap(8192, "d2h", 256 * MiB),
    Overlap(8192, "d2d", 256 * MiB),
    Overlap(8192, "sm", 256 * MiB, 16),
    Overlap(8192, "sm", 256 * MiB, 16, sm_margin=16),
    Overlap(8192, "sm", 256 * MiB, 32, sm_margin=32),
)

# The settings whose k must come out the same in every fresh process. GEMMs of 8192 are not among them: the
# power limit moves their clock, and with it their k, by more than is promised here.
HEADLINES = (
    Overlap(4096, "h2d", 64 * MiB),
    Overlap(4096, "d2h", 64 * MiB),
    Overlap(4096, "d2d", 64 * MiB),
    Overlap(3072, "sm", 256 * MiB, 16),
    Overlap(4096, "sm", 256 * MiB, 8, sm_margin=8),
    Overlap(4096, "sm", 256 * MiB, 16, sm_margin=16),
)

HELD_OUT_GEMM = (4096, 12288)
HELD_OUT_SMS = (16, 48)

GEMM = (2048, 3072, 4096, 6144, 8192, 12288, 16384)
SMS = (4, 8, 16, 24, 32, 48, 64, 96, 132)
MARGINS = (8, 16, 24, 32, 48, 64)
LINK_SIZES = (1, 16, 64, 256, 512)  # MiB
SM_SIZES = (1, 16, 64)  # MiB, beside the 256 of the sweeps over SMs

# A copy so long beside its GEMM that the launch queue cannot hold a block of both is not recorded.
LONGEST_COPY = {2048: 64, 3072: 256}

# GEMMs and copies in one step of the quota exercise, by GEMM size.
STEP_WORK = {4096: (48, 24), 8192: (8, 24)}

# The largest GEMM takes 12 ms: a thinner grid, or it would take half of the recording's time.
THIN_GEMM = 16384


def step(gemm_n: int, margin: int) -> Overlap:
    """One step of fixed work with ``margin`` SMs given to the copy: what the quota exercise minimises."""
    gemms, copies = STEP_WORK[gemm_n]
    return Overlap(gemm_n, "sm", 256 * MiB, margin, sm_margin=margin, gemm_count=gemms, copy_count=copies)


def held_out(experiment: Overlap) -> bool:
    """True when this point may only be used to judge the model, never to fit it."""
    return experiment.gemm_n in HELD_OUT_GEMM or experiment.copy_sms in HELD_OUT_SMS


def grid() -> list[Overlap]:
    """Every overlap experiment of the recording, the settings that the chapter talks about first."""
    points = list(TRACED)
    for n in GEMM:
        thin = n == THIN_GEMM
        longest = LONGEST_COPY.get(n, 512)
        for size in (64, 256) if thin else LINK_SIZES:
            if size <= longest:
                points += [Overlap(n, copy, size * MiB) for copy in ("h2d", "d2h")]
        points += [Overlap(n, "d2d", size * MiB) for size in ((64, 256) if thin else (1, 16, 64, 256))]
        points += [Overlap(n, "sm", 256 * MiB, sms) for sms in ((8, 32, 64, 132) if thin else SMS)]
        points += [
            Overlap(n, "sm", size * MiB, sms) for size in (() if thin else SM_SIZES) for sms in (16, 32)
        ]
        points += [
            Overlap(n, "sm", 256 * MiB, sms, sm_margin=sms) for sms in ((8, 16, 32) if thin else MARGINS)
        ]
    points.append(Overlap(8192, "h2d", 16 * MiB, sm_margin=16))
    points += [step(n, margin) for n in (4096, 8192) for margin in MARGINS]
    points.append(Overlap(8192, "h2d", 256 * MiB, order="sequential"))
    return list(dict.fromkeys(points))


def litmus() -> list[SmFree]:
    """The SM-free litmus: each kind of copy that one GPU can do, with our own kernel as the control."""
    return [SmFree(copy) for copy in ("h2d", "d2h", "d2d", "sm")]


RECORDED = {"overlap": grid, "sm_free": litmus}


def sm_sweep(gemm_n: int) -> list[Overlap]:
    """The recorded points over the SMs of a copy beside one GEMM size: shared SMs first, then set apart."""
    shared = [Overlap(gemm_n, "sm", 256 * MiB, sms) for sms in SMS]
    return shared + [Overlap(gemm_n, "sm", 256 * MiB, sms, sm_margin=sms) for sms in MARGINS]


def size_sweep(gemm_n: int, copy: str) -> list[Overlap]:
    """The recorded points over the size of one kind of copy beside one GEMM size."""
    found = [
        p for p in grid() if (p.gemm_n, p.copy, p.sm_margin, p.order) == (gemm_n, copy, 0, "interleaved")
    ]
    return sorted((p for p in found if p.copy_sms in (None, 32)), key=lambda p: p.copy_bytes)
