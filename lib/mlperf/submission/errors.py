"""The one error of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HELP = (
    "give these options; what each means is told by: "
    "cm run script --tags=generate,inference,submission --help"
)


class SubmissionError(Exception):
    """A fault in one line, and the remedy; ``kind`` is a short word for programs.

    ``options`` are the missing options of the command line, with their meaning.
    """

    def __init__(
        self,
        text: str,
        hint: str = "",
        kind: str = "bad-value",
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.hint = hint
        self.kind = kind
        self.options = options or {}


def together(problems: Sequence[SubmissionError]) -> SubmissionError:
    """Return one error for several that ask for options."""
    if len(problems) == 1:
        return problems[0]
    options = {option: what for problem in problems for option, what in problem.options.items()}
    list_of_options = "; ".join(f"{what}: {option}" for option, what in options.items())
    return SubmissionError(f"needed is {list_of_options}", HELP, "needs-input", options)
