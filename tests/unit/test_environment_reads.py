"""What the programs of a script read, as far as their sources show it."""

from __future__ import annotations

import pytest

from cmbench.format.called_programs import called_by_shell
from cmbench.format.environment_reads import Reads


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
    ("text", "expected"),
    [
        ("tool --x\n  other | third && (fourth)\n", "tool other third fourth"),
        ("f() { tool; }\nf\necho done; cd x\n", "tool"),
        ("# tool\nls  # tool is here\n", "ls"),
        ("cat \\\n  tmp-ver.out\n", "cat"),
    ],
)
def test_programs_that_a_shell_script_starts(text: str, expected: str) -> None:
    assert {word.decode() for word in called_by_shell(text.encode())} == set(expected.split())


ANY_WAY = {
    "index": ("run.sh", "declare -a a=(x y z)\na[num]=q\necho ${a[1]}\n"),
    "sum in a test": ("run.sh", "if [[ num+1 -eq 2 ]]; then echo a; fi\n"),
    "sum in a test 2": ("run.sh", "if [[ 2 -lt num*2 ]]; then echo a; fi\n"),
    "if env": ("run.sh", "if env | grep -q ^num=1; then echo a; fi\n"),
    "not env": ("run.sh", "! env | grep -q ^num=1 && echo\n"),
    "while env": ("run.sh", "while env | grep -q ^num=1; do echo; done\n"),
    "timeout env": ("run.sh", "timeout 5 env | grep ^num=1\n"),
    "nice env": ("run.sh", "nice -n 5 env | grep ^num=1\n"),
    "time env": ("run.sh", "time env | grep ^num=1\n"),
    "brace env": ("run.sh", "{ env; } | grep ^num=1\n"),
    "quoted env": ("run.sh", '"env" | grep ^num\n'),
    "backslash env": ("run.sh", "\\env | grep ^num\n"),
    "named env": ("run.sh", "e=env; $e | grep ^num\n"),
    "env 2>": ("run.sh", "env 2>/dev/null | grep ^num\n"),
    "env with a setting": ("run.sh", "env A=1 | grep ^num\n"),
    "set -a env": ("run.sh", "LC_ALL=C env | grep ^num\n"),
    "LC set": ("run.sh", "LC_ALL=C sort <(env) | grep ^num\n"),
    "usr bin sh": ("run.sh", "base64 -d f | /usr/bin/sh\n"),
    "env bash": ("run.sh", "base64 -d f | env bash\n"),
    "pipe python": ("run.sh", "base64 -d f | python3\n"),
    "pipe perl": ("run.sh", "base64 -d f | perl\n"),
    "python -c": ("run.sh", 'python3 -c "$(base64 -d f)"\n'),
    "source fd": ("run.sh", "source <(rev f)\n"),
    "source stdin": ("run.sh", "rev f | source /dev/stdin\n"),
    "prefix in a command": ("run.sh", 'bash -c "echo \\${nu$m:-no}"\n'),
    "computed in a makefile": ("run.sh", "echo 'a:; @echo $($(n)m)' > m; make -f m\n"),
    "declare -p": ("run.sh", "declare -p num\n"),
    "popen env": ("t.py", "import os\nprint(os.popen('env').read())\n"),
    "check env": ("t.py", "import subprocess\nprint(subprocess.check_output('env'))\n"),
    "tuple env": ("t.py", "import subprocess\nprint(subprocess.check_output(('env',)))\n"),
    "env -0": ("t.py", "import subprocess\nprint(subprocess.check_output(['env', '-0']))\n"),
    "getoutput set": ("t.py", "import subprocess\nprint(subprocess.getoutput('set'))\n"),
    "spawnlp": ("t.py", "import os\nos.execlp('env', 'env')\n"),
    "node destruct": ("t.js", "const {num} = process.env; console.log(num)\n"),
    "node bracket": ("t.js", "console.log(process['env'].num)\n"),
    "node alias": ("t.js", "const p = process; console.log(p.env.num)\n"),
    "node require": ("t.js", "console.log(require('process').env.num)\n"),
    "node import": ("t.mjs", "import {env} from 'node:process'; console.log(env.num)\n"),
    "node import2": ("t.mjs", "import * as p from 'node:process'; console.log(p.env['num'])\n"),
    "tcl var": ("t.tcl", "set n nu\nputs $env(${n}m)\n"),
    "tcl ::": ("t.tcl", "puts $::env(num)\n"),
    "tcl array": ("t.tcl", "array get env\n"),
    "tcl parray": ("t.tcl", "parray env\n"),
    "tcl set": ("t.tcl", "puts [set ::env(num)]\n"),
    "gdb": ("t.gdb", "show environment\n"),
    "perl Env": ("t.pl", "use Env;\nprint ${'num'};\n"),
    "perl POSIX": ("t.pl", "use POSIX; my $n='nu'.'m'; print POSIX::getenv($n);\n"),
    "perl each": ("t.pl", "while (my ($k,$v) = each %ENV) { print $v }\n"),
    "perl sh": ("t.pl", "print `env`;\n"),
    "perl system": ("t.pl", "system('env');\n"),
    "perl qx": ("t.pl", "print qx(printenv num);\n"),
    "node exec": ("t.js", "console.log(require('child_process').execSync('env')+'')\n"),
    "julia": ("t.jl", "for (k,v) in ENV println(v) end\n"),
    "julia2": ("t.jl", 'get(ENV, "num", 1)\n'),
    "R": ("t.R", "Sys.getenv('num')\n"),
    "R all": ("t.R", "x <- Sys.getenv()\n"),
    "lua": ("t.lua", "print(os.getenv('num'))\n"),
    "java": (
        "T.java",
        'class T{static String f(){return System.getenv().get("num");}}\n',
    ),
    "java2": (
        "T.java",
        'class T{ static String f(){ return new ProcessBuilder().environment().get("num");}}\n',
    ),
    "go": ("t.go", "for _, e := range os.Environ() { }\n"),
    "go expand": ("t.go", 'os.ExpandEnv("$" + n)\n'),
    "rust": ("t.rs", "for (k, v) in std::env::vars() { }\n"),
    "rust option": ("t.rs", 'option_env!("num")\n'),
    "c secure": ("t.c", 'int main(){puts(secure_getenv("num"));}\n'),
    "c environ": ("t.c", "extern char **environ; int main(){puts(environ[0]);}\n"),
    "c envp": ("t.c", "int main(int c, char **v, char **e){puts(e[0]);}\n"),
    "ninja": ("build.ninja", "rule r\n  command = env > out\n"),
    "make shell": ("Makefile", "all:\n\tenv | grep ^num\n"),
    "make shell2": ("Makefile", "X := $(shell env)\n"),
    "make foreach": ("Makefile", "$(foreach v,$(filter nu%,$(.VARIABLES)),$(info $($(v))))\n"),
    "make export": ("Makefile", "all:\n\t@printenv num\n"),
    "make origin": ("Makefile", "$(info $(origin num) $(flavor num))\n"),
    "make ifdef": ("Makefile", "ifdef num\nX=1\nendif\n"),
    "just": ("justfile", "a:\n  echo {{env_var('num')}}\n"),
    "jinja": ("t.j2", "{{ env.num }} {{ environ('num') }}\n"),
    "php": ("t.php", "<?php foreach ($_ENV as $k) echo $k; echo $_SERVER['num'];\n"),
    "php2": ("t.php", "<?php print_r(getenv());\n"),
    "ruby each": ("t.rb", "ENV.each { |k, v| puts v }\n"),
    "ruby val": ("t.rb", "puts ENV.values_at('num')\n"),
    "ruby sh": ("t.rb", "puts `env`\n"),
    "ruby dig": ("t.rb", "e = ENV\nputs e['num']\n"),
    "scons": ("SConstruct", "import os\nprint(os.environ[k])\n"),
    "awk split": ("p.awk", 'BEGIN{e = "env"; while ((e | getline l) > 0) print l}\n'),
    "awk cmd": ("p.awk", 'BEGIN{"env" | getline l}\n'),
    "cmake exec": ("CMakeLists.txt", "execute_process(COMMAND env OUTPUT_VARIABLE x)\n"),
    "cmake name": ("CMakeLists.txt", "message($ENV{${n}})\n"),
    "cmake -E": ("run.sh", "cmake -E environment | grep num\n"),
    "ipynb": ("t.ipynb", '{"cells":[{"source":["!env"]}]}\n'),
}
"""Files that depend on ``num``: by a list of all, by another name, by one made at run time."""


@pytest.mark.parametrize("name", ANY_WAY)
def test_a_variable_that_is_read_in_any_way_counts(name: str) -> None:
    reads = Reads()
    reads.add(ANY_WAY[name][0], ANY_WAY[name][1].encode())
    assert {"*", "num"} & set(reads.words())


@pytest.mark.parametrize(
    "line",
    [
        "set CUR_DIR=%cd%",
        "export A=${CM_A}:$PATH\n\nB=$PWD",
        "env A=1 python3 t.py",
        "set -e",
        "/usr/bin/env bash t.sh",
        "cat f | python3 -m json.tool",
        ". env/bin/activate",
    ],
)
def test_what_looks_like_a_list_of_all_variables_is_none(line: str) -> None:
    for name in ("run.sh", "run.bat"):
        reads = Reads()
        reads.add(name, line.encode())
        assert "*" not in reads.words()
