"""Shared code that scripts name under ``uses``: who finds it, and when an edit of it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmbench.cache import cache_entry
from cmbench.cache.cache_entry import CacheEntry
from cmbench.errors import Error
from cmbench.format.libraries import locate, read_sources, stamp, stamp_again
from cmbench.lib.import_closure import import_closure
from cmbench.lib.module_imports import read_imports
from cmbench.run.isolated_library import IsolatedLibrary
from lab import Lab

PROGRAM = "from zoo.grow import size\nprint(size())\n"
HAND_BACK = """
def postprocess(i):
    with open('size') as file:
        i['env']['CM_SIZE'] = file.read().strip()
    return {'return': 0}
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def zoo(lab: Lab, size: str = "2") -> None:
    """A package with two modules that know nothing of each other, and one below both."""
    write(
        lab.repo / "lib/zoo",
        {
            "__init__.py": "",
            "grow.py": "def size():\n    from zoo import units\n    return units.M\n",
            # For Python, a file that was edited within a second is another one by its length alone.
            "units.py": f"M = {size}" + "\n" * int(size),
            "other.py": "from . import units\n",
        },
    )


def grower(lab: Lab, **meta: object) -> None:
    lab.script(
        "make-size",
        uses=["zoo.grow"],
        cache=True,
        new_env_keys=["CM_SIZE"],
        customize=HAND_BACK,
        run='python3 "${CM_TMP_CURRENT_SCRIPT_PATH}/src/program.py" > size\n',
        files={"src/program.py": PROGRAM},
        **meta,
    )


def why(lab: Lab, tags: str) -> str:
    """What ``cm why cache`` says of a request, in one line."""
    return " ".join(lab.call("why", "cache", tags=tags).out.split())


def test_a_program_imports_what_its_script_uses(lab: Lab) -> None:
    zoo(lab)
    grower(lab)

    assert lab.run("make,size").env["CM_SIZE"] == "2"


def test_an_edit_of_what_an_import_leads_to_makes_an_entry_stale(lab: Lab) -> None:
    zoo(lab)
    grower(lab)
    lab.run("make,size")

    zoo(lab, size="3")

    assert "the library zoo.grow was edited" in why(lab, "make,size")
    assert lab.run("make,size").env["CM_SIZE"] == "3"


def test_an_edit_beside_what_is_imported_loses_no_hit(lab: Lab) -> None:
    zoo(lab)
    grower(lab)
    lab.run("make,size")

    write(lab.repo / "lib/zoo", {"other.py": "import json\n", "new.py": "", "page.html": "<p>"})

    assert lab.run("make,size").status == {"make-size": "cached"}


def test_the_first_entry_answers_again_when_an_edit_is_undone(lab: Lab) -> None:
    zoo(lab)
    grower(lab)
    lab.run("make,size")
    zoo(lab, size="3")
    lab.run("make,size")

    zoo(lab, size="2")

    result = lab.run("make,size")
    assert (result.status, result.env["CM_SIZE"]) == ({"make-size": "cached"}, "2")


def test_what_stands_on_such_an_entry_is_made_again(lab: Lab) -> None:
    zoo(lab)
    grower(lab)
    lab.script(
        "use-size",
        cache=True,
        new_env_keys=["CM_DOUBLE"],
        deps=[{"tags": "make,size"}],
        customize="def postprocess(i):\n"
        "    i['env']['CM_DOUBLE'] = str(2 * int(i['env']['CM_SIZE']))\n"
        "    return {'return': 0}\n",
    )
    assert lab.run("use,size").env["CM_DOUBLE"] == "4"

    zoo(lab, size="3")

    assert lab.run("use,size").env["CM_DOUBLE"] == "6"


def test_what_an_uncached_step_uses_counts_for_the_entry_above_it(lab: Lab) -> None:
    zoo(lab)
    grower(lab, can_force_cache=True)
    meta = lab.repo / "script/make-size/meta.yaml"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "cache": False}))
    lab.script("keep-size", cache=True, new_env_keys=["CM_SIZE"], deps=[{"tags": "make,size"}])
    lab.run("keep,size")

    zoo(lab, size="3")

    assert "the library zoo.grow was edited" in why(lab, "keep,size")


def test_only_an_active_variation_uses_what_it_names(lab: Lab) -> None:
    zoo(lab)
    lab.script(
        "get-thing",
        cache=True,
        new_env_keys=["CM_THING"],
        env={"CM_THING": "1"},
        variations={"grown": {"uses": ["zoo.grow"], "env": {"CM_THING": "2"}}},
    )
    lab.run("get,thing")
    lab.run("get,thing,_grown")

    zoo(lab, size="3")

    assert lab.run("get,thing").status == {"get-thing": "cached"}
    assert lab.run("get,thing,_grown").status == {"get-thing,_grown": "done"}


def test_a_variable_that_shared_code_reads_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo(lab)
    write(lab.repo / "lib/zoo", {"units.py": "import os\nM = os.environ.get('ZOO_SIZE', '2')\n"})
    grower(lab)
    assert lab.run("make,size").env["CM_SIZE"] == "2"

    monkeypatch.setenv("ZOO_SIZE", "7")

    assert lab.run("make,size").env["CM_SIZE"] == "7"


def hooked(lab: Lab, names: str, run: str = "true\n", **files: str) -> None:
    """A script whose ``customize.py`` alone imports the module ``zoo.names``."""
    write(lab.repo / "lib/zoo", {"__init__.py": "", "names.py": names})
    write(lab.repo / "lib/zoo", {f"{name}.py": text for name, text in files.items()})
    lab.script(
        "make-name",
        uses=["zoo.names"],
        cache=True,
        new_env_keys=["CM_NAME"],
        customize="from zoo import names\n"
        "def preprocess(i):\n"
        "    i['env']['CM_NAME'] = names.name(i['env'])\n"
        "    return {'return': 0}\n",
        run=run,
    )
    lab.script("show-name", deps=[{"tags": "make,name"}])


def status(lab: Lab, **env: str) -> str:
    """Whether the step is cached where a script above it has ``env``."""
    return lab.run("show,name", env=env).status["make-name"]


OF_ANOTHER_SCRIPT = (
    "def name(env):\n    return env.get('CM_SMALL', 'a')\n"
    "def other(env):\n    env['CM_LARGE'] = env['CM_HUGE']\n"
)


def test_a_key_that_only_another_function_of_a_hook_names_does_not_count(lab: Lab) -> None:
    """What a hook reads of its env is traced: a word in its source is no read."""
    hooked(lab, OF_ANOTHER_SCRIPT)
    assert status(lab) == "done"

    assert status(lab, CM_LARGE="1", CM_HUGE="1") == "cached"
    assert status(lab, CM_SMALL="b") == "done"


@pytest.mark.parametrize(
    "run",
    [
        "python3 -c 'from zoo import names; print(names.name({}))'\n",
        "python3 -m zoo.names\n",
        'python3 "${CM_TMP_CURRENT_SCRIPT_PATH}/src/program.py"\n',
    ],
)
def test_it_counts_where_a_program_imports_the_module_too(lab: Lab, run: str) -> None:
    hooked(lab, OF_ANOTHER_SCRIPT, run)
    source = "import zoo.names\nprint(zoo.names.name({}))\n"
    write(lab.repo / "script/make-name/src", {"program.py": source})
    assert status(lab) == "done"

    assert status(lab, CM_HUGE="1") == "done"


@pytest.mark.parametrize(
    "start",
    [
        "COMMAND = 'python3 -m zoo.program'\n",
        "COMMAND = ['python3', '-m', 'zoo.program']\n",
        "PROGRAM = 'zoo.program'\n",
    ],
)
def test_it_counts_in_a_program_that_a_hook_names(lab: Lab, start: str) -> None:
    program = "import os\nprint(os.environ.get('CM_PROGRAM'))\n"
    hooked(lab, start + OF_ANOTHER_SCRIPT, program=program)
    assert status(lab) == "done"

    assert status(lab, CM_HUGE="1") == "cached"
    assert status(lab, CM_PROGRAM="1") == "done"


@pytest.mark.parametrize("run", ["true\n", ""])
def test_a_variable_of_the_process_that_a_hook_reads_in_shared_code_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    source = "import os\ndef name(env):\n    return os.environ.get('ZOO_NAME', 'a')\n"
    hooked(lab, source, run)
    assert lab.run("make,name").env["CM_NAME"] == "a"

    monkeypatch.setenv("ZOO_NAME", "b")

    assert lab.run("make,name").env["CM_NAME"] == "b"


def test_a_look_at_the_whole_environment_in_shared_code_does_not_count(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some module of a large closure has one: then no call would ever find an entry again."""
    zoo(lab)
    source = (
        "import os, platform\n"
        "ALL = dict(os.environ)\n"
        "NODE = platform.node()\n"
        "M = os.environ.get('ZOO_SIZE', '2')\n"
    )
    write(lab.repo / "lib/zoo", {"units.py": source})
    grower(lab)
    lab.run("make,size")

    monkeypatch.setenv("OTHER_SIZE", "7")
    assert lab.run("make,size").status["make-size"] == "cached"

    monkeypatch.setenv("ZOO_SIZE", "7")
    assert lab.run("make,size").status["make-size"] == "done"


def test_a_hook_imports_what_its_script_uses_each_from_its_own_repository(lab: Lab) -> None:
    hook = (
        "from zoo import grow\nimport zoo.other as other\n"
        "def preprocess(i):\n"
        "    i['env']['CM_SIZE'] = f'{grow.size()} {other.units.M}'\n"
        "    return {'return': 0}\n"
    )
    zoo(lab)
    lab.script("show-a", uses=["./lib/zoo"], new_env_keys=["CM_SIZE"], customize=hook)
    first, lab.repo = lab.repo, lab.repo.parent / "second"
    (lab.repo / "script").mkdir(parents=True)
    lab.others.append(first)
    zoo(lab, size="9")
    lab.script("show-b", uses=["zoo.grow", "zoo.other"], new_env_keys=["CM_SIZE"], customize=hook)

    assert lab.run("show,a").env["CM_SIZE"] == "2 2"
    assert lab.run("show,b").env["CM_SIZE"] == "9 9"
    assert lab.run("show,a").env["CM_SIZE"] == "2 2"


def test_a_lock_holds_shared_code_and_a_replay_says_that_it_was_edited(
    lab: Lab, tmp_path: Path
) -> None:
    lock = tmp_path / "size.lock"
    zoo(lab)
    grower(lab)
    first = lab.run("make,size", lock=str(lock))

    zoo(lab, size="3")

    assert "the library zoo.grow was edited" in lab.run("make,size", lock=str(lock)).err
    replay = lab.call("replay", artifact=Path(first.answer["record"]).parent.name)
    text = " ".join((replay.out + replay.err).split())
    assert "the library zoo.grow was edited since, it runs as it is now" in text


def test_each_field_of_an_entry_is_read_back() -> None:
    assert set(cache_entry._KINDS) == set(CacheEntry.__annotations__)


def test_a_name_that_is_not_there_is_refused(lab: Lab) -> None:
    zoo(lab)
    lab.script("make-size", uses=["zoo.gorw"])

    result = lab.run("make,size")

    assert result.answer["return"] == 4
    assert "uses zoo.gorw, and there is no such module or package" in result.err


@pytest.mark.parametrize("name", ["./lib/zoo/grow.py", "lib/zoo/grow"])
def test_a_path_that_is_written_in_another_way_is_corrected(lab: Lab, name: str) -> None:
    zoo(lab)
    script = lab.script("make-size", uses=["zoo.grow"])

    with pytest.raises(Error) as raised:
        locate(str(script), name)

    assert raised.value.hint == "write ./lib/zoo/grow"


def test_two_repositories_with_a_package_of_one_name_are_refused(lab: Lab) -> None:
    """A program would import the package of the first for both."""
    zoo(lab)
    write(lab.repo / "lib/common", {"__init__.py": ""})
    lab.script("make-size", uses=["zoo.grow", "mlperf.rate_search"], run="true\n")

    result = lab.run("make,size")

    assert result.answer["return"] == 4
    assert "both have common" in result.err


def test_a_name_that_is_not_there_counts_for_its_variation_alone(lab: Lab) -> None:
    lab.script(
        "make-size",
        variations={"other": {"uses": ["zoo.gorw"]}},
        customize="def preprocess(i):\n    return {'return': 0}\n",
    )

    assert lab.run("make,size").answer["return"] == 0
    assert lab.run("make,size,_other").answer["return"] == 4


def test_a_name_that_is_no_text_is_a_fault_of_the_meta(lab: Lab) -> None:
    folder = lab.script("make-size", uses=["zoo.grow"])
    meta = folder / "meta.yaml"
    meta.write_text(meta.read_text().replace("zoo.grow", "1"))

    assert "internal" not in lab.call("lint", "script", tags="make,size").err
    assert "uses" in lab.run("make,size").err


def test_shared_code_that_cannot_be_read_is_named(lab: Lab) -> None:
    zoo(lab)
    grower(lab)
    units = lab.repo / "lib/zoo/units.py"
    units.unlink()
    units.symlink_to("/proc/self/mem")  # root, too, cannot read its start

    result = lab.run("make,size")

    assert result.answer["return"]
    assert "shared code cannot be read" in result.err
    assert "internal" not in result.err


def test_a_module_with_a_syntax_error_fails_in_the_step_that_runs_it(lab: Lab) -> None:
    zoo(lab)
    write(lab.repo / "lib/zoo", {"units.py": "M = = 2\n"})
    grower(lab)

    result = lab.run("make,size")

    assert result.answer["return"]
    assert "SyntaxError" in result.err


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b as c, d", {"a.b", "d"}),
        ("from a import b, c as d", {"a", "a.b", "a.c"}),
        ("from a import *", {"a"}),
        ("from . import b", {"p.q", "p.q.b"}),
        ("from .c import d", {"p.q.c", "p.q.c.d"}),
        ("from .. import b", {"p", "p.b"}),
        ("def f():\n    import late\n", {"late"}),
        ("try:\n    import a\nexcept ImportError:\n    import b\n", {"a", "b"}),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b\n", {"b"}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import a\n", {"typing"}),
        ("import a\n)", set()),
    ],
)
def test_imports_are_read_from_the_source(source: str, names: set[str]) -> None:
    assert set(read_imports(source.encode(), "p.q").names) == names


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nimportlib.import_module('zoo.late')",
        "import importlib\nname = input()\nimportlib.import_module(f'zoo.late.{name}')",
        "COMMAND = ['python3', '-m', 'zoo.late']",
        "BY_NAME = {'late': 'zoo.late'}",
    ],
)
def test_a_dotted_name_in_a_string_is_an_import(tmp_path: Path, source: str) -> None:
    write(tmp_path, {"zoo/start.py": source, "zoo/late/__init__.py": "", "zoo/late/b.py": ""})
    write(tmp_path, {"zoo/unused.py": ""})

    found = import_closure(str(tmp_path), "zoo.start")

    assert found[-1] == "zoo/start.py"
    assert "zoo/late/__init__.py" in found
    assert "zoo/unused.py" not in found


BY_NAME = "from importlib import import_module as load\nM = load('oth' + 'er.m').V\n"
BY_PATH = (
    "import pathlib\nM = (pathlib.Path(__file__).parents[1] / 'other' / 'm.txt').read_text()\n"
)
HOOK = (
    "from zoo import grow\n"
    "def preprocess(i):\n"
    "    i['env']['CM_SIZE'] = str(grow.size())\n"
    "    return {'return': 0}\n"
)


@pytest.mark.parametrize(
    ("by", "source"),
    [("program", BY_NAME), ("hook", BY_NAME), ("hook", BY_PATH)],
    ids=["a program by name", "a hook by name", "a hook by path"],
)
def test_shared_code_that_no_source_shows_counts_where_it_is_used(
    lab: Lab, by: str, source: str
) -> None:
    """What is read of shared code beyond the import closure is seen when the step runs."""
    zoo(lab)
    write(lab.repo / "lib/zoo", {"units.py": source})
    write(lab.repo / "lib/other", {"__init__.py": "", "m.py": "V = 2\n", "m.txt": "2"})
    if by == "program":
        grower(lab)
    else:
        names = {"cache": True, "new_env_keys": ["CM_SIZE"]}
        lab.script("make-size", uses=["zoo.grow"], customize=HOOK, **names)
    assert lab.run("make,size").env["CM_SIZE"] == "2"
    write(lab.repo / "lib/other", {"unused.py": ""})
    assert lab.run("make,size").status == {"make-size": "cached"}

    write(lab.repo / "lib/other", {"m.py": "V = 33\n", "m.txt": "33"})

    assert lab.run("make,size").env["CM_SIZE"] == "33"


def test_a_hook_imports_shared_code_as_it_is_in_the_same_process_too(lab: Lab) -> None:
    """An entry of the edited code is not made by the code before the edit."""
    zoo(lab)
    lab.script("make-size", uses=["zoo.grow"], new_env_keys=["CM_SIZE"], customize=HOOK)
    assert lab.run("make,size").env["CM_SIZE"] == "2"
    units = lab.repo / "lib/zoo/units.py"

    units.write_text(units.read_text().replace("2", "3"))

    assert lab.run("make,size").env["CM_SIZE"] == "3"


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nM = importlib.import_module('zoo.data.m').V\n",
        "import importlib.util\nM = importlib.util.find_spec('zoo.data.m') and 5\n",
        "from importlib import import_module\nM = import_module('.data.m', __package__).V\n",
        "from importlib.resources import files\nM = (files('zoo.data') / 'm.txt').read_text()\n",
        "import zoo.data as d\nfrom importlib import resources as r\nM = r.files(d) and '5'\n",
        "import pkgutil\nM = pkgutil.get_data('zoo.data', 'm.txt').decode()\n",
        "import pkgutil, zoo.data\nM = len(list(pkgutil.iter_modules(zoo.data.__path__))) + 4\n",
        "import pickle\nfrom zoo.data.m import C\nM = pickle.loads(pickle.dumps(C())).V\n",
        "import zoo.space.deep.m as m\nM = m.V\n",
        "from .data import m\nM = m.V\n",
    ],
)
def test_shared_code_of_a_hook_finds_its_own_by_name(tmp_path: Path, source: str) -> None:
    """Its modules have private names in the engine, which it need not know."""
    files = {"m.py": "V = 5\nclass C:\n    V = 5\n", "m.txt": "5"}
    write(tmp_path / "zoo/data", {"__init__.py": "", **files})
    write(tmp_path / "zoo/space/deep", files)
    write(tmp_path, {"zoo/__init__.py": "", "zoo/units.py": source})

    library = IsolatedLibrary.load(str(tmp_path), "make-size")

    assert str(library("zoo.units", names=["M"]).M) == "5"


def test_data_files_count_with_the_module_that_opens_them(tmp_path: Path) -> None:
    files = {
        "zoo/__init__.py": "",
        "zoo/plain.py": "",
        "zoo/page.py": "from pathlib import Path\nPAGE = Path(__file__).with_name('page.html')\n",
        "zoo/page.html": "<p>",
        "zoo/data/x.yaml": "",
        "zoo/data/program.py": "",
        "zoo/inner/__init__.py": "",
        "zoo/inner/y.yaml": "",
        "zoo/__pycache__/page.cpython-311.pyc": "",
    }
    write(tmp_path, files)

    assert import_closure(str(tmp_path), "zoo.plain") == ["zoo/__init__.py", "zoo/plain.py"]
    assert set(import_closure(str(tmp_path), "zoo.page")) == {
        "zoo/__init__.py",
        "zoo/page.py",
        "zoo/page.html",
        "zoo/data/x.yaml",
        "zoo/data/program.py",
    }
    assert set(import_closure(str(tmp_path), "zoo")) == files.keys() - {
        "zoo/__pycache__/page.cpython-311.pyc"
    }


STALE = {
    "importlib.resources": (
        "from importlib.resources import files\nD = files('zoo').joinpath('d.txt')\n",
        {"zoo/d.txt": "1"},
        "zoo/d.txt",
    ),
    "pkgutil": ("import pkgutil\nD = pkgutil.get_data(__name__, 'd.txt')\n", {}, "zoo/d.txt"),
    "a file of a package above": ("from zoo.sub import a\n", {}, "zoo/t.txt"),
    "a file that is called README": (
        "OPENED = __file__\n",
        {"zoo/README.md.j2": "1"},
        "zoo/README.md.j2",
    ),
    "a folder of data that appears": ("OPENED = __file__\n", {}, "zoo/data/v2/x.txt"),
    "a module that appears": (
        "try:\n    import later\nexcept ImportError:\n    pass\n",
        {},
        "later.py",
    ),
    "a package beside a module of its name": ("import both\n", {"both.py": ""}, "both/__init__.py"),
    "a module without a dot": ("import importlib\nimportlib.import_module('top')\n", {}, "top.py"),
    "a program without a dot": ("C = ['python3', '-m', 'top']\n", {}, "top.py"),
    "syntax of a newer Python": ("match = = 1\nfrom zoo import units\n", {}, "zoo/units.py"),
    "a relative name": (
        "from importlib import import_module\nimport_module('.units', __package__)\n",
        {},
        "zoo/units.py",
    ),
    "a relative name that is put together": (
        "from importlib import import_module\nN = 'units'\nimport_module('.' + N, __package__)\n",
        {},
        "zoo/units.py",
    ),
    "a name that begins with the package": (
        "from importlib import import_module\nimport_module(f'{__package__}.{input()}')\n",
        {},
        "zoo/units.py",
    ),
    "a name in a package": (
        "import importlib\nimportlib.import_module('other.%s' % input())\n",
        {},
        "other/m.py",
    ),
    "modules that a package lists of itself": (
        "from zoo import sub\n",
        {
            "zoo/sub/__init__.py": "import pkgutil\nfrom importlib import import_module\n"
            "for m in pkgutil.iter_modules(__path__):\n    import_module(f'{__name__}.{m.name}')\n"
        },
        "zoo/sub/b.py",
    ),
    "a class after a colon": ("PLUGINS = ['other.m:Grower']\n", {}, "other/m.py"),
    "a class after a dot": ("PLUGINS = ['other.m.Grower']\n", {}, "other/m.py"),
    "modules in __all__": (
        "from zoo.sub import *\n",
        {"zoo/sub/__init__.py": "__all__ = ['b']\n"},
        "zoo/sub/b.py",
    ),
    "code in a string": ("C = ['python3', '-c', 'from other import m']\n", {}, "other/m.py"),
    "-m without a blank": ("C = ['python3', '-mother.m']\n", {}, "other/m.py"),
    "a program by its path": (
        "from pathlib import Path\nC = ['python3', Path(__file__).with_name('units.py')]\n",
        {},
        "zoo/units.py",
    ),
    "what a program among the data imports": (
        "OPENED = __file__\n",
        {"zoo/data/program.py": "import other.m\n"},
        "other/m.py",
    ),
    "a file of another package": (
        "from importlib.resources import files\nT = files('other') / 'o.txt'\n",
        {},
        "other/o.txt",
    ),
    "a file next to another module": (
        "import os\nfrom other import m\nT = os.path.dirname(m.__file__) + '/o.txt'\n",
        {},
        "other/o.txt",
    ),
    "a file of a package below": (
        "from pathlib import Path\nT = Path(__file__).parent / 'pack' / 'p.txt'\n",
        {"zoo/pack/__init__.py": ""},
        "zoo/pack/p.txt",
    ),
    "a file outside of packages": ("OPENED = __file__\n", {}, "assets/a.txt"),
    "a file that is called README.md": (
        "from pathlib import Path\nT = Path(__file__).with_name('README.md')\n",
        {},
        "zoo/README.md",
    ),
    "a compiled module": ("from . import fast\n", {}, "zoo/fast.cpython-311-x86_64-linux-gnu.so"),
    "a package behind a link": ("C = ['zoo.linked']\n", {}, "linked/real.py"),
}
"""A module ``zoo/start.py``, further files, and the one of which an edit counts."""


@pytest.mark.parametrize("case", STALE)
def test_an_edit_of_what_a_module_can_reach_counts(case: str, tmp_path: Path) -> None:
    source, files, edited = STALE[case]
    write(tmp_path, {"zoo/__init__.py": "", "zoo/start.py": source, "zoo/units.py": "", **files})
    write(tmp_path, {"zoo/sub/__init__.py": "", "zoo/sub/a.py": "OPENED = __file__\n"})
    write(tmp_path, {"zoo/data/v1/x.txt": "1", "zoo/t.txt": "1", "linked/real.py": ""})
    (tmp_path / "zoo/linked").symlink_to(tmp_path / "linked")
    write(tmp_path, {"other/__init__.py": "", "other/m.py": "", "zoo/sub/b.py": ""})
    # Those of the case last: some are among the above.
    write(tmp_path, files)
    is_module = edited.endswith(".py")
    if "appears" not in case:
        write(tmp_path, {edited: "V = 1\n" if is_module else "1"})
    root = str(tmp_path)
    paths, library = read_sources(root, "zoo.start", {})
    seen = stamp(root, paths)

    write(tmp_path, {edited: "V = 22\n" if is_module else "22"})

    assert stamp_again(root, seen) != seen
    assert read_sources(root, "zoo.start", {})[1].digest != library.digest
