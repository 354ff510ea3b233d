"""The packages that pages need, or one sentence on how to get them."""

from __future__ import annotations

from cmbench.errors import Error
from cmbench.lib.installation import install_command
from common.problems import Hint


def require() -> None:
    """Raise ``tool-missing`` where a package of the pages is not installed."""
    try:
        import jinja2
        import starlette
        import uvicorn
    except ModuleNotFoundError as missing:
        raise Error(
            "tool-missing",
            f"the pages need the Python package {missing.name}, which is not installed",
            hint=Hint.of_command(install_command("gui")),
        ) from None
    del jinja2, starlette, uvicorn
