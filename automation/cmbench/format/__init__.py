"""The CM format: what ``meta.yaml``, env and a script directory mean; it runs nothing."""

__all__ = [
    "called_programs",
    "dialect",
    "env",
    "environment_reads",
    "help_page",
    "libraries",
    "merge",
    "meta",
    "model",
    "outside",
    "plain_updates",
    "program_variables",
    "schema",
    "sources",
]
