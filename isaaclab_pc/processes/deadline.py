# SPDX-License-Identifier: BSD-3-Clause
"""A deadline for calls into drivers: one that hangs, as after a fault of the GPU, returns to nobody."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

DEADLINE_S = 20.0
"""Longest time that a driver has for an answer [s]. The first one after a boot loads it, which takes seconds."""


def answer_of[Answer](call: Callable[[], Answer], seconds: float) -> Answer:
    """Call, and give up after ``seconds`` on a call that does not return; its thread ends with this process.

    Raises:
        TimeoutError: It did not return. Its own exceptions are raised as they are.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    # Not of an executor, which waits for its threads where Python ends.
    threading.Thread(target=work, daemon=True, name="answer_of").start()
    if not wait([answer], seconds).done:
        raise TimeoutError(f"no answer in {seconds:g} s")
    return answer.result()
