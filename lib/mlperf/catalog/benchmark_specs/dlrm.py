"""DLRM on Criteo's terabyte of clicks, with one index for a feature (v1) or several (v2)."""

from dataclasses import replace

from ..benchmark import (
    Alias,
    Assets,
    BenchmarkSpec,
    Limit,
    ModelSize,
    Need,
    Scratch,
    Target,
    strict,
)
from ..metrics import AUC
from ..periods import queries, test
from ..scenario import SERVER
from ..text_enums import Answers

CAPPED = "run its synthetic form with capped tables, or the tiny one"


def _assets(version: int, model: str, data: str) -> Assets:
    return Assets(
        model=f"get,ml-model,dlrm,terabyte,{model}",
        data=f"get,preprocessed,dataset,criteo,{data}",
        model_name="dlrm",
        data_name="criteo",
        base=f"dlrm-v{version}_",
    )


V1 = BenchmarkSpec(
    name="dlrm-99",
    loadgen_key="dlrm",
    known_to_loadgen=False,
    loaded_samples=204800,
    dataset_size=330067,
    offline_minimum=24576,
    accuracy=(Target(AUC, 80.25),),
    datacenter=queries("0.7", "3.0"),
    limits={SERVER: Limit(30)},
    compliance=(test(1, "0.7", "3.0"), test(5, "0.7", "3.0")),
    answers=Answers.VARIABLE,
    module="recommendation:Recommendation",
    assets=_assets(1, "_onehot", "_onehot"),
    fastest="bfloat16",
    size=ModelSize(parameters=24_060),
    scratch=Scratch(
        gigabytes=1200,
        data="criteo",
        models="dlrm",
        preprocessed_data="criteo",
        memory=40,
        # day_0 to day_23
        whole=(("data/criteo", "", 24),),
    ),
    memory={"full": Need(98_000_000_000, CAPPED)},
)
V2 = replace(
    V1,
    name="dlrm-v2-99",
    checker_name="dlrm-v2-99",
    loadgen_key="dlrm-v2",
    known_to_loadgen=True,
    accuracy=(Target(AUC, 80.31),),
    datacenter=queries("3.1", "5.1"),
    limits={SERVER: Limit(60)},
    compliance=(test(1, "3.1", "6.0"), test(5, "3.1", "4.1")),
    aliases=(Alias("dlrm_v2-99", vendor="Intel"),),
    assets=_assets(2, "_weight_sharded", "_multihot"),
    memory={"full": Need(106_000_000_000, CAPPED)},
    size=ModelSize(parameters=26_120),
    scratch=Scratch(
        gigabytes=6100,
        data="criteo",
        models="dlrm_multihot",
        preprocessed_data="criteo_multihot",
    ),
)
SPECS = (V1, strict(V1), V2, strict(V2))
