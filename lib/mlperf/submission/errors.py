"""The one error of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.problems import ProgramError

HELP = (
    "give these options; what each means is told by: "
    "`cm run script --tags=generate,inference,submission --help`"
)


class SubmissionError(ProgramError):
    """A fault; ``options`` are the missing options of the command line, with their meaning."""

    def __init__(
        self,
        text: str,
        hint: str = "",
        code: str = "bad-value",
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text, hint, code)
        self.options = options or {}


def together(problems: Sequence[SubmissionError]) -> SubmissionError:
    """Return one error for several that ask for options."""
    if len(problems) == 1:
        return problems[0]
    options = {option: what for problem in problems for option, what in problem.options.items()}
    list_of_options = "; ".join(f"{what}: {option}" for option, what in options.items())
    return SubmissionError(f"needed is {list_of_options}", HELP, "needs-input", options)
