# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import termios

import pytest

from isaaclab_pc.workers import progress
from isaaclab_pc.workers.progress import make_display

METRICS = {"env_steps_per_s": 812.4, "mean_reward": 1.25, "success_rate": 0.5, "collect_s": 1.0, "learn_s": 2.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_pipe_gets_one_line_per_iteration(clock):
    stream = io.StringIO()
    display = make_display(stream, completed=0, maximum=10)
    clock[0] += 20.0
    display.iteration(1, METRICS)
    clock[0] += 5.0
    display.iteration(2, METRICS)
    clock[0] += 7.0
    display.iteration(3, {})
    lines = stream.getvalue().splitlines()
    numbers = "812 steps/s  reward 1.25  success 50 %  collect 1.00 s  learn 2.00 s"
    assert lines[0] == f"iteration  1/10  ETA 0:03:00  {numbers}"
    # The first iteration also warms things up: it does not count once there is a second.
    assert lines[1] == f"iteration  2/10  ETA 0:00:40  {numbers}"
    assert lines[2] == "iteration  3/10  ETA 0:00:42  - steps/s  reward -  success - %  collect - s  learn - s"


def test_a_resumed_run_is_timed_from_where_it_goes_on(clock):
    stream = io.StringIO()
    display = make_display(stream, completed=90, maximum=100)
    clock[0] += 2.0
    display.iteration(91, METRICS)
    assert "iteration  91/100  ETA 0:00:18" in stream.getvalue()


def read_to_end(terminal: int) -> bytes:
    """Read a pseudo-terminal whose other side is closed: what was written arrives in pieces, then EIO."""
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as screen, contextlib.suppress(OSError):
        while piece := screen.read(65536):
            shown += piece
    return shown


def test_a_real_terminals_width_is_used():
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(child, "w", encoding="utf-8") as stream:
        display = make_display(stream, completed=0, maximum=2)
        display.iteration(1, METRICS)
        display.close()
    shown = read_to_end(parent).decode()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown).splitlines()
    assert max(map(len, lines)) <= 40
    assert "collect 1.00 s  learn 2.00 s" in lines


def test_values_that_are_not_finite_are_shown_as_unknown():
    stream = io.StringIO()
    make_display(stream, 0, 2).iteration(1, {**METRICS, "success_rate": float("nan")})
    assert "success - %" in stream.getvalue()


def test_a_terminal_gets_a_bar_and_keeps_messages():
    stream = Terminal()
    display = make_display(stream, completed=0, maximum=2)
    display.iteration(1, METRICS)
    display.message("checkpoint [1]")
    display.close()
    assert "1/2" in stream.getvalue()
    assert "812 steps/s" in stream.getvalue()
    assert "checkpoint [1]" in stream.getvalue()
