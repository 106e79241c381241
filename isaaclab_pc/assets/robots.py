# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name.

Loads neither torch nor a simulator: a robot's configuration is imported when it is made. A new robot is an entry of
:data:`ROBOTS` and the module that makes its configuration.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError, closest

DEFAULT_ROBOT = "franka"
"""The robot that every task's scene is written with."""

IMPORTED = Path("robots")
"""Folder of the robots that ``scripts/robot.py`` imported, in the working directory."""

ROBOT_FILE = "robot.yaml"
"""File with the configuration of an imported robot, in its folder."""


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


def find_robot(name: str) -> Robot:
    """Return a robot of :data:`ROBOTS`, or an imported one by its name or its folder.

    Raises:
        ConfigError: There is none.
    """
    if name in ROBOTS:
        return ROBOTS[name]
    folder = next((one for one in (IMPORTED / name, Path(name).expanduser()) if (one / ROBOT_FILE).is_file()), None)
    if folder is not None:
        return Robot(arm=name, description="imported", make_cfg=lambda backend: _module("arm").imported_cfg(folder))
    known = [*ROBOTS, *(file.parent.name for file in IMPORTED.glob(f"*/{ROBOT_FILE}"))]
    raise ConfigError(f"robot={name} is none; {closest(name, known)} scripts/robot.py imports others.")
