# SPDX-License-Identifier: BSD-3-Clause
"""Numbers, times and names as a report writes them."""

import math
from collections.abc import Callable
from typing import Any

from isaaclab_pc.num_envs.trial import format_size
from isaaclab_pc.run.evaluation import Success

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
    return NOTHING if success is None or not math.isfinite(success.rate) else str(success)


def count(value: float | None) -> str:
    """Render a number of things."""
    if isinstance(value, int):
        return f"{value:,}"
    return NOTHING if value is None or not math.isfinite(value) else f"{value:,.0f}"


def decimals(value: float | None) -> str:
    """Render a number with two decimals."""
    return NOTHING if value is None else f"{value:.2f}"


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


def _percent(value: float) -> float:
    """Return a share as a length in percent, from 0 to 100."""
    return round(100 * min(max(value, 0.0), 1.0), 2)


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "decimals": decimals,
    "duration": duration,
    "interval": success_text,
    "memory": memory,
    "percent": _percent,
    "share": share,
    "short": shortened,
}
"""The template's names for them."""
