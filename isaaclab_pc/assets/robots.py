# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name.

Loads neither torch nor a simulator: a robot's configuration is imported when it is made. A new robot is an entry of
:data:`ROBOTS` and the module that makes its configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isaaclab_pc.assets.arm import ArmCfg

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

    make_cfg: Callable[[str], ArmCfg]
    """Make its configuration, which lacks only the prim path, for a physics backend (``ovphysx``, ``isaacsim_physx`` or
    ``newton_mjwarp``). Raises :class:`ConfigError` where something that it needs is missing."""


def _make_franka(backend: str) -> ArmCfg:
    from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG

    return FRANKA_PANDA_PRIMITIVE_CFG


def _make_franka_nucleus(backend: str) -> ArmCfg:
    from isaaclab_pc.assets.franka import franka_nucleus_cfg

    return franka_nucleus_cfg(backend)


def _make_ur5e(backend: str) -> ArmCfg:
    from isaaclab_pc.assets.ur5e import UR5E_GRIPPER_CFG

    return UR5E_GRIPPER_CFG


ROBOTS: dict[str, Robot] = {
    "franka": Robot(
        arm="franka",
        description="Franka Panda made of primitives",
        make_cfg=_make_franka,
    ),
    "franka_nucleus": Robot(
        arm="franka",
        description="Isaac Lab's own Franka Panda made of meshes; needs Isaac Lab's asset server",
        make_cfg=_make_franka_nucleus,
    ),
    "ur5e": Robot(
        arm="ur5e",
        description="UR5e with a parallel gripper, made of primitives",
        make_cfg=_make_ur5e,
    ),
}
"""Every robot by its name in the setting ``robot``."""
