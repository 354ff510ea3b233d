"""What is called otherwise here than in perf_analyzer, for those who come from it."""

from __future__ import annotations

# Our option, and the names of perf_analyzer's, long and short.
NAMES = {
    "model_version": "x",
    "url": "u",
    "protocol": "i service_kind",
    "shared_memory": "output_shared_memory_size",
    "input": "input_data string_data string_length zero_input z data_directory d",
    "seed": "random_seed",
    "concurrency": "concurrency_range periodic_concurrency_range async sync a",
    "rate": "request_rate_range",
    "distribution": "request_distribution request_intervals",
    "connections": "max_threads",
    "duration": "measurement_interval p",
    "count": "request_count measurement_mode measurement_request_count",
    "until_stable": "stability_percentage s max_trials r",
    "warmup": "warmup_request_count",
    "search_p99_ms": "latency_threshold binary_search",
    "header": "H",
    "tls_ca": "ssl_https_ca_certificates_file ssl_grpc_root_certifications_file",
    "compression": "grpc_compression_algorithm",
    "csv": "latency_report_file f verbose_csv",
    "json": "profile_export_file",
}
NOT_HERE = "streaming sequence_length num_of_sequences sequence_id_range start_sequence_id"


def ours(name: str) -> str:
    """Return our option for perf_analyzer's; empty where it has none of that name."""
    # The value of a short one may follow without a space.
    wanted = {name, name[:1]} if name[1:].isdigit() else {name}
    return next((key for key, names in NAMES.items() if wanted & set(names.split())), "")


def is_not_here(name: str) -> bool:
    """Return whether it is of a measurement that there is none of: of streams and sequences."""
    return name in NOT_HERE.split()
