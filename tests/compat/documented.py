"""The command lines that a collection of scripts tells its users to type, each with its place.

They come from the collection alone: fenced commands of its pages, steps of its own workflows, the
inputs of its ``tests``, every script by its tags, every single variation, and every flag that its
engine documents at a script. Sessions are shell lines, run one after the other in one home.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TOOLS = {
    "cm": ("cm", "cmr"),
    "mlc": ("mlc", "mlcr", "mlcd", "mlct", "mlce"),
}
_PULLS = re.compile(r"\b(pull|init|add|rm|import) repos?\b|\bpip install (cm|mlc)|\bcmx\b")
_BLANKS = re.compile(r"<[^<>]*>|\$\{\{|\{[a-z ]+\}|\.\.\.|\[[^\]]* ")
"""What a reader has to fill in."""
_VALUE = re.compile(r"=<[^<>]*>")
"""The value of a flag that a reader chooses: any word will do."""
_SECRET = re.compile(r"push|submit|publish|secrets\.|--pat=|GH_TOKEN")
"""What would hand something to others."""

_RUN = {"cm": "cm run script --tags={}", "mlc": "mlcr {}"}
FLAGS = (
    *("--new", "--renew", "--skip_cache", "--force_cache", "--only_execute_from_cache"),
    *("--dirty", "--save_env", "--print_env", "--print_deps", "--print_readme", "--print_versions"),
    *("--dump_version_info", "--fake_run", "--prepare", "--fake_deps", "--ignore_script_error"),
    *("--pause", "--time", "--space", "--repro", "--repro_prefix=r1", "--repro_dir=r2", "--v"),
    *("--verbose", "--silent", "--s", "--json", "-j", "--skip_sys_utils", "--skip_sudo"),
    *("--skip_remembered_selections", "--extra_cache_tags=one,two", "--name=mine"),
    *("--outdirname=made", "--outbasename=base", "--output=out.txt", "--path=/usr/bin"),
    *("--version=1.2.3", "--version_min=0.1", "--version_max=999", "--version_max_usable=99"),
    *("--env.{P}_TRIED=1", "--const.{P}_TRIED=2", "--state.tried.a=1", "--skip_write_test"),
    *("--accept_license", "--skip_system_deps", "--detected_versions.a=1", "--quiet=no"),
    *("--force_new_env_keys,={P}_TRIED", "--local_env.{P}_A=1", "--debug_script_tags=none"),
    *("--adr.python.version_min=3.6", "--ad.python.version_min=3.6", "--script_call_prefix=x"),
    *("--shell", "--debug_script", "--debug_uid=1", "--help", "--docker_dt", "--skip_run"),
)
"""What the documentation of both engines' ``run`` lists, each as it is typed."""
VERBS = {
    "cm": (
        *("cm find script --tags={}", "cm find script {alias}", "cm search script {alias}"),
        *("cm load script {alias}", "cm show cache --tags={}", "cm show cache", "cm find cache"),
        *("cm find cache --tags={}", "cm rm cache --tags={} -f", "cm rm cache -f"),
        *("cm run script {alias}", "cm run script {uid}", 'cm run script "{words}"'),
        *('cmr "{words}"', "cm list script", "cm ls script *{alias}*", "cm show cache --env"),
        *(
            "cm prepare script --tags={}",
            "cm native-run script --tags={}",
            "cm info script {alias}",
        ),
        *("cm dockerfile script --tags={}", "cm help script", "cm list cache", "cm find repo"),
        *("cm copy script {alias} .:mine-too", "cm move script {alias} .:mine-now"),
        *("cm rm script {alias} -f", "cm add script .:mine --tags=a,mine --json"),
        *(
            "cm add script mine2 --template=python --tags=b,mine",
            "cm find script --tags={} --out=json",
        ),
        *("cm run script --tags={} --out=json", "cm run script --tags={},-nosuchtag"),
        *(
            "cm find script -p --tags={}",
            "cm run script {repo}:{alias}",
            "cm load script --tags={}",
        ),
        *("cm update script {alias} --meta.x=1", "cm test script {alias}"),
    ),
    "mlc": (
        *("mlc find script --tags={}", "mlc find script {alias}", "mlc search script --tags={}"),
        *("mlc find script --tags={} -p", "mlc show script {}", "mlc run script {alias}"),
        *("mlc run script --tags={}", "mlc run script {uid}", "mlc show cache", "mlc list cache"),
        *("mlc find cache --tags={}", "mlc search cache --tags={}", "mlc rm cache --tags={} -f"),
        *("mlc rm cache --all -f", "mlc show cache --tags={}", "mlc prune cache"),
        *("mlc mark-tmp cache --tags={}", "mlc find cache -p --tags={}", "mlc help script {}"),
        *(
            "mlc show script --tags={}",
            "mlc test script {alias}",
            "mlc list script",
            "mlc list repo",
        ),
        *("mlc cp script {alias} mine-too", "mlc mv script {alias} mine-now"),
        *("mlc rm script {alias} -f", "mlc add script mine --tags=a,mine"),
        *("mlc add script mine2 --tags=b,mine --template_tags={}", "mlcr {alias}", "mlcr {uid}"),
        *("mlcr {},-nosuchtag", "mlc find repo", "mlc lint script {}", "mlcr {} --mlc_output=o"),
        *(
            "mlc reindex script",
            "mlc find script --path_only --tags={}",
            "mlc prune cache --tags={}",
        ),
    ),
}
"""What is asked of a script besides a run; those about entries come after one."""


@dataclass(frozen=True)
class Session:
    """Shell lines that belong together, and where they stand."""

    source: str
    place: str
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return "; ".join(self.lines)


def sessions(
    collection: str, root: Path, documents: Path | None = None
) -> dict[str, list[Session]]:
    """All of them, by the kind of place that they come from.

    ``documents`` holds pages of a project that has its users type this collection's commands.
    """
    metas = list(_metas(root))
    found = {
        "pages": list(_pages(collection, root)),
        "workflows": list(_workflows(collection, root)),
        "tests": list(_tests(collection, metas)),
        "scripts": list(_scripts(collection, metas)),
        "variations": list(_variations(collection, metas)),
        "flags": list(_flags(collection, metas)),
        "inputs": list(_inputs(collection, metas)),
        "verbs": list(_verbs(collection, metas)),
        "documents": list(_pages(collection, documents)) if documents else [],
    }
    seen: set[tuple[str, ...]] = set()
    kept: dict[str, list[Session]] = {}
    for kind, listed in found.items():
        kept[kind] = []
        for each in listed:
            if each.lines not in seen and not _SECRET.search(each.name):
                seen.add(each.lines)
                kept[kind].append(each)
    return kept


def from_file(path: Path, collection: str) -> list[Session]:
    """One a line, its commands apart by `` ;; ``; with ``{P}`` for the prefix of env keys.

    ``{run}`` runs tags: ``{run} detect,os --quiet``; a line may be for one collection: ``cm: ...``.
    """
    found = []
    for raw in path.read_text("utf-8").splitlines():
        only, colon, rest = raw.partition(": ")
        line = rest if colon and only in TOOLS else raw
        if line.strip() and not line.startswith("#") and (line is raw or only == collection):
            line = line.replace("{P}", collection.upper())
            line = line.replace("{run} ", _RUN[collection].format(""))
            found.append(Session("cases", path.name, tuple(line.split(" ;; "))))
    return found


def sample(found: dict[str, list[Session]], sizes: dict[str, int], seed: int) -> list[Session]:
    """As many of each kind as asked for, drawn by chance but always the same for a seed."""
    drawn = []
    for kind in sorted(found):
        source = random.Random(f"{seed}-{kind}")
        drawn += source.sample(found[kind], min(sizes.get(kind, 0), len(found[kind])))
    # A run that is ended early has seen some of each.
    random.Random(seed).shuffle(drawn)
    return drawn


Meta = dict[str, Any]


def _metas(root: Path) -> Iterator[Meta]:
    for folder in sorted((root / "script").iterdir()):
        for name in ("_cm.yaml", "meta.yaml", "_cm.json", "meta.json"):
            if (folder / name).is_file():
                meta = yaml.safe_load((folder / name).read_text("utf-8"))
                yield {**meta, "repo": root.name}
                break


def _tags(meta: Meta) -> str:
    return ",".join(map(str, meta.get("tags") or ()))


def _run(collection: str, tags: str, *more: str) -> str:
    return " ".join([_RUN[collection].format(shlex.quote(tags)), *more, "--quiet"])


def _pages(collection: str, root: Path) -> Iterator[Session]:
    starts = tuple(f"{tool} " for tool in TOOLS[collection])
    for page in sorted(root.rglob("*.md")):
        text = page.read_text("utf-8", "replace").replace("\\\n", " ")
        for raw in text.splitlines():
            line = re.sub(r"\[[^\[\]]*\]", "", raw.strip().lstrip("$ ").strip("`")).strip()
            line = _VALUE.sub("=given", line)
            if line.startswith(starts) and _typed(line):
                asks = re.match(r"(cm run script|cmr|mlcr) ", line) and "--quiet" not in line
                words = [*line.split(), *(["--quiet"] if asks and "--help" not in line else [])]
                yield Session("pages", str(page.relative_to(root)), (" ".join(words),))


def _typed(line: str) -> bool:
    """Whether ``line`` can be typed as it stands."""
    if _BLANKS.search(line) or _PULLS.search(line):
        return False
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


def _workflows(collection: str, root: Path) -> Iterator[Session]:
    words = re.compile(r"(^|[\s(;])(" + "|".join(TOOLS[collection]) + r") [a-z\"-]", re.MULTILINE)
    for path in sorted((root / ".github" / "workflows").glob("*.y*ml")):
        jobs = (yaml.safe_load(path.read_text("utf-8")) or {}).get("jobs") or {}
        for name, job in jobs.items():
            for step in job.get("steps") or ():
                text = str(step.get("run") or "").replace("\\\n", " ")
                lines = [x.rstrip() for x in text.splitlines() if not _PULLS.search(x)]
                body = "\n".join(x for x in lines if x and not x.lstrip().startswith("#"))
                if words.search(body) and "${{" not in body and "<<" not in body:
                    yield Session("workflows", f"{path.name}: {name}", (body,))


def _tests(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        for given in (meta.get("tests") or {}).get("run_inputs") or ():
            base = _flags_of({k: v for k, v in given.items() if k not in _NOT_FLAGS})
            listed = given.get("variations_list") or [""]
            for names in listed:
                each = [f"_{n.lstrip('_')}" for n in str(names).split(",") if n]
                tags = ",".join([_tags(meta), *each])
                yield Session("tests", meta["alias"], (_run(collection, tags, *base),))


_NOT_FLAGS = ("variations_list", "fail_safe", "ignore_missing", "freq", "test-all-variations")


def _flags_of(given: dict[str, Any], start: str = "--") -> list[str]:
    words = []
    for key, value in given.items():
        if isinstance(value, dict):
            words += _flags_of(value, f"{start}{key}.")
        else:
            words.append(f"{start}{key}={shlex.quote(str(value))}")
    return words


def _scripts(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        yield Session("scripts", meta["alias"], (_run(collection, _tags(meta)),))


def _variations(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        for name in meta.get("variations") or ():
            if "," not in str(name):
                tags = f"{_tags(meta)},_{str(name).replace('#', '1')}"
                yield Session("variations", meta["alias"], (_run(collection, tags),))


def _flags(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        for flag in FLAGS:
            word = flag.replace("{P}", collection.upper())
            yield Session("flags", meta["alias"], (_run(collection, _tags(meta), word),))


def _inputs(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        for name in meta.get("input_mapping") or ():
            told = (meta.get("input_description") or {}).get(name)
            told = told if isinstance(told, dict) else {}
            value = str(told.get("default") or (told.get("choices") or ["abc"])[0])
            word = f"--{name}={shlex.quote(value)}"
            yield Session("inputs", meta["alias"], (_run(collection, _tags(meta), word),))


def _verbs(collection: str, metas: list[Meta]) -> Iterator[Session]:
    for meta in metas:
        words = {key: str(meta.get(key)) for key in ("alias", "uid", "repo")}
        for verb in VERBS[collection]:
            tags = _tags(meta)
            line = verb.format(tags, words=tags.replace(",", " "), **words)
            lines = (line,)
            if " cache" in verb:
                lines = (_run(collection, tags), line, _run(collection, tags))
            if re.search(r"(cp|copy|mv|move|rm|add) script", verb):
                made = re.findall(r"\bmine-?\w+", line)
                lines = (line, *(_AFTER[collection].format(x) for x in (meta["alias"], *made)))
            yield Session("verbs", meta["alias"], lines)


_AFTER = {"cm": "cm find script {}", "mlc": "mlc find script {}"}
