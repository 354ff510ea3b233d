"""Accuracy metrics: their names, here and in the official checker, and their patterns in logs.

``pattern`` finds the figure in accuracy.txt, as the reference implementations write that file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"'?([\d.]+)'?"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of accuracy in ``unit``; ``pattern`` has one group, the number."""

    name: str
    checker_name: str
    unit: str
    pattern: str

    def find(self, text: str) -> float | None:
        """Return the figure in the text of an accuracy.txt, in ``unit``, or None."""
        match = re.search(self.pattern, text, re.MULTILINE)
        return float(match.group(1)) if match else None


def _quoted(name: str, key: str, checker_name: str, unit: str = "") -> Metric:
    return Metric(name, checker_name, unit, rf"'{key}':\s*{NUMBER}")


TOP1 = Metric("top-1", "acc", "%", r"^accuracy=(-?[\d.]+)%?")
NODE_ACCURACY = Metric("accuracy", "acc", "", r"^(?:\{\"accuracy|accuracy)[\": ]*=?\s*([\d.]+)")
# No more and no less than the two figures.
_SQUAD = r"^\{[\"']exact_match[\"']:\s*[\d.]+,\s*[\"']f1[\"']:\s*([\d.]+)\}"
F1 = Metric("F1", "F1", "%", _SQUAD)
DICE = Metric("mean DICE", "DICE", "", r"Accuracy:\s*mean\s*=\s*([\d.]+)")
MAP = Metric("mAP", "mAP", "%", r"(?:mAP=|'Total':\s*)([\d.]+)")
WORD_ACCURACY = Metric("word accuracy", "ACCURACY", "%", r"Word Error Rate:.*accuracy=(-?[\d.]+)%")
AUC = Metric("AUC", "AUC", "%", r"^AUC=([\d.]+)")
ROUGE1 = _quoted("ROUGE-1", "rouge1", "ROUGE1")
ROUGE2 = _quoted("ROUGE-2", "rouge2", "ROUGE2")
ROUGE_L = _quoted("ROUGE-L", "rougeL", "ROUGEL")
ROUGE_LSUM = _quoted("ROUGE-Lsum", "rougeLsum", "ROUGELSUM")
GEN_LEN = _quoted("gen_len", "gen_len", "GEN_LEN", "tokens")
TOKENS_PER_SAMPLE = _quoted("tokens_per_sample", "tokens_per_sample", "TOKENS_PER_SAMPLE", "tokens")
EXACT_MATCH = _quoted("exact match", "exact_match", "exact_match", "%")
GSM8K = _quoted("gsm8k", "gsm8k", "gsm8k_accuracy", "%")
MBXP = _quoted("mbxp", "mbxp", "mbxp_accuracy", "%")
CLIP = _quoted("CLIP score", "CLIP_SCORE", "CLIP_SCORE")
FID = _quoted("FID score", "FID_SCORE", "FID_SCORE")
VBENCH = _quoted("VBench score", "vbench_score", "vbench_score")
HIERARCHICAL_F1 = Metric("hierarchical F1", "F1_HIERARCHICAL", "", r'\{.*"f1":\s*([\d.]+)')
END_TO_END = Metric("answers", "E2E_ACCURACY", "%", r"Accuracy:\s*([\d.]+)")
NE = Metric("NE", "DLRM_NE", "", r"metric/lifetime_ne/rating:\s*([\d.]+)")
RATING_ACCURACY = Metric("accuracy", "DLRM_ACC", "", r"metric/lifetime_accuracy/rating:\s*([\d.]+)")
GAUC = Metric("gAUC", "DLRM_AUC", "", r"metric/lifetime_gauc/rating:\s*([\d.]+)")
