# SPDX-License-Identifier: BSD-3-Clause
"""Stands in for a rank: it waits in a folder for a signal, or for a file ``stop``. And what tests of launchers share.

Arguments: the folder, and the exit code of all ranks but the first one.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

RANK_BEGINS = "rank {} of {} begins"


def pid_of(folder: Path, rank: int) -> int:
    """The process of a rank."""
    return int((folder / f"ready_{rank}").read_text())


def main(folder: Path, code_of_others: int) -> int:
    """Wait, and end as a run that stops: the first rank tells how, and still closes when the others have ended."""
    rank = os.environ["RANK"]
    received: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        (folder / f"signal_{rank}").write_text(str(number))
        (folder / "stop").touch()

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, on_signal)
    print(RANK_BEGINS.format(rank, os.environ["ISAACLAB_PC_RANKS"]), flush=True)
    (folder / f"ready_{rank}").write_text(str(os.getpid()))
    until = time.monotonic() + 300
    while not (folder / "stop").exists() and time.monotonic() < until:
        time.sleep(0.02)
    if rank != "0":
        return code_of_others
    time.sleep(1.0)
    return 128 + received[0] if received else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
