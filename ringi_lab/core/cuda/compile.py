"""Compile CUDA C++ at run time (NVRTC) for the GPU that is present: no nvcc needed."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from ringi_lab.core.errors import GpuUnavailable

# What a CTA may ask for without opting in (bytes; bib key nvidia_cuda_guide, compute capabilities).
DEFAULT_SHARED = 48 * 1024


@functools.cache
def kernels(package: str, file: str, device_index: int = 0) -> Kernels:
    """Compile ``file`` (a .cu file shipped inside ``package``) once for a device and keep it.

    Raises :class:`GpuUnavailable` when NVRTC or cuda-core is missing, and the compiler's own text when
    the source does not compile.
    """
    try:
        from cuda.core import Device, Program, ProgramOptions
    except ImportError as error:
        raise GpuUnavailable("cuda-core", "not installed", "pip install 'ringi-lab[gpu]'") from error
    device = Device(device_index)
    device.set_current()
    source = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    options = ProgramOptions(name=file, arch=f"sm_{device.arch}", std="c++17", lineinfo=True)
    try:
        program = Program(source, "c++", options)
    except Exception as error:
        # The bindings load libnvrtc on first use and raise a plain RuntimeError where it is absent.
        if "nvrtc" in str(error).lower() or "not found" in str(error).lower():
            raise GpuUnavailable("NVRTC", str(error), "libnvrtc of CUDA 12.4 or newer") from error
        raise
    return Kernels(program.compile("cubin"))


class Kernels:
    """The kernels of one compiled file: ``kernels.launch(name, stream, grid, block, *args)``."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._kernels: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The cuda-core kernel called ``name`` (an ``extern "C"`` symbol)."""
        if name not in self._kernels:
            self._kernels[name] = self._module.get_kernel(name)
        return self._kernels[name]

    def launcher(self, name: str, stream: int, grid: int, block: int, shared: int = 0):
        """A function that enqueues ``name`` on a raw stream handle; call it with the kernel's arguments.

        ``grid`` CTAs of ``block`` threads with ``shared`` bytes of dynamic shared memory. Integers are
        passed as 64-bit values (pointers, sizes).
        """
        from cuda.core import LaunchConfig, Stream, launch

        queue = Stream.from_handle(stream)
        config = LaunchConfig(grid=grid, block=block, shmem_size=shared)
        kernel = self[name]
        if shared > DEFAULT_SHARED:
            _allow_shared(kernel, shared)

        def enqueue(*args: int) -> None:
            launch(queue, config, kernel, *args)

        return enqueue

    def registers(self, name: str) -> int:
        """Registers a thread, as compiled."""
        return self[name].attributes.num_regs


def _allow_shared(kernel: Any, size: int) -> None:
    from cuda.bindings import driver
    from cuda.core import Device

    what = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(what, size, kernel.handle, Device().device_id)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise GpuUnavailable("shared memory", f"{status.name} for {size} bytes", "a CTA of that size")
