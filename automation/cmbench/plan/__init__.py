"""From a request to resolved steps and the plan they form; nothing here runs anything."""
