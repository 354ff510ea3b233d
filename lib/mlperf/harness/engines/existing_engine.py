"""An existing engine that a run uses instead of building one."""

from __future__ import annotations

from pathlib import Path

from .. import records
from ..errors import HarnessError
from . import sidecar
from .sidecar import COMMAND, STAND_IN, Sidecar

FACTS_SUFFIX = ".model.json"
MODEL_FACTS = "model.json"


def model_facts_file(engine: Path) -> Path:
    """Return the file that describes an engine's model: ``FILE.model.json``, or ``model.json``.

    Raises HarnessError where there is neither, or the second is of another engine.
    """
    own, common = engine.with_name(f"{engine.name}{FACTS_SUFFIX}"), engine.with_name(MODEL_FACTS)
    if own.is_file():
        return own
    if common.is_file() and records.read_json(common).get("file") == engine.name:
        return common
    raise HarnessError(
        f"nothing describes the model of {engine}: {own.name} or {MODEL_FACTS} beside it",
        f"make it with them: `{COMMAND}`",
    )


def check_engine(engine: Path, backend: str, product: str) -> Sidecar:
    """Return the sidecar of an engine that ``backend`` can open.

    ``product`` builds and runs the engines of the backend tensorrt. Raises HarnessError where the
    engine was made for something else, or has been changed.
    """
    facts, opens = sidecar.read(engine), STAND_IN if backend == STAND_IN else product
    if facts.builder != opens:
        flag = (
            f"--backend={STAND_IN}" if facts.is_stand_in else f"--tensorrt_product={facts.builder}"
        )
        text = f"{engine.name} is of {facts.builder}, and {opens} is to open it"
        raise HarnessError(text, f"give {flag}, or another --engine_path")
    model_facts_file(engine)
    return facts


def greatest_batch(facts: Sidecar) -> int:
    """Return the most samples of a batch that an engine was built for; 0 where it does not say."""
    return max((shapes[-1][0] for shapes in facts.profiles.values() if shapes[-1]), default=0)
