# SPDX-License-Identifier: BSD-3-Clause
"""Numbers, times and commands as a report writes them."""

from __future__ import annotations

import math

from isaaclab_pc.launch.evaluation_result import Success
from isaaclab_pc.scaling.trial import format_size

__all__ = ["NOTHING", "count", "duration", "memory", "share", "shortened", "success_text"]

NOTHING = "–"  # noqa: RUF001 (a dash in a table, for people)
"""Stands where there is no value."""

MOST_LETTERS = 300
"""Letters of a text from a file that the page shows."""


def shortened(text: object) -> str:
    """Return a text from a file, or its beginning."""
    shown = str(text)
    return shown if len(shown) <= MOST_LETTERS else f"{shown[:MOST_LETTERS]} ..."


def share(value: float | None) -> str:
    """Render a share in percent."""
    return NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def success_text(success: Success | None) -> str:
    """Render a success rate with its interval."""
    if success is None:
        return NOTHING
    return f"{share(success.rate)} [{100 * success.lower:.1f}, {100 * success.upper:.1f}]"


def count(value: float | None) -> str:
    """Render a number of things."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:,.0f}"


def memory(size: float | None) -> str:
    """Render a number of bytes."""
    return NOTHING if size is None else format_size(size)


def duration(seconds: float | None) -> str:
    """Render a time in its two largest units."""
    if seconds is None or not 0 <= seconds < 1e10:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours} h {minute} min" if hours else f"{minute} min {second} s"
