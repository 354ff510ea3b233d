"""One step as the resolver decides it: a script with its variations, version and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cmbench.cache.cache_entry import make_identity
from cmbench.values import immutable

if TYPE_CHECKING:
    from cmbench.format.env import TracedEnv
    from cmbench.format.model import Dependency, Request, Script, ScriptSettings, VersionRange
    from cmbench.index.select import ScriptSelection


@immutable(frozen=True, slots=True, eq=False, repr=False)
class ResolvedStep:
    """A request resolved against one script.

    ``label`` names it in messages: the alias of its script, and the requested variations. ``env``,
    ``state``, ``adr`` and ``const`` are what it begins with: a run works on copies. ``content`` is
    the digest of the script's own files, ``libraries`` has those of the shared code that it uses,
    by name.
    """

    request: Request
    label: str
    choice: ScriptSelection
    blocks: tuple[ScriptSettings, ...]
    version: VersionRange
    env: TracedEnv
    state: TracedEnv
    adr: TracedEnv
    const: Mapping[str, Any]
    deps: Mapping[str, tuple[Dependency, ...]]
    content: str
    libraries: Mapping[str, str]

    @property
    def script(self) -> Script:
        """The script that answers the request."""
        return self.choice.script

    @property
    def cacheable(self) -> bool:
        """Whether the result is cached: by the script, or because the request requires it."""
        request, script = self.request, self.script
        is_cached = script.cache or (script.can_force_cache and request.force_cache)
        return is_cached and not request.skip_cache and not self.is_fake

    @property
    def is_fake(self) -> bool:
        """Whether only what it depends on runs."""
        return "fake_run" in self.request.modes

    @property
    def expires(self) -> str:
        """How long an entry of this step is good, as written (``5d``); empty for ever."""
        return self.request.expires or self.last("expires")

    @property
    def identity(self) -> str:
        """The key of what this step is; what it reads is checked entry by entry."""
        version = self.version
        return make_identity(
            self.script.uid or self.script.path,
            self.content,
            self.choice.variations,
            (version.exact, version.minimum, version.maximum, version.usable),
            self.request.name,
            self.request.extra_cache_tags,
            *([self.libraries] if self.libraries else []),
        )

    @property
    def uses(self) -> tuple[str, ...]:
        """The shared code that the script and its active variations name, as written."""
        return tuple(self.libraries)

    def last(self, name: str) -> str:
        """Return the last non-empty value of one text setting."""
        return next((v for b in reversed(self.blocks) if (v := getattr(b, name))), "")
