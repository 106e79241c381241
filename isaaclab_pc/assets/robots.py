# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name.

Loads neither torch nor a simulator: a robot's configuration is imported when it is made. A new robot is an entry of
:data:`ROBOTS` and the module that makes its configuration.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DEFAULT_ROBOT = "franka"
"""The robot that every task's scene is written with."""


@dataclass(frozen=True, kw_only=True)
class Robot:
    """One choice of the setting ``robot``."""

    arm: str
    """Which arm it is. Robots of the same arm move alike and differ in their shapes, so a task that lists an arm in its
    ``robots`` takes all of them."""

    description: str
    """Material and needs, in a few words for the help page."""

    make_cfg: Callable[[str], Any]
    """Make its configuration, an ``ArmCfg`` that lacks only the prim path, for a physics backend (``ovphysx``,
    ``isaacsim_physx`` or ``newton_mjwarp``). Raises :class:`ConfigError` where something that it needs is missing."""


def _module(name: str) -> Any:
    return importlib.import_module(f"isaaclab_pc.assets.{name}")


ROBOTS: dict[str, Robot] = {
    "franka": Robot(
        arm="franka",
        description="Franka Panda made of primitives",
        make_cfg=lambda backend: _module("franka").FRANKA_PANDA_PRIMITIVE_CFG,
    ),
    "ur5e": Robot(
        arm="ur5e",
        description="UR5e with a parallel gripper, made of primitives",
        make_cfg=lambda backend: _module("ur5e").UR5E_GRIPPER_CFG,
    ),
}
"""Every robot by its name in the setting ``robot``."""
