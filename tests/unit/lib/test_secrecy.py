"""What is secret by its name, and URLs without what is secret in them."""

from __future__ import annotations

import base64
import html
import json
import shlex

import pytest

from cmbench.lib.secrecy import Secrets, is_secret, mask, mask_word, masked

SECRET = """
HF_TOKEN AUTHORIZATION CM_AUTHORIZATION AUTH_HEADER PASSPHRASE GPG_PASSPHRASE PRIVATE_KEY
SSH_PRIVATE_KEY DB_PASS PASS MYSQL_PWD CM_DB_PWD COOKIE SESSION_COOKIE BEARER GITHUB_PAT PAT
PAT_OF_BOT LICENSE_KEY LICENCE_KEY NGC_API_KEY SIGNING_KEY dbPassword password apiKey pw
db-pass AWS_CREDS CREDENTIALS DOCKER_AUTH NGC_JWT NEW_TOKEN MAX_TOKENS_API_KEY ACCESS_TOKENS
TOKEN_OF_BOT ENCRYPTION_KEY SSHPASS
"""
HARMLESS = """
PATH PWD OLDPWD PATTERN PATCH COMPASS BYPASS PASSES GIT_ASKPASS AUTHOR AUTHORS TOKENIZER
TOKENIZED TOKENISER MAX_TOKENS max-tokens max_new_tokens OUTPUT_TOKENS MIN_TOKEN TOKEN_LATENCY
use_token_latencies TOKENS_PER_SECOND token_count EOS_TOKEN_ID pad_token TPOT_PER_TOKEN
XAUTHORITY KEY KEYS MONKEY CM_KEYWORD PASSIVE SPATIAL SPAT PWDX
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
        ("https://h/x?max_tokens=512&token=abc", "https://h/x?max_tokens=512&token=***"),
        ("https://h/x?size=3#egg=name", "https://h/x?size=3#egg=name"),
        ("https://h/p@q?list=2", "https://h/p@q?list=2"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert mask(url) == shown
    assert mask(f"got {url} today") == f"got {shown} today"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run --user=a --password=Zq7-Xw92", "run --user=a --password=***"),
        ("run --password Zq7-Xw92 --x", "run --password *** --x"),
        ('{"user": "a", "password": "Zq7-Xw92"}', '{"user": "a", "password": "***"}'),
        ("run --password correcthorse", "run --password ***"),
        ("run --env.DB_PASSWORD correcthorse", "run --env.DB_PASSWORD ***"),
        ("run '--client-secret' 'correcthorse'", "run '--client-secret' '***'"),
        ("password: correcthorse", "password: ***"),
        ("the password Zq7Xw92 is old", "the password *** is old"),
        ("DB_PASSWORD Zq7Xw92", "DB_PASSWORD ***"),
        ("machine h login bob password correcthorse", "machine h login bob password ***"),
        ("Bearer Zq7Xw92", "Bearer ***"),
        ("('Authorization', 'Bearer Zq7-Xw92')", "('Authorization', 'Bearer ***')"),
        ("Authorization: correcthorse", "Authorization: ***"),
        ("{'api_key': 'Zq7-Xw92'}", "{'api_key': '***'}"),
        ("Authorization: Bearer Zq7-Xw92", "Authorization: Bearer ***"),
        ("aws_secret_access_key=Zq7Xw92", "aws_secret_access_key=***"),
        ("curl -u bob:Zq7-Xw92 http://h", "curl -u bob:*** http://h"),
        ("token ghp_" + "a1B2" * 9, "token ***"),
        ("hf_" + "a1B2" * 9, "***"),
        ("https://hooks.slack.com/services/T0/B0/Zq7", "https://hooks.slack.com/services/***"),
    ],
)
def test_a_secret_that_a_text_names_is_hidden(text: str, shown: str) -> None:
    assert mask(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 x",
        "the password is wrong",
        "password required",
        "Password authentication failed for user x",
        "no password given, wrong password entered. Password prompt",
        "secret of success, Docker secret store, a secret sauce.",
        "API_KEY missing from the environment",
        "PASSWORD REQUIRED",
        "a password-protected archive: password protected, passwd file",
        "the bearer market, authorization required to read",
        "max_tokens=128, 12 tokens: 5 tokens/s",
        "--password-stdin",
        "access_key: /etc/keys/a.pem",
        "password=$DB_PASSWORD",
        "task-manager, disk-usage of hf_hub",
        "secret: <what you were given>",
    ],
)
def test_a_text_that_names_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_a_known_secret_is_hidden_however_a_program_writes_it() -> None:
    secret = "Zq7 \"hunt'er\\Xw92&=\u00e9"
    secrets = Secrets({"DB_PASSWORD": secret})
    ways = [secret, json.dumps(secret), repr(secret), html.escape(secret), shlex.quote(secret)]
    ways += ["'Zq7 \"hunt'\\''er\\Xw92&=\u00e9'", secret.encode().hex(), secret.upper()]
    ways += [base64.b64encode(start + secret.encode()).decode() for start in (b"", b"a:", b"bob:")]
    for text in ways:
        shown = secrets.text(f"it says {text}")
        assert "***" in shown, text
        assert "Xw92" not in shown, text
        assert len(shown) < len("it says ***") + 12, text
