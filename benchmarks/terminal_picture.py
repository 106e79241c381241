# SPDX-License-Identifier: BSD-3-Clause
"""Draw what a terminal shows in a run, from what the same run says with ``--json``.

    python scripts/train.py --json task=reach num_envs=16 > events.jsonl
    python benchmarks/terminal_picture.py events.jsonl docs/images/terminal.svg

The picture is that of the moment after the iteration ``--iteration``, or else after the one in the middle. Everything
in it is from the run but the clock of the phase, which runs anew.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from rich.console import Console, RenderableType
from rich.live import Live

from isaaclab_pc.terminal.events import End, Event, Iterated, Phase, read_event
from isaaclab_pc.terminal.live import LiveScreen

COLUMNS = 110


class _Still(LiveScreen):
    """Redraws nothing: what is recorded would show every redrawing."""

    def _start_clock(self) -> None:
        with mock.patch.object(Live, "start"):
            super()._start_clock()

    def foot(self) -> RenderableType:
        """Return what would be redrawn."""
        assert self._foot is not None
        return self._foot.renderable


def picture(events: Sequence[Event], until: int, path: Path) -> None:
    """Show events on a terminal that records, and save it.

    Args:
        events: A run's.
        until: The last iteration that is shown.
        path: The SVG file.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, width=COLUMNS, record=True, force_terminal=True)
        screen = _Still(nowhere, console=console)
        for event in events:
            screen.show(event)
            if isinstance(event, Iterated) and event.iteration >= until:
                break
        console.print(screen.foot())
    # Any monospaced font does; rich names one of a server.
    svg = re.sub(r"@font-face \{.*?\}\n", "", console.export_svg(title="python scripts/train.py"), flags=re.DOTALL)
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    """Draw one picture.

    Args:
        argv: Arguments without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=Path, help="what a script wrote with --json")
    parser.add_argument("picture", type=Path, help="the SVG file")
    parser.add_argument("--iteration", type=int, help="the last iteration that is shown")
    args = parser.parse_args(argv)

    lines = args.events.read_text(encoding="utf-8").splitlines()
    events = [event for event in map(read_event, lines) if not isinstance(event, End)]
    last = max((event.iteration for event in events if isinstance(event, Iterated)), default=0)
    picture([event for event in events if not _is_end(event)], args.iteration or max(last // 2, 1), args.picture)
    return 0


def _is_end(event: Event) -> bool:
    return isinstance(event, Phase) and event.state != "begin"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
