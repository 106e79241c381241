# SPDX-License-Identifier: BSD-3-Clause
"""What watches one training process, by a clock of its own."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from isaaclab_pc.supervise import watch
from isaaclab_pc.supervise.deaths import DeathCause
from isaaclab_pc.supervise.health import STARTUP_SECONDS
from isaaclab_pc.supervise.watch import WorkerWatch


def test_a_process_that_no_signal_ends_is_given_up(tmp_path: Path) -> None:
    now = 0.0
    signals: list[int] = []
    child = cast(Any, SimpleNamespace(send_signal=signals.append))
    looks_after = WorkerWatch(tmp_path, None, lambda iteration: None, clock=lambda: now)
    assert not looks_after(child)

    now = STARTUP_SECONDS + 1
    assert not looks_after(child)
    assert (signals, looks_after.verdict and looks_after.verdict.cause) == ([signal.SIGABRT], DeathCause.STALLED)
    now += watch._DUMP_SECONDS + 1
    assert not looks_after(child)
    assert signals[1:] == [signal.SIGKILL]
    now += watch._UNKILLABLE_SECONDS
    assert looks_after(child)
