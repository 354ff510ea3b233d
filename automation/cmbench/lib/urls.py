"""URLs in messages and as file names."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_USER = re.compile(r"(?<=://)[^/?#@\s]+@")
_PARAMETER = re.compile(r"(?P<before>[?&;](?P<name>[^=&;#\s]+)=)(?P<value>[^&;#\s]+)")
_SECRET_NAME = re.compile(
    r"token|secret|pass|pwd|sig|key|auth|cred|session|code|access|sas|jwt", re.IGNORECASE
)
_HARMLESS_LENGTH = 16


def mask_url(text: str) -> str:
    """``text`` with the passwords and tokens of all URLs in it as ``***``.

    A query value is hidden when its name sounds like a secret or it is long enough to be one.
    """
    return _PARAMETER.sub(_mask_parameter, _USER.sub("***@", text))


def _mask_parameter(match: re.Match[str]) -> str:
    hidden = _SECRET_NAME.search(match["name"]) or len(match["value"]) > _HARMLESS_LENGTH
    return match["before"] + ("***" if hidden else match["value"])


def file_name(url: str, default: str = "index.html") -> str:
    """The last part of a URL's path, as a name that is safe to write to."""
    try:
        path = urlsplit(url).path
    except ValueError:  # Whoever fetches it is going to say so.
        path = ""
    name = unquote(path).rstrip("/").rpartition("/")[2]
    name = re.sub(r"[\x00-\x1f/\\]", "_", name)
    return name if name.strip(".") else default
