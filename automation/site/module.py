"""What cmind finds by its path: the automation that this folder is named after."""

import importlib.util
import os

from cmind.automation import Automation

_HERE = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.util.spec_from_file_location(
    "cmbench_entry", os.path.join(os.path.dirname(_HERE), "entry.py")
)
_entry = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_entry)


class CAutomation(Automation):
    """What cmind instantiates for each request to this automation."""

    def any(self, i):
        """Answer any verb with the engine: from cmind's request to a CM return dict."""
        return _entry.answer(os.path.basename(_HERE), self, i)
