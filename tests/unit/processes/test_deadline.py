# SPDX-License-Identifier: BSD-3-Clause
"""Calls that hang are given up."""

import threading
import time
import weakref
from concurrent.futures import Future

import pytest

from isaaclab_pc.processes.deadline import answer_of


class Device:
    def memory(self) -> int:
        return 3

    def temperature(self) -> int:
        raise OSError("not supported")


def test_answers_and_errors_are_those_of_the_call():
    assert answer_of(lambda: 3, 5.0) == 3
    with pytest.raises(KeyError):
        answer_of(lambda: {}["missing"], 5.0)


def test_a_call_that_does_not_return_is_given_up():
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        answer_of(release.wait, 0.05)
    release.set()


def test_an_answered_call_is_held_by_nobody(monkeypatch: pytest.MonkeyPatch):
    set_result = Future.set_result

    def answer_and_linger(future: Future[int], result: int) -> None:
        set_result(future, result)
        time.sleep(0.2)

    monkeypatch.setattr(Future, "set_result", answer_and_linger)
    device = Device()
    left = weakref.ref(device)
    assert answer_of(device.memory, 5.0) == 3
    del device
    assert left() is None


def test_a_call_that_failed_is_held_by_nobody():
    device = Device()
    left = weakref.ref(device)
    with pytest.raises(OSError, match="not supported"):
        answer_of(device.temperature, 5.0)
    del device
    assert left() is None
