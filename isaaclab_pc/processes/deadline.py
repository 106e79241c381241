# SPDX-License-Identifier: BSD-3-Clause
"""A deadline for calls into drivers: one that hangs, as after a fault of the GPU, returns to nobody."""

import threading
from collections.abc import Callable

DEADLINE_S = 20.0
"""Longest time that a driver has for an answer [s]. The first one after a boot loads it, which takes seconds."""


def answer_of[Answer](call: Callable[[], Answer], seconds: float) -> Answer:
    """Call, and give up after ``seconds`` on a call that does not return; its thread ends with this process.

    Raises:
        TimeoutError: It did not return. Its own exceptions are raised as they are.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True, name="answer_of")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer in {seconds:g} s")
    if errors:
        # Its traceback holds this frame, which must not hold it.
        raise errors.pop()
    return answers[0]
