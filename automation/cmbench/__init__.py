"""The engine of cmbench: runs tagged automation scripts with dependencies, a cache and a record."""

import os
import sys

__version__ = "0.1.0"


def _libraries() -> str:
    """Return the folder of what programs of steps import: of a checkout, or of an installation."""
    package = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), "lib")
    return checkout if os.path.isdir(checkout) else os.path.join(package, "repo", "lib")


LIBRARIES = _libraries()
"""The root of this project's own libraries, which the engine imports as well.

It comes last in the search path, so that it hides nothing that is installed.
"""
if LIBRARIES not in sys.path:
    sys.path.append(LIBRARIES)
