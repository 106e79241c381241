# SPDX-License-Identifier: BSD-3-Clause
"""``events.jsonl``: deaths, restarts and stops of a run, one line each, for people and programs."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from pathlib import Path

__all__ = ["EVENTS_NAME", "EventLog"]

EVENTS_NAME = "events.jsonl"
"""The file's name in the run's folder."""


class EventLog:
    """Appends events to a run's file."""

    def __init__(self, folder: Path) -> None:
        """Name the file; it is made by the first event."""
        self._path = folder / EVENTS_NAME

    def add(self, event: str, **facts: object) -> None:
        """Append an event with its time.

        Args:
            event: ``died``, ``restart``, ``recovered``, ``gave up`` or ``stopped``.
            **facts: JSON values.
        """
        time = datetime.now().astimezone().isoformat(timespec="milliseconds")
        # A full disk must not end the run; the terminal tells the same.
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time, "event": event, **facts}) + "\n")
