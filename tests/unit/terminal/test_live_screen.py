# SPDX-License-Identifier: BSD-3-Clause
"""The foot of a terminal while something runs."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios

import pytest

from isaaclab_pc.terminal.live import LiveScreen
from isaaclab_pc.terminal.user_stream import UserStream
from tests.unit.terminal.shown import METRICS, iteration
from tests.waiting import wait_until


@pytest.fixture
def terminal(monkeypatch):
    """Open a pseudo-terminal of a width, which rich takes for that of the process."""

    def open_terminal(columns):
        parent, child = pty.openpty()
        resize(child, columns)
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr("rich.console._STD_STREAMS", (child,))
        return parent, child

    return open_terminal


def resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def read_to_end(terminal: int) -> str:
    """Read a pseudo-terminal whose other side is closed: what was written arrives in pieces, then EIO."""
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while piece := file.read(65536):
            shown += piece
    return shown.decode()


def without_escapes(shown: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown).splitlines()]


def words(shown: str) -> str:
    """The text on a terminal, with single spaces."""
    return " ".join(" ".join(without_escapes(shown)).split())


@pytest.fixture
def shown(terminal):
    """Let a screen of a width show something, and return what the terminal got."""

    def run(columns, act):
        parent, child = terminal(columns)
        with os.fdopen(child, "w", encoding="utf-8") as stream:
            screen = LiveScreen(stream)
            act(screen, child)
            screen.close()
        return read_to_end(parent)

    return run


def test_a_terminal_shows_how_far_a_search_is(shown):
    def act(screen, _):
        screen.begin("tune", "20 trials")
        screen.advance(120, 1800)

    text = words(shown(100, act))
    for part in ("20 trials", "tune 0:00:0", "step 120/1,800"):
        assert part in text, part


@pytest.mark.parametrize("columns", [0, 40, 100])
def test_a_terminal_shows_the_phase_and_the_last_iteration_and_keeps_messages(shown, columns):
    def act(screen, _):
        screen.begin("train")
        metrics = {**METRICS, "Memory/host_bytes": 1.0 * 2**30, "Memory/device_bytes": 2.5 * 2**30}
        screen.show(iteration(guard={"action": 2}, restarts=1, metrics=metrics))
        screen.say("checkpoint [1]")

    got = shown(columns, act)
    lines, text = without_escapes(got), words(got)
    # What stays is the terminal's to wrap.
    assert max(len(line) for line in lines if not line.startswith("iteration  1/10")) <= (columns or 80)
    assert "checkpoint [1]" in lines
    parts = ("iteration 1/10 ETA 0:03:00 812 steps/s", "reward 1.25 success 50 %", "guard 2 restarts 1")
    for part in (*parts, "memory 1.0 GiB GPU 2.5 GiB"):
        assert part in text, part


def test_a_foot_is_never_wider_than_the_window_is_now(shown):
    def act(screen, terminal):
        screen.begin("train")
        screen.show(iteration())
        resize(terminal, 40)
        screen.show(iteration(2))
        screen.say("narrower")
        screen.show(iteration(3))

    wide, _, narrow = shown(100, act).partition("narrower")
    assert max(map(len, without_escapes(wide))) > 40
    lines = [line for line in without_escapes(narrow) if not line.startswith("iteration  3/10")]
    assert "learn 2.00" in " ".join(lines)
    assert max(map(len, lines)) <= 40


def test_on_a_terminal_the_clock_of_a_phase_moves_though_nothing_happens(terminal):
    parent, child = terminal(80)
    shown = b""

    def clock_moved():
        nonlocal shown
        shown += os.read(parent, 65536)
        return len(set(re.findall(r"search \d:\d\d:\d\d", words(shown.decode(errors="replace"))))) >= 2

    with os.fdopen(child, "w", encoding="utf-8") as stream:
        screen = LiveScreen(stream)
        screen.begin("search", "trying sizes")
        wait_until(clock_moved)
        screen.close()
    assert "trying sizes" in shown.decode() + read_to_end(parent)


def test_a_terminal_that_closes_ends_nothing(terminal):
    parent, child = terminal(80)
    screen = LiveScreen(UserStream(child))
    os.close(child)
    screen.begin("train")
    os.close(parent)
    screen.show(iteration())
    screen.say("lost")
    screen.close()
