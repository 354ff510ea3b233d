"""What the programs of a script read, as far as their sources show it."""

from __future__ import annotations

import pytest

from cmbench.format.reading import Reads


def words(name: str, text: str) -> set[str]:
    found = Reads()
    found.add(name, text.encode())
    return set(found.words())


@pytest.mark.parametrize(
    "text",
    [
        "e = dict(os.environ)\nsubprocess.run(['git'], env=e)\n",
        "env = {**os.environ, 'LC_ALL': 'C'}\nrun(command, env=env)\n",
        "env = os.environ.copy()\nenv['A'] = '1'\nrun(command, env=env)\n",
        "run(command, env=os.environ)\n",
        "os.environ['A'] = '1'\n",
        "# all of os.environ\nprint('A' in os.environ)\n",
    ],
)
def test_an_environment_that_is_handed_on_is_not_read(text: str) -> None:
    assert "os:*" not in words("customize.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "for key in os.environ:\n    pass\n",
        "env = {**os.environ, 'LC_ALL': 'C'}\nprint(env[name])\n",
        "e = os.environ\nlook(e)\n",
        "ask = os.getenv\n",
        "os.environ.get(\n    'CM_' + name)\n",
        "os.path.expandvars(text)\n",
        "print(name in os.environ)\n",
        "[v for k, v in os.environ.items()]\n",
        "from os import environ\nprint(environ[name])\n",
        "getattr(os, name)\n",
        "import posix\n",
    ],
)
def test_what_cannot_be_followed_is_everything(text: str) -> None:
    assert "os:*" in words("customize.py", text)


@pytest.mark.parametrize("text", ["$((N + 1))", "${v:N}", "let v=N", "[[ N -gt 1 ]]", "[ -v N ]"])
def test_names_without_a_dollar_in_a_shell_script(text: str) -> None:
    assert "N" in words("run.sh", text + "\n")


def test_a_word_that_is_given_a_value_is_not_asked_for_by_that() -> None:
    assert words("run.sh", "echo NAME=$OTHER > tmp-run-env.out\n") & {"NAME", "OTHER"} == {"OTHER"}
    assert "NAME" in words("run.sh", "NAME=1\nawk 'BEGIN { print ENVIRON[\"NAME\"] }'\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "((\n  x = num + 1\n))"),
        ("run.sh", "x=$[num+1]"),
        ("run.sh", "true; let x=num"),
        ("run.sh", "node -e 'console.log(process.env.num)'"),
        ("run.sh", "node -e 'console.log(process.env[\"num\"])'"),
        ("run.sh", "ruby -e 'puts ENV[\"num\"]'"),
        ("run.sh", "jq -n '$ENV.num'"),
        ("run.sh", "yq -n 'strenv(num)'"),
        ("tool.rb", "puts ENV.fetch('num')"),
        ("tool.go", 'v := os.Getenv("num")'),
        ("tool.rs", 'std::env::var("num")'),
        ("tool.tcl", "puts $env(num)"),
        ("tool.php", "echo $_SERVER['num'];"),
        ("CMakeLists.txt", "set(X $ENV{num})"),
        ("lines.yaml", "- echo $num"),
        ("lines.json", '["echo ${num}"]'),
        ("program.json", "import os\nprint(os.environ['num'])"),
    ],
)
def test_as_other_languages_and_files_ask(name: str, text: str) -> None:
    assert "num" in words(name, text + "\n") or "*" in words(name, text + "\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "cat /proc/self/env*"),
        ("run.sh", "tr '\\0' '\\n' < /proc/$$/$f"),
        ("run.sh", "ps eww $$"),
        ("run.sh", "ps -p $$ e"),
        ("run.sh", "busybox env"),
        ("run.sh", "bash -c 'env' | sort"),
        ("run.sh", "env -u HOME | sort"),
        ("run.sh", "jq -n env.num"),
        ("run.sh", "declare -i x=num"),
        ("run.sh", "perl -e '@v = @ENV{qw(num)}'"),
        ("tool.js", "for (const k in process.env) {}"),
        ("tool.py", "open('/proc/self/' + name)"),
        ("tool.py", "exec(open(place).read())"),
        ("tool.py", "import runpy"),
    ],
)
def test_further_looks_at_everything(name: str, text: str) -> None:
    assert "*" in words(name, text + "\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "cat /proc/cpuinfo /proc/self/maps /proc/$pid/status"),
        ("run.sh", "ps -ef | grep x; ps aux"),
        ("run.sh", "echo the env is set; bash -c 'echo x'"),
        ("tool.py", "exec(code)\nre.compile('x')\neval('1')"),
        ("tool.py", "open('/proc/self/status')"),
        ("data.json", '{"$schema": "x", "price": "5 $"}'),
    ],
)
def test_what_looks_at_nothing(name: str, text: str) -> None:
    assert "*" not in words(name, text + "\n")


@pytest.mark.parametrize("text", ["env", "a=$(env)", "env | sort", "set > f", "eval echo \\$$v"])
def test_a_shell_script_that_looks_at_everything(text: str) -> None:
    assert "*" in words("run.sh", text + "\n")


def test_a_program_that_env_starts_is_not_a_look_at_everything() -> None:
    assert "*" not in words("run.sh", "set -eu\nenv A=1 make\n")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("run.sh", "tool --x\n  other | third && (fourth)\n", "tool other third fourth"),
        ("run.sh", "f() { tool; }\nf\necho done; cd x\n", "tool"),
        ("run.sh", "# tool\nls  # tool is here\n", "ls"),
        ("run.sh", "cat \\\n  tmp-ver.out\n", "cat"),
        ("run-macos.sh", "brew list\n", ""),
        ("tool.py", "import subprocess\nsubprocess.run(['gcc', '-v'])\n", "gcc"),
        ("tool.py", "print('gcc')\n", ""),
        ("notes.txt", "tool\n", ""),
        (
            "run.sh",
            "#!/bin/bash\n. /etc/a.conf\n[ -f ~/.b ] && . $HOME/c\n",
            "/etc/a.conf ~/.b ~/c",
        ),
        (
            "run.sh",
            ": $X/bin/tool ../lib /proc/cpuinfo /dev/null /tmp/x http://a.b/c 's/a/b/'\n",
            "",
        ),
        ("tool.py", "open(Path.home() / '.a' / 'b')", "~/.a/b"),
        ("tool.py", "Path('/etc/a') / 'b.conf'", "/etc/a /etc/a/b.conf"),
        ("tool.py", "Path('~').expanduser() / '.a'\nPath(expanduser('~')) / '.b'", "~/.a ~/.b"),
        ("tool.py", "os.path.join(os.path.expanduser('~'), '.a', 'b')", "~/.a/b"),
        ("tool.py", "join(os.environ['HOME'], '.a')\njoin('x', 'y')\nPath('/tmp') / 'x'", "~/.a"),
        ("tool.py", "open('/etc/a')\nprint('</div>', a/b, '/dev/null')\n", "/etc/a"),
    ],
)
def test_programs_that_a_source_starts(name: str, text: str, expected: str) -> None:
    found = {word[5:] for word in words(name, text) if word.startswith("PATH/")}
    assert found == set(expected.split())
