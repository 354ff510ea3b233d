"""One module for each benchmark, imported when it is asked for.

``NAMES`` are the names of each module's ``SPECS``.

Sources, where a module names no other: the settings of each round's official submission checker,
LoadGen's mlperf.conf, and the audit.config files of the compliance tests (mlcommons/inference).
"""

NAMES = {
    "bert": (
        "bert-99",
        "bert-99.9",
    ),
    "deepseek_r1": ("deepseek-r1",),
    "dlrm": (
        "dlrm-99",
        "dlrm-99.9",
        "dlrm-v2-99",
        "dlrm-v2-99.9",
    ),
    "dlrm_v3": ("dlrm-v3",),
    "e2e_rag": (
        "e2e-rag-qna",
        "e2e-rag-db",
    ),
    "gpt_oss": ("gpt-oss-120b",),
    "gptj": (
        "gptj-99",
        "gptj-99.9",
        "gpt3-99",
        "gpt3-99.9",
    ),
    "llama2_70b": (
        "llama2-70b-99",
        "llama2-70b-99.9",
        "llama2-70b-interactive-99",
        "llama2-70b-interactive-99.9",
    ),
    "llama3_1_405b": ("llama3.1-405b",),
    "llama3_1_8b": (
        "llama3.1-8b",
        "llama3.1-8b-edge",
    ),
    "mixtral": ("mixtral-8x7b",),
    "pointpainting": ("pointpainting",),
    "qwen": (
        "qwen3-vl-235b-a22b",
        "qwen3.6-27b",
    ),
    "resnet50": ("resnet50",),
    "retinanet": ("retinanet",),
    "rgat": ("rgat",),
    "rnnt": ("rnnt",),
    "ssd": (
        "ssd-mobilenet",
        "ssd-resnet34",
    ),
    "stable_diffusion_xl": ("stable-diffusion-xl",),
    "unet_3d": (
        "3d-unet-99",
        "3d-unet-99.9",
        "3d-unet-brats-99",
        "3d-unet-brats-99.9",
    ),
    "wan": ("wan-2.2-t2v-a14b",),
    "whisper": ("whisper",),
    "yolo": (
        "yolo-95",
        "yolo-99",
    ),
}
