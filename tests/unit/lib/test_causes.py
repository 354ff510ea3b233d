"""The table of known causes: each entry finds its own real output, and none hides another."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmbench.lib import causes

TABLE = causes.known_causes()


def test_there_are_enough_and_each_is_named_once() -> None:
    names = [cause.name for cause in TABLE]
    assert len(names) >= 40
    assert len(names) == len(set(names))


@pytest.mark.parametrize("cause", TABLE, ids=[cause.name for cause in TABLE])
def test_each_cause_is_the_one_found_for_its_own_output(cause: causes.FailureCause) -> None:
    found = causes.find_cause(cause.seen)
    assert found is not None
    assert found.name == cause.name
    among = causes.find_cause(f"Collecting things\n{cause.seen}\n+ exit 1")
    assert among is not None
    assert among.name == cause.name


@pytest.mark.parametrize("cause", TABLE, ids=[cause.name for cause in TABLE])
def test_texts_read_well_in_one_sentence(cause: causes.FailureCause) -> None:
    assert cause.cause
    assert cause.remedy
    assert not cause.cause.endswith(".")
    assert not cause.remedy.endswith(".")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "all 12 tests passed",
        "Result is : VALID",
        "downloading 404 files of 1403",
        "epoch 401 of 403, loss 0.404",
        "WARNING: no checksum was given",
    ],
)
def test_ordinary_output_has_no_known_cause(output: str) -> None:
    assert causes.remedy(output) == ""


def test_the_log_of_the_last_step_is_searched_and_no_other(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(
        "== top > first\nOSError: [Errno 28] No space left on device\n"
        "== first: done in 0.10 s\n== top > second\nModuleNotFoundError: No module named 'six'\n"
        + "line\n" * 30
        + "== second: failed in 0.20 s\n== top: failed in 0.31 s\n"
    )
    assert "lacks a package" in causes.remedy_in_log(str(log))
    assert causes.remedy_in_log(str(tmp_path / "none")) == ""


ON_A_GPU = {
    "RuntimeError: CUDA error: out of memory": "gpu-memory",
    "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : "
    "RUNTIME_EXCEPTION : BFCArena::AllocateRawInternal(size_t) Failed to allocate memory for "
    "requested buffer of size 4194304": "gpu-memory",
    "[TRT] [E] [defaultAllocator.cpp::allocate::19] Error Code 1: Cuda Runtime (out of memory)\n"
    "[TRT] [W] Requested amount of GPU memory (8 bytes) could not be allocated. CUDA failure: out "
    "of memory": "gpu-memory",
    "[TRT] [E] OutOfMemory (Requested size was 21474836480 bytes.)": "gpu-memory",
    "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 79.10 GiB of which "
    "3.20 GiB is free. Process 12 has 75.80 GiB memory in use.": "gpu-memory-of-others",
    "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable":
    "gpu-taken",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please "
    "update your GPU driver": "driver-too-old",
    "Error 803: system has unsupported display driver / cuda driver combination": "driver-too-old",
    "Unable to determine the device handle for GPU0: 0000:65:00.0: Unknown Error": "gpu-lost",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered": "gpu-lost",
    "RuntimeError: CUDA error: invalid device ordinal": "gpu-not-there",
    "CUDA_VISIBLE_DEVICES=MIG-1: MIG-1 names no GPU here": "gpu-not-there",
    "RuntimeError: No CUDA GPUs are available": "no-cuda-device",
    "[E:onnxruntime:Default, provider_bridge_ort.cc:1745 TryGetProviderInfo_CUDA] Failed to load "
    "library libonnxruntime_providers_cuda.so with error: libcudnn.so.9: cannot open shared object "
    "file\nasked for CUDAExecutionProvider, but the session uses CPUExecutionProvider":
    "onnxruntime-cuda",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 24.00 GiB.": "gpu-memory",
    "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 24.00 GiB.": "gpu-memory",
    "RuntimeError: level_zero backend failed with error: 39 "
    "(UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)": "gpu-memory",
    "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)":
    "gpu-memory",
    "HW Exception by GPU node-1 (Agent handle: 0x55d0a0) reason :GPU Hang": "gpu-lost",
    "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)": "gpu-lost",
    "RuntimeError: HIP error: invalid device function": "unsupported-gpu",
    "\"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!\"":
    "unsupported-gpu",
    "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:": "torch-compile",
    "ptxas fatal   : Unresolved extern function 'x'": "torch-compile",
    "Require cuDNN 9.* and CUDA 12.*, and the latest MSVC runtime": "onnxruntime-cuda",
    # Each alone, without a line of the same library that says more.
    "[TRT] [E] [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)":
    "gpu-memory",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc "
    "failed: out of memory": "gpu-memory",
    "[GPU] clEnqueueWriteBuffer, error code: -4 CL_MEM_OBJECT_ALLOCATION_FAILURE": "gpu-memory",
    "ValueError: No available memory for the cache blocks. Try increasing "
    "`gpu_memory_utilization` when initializing the engine.": "gpu-memory",
    "torch.AcceleratorError: CUDA error: unspecified launch failure\nCompile with "
    "`TORCH_USE_CUDA_DSA` to enable device-side assertions.": "gpu-fault",
    "CUDA error: an illegal memory access was encountered": "gpu-fault",
    "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution":
    "gpu-fault",
    "CUDA failure 719: unspecified launch failure ; GPU=0 ; hostname=n": "gpu-fault",
    "CUDA error: the provided PTX was compiled with an unsupported toolchain.": "driver-too-old",
    "[TRT] [E] createInferRuntime: Error Code 6: Internal Error (CUDA initialization failure with "
    "error: 35.)": "driver-too-old",
}  # fmt: skip


@pytest.mark.parametrize("output", ON_A_GPU)
def test_what_goes_wrong_on_a_gpu_has_one_cause(output: str) -> None:
    cause = causes.find_cause(output)
    assert cause is not None
    assert cause.name == ON_A_GPU[output]
