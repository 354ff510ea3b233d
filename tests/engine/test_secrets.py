"""Secrets that come in by every way, and everything that is written or shown."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lab import Lab, Result

from cmbench.lib.secrecy import Secrets, mask  # isort: skip

PLANTED = {
    "env": "EnvSecret1",
    "flag": "FlagSecret2",
    "process": "ProcessSecret3",
    "url": "UrlSecret4",
    "made": "MadeSecret5",
    "lines": "LineSecret6",
    "adr": "AdrSecret7",
}
LINES = "-----BEGIN-----\n" + PLANTED["lines"] + "\n-----END-----"
TALK = """
echo "env $CM_AUTHORIZATION pw $MY_PASSWORD process $HF_TOKEN url $CM_URL adr $DB_PASS"
echo "key $CM_PRIVATE_KEY"
"""
CUSTOMIZE = """
import os
def preprocess(i):
    env = i['env']
    env['CM_MADE_COOKIE'] = 'MadeSecret5'
    print('made', env['CM_MADE_COOKIE'], os.environ['HF_TOKEN'], env['CM_AUTHORIZATION'])
    env['CM_ARGS'] = '--header ' + env['CM_AUTHORIZATION']
    i['state']['site'] = {'argv': ['x', env.get('MY_PASSWORD', '')]}
    return {'return': 0}
def postprocess(i):
    env = i['env']
    text = ' '.join(str(env.get(k, '')) for k in (
        'CM_AUTHORIZATION', 'MY_PASSWORD', 'CM_MADE_COOKIE', 'CM_PRIVATE_KEY', 'CM_URL', 'DB_PASS'))
    text += os.environ['HF_TOKEN']
    if env.get('HOW') == 'returns':
        return {'return': 1, 'error': 'no access with ' + text, 'hint': 'try ' + text}
    if env.get('HOW') == 'raises':
        raise RuntimeError('no access with ' + text)
    return {'return': 0}
"""


@pytest.fixture
def site(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("HF_TOKEN", PLANTED["process"])
    lab.script(
        "get-x",
        cache=True,
        names=["x"],
        input_mapping={"pw": "MY_PASSWORD", "db": "DB_PASS", "how": "HOW"},
        new_env_keys=["CM_*", "DB_PASS", "MY_PASSWORD"],
        new_state_keys=["site"],
        customize=CUSTOMIZE,
        run=TALK,
    )
    lab.script(
        "app-x",
        deps=[{"tags": "get,x", "names": ["x"]}],
        input_mapping={"pw": "MY_PASSWORD", "how": "HOW"},
        new_env_keys=["CM_*", "MY_PASSWORD"],
        print_env_at_the_end={"CM_ARGS": "Arguments"},
        run=TALK,
    )
    return lab


def call(site: Lab, how: str = "", pw: str = PLANTED["flag"], **flags: object) -> Result:
    given = {
        "CM_AUTHORIZATION": PLANTED["env"],
        "CM_URL": f"https://h/x?password={PLANTED['url']}#auth={PLANTED['url']}",
        "CM_PRIVATE_KEY": LINES,
    }
    words = ["--tags=app,x", f"--pw={pw}", f"--env.CM_AUTHORIZATION={PLANTED['env']}"]
    return site.run(
        "app,x", pw=pw, how=how, env=given, adr={"x": {"db": PLANTED["adr"]}}, cmd=words, **flags
    )


def written(site: Lab) -> dict[str, str]:
    files = [path for path in (site.home / "cmbench").rglob("*") if path.is_file()]
    return {str(path): path.read_text(errors="replace") for path in files}


@pytest.mark.parametrize("how", ["", "returns", "raises"])
@pytest.mark.parametrize("out", ["con", "json"])
def test_nothing_written_or_shown_holds_a_secret(site: Lab, how: str, out: str) -> None:
    done = call(site, how, out=out, verbose=True, json=True)
    assert bool(done.answer["return"]) == bool(how)
    places = {**written(site), "stdout": done.out, "stderr": done.err}
    if out == "json" or how:
        places["answer"] = json.dumps(done.answer, default=str)
    for place, text in places.items():
        for way, secret in PLANTED.items():
            assert secret not in text, (way, place)


def test_a_short_secret_is_hidden_by_its_key(site: Lab) -> None:
    record = Path(call(site, pw="abc").answer["record"]).read_text()
    assert "--pw=***" in record
    assert '"abc"' not in record
    assert json.loads(record)["flags"]["pw"] == "***"


def test_a_program_that_calls_gets_the_values(site: Lab) -> None:
    assert call(site).env["CM_AUTHORIZATION"] == PLANTED["env"]


def test_a_bundle_and_a_lock_file_hold_no_secret(site: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    assert call(site, lock=str(lock)).answer["return"] == 0
    archive = tmp_path / "b.tar"
    assert site.call("export", "cache", all=True, output=str(archive)).answer["return"] == 0
    for path in (lock, archive):
        text = path.read_bytes().decode(errors="replace")
        assert not [way for way, secret in PLANTED.items() if secret in text], path


def test_a_fingerprint_of_a_secret_cannot_be_guessed_from_metadata(site: Lab) -> None:
    site.script("get-y", cache=True, new_env_keys=["DB_PASS"], run="echo $DB_PASS $CM_ARGS")
    given = {"DB_PASS": "guess", "CM_ARGS": "--x EnvSecret1", "CM_AUTHORIZATION": "EnvSecret1"}
    first = site.run("get,y", env=given)
    plain = hashlib.sha256(b"guess").hexdigest()[:32]
    assert not [place for place, text in written(site).items() if plain in text]
    assert (site.home / "cmbench/v1/key").stat().st_mode & 0o077 == 0
    assert site.run("get,y", env=given).answer["entry"] == first.answer["entry"]
    other = site.run("get,y", env={**given, "DB_PASS": "other"})
    assert other.answer["entry"] != first.answer["entry"]
    why = site.plan("get,y", env={**given, "CM_ARGS": "--x"}, why=True).out
    assert "CM_ARGS has another value, a secret" in why


BARE = [
    ({"artifact": "Zq7-Xw92"}, ["--tags=app,x", "--password", "Zq7-Xw92"]),
    ({"artifact": "app-x", "artifacts": ["Zq7-Xw92"]}, ["app-x", "--password", "Zq7-Xw92"]),
    ({"artifact": "app x", "artifacts": ["Zq7-Xw92"]}, ["app x", "--password", "Zq7-Xw92"]),
    ({"artifact": "Zq7-Xw92"}, ["--env.DB_PASS", "Zq7-Xw92", "--tags=app,x"]),
]


@pytest.mark.parametrize(("words", "cmd"), BARE)
@pytest.mark.parametrize("verb", ["run", "plan", "search"])
def test_a_secret_that_is_no_value_of_its_flag_is_not_shown(
    site: Lab, verb: str, words: dict[str, object], cmd: list[str]
) -> None:
    given = {"password": True} if "--password" in cmd else {"env": {"DB_PASS": True}}
    done = site.call(verb, tags="app,x" if "--tags=app,x" in cmd else "", cmd=cmd, **words, **given)
    shown = done.out + done.err + json.dumps(done.answer, default=str)
    assert "Zq7-Xw92" not in shown + "".join(written(site).values())
    assert done.answer["return"]


def test_a_secret_that_is_taken_for_a_name(site: Lab) -> None:
    words, cmd = BARE[3]
    done = site.run("app,x", cmd=cmd, env={"DB_PASS": True}, **words)
    assert done.answer["code"] == "bad-value"
    assert "--env.DB_PASS has no value" in done.err
    assert "--env.DB_PASS=..." in done.err


def test_a_secret_among_the_words_of_a_command() -> None:
    secrets = Secrets()
    words = ["cm", "run", "script", "get x", "--pw", "Zq7", "-q", "--token=Zq7", "mine"]
    assert secrets.words(words)[4:] == ["--pw", "***", "-q", "--token=***", "mine"]


def test_a_name_behind_a_flag_that_sounds_like_a_secret_is_a_name(site: Lab) -> None:
    site.script("get-z", input_mapping={"skip_auth": "CM_SKIP"}, run="echo $CM_SKIP")
    done = site.call("run", artifact="get-z", skip_auth=True, cmd=["--skip_auth", "get-z"])
    assert done.answer["return"] == 0, done.err


def test_a_file_that_is_named_by_a_secret(site: Lab) -> None:
    site.script(
        "get-w",
        cache=True,
        input_mapping={"pw": "MY_PASSWORD"},
        new_env_keys=["CM_W_*"],
        customize="""
import os
def postprocess(i):
    path = os.path.join(os.getcwd(), i['env']['MY_PASSWORD'] + '.txt')
    i['env']['CM_W_FILE'] = path
    return {'return': 0, 'depends_on': path}
""",
        run="echo x > $MY_PASSWORD.txt; echo made $MY_PASSWORD.txt",
    )
    done = site.run("get,w", pw="Zq7-Xw92")
    assert done.answer["return"] == 0, done.err
    listed = [site.call("show", "cache", env=True), site.call("verify", "cache")]
    places = {**written(site), "out": done.out, "err": done.err}
    places |= {str(n): each.out + each.err for n, each in enumerate(listed)}
    assert not [place for place, text in places.items() if "Zq7-Xw92" in text]
    assert listed[1].answer["return"] == 0
    (made,) = (site.home / "cmbench").rglob("Zq7-Xw92.txt")
    assert made.parent.stat().st_mode & 0o077 == 0


KNOWN = "zebraSecret99"
TO_A_FILE = """
import os
def postprocess(i):
    path = os.path.join(os.getcwd(), '..', '..', '..', i['env']['CM_API_TOKEN'])
    open(path, 'w').close()
    return {'return': 0, 'relies_on': [path]}
"""
KINDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "a tag": ({}, {"extra_cache_tags": f"{KNOWN},a"}),
    "a version": ({}, {"version": f"1.{KNOWN}"}),
    "a name": ({}, {"name": KNOWN}),
    "a key": ({"run": "echo CM_$CM_API_TOKEN=1 > tmp-run-env.out\n"}, {}),
    "a state": ({"customize": f"def preprocess(i):\n    i['state']['a'] = {{'{KNOWN}': 1}}\n"}, {}),
    "a file": ({"customize": TO_A_FILE}, {}),
    "a variation": ({"variations": {"k.#": {}}}, {"tags": f"get,x,_k.{KNOWN}"}),
    "a variation from env": (
        {
            "deps": [
                {"tags": "get,z", "update_tags_from_env_with_prefix": {"_k.": ["CM_API_TOKEN"]}}
            ]
        },
        {},
    ),
    "a change of a dependency": ({}, {"ad": {"z": {"env": {"CM_API_TOKEN": KNOWN}}}}),
    "a failure": ({"run": "echo $CM_API_TOKEN >&2\nexit 1\n"}, {}),
    "a traceback": ({"customize": f"def preprocess(i):\n    raise ValueError('{KNOWN}')\n"}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("debug", [False, True])
def test_a_known_secret_is_nowhere_whatever_it_is_part_of(lab: Lab, kind: str, debug: bool) -> None:
    meta, flags = KINDS[kind]
    lab.script("get-z", variations={"k.#": {}}, cache=True)
    known = {"cache": True, "new_env_keys": ["CM_*"], "new_state_keys": ["a"]}
    known["deps"] = [{"tags": "get,z", "names": ["z"]}]
    lab.script("get-x", **{**known, **meta})  # type: ignore[arg-type]
    call = {"tags": "get,x", "env": {"CM_API_TOKEN": KNOWN}, "debug": debug, **flags}
    shown = [
        lab.call(verb, thing, **(call if thing == "script" else {}))
        for verb, thing in (("run", "script"), ("plan", "script"), ("run", "script"))
        + (("show", "cache"), ("gc", "cache"))
    ]
    for result in shown:
        assert KNOWN not in result.out
        assert KNOWN not in result.err
    for place, text in written(lab).items():
        assert KNOWN not in text, place


def test_a_secret_that_changes_a_dependency_cannot_be_guessed(lab: Lab) -> None:
    lab.script("get-z", env={"A": "1"})
    lab.script("get-x", cache=True, deps=[{"tags": "get,z", "names": ["z"]}])
    for group in ("ad", "adr"):
        change = {group: {"z": {"env": {"CM_API_TOKEN": KNOWN}}}}
        assert lab.run("get,x", **change).status["get-x"] == "done"
        assert lab.run("get,x", **change).status["get-x"] == "cached"
        reads = lab.store.entries()[0].reads
        assert [v[:5] for k, v in reads.items() if k.endswith("z") and len(v) > 9] == ["hmac:"]


@pytest.mark.parametrize(
    "text",
    [
        *("http://user:pa/ss@host/", "ftp://u:a?b@h", "s://u:#p@h/x"),
        *("see http://u:a/b@h/x and", "u=https://u:p:q/r@h"),
    ],
)
def test_a_password_with_odd_signs_in_a_url(text: str) -> None:
    shown = mask(text)
    assert "***@h" in shown
    assert len(shown) < len(text) + 3


@pytest.mark.parametrize(
    "text",
    [
        *("http://localhost:4873/@scope/pkg", "https://h:80/a@1.0", "docker://r:5000/i@sha256:0a"),
        *("http://[::1]:80/x@y", "https://h/x@y", "https://h:443?x", "git@h:a/b", "http://h:8080"),
    ],
)
def test_a_url_without_a_password_is_shown(text: str) -> None:
    assert mask(text) == text
