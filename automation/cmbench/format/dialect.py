"""The one table of dialects: how families of repositories differ in reading the same format.

A dialect is a property of a repository. Everything that the engine does differently for scripts of
another family is a column of ``DIALECTS``; no other module asks for a dialect by its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cmbench.values import immutable

Suffix = tuple[str, ...]

_PROXIES = ("ftp_proxy", "http_proxy", "https_proxy", "no_proxy", "socks_proxy")
_HOST_KEYS = ("GH_TOKEN", *_PROXIES, *(name.upper() for name in _PROXIES))
_HIDDEN = (
    "INPUT",
    "OUTPUT",
    "OUTBASENAME",
    "OUTDIRNAME",
    "NAME",
    "EXTRA_CACHE_TAGS",
    "RENEW_CACHE_ENTRY",
    "DETECTED_VERSION",
)
_NOTES = ("REQUIRE_INSTALL",)
"""The first engines hand such a key on and on, and where their cache does not answer by chance,
everything below an installer is installed anew: ``get-ansible`` of MLC shows it."""
_INPUTS = (
    "input",
    "output",
    "outdirname",
    "outbasename",
    "name",
    "extra_cache_tags",
    "skip_compile",
    "skip_run",
    "accept_license",
    "skip_system_deps",
    "git_ssh",
    "gh_token",
)
_FLAVOR, _VERSION, _PLATFORM = "HOST_OS_FLAVOR", "HOST_OS_VERSION", "HOST_PLATFORM_FLAVOR"
_LIKE, _TYPE = "HOST_OS_FLAVOR_LIKE", "HOST_OS_TYPE"


@immutable(frozen=True, slots=True, eq=False, repr=False)
class Dialect:
    """The rules by which one family of repositories reads the format.

    ``prefix`` starts every env key of the engine; other keys are named here without it. The
    defaults are those of CM.

    Layers of settings. ``base_first``: the base of a variation is merged before the variation that
    names it, so that the derived one wins. ``inputs_are_const``: no variation overrides an input.
    ``top_level_rules``: ``const`` and ``update_meta_if_env`` of the script itself count, not only
    those of variations. ``version_first``: the block of the version is merged before the
    variations. ``combined_last``: combined variations come once, after all single ones.
    ``lists_grow``: a list in ``env`` is added to the list that is there already.
    ``version_variations``: a version that is asked for also asks for the variation
    ``version.<version>`` where there is one.

    Conditions. ``gaps_are_unset``: a value with an unresolved ``<<<KEY>>>`` in it counts as empty.

    Env. ``extra_command`` names a variable of the user's process with more flags for every run;
    ``host_keys`` are taken from the user's process into the env of the requested step.
    ``user_directory`` is a constant with the user's directory, if not empty. ``inputs`` are flags
    that every script accepts, handed on under ``prefix`` and the name in capitals; ``places`` the
    same under ``TMP_``. ``hidden`` keys and all that start with one of ``hidden_starts`` are not
    seen by dependencies; ``notes`` are handed to the dependencies of the step that has set them
    and to no other.

    Inputs. ``inputs_bind``: ``input_description`` is complete, so that other flags and other values
    are refused; elsewhere it is a help for readers, and unknown flags get a warning.
    ``versions_bind``: a requested script that reports no version is refused bounds of one;
    elsewhere bounds are for the scripts that look at them.

    Native scripts. ``values_expand``: they see values as a shell does between double quotes, with
    ``\\$`` for a dollar sign and ``$KEY`` for another value; nothing is ever executed for that.
    ``suffixes``: which native script is taken, in this order, by the values of these keys.

    Faults. ``faults_bind``: what the linter finds is an error, and every check counts; elsewhere it
    is a warning about other people's work, and the demands of the house style are not made.

    Hooks. ``predeps``: ``customize.py`` may have a hook of that name, called before the
    dependencies; ``modules``: the package that it finds under this name, if not empty.

    Results. ``deps_told``: what ``deps`` of a result holds: the ``steps`` of the run, the ``tags``
    of the script's own dependencies, or these in ``entries`` as a meta has them. ``command``
    begins the command line that runs some tags. ``idle_flags`` of the first engines do nothing in
    this one.
    """

    name: str
    prefix: str
    base_first: bool = False
    inputs_are_const: bool = True
    top_level_rules: bool = False
    version_first: bool = False
    combined_last: bool = False
    lists_grow: bool = False
    version_variations: bool = False
    gaps_are_unset: bool = False
    extra_command: str = "CM_SCRIPT_EXTRA_CMD"
    host_keys: tuple[str, ...] = _HOST_KEYS
    user_directory: str = ""
    inputs: tuple[str, ...] = _INPUTS
    places: tuple[str, ...] = ()
    hidden: tuple[str, ...] = _HIDDEN
    hidden_starts: tuple[str, ...] = ("TMP_", "VERSION", "GIT_")
    notes: tuple[str, ...] = _NOTES
    suffixes: tuple[Suffix, ...] = (
        (_FLAVOR, _VERSION, _PLATFORM),
        (_FLAVOR, _PLATFORM),
        (_FLAVOR, _VERSION),
        (_FLAVOR,),
        (_PLATFORM,),
    )
    inputs_bind: bool = True
    versions_bind: bool = True
    faults_bind: bool = True
    values_expand: bool = False
    predeps: bool = False
    modules: str = ""
    deps_told: str = "steps"
    command: str = "cm run script --tags="
    idle_flags: tuple[str, ...] = ()


CM = Dialect("cm", "CM_")
CLASSIC = Dialect(
    "cm-classic",
    "CM_",
    inputs_bind=False,
    versions_bind=False,
    faults_bind=False,
    values_expand=True,
    deps_told="tags",
)
MLC = Dialect(
    "mlc",
    "MLC_",
    base_first=True,
    inputs_are_const=False,
    top_level_rules=True,
    version_first=True,
    combined_last=True,
    lists_grow=True,
    version_variations=True,
    gaps_are_unset=True,
    extra_command="MLC_SCRIPT_EXTRA_CMD",
    host_keys=("USER", "HOME", *_HOST_KEYS),
    user_directory="USER_RUN_DIR",
    inputs=(*_INPUTS, "search_folder_path", "skip_sudo", "hf_token", "verify_ssl"),
    places=("folder",),
    hidden=(*_HIDDEN, "SEARCH_FOLDER_PATH"),
    suffixes=(
        (_FLAVOR, _VERSION, _PLATFORM),
        (_FLAVOR, _VERSION),
        (_FLAVOR, _PLATFORM),
        (_FLAVOR,),
        (_LIKE, _PLATFORM),
        (_LIKE,),
        (_TYPE, _PLATFORM),
        (_TYPE,),
        (_PLATFORM,),
    ),
    inputs_bind=False,
    versions_bind=False,
    faults_bind=False,
    values_expand=True,
    predeps=True,
    modules="mlc",
    deps_told="entries",
    command="mlcr ",
    idle_flags=("repro", "fake_deps"),
)
DIALECTS: Mapping[str, Mapping[str, Dialect]] = {
    "meta.yaml": {"": MLC},
    "cmr.yaml": {"_cm.": CLASSIC, "": CM},
}
"""The file at the root of a repository; for its scripts, how the name of their meta file starts.

A repository of MLC that was registered with ``cm init repo`` carries a ``cmr.yaml`` besides its
own file: the first that is there decides. Scripts of CM that were written for its first engine
carry ``_cm.yaml`` or ``_cm.json``; those written for this one ``meta.yaml``.
"""


def dialect_of(repository: str, meta: str = "meta.yaml") -> Dialect:
    """The dialect of scripts with meta files of that name in the repository at a path."""
    mark = next((m for m in DIALECTS if os.path.isfile(os.path.join(repository, m))), "cmr.yaml")
    return next(d for start, d in DIALECTS[mark].items() if meta.startswith(start))


def host_env(dialect: Dialect) -> dict[str, str]:
    """What the env of a requested step takes from the user's process."""
    return {key: os.environ[key] for key in dialect.host_keys if os.environ.get(key)}
