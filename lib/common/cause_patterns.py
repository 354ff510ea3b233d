"""How programs of different kinds report why they failed, as data for ``failure_output``.

Patterns are matched line by line, after indentation and the marks of pip's and torch's boxes have
been removed. A row is tried in the order of the tables.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class CausePattern(NamedTuple):
    """A line that names a cause. ``more`` is how many lines below it belong to it at most."""

    kind: str
    line: re.Pattern[str]
    more: int = 0


def _row(kind: str, line: str, more: int = 0) -> CausePattern:
    return CausePattern(kind, re.compile(line), more)


LEAD = re.compile(r"^(?:\[rank\d+\]: ?|[│|╰>─]+ ?)")
"""The marks that launchers of torch and pip put in front of the lines of another program."""

TRACEBACK = re.compile(r"^\s*Traceback \(most recent call last\):")
CHAINED = re.compile(r"^(The above exception was the direct cause|During handling of the above)")
ENDED = re.compile(r"^\[end of output\]")
IGNORED = re.compile(r"^Exception ignored in")
"""What precedes a traceback that ends nothing."""

ACCELERATORS = (
    _row("kernel", r"NVRM: Xid|GPU has fallen off the bus"),
    _row("tensorrt", r"\[(?:TRT|TensorRT)\].*\[E\]|\[E\] .*Error|\[E\] \["),
    _row("onnxruntime", r"\[[EF]:onnxruntime:"),
    _row("nccl", r"NCCL WARN (?!.*(?:NET/|Failed to open libibverbs|is deprecated))"),
    _row(
        "cuda",
        r"(?i)^(?:\S+: )?cuda (?:runtime |driver )?(?:error|failure)(?:: | at | ?\d| ?\()"
        r"|^(?!.*(?:Error|Exception): )(?!Search for ).*\bcudaError(?!_t)[A-Z]\w+",
    ),
    _row(
        "rocm",
        r"^(?:\S+: )?HIP (?:runtime )?(?:error|failure)(?::| at )|^Memory access fault by GPU node"
        r"|^HW Exception by GPU node|\bHSA_STATUS_ERROR_\w+|^:\d:\S+\s*: .*\bhipError\w+",
    ),
    _row("sycl", r"^(?!.*(?:Error|Exception): ).*\b(?:UR_RESULT|PI|ZE_RESULT)_ERROR_[A-Z]\w+"),
    _row("neuron", r"\bnrt_init\b.*failed|\[(?:NRT|NEFF)\].*ERROR|ERROR\s+(?:TDRV|NMGR|NRT):"),
)
"""Libraries of accelerators: they write to the console before an exception reaches anybody."""

CERTAIN = (
    *ACCELERATORS,
    # Compilers, linkers and what calls them.
    _row("compiler", r"^[^\s:]+[:(]\d+(?:[:,]\d+)?\)?: (?:fatal |catastrophic )?error\b"),
    _row(
        "compiler", r"^(?:clang|cc1\w*|gcc|g\+\+|c\+\+|nvcc|icpx|rustc)\b.{0,20}(?:error|fatal)\s*:"
    ),
    _row("compiler", r"^error(?:\[E\d+\]): "),
    _row("linker", r"undefined reference to|\bld\S*: (?:cannot find|error:|.*undefined symbol)"),
    _row("cmake", r"^CMake Error\b", more=3),
    _row("configure", r"^configure: error: "),
    # The system.
    _row(
        "memory",
        r"(?i)oom[-_]kill|out of memory: killed process|\bKilled(?:$|  )",
    ),
    _row("loader", r"error while loading shared libraries: |symbol lookup error: "),
    _row("abort", r"^terminate called |^libc\+\+abi: terminating", more=1),
    _row("abort", r"^(?:double free or corruption|free\(\): invalid|malloc\(\): |corrupted size)"),
    _row("disk", r"No space left on device|Disk quota exceeded"),
    # Programs of other languages, and pip.
    _row(
        "pip",
        r"^ERROR: (?!Failed building wheel|Could not build wheels|Exception:|Failed to build)",
        more=1,
    ),
    _row(
        "java",
        r'^(?:Exception in thread "[^"]*" )?(?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)\b',
    ),
    _row("bash", r"^\S+: line \d+: (?!\s*\d+ (?:Aborted|Segmentation|Bus|Illegal|Floating))"),
    _row("bash", r"^(?:ba|da|z)?sh: (?:\d+: )?\S+: "),
)
"""Lines that name a cause wherever they are; the first one in the output counts."""

SIGNALS = (
    _row("signal", r"^Fatal Python error: "),
    _row(
        "signal", r"(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception)"
    ),
    _row("signal", r"\bAborted\b(?: \(core dumped\))?"),
)
"""Lines that count only for a program that gave no other reason."""

LIKELY = (
    _row("exception", r"(?:^|: )(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b: "),
    _row("word", r"^(?:\S+: )?(?i:fatal|error|panic|e)(?:\s?\[[\w-]+\])?: \S"),
    _row("word", r"^(?:\[[^\]]*\] ?)*(?:\S+ )?\[?(?:ERROR|FATAL|CRITICAL)\]?\b[: ]"),
    _row("word", r"^curl: \(\d+\) |^(?:docker|podman): Error response"),
)
"""Lines that are taken for the cause where nothing certain is among them."""

ROOT_OF_JAVA = re.compile(r"^Caused by: ")

CONSEQUENCE = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|^(?:g?make|ninja)\b.*(?:\*\*\*|stopped)"
    r"|collect2: error: ld returned|command '\S+' failed with exit (?:code|status)"
    r"|Failed building wheel|Failed to build|This error originates from a subprocess"
    r"|CalledProcessError|ChildFailedError|Configuring incomplete"
)
"""Lines of programs that only say that another one has failed."""

ADVICE = re.compile(
    r"^(?:Search for `\w+'|CUDA kernel errors might be|For debugging consider passing"
    r"|Compile with `TORCH_USE_CUDA_DSA|Device-side assertions were|If reserved but unallocated"
    r"|See documentation for Memory Management|Exception raised from |C\+\+ CapturedCallStack"
    r"|frame #\d+|CUDA API call was )"
)
"""What torch adds below each of its errors, whatever the cause."""
