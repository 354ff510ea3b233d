"""What scripts share: downloads, archives, versions, host facts.

``PUBLIC`` is what the ``customize.py`` of any repository may import. The names, their parameters
and the errors that they raise change only with an entry in the change log;
``docs/reference/hook-library.md`` is written from it. The rest serves the engine and its own
scripts, and may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLIC: Mapping[str, tuple[str, ...]] = {
    "cmbench.errors": ("Error",),
    "cmbench.lib.tools": (
        "Tool",
        "ToolDetection",
        "bounds_of",
        "search_folders",
        "input_paths",
        "find_tool",
        "not_found",
    ),
    "cmbench.lib.pythons": ("Bounds",),
    "cmbench.lib.probe": ("ProbeResult", "probe", "which"),
    "cmbench.lib.programs": ("run_program",),
    "cmbench.lib.versions": ("compare", "satisfies", "satisfies_pip", "pip_version_string"),
    "cmbench.lib.yes_no": ("is_yes", "is_no"),
    "cmbench.lib.download": ("DownloadResult", "download"),
    "cmbench.lib.archives": ("ExtractionResult", "extract"),
    "cmbench.lib.files": ("file_checksum", "require_space"),
    "cmbench.lib.host.system": ("OsFacts", "os_facts"),
    "cmbench.lib.host.packages": ("install_command",),
}
