"""The benchmark of an ONNX file of the user's own: its speed in the scenarios of the edge."""

from mlperf.catalog import Assets, BenchmarkSpec, Period, Target, metrics
from mlperf.catalog.rounds import LATEST, ROUNDS
from mlperf.catalog.scenario import MULTI_STREAM, OFFLINE, SINGLE_STREAM

SPECS = (
    BenchmarkSpec(
        name="own",
        dataset_size=1,
        offline_minimum=1,
        # Nothing is promised of it: the open division judges no accuracy.
        accuracy=(Target(metrics.TOP1, 0.0),),
        edge=(Period(ROUNDS[0], LATEST, (SINGLE_STREAM, MULTI_STREAM, OFFLINE)),),
        known_to_loadgen=False,
        module="own_model:OwnModel",
        assets=Assets(model="get,ml-model,own", data="", model_name="own", data_name="own"),
    ),
)
