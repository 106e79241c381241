# SPDX-License-Identifier: BSD-3-Clause
"""How a run goes on after a death, and how often it may. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from isaaclab_pc.num_envs.retry import smaller_chunk
from isaaclab_pc.num_envs.trial import Progress
from isaaclab_pc.settings import SuperviseSettings
from isaaclab_pc.supervise.deaths import Death, DeathCause

WINDOW_SECONDS = 3600.0
"""Time in which ``supervise.max_restarts`` counts [s]; restarts without a new checkpoint count for longer."""


@dataclass(frozen=True)
class Restart:
    """How a run goes on."""

    note: str
    """For people: the change; empty where there is none."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run that change, by dotted name."""


def choose_restart(
    death: Death,
    supervise: SuperviseSettings,
    num_envs: int,
    fits: Iterable[int] = (),
    harder_physics: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Restart | None:
    """Choose how a run goes on; None where it must not.

    Args:
        death: How the process ended.
        supervise: What the user allows.
        num_envs: Environments that it had.
        fits: Numbers of environments that were found to fit.
        harder_physics: After a storm, fields of ``physics`` to go on with; None where there are none left.
        progress: The last activity of the process; None where it is not known.
    """
    if death.cause is DeathCause.ERROR:
        return None
    if death.cause is DeathCause.STORM:
        if not supervise.harden_physics or not harder_physics:
            return None
        changes = {f"physics.{name}": value for name, value in harder_physics.items()}
        return Restart(" ".join(f"{name}={value!r}" for name, value in changes.items()), changes)
    # If other programs keep the memory that they took, the next process runs out of it without them.
    if death.cause is not DeathCause.OUT_OF_MEMORY or death.taken_by_others:
        return Restart("")

    if not supervise.shrink_on_oom:
        return None
    if progress is not None and (chunk := smaller_chunk(progress)):
        # An update has as many samples with fewer environments.
        return Restart(f"chunk={chunk}", {"chunk": chunk})
    if num_envs == 1:
        return None
    # At least a quarter of the memory is given back.
    fewer = max([*(size for size in fits if size <= 0.75 * num_envs), num_envs // 2])
    return Restart(f"num_envs={fewer} instead of {num_envs}", {"num_envs": fewer})


class RestartLimit:
    """Counts the restarts of the last hour, and those in a row without progress, however long they took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without a restart; the clock tells the time [s]."""
        self._clock = clock
        self._restarts: deque[float] = deque()
        self._without_progress = 0

    def allow(self, max_restarts: int, *, made_progress: bool = True) -> bool:
        """Tell whether one more of ``supervise.max_restarts`` is allowed, and count it.

        ``made_progress``: whether there is a new checkpoint since the last restart, as far as it is known.
        """
        now = self._clock()
        if made_progress:
            self._without_progress = 0
        while self._restarts and now - self._restarts[0] > WINDOW_SECONDS:
            self._restarts.popleft()

        if max(len(self._restarts), self._without_progress) >= max_restarts:
            return False
        self._restarts.append(now)
        self._without_progress += 1
        return True
