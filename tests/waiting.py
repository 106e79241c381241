# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for other processes and threads: always with a deadline, and one that a busy machine keeps."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil


def wait_until(
    condition: Callable[[], object],
    seconds: float = 60.0,
    every: float = 0.02,
    alive: subprocess.Popen | None = None,
    said: Callable[[], object] = lambda: "",
) -> None:
    """Return once a condition holds.

    Args:
        condition: Asked again and again.
        seconds: Longest time until it holds [s].
        every: Time between two questions [s].
        alive: The process that is to bring it about; None: nobody is watched.
        said: Tells what a failure should show, such as the output of that process.

    Raises:
        AssertionError: The time is up, or the process has ended before.
    """
    deadline = time.monotonic() + seconds
    while True:
        # Before the question: a process may end as soon as the condition holds.
        has_ended = alive is not None and alive.poll() is not None
        is_late = time.monotonic() > deadline
        if condition():
            return
        assert not has_ended, f"the process has ended before: {said()}"
        assert not is_late, f"not within {seconds:g} s: {said()}"
        time.sleep(every)


@contextmanager
def signal_us_when(condition: Callable[[], object], number: int = signal.SIGINT) -> Iterator[None]:
    """Send this process a signal once a condition holds, while a block runs and only while something heeds it."""
    is_over = threading.Event()

    def send() -> None:
        while not condition():
            if is_over.wait(0.02):
                return
        if signal.getsignal(number) is not signal.SIG_DFL:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def is_gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have asked for its exit code yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def free_ports(count: int) -> list[int]:
    """Return numbers of different ports on which nobody listens on this machine now."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports
