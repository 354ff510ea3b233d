"""What is secret and how it is hidden: the one place for names, URLs and values.

A value is secret by its name (``DB_PASS``, ``--token``, ``?auth=``). In free text, which has no
names, known values are looked for; a short one would be found in words that it is no part of, so it
is hidden by its name only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
_NAME = re.compile(
    r"""TOKEN(?!I[SZ]) | SECRET | PASSWORD | PASSWD | PASSPHRASE | PASSCODE | CREDENTIAL
    | AUTH(?!OR(?!I[SZ])) | BEARER | COOKIE | (?<![A-Z])JWT(?![A-Z])
    | (?:API|ACCESS|PRIVATE|LICEN[CS]E|SIGNING|ENCRYPTION|ACCOUNT|STORAGE|SSH|GPG|PGP|RSA
        |DEPLOY|MASTER|SERVICE|PRODUCT|SUBSCRIPTION|WEBHOOK)[_-]?KEY
    | (?<![A-Z])(?:PASS|PASSWDS?|PAT|CREDS?|OTP|PW)(?![A-Z])
    | (?<=[A-Z_-])(?<!OLD)(?<!OLD_)(?<!OLD-)PWD(?![A-Z])""",
    re.IGNORECASE | re.VERBOSE,
)
_IN_QUERY = re.compile(
    r"token|secret|pass|pwd|sig|key|auth|cred|session|code|access|sas|jwt|cookie|bearer|login",
    re.IGNORECASE,
)
_USER = re.compile(r"(?<=://)[^/?#@\s]+@")
_PARAMETER = re.compile(r"(?P<before>[?&;#](?P<name>[^=&;#?\s]+)=)(?P<value>[^&;#\s\"'<>]+)")


def is_secret(name: str) -> bool:
    """Whether what has this name, of an env key, a flag or a field, is not to be shown."""
    return bool(_NAME.search(name))


def mask(text: str, harmless: int = 1 << 30) -> str:
    """``text`` with the passwords and tokens of all URLs in it as ``***``.

    A query value is hidden when its name sounds like a secret or it is longer than ``harmless``.
    """

    def parameter(match: re.Match[str]) -> str:
        hidden = _IN_QUERY.search(match["name"]) or len(match["value"]) > harmless
        return match["before"] + (HIDDEN if hidden else match["value"])

    if "://" in text:
        text = _USER.sub(HIDDEN + "@", text)
    return _PARAMETER.sub(parameter, text) if "=" in text else text


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
