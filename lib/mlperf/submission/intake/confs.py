"""user.conf from the settings in LoadGen's log, where the file itself is missing."""

from __future__ import annotations

from mlperf.catalog import Scenario
from mlperf.catalog.scenario import NS_PER_MS
from mlperf.harness.measuring.detail_log import DetailLog

HEAD = "# Written from what mlperf_log_detail.txt says was requested.\n"
# The key of the log, its name in user.conf, and what the logged number is divided by.
KEYS = {
    Scenario.SINGLE_STREAM: ("single_stream_expected_latency_ns", "target_latency", NS_PER_MS),
    Scenario.MULTI_STREAM: ("multi_stream_expected_latency_ns", "target_latency", NS_PER_MS),
    Scenario.SERVER: ("server_target_qps", "target_qps", 1.0),
    Scenario.OFFLINE: ("offline_expected_qps", "target_qps", 1.0),
}
COMMON = ("min_duration", "max_duration", "min_query_count", "max_query_count")


def user_conf(log: DetailLog) -> str:
    """Return the lines of the file; only a comment where the log has no settings."""
    named = Scenario.of_folder(str(log.values.get("requested_scenario", "")))
    lines = [HEAD]
    if named is None:
        return HEAD
    wanted = [KEYS[named]]
    wanted += [(key + "_ms" * key.endswith("duration"), key, 1.0) for key in COMMON]
    for key, name, divisor in wanted:
        value = log.number(f"requested_{key}")
        if value:
            lines.append(f"*.{named}.{name} = {value / divisor:.10g}\n")
    return "".join(lines)
