"""RetinaNet (ResNeXt-50) on OpenImages."""

from ..benchmark import Alias, Assets, BenchmarkSpec, Limit, ModelSize, Period, Scratch, Target
from ..metrics import MAP
from ..periods import STREAMS, queries, streams, test
from ..scenario import SERVER
from ..text_enums import Answers

SPECS = (
    BenchmarkSpec(
        name="retinanet",
        loaded_samples=64,
        dataset_size=24781,
        offline_minimum=24576,
        accuracy=(Target(MAP, 37.55),),
        edge=streams("2.1", "5.1"),
        datacenter=queries("2.1", "5.1"),
        both=(Period("6.0", "6.0", (*STREAMS, SERVER)),),
        limits={SERVER: Limit(100)},
        compliance=(test(1, "2.1", "6.0"), test(5, "2.1", "4.1")),
        test01_samples=256,
        answers=Answers.VARIABLE,
        aliases=(Alias("ssd-resnet34", "2.1"),),
        module="detection:ObjectDetection",
        assets=Assets(
            model="get,ml-model,retinanet,raw",
            data="get,preprocessed,dataset,openimages,object-detection",
            model_name="retinanet",
            data_name="openimages",
            calibration="_calibration",
            packages=("pycocotools",),
        ),
        fastest="int8",
        size=ModelSize(parameters=38, sample_operations=1.5e11),
        scratch=Scratch(
            gigabytes=60,
            data="open-images-v6-mlperf",
            models="retinanet-resnext50-32x4d",
            preprocessed_data="open-images-v6-mlperf",
        ),
    ),
)
