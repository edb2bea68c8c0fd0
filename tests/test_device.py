"""What makes a GPU unfit to be measured on, and what a provenance may tell."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ringi_lab.core.cuda import compile as compiler
from ringi_lab.core.cuda import device
from ringi_lab.core.errors import FieldError, GpuUnavailable
from ringi_lab.core.experiment import run
from ringi_lab.core.result import Result, Samples
from ringi_lab.overlap import Overlap, SmFree


def refusal(check, *arguments: object) -> str:
    """What a check says when it refuses."""
    with pytest.raises(GpuUnavailable) as caught:
        check(*arguments)
    return str(caught.value)


# --- torch, driver, device ------------------------------------------------------------------------------


def test_a_cpu_build_of_torch_is_named() -> None:
    assert refusal(device.check_torch, None, False, "2.13.0+cpu") == (
        "cannot measure: CUDA in torch: found torch 2.13.0+cpu, a CPU build; needed a CUDA build of torch"
    )


def test_no_gpu_is_named() -> None:
    assert refusal(device.check_torch, "13.0", False, "2.11.0").startswith(
        "cannot measure: a CUDA GPU: found none"
    )


@pytest.mark.parametrize("built_for", ["11.8", "12.1", "12.3"])
def test_a_cuda_that_is_too_old_is_named_with_what_is_needed(built_for: str) -> None:
    assert refusal(device.check_torch, built_for, True, "2.1.0") == (
        f"cannot measure: CUDA in torch: found CUDA {built_for}; needed CUDA 12.4 or newer"
    )


@pytest.mark.parametrize("built_for", ["12.4", "12.10", "13.0"])
def test_a_cuda_that_is_new_enough_passes(built_for: str) -> None:
    device.check_torch(built_for, True, "2.11.0")


@pytest.mark.parametrize(("version", "found"), [(12030, "12.3"), (11080, "11.8"), (0, "0.0")])
def test_an_old_driver_is_named(version: int, found: str) -> None:
    assert refusal(device.check_driver, 0, version) == (
        f"cannot measure: the CUDA driver: found CUDA {found}; needed CUDA 12.4 or newer"
    )


def test_a_new_driver_passes_unless_it_answers_with_an_error() -> None:
    device.check_driver(0, 12040)
    device.check_driver(0, 13000)
    assert "the CUDA driver" in refusal(device.check_driver, 100, 13000)


@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (6, 1)])
def test_an_old_gpu_is_named_with_its_capability(capability: tuple[int, int]) -> None:
    text = refusal(device.check_capability, capability, "Tesla T4")
    assert f"found {capability[0]}.{capability[1]} (Tesla T4); needed 8.0 or newer" in text


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (10, 0)])
def test_a_new_gpu_passes(capability: tuple[int, int]) -> None:
    device.check_capability(capability, "NVIDIA")


@pytest.mark.parametrize(("index", "count"), [(1, 1), (-1, 1), (8, 8), (0, 0)])
def test_a_device_number_that_does_not_exist_is_named(index: int, count: int) -> None:
    with pytest.raises(FieldError) as caught:
        device.check_index(index, count)
    assert (caught.value.field, caught.value.value) == ("device", index)
    assert f"this machine shows {count} GPU(s)" in str(caught.value)


def test_a_device_number_that_exists_passes() -> None:
    device.check_index(0, 1)
    device.check_index(7, 8)


@pytest.mark.parametrize("wanted", [0, -1])
def test_a_size_of_nothing_is_refused(wanted: int) -> None:
    with pytest.raises(FieldError, match=rf"copy_bytes = {wanted}: must be > 0 bytes"):
        device.check_memory("copy_bytes", wanted, 100)


def test_a_size_beyond_the_memory_is_refused_with_what_is_free() -> None:
    device.check_memory("gemm_n", 100, 100)
    with pytest.raises(FieldError, match="gemm_n = 101: must be <= 100 bytes, which are free on this device"):
        device.check_memory("gemm_n", 101, 100)


# --- on a machine without a GPU -------------------------------------------------------------------------


@pytest.fixture
def cpu_torch() -> None:
    torch = pytest.importorskip("torch", reason="needs torch (a CPU build is enough)")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: nothing is missing")


@pytest.mark.usefixtures("cpu_torch")
@pytest.mark.parametrize("experiment", [Overlap(), SmFree()], ids=lambda e: e.name)
def test_without_cuda_in_torch_measuring_says_what_is_missing(experiment: Overlap | SmFree) -> None:
    for ask in (device.require_gpu, lambda: run(experiment, on="gpu")):
        with pytest.raises(GpuUnavailable) as caught:
            ask()
        assert caught.value.missing in ("CUDA in torch", "a CUDA GPU")
        assert caught.value.found
        assert caught.value.needed


@pytest.mark.usefixtures("cpu_torch")
def test_a_field_is_checked_even_where_nothing_can_be_measured() -> None:
    with pytest.raises(FieldError, match="copy_bytes"):
        run(Overlap(copy_bytes=0), on="gpu")


def test_without_torch_measuring_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    text = refusal(device.require_gpu)
    assert text == "cannot measure: torch: found not installed; needed pip install 'ringi-lab[gpu]'"


def test_without_nvml_the_monitor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py: found not installed" in refusal(device.Monitor)


def test_without_cuda_core_compiling_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    compiler.kernels.cache_clear()
    assert "cuda-core: found not installed" in refusal(compiler.kernels, "ringi_lab.overlap", "kernels.cu")


@pytest.mark.parametrize(
    ("text", "missing"),
    [("Failure finding libnvrtc.so.13", True), ("libnvrtc not found", True), ("out of host memory", False)],
)
def test_without_nvrtc_compiling_says_so(monkeypatch: pytest.MonkeyPatch, text: str, missing: bool) -> None:
    class Device:
        arch = "90a"

        def __init__(self, index: int) -> None:
            assert index == 3

        def set_current(self) -> None:
            pass

    def program(*_args: object, **_options: object) -> None:
        raise RuntimeError(text)

    fake = SimpleNamespace(Device=Device, Program=program, ProgramOptions=lambda **options: options)
    monkeypatch.setitem(sys.modules, "cuda.core", fake)
    compiler.kernels.cache_clear()
    with pytest.raises(GpuUnavailable if missing else RuntimeError) as caught:
        compiler.kernels("ringi_lab.overlap", "kernels.cu", 3)
    assert text in str(caught.value)
    assert ("needed libnvrtc of CUDA 12.4 or newer" in str(caught.value)) is missing


# --- clocks, throttling, provenance -----------------------------------------------------------------------


class Nvml:
    """Stands in for the management library: one GPU with a power cap."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    reasons = 0x4

    def nvmlDeviceGetClockInfo(self, _handle: object, which: int) -> int:
        return {1: 1305, 2: 3201}[which]

    def nvmlDeviceGetCurrentClocksEventReasons(self, _handle: object) -> int:
        return self.reasons

    def nvmlDeviceGetPowerUsage(self, _handle: object) -> int:
        return 652_932

    def nvmlDeviceGetTemperature(self, _handle: object, _which: int) -> int:
        return 60

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"


@pytest.fixture
def monitor() -> device.Monitor:
    made = object.__new__(device.Monitor)
    made._nvml, made._handle = Nvml(), None
    return made


def test_the_state_is_in_si_units_with_the_throttle_reasons_by_name(monitor: device.Monitor) -> None:
    assert monitor.state() == {
        "sm_hz": 1305e6,
        "memory_hz": 3201e6,
        "power_w": pytest.approx(652.932),
        "temperature_c": 60,
        "throttle": ["software power cap"],
    }


@pytest.mark.parametrize(
    ("bits", "names"),
    [(0, []), (0x1, []), (0x60, ["software thermal slowdown", "hardware thermal slowdown"])],
)
def test_idling_is_no_throttle(monitor: device.Monitor, bits: int, names: list[str]) -> None:
    monitor._nvml.reasons = bits
    assert monitor.state()["throttle"] == names


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/x/site/ringi_lab/__main__.py", "record", "overlap"], "python -m ringi_lab record overlap"),
        (
            ["/x/ringi_lab/__main__.py", "record", "--out", "/root/secret/rec"],
            "python -m ringi_lab record --out rec",
        ),
        (
            ["/x/ringi_lab/__main__.py", "record", "--out=/home/me/rec"],
            "python -m ringi_lab record --out=rec",
        ),
        (["/v/site/pytest/__main__.py", "-q"], "python -m pytest -q"),
        (["/v/bin/pytest", "-q", "tests/test_gpu.py"], "python pytest -q tests/test_gpu.py"),
        (
            ["/v/ipykernel_launcher.py", "-f", "/home/me/.local/share/jupyter/kernel-1.json"],
            "python ipykernel_launcher.py -f kernel-1.json",
        ),
        (["/v/run.py", "a=b", "--x=1"], "python run.py a=b --x=1"),
    ],
)
def test_a_provenance_is_whole_and_tells_no_folders(
    monkeypatch: pytest.MonkeyPatch, monitor: device.Monitor, tmp_path, argv: list[str], command: str
) -> None:
    torch = SimpleNamespace(
        cuda=SimpleNamespace(get_device_name=lambda index: f"NVIDIA {index}"),
        version=SimpleNamespace(cuda="13.0"),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sys, "argv", argv)
    made = device.provenance(2, monitor, monitor.state(), monitor.state())
    assert made.device == "NVIDIA 2"
    assert made.command == command
    text = str(made.to_dict())
    assert "://" not in text
    assert not re.search(r"['\"= ]/\w", text), text
    # It is what a recording asks for: the schema takes it.
    samples = {"time": Samples("s", (1.0,))}
    path = Result("probe", {}, "measured", made, samples).save(tmp_path / "result.json")
    assert Result.load(path).provenance == made


def test_the_commit_is_this_checkouts_or_comes_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", device.commit())

    def gone(*_args: object, **_options: object) -> None:
        raise subprocess.CalledProcessError(128, "git")

    monkeypatch.setattr(device.subprocess, "run", gone)
    monkeypatch.setenv("RINGI_COMMIT", "abc1234")
    assert device.commit() == "abc1234"
    monkeypatch.delenv("RINGI_COMMIT")
    assert device.commit() == "unknown"


def test_the_code_has_a_digest_of_every_source_and_of_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", device.code_digest())
    monkeypatch.setattr(device.resources, "files", lambda _name: tmp_path)
    digests = [device.code_digest()]
    for name, text in (("a.py", "1"), ("k.cu", "1"), ("a.py", "2"), ("b.json", "1")):
        (tmp_path / name).write_text(text)
        digests.append(device.code_digest())
    assert len(set(digests[:4])) == 4
    assert digests[4] == digests[3]
