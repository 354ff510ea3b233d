"""What is secret by its name, and URLs without what is secret in them."""

from __future__ import annotations

import pytest

from cmbench.lib.secrecy import is_secret, mask, mask_word, masked

SECRET = """
HF_TOKEN AUTHORIZATION CM_AUTHORIZATION AUTH_HEADER PASSPHRASE GPG_PASSPHRASE PRIVATE_KEY
SSH_PRIVATE_KEY DB_PASS PASS MYSQL_PWD CM_DB_PWD COOKIE SESSION_COOKIE BEARER GITHUB_PAT PAT
PAT_OF_BOT LICENSE_KEY LICENCE_KEY NGC_API_KEY SIGNING_KEY dbPassword password apiKey pw
db-pass AWS_CREDS CREDENTIALS DOCKER_AUTH NGC_JWT ENCRYPTION_KEY
"""
HARMLESS = """
PATH PWD OLDPWD PATTERN PATCH COMPASS BYPASS PASSES GIT_ASKPASS AUTHOR AUTHORS TOKENIZER
TOKENIZED TOKENISER XAUTHORITY KEY KEYS MONKEY CM_KEYWORD PASSIVE SPATIAL SPAT PWDX
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert is_secret(f"--env.CM_{name}")
    assert mask_word(f"--{name}=abc") == f"--{name}=***"
    assert masked({"a": [{name: "abc"}]}) == {"a": [{name: "***"}]}


@pytest.mark.parametrize("name", HARMLESS.split())
def test_names_of_what_is_no_secret(name: str) -> None:
    assert not is_secret(name)
    assert not is_secret(f"CM_{name}") or name == "PWD"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/x?password=abc", "https://h/x?password=***"),
        ("https://h/x?a=1&auth=abc&b=2", "https://h/x?a=1&auth=***&b=2"),
        ("https://h/x?X-Amz-Credential=abc", "https://h/x?X-Amz-Credential=***"),
        ("https://h/x#token=abc", "https://h/x#token=***"),
        ("https://h/x#a=1&access_token=abc", "https://h/x#a=1&access_token=***"),
        ("https://h/x?sas=abc;pass=d", "https://h/x?sas=***;pass=***"),
        ("'https://h/x?key=abc'", "'https://h/x?key=***'"),
        ("postgres://me:abc@h/db", "postgres://***@h/db"),
        ("https://h/x?size=3#egg=name", "https://h/x?size=3#egg=name"),
        ("https://h/p@q?list=2", "https://h/p@q?list=2"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert mask(url) == shown
    assert mask(f"got {url} today") == f"got {shown} today"
