"""A small manifest and what signs it, for tests of the crowd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cmbench_crowd import manifest as m

ID = "0123456789ab4cde8f00112233445566"


def public_of(key: Ed25519PrivateKey) -> str:
    return m.key_text(key.public_key().public_bytes_raw())


def sample(key: Ed25519PrivateKey | None = None, **changes: Any) -> m.Manifest:
    """A manifest of level 3 with one file."""
    told = m.Manifest(
        id=ID,
        created="2026-11-23",
        consent=m.LOGS,
        key=public_of(key or Ed25519PrivateKey.generate()),
        system=m.System(cpu="Some CPU @ 2.60GHz", architecture="x86_64", cores=2, memory_gb=25.3),
        software=m.Software(os="Linux 6.1", versions={"onnxruntime": "1.32.0"}),
        workload=m.Workload(
            suite="mlperf-inference",
            round="5.1",
            benchmark="bert-99",
            model="bert-large",
            dataset="squad",
            scenario="Offline",
            mode="performance",
            division="closed",
            category="edge",
            precision="float32",
        ),
        config=m.Config(backend="onnxruntime", device="cpu", style="valid"),
        metrics=(m.Metric("result", 12.5, "samples/s"),),
        files=(m.File("performance-detail", "mlperf_log_detail.txt", "0" * 64, 10, "text/plain"),),
    )
    return replace(told, **changes)


def sign(key: Ed25519PrivateKey, data: bytes) -> str:
    return m.to_text(key.sign(data))
