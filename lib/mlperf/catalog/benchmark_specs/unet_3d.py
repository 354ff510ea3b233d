"""3D U-Net: on KiTS19 since round 2.0, on BraTS 2019 before."""

from dataclasses import replace

from ..benchmark import (
    Alias,
    Assets,
    BenchmarkSpec,
    Change,
    ModelSize,
    Period,
    Scratch,
    Target,
    strict,
)
from ..metrics import DICE
from ..periods import STREAM, test
from ..scenario import OFFLINE
from ..text_enums import Answers

COUNTS = ("loaded_samples", "dataset_size", "accuracy_samples")
KITS = BenchmarkSpec(
    name="3d-unet-99",
    loadgen_key="3d-unet",
    dataset_size=43,
    accuracy=(Target(DICE, 0.8617),),
    edge=(Period("2.0", "6.1", STREAM),),
    datacenter=(Period("2.0", "6.1", (OFFLINE,)),),
    compliance=(test(1, "2.0", "6.1"), test(5, "2.0", "4.1")),
    test01_samples=64,
    equal_issue=True,
    answers=Answers.VARIABLE,
    changes=(
        Change("2.0", "2.0", {"accuracy": (Target(DICE, 0.86331),), **dict.fromkeys(COUNTS, 42)}),
        Change("2.1", "2.1", {"loaded_samples": 42}),
    ),
    module="segmentation:Segmentation",
    assets=Assets(
        model="get,ml-model,3d-unet,kits19,raw",
        data="get,preprocessed,dataset,medical-imaging,kits19",
        model_name="3d-unet",
        data_name="kits19",
        base="3d-unet_",
        by_hand=True,
    ),
    fastest="int8",
    size=ModelSize(parameters=19, sample_operations=1e12),
    scratch=Scratch(
        gigabytes=60, data="KiTS19", models="3d-unet-kits19", preprocessed_data="KiTS19"
    ),
)
BRATS = replace(
    KITS,
    name="3d-unet-brats-99",
    checker_name="3d-unet-brats-99",
    loadgen_key="3d-unet-brats",
    known_to_loadgen=False,
    loaded_samples=16,
    dataset_size=67,
    offline_minimum=24576,
    accuracy=(Target(DICE, 0.853),),
    edge=(Period("0.7", "1.1", STREAM),),
    datacenter=(Period("0.7", "1.1", (OFFLINE,)),),
    compliance=(test(1, "0.7", "1.1"), test(4, "0.7", "1.1"), test(5, "0.7", "1.1")),
    equal_issue=False,
    aliases=(Alias("3d-unet-99", "0.7", "1.1"), Alias("3d-unet", "0.7", "1.1", "NVIDIA")),
    changes=(),
    assets=Assets(
        model="get,ml-model,3d-unet-brats19,raw",
        data="get,preprocessed,dataset,medical-imaging,brats19",
        model_name="3d-unet-brats",
        data_name="brats19",
        base="3d-unet-brats_",
        by_hand=True,
    ),
    scratch=Scratch(
        gigabytes=40,
        data="BraTS",
        models="3d-unet",
        preprocessed_data="brats",
        # 335 cases, each with four images and a segmentation.
        whole=(("data/BraTS/MICCAI_BraTS_2019_Data_Training", ".nii.gz", 1675),),
    ),
)
SPECS = (KITS, strict(KITS), BRATS, strict(BRATS))
