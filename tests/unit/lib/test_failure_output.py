"""The cause in what programs of many kinds print, as recorded from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from common.failure_output import explained, first_cause, without_advice

GRAPH = """\
tuned on 16 cores: 171929 samples/s (1 x 1 threads, batch 64), 0.189 ms a sample
Offline performance: target 206314 samples/s (calibration)
mlperf.harness: Offline performance failed: running the model: AcceleratorError: CUDA error: \
operation failed due to a previous error during capture
Search for `cudaErrorStreamCaptureInvalidated' in https://docs.nvidia.com/cuda for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace \
below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
TORCH_MEMORY = """\
Traceback (most recent call last):
  File "/opt/run.py", line 12, in <module>
    y = model(x)
        ^^^^^^^^
  File "/opt/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total \
capacity of 79.10 GiB of which 3.20 GiB is free. Process 4711 has 75.80 GiB memory in use.
If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments
See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html)
"""
STATE_DICT = """\
Traceback (most recent call last):
  File "load.py", line 3, in <module>
RuntimeError: Error(s) in loading state_dict for ResNet:
\tMissing key(s) in state_dict: "fc.weight", "fc.bias".
\tsize mismatch for conv1.weight: copying a param with shape torch.Size([64, 3, 3, 3])

done with 1 error
"""
CHAINED = """\
Traceback (most recent call last):
  File "open.py", line 2, in read
FileNotFoundError: [Errno 2] No such file or directory: '/data/val_map.txt'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "open.py", line 9, in <module>
RuntimeError: the data set cannot be read
"""
DURING = """\
Traceback (most recent call last):
  File "a.py", line 2, in <module>
KeyError: 'nvidia'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 5, in <module>
AttributeError: module 'numpy' has no attribute 'bool'
"""
RANKS = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/train.py", line 40, in <module>
[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384
[rank1]: ncclUnhandledCudaError: Call to CUDA function failed.
[rank1]: Last error:
[rank1]: Cuda failure 2 'out of memory'
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
"""
NCCL = "node1:88:99 [0] init.cc:416 NCCL WARN Cuda failure 'CUDA driver version is insufficient'"
TENSORRT = """\
[11/27/2026-10:00:01] [TRT] [W] Using default for use_cuda_graph
[11/27/2026-10:00:02] [TRT] [E] IRuntime::deserializeCudaEngine: Error Code 1: Serialization \
(Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed.Version tag does not \
match.)
Traceback (most recent call last):
  File "engine.py", line 30, in <module>
AttributeError: 'NoneType' object has no attribute 'create_execution_context'
"""
TRTEXEC = """\
&&&& RUNNING TensorRT.trtexec [TensorRT v101300] # trtexec --onnx=m.onnx
[11/27/2026-10:00:02] [E] Error[2]: [graph.cpp::computeInputExecutionUses::549] Error Code 2
[11/27/2026-10:00:02] [E] Engine could not be created from network
&&&& FAILED TensorRT.trtexec [TensorRT v101300]
"""
ORT = """\
2026-11-27 10:00:00.123 [E:onnxruntime:Default, provider_bridge_ort.cc:1745 \
TryGetProviderInfo_CUDA] Failed to load library libonnxruntime_providers_cuda.so with error: \
libcublasLt.so.12: cannot open shared object file: No such file or directory
2026-11-27 10:00:00.124 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:870 \
CreateExecutionProviderInstance] Failed to create CUDAExecutionProvider.
asked for CUDAExecutionProvider, but the session uses CPUExecutionProvider
"""
ORT_FAIL = """\
Traceback (most recent call last):
  File "s.py", line 1, in <module>
onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : \
INVALID_ARGUMENT : Got invalid dimensions for input: ids for the following indices
 index: 1 Got: 128 Expected: 384
"""
CUDA_C = 'CUDA error at bench.cu:88 code=2(cudaErrorMemoryAllocation) "cudaMalloc(&p, n)"\n+ exit 1'
XID = """\
step 100
NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
RuntimeError: CUDA error: unspecified launch failure
"""
ROCM = """\
step 7
Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f1c. Reason: Unknown.
Failed to allocate file: No such file or directory
run.sh: line 3:  9001 Aborted                 (core dumped) python3 run.py
"""
HANG = """\
HW Exception by GPU node-1 (Agent handle: 0x55d0a0) reason :GPU Hang
run.sh: line 3:  9001 Aborted                 (core dumped) python3 run.py
"""
HIP = """\
Traceback (most recent call last):
  File "/opt/run.py", line 12, in <module>
torch.OutOfMemoryError: HIP out of memory. Tried to allocate 24.00 GiB. GPU 0 has a total \
capacity of 191.98 GiB of which 9.50 GiB is free.
If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments
"""
SYCL = """\
level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)
Traceback (most recent call last):
  File "/opt/run.py", line 12, in <module>
RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)
"""
INDUCTOR = """\
Traceback (most recent call last):
  File "/opt/torch/_inductor/runtime/triton_heuristics.py", line 430, in _precompile_config
triton.compiler.errors.CompilationError: at 7:11: unsupported AST node type: With

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/run.py", line 12, in <module>
torch._inductor.exc.InductorError: CompilationError: at 7:11: unsupported AST node type: With

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
GCC = """\
[ 10%] Building CXX object a.o
/src/a.cc: In function 'int main()':
/src/a.cc:14:3: error: 'loadgen' was not declared in this scope
   14 |   loadgen();
      |   ^~~~~~~
/src/a.cc:15:3: error: expected ';' before 'return'
gmake[2]: *** [CMakeFiles/a.dir/build.make:76: a.o] Error 1
gmake: *** [Makefile:91: all] Error 2
"""
LINKER = """\
/usr/bin/ld: main.o: in function `main':
main.c:(.text+0x5): undefined reference to `cudaMalloc'
collect2: error: ld returned 1 exit status
"""
LIBRARY = (
    "/usr/bin/ld: cannot find -lnvinfer: No such file\ncollect2: error: ld returned 1 exit status"
)
NVCC = "nvcc fatal   : Unsupported gpu architecture 'compute_35'\nmake: *** [Makefile:3: a] Error 1"
CMAKE = """\
-- The C compiler identification is GNU 12.2.0
CMake Error at CMakeLists.txt:5 (find_package):
  By not providing "FindTensorRT.cmake" in CMAKE_MODULE_PATH this project has
  asked CMake to find a package configuration file provided by "TensorRT", but

-- Configuring incomplete, errors occurred!
"""
PIP = """\
Collecting torch==99
ERROR: Could not find a version that satisfies the requirement torch==99 (from versions: 2.13.0)
ERROR: No matching distribution found for torch==99
"""
PIP_BUILD = """\
  Building wheel for pycocotools (pyproject.toml): started
  error: subprocess-exited-with-error

  x Building wheel for pycocotools (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [34 lines of output]
      running build_ext
      common/maskApi.c:8:10: fatal error: math.h: No such file or directory
      compilation terminated.
      error: command '/usr/bin/gcc' failed with exit code 1
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for pycocotools
ERROR: Could not build wheels for pycocotools, which is required to install pyproject.toml
"""
PIP_TRACE = """\
      Traceback (most recent call last):
        File "<string>", line 2, in <module>
        File "setup.py", line 4, in <module>
      ModuleNotFoundError: No module named 'numpy'
      [end of output]
error: metadata-generation-failed
"""
JAVA = """\
Exception in thread "main" java.lang.RuntimeException: the server did not start
\tat com.example.Main.main(Main.java:9)
Caused by: java.io.IOException: the port is in use
\tat com.example.Server.bind(Server.java:31)
Caused by: java.net.BindException: Address already in use
\t... 2 more
"""
BASH = "+ unzip data.zip\nrun.sh: line 12: unzip: command not found\nends with 127"
KILLED = "loading 400 GB\nrun.sh: line 3:  9001 Killed                  python3 big.py"
SEGFAULT = "started\nrun.sh: line 3:  9001 Segmentation fault      (core dumped) ./tool"
TERMINATE = """\
terminate called after throwing an instance of 'std::bad_alloc'
  what():  std::bad_alloc
run.sh: line 3:  9001 Aborted                 (core dumped) ./tool
"""
LOADER = (
    "./trtexec: error while loading shared libraries: libnvinfer.so.10: cannot open shared object"
)
IGNORED = """\
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "pool.py", line 1, in __del__
OSError: [Errno 9] Bad file descriptor
fatal: the model has no output
"""
APT = "Reading package lists...\nE: Could not get lock /var/lib/dpkg/lock-frontend"
GIT = "Cloning into 'inference'...\nfatal: unable to access 'https://example.org/': no host"
CURL = "  % Total\ncurl: (6) Could not resolve host: example.org\n+ echo done"

RECORDED = {
    "cuda-graph": (GRAPH, ["during capture"]),
    "torch-memory": (TORCH_MEMORY, ["torch.OutOfMemoryError: CUDA out of memory. Tried"]),
    "torch-state": (STATE_DICT, ["RuntimeError: Error(s)", "Missing key(s)", "size mismatch"]),
    "chained": (CHAINED, ["FileNotFoundError: [Errno 2]", "RuntimeError: the data set"]),
    "during": (DURING, ["KeyError: 'nvidia'", "AttributeError: module 'numpy'"]),
    "torchrun": (RANKS, ["DistBackendError: NCCL", "ncclUnhandledCudaError", "Last", "'out of"]),
    "nccl": (NCCL, ["CUDA driver version is insufficient"]),
    "tensorrt": (TENSORRT, ["Version tag does not match", "AttributeError: 'NoneType'"]),
    "trtexec": (TRTEXEC, ["Error[2]: [graph.cpp"]),
    "onnxruntime": (ORT, ["libcublasLt.so.12: cannot open"]),
    "onnxruntime-call": (ORT_FAIL, ["INVALID_ARGUMENT", "Got: 128 Expected: 384"]),
    "cuda-c": (CUDA_C, ["cudaErrorMemoryAllocation"]),
    "xid": (XID, ["fallen off the bus"]),
    "rocm": (ROCM, ["Memory access fault by GPU node-1"]),
    "hang": (HANG, ["reason :GPU Hang"]),
    "hip": (HIP, ["torch.OutOfMemoryError: HIP out of memory. Tried"]),
    "sycl": (SYCL, ["level_zero backend", "RuntimeError: level_zero backend"]),
    "inductor": (
        INDUCTOR,
        ["triton.compiler.errors.CompilationError", "_inductor.exc.InductorErr"],
    ),
    "gcc": (GCC, ["a.cc:14:3: error: 'loadgen' was not declared"]),
    "linker": (LINKER, ["undefined reference to `cudaMalloc'"]),
    "library": (LIBRARY, ["cannot find -lnvinfer"]),
    "nvcc": (NVCC, ["Unsupported gpu architecture"]),
    "cmake": (CMAKE, ["CMake Error at CMakeLists.txt:5", "By not providing", "asked CMake"]),
    "pip": (PIP, ["Could not find a version", "No matching distribution"]),
    "pip-build": (PIP_BUILD, ["math.h: No such file"]),
    "pip-trace": (PIP_TRACE, ["ModuleNotFoundError: No module named 'numpy'"]),
    "java": (JAVA, ["BindException: Address already", 'thread "main" java.lang.RuntimeException']),
    "bash": (BASH, ["unzip: command not found"]),
    "killed": (KILLED, ["Killed"]),
    "segfault": (SEGFAULT, ["Segmentation fault"]),
    "terminate": (TERMINATE, ["terminate called", "what():  std::bad_alloc"]),
    "loader": (LOADER, ["libnvinfer.so.10: cannot open"]),
    "ignored": (IGNORED, ["fatal: the model has no output"]),
    "apt": (APT, ["E: Could not get lock"]),
    "git": (GIT, ["fatal: unable to access"]),
    "curl": (CURL, ["curl: (6) Could not resolve host"]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_cause_is_found_by_kind(name: str) -> None:
    output, expected = RECORDED[name]
    cause = first_cause(output.splitlines())
    assert len(cause) == len(expected), cause
    for line, part in zip(cause, expected, strict=True):
        assert part in line


@pytest.mark.parametrize(
    "output",
    ["", "line 39\nline 40", "0 errors, 3 warnings", "Result is : VALID", "error rate 0.1 %"]
    + ["CUDA error correction is on", "Accuracy: 76.46 of 76.456", "ERRORS: none"],
)
def test_ordinary_output_has_no_cause(output: str) -> None:
    assert first_cause(output.splitlines()) == ()
    assert explained(output.splitlines(), 15) == tuple(output.splitlines())


def test_the_cause_comes_above_the_last_lines() -> None:
    lines = ["a.c:1:1: error: no such thing", *(f"line {n}" for n in range(40))]
    assert explained(lines, 3) == ("a.c:1:1: error: no such thing", "line 37", "line 38", "line 39")


def test_a_traceback_stays_whole() -> None:
    lines = TORCH_MEMORY.splitlines()[:-2]
    assert explained(lines, 15) == tuple(lines)
    chained = CHAINED.splitlines()
    assert explained(chained, 15) == (*first_cause(chained), *chained)


def test_what_torch_adds_to_every_error_is_left_out() -> None:
    lines = explained(GRAPH.splitlines(), 15)
    assert "during capture" in lines[-1]
    assert not [line for line in lines if "TORCH_USE_CUDA_DSA" in line]
    message = "CUDA error: unspecified launch failure\nCompile with `TORCH_USE_CUDA_DSA` to enable"
    assert without_advice(message) == "CUDA error: unspecified launch failure"


def test_what_real_programs_print(tmp_path: Path) -> None:
    program = tmp_path / "a.py"
    program.write_text(
        "try:\n    {}['gpu']\nexcept KeyError as e:\n    raise OSError('off') from e\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert first_cause(done.stderr.splitlines()) == ("KeyError: 'gpu'", "OSError: off")
    done = subprocess.run(
        ["bash", "-c", "no_such_program_here 2>&1; kill -SEGV $$"], capture_output=True, text=True
    )
    assert "no_such_program_here" in first_cause(done.stdout.splitlines())[0]
