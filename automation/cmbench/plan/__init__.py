"""From a request to resolved steps and the plan they form; nothing here runs anything."""

__all__ = [
    "cache_lookup",
    "dependency_request",
    "explain",
    "hook_call",
    "idle_inputs",
    "names",
    "needs",
    "planned_step",
    "read_values",
    "requirements",
    "resolve",
    "resolved_step",
    "step_run",
    "tree",
    "typed_options",
]
