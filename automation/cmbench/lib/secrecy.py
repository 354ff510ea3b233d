"""Secrets and how they are hidden: the one module for names, URLs and values.

A value is secret by its name (``DB_PASS``, ``--token``, ``?auth=``). In free text, which has no
names, known values are looked for; a short one would be found in words that it is no part of, so it
is hidden by its name only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

HIDDEN = "***"
_NAME = r"""TOKEN(?!I[SZ]) | SECRET | PASSWORD | PASSWD | PASSPHRASE | PASSCODE | CREDENTIAL
    | AUTH(?!OR(?!I[SZ])) | BEARER | COOKIE | (?<![A-Z])JWT(?![A-Z])
    | (?:API|ACCESS|PRIVATE|LICEN[CS]E|SIGNING|ENCRYPTION|ACCOUNT|STORAGE|SSH|GPG|PGP|RSA
        |DEPLOY|MASTER|SERVICE|PRODUCT|SUBSCRIPTION|WEBHOOK)[_-]?KEY
    | (?<![A-Z])(?:PASS|SSHPASS|PASSWDS?|PAT|CREDS?|OTP|PW)(?![A-Z])
    | (?<=[A-Z_-])(?<!OLD)(?<!OLD_)(?<!OLD-)PWD(?![A-Z])"""
# Of language models: how many tokens, how long one takes, and those that mean something.
_COUNTED = (
    r"(?i)(?<![A-Z])(?:(?:MAX|MIN|NUM|PER|EOS|BOS|PAD|STOP|UNK|SEP|CLS|MASK)[_-]?TOKENS?"
    r"|(?:N|NEW|TOTAL|INPUT|OUTPUT|PROMPT|COMPLETION|GENERATED|INFERRED)[_-]?TOKENS)(?![A-Z])"
    r"|TOKENS?[_-]?(?:PER|LATENC(?:Y|IES)|COUNTS?|LEN|LENGTHS?|RATES?|LIMIT|SIZE|IDS?)(?![A-Z])"
)
# One of these is in every name that the expression finds: most processes need not compile it.
_LONG = ("TOKEN", "SECRET", "PASS", "CRED", "AUTH", "BEARER", "COOKIE")
_WORDS = (*_LONG, "JWT", "KEY", "PAT", "OTP", "PW")
_ISSUED = ("ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "hf_", "npm_", "nvapi-", "xox")
_SAID = (
    "assw",
    "ecret",
    "ASSW",
    "ECRET",
    "uthoriz",
    "earer",
    "_key",
    "-key",
    "oken",
    "OKEN",
    "_KEY",
)
SIGNS = ("://", "?", "&", ";", "#", "-u ", "--user", *_ISSUED, *_SAID)
"""A text without any of them has nothing to hide but values that are known."""
_TOKEN = (
    r"(?<![A-Za-z0-9])(?:(?:gh[pousr]|hf|npm)_[A-Za-z0-9]{30,}|github_pat_\w{30,}"
    r"|(?:glpat|nvapi)-[\w-]{20,}|xox[abeprs]-[\w-]{10,})"
)
"""Tokens in the forms in which GitHub, GitLab, Hugging Face, npm, NVIDIA and Slack issue them."""
_WEBHOOK = r"(//(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)[\w/-]+"
_SENT = (
    r"(?i)(\bauthorization(?!\s+\w)\W{1,4}(?:\w+\s+)?"
    r"|\bbearer\s+(?!(?-i:[a-z]+)\b(?![.~+/=_-]\w)))[\w.~+/=-]{6,}"
)
_OF_NETRC = r"(?i)(\blogin\s+\S+\s+password\s+)\S+"
_OF_CURL = r"((?<![\w-])(?:-u|--user)[= ]+[^\s:=]+:)(?!\d+\b)[^\s\"']+"
_NAMED = (
    r"(?i)((?<![a-z])[\w.-]*(?:passw(?:or)?d|secret|(?:api|access|private)[_-]?key"
    r"|(?:auth|access|api)[_-]?token|(?<=--)token)[\"']?(?:\s*[:=]\s*|(?:(?<=[\"']),)?[ ]+)[\"']?)"
    r"(?![\"'=:*-]|(?:needs|takes|must|with|from|requires)\b)([^\s\"',;}&]{4,})"
)
"""A secret with its name in a text: an option, a key of JSON, a setting."""
_ORDINARY = r"(?:[A-Z]?[a-z]+|[A-Z]+)[.!?)]*"
_IN_QUERY = (
    r"(?i)token|secret|pass|pwd|sig|key|auth|cred|session|code|access|sas|jwt|cookie|bearer|login"
)
# A password may hold any sign, as long as what follows the name cannot be a port.
_USER = r"(?<=://)(?:[^/?#@\s]+@|[^/?#@\s:\[]+:(?!\d{1,5}(?:[/?#]|$))[^\s\"'<>]*@)"
_PARAMETER = r"(?P<before>[?&;#](?P<name>[^=&;#?\s]+)=)(?P<value>[^&;#\s\"'<>]+)"


@lru_cache(maxsize=8192)
def is_secret(name: str) -> bool:
    """Whether what has this name, of an env key, a flag or a field, is not to be shown."""
    upper = name.upper()
    rest = upper.replace("PATH", "")
    if upper in ("PWD", "OLDPWD") or not any(map(rest.__contains__, _WORDS)):
        return False
    return bool(re.search(_NAME, _uncounted(name), re.IGNORECASE | re.VERBOSE))


def _uncounted(name: str) -> str:
    """A name without its words for tokens of a language model."""
    return re.sub(_COUNTED, "", name) if "TOKEN" in name.upper() else name


def mask(text: str, harmless: int = 1 << 30) -> str:
    """``text`` with the passwords and tokens of all URLs in it as ``***``.

    A query value is hidden when its name sounds like a secret or it is longer than ``harmless``.
    """

    def parameter(match: re.Match[str]) -> str:
        hidden = re.search(_IN_QUERY, _uncounted(match["name"])) or len(match["value"]) > harmless
        return match["before"] + (HIDDEN if hidden else match["value"])

    if "://" in text:
        text = re.sub(_WEBHOOK, r"\1" + HIDDEN, re.sub(_USER, HIDDEN + "@", text))
    text = _without_tokens(text)
    return re.sub(_PARAMETER, parameter, text) if "=" in text else text


def _without_tokens(text: str) -> str:
    """``text`` without tokens that are known by their form, and values beside their name."""
    if any(map(text.__contains__, _ISSUED)):
        text = re.sub(_TOKEN, HIDDEN, text)
    if "-u " in text or "--user" in text:
        text = re.sub(_OF_CURL, r"\1" + HIDDEN, text)
    if any(map(text.__contains__, _SAID)):
        for said in (_SENT, _OF_NETRC):
            text = re.sub(said, r"\1" + HIDDEN, text)
        text = re.sub(_NAMED, _unless_harmless, text)
    return text


def _unless_harmless(match: re.Match[str]) -> str:
    """A path and a variable say where a secret lies; "password required" is a sentence."""
    name, value = match[1], match[2]
    assigned = name.startswith("-") or any(sign in name for sign in ":=")
    harmless = value[0] in "/~.$<" or (not assigned and re.fullmatch(_ORDINARY, value))
    return match[0] if harmless else name + HIDDEN


def mask_word(word: str) -> str:
    """A word of a command line without its secrets."""
    key, equals, _ = word.partition("=")
    return f"{key}={HIDDEN}" if equals and is_secret(key) else mask(word)


def bare(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Flags that sound like secrets, each with the word behind it that may be meant as its value.

    cmind takes such a word for a name.
    """
    for flag, word in pairwise(words):
        named = flag.startswith("-") and "=" not in flag and is_secret(flag)
        if named and not word.startswith("-"):
            yield flag, word


def mask_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` as they may be written into records and logs."""
    return {
        key: HIDDEN if is_secret(str(key)) and value else masked(value)
        for key, value in values.items()
    }


def masked(value: Any) -> Any:
    """A text, list or dictionary without its secrets; anything else as it is."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return mask_values(value)
    if isinstance(value, list | tuple):
        return type(value)(masked(item) for item in value)
    return value


def without_values(text: str, *sources: Mapping[str, Any]) -> str:
    """``text`` without the secret values of ``sources``, such as the flags of a call.

    For what is printed outside of a run: most texts hold none, which is found out at little cost.
    """
    for value in sorted({v for s in sources for v in _secrets_of(s)}, key=len, reverse=True):
        if value in text and not (value.startswith("/") and os.path.exists(value)):
            text = text.replace(value, HIDDEN)
    return text


def _secrets_of(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _secrets_of(value)
        elif isinstance(value, str) and len(value) >= _SHORTEST and is_secret(str(key)):
            yield value


_SHORTEST = 6
"""A shorter value is not looked for in texts."""


class Secrets:
    """What one run must not write down: secret values of every env it saw, whatever shows them."""

    def __init__(self, environment: Mapping[str, Any] | None = None) -> None:
        self._names: frozenset[str] = frozenset()
        self._values: tuple[str, ...] = ()
        self._signs: tuple[str, ...] = SIGNS
        self.learn(environment or {})

    def learn_flags(self, mapping: Mapping[str, str]) -> None:
        """Count flags as secret whose env keys are: ``{"pw": "MY_PASSWORD"}``."""
        self._names |= {flag for flag, key in mapping.items() if is_secret(key)}

    def learn(self, values: Mapping[str, Any]) -> None:
        """Keep the secret ones of ``values``, at any depth, to look for them in texts."""
        secrets = {text for value in self._secret_in(values) for text in _forms(value)}
        if not secrets.issubset(self._values):
            # Longest first: one secret may hold another.
            self._values = tuple(sorted(secrets.union(self._values), key=len, reverse=True))
            self._signs = (*SIGNS, *self._values)

    def _secret_in(self, values: Mapping[str, Any]) -> Iterator[Any]:
        hides = self._hides if self._names else is_secret
        for key, value in values.items():
            if hides(str(key)):
                yield value
            elif isinstance(value, Mapping):
                yield from self._secret_in(value)

    def _hides(self, name: str) -> bool:
        return is_secret(name) or name.lstrip("-").rpartition(".")[2] in self._names

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if not any(map(text.__contains__, self._signs)):
            return text
        return mask(str(self.known(text)))

    def word(self, word: str) -> str:
        """A word of a command line without secrets."""
        key, equals, _ = word.partition("=")
        return f"{key}={HIDDEN}" if equals and self._hides(key) else self.text(word)

    def words(self, words: Iterable[str]) -> list[str]:
        """A command line without secrets, also where one is a word of its own."""
        whole = list(words)
        alone = {word for _, word in bare(whole)}
        return [HIDDEN if word in alone else self.word(word) for word in whole]

    def data(self, value: Any) -> Any:
        """A text, list or dictionary without secrets; anything else as it is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            shown = self.values(value)
            names = "\n".join([key for key in shown if isinstance(key, str)])
            if self.known(names) == names:
                return shown
            return {self.known(key): item for key, item in shown.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._each(value))
        return value

    def values(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """``values`` without secrets, by their keys as they are."""
        hides = self._hides if self._names else is_secret
        shown = zip(values, self._each(values.values()), strict=True)
        return {key: HIDDEN if item and hides(str(key)) else item for key, item in shown}

    def known(self, text: Any) -> Any:
        """A text without the values that are known to be secret, whatever it looks like itself."""
        if isinstance(text, str):
            for value in self._values:
                if value in text:
                    text = text.replace(value, HIDDEN)
        return text

    def _each(self, items: Collection[Any]) -> list[Any]:
        """The items without secrets. Texts are looked at together: most have nothing to hide."""
        texts = "\n".join([item for item in items if isinstance(item, str)])
        clean = not any(map(texts.__contains__, self._signs))
        return [item if clean and isinstance(item, str) else self.data(item) for item in items]


def _forms(value: Any) -> Iterator[str]:
    """The texts to look for: as it is, line by line, and as programs write it.

    A path is no secret, it says where one lies.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _forms(item)
    elif isinstance(value, str) and not (value.startswith("/") and os.path.exists(value)):
        for line in (value, *value.splitlines()):
            yield from (text for text in _written(line.strip()) if len(text) >= _SHORTEST)


@lru_cache(maxsize=256)
def _written(line: str) -> frozenset[str]:
    """``line`` as it is, in a URL, quoted for a shell, Python, JSON or HTML, in base64 and hex."""
    import base64  # Rarely needed: most runs have no secret.
    import html
    import json
    import shlex
    from urllib.parse import quote

    forms = {line, quote(line, safe=""), html.escape(line), repr(line)[1:-1]}
    forms |= {json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]}
    forms |= {
        shlex.quote(line),
        line.replace("'", "'\\''"),
        re.sub(r"([^\w@%+=:,./-])", r"\\\1", line),
    }
    data = line.encode()
    if len(data) >= _SHORTEST:
        forms |= {data.hex(), line.upper()}
        forms.add(base64.b64encode(data).decode())
        # What stands before and behind it moves it: of every case the signs that are its own.
        for before, first in enumerate((0, 2, 3)):
            text = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
            forms.add(text[first : len(text) - bool((before + len(data)) % 3)])
    return frozenset(forms)
