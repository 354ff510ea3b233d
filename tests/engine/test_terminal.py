"""What is printed: on a terminal, without one, and under --quiet, -s, -v and --out=json."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
import time
from itertools import takewhile
from pathlib import Path
from typing import IO

import pyte
import pytest

from cmbench.api.events import Event, EventStep
from cmbench.errors import coloured
from cmbench.render import progress
from lab import Lab, command
from support import HANG_S, readable, wait_for

PROGRESS = r"""
for n in 1 2 3 4 5; do
  new="$CM_PROGRESS_FILE.new"
  echo "{\"label\": \"measuring\", \"done\": $n, \"total\": 5, \"unit\": \"s\"}" > "$new"
  mv "$new" "$CM_PROGRESS_FILE"
  sleep 0.3
done
echo native words
"""


CHANGING = r"""
for n in $(seq 1 40); do
  new="$CM_PROGRESS_FILE.new"
  echo "{\"label\": \"trying batch $n\", \"done\": $n, \"total\": 40}" > "$new"
  mv "$new" "$CM_PROGRESS_FILE"
  sleep 0.06
done
"""


@pytest.fixture
def talker(lab: Lab) -> Lab:
    lab.script("get-x", cache=True, run=PROGRESS)
    lab.script(
        "app-talk",
        deps=[{"tags": "get,x"}],
        new_env_keys=["ANSWER"],
        env={"ANSWER": "42"},
        print_env_at_the_end={"ANSWER": "The answer"},
        customize="""
def postprocess(i):
    print('the table')
    return {'return': 0}
""",
    )
    return lab


def test_plain_lines(talker: Lab) -> None:
    lines = talker.run("app,talk").out.splitlines()
    assert lines[0].split()[0] == "ok"
    assert lines[0].endswith("  get-x")
    assert "the table" in lines
    assert "The answer: 42" in lines
    assert lines[-3:-1] == ["2 steps: 0 from the cache, 1 made for it, 1 run", "made:   get-x"]
    assert lines[-1].startswith("record: ")
    assert "native words" not in "\n".join(lines)
    assert talker.run("app,talk").out.startswith("cached")


def test_the_steps_take_one_line_each_however_many_there_are(lab: Lab) -> None:
    names = [f"get-number-{number}" for number in range(12)]
    for name in names:
        lab.script(name, tags=name, cache=True)
    lab.script("app-x", deps=[{"tags": name} for name in names])
    made = lab.run("app,x").out.splitlines()[-2]
    assert made == f"made:   {', '.join(names[:4])} and 8 more"
    assert len(made) <= 80


def test_a_key_without_a_value_is_not_printed_at_the_end(lab: Lab) -> None:
    lab.script(
        "app-x",
        new_env_keys=["URL"],
        env={"URL": ""},
        print_env_at_the_end={"URL": "Server"},
    )
    assert "Server" not in lab.run("app,x").out


def test_who_speaks_to_the_user(lab: Lab) -> None:
    """The requested step, and those that it ends with; what they need works in silence."""
    says = "def preprocess(i):\n    print('{0} speaks')\n    return {{'return': 0}}\n"
    lab.script("get-x", customize=says.format("before"))
    lab.script("get-y", customize=says.format("below"))
    lab.script("app-end", customize=says.format("end"), deps=[{"tags": "get,y"}])
    steps = {"deps": [{"tags": "get,x"}], "post_deps": [{"tags": "app,end"}]}
    lab.script("app-all", customize=says.format("all"), **steps)
    lines = lab.run("app,all", quiet=True).out.splitlines()
    assert [line for line in lines if line.endswith("speaks")] == ["all speaks", "end speaks"]


def test_quiet_silent_verbose(talker: Lab) -> None:
    assert talker.run("get,x", quiet=True).out == ""
    quiet = talker.run("app,talk", quiet=True).out.splitlines()
    assert quiet[:3] == [
        "the table",
        "2 steps: 1 from the cache, 0 made for it, 1 run",
        "cached: get-x",
    ]
    assert len(quiet) == 4
    assert talker.run("app,talk", s=True).out == ""
    assert "native words" in talker.run("get,x", new=True, v=True).out


def test_json(talker: Lab) -> None:
    result = talker.run("app,talk", out="json")
    assert result.out == ""
    assert result.answer["new_env"] == {"ANSWER": "42"}
    assert '"ANSWER": "42"' in talker.run("app,talk", j=True).out


def test_the_log_holds_everything(talker: Lab) -> None:
    result = talker.run("app,talk", s=True)
    log = Path(result.answer["record"]).with_name("log.txt").read_text()
    for word in ("== app-talk > get-x", "native words", "the table", "app-talk: done"):
        assert word in log


def test_a_live_view_on_a_terminal_leaves_it_clean(talker: Lab) -> None:
    pytest.importorskip("rich")
    text = _on_a_terminal(command(talker, "app,talk"))
    assert "measuring" in text
    assert "5 s" in text
    assert "app-talk" in text
    assert "the table" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is shown again"
    assert "2 steps" in text


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_a_text_that_changes_takes_one_line_of_the_screen(
    lab: Lab, columns: int, lines: int
) -> None:
    pytest.importorskip("rich")
    lab.script("get-x", run=CHANGING)
    text = _on_a_terminal(command(lab, "get,x"), columns=columns, lines=lines)
    pictures = text.split("\x1b[2K")
    assert "trying batch" in text
    assert max(picture.count("trying batch") for picture in pictures) == 1
    # Rich goes up one line for each further row of the picture before.
    ups = [len(row) for row in re.findall(r"(?:\x1b\[1A\x1b\[2K)+", text)]
    assert max(ups, default=0) <= 2 * len("\x1b[1A\x1b[2K"), "one row a step, one of progress"


def test_a_narrow_line_loses_what_matters_least() -> None:
    more = "all runs end in 70 min, 1200 samples/s"
    told = {"label": "Server performance", "done": 9.1, "total": 602, "unit": "s", "more": more}
    text = progress.progress_text(told)
    assert text == f"Server performance 9.1 s of 602 s (2%), {more}"
    start = "Server performance 9.1 s of 602 s (2%), all runs"
    assert progress.shortened(text, 64).startswith(start)
    barred = progress.progress_text({**told, "label": "SingleStream performance"}, bar=True)
    assert barred.endswith(f"   2% SingleStream performance, {more}, 9.1 s of 602 s")
    # As the live view shows it, below a step that is indented, in 80 columns.
    assert progress.fitting("", barred, 68).endswith("all runs end in 70 min")
    long = progress.progress_text({"label": "x" * 60, "done": 2, "unit": "samples"})
    assert long == f"{'x' * 37}... 2 samples"


def test_quiet_says_what_runs_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.QuietProgress, "first_s", 0.05)
    monkeypatch.setattr(progress.QuietProgress, "every_s", 0.05)
    out = io.StringIO()
    view = progress.QuietProgress(out)
    before = set(threading.enumerate())
    view(Event("began"))
    view(Event("started", step=EventStep("app-x", 0, 1)))
    wait_for(lambda: "app-x\n" in out.getvalue())
    view(Event("progress", data={"label": "Server", "done": 12, "total": 60, "unit": "s"}))
    wait_for(lambda: out.getvalue().endswith("app-x: Server 12 s of 60 s (20%)\n"))
    view(Event("ended"))
    wait_for(lambda: set(threading.enumerate()) <= before)
    assert re.match(r"running +\d+ s  app-x\n", out.getvalue())


def _on_a_terminal(
    words: list[str], seconds: float = HANG_S, columns: int = 80, lines: int = 24
) -> str:
    """Everything that a program prints on a terminal of this size."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS=str(columns), LINES=str(lines), TERM="xterm")
        os.execv(words[0], words)
    data = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if readable(terminal, 0.5):
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            data += chunk
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert status == 0, data.decode()
    return data.decode()


def _seen(text: str, columns: int = 80) -> list[str]:
    """The lines of a terminal after a program has printed ``text`` on it."""
    screen = pyte.Screen(columns, 24)
    pyte.Stream(screen).feed(text)
    return [line.rstrip() for line in screen.display]


@pytest.mark.parametrize("columns", [80, 60])
def test_a_long_warning_fits_the_terminal_and_is_whole_elsewhere(lab: Lab, columns: int) -> None:
    name = "a-dependency-of-another-script"
    lab.script("get-x", deps=[{"tags": "get,y", "names": ["one"]}])
    lab.script("get-y", run="true\n")
    lab.script("get-z", deps=[{"tags": "get,y", "names": [name]}])
    words = command(lab, "get,x", adr={name: {"env": {"CM_A": "1"}}})
    shown = _seen(_on_a_terminal(words, columns=columns), columns)
    (first,) = (at for at, line in enumerate(shown) if line.startswith("warning: "))
    lines = [shown[first], *takewhile(lambda line: line.startswith("  "), shown[first + 1 :])]
    assert len(lines) > 1
    assert max(map(len, lines)) <= columns
    done = subprocess.run(words, capture_output=True, text=True)
    whole = " ".join(line.strip() for line in lines)
    assert whole in done.stderr.splitlines()


@pytest.mark.parametrize("seconds", ["0", "0.5"])
def test_a_warning_stands_apart_from_the_steps_that_are_drawn(lab: Lab, seconds: str) -> None:
    lab.script("get-x", run=f"sleep {seconds}\n", deps=[{"tags": "get,y", "names": ["one"]}])
    lab.script("get-y", run="true\n")
    lab.script("get-z", deps=[{"tags": "get,y", "names": ["two"]}])
    words = command(lab, "get,x", adr={"two": {"env": {"CM_A": "1"}}})
    (warning,) = (line for line in _seen(_on_a_terminal(words)) if "warning: " in line)
    assert warning.startswith("warning: ")
    assert "two" in warning


def test_a_run_that_warns_of_nothing_imports_nothing_to_wrap_text() -> None:
    code = "import sys, cmbench.render.progress; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"common.text", "textwrap", "shutil"} & set(told.stdout.split())


def test_find_and_help_fit_into_80_columns(talker: Lab) -> None:
    talker.script(
        "get-many",
        name="Many inputs and variations",
        input_mapping={"a_rather_long_input_name_for_a_table": "A", "b": "B"},
        input_description={
            "b": {
                "desc": "what b is for, with a description that needs more than one line",
                "choices": ["one", "two", "three", "four", "five", "six"],
                "default": "one",
            },
            "a_rather_long_input_name_for_a_table": {"desc": "x", "unit": "ms"},
        },
        variations={f"variation-{n}": {} for n in range(30)},
    )
    for result in (talker.call("search", tags="get"), talker.run("get,many", help=True)):
        assert max(map(len, result.out.splitlines())) <= 80, result.out
        assert "variation-29" in result.out
    assert "Many inputs" in talker.call("show", tags="get,many").out


def test_nothing_that_a_script_says_moves_the_cursor(lab: Lab) -> None:
    """Its output, its values and its progress, on the way to the console."""
    lab.script(
        "app-x",
        new_env_keys=["ANSWER"],
        print_env_at_the_end={"ANSWER": "The answer"},
        customize="""
def preprocess(i):
    print('said \\x1b[2K\\x1b[1A\\rnext: rm')
    i['env']['ANSWER'] = '42\\n  next:   rm \\x1b]0;title\\x07'
    return {'return': 0}
""",
        run="printf 'native \\033[2J\\033[1;31mred\\033[0m\\n'",
    )
    shown = lab.run("app,x", verbose=True).out
    assert not [c for c in shown if c in "\x1b\x07\r"]
    assert "native \\x1b[2Jred" in shown
    assert "The answer: 42\\n  next:   rm \\x1b]0;title\\x07" in shown


@pytest.mark.parametrize(
    ("label", "done", "wanted"),
    [
        ("app", "12 of 60 s", "app: 12 of 60 s"),
        ("app-with-a-long-name,_and,_variations", "12 of 60 s", "app-with-a-long-...: 12 of 60 s"),
        ("app-with-a-long-name", "Server performance, 12773/s", "Server performance, 12773/s"),
        ("app-with-a-long-name-and-nothing-else", "", "app-with-a-long-name-and-not..."),
        ("app", "Server performance, 12773/s, all runs: 9 s", "Server performance, 12773/s"),
        ("app", "a progress that is longer than there is room", "a progress that is longer th..."),
    ],
)
def test_what_runs_fits_the_line(label: str, done: str, wanted: str) -> None:
    assert progress.fitting(label, done, 31) == wanted


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "env", "expected"),
    [
        (_Screen(), {}, True),
        (_Screen(), {"NO_COLOR": "1"}, False),
        (_Screen(), {"NO_COLOR": ""}, True),
        (_Screen(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (None, {}, False),
    ],
)
def test_colour_marks_what_asks_for_attention_on_a_terminal_alone(
    out: IO[str] | None, env: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    text = "Server  41 samples/s  INVALID\nwarning: busy\nerror [bad-value]: no\nall VALID"
    shown = coloured(text, out)
    assert ("\x1b[" in shown) is expected
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == text
    if expected:
        assert "\x1b[1;31mINVALID\x1b[0m" in shown
        assert "\x1b[33mwarning:\x1b[0m" in shown
        assert shown.endswith("all VALID"), "what is well has no colour"
