# SPDX-License-Identifier: BSD-3-Clause
"""Errors that are the user's to fix, the hint that helps to fix them, and what an error came of."""

import difflib
from collections.abc import Iterable

_MOST_LETTERS = 300
"""Length at which what an error says is cut off: gymnasium tells whole configs."""


class ConfigError(ValueError):
    """A setting is wrong: the scripts print the message without a traceback and exit with code 2.

    The message names the setting, its value, the limit and the next step.
    """


def closest(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message, "did you mean a or b?", or the list of what exists when nothing is near."""
    known = sorted(set(names))
    # Case is the commonest mistake of all, and difflib counts it as a difference.
    by_lower = {known_name.lower(): known_name for known_name in known}
    near = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(known)}" if known else ""


def error_chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that led to it, the first one first.

    What fails while another error is dealt with, such as the closing of what was half built, hides that one.

    Args:
        error: The last one.
    """
    chain = [error]
    while True:
        last = chain[-1]
        before = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if before is None or before in chain:
            return chain[::-1]
        chain.append(before)


def describe_error(error: BaseException) -> str:
    """Name an error in one line, after the one that it came of: their types, and the first lines of their messages."""
    first = error_chain(error)[0]
    is_retold = first is error or (str(first) != "" and str(first) in str(error))
    told = [first] if is_retold else [first, error]
    return "; then ".join(_in_short(one) for one in told)


def _in_short(error: BaseException) -> str:
    line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return line if len(line) <= _MOST_LETTERS else f"{line[: _MOST_LETTERS - 3]}..."
