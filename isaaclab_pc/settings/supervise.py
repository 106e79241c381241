# SPDX-License-Identifier: BSD-3-Clause
"""Settings of what happens when a training process dies."""

from typing import Annotated

from pydantic import Field

from isaaclab_pc.settings.base import Settings, Unit


class SuperviseSettings(Settings):
    """Restarts of a training process that dies, hangs or runs out of memory."""

    group = "supervise"

    enabled: bool = True
    """Restart it from its last checkpoint. false: train in the script's own process, for debuggers."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = 5
    """Restarts within an hour, or in a row without a new checkpoint; one more failure ends the run."""

    checkpoint_interval: Annotated[float, Field(ge=0, le=86_400), Unit("s")] = 60.0
    """Time between two checkpoints: the most training that a crash can cost. They are written after an iteration."""

    shrink_on_oom: bool = True
    """After it ran out of memory, go on with a smaller chunk where an update lacked it, else with fewer environments:
    the largest number that the search found to fit, or half of them. The samples of an update stay."""

    stall_timeout: Annotated[float, Field(ge=1, le=86_400), Unit("s")] | None = None
    """Time without an iteration after which it counts as hung. null: 20 times the median iteration, at least 5 minutes.
    Before the first iteration it is half an hour, for kernels that compile."""

    harden_physics: bool = False
    """After a storm (guard.storm), go on with the harder physics that its message advises."""
