# SPDX-License-Identifier: BSD-3-Clause
"""How long phases usually take on this machine: the last few times of each, in the folder of the profile cache."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from filelock import Timeout

from isaaclab_pc.files import locked_file, write_text_atomically
from isaaclab_pc.json_record import JsonRecord, NonNegative

__all__ = ["DURATIONS_NAME", "Durations", "machine_name"]

DURATIONS_NAME = "durations.json"
"""The file's name."""

KEPT = 5
"""Times that are kept of each phase."""

_MOST_PHASES = 1000
"""Phases that are kept; those that were not done for longest go first."""

_LOCK_SECONDS = 2.0


@dataclass(frozen=True)
class _File(JsonRecord):
    seconds: dict[str, list[NonNegative]] = field(default_factory=dict)
    """The last times of each phase [s], the newest last; the phase that was done last stands last."""


class Durations:
    """The file of one user. A cache that cannot be read or written is as good as none: nothing is said."""

    def __init__(self, folder: Path) -> None:
        """Name the file; it is made when first written.

        Args:
            folder: Its folder, which may be missing.
        """
        self._path = folder / DURATIONS_NAME

    def usual(self, key: str) -> float | None:
        """Return the median of the last times [s]; None where there is none.

        Args:
            key: What was done, and on which machine.
        """
        seconds = self._read().get(key)
        return statistics.median(seconds) if seconds else None

    def add(self, key: str, seconds: float) -> None:
        """Keep a time.

        Args:
            key: As for :meth:`usual`.
            seconds: How long it took [s].
        """
        with contextlib.suppress(OSError, Timeout):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with locked_file(Path(f"{self._path}.lock"), _LOCK_SECONDS):
                kept = self._read()
                times = [*kept.pop(key, []), round(seconds, 3)][-KEPT:]
                newest = dict([*kept.items(), (key, times)][-_MOST_PHASES:])
                write_text_atomically(self._path, json.dumps(_File(newest).to_dict(), indent=1) + "\n")

    def _read(self) -> dict[str, list[float]]:
        try:
            return dict(_File.read(self._path).seconds)
        except (OSError, ValueError):
            return {}


def machine_name() -> str:
    """Return what tells machines apart that share a home folder: the host and the cores that this process may use."""
    return f"{platform.node()}, {len(os.sched_getaffinity(0))} cores"
