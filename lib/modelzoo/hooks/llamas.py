"""What the scripts of MLPerf's Llamas share: the tiny one, one made here, or a checkpoint.

The env keys of a script are those of its model, ``LLAMA3_CHECKPOINT_PATH`` and
``CM_LLAMA3_LAYERS``; its ``program.sh`` starts the program that a hook names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from common.problems import Problem, bad_value
from modelzoo import tokenizer_files
from modelzoo.hooks import datasets, hugging_face, ml_models
from modelzoo.hooks.native import run_program
from modelzoo.llama.published import PublishedLlama

# Memory of a run in addition to the weights: the cache of some requests at a time.
CACHE = 2_000_000_000
PROGRAM = "CM_LLAMA_PROGRAM"
HUGGING_FACE = "huggingface"
YES = ("yes", "true", "on", "1")


class CapacityChecks(Protocol):
    """The engine's checks that a model fits, as a script passes them."""

    def check_memory(self, env: Mapping[str, Any], what: str, needed: int, hint: str) -> None:
        """Raise Problem unless this machine has ``needed`` bytes."""

    def check_disk(self, env: Mapping[str, Any], what: str, needed: int, folder: str) -> None:
        """Raise Problem unless the disk of ``folder`` has ``needed`` bytes free."""

    def size_of_files(self, folder: str) -> int:
        """Return the bytes of the files in ``folder``."""


@dataclass(frozen=True, slots=True)
class LlamaHooks:
    """The hooks of the script that provides ``model``."""

    model: PublishedLlama
    capacity: CapacityChecks

    @property
    def checkpoint_key(self) -> str:
        """Return the env key of the folder of the checkpoint."""
        return f"{self.model.checkpoint.upper()}_CHECKPOINT_PATH"

    def value(self, env: Mapping[str, Any], name: str) -> str:
        """Return an input of the script."""
        return str(env.get(f"CM_{self.model.checkpoint.upper()}_{name}") or "")

    def refuse(self, i: dict[str, Any]) -> dict[str, Any]:
        """Refuse a checkpoint that can only be had with permission; called by ``cm plan`` too."""
        env = i["env"]
        if not env.get("CM_ML_MODEL_FORM") and not env.get(self.checkpoint_key):
            self.require_permission(env)
        return {"return": 0}

    def require_permission(self, env: Mapping[str, Any]) -> None:
        """Raise Problem where a checkpoint is to be fetched that nobody may have without asking."""
        name, model = env["CM_ML_MODEL_NAME"], self.model
        if env.get("CM_DOWNLOAD_SRC") != HUGGING_FACE or name != model.name:
            raise Problem(
                "needs-input",
                f"{name} is only for those whom Meta and MLCommons have let in: "
                "no --checkpoint=FOLDER",
                hint=f"{hugging_face.acceptance(model.repository)} and add _hf (only "
                f"{model.name}), or fetch it from MLCommons ({model.page}) and give "
                "--checkpoint=FOLDER; _tiny needs neither",
            )
        if not hugging_face.has_token(env):
            raise hugging_face.no_token(name, model.repository)

    def preprocess(self, i: dict[str, Any]) -> dict[str, Any]:
        """Put a model into the cache entry, or check what is to be converted."""
        env = i["env"]
        form = env.get("CM_ML_MODEL_FORM")
        if form == ml_models.SYNTHETIC:
            return self._synthetic(i)
        if form:
            return ml_models.prepare(i, self.value(env, "RETRAIN") or "no")
        self.refuse(i)
        env["CM_LLAMA_CONVERT"] = "no" if env["CM_ML_MODEL_FRAMEWORK"] == "pytorch" else "yes"
        if env.get(self.checkpoint_key):
            return self._own_checkpoint(env)
        needed = 2 * self.model.weight_bytes(self.model.size.layers)
        what = f"{self.model.name}, fetched and converted,"
        self.capacity.check_disk(env, what, needed, os.getcwd())
        env["CM_LLAMA_FETCH"] = "yes"
        return {"return": 0}

    def _own_checkpoint(self, env: dict[str, Any]) -> dict[str, Any]:
        """Check the user's checkpoint."""
        folder = os.path.abspath(os.path.expanduser(env[self.checkpoint_key]))
        config = os.path.join(folder, "config.json")
        if not os.path.isfile(config):
            hint = "give the folder of the checkpoint, with config.json in it"
            raise Problem("model-file", f"there is no {config}", hint=hint)
        if env["CM_LLAMA_CONVERT"] == "yes":
            size = self.capacity.size_of_files(folder)
            self.capacity.check_disk(env, "the converted Llama", size, os.getcwd())
        env[self.checkpoint_key] = folder
        tokenizer = os.path.join(folder, tokenizer_files.FILE)
        has_tokenizer = os.path.isfile(tokenizer)
        if env["CM_LLAMA_CONVERT"] == "yes" and not has_tokenizer:
            hint = (
                "give the folder of a checkpoint in Hugging Face's form, with tokenizer.json in it"
            )
            raise Problem("model-file", f"there is no {tokenizer}", hint=hint)
        return {"return": 0, "relies_on": [config, *([tokenizer] if has_tokenizer else [])]}

    def _synthetic(self, i: dict[str, Any]) -> dict[str, Any]:
        """Build one with the requested number of layers."""
        env, most = i["env"], self.model.size.layers
        layers = self.value(env, "LAYERS")
        if not layers.isdigit() or not 1 <= int(layers) <= most:
            raise bad_value(f"--layers={layers}: a number from 1 to {most} is needed")
        needed = self.model.weight_bytes(int(layers))
        key = f"CM_{self.model.checkpoint.upper()}_LAYERS"
        hint = f"build fewer layers, for example --env.{key}=2 (the result says so)"
        what = f"Llama with {layers} layers"
        self.capacity.check_memory(env, what, needed + CACHE, hint)
        self.capacity.check_disk(env, what, needed, os.getcwd())
        return self._run(i, "synthetic", ["--layers", layers, "--out", os.getcwd()])

    def postprocess(self, i: dict[str, Any]) -> dict[str, Any]:
        """Fetch and convert a checkpoint, verify the files and export them."""
        env = i["env"]
        if not env.get("CM_ML_MODEL_FORM"):
            self._take_checkpoint(i)
        pytorch = env.get("CM_ML_MODEL_FRAMEWORK") == ml_models.PYTORCH
        name = "model-pytorch.json" if pytorch else ml_models.MODEL_FACTS
        facts = ml_models.offer(env, os.getcwd(), name)
        return {"return": 0, "version": facts["sha256"][:12]}

    def _take_checkpoint(self, i: dict[str, Any]) -> None:
        env = i["env"]
        if env.get("CM_LLAMA_FETCH"):
            env[self.checkpoint_key] = os.path.join(os.getcwd(), "checkpoint")
            token_file = str(env.get(hugging_face.TOKEN_FILE_KEY) or "")
            words = ["--token-file", token_file] if token_file else []
            self._run(i, "fetch", [*words, "--out", env[self.checkpoint_key]])
        folder = env[self.checkpoint_key]
        words = ["--checkpoint", folder, "--framework", env["CM_ML_MODEL_FRAMEWORK"]]
        words += ["--other-size"] if self.value(env, "OTHER_SIZE").lower() in YES else []
        self._run(i, "convert", [*words, "--out", os.getcwd()])
        env[f"CM_ML_MODEL_{self.checkpoint_key}"] = folder
        env["CM_ML_MODEL_TOKENIZER_PATH"] = folder

    def _run(self, i: dict[str, Any], program: str, words: list[str]) -> dict[str, Any]:
        i["env"][PROGRAM] = program
        datasets.write_arguments(i["env"], ["--model", self.model.checkpoint, *words])
        return run_program(i, "program")
