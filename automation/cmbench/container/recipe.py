"""The text of an image: a Containerfile, or a definition file for apptainer, from one recipe.

The same recipe gives the same text, byte for byte. Values are quoted in it for their reader
(the builder, or a shell in the image); what is secret or of this machine only (proxies, private
certificates, tokens) is passed when the image is built and is no part of the text.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cmbench.container.systems import MANAGERS, PROGRAMS, packages
from cmbench.errors import Error
from cmbench.lib import engine_code
from cmbench.lib.text_files import sha256

HOME = "/cm/home"
"""HOME in the container: a folder of the user's that is mounted there."""

CM_HOME = HOME + "/CM"
ENGINE_ROOT = "/cm/engine"
CERTIFICATES = "/cm/ca.pem"
PIP_SETTINGS = "/cm/pip.conf"
ENTER = "/opt/cmbench/enter"

PYTHON_PACKAGES = (
    "cmind>=4.2,<5",
    "Jinja2>=3.1",
    "PyYAML>=6",
    "packaging>=22",
    "requests>=2.28",
    "rich>=13",
)
"""What cmbench itself is installed with."""

SECRETS = {"cmbench_ca": CERTIFICATES, "cmbench_pip": PIP_SETTINGS}
"""Files of a build: their names for the engine, and where the build sees them."""

_CERTIFICATE_KEYS = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")

_ENTER = (
    "#!/bin/sh",
    "# Made by cmbench. HOME belongs to the user, and so does the Python in it, into which",
    "# scripts install; cmbench itself has one of its own.",
    "set -eu",
    f"if [ -s {CERTIFICATES} ]; then",
    f"  export {' '.join(f'{key}={CERTIFICATES}' for key in _CERTIFICATE_KEYS)}",
    "fi",
    "make_python() {",
    '  [ -x "$HOME/python/bin/pip" ] || /opt/cmbench/bin/python -m venv "$HOME/python"',
    "}",
    'if [ ! -x "$HOME/python/bin/pip" ]; then',
    "  if command -v flock >/dev/null; then",
    '    ( flock 9; make_python ) 9>"$HOME/.python.lock"',
    "  else",
    "    make_python",
    "  fi",
    "fi",
    'export PATH="$HOME/python/bin:$PATH"',
    'if [ "${1:-}" = --then-shell ]; then',
    "  shift",
    '  status=0; "$@" || status=$?',
    '  echo "ended with status $status; this is a shell in the container, exit leaves it"',
    "  exec bash",
    "fi",
    'exec "$@"',
)

_FIND_PYTHON = (
    (
        "for name in python3 python3.13 python3.12 python3.11 python3.10 none; do "
        "if command -v $name >/dev/null && "
        "$name -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then break; fi; done"
    ),
    (
        "if [ $name = none ]; then "
        "echo 'cmbench needs Python 3.10 or newer, and this image has none' >&2; exit 1; fi"
    ),
)
_SEE_ENGINE = (
    'import site; open(site.getsitepackages()[0] + "/cmbench.pth", "w")'
    f'.write("{ENGINE_ROOT}" + chr(10))'
)


@dataclass(frozen=True, slots=True)
class ContainerRecipe:
    """What an image is made of.

    ``manager`` is the package manager of ``base``, empty if unknown. ``baked`` is the
    folder in which cache entries of the build's context end up, empty for none.
    """

    base: str
    manager: str
    tools: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    baked: str = ""


@dataclass(frozen=True, slots=True)
class _Step:
    why: str
    commands: tuple[str, ...]
    network: bool = False


def containerfile(recipe: ContainerRecipe) -> str:
    """The recipe as a Containerfile (which is what a Dockerfile is)."""
    lines = ["# Written by cmbench from a plan.", f"FROM {recipe.base}"]
    for step in _steps(recipe):
        lines += ["", f"# {step.why}"]
        mounts = SECRETS if step.network else {}
        heads = [f"--mount=type=secret,id={name},target={at}" for name, at in mounts.items()]
        lines.append(" \\\n    ".join(["RUN " + " ".join([*heads, "set -eu;"]), *_joined(step)]))
    if recipe.baked:
        paths = json.dumps(["cache/", recipe.baked + "/"])
        lines += ["", "# Cache entries that the plan found", f"COPY {paths}"]
    lines += ["", *(f"ENV {key}={_quoted(value)}" for key, value in _ENV.items())]
    lines += [f"WORKDIR {HOME}", f"ENTRYPOINT {json.dumps([ENTER])}"]
    # Last, so that images of several scripts share what is above.
    lines += [f"LABEL {key}={_quoted(value)}" for key, value in sorted(recipe.labels.items())]
    return "\n".join(lines) + "\n"


def definition(recipe: ContainerRecipe) -> str:
    """The recipe as a definition file for apptainer; raises ``bad-value`` for a baked cache."""
    if recipe.baked:
        raise Error(
            "bad-value",
            "--docker_cached=bake is not possible with apptainer",
            hint="leave it out: the cache is then mounted",
        )
    lines = ["# Written by cmbench from a plan.", "Bootstrap: docker", f"From: {recipe.base}"]
    lines += ["", "%labels", *(f"    {k} {v}" for k, v in sorted(recipe.labels.items()))]
    lines += ["", "%post", "    set -eu"]
    for step in _steps(recipe):
        lines += [f"    # {step.why}", *(f"    {command}" for command in step.commands)]
    lines += ["", "%environment"]
    own = {key: value for key, value in _ENV.items() if key != "HOME"}
    lines += [f"    export {key}={shlex.quote(value)}" for key, value in own.items()]
    lines += ["", "%runscript", f'    exec {ENTER} "$@"']
    return "\n".join(lines) + "\n"


_ENV = {
    "HOME": HOME,
    "CM_REPOS": CM_HOME,
    "USER": "cm",
    "LOGNAME": "cm",
    "LANG": "C.UTF-8",
}


def digest(text: str) -> str:
    """The tag of the image with this text."""
    return sha256(text, 12)


def _joined(step: _Step) -> list[str]:
    """Return the commands of one RUN, all but the last with a separator."""
    return [f"{command};" for command in step.commands[:-1]] + [step.commands[-1]]


def _steps(recipe: ContainerRecipe) -> Sequence[_Step]:
    pip = "/opt/cmbench/bin/python -m pip install --no-cache-dir --disable-pip-version-check"
    packages = " ".join(shlex.quote(name) for name in PYTHON_PACKAGES)
    mounted = " ".join(f"{ENGINE_ROOT}/{path.name}" for path in engine_code.travelling())
    return (
        _Step(
            "Python, and the programs that the steps of the plan need",
            (*_trust(), *_install(recipe)),
            network=True,
        ),
        _Step(
            "cmind and what cmbench needs, apart from the Python that scripts install into",
            (
                *_trust(),
                *_FIND_PYTHON,
                "$name -m venv /opt/cmbench",
                f"{pip} {packages}",
                f"/opt/cmbench/bin/python -c {shlex.quote(_SEE_ENGINE)}",
                "ln -s /opt/cmbench/bin/cm /usr/local/bin/cm",
            ),
            network=True,
        ),
        _Step(
            "The way in; HOME exists for every user",
            (
                f"printf '%s\\n' {_lines(_ENTER)} > {ENTER}",
                f"chmod 755 {ENTER}",
                f"mkdir -p {HOME} {mounted}",
                f"chmod 777 {HOME}",
            ),
        ),
    )


def _lines(lines: Iterable[str]) -> str:
    return " \\\n      ".join(shlex.quote(line) for line in lines)


def _trust() -> tuple[str, ...]:
    """Private certificates and the settings of pip, where the build was given some."""
    keys = " ".join(f"{key}={CERTIFICATES}" for key in _CERTIFICATE_KEYS)
    return (
        f"if [ -s {CERTIFICATES} ]; then export {keys}; fi",
        f"if [ -s {PIP_SETTINGS} ]; then export PIP_CONFIG_FILE={PIP_SETTINGS}; fi",
    )


def _install(recipe: ContainerRecipe) -> tuple[str, ...]:
    if recipe.manager:
        return _install_with(recipe.manager, recipe.tools)
    branches = [
        f"if command -v {PROGRAMS[name]} >/dev/null; then "
        + "; ".join(_install_with(name, recipe.tools))
        for name in MANAGERS
    ]
    unknown = "echo 'this image has no package manager that cmbench knows' >&2; exit 1"
    return ("; \\\n    el".join(branches) + f"; \\\n    else {unknown}; fi",)


def _install_with(manager: str, tools: Iterable[str]) -> tuple[str, ...]:
    names = " ".join(shlex.quote(name) for name in packages(manager, tools))
    return tuple(command.replace("{}", names) for command in MANAGERS[manager])


def _quoted(value: str) -> str:
    """``value`` for ENV and LABEL, where the builder expands ``$`` and takes backslashes away."""
    if any(ord(character) < 32 for character in value):
        raise Error("bad-value", f"{value!r} cannot be written to a Containerfile")
    for character in ("\\", '"', "$"):
        value = value.replace(character, "\\" + character)
    return f'"{value}"'
