"""What a machine tells about itself."""

from __future__ import annotations

import json
import re

from support import Home


def test_the_description_of_this_machine(home: Home) -> None:
    done = home.cm("run", "script", "--tags=get,mlperf,sut,description", "--out=json").ok()
    state = json.loads(done.stdout)["new_state"]
    assert state["CM_SUT_META"]["host_processors_per_node"].isdigit()
    assert state["CM_SUT_META"]["host_processor_core_count"].isdigit()
    assert state["CM_SUT_META"]["host_processor_model_name"]
    assert re.fullmatch(r"\d+GB", state["CM_SUT_META"]["host_memory_capacity"])
    assert state["CM_SUT_META"]["cooling"] == ""
