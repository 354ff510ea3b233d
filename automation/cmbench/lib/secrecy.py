"""What is secret and how it is hidden: the one place for names, URLs and values.

A value is secret by its name (``DB_PASS``, ``--token``, ``?auth=``). In free text, which has no
names, known values are looked for; a short one would be found in words that it is no part of, so it
is hidden by its name only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "***"
_NAME = r"""TOKEN(?!I[SZ]) | SECRET | PASSWORD | PASSWD | PASSPHRASE | PASSCODE | CREDENTIAL
    | AUTH(?!OR(?!I[SZ])) | BEARER | COOKIE | (?<![A-Z])JWT(?![A-Z])
    | (?:API|ACCESS|PRIVATE|LICEN[CS]E|SIGNING|ENCRYPTION|ACCOUNT|STORAGE|SSH|GPG|PGP|RSA
        |DEPLOY|MASTER|SERVICE|PRODUCT|SUBSCRIPTION|WEBHOOK)[_-]?KEY
    | (?<![A-Z])(?:PASS|PASSWDS?|PAT|CREDS?|OTP|PW)(?![A-Z])
    | (?<=[A-Z_-])(?<!OLD)(?<!OLD_)(?<!OLD-)PWD(?![A-Z])"""
# One of these is in every name that the expression finds: most processes need not compile it.
_LONG = ("TOKEN", "SECRET", "PASS", "CRED", "AUTH", "BEARER", "COOKIE")
_WORDS = (*_LONG, "JWT", "KEY", "PAT", "OTP", "PW")
SIGNS = ("://", "?", "&", ";", "#")
"""A text without any of them has no URL: nothing in it is hidden but values that are known."""
_IN_QUERY = (
    r"(?i)token|secret|pass|pwd|sig|key|auth|cred|session|code|access|sas|jwt|cookie|bearer|login"
)
_USER = r"(?<=://)[^/?#@\s]+@"
_PARAMETER = r"(?P<before>[?&;#](?P<name>[^=&;#?\s]+)=)(?P<value>[^&;#\s\"'<>]+)"


@lru_cache(maxsize=8192)
def is_secret(name: str) -> bool:
    """Whether what has this name, of an env key, a flag or a field, is not to be shown."""
    upper = name.upper()
    rest = upper.replace("PATH", "")
    if upper in ("PWD", "OLDPWD") or not any(map(rest.__contains__, _WORDS)):
        return False
    return bool(re.search(_NAME, name, re.IGNORECASE | re.VERBOSE))


def mask(text: str, harmless: int = 1 << 30) -> str:
    """``text`` with the passwords and tokens of all URLs in it as ``***``.

    A query value is hidden when its name sounds like a secret or it is longer than ``harmless``.
    """

    def parameter(match: re.Match[str]) -> str:
        hidden = re.search(_IN_QUERY, match["name"]) or len(match["value"]) > harmless
        return match["before"] + (HIDDEN if hidden else match["value"])

    if "://" in text:
        text = re.sub(_USER, HIDDEN + "@", text)
    return re.sub(_PARAMETER, parameter, text) if "=" in text else text


def mask_word(word: str) -> str:
    """A word of a command line without its secrets."""
    key, equals, _ = word.partition("=")
    return f"{key}={HIDDEN}" if equals and is_secret(key) else mask(word)


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
        found = {text for value in self._secret_in(values) for text in _forms(value)}
        if not found.issubset(self._values):
            # Longest first: one secret may hold another.
            self._values = tuple(sorted(found.union(self._values), key=len, reverse=True))
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
        for value in self._values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return mask(text)

    def word(self, word: str) -> str:
        """A word of a command line without secrets."""
        key, equals, _ = word.partition("=")
        return f"{key}={HIDDEN}" if equals and self._hides(key) else self.text(word)

    def data(self, value: Any) -> Any:
        """A text, list or dictionary without secrets; anything else as it is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            hides = self._hides if self._names else is_secret
            shown = zip(value, self._each(value.values()), strict=True)
            return {key: HIDDEN if item and hides(str(key)) else item for key, item in shown}
        if isinstance(value, list | tuple):
            return type(value)(self._each(value))
        return value

    def _each(self, items: Collection[Any]) -> list[Any]:
        """The items without secrets. Texts are looked at together: most have nothing to hide."""
        texts = "\n".join([item for item in items if isinstance(item, str)])
        clean = not any(map(texts.__contains__, self._signs))
        return [item if clean and isinstance(item, str) else self.data(item) for item in items]


def _forms(value: Any) -> Iterator[str]:
    """The texts to look for: as it is, line by line, and as part of a URL.

    A path is no secret, it says where one lies.
    """
    from urllib.parse import quote  # Rarely needed: most runs have no secret.

    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _forms(item)
    elif isinstance(value, str) and not (value.startswith("/") and os.path.exists(value)):
        lines = (line.strip() for line in (value, *value.splitlines()))
        for text in (form for line in lines for form in (line, quote(line, safe=""))):
            if len(text) >= _SHORTEST:
                yield text
