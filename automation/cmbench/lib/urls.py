"""URLs in messages and as file names."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from cmbench.lib.secrecy import mask

_HARMLESS_LENGTH = 16


def mask_url(text: str) -> str:
    """``text`` without the secrets of its URLs, nor values that are long enough to be one."""
    return mask(text, _HARMLESS_LENGTH)


def file_name(url: str, default: str = "index.html") -> str:
    """The last part of a URL's path, as a name that is safe to write to."""
    try:
        path = urlsplit(url).path
    except ValueError:  # Whoever fetches it is going to say so.
        path = ""
    name = unquote(path).rstrip("/").rpartition("/")[2]
    name = re.sub(r"[\x00-\x1f/\\]", "_", name)
    return name if name.strip(".") else default
