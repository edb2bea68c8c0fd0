"""GPU constants: every one has a source, they agree with each other, and names find them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ringi_lab.core import hardware
from ringi_lab.core.errors import FieldError
from ringi_lab.core.hardware import (
    A100_SXM_80GB,
    B200,
    GIB,
    H100_PCIE,
    H100_SXM,
    H200,
    KIB,
    GpuSpec,
    constants,
    gpu_spec,
    gpu_specs,
    pcie_bandwidth,
    spec_sheet,
)

ROOT = Path(__file__).parents[1]
ALL = pytest.mark.parametrize("spec", gpu_specs(), ids=lambda spec: spec.name)


def bib_keys() -> list[str]:
    """Keys of the entries of references.bib, in order, doubles kept."""
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    return re.findall(r"^@\w+\{([^,\s]+),", text, flags=re.MULTILINE)


def fields_of(spec: GpuSpec) -> dict[str, object]:
    """What ``GpuSpec(**...)`` takes to build ``spec`` again."""
    return {one.name: getattr(spec, one.name) for one in dataclasses.fields(spec)}


# --- sources ---------------------------------------------------------------------------------


def test_bib_keys_are_unique_and_lower_snake() -> None:
    keys = bib_keys()
    assert len(keys) == len(set(keys)) > 50
    assert [key for key in keys if not hardware.BIB_KEY.fullmatch(key)] == []


def test_every_bib_entry_can_be_found_by_a_reader() -> None:
    """Each has a title, and an address, a DOI, a publisher or (our own reading) how it was made."""
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    for entry in re.split(r"^@", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"^  title = \{.+\}", entry, flags=re.MULTILINE), entry
        assert re.search(r"^  (url|doi|publisher|howpublished) = \{", entry, flags=re.MULTILINE), entry
        assert "http://" not in entry, entry


@ALL
def test_every_number_has_a_source_in_the_bibliography(spec: GpuSpec) -> None:
    keys = set(bib_keys())
    for one in constants():
        source = spec.source(one.name)
        if getattr(spec, one.name) is None:
            assert source is None, one.name
        else:
            assert source in keys, one.name


def test_keys_named_in_the_package_are_in_the_bibliography() -> None:
    keys = set(bib_keys())
    named = re.compile(r"bib keys?\s+`{0,2}([a-z]+[a-z0-9_]*[0-9_][a-z0-9_]*)")
    found = {
        (path.relative_to(ROOT).as_posix(), key)
        for path in (ROOT / "ringi_lab").rglob("*.py")
        for key in named.findall(path.read_text(encoding="utf-8"))
    }
    assert ("ringi_lab/core/hardware.py", "pcie_base_5") in found
    assert {(path, key) for path, key in found if key not in keys} == set()


def test_a_constant_without_a_source_cannot_exist() -> None:
    bare = fields_of(H200)
    bare["citations"] = tuple(pair for pair in H200.citations if pair[0] != "hbm_bandwidth")
    with pytest.raises(FieldError, match=r"H200: source of hbm_bandwidth = None: must be a bib key"):
        GpuSpec(**bare)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hbm_bandwidth": 0.0}, r"H200: hbm_bandwidth = 0.0: must be finite and above 0"),
        ({"tdp": float("nan")}, r"H200: tdp = nan"),
        ({"sms": -1}, r"H200: sms = -1"),
        ({"aliases": ()}, r"H200: aliases"),
        ({"fp8_flops": None}, r"source of fp8_flops = 'nvidia_h100_whitepaper': must be absent"),
        ({"citations": (*H200.citations, ("sms", "pcie_base_5"))}, r"one source per field"),
        ({"citations": (*H200.citations, ("color", "pcie_base_5"))}, r"\['color'\]: must be the names"),
        ({"citations": tuple((name, "Data Sheet") for name, _ in H200.citations)}, r"in lower_snake"),
    ],
)
def test_refuses_what_is_not_a_sourced_quantity(change: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        GpuSpec(**(fields_of(H200) | change))


@ALL
def test_specs_are_values(spec: GpuSpec) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.sms = 1  # type: ignore[misc]
    rebuilt = GpuSpec(**fields_of(spec))
    assert rebuilt == spec == copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec))
    assert hash(rebuilt) == hash(spec)


def test_import_is_light() -> None:
    """Only the standard library: the simulators run in a browser too."""
    code = (
        "import sys, ringi_lab.core.hardware\n"
        "print({m.split('.')[0] for m in sys.modules} & {'numpy', 'torch', 'simpy', 'cuda', 'matplotlib'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --- the numbers agree with each other -------------------------------------------------------


@ALL
def test_vector_peak_is_sms_times_rate_times_clock(spec: GpuSpec) -> None:
    assert spec.fp32_flops == pytest.approx(
        spec.sms * spec.fp32_flop_per_sm_clock * spec.boost_clock, rel=0.03
    )


@ALL
def test_tensor_peak_is_sms_times_rate_times_clock(spec: GpuSpec) -> None:
    """Within 3% at the quoted clock; elsewhere the implied clock lies a little below the boost clock."""
    per_clock = spec.sms * spec.bf16_flop_per_sm_clock
    if spec.tensor_clock is not None:
        assert spec.bf16_flops == pytest.approx(per_clock * spec.tensor_clock, rel=0.03)
        assert spec.tensor_clock <= spec.boost_clock
    assert 0.9 * spec.boost_clock < spec.bf16_flops / per_clock < 1.001 * spec.boost_clock


def test_hopper_cards_imply_one_ratio_of_tensor_to_boost_clock() -> None:
    """SXM prints 1.83 of 1.98 GHz; the PCIe card's peak, SM count and boost clock give the same ratio."""
    implied = H100_PCIE.bf16_flops / (H100_PCIE.sms * H100_PCIE.bf16_flop_per_sm_clock)
    assert H100_SXM.tensor_clock is not None
    assert implied / H100_PCIE.boost_clock == pytest.approx(
        H100_SXM.tensor_clock / H100_SXM.boost_clock, rel=0.003
    )


def test_h200_computes_like_h100_sxm_and_differs_in_memory() -> None:
    for dtype in ("fp16", "bf16", "tf32", "fp8", "fp32"):
        assert H200.peak_flops(dtype) == H100_SXM.peak_flops(dtype)
    assert H200.sms == H100_SXM.sms
    assert H200.hbm_bandwidth / H100_SXM.hbm_bandwidth == pytest.approx(1.43, abs=0.01)
    assert H200.l2_bytes > H100_SXM.l2_bytes


@ALL
def test_tensor_rates_double_with_each_halving_of_the_operand(spec: GpuSpec) -> None:
    assert spec.tf32_flops == pytest.approx(spec.bf16_flops / 2, rel=0.03)
    assert spec.fp16_flops == spec.bf16_flops
    if spec.fp8_flops is not None:
        assert spec.fp8_flops == pytest.approx(2 * spec.bf16_flops, rel=0.001)


@ALL
def test_sparse_is_twice_dense_and_only_for_tensor_types(spec: GpuSpec) -> None:
    for dtype in ("fp16", "bf16", "tf32"):
        assert spec.sparse_2to4_flops(dtype) == 2 * spec.peak_flops(dtype)
    with pytest.raises(FieldError, match=r"dtype = 'fp32': must be a tensor-core type"):
        spec.sparse_2to4_flops("fp32")


def test_sparse_figures_are_the_ones_with_the_asterisk() -> None:
    assert H100_SXM.sparse_2to4_flops("bf16") == pytest.approx(1979e12, rel=1e-3)
    assert H100_SXM.sparse_2to4_flops("fp8") == pytest.approx(3958e12, rel=1e-3)
    assert H100_PCIE.sparse_2to4_flops("bf16") == pytest.approx(1513e12, rel=1e-3)
    assert A100_SXM_80GB.sparse_2to4_flops("bf16") == pytest.approx(624e12, rel=1e-3)
    assert B200.sparse_2to4_flops("bf16") == pytest.approx(4.5e15, rel=1e-3)
    assert B200.sparse_2to4_flops("fp8") == pytest.approx(72e15 / 8, rel=1e-3)  # eight in a DGX B200


def test_case_f06_utilisation_is_against_the_dense_peak() -> None:
    assert 480e12 / gpu_spec("H100 SXM").peak_flops("bf16") == pytest.approx(0.485, abs=0.0005)
    assert 420e12 / gpu_spec("H200").peak_flops("bf16") == pytest.approx(0.424, abs=0.001)
    assert 480e12 / H100_SXM.sparse_2to4_flops("bf16") == pytest.approx(0.243, abs=0.0005)  # the mistake


def test_case_f08_cards_and_types_are_not_mixed_up() -> None:
    assert H100_PCIE.peak_flops("bf16") == 756.5e12
    assert H100_SXM.peak_flops("bf16") == pytest.approx(989e12, rel=1e-3)
    for spec in (H100_PCIE, H100_SXM):
        assert spec.peak_flops("tf32") / spec.peak_flops("bf16") == pytest.approx(0.5, abs=0.002)


def test_case_f10_a_card_that_holds_83e9_bytes() -> None:
    """A card sold as 80 GB has 80 GiB, so 83e9 bytes (77.3 GiB) fit."""
    used = 83e9
    assert used / GIB == pytest.approx(77.3, abs=0.01)
    assert used < H100_SXM.hbm_bytes == 80 * GIB


@pytest.mark.parametrize(
    ("spec", "marketed"),
    [(A100_SXM_80GB, 600e9), (H100_SXM, 900e9), (H100_PCIE, 600e9), (H200, 900e9), (B200, 1.8e12)],
)
def test_case_c16_nvlink_is_one_direction(spec: GpuSpec, marketed: float) -> None:
    assert spec.nvlink_bandwidth == marketed / 2
    assert spec.nvlink_bandwidth_both_directions == marketed


def test_nvlink_4_is_18_links_of_25e9() -> None:
    assert H100_SXM.nvlink_bandwidth == H200.nvlink_bandwidth == 18 * 25e9


def test_pcie_formula() -> None:
    assert pcie_bandwidth(5, 16) == pytest.approx(63.0e9, rel=0.001)
    assert pcie_bandwidth(4, 16) == pytest.approx(31.5e9, rel=0.001)
    assert pcie_bandwidth(3, 16) == pytest.approx(15.75e9, rel=0.001)
    assert pcie_bandwidth(5, 8) == pcie_bandwidth(4, 16)
    assert H200.pcie_bandwidth == pcie_bandwidth(5, 16)
    assert A100_SXM_80GB.pcie_bandwidth == pcie_bandwidth(4, 16)


@pytest.mark.parametrize(("generation", "lanes", "field"), [(2, 16, "generation"), (5, 3, "lanes")])
def test_pcie_formula_names_what_it_does_not_know(generation: int, lanes: int, field: str) -> None:
    with pytest.raises(FieldError, match=rf"{field} = \d: must be one of") as caught:
        pcie_bandwidth(generation, lanes)
    assert caught.value.field == field


@ALL
def test_sm_limits_fit_together(spec: GpuSpec) -> None:
    assert spec.registers_per_sm * 4 == 256 * KIB
    assert spec.registers_per_sm % spec.sm_subpartitions == 0
    assert spec.registers_per_thread_step == 8
    assert spec.max_threads_per_sm == spec.max_warps_per_sm * spec.warp_size
    assert spec.max_warps_per_sm % spec.sm_subpartitions == 0
    spare = spec.shared_memory_per_sm - spec.shared_memory_per_cta_max
    assert spare == spec.shared_memory_reserved_per_cta == KIB


def test_shared_memory_is_what_the_driver_reports() -> None:
    """The H200's own answers, read with cudaGetDeviceProperties."""
    assert H200.shared_memory_per_sm == 233_472
    assert H200.shared_memory_per_cta_max == 232_448
    assert H200.l2_bytes == 62_914_560
    assert 0.98 * H200.hbm_bytes < 150_109_880_320 < H200.hbm_bytes  # it keeps some for itself


@ALL
def test_occupancy_of_a_40_register_kernel(spec: GpuSpec) -> None:
    """Registers are allocated per warp in each sub-partition: 48 warps, not the 51 of a naive division."""
    step = spec.registers_per_thread_step
    per_warp = step * -(-40 // step) * spec.warp_size
    partitions = spec.sm_subpartitions
    assert partitions * (spec.registers_per_sm // partitions // per_warp) == 48
    assert spec.registers_per_sm // per_warp == 51


@ALL
def test_tma_comes_with_transaction_counting_barriers(spec: GpuSpec) -> None:
    assert spec.has_tma is spec.has_mbarrier_tx is (spec.compute_capability >= (9, 0))


@ALL
def test_green_context_steps_follow_the_architecture(spec: GpuSpec) -> None:
    hopper_or_later = spec.compute_capability >= (9, 0)
    assert (spec.green_context_min_sms, spec.green_context_sm_step) == ((8, 8) if hopper_or_later else (4, 2))


# Widest range that a number of each unit can lie in: a value typed in GB/s, TFLOP/s or MHz falls out.
RANGES = {
    "l2_bytes": (16e6, 1e9),
    "hbm_bytes": (32e9, 1e12),
    "hbm_bandwidth": (1e12, 20e12),
    "boost_clock": (1e9, 3e9),
    "tensor_clock": (1e9, 3e9),
    "tdp": (250, 1500),
    "bf16_flops": (1e14, 1e16),
    "tf32_flops": (1e14, 1e16),
    "fp8_flops": (1e15, 1e16),
    "fp32_flops": (1e13, 1e15),
    "nvlink_bandwidth": (1e11, 2e12),
    "shared_memory_per_sm": (100e3, 300e3),
}


@ALL
def test_units_are_si(spec: GpuSpec) -> None:
    for name, (low, high) in RANGES.items():
        value = getattr(spec, name)
        assert value is None or low < value < high, name
    assert 1e10 < spec.pcie_bandwidth < spec.nvlink_bandwidth < spec.hbm_bandwidth


def test_every_unit_of_a_rate_or_size_is_a_base_unit() -> None:
    units = {one.metadata["unit"] for one in constants()}
    assert units == {"", "count", "threads", "bytes", "bytes/s", "Hz", "W", "FLOP", "FLOP/s"}


# --- unknown values --------------------------------------------------------------------------


def test_an_unknown_value_is_none_and_a_formula_gets_a_typed_error() -> None:
    assert A100_SXM_80GB.fp8_flops is None
    for ask in (A100_SXM_80GB.peak_flops, A100_SXM_80GB.sparse_2to4_flops):
        with pytest.raises(FieldError, match=r"A100 SXM 80GB: fp8_flops = None: must be known"):
            ask("fp8")
    with pytest.raises(FieldError, match=r"B200: async_engine_count = None"):
        B200.require("async_engine_count")
    assert H200.require("async_engine_count") == 3


def test_unknown_fields_and_types_are_named() -> None:
    with pytest.raises(FieldError, match=r"dtype = 'fp64': must be one of fp16, bf16, tf32, fp8, fp32"):
        H200.peak_flops("fp64")
    for ask in (H200.require, H200.source):
        with pytest.raises(FieldError, match=r"field = 'aliases'"):
            ask("aliases")


# --- names -----------------------------------------------------------------------------------


@ALL
def test_every_name_finds_its_gpu(spec: GpuSpec) -> None:
    for name in (spec.name, *spec.aliases):
        for spelling in (
            name,
            name.lower(),
            name.replace(" ", "-"),
            name.replace("-", "_"),
            f"NVIDIA {name}",
        ):
            assert gpu_spec(spelling) is spec, spelling


@pytest.mark.parametrize(
    ("printed", "spec"),
    [
        ("NVIDIA A100-SXM4-80GB", A100_SXM_80GB),
        ("NVIDIA H100 80GB HBM3", H100_SXM),
        ("NVIDIA H100 PCIe", H100_PCIE),
        ("NVIDIA H200", H200),
        ("NVIDIA B200", B200),
        ("h100-sxm", H100_SXM),
    ],
)
def test_names_that_the_driver_prints(printed: str, spec: GpuSpec) -> None:
    assert gpu_spec(printed) is spec


@pytest.mark.parametrize(
    "other",
    [
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H200 MIG 1g.18gb",
        "NVIDIA GB200",
        "GeForce RTX 4090",
        "",
        "NVIDIA",
        None,
    ],
)
def test_another_device_is_not_taken_for_a_known_one(other: object) -> None:
    with pytest.raises(FieldError) as caught:
        gpu_spec(other)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.value) == ("gpu", other)
    for spec in gpu_specs():
        assert spec.name in str(caught.value)


def test_a_slip_gets_the_nearest_name() -> None:
    with pytest.raises(FieldError, match=r"gpu = 'H20O': must be one of .*did you mean 'H200'"):
        gpu_spec("H20O")


def test_h100_alone_is_ambiguous() -> None:
    with pytest.raises(FieldError, match=r"did you mean 'H100 SXM' or 'H100 PCIe'\?"):
        gpu_spec("H100")


def test_two_gpus_cannot_share_a_name() -> None:
    twin = dataclasses.replace(H100_SXM, name="twin", aliases=("NVIDIA H200",))
    with pytest.raises(FieldError, match=r"alias = 'NVIDIA H200': must be the name of one GPU"):
        hardware._index((H200, twin))


# --- the table -------------------------------------------------------------------------------


def test_spec_sheet_has_every_number_once() -> None:
    rows = spec_sheet()
    assert len(rows) == len(gpu_specs()) * (len(constants()) + 1)
    assert len({(row.gpu, row.field) for row in rows}) == len(rows)
    keys = set(bib_keys())
    assert all((row.value is None) == (row.source is None) for row in rows)
    assert {row.source for row in rows} - {None} <= keys
    one = next(row for row in spec_sheet([H200]) if row.field == "hbm_bandwidth")
    assert (one.value, one.unit, one.source) == (4.8e12, "bytes/s", "nvidia_h200_datasheet")
    assert {row.gpu for row in spec_sheet([H200])} == {"H200"}
