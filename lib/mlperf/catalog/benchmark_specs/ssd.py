"""SSD-MobileNet and SSD-ResNet34 on COCO, the detectors until round 2.0."""

from dataclasses import replace

from ..benchmark import Alias, Assets, BenchmarkSpec, Limit, ModelSize, Scratch, Target
from ..metrics import MAP
from ..periods import queries, streams, test
from ..scenario import SERVER
from ..text_enums import Answers


def _assets(name: str) -> Assets:
    return Assets(
        model=f"get,ml-model,{name},raw",
        data=f"get,preprocessed,dataset,coco,object-detection,_for.{name}",
        model_name=name,
        data_name="coco",
        calibration="_calibration",
        packages=("pycocotools",),
    )


def _scratch(gigabytes: int, model: str) -> Scratch:
    return Scratch(
        gigabytes=gigabytes,
        data="coco",
        models=model,
        preprocessed_data=f"coco/val2017/{model}",
        whole=(("data/coco/val2017", ".jpg", 5000),),
    )


SMALL = BenchmarkSpec(
    name="ssd-mobilenet",
    checker_name="ssd-small",
    known_to_loadgen=False,
    loaded_samples=256,
    dataset_size=5000,
    offline_minimum=24576,
    accuracy=(Target(MAP, 22.0),),
    edge=streams("0.5", "2.0"),
    compliance=(test(1, "0.7", "2.0"), test(4, "0.7", "2.0"), test(5, "0.7", "2.0")),
    answers=Answers.VARIABLE,
    aliases=(Alias("ssd-small"),),
    module="detection:ObjectDetection",
    assets=_assets("ssd-mobilenet"),
    fastest="int8",
    size=ModelSize(parameters=6),
    scratch=_scratch(3, "SSDMobileNet"),
    open_names=(
        *("ssd_mobilenet*", "ssd_*_640x640", "*ssd-mobilenet*", "*ssd-resnet50*"),
        *("*ssdlite-mobilenet*", "*ssdlite*", "*ssd-inception*", "*yolo*"),
    ),
)
SPECS = (
    SMALL,
    replace(
        SMALL,
        name="ssd-resnet34",
        checker_name="ssd-large",
        loadgen_key="ssd-resnet34",
        loaded_samples=64,
        accuracy=(Target(MAP, 20.0),),
        datacenter=queries("0.5", "2.0"),
        limits={SERVER: Limit(100)},
        aliases=(Alias("ssd-large"),),
        assets=_assets("ssd-resnet34"),
        size=ModelSize(parameters=20),
        scratch=_scratch(25, "SSDResNet34"),
        open_names=("ssd_*_1024x1024", "rcnn-*-coco", "rcnn-*"),
    ),
)
