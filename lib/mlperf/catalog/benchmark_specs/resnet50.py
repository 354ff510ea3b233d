"""ResNet-50 v1.5 on ImageNet."""

from ..benchmark import Alias, Assets, BenchmarkSpec, Limit, ModelSize, Period, Scratch, Target
from ..metrics import TOP1
from ..periods import queries, streams, test
from ..scenario import INTERACTIVE, SCENARIOS, SERVER

SPECS = (
    BenchmarkSpec(
        name="resnet50",
        checker_name="resnet",
        loaded_samples=1024,
        dataset_size=50000,
        offline_minimum=24576,
        accuracy=(Target(TOP1, 76.46),),
        edge=streams("0.5", "6.1"),
        datacenter=queries("0.5", "5.0"),
        both=(Period("5.1", "6.1", [each for each in SCENARIOS if each is not INTERACTIVE]),),
        limits={SERVER: Limit(15)},
        compliance=(test(1, "0.7", "6.1"), test(4, "0.7", "6.1"), test(5, "0.7", "4.1")),
        aliases=(Alias("resnet50-v1.5", vendor="Google"),),
        open_names=("*mobilenet*", "*efficientnet*", "*resnet50*", "resnet*"),
        module="image_classification:ImageClassification",
        assets=Assets(
            model="get,ml-model,resnet50,raw",
            data="get,preprocessed,dataset,imagenet,image-classification",
            model_name="resnet50",
            data_name="imagenet",
            by_hand=True,
        ),
        fastest="int8",
        size=ModelSize(parameters=26, sample_operations=7e9),
        scratch=Scratch(
            gigabytes=40,
            data="imagenet",
            models="ResNet50",
            preprocessed_data="imagenet",
            whole=(("data/imagenet", ".JPEG", 50_000),),
        ),
    ),
)
