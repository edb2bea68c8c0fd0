"""What each GPU is: constants in SI units, every one with the bib key of its source.

A :class:`GpuSpec` holds plain numbers (``spec.hbm_bandwidth`` is a float in bytes/s), and
``spec.source("hbm_bandwidth")`` says where one comes from: a key of ``references.bib``. A constant
without a source cannot be made. A value that no source gives is None, never 0; a formula that needs it
asks :meth:`GpuSpec.require` or :meth:`GpuSpec.peak_flops` and gets an error that names it.

Links are one direction, FLOP rates are dense, and a data sheet's other way of counting (both directions
together, 2:4 sparsity) is reached only by a name that says so. What a kernel or a copy *achieves* is not
here: that is measured, and lives in the recordings.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ringi_lab.core.errors import FieldError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Signalling rate of one lane (transfers/s, one bit each) by PCIe generation. The three share the
# 128b/130b code, so 128 of 130 bits are data (bib key ``pcie_base_5``).
PCIE_TRANSFERS_PER_LANE = {3: 8e9, 4: 16e9, 5: 32e9}
PCIE_LANES = (1, 2, 4, 8, 16)

# Fields that the dense peaks of the arithmetic types stand in; fp16 and bf16 run at one rate.
PEAK_FIELDS = {
    "fp16": "bf16_flops",
    "bf16": "bf16_flops",
    "tf32": "tf32_flops",
    "fp8": "fp8_flops",
    "fp32": "fp32_flops",
}

BIB_KEY = re.compile(r"[a-z][a-z0-9_]*")


def pcie_bandwidth(generation: int, lanes: int) -> float:
    """Raw bandwidth of a PCIe link in one direction, bytes/s: rate × lanes × 128/130 / 8.

    ``generation`` is 3, 4 or 5; ``lanes`` is 1, 2, 4, 8 or 16. Packet headers and flow control come on
    top, so a copy gets less: how much less is measured. Raises :class:`FieldError` for another
    generation or width. Source: bib key ``pcie_base_5``.
    """
    if generation not in PCIE_TRANSFERS_PER_LANE:
        known = ", ".join(map(str, PCIE_TRANSFERS_PER_LANE))
        raise FieldError("generation", generation, f"one of {known}")
    if lanes not in PCIE_LANES:
        raise FieldError("lanes", lanes, f"one of {', '.join(map(str, PCIE_LANES))}")
    return PCIE_TRANSFERS_PER_LANE[generation] * lanes * 128 / 130 / 8


def _constant(unit: str, meaning: str) -> Any:
    """A field of :class:`GpuSpec` with its unit and what it means, for tables."""
    return field(metadata={"unit": unit, "meaning": meaning})


class SheetRow(NamedTuple):
    """One number of one GPU, as a table needs it: ``value`` in ``unit``, from bib key ``source``.

    ``value`` and ``source`` are None where no source gives the number.
    """

    gpu: str
    field: str
    meaning: str
    value: Any
    unit: str
    source: str | None


@dataclass(frozen=True)
class GpuSpec:
    """Sourced constants of one GPU, in bytes, bytes/s, FLOP/s, Hz, W and counts.

    ``aliases`` are other names for it, among them what the driver prints. ``citations`` pairs every
    field that is not None with a bib key. Raises :class:`FieldError` for a value without a source, a
    source without a value, a key that is not lower_snake, and a number that is not finite and positive.
    """

    name: str
    aliases: tuple[str, ...]
    compute_capability: tuple[int, int] = _constant("", "compute capability (major, minor)")
    sms: int = _constant("count", "streaming multiprocessors")
    sm_subpartitions: int = _constant("count", "sub-partitions (warp schedulers) per SM")
    warp_size: int = _constant("threads", "threads per warp")
    max_warps_per_sm: int = _constant("count", "resident warps per SM, at most")
    max_threads_per_sm: int = _constant("threads", "resident threads per SM, at most")
    max_ctas_per_sm: int = _constant("count", "resident CTAs per SM, at most")
    registers_per_sm: int = _constant("count", "32-bit registers per SM")
    register_allocation_granularity: int = _constant("count", "registers are given to a warp in steps of")
    shared_memory_per_sm: int = _constant("bytes", "shared memory per SM, at most")
    shared_memory_per_cta_max: int = _constant("bytes", "shared memory per CTA, at most (opt-in)")
    shared_memory_reserved_per_cta: int = _constant("bytes", "shared memory the system keeps per CTA")
    l2_bytes: int = _constant("bytes", "L2 cache")
    hbm_bytes: int = _constant("bytes", "device memory installed")
    hbm_bandwidth: float = _constant("bytes/s", "device memory bandwidth, reads and writes together")
    boost_clock: float = _constant("Hz", "highest SM clock")
    tensor_clock: float | None = _constant("Hz", "SM clock that the tensor peaks are quoted at")
    tdp: float = _constant("W", "thermal design power, highest setting")
    bf16_flop_per_sm_clock: int = _constant("FLOP", "dense fp16/bf16 tensor FLOP per SM and clock")
    fp32_flop_per_sm_clock: int = _constant("FLOP", "fp32 vector FLOP per SM and clock")
    bf16_flops: float = _constant("FLOP/s", "dense fp16/bf16 tensor peak")
    tf32_flops: float = _constant("FLOP/s", "dense tf32 tensor peak")
    fp8_flops: float | None = _constant("FLOP/s", "dense fp8 tensor peak")
    fp32_flops: float = _constant("FLOP/s", "fp32 vector peak")
    nvlink_bandwidth: float | None = _constant("bytes/s", "NVLink, one direction, all links together")
    pcie_generation: int = _constant("", "PCIe generation")
    pcie_lanes: int = _constant("count", "PCIe lanes")
    async_engine_count: int | None = _constant("count", "asyncEngineCount: an API count of copy engines")
    has_tma: bool = _constant("", "has the tensor memory accelerator")
    has_mbarrier_tx: bool = _constant("", "mbarriers count transaction bytes")
    green_context_min_sms: int = _constant("count", "SMs of a green context, at least")
    green_context_sm_step: int = _constant("count", "SMs of a green context are a multiple of")
    citations: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse a constant without a source, and one that cannot be a physical quantity."""
        if not self.aliases:
            raise FieldError(
                f"{self.name}: aliases", self.aliases, "at least one name that the driver prints"
            )
        sources = dict(self.citations)
        if len(sources) != len(self.citations):
            raise FieldError(f"{self.name}: citations", self.citations, "one source per field")
        if stray := sorted(sources.keys() - {constant.name for constant in constants()}):
            raise FieldError(f"{self.name}: citations", stray, "the names of constants")
        for name in (constant.name for constant in constants()):
            value, key = getattr(self, name), sources.get(name)
            if value is None:
                if key is not None:
                    raise FieldError(f"{self.name}: source of {name}", key, "absent: the value is None")
                continue
            if key is None or not BIB_KEY.fullmatch(key):
                raise FieldError(f"{self.name}: source of {name}", key, "a bib key in lower_snake")
            for number in value if isinstance(value, tuple) else (value,):
                # A compute capability's minor number may be 0; False is an answer, not a missing number.
                low = 0 if isinstance(value, (tuple, bool)) else math.ulp(0.0)
                if not (math.isfinite(number) and number >= low):
                    raise FieldError(f"{self.name}: {name}", value, "finite and above 0 (None if unknown)")

    def source(self, name: str) -> str | None:
        """Bib key of the source of the field ``name``; None where the field's value is unknown.

        Raises :class:`FieldError` where there is no such field.
        """
        _known_field(name)
        return dict(self.citations).get(name)

    def require(self, name: str) -> Any:
        """Value of the field ``name``, for a formula that cannot do without it.

        Raises :class:`FieldError` where no source gives the value, or there is no such field.
        """
        _known_field(name)
        if (value := getattr(self, name)) is None:
            raise FieldError(f"{self.name}: {name}", None, "known here: no source gives it for this GPU")
        return value

    def peak_flops(self, dtype: str) -> float:
        """Dense peak in FLOP/s of ``dtype``: fp16, bf16, tf32, fp8 (tensor cores) or fp32 (vector).

        Raises :class:`FieldError` for another type, and for one that this GPU does not have.
        """
        if dtype not in PEAK_FIELDS:
            raise FieldError("dtype", dtype, f"one of {', '.join(PEAK_FIELDS)}")
        return self.require(PEAK_FIELDS[dtype])

    def sparse_2to4_flops(self, dtype: str) -> float:
        """Peak in FLOP/s that data sheets print with an asterisk: operands with 2:4 structured sparsity.

        Twice the dense tensor peak (bib key ``nvidia_h100_datasheet``, footnote on sparsity). Dense work
        cannot reach it: never divide a measured rate by it. Raises :class:`FieldError` for fp32, which
        has no sparse form, and otherwise as :meth:`peak_flops`.
        """
        if dtype == "fp32":
            raise FieldError("dtype", dtype, "a tensor-core type (fp16, bf16, tf32 or fp8): fp32 is vector")
        return 2 * self.peak_flops(dtype)

    @property
    def fp16_flops(self) -> float:
        """Dense fp16 tensor peak in FLOP/s: the same rate as bf16."""
        return self.bf16_flops

    @property
    def nvlink_bandwidth_both_directions(self) -> float:
        """The figure on the data sheet, bytes/s: both directions added (twice ``nvlink_bandwidth``).

        Raises :class:`FieldError` where the GPU has no NVLink.
        """
        return 2 * self.require("nvlink_bandwidth")

    @property
    def pcie_bandwidth(self) -> float:
        """Raw PCIe bandwidth in one direction, bytes/s: :func:`pcie_bandwidth` of this GPU's link."""
        return pcie_bandwidth(self.pcie_generation, self.pcie_lanes)

    @property
    def registers_per_thread_step(self) -> int:
        """Registers per thread are rounded up to a multiple of this: the granularity over a warp."""
        return self.register_allocation_granularity // self.warp_size


def constants() -> tuple[dataclasses.Field[Any], ...]:
    """Fields of :class:`GpuSpec` that hold a sourced constant; ``metadata`` has ``unit`` and ``meaning``."""
    return tuple(one for one in dataclasses.fields(GpuSpec) if "unit" in one.metadata)


def _known_field(name: str) -> None:
    """Raise :class:`FieldError` unless ``name`` is a constant's."""
    if name not in {constant.name for constant in constants()}:
        raise FieldError("field", name, "the name of a constant of GpuSpec")


def _spec(name: str, aliases: Iterable[str], **values: tuple[Any, str] | None) -> GpuSpec:
    """A GpuSpec from ``field=(value, bib key)`` pairs, or ``field=None`` where no source gives it."""
    known = {field_name: pair for field_name, pair in values.items() if pair is not None}
    return GpuSpec(
        name,
        tuple(aliases),
        **{field_name: None if pair is None else pair[0] for field_name, pair in values.items()},
        citations=tuple((field_name, key) for field_name, (_, key) in known.items()),
    )


# --- sources ---------------------------------------------------------------------------------

_A100 = "nvidia_a100_whitepaper"
_A100_SHEET = "nvidia_a100_datasheet"
_H100 = "nvidia_h100_whitepaper"
_H100_SHEET = "nvidia_h100_datasheet"
_H200_SHEET = "nvidia_h200_datasheet"
_H200_READ = "ringi_h200_properties"
_BLACKWELL = "nvidia_blackwell_brief"
_HGX = "nvidia_hgx"
_DGX_B200 = "nvidia_dgx_b200_datasheet"
_XLA = "openxla_gpu_specs"
_GUIDE = "nvidia_cuda_guide"
_DRIVER = "nvidia_cuda_driver_api"
_OCCUPANCY = "nvidia_cuda_occupancy"
_MLPERF = "mlcommons_inference_systems"

# What an SM holds, by compute capability (programming guide, technical specifications per compute
# capability, where KB is 1024 bytes). The 1 KiB per CTA is the difference between the two limits of
# shared memory. The occupancy header gives the granularity and the sub-partitions.
_SM = {
    "sm_subpartitions": (4, _OCCUPANCY),
    "warp_size": (32, _GUIDE),
    "max_warps_per_sm": (64, _GUIDE),
    "max_threads_per_sm": (2048, _GUIDE),
    "max_ctas_per_sm": (32, _GUIDE),
    "registers_per_sm": (65536, _GUIDE),
    "register_allocation_granularity": (256, _OCCUPANCY),
    "shared_memory_reserved_per_cta": (1 * KIB, _GUIDE),
}
_SM_80 = _SM | {
    "compute_capability": ((8, 0), _GUIDE),
    "shared_memory_per_sm": (164 * KIB, _GUIDE),
    "shared_memory_per_cta_max": (163 * KIB, _GUIDE),
    "has_tma": (False, _GUIDE),
    "has_mbarrier_tx": (False, "nvidia_ptx_isa"),
    "green_context_min_sms": (4, _DRIVER),
    "green_context_sm_step": (2, _DRIVER),
}
_SM_90 = _SM | {
    "compute_capability": ((9, 0), _GUIDE),
    "shared_memory_per_sm": (228 * KIB, _GUIDE),
    "shared_memory_per_cta_max": (227 * KIB, _GUIDE),
    "has_tma": (True, _GUIDE),
    "has_mbarrier_tx": (True, "nvidia_ptx_isa"),
    "green_context_min_sms": (8, _DRIVER),
    "green_context_sm_step": (8, _DRIVER),
}
_SM_100 = _SM_90 | {"compute_capability": ((10, 0), _GUIDE)}

# What H100 SXM and H200 share: the same chip with 132 SMs. Data sheets print 1979 and 3958 TFLOP/s for
# bf16 and fp8: those are the 2:4-sparse figures.
_GH100_SXM = _SM_90 | {
    "tdp": (700.0, _H100_SHEET),
    "bf16_flop_per_sm_clock": (4096, _H100),
    "fp32_flop_per_sm_clock": (256, _H100),
    "bf16_flops": (989.4e12, _H100),
    "tf32_flops": (494.7e12, _H100),
    "fp8_flops": (1978.9e12, _H100),
    "fp32_flops": (66.9e12, _H100),
    "nvlink_bandwidth": (450e9, _H100_SHEET),  # 18 links × 25 GB/s; the sheet's 900 adds both directions
    "pcie_generation": (5, _H100_SHEET),
    "pcie_lanes": (16, _H100_SHEET),
}

# Capacities that data sheets print as GB are binary: the driver shows 81920 MiB for "80 GB" and a little
# under 141 GiB for "141 GB", after what it keeps for itself.

A100_SXM_80GB = _spec(
    "A100 SXM 80GB",
    ["A100", "A100 SXM", "A100 SXM4", "A100 80GB", "A100-SXM4-80GB"],
    **_SM_80,
    sms=(108, _A100),
    l2_bytes=(40 * MIB, _A100),
    hbm_bytes=(80 * GIB, _A100_SHEET),
    hbm_bandwidth=(2.039e12, _A100_SHEET),
    boost_clock=(1.41e9, _A100),
    tensor_clock=(1.41e9, _A100),
    tdp=(400.0, _A100_SHEET),
    bf16_flop_per_sm_clock=(2048, _A100),
    fp32_flop_per_sm_clock=(128, _A100),
    bf16_flops=(312e12, _A100),
    tf32_flops=(156e12, _A100),
    fp8_flops=None,  # Ampere has no fp8
    fp32_flops=(19.5e12, _A100),
    nvlink_bandwidth=(300e9, _A100_SHEET),  # the sheet's 600 GB/s adds both directions
    pcie_generation=(4, _A100_SHEET),
    pcie_lanes=(16, _A100_SHEET),
    async_engine_count=None,
)

H100_SXM = _spec(
    "H100 SXM",
    ["H100 SXM5", "H100 SXM 80GB", "H100 SXM5 80GB", "H100 80GB HBM3"],
    **_GH100_SXM,
    sms=(132, _H100),
    l2_bytes=(50 * MIB, _H100),
    hbm_bytes=(80 * GIB, _H100_SHEET),
    hbm_bandwidth=(3.35e12, _H100_SHEET),
    boost_clock=(1.98e9, _H100),
    tensor_clock=(1.83e9, _H100),
    async_engine_count=None,
)

H100_PCIE = _spec(
    "H100 PCIe",
    ["H100 PCIe 80GB"],
    **_SM_90,
    sms=(114, _H100),
    l2_bytes=(50 * MIB, _H100),
    hbm_bytes=(80 * GIB, _H100),
    hbm_bandwidth=(2.039e12, _XLA),  # memory clock × bus width; the white paper rounds to 2000 GB/s
    boost_clock=(1.755e9, _XLA),
    tensor_clock=None,
    tdp=(350.0, _H100),
    bf16_flop_per_sm_clock=(4096, _H100),
    fp32_flop_per_sm_clock=(256, _H100),
    bf16_flops=(756.5e12, _H100),  # half of the sparse 1513, which the table's own 756 rounds
    tf32_flops=(378e12, _H100),
    fp8_flops=(1513e12, _H100),
    fp32_flops=(51e12, _H100),
    nvlink_bandwidth=(300e9, _H100),  # through a bridge to one other card; 600 GB/s adds both directions
    pcie_generation=(5, _H100),
    pcie_lanes=(16, _H100),
    async_engine_count=None,
)

H200 = _spec(
    "H200",
    ["H200 SXM", "H200 SXM5", "H200 141GB", "H200 SXM 141GB"],
    **_GH100_SXM
    | {
        "tdp": (700.0, _H200_SHEET),
        "nvlink_bandwidth": (450e9, _H200_SHEET),
        "pcie_generation": (5, _H200_SHEET),
        "pcie_lanes": (16, _H200_READ),
        "green_context_min_sms": (8, _H200_READ),
        "green_context_sm_step": (8, _H200_READ),
    },
    sms=(132, _H200_READ),
    l2_bytes=(60 * MIB, _H200_READ),
    hbm_bytes=(141 * GIB, _H200_SHEET),
    hbm_bandwidth=(4.8e12, _H200_SHEET),
    boost_clock=(1.98e9, _H200_READ),
    tensor_clock=None,
    async_engine_count=(3, _H200_READ),
)

B200 = _spec(
    "B200",
    ["B200 SXM", "B200 180GB", "B200 SXM 180GB"],
    **_SM_100,
    sms=(148, _XLA),
    l2_bytes=(132_644_864, _XLA),
    hbm_bytes=(180 * GIB, _DGX_B200),
    hbm_bandwidth=(7.67e12, _XLA),  # memory clock × bus width; sheets say 7.7 (HGX) or 8 TB/s (DGX)
    boost_clock=(1.965e9, _XLA),
    tensor_clock=None,  # the dense peak is quoted below the boost clock; at which clock is not said
    tdp=(1000.0, _BLACKWELL),
    bf16_flop_per_sm_clock=(8192, _XLA),
    fp32_flop_per_sm_clock=(256, _XLA),
    bf16_flops=(2.25e15, _HGX),  # half of the sparse figure, as are the next two
    tf32_flops=(1.1e15, _BLACKWELL),
    fp8_flops=(4.5e15, _DGX_B200),
    fp32_flops=(75e12, _HGX),
    nvlink_bandwidth=(900e9, _BLACKWELL),  # 1.8 TB/s adds both directions
    pcie_generation=(5, _MLPERF),
    pcie_lanes=(16, _MLPERF),
    async_engine_count=None,
)

_SPECS = (A100_SXM_80GB, H100_SXM, H100_PCIE, H200, B200)


# --- looking one up --------------------------------------------------------------------------


def _plain(name: str) -> str:
    """``name`` without case, punctuation and the maker: "NVIDIA A100-SXM4-80GB" is "a100 sxm4 80gb"."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return " ".join(words[1:] if words[:1] == ["nvidia"] else words)


def _index(specs: Iterable[GpuSpec]) -> dict[str, GpuSpec]:
    """Every plain name and alias of ``specs``; raises :class:`FieldError` where two GPUs share one."""
    index: dict[str, GpuSpec] = {}
    for spec in specs:
        for name in (spec.name, *spec.aliases):
            if index.setdefault(_plain(name), spec) is not spec:
                raise FieldError(
                    "alias", name, f"the name of one GPU, not also of {index[_plain(name)].name}"
                )
    return index


_BY_NAME = _index(_SPECS)


def _nearest(plain: str) -> list[str]:
    """Names of the GPUs that ``plain`` may be meant for: those it begins, else the most similar one."""
    begun = [one for one in _BY_NAME if plain and one.startswith(f"{plain} ")]
    found = begun or difflib.get_close_matches(plain, _BY_NAME, n=1)
    return list(dict.fromkeys(_BY_NAME[one].name for one in found))


def gpu_specs() -> tuple[GpuSpec, ...]:
    """Every GPU that this package knows, oldest first."""
    return _SPECS


def gpu_spec(name: str) -> GpuSpec:
    """The GPU called ``name``: its name here, an alias, or what nvidia-smi and torch print.

    Case, punctuation and a leading "NVIDIA" do not matter; the rest must match in full, since a suffix
    (NVL, 40GB, PCIe, a MIG slice) is another device. "H100" alone is refused: SXM and PCIe cards differ
    in every peak. Raises :class:`FieldError` that names the known GPUs and the nearest ones.
    """
    if isinstance(name, str) and (spec := _BY_NAME.get(_plain(name))) is not None:
        return spec
    limit = f"one of {', '.join(spec.name for spec in _SPECS)} (or a name that nvidia-smi prints for one)"
    if isinstance(name, str) and (nearest := _nearest(_plain(name))):
        limit += f"; did you mean {' or '.join(map(repr, nearest))}?"
    raise FieldError("gpu", name, limit)


def spec_sheet(specs: Iterable[GpuSpec] | None = None) -> tuple[SheetRow, ...]:
    """Every constant of ``specs`` (all GPUs by default) as rows, field by field, for a table.

    Values stay in SI units, unknown ones None: only views format. The raw PCIe bandwidth, which is
    computed, comes last.
    """
    chosen = _SPECS if specs is None else tuple(specs)
    rows = [
        SheetRow(
            spec.name,
            one.name,
            one.metadata["meaning"],
            getattr(spec, one.name),
            one.metadata["unit"],
            spec.source(one.name),
        )
        for one in constants()
        for spec in chosen
    ]
    meaning = "PCIe, one direction, raw"
    rows += [
        SheetRow(spec.name, "pcie_bandwidth", meaning, spec.pcie_bandwidth, "bytes/s", "pcie_base_5")
        for spec in chosen
    ]
    return tuple(rows)
