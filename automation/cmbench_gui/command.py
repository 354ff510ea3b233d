"""A command as data: from a form's fields to words, to the forms that people copy, and back.

A ``ComposedCommand`` is what a form and the query of a link hold: a script, its variations, and
flags by the names that they have on a command line (``env.KEY`` for one in a group). All of the
others are made from it, and ``parse`` makes it again of the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cmbench.errors import Error, did_you_mean
from cmbench.format.model import InputSpec, Script, Tags, Variation
from cmbench.index.scripts import Index, ScriptRow
from cmbench.index.select import parse_tags, short_tags
from cmbench.session.request import FLAGS, SWITCHES, check_input, check_place, flags_of, tags_of
from cmbench.session.workspace import Workspace

if TYPE_CHECKING:
    from cmbench.api import ScriptSummary

VERBS = {"run": "runs it", "docker": "runs it in a container", "plan": "shows what a run would do"}
GROUPS = {
    "env": "sets this key of the env",
    "const": "sets this key, and nothing overrides it",
    "state": "sets this key of the state",
    "adr": "changes the dependencies of this name, at any depth",
    "ad": "changes its own dependencies of this name",
}

_PLAIN = re.compile(r"(?![-.@])[^\s/:,%]+")
"""A name that can be typed, and stand in an address."""
_NAME = re.compile(r"[A-Za-z][\w-]*(\.[^\s=.]+)*")


@dataclass(frozen=True, slots=True)
class ComposedCommand:
    """A script with what was chosen: ``flags`` in their order, without those that are empty."""

    script: str
    variations: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)

    def query(self) -> list[tuple[str, str]]:
        """The link's query: all that is needed to make the choice again."""
        variations = [("tags", ",".join(f"_{v}" for v in self.variations))]
        return [*(variations if self.variations else []), *self.flags.items()]


@dataclass(frozen=True, slots=True)
class ExplainedWord:
    """One word of a command: its meaning, and the problem with it, if any."""

    word: str
    meaning: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A command that was pasted: its verb, its choices, and its words explained."""

    verb: str
    choice: ComposedCommand
    words: tuple[ExplainedWord, ...]


def choice_of(
    script: Script, form_fields: Iterable[tuple[str, str]], name: str = ""
) -> ComposedCommand:
    """The choice that fields of a form, or the query of a link, make of ``script``.

    ``tags`` holds variations, once or several times; ``_NAME`` the value of a dynamic one; ``more``
    further flags, one a line. ``name`` is what names the script (``ScriptNames``), its alias by
    default. Raises ``bad-value`` for what can be no flag, and for a dynamic value with a comma.
    """
    pairs = [(key, value.strip()) for key, value in form_fields]
    variations = _variation_words(pairs)
    # A field left empty says nothing; an empty key of a group empties it.
    flags = {_as_typed(k): v for k, v in pairs if _is_flag(k) and (v or "." in k)}
    for key, value in pairs:
        if key == "more":
            flags.update(_further_flags(value))
    plain = [word.strip().removeprefix("_") for word in variations]
    return ComposedCommand(name or script.alias, tuple(dict.fromkeys(filter(None, plain))), flags)


def _variation_words(pairs: Sequence[tuple[str, str]]) -> list[str]:
    named = [word for key, value in pairs if key == "tags" for word in value.split(",")]
    return named + [
        _dynamic_variation(key, value) for key, value in pairs if key.startswith("_") and value
    ]


def _dynamic_variation(head: str, value: str) -> str:
    if "," in value:
        hint = f"a comma begins the next tag: choose {head} once for each value"
        raise Error("bad-value", f"{head}.{value} is not a variation", hint=hint)
    return f"{head}.{value}"


def can_be_typed(name: str) -> bool:
    """Whether ``--NAME=value`` gives a script that input: not by names that ``cm`` itself reads."""
    first = name.partition(".")[0]
    return "-" not in first and first in flags_of({first: ""})


def _is_flag(name: str) -> bool:
    if name in ("tags", "more", "token") or name.startswith("_") or "," in name:
        return False
    return bool(_NAME.fullmatch(name)) and can_be_typed(_as_typed(name))


def _as_typed(name: str) -> str:
    """A flag's name as ``cm`` reads it: a dash in it, but for those in a group, is a low line."""
    first, dot, rest = name.partition(".")
    return first.replace("-", "_") + dot + rest


def _further_flags(text: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.lstrip("-").partition("=")
        full = _as_typed(name.strip())
        if not _is_flag(full):
            raise Error(
                "bad-value", f"{line} is not a flag", hint="write one a line: env.KEY=value"
            )
        yield full, value.strip() if equals else "yes"


class ScriptNames:
    """What names one script of a home and no other, whatever repositories hold one of its alias."""

    def __init__(self, index: Index) -> None:
        self._of: dict[str, list[ScriptRow]] = {}
        self._repositories: dict[str, str] = {}
        for row in index.rows().values():
            self._repositories[row.path] = row.repo
            for name in {row.alias, row.uid}:
                self._of.setdefault(name, []).append(row)

    def of(self, script: Script | ScriptSummary) -> str:
        """Its alias, or that behind its repository, or its uid; the alias if none is unique."""
        same, repo = self._of.get(script.alias, []), self._repositories.get(script.path, "")
        if _PLAIN.fullmatch(script.alias):
            if len(same) == 1:
                return script.alias
            # Of repositories with one alias some differ only by a path: that is no address.
            if [row.repo for row in same].count(repo) == 1 and _PLAIN.fullmatch(repo):
                return f"{repo}:{script.alias}"
        is_unique = len(self._of.get(script.uid, [])) == 1
        return script.uid if is_unique and _PLAIN.fullmatch(script.uid) else script.alias


def words_of(
    choice: ComposedCommand, script: Script, workspace: Workspace, verb: str = "run"
) -> list[str]:
    """Return the command as words, as a terminal passes them to ``cm``, without quotes."""
    index = workspace.index
    tags = short_tags(script, index)
    rows = index.find(parse_tags(tags))
    unique = len({row.path for row in rows}) == 1
    chosen = [f"_{v}" for v in choice.variations]
    named = [] if unique else [ScriptNames(index).of(script)]
    tagged = ",".join([*(tags if unique else ()), *chosen])
    flags = [_flag(name, value, script) for name, value in choice.flags.items()]
    return ["cm", verb, "script", *named, *([f"--tags={tagged}"] if tagged else []), *flags]


def _flag(name: str, value: str, script: Script) -> str:
    bare = value == "yes" and name in SWITCHES and name not in script.inputs
    return f"--{name}" if bare else f"--{name}={value}"


def in_bash(words: Sequence[str]) -> str:
    """The command for bash, zsh and sh, a flag a line."""
    return _lines([_quoted(word) for word in words], " \\\n  ")


def _lines(words: Sequence[str], joint: str) -> str:
    first = next((at for at, word in enumerate(words) if "--" in word[:3]), len(words))
    head = " ".join(words[: first + 1])
    return joint.join([head, *words[first + 1 :]])


def _quoted(word: str) -> str:
    name, equals, value = word.partition("=")
    if equals and shlex.quote(name) == name:
        return f"{name}={shlex.quote(value) if value else ''}"
    return shlex.quote(word)


def in_powershell(words: Sequence[str]) -> str:
    """The command for PowerShell, where a comma outside quotes makes a list."""
    plain = re.compile(r"[\w./:=-]+")
    quoted = [w if plain.fullmatch(w) else "'" + w.replace("'", "''") + "'" for w in words]
    return _lines(quoted, " `\n  ")


def in_python(words: Sequence[str]) -> str:
    """The same by the Python API."""
    arguments = [
        f"    {name}={value!r}," if name.isidentifier() else f"    **{{{name!r}: {value!r}}},"
        for name, value in nested_flags(words).items()
    ]
    return "\n".join(
        [
            "from cmbench import api",
            "",
            "workspace = api.Workspace.open()",
            "request = api.request(",
            "    workspace,",
            *arguments,
            ")",
            "ran = api.run(request, on_event=print)",
        ]
    )


def in_yaml(words: Sequence[str]) -> str:
    """The flags as a file, and the command that reads it."""
    import yaml

    text: str = yaml.safe_dump(nested_flags(words), sort_keys=False, allow_unicode=True, width=100)
    return f"# cm {words[1]} script @run.yaml\n{text}"


def nested_flags(words: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a command as the Python API takes them: a group is a dictionary."""
    parsed = _parse_as_cmind(words)
    names = {"artifact": "name"} if "artifact" in parsed else {}
    return {names.get(key, key): value for key, value in parsed.items()}


def in_container(words: Sequence[str]) -> str:
    """The same run in a container, for bash."""
    return in_bash([words[0], "docker", *words[2:]])


FORMS = {
    "bash": in_bash,
    "PowerShell": in_powershell,
    "Python": in_python,
    "YAML": in_yaml,
    "container": in_container,
}
"""What a command can be copied as, and what makes it of its words."""


MLC = {
    "mlcr": ["mlc", "run", "script"],
    "mlcd": ["mlc", "docker", "script"],
}
"""Short commands of MLC, written out."""


def is_command(text: str) -> bool:
    """Whether a text begins as a command does, of CM or of MLC, and not as words to look for."""
    return bool(re.match(r"\s*([$>]\s+)?(cm|cmr|mlc|mlcr|mlcd)\s", text))


def split(text: str) -> list[str]:
    """Return the words of a pasted command; raise ``bad-value`` if it does not run a script."""
    joined = re.sub(r"[ \t]*[\\`^][ \t]*\r?\n[ \t]*", " ", text.strip())
    joined = re.sub(r"^\s*[$>]\s+", "", joined)
    try:
        words = shlex.split(_without_comment(joined))
    except ValueError as problem:
        raise Error(
            "bad-value",
            f"the command cannot be read: {problem}",
            hint="a closing quotation mark may be missing",
        ) from None
    if words[:1] == ["cmr"]:
        words[:1] = ["cm", "run", "script"]
    words = _as_cm_words(words)
    if words[:1] != ["cm"] or words[1:2] == [] or words[1] not in VERBS or words[2:3] != ["script"]:
        raise Error(
            "bad-value",
            "this is not a command that runs a script",
            hint="it begins with: `cm run script` (or `cm docker script`, `cm plan script`)",
        )
    if any("\x00" in word or "\n" in word for word in words):
        raise Error("bad-value", "a word of the command contains a line break", hint="remove it")
    return words


def _without_comment(text: str) -> str:
    """A command without what a shell would not read: ``#`` behind a blank, outside of quotes."""
    for mark in re.finditer(r"(?<=\s)#", text):
        try:
            shlex.split(text[: mark.start()])
        except ValueError:
            continue
        return text[: mark.start()]
    return text


def _as_cm_words(words: Sequence[str]) -> list[str]:
    """A command of MLC as one of ours: there the words behind the verb, up to a flag, are tags."""
    full = [*MLC.get(words[0], words[:1]), *words[1:]] if words else []
    if full[:1] != ["mlc"]:
        return full
    verb, rest = full[1:3], full[3:]
    tags = list(takewhile(lambda word: not word.startswith("-"), rest))
    flags = ["--tags=" + ",".join(" ".join(tags).split())] if tags else []
    return ["cm", *verb, *flags, *rest[len(tags) :]]


def _parse_as_cmind(words: Sequence[str]) -> dict[str, Any]:
    """What ``cm`` itself makes of the words behind verb and thing."""
    from cmind.cli import parse as parsed_by_cmind

    for word in words[3:]:
        if word.startswith("@") or word == "--":
            hint = "write the flags of that file instead"
            raise Error("bad-value", f"{word} is not supported here", hint=hint)
    try:
        call: dict[str, Any] = parsed_by_cmind(list(words[1:]))["cm_input"]
    except (TypeError, AttributeError):
        hint = "write --env.KEY=value, without --env=value"
        raise Error("bad-value", "a flag is used both alone and as a group", hint=hint) from None
    return {k: v for k, v in call.items() if k not in ("action", "automation", "cmd")}


def parse(text: str | Sequence[str], workspace: Workspace) -> ParsedCommand:
    """Return the choices of a pasted command, and its words explained.

    Raises ``bad-value``, ``script-not-found``, ``variation-not-found``.
    """
    words = split(text) if isinstance(text, str) else list(text)
    call = _parse_as_cmind(words)
    tags, name = tags_of(call)
    if not (tags.wanted or name):
        raise Error("bad-value", "no script is named", hint="add --tags=TAGS")
    script = resolve_script(workspace, tags, name)
    flags = {k: v for k, v in flatten_flags(flags_of(call)) if (v or "." in k) and k != "tags"}
    explained = [ExplainedWord(" ".join(words[:3]), f"cmbench {VERBS[words[1]]}")]
    explained += _explain_names(tags, name, script)
    explained += [_explain_flag(key, value, script) for key, value in flags.items()]
    chosen = ComposedCommand(ScriptNames(workspace.index).of(script), tags.variations, flags)
    return ParsedCommand(words[1], chosen, tuple(explained))


def resolve_script(workspace: Workspace, tags: Tags, name: str) -> Script:
    """Return the script that a run would take: one with the tags and the variations.

    Where none has the variations it is one with the tags. Raises ``script-not-found``.
    """
    from cmbench import api

    try:
        return api.show(workspace, tags, name)
    except Error as error:
        if error.code != "variation-not-found":
            raise
    return api.show(workspace, Tags(tags.wanted, tags.unwanted), name)


def flatten_flags(flags: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield flags in groups as on a command line: ``env.KEY``, with their texts."""
    for name, value in flags.items():
        if isinstance(value, Mapping):
            yield from flatten_flags(value, f"{before}{name}.")
        elif isinstance(value, bool):
            yield before + name, "yes" if value else "no"
        else:
            yield before + name, ",".join(value) if isinstance(value, list) else str(value)


def _explain_names(tags: Tags, name: str, script: Script) -> Iterator[ExplainedWord]:
    for word in filter(None, (name, ",".join(tags.wanted))):
        yield ExplainedWord(word, f"the script {script.alias}: {script.title}")
    for variation in tags.variations:
        yield _explain_variation(variation, script)
    for variation in tags.unwanted_variations:
        problem = "it has no field in the form: add it to the command yourself"
        yield ExplainedWord(f"-_{variation}", "excludes this variation", problem)


def _explain_variation(name: str, script: Script) -> ExplainedWord:
    known = variation_of(script, name)
    if known is None:
        hint = did_you_mean(name, script.variations) or "see its variations above"
        return ExplainedWord(f"_{name}", "", f"{script.alias} has no variation _{name}; {hint}")
    group = f"of the group {known.group}" if known.group else "a change to the script"
    return ExplainedWord(f"_{name}", f"variation, {group}")


def variation_of(script: Script, name: str) -> Variation | None:
    """The variation that ``name`` chooses, which may be a dynamic one: ``batch_size.8``."""
    return script.variations.get(name) or script.variations.get(f"{name.partition('.')[0]}.#")


def _explain_flag(name: str, value: str, script: Script) -> ExplainedWord:
    word = _flag(name, value, script)
    if name in script.inputs:
        spec = script.inputs[name]
        return ExplainedWord(word, meaning_of(spec), problem_of(spec, value, script))
    group, dot, rest = name.partition(".")
    if dot:
        meaning = GROUPS.get(group, "")
        problem = "" if meaning else f"there are no flags --{group}.KEY"
        return ExplainedWord(word, f"{meaning}: {rest}" if meaning else "", problem)
    if name in FLAGS:
        return ExplainedWord(word, FLAGS[name])
    if not script.dialect.inputs_bind:
        return ExplainedWord(word, "an input that the script does not declare")
    hint = did_you_mean(name, [*script.inputs, *FLAGS])
    return ExplainedWord(word, "", f"{script.alias} knows no flag --{name}. {hint}".strip())


def meaning_of(spec: InputSpec) -> str:
    """What an input is for, with its unit; the key that it sets where its script does not say."""
    said = spec.description or (f"sets {spec.env}" if spec.env else "an input of the script")
    return f"{said} (in {spec.unit})" if spec.unit else said


def problem_of(spec: InputSpec, value: str, script: Script) -> str:
    """Why the script would refuse ``value``; empty where it takes it."""
    try:
        check_input(spec.name, value, script)
        check_place(spec.name, value, script)
    except Error as error:
        return error.summary()
    return ""
