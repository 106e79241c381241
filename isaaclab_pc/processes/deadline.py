# SPDX-License-Identifier: BSD-3-Clause
"""A deadline for calls into drivers: one that hangs, as after a fault of the GPU, returns to nobody."""

import queue
import threading
from collections.abc import Callable

__all__ = ["DEADLINE_S", "answer_of"]

DEADLINE_S = 20.0
"""Longest time that a driver has for an answer [s]. The first one after a boot loads it, which takes seconds."""


def answer_of[Answer](call: Callable[[], Answer], seconds: float) -> Answer:
    """Call, and give up on a call that does not return; its thread ends with this process at the latest.

    Args:
        call: What may hang.
        seconds: Longest time to wait [s].

    Returns:
        What the call returned; what it raised is raised.

    Raises:
        TimeoutError: It did not return.
    """
    outcome: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    thread = threading.Thread(target=work, daemon=True, name="answer_of")
    thread.start()
    try:
        answer, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer in {seconds:g} s") from None
    # Or it would keep what was called alive for a moment longer.
    thread.join()
    if error is not None:
        try:
            raise error
        finally:
            # Its traceback holds this frame, which must not hold it.
            del error
    return answer  # pyright: ignore[reportReturnType]
