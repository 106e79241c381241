# SPDX-License-Identifier: BSD-3-Clause
"""Numbers, times and names as a report writes them."""

from datetime import datetime

from isaaclab_pc.num_envs.trial import format_size

NOTHING = "–"  # noqa: RUF001 (a dash in a table, for people)
"""Stands where there is no value."""

_MOST_LETTERS = 300
"""Letters of a text from a file that the page shows."""

_LARGEST = 1e18
"""Numbers of files beyond it are no measurements."""


def shortened(text: object) -> str:
    """Return a text from a file, or its beginning."""
    shown = str(text)
    return shown if len(shown) <= _MOST_LETTERS else f"{shown[:_MOST_LETTERS]} ..."


def number(value: float | None, style: str = ",.0f") -> str:
    """Render a number in a format of Python."""
    return NOTHING if value is None or not abs(value) < _LARGEST else format(value, style)


def share(value: float | None) -> str:
    """Render a share in percent."""
    return NOTHING if value is None else f"{number(100 * value, '.1f')} %"


def memory(size: float | None) -> str:
    """Render a number of bytes."""
    return NOTHING if size is None or not abs(size) < _LARGEST else format_size(size)


def duration(seconds: float | None) -> str:
    """Render a time in its two largest units."""
    if seconds is None or not 0 <= seconds < 1e10:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute} min" if hours else f"{minute} min {second} s"


def local_time(text: str) -> str:
    """Render a time in ISO 8601 in this machine's zone; any other text as it is."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):
        return shortened(text)


def percent(value: float) -> float:
    """Return a share as a length in percent, from 0 to 100."""
    return round(100 * min(max(value, 0.0), 1.0), 2)
