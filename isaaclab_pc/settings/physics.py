# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the physics simulation, in one vocabulary for all backends."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from isaaclab_pc.settings.base import Settings, Unit

Backend = Literal["auto", "ovphysx", "newton_mjwarp", "isaacsim_physx", "physx"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""Names of Isaac Lab's physics selectors, and ``auto``."""

Preset = Literal["fast", "balanced", "robust"]
"""From the cheapest to the most robust."""

Capacity = Annotated[int, Field(ge=1, le=10_000_000)]


class PhysicsSettings(Settings):
    """Time steps, solver iterations and room for contacts. ``null`` keeps the task's own value."""

    group = "physics"

    backend: Backend = "auto"
    """auto on the CPU: ovphysx (PhysX without Kit) if installed, else Newton; auto on a GPU: Newton. physx: Isaac Sim's
    PhysX if installed, else ovphysx. Also written physics=<backend>."""

    preset: Preset | None = None
    """Measured values for what is null below: fast (ovphysx only), balanced or robust. ``scripts/scale.py --stability``
    measures such values for a task."""

    dt: Annotated[float, Field(ge=1e-5, le=0.1), Unit("s")] | None = None
    """Physics step. The control rate stays: decimation follows, unless it is given too."""

    decimation: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Physics steps per action."""

    substeps: Annotated[int, Field(ge=1, le=100)] | None = None
    """Solver steps per physics step (Newton)."""

    position_iterations: Annotated[int, Field(ge=1, le=255)] | None = None
    """Solver iterations: position iterations of PhysX, Newton iterations of MuJoCo Warp."""

    velocity_iterations: Annotated[int, Field(ge=0, le=255)] | None = None
    """Velocity iterations (PhysX)."""

    contacts: Capacity | None = None
    """Capacity for contacts per environment: Newton's ``nconmax``; on PhysX on a GPU, the smallest contact and patch
    buffers."""

    constraints: Capacity | None = None
    """Capacity for constraint rows per environment: Newton's ``njmax``."""
