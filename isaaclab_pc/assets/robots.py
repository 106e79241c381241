# SPDX-License-Identifier: BSD-3-Clause
"""The robots that the setting ``robot`` can name.

Loads neither torch nor a simulator: a robot's configuration is imported when it is made. A new robot is an entry of
:data:`ROBOTS` and the module that makes its configuration.
"""

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isaaclab_pc.errors import ConfigError, closest

DEFAULT_ROBOT = "franka"
"""The robot that every task's scene is written with."""

IMPORTED = Path("robots")
"""Folder of the robots that ``scripts/robot.py`` imported, in the working directory."""

ROBOT_FILE = "robot.yaml"
"""File with the configuration of an imported robot, in its folder."""

ROBOTS = {
    "franka": "isaaclab_pc.assets.franka:FRANKA_PANDA_PRIMITIVE_CFG",
    "ur5e": "isaaclab_pc.assets.ur5e:UR5E_GRIPPER_CFG",
}
"""The configuration of every robot of the package, ``module:NAME``, by its name in the setting ``robot``."""


def find_robot(name: str) -> Callable[[], Any]:
    """Return a function that makes a robot's configuration, an ``ArmCfg`` that lacks only the prim path.

    ``name`` is one of :data:`ROBOTS`, or the name or folder of an imported robot.

    Raises:
        ConfigError: There is none.
    """
    if name in ROBOTS:
        return lambda: pkgutil.resolve_name(ROBOTS[name])
    folder = next((one for one in (IMPORTED / name, Path(name).expanduser()) if (one / ROBOT_FILE).is_file()), None)
    if folder is not None:
        return lambda: pkgutil.resolve_name("isaaclab_pc.assets.arm:imported_cfg")(folder)
    known = [*ROBOTS, *(file.parent.name for file in IMPORTED.glob(f"*/{ROBOT_FILE}"))]
    raise ConfigError(f"robot={name} is none; {closest(name, known)} scripts/robot.py imports others.")
