"""What GPU is here, whether it can be measured, and in what state it is."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from ringi_lab.core.errors import FieldError, GpuUnavailable
from ringi_lab.core.result import Provenance

# Green contexts came with the CUDA 12.4 driver interface (bib key nvidia_cuda_driver_api), cp.async with
# compute capability 8.0 (bib key nvidia_ptx_isa); everything here is written for these or newer.
MINIMUM_CUDA = (12, 4)
MINIMUM_CAPABILITY = (8, 0)
LIBRARIES = ("torch", "cuda-core", "cuda-bindings", "nvidia-ml-py", "numpy", "ringi-lab")


def require_gpu(index: int = 0) -> Any:
    """The ``torch.device`` to measure on, made current for torch and cuda-core alike.

    Raises :class:`GpuUnavailable` naming what is missing, what was found and what is needed, and
    :class:`FieldError` for an index that does not exist.
    """
    try:
        import torch
    except ImportError as error:
        raise GpuUnavailable("torch", "not installed", "pip install 'ringi-lab[gpu]'") from error
    check_torch(torch.version.cuda, torch.cuda.is_available(), str(torch.__version__))
    check_index(index, torch.cuda.device_count())
    check_capability(torch.cuda.get_device_capability(index), torch.cuda.get_device_name(index))
    try:
        from cuda.bindings import driver
        from cuda.core import Device
    except ImportError as error:
        found = f"import failed ({error})"
        raise GpuUnavailable("cuda-core", found, "pip install 'ringi-lab[gpu]'") from error
    status, version = driver.cuDriverGetVersion()
    check_driver(int(status), version)
    device = torch.device("cuda", index)
    torch.zeros(1, device=device)  # torch makes the primary context; cuda-core must then share it
    Device(index).set_current()
    return device


def check_torch(built_for: str | None, available: bool, version: str) -> None:
    """Refuse a torch that cannot reach a GPU (``built_for``: its CUDA version, None for a CPU build)."""
    if built_for is None:
        raise GpuUnavailable("CUDA in torch", f"torch {version}, a CPU build", "a CUDA build of torch")
    if not available:
        raise GpuUnavailable("a CUDA GPU", "none that the driver shows", "an NVIDIA GPU and its driver")
    if _version(built_for) < MINIMUM_CUDA:
        raise GpuUnavailable("CUDA in torch", f"CUDA {built_for}", f"CUDA {_dotted(MINIMUM_CUDA)} or newer")


def check_index(index: int, count: int) -> None:
    """Refuse a device number that does not exist."""
    if not 0 <= index < count:
        raise FieldError("device", index, f"0 to {count - 1}: this machine shows {count} GPU(s)")


def check_capability(capability: tuple[int, int], name: str) -> None:
    """Refuse a GPU older than the kernels are written for."""
    if tuple(capability) < MINIMUM_CAPABILITY:
        raise GpuUnavailable(
            "compute capability", f"{_dotted(capability)} ({name})", f"{_dotted(MINIMUM_CAPABILITY)} or newer"
        )


def check_driver(status: int, version: int) -> None:
    """Refuse a driver older than the interface used (``version`` as CUDA codes it: 13000 is 13.0)."""
    found = (version // 1000, version % 1000 // 10)
    if status != 0 or found < MINIMUM_CUDA:
        needed = f"CUDA {_dotted(MINIMUM_CUDA)} or newer"
        raise GpuUnavailable("the CUDA driver", f"CUDA {_dotted(found)}", needed)


def check_memory(field: str, wanted: int, free: int) -> None:
    """Refuse a size (bytes) that is not positive or does not fit what is free."""
    if wanted <= 0:
        raise FieldError(field, wanted, "> 0 bytes")
    if wanted > free:
        raise FieldError(field, wanted, f"<= {free} bytes, which are free on this device")


class Monitor:
    """Reads clocks, power and throttle reasons of one GPU through NVML (bib key ``nvidia_nvml``)."""

    # NVML's bits, by the names of its documentation; "idle" is not a throttle.
    REASONS: Mapping[int, str] = {
        0x2: "applications clocks setting",
        0x4: "software power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "software thermal slowdown",
        0x40: "hardware thermal slowdown",
        0x80: "hardware power brake",
        0x100: "display clock setting",
    }

    def __init__(self, index: int = 0) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise GpuUnavailable("nvidia-ml-py", "not installed", "pip install 'ringi-lab[gpu]'") from error
        pynvml.nvmlInit()
        self._nvml = pynvml
        # NVML numbers all GPUs of the machine, CUDA only the visible ones: go by the bus address.
        import torch

        bus = torch.cuda.get_device_properties(index)
        address = f"{bus.pci_domain_id:08x}:{bus.pci_bus_id:02x}:{bus.pci_device_id:02x}.0"
        self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(address)

    def driver(self) -> str:
        """Version of the display driver."""
        return str(self._nvml.nvmlSystemGetDriverVersion())

    def sm_clock(self) -> float:
        """SM clock now (Hz): a single call, cheap enough to make inside a block."""
        return self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM) * 1e6

    def state(self) -> dict[str, Any]:
        """Clocks (Hz), power (W), temperature (deg C) and the throttle reasons in force."""
        nvml, handle = self._nvml, self._handle
        bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        return {
            "sm_hz": self.sm_clock(),
            "memory_hz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * 1e6,
            "power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "temperature_c": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "throttle": [name for bit, name in self.REASONS.items() if bits & bit],
        }


def provenance(
    index: int, monitor: Monitor, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Provenance:
    """The full account of a measurement that has just ended on device ``index``."""
    import torch

    return Provenance(
        device=torch.cuda.get_device_name(index),
        driver=monitor.driver(),
        cuda=torch.version.cuda or "",
        libraries={"python": sys.version.split()[0]} | {n: v for n in LIBRARIES if (v := _installed(n))},
        clocks_before=before,
        clocks_after=after,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit(),
        command=" ".join(["python", *_arguments()]),
        code=code_digest(),
    )


def commit() -> str:
    """The commit of this checkout: from git, or from RINGI_COMMIT where the sources travel without it."""
    here = Path(__file__).resolve().parent
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5, check=True
        )
        return answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("RINGI_COMMIT") or "unknown"


def code_digest() -> str:
    """Digest (SHA-256, 16 hex digits) of the package's Python and CUDA sources."""
    digest = hashlib.sha256()
    root = Path(str(resources.files("ringi_lab")))
    for path in sorted(p for p in root.rglob("*") if p.suffix in {".py", ".cu"}):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _arguments() -> list[str]:
    # Folders are a detail of one machine (a notebook's kernel is started with one in a home); names are not.
    first = Path(sys.argv[0])
    name = f"-m {first.parent.name}" if first.name == "__main__.py" else first.name
    return [name, *(_without_folder(argument) for argument in sys.argv[1:])]


def _without_folder(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    return option + equals + (Path(value).name if Path(value).is_absolute() else value)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
