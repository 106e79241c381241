# SPDX-License-Identifier: BSD-3-Clause
"""``events.jsonl``: deaths, restarts and stops of a run, one line each, for people and programs."""

import contextlib
import json
from datetime import datetime
from pathlib import Path

EVENTS_NAME = "events.jsonl"
"""The file's name in the run's folder."""


def add_event(folder: Path, event: str, **facts: object) -> None:
    """Append ``died``, ``restart``, ``recovered``, ``gave up`` or ``stopped`` to a run's file, with time and facts."""
    time = datetime.now().astimezone().isoformat(timespec="milliseconds")
    # A full disk must not end the run; the terminal tells the same.
    with contextlib.suppress(OSError), (folder / EVENTS_NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time, "event": event, **facts}) + "\n")
