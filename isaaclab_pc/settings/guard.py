# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the guard."""

from typing import Annotated, Literal

from pydantic import Field

from isaaclab_pc.settings.base import Settings


class GuardSettings(Settings):
    """Handling of values that are not finite, or too large to be physics."""

    group = "guard"

    mode: Literal["quarantine", "sanitize", "raise", "disabled"] = "quarantine"
    """quarantine ends that environment's episode with reward 0 and resets it; sanitize replaces the value and goes on;
    raise stops the run and names the value; disabled checks nothing."""

    ends: Literal["terminated", "truncated"] = "terminated"
    """How quarantine ends an episode."""

    max_abs: Annotated[float, Field(ge=10, le=1e30)] | None = None
    """Largest magnitude that is not a fault; null: the task's own. Bounds of single tensors: env.guard.<name>."""

    dump: Annotated[int, Field(ge=0, le=1000)] = 3
    """Failures of which the run's folder keeps the last steps, for scripts/replay.py."""

    storm: Annotated[float, Field(gt=0, le=1)] | None = 0.25
    """Where a larger share of the environments fails within 100 steps, the run stops with a checkpoint and says how to
    go on; null, or with mode=sanitize: never."""
