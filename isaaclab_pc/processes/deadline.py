# SPDX-License-Identifier: BSD-3-Clause
"""A deadline for calls into drivers: one that hangs, as after a fault of the GPU, returns to nobody."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

DEADLINE_S = 20.0
"""Longest time that a driver has for an answer [s]. The first one after a boot loads it, which takes seconds."""


def answer_of[Answer](call: Callable[[], Answer], seconds: float) -> Answer:
    """Call, and give up after ``seconds`` on a call that does not return; its thread ends with this process.

    Raises:
        TimeoutError: It did not return. Its own exceptions are raised as they are.
    """
    answer: Future[Answer] = Future()
    # Not of an executor, which waits for its threads where Python ends.
    thread = threading.Thread(target=_settle, args=(answer, call), daemon=True, name="answer_of")
    thread.start()
    # For the thread, not for its answer: until it ends it holds the call and all that the call refers to.
    thread.join(seconds)
    try:
        if not answer.done():
            raise TimeoutError(f"no answer in {seconds:g} s")
        return answer.result()
    finally:
        # As in _settle.
        del answer


def _settle[Answer](answer: Future[Answer], call: Callable[[], Answer]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:
        answer.set_exception(error)
        # The answer has the error, and the error's traceback this frame: a cycle that would keep the call.
        del answer
