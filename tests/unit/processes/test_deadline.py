# SPDX-License-Identifier: BSD-3-Clause
"""Calls that hang are given up."""

import threading

import pytest

from isaaclab_pc.processes.deadline import answer_of


def test_answers_and_errors_are_those_of_the_call():
    assert answer_of(lambda: 3, 5.0) == 3
    with pytest.raises(KeyError):
        answer_of(lambda: {}["missing"], 5.0)


def test_a_call_that_does_not_return_is_given_up():
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        answer_of(release.wait, 0.05)
    release.set()
