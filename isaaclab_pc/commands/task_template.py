# SPDX-License-Identifier: BSD-3-Clause
"""The files of a new task: a small one that works, to be changed into the one that is wanted.

``$name`` is the folder's name, ``$title`` its class name's stem and ``$task_id`` the gym id.
"""

from string import Template

__all__ = ["FILES"]

_INIT = '''\
# SPDX-License-Identifier: BSD-3-Clause
"""$title: hold the tool centre above a cube."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "$task_id",
    env=f"{__name__}.${name}_env:${title}Env",
    env_cfg=f"{__name__}.${name}_env_cfg:${title}EnvCfg",
)
'''

_CFG = '''\
# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the $name task."""

from __future__ import annotations

from isaaclab.assets import RigidObjectCfg
from isaaclab.utils import configclass

from isaaclab_pc.assets.objects import cube_cfg
from isaaclab_pc.envs import PointCloudEnvCfg, PointCloudSceneCfg

CUBE_EDGE = 0.05
"""Edge length of the cube [m]."""


@configclass
class ${title}SceneCfg(PointCloudSceneCfg):
    """The shared scene and a cube on the table."""

    cube: RigidObjectCfg = cube_cfg(edge=CUBE_EDGE, pos=(0.5, 0.0, CUBE_EDGE / 2))


@configclass
class ${title}EnvCfg(PointCloudEnvCfg):
    """Hold the tool centre above a cube."""

    scene: ${title}SceneCfg = ${title}SceneCfg()
    episode_length_s: float = 3.0
    randomized: tuple[str, ...] = ("cube",)

    cube_lower: tuple[float, float, float] = (0.4, -0.2, -0.7854)
    """Smallest x [m], y [m] and yaw [rad] of the cube after a reset, in the environment frame."""

    cube_upper: tuple[float, float, float] = (0.6, 0.2, 0.7854)
    """Largest x [m], y [m] and yaw [rad] of the cube after a reset."""

    height: float = 0.1
    """Height of the goal above the cube's centre [m]."""

    success_distance: float = 0.025
    """Largest distance of the tool centre from the goal that counts as success [m]."""
'''

_ENV = '''\
# SPDX-License-Identifier: BSD-3-Clause
"""The $name task."""

from __future__ import annotations

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.$name.${name}_env_cfg import CUBE_EDGE, ${title}EnvCfg


class ${title}Env(PointCloudEnv):
    """Hold the tool centre above a cube.

    Randomization: arm joints around their defaults, the cube's x, y and yaw on the table; with ``env.randomization``
    also its size, mass and friction and the camera's pose. The cube is in the cloud and in the critic's state.
    Success: the tool centre is within ``success_distance`` of the point ``height`` above the cube. A cube that leaves
    the table ends the episode.

    Reward terms: ``distance`` to the goal, ``success``, and a cost of each ``action``.
    """

    cfg: ${title}EnvCfg

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cube: RigidObject = self.scene["cube"]
        self.cube_edge = CUBE_EDGE * self.size_factor("cube")

    @kept
    def cube_pos(self) -> torch.Tensor:
        """Centre of the cube in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.cube)

    def _goal(self) -> torch.Tensor:
        return self.cube_pos + constant_tensor((0.0, 0.0, self.cfg.height), self.device)

    @kept
    def _distance(self) -> torch.Tensor:
        return torch.linalg.vector_norm(self._goal() - self.tool_pos, dim=1)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cube_x", "cube_y", "cube_yaw")
        cube = self.uniform_pose(env_ids, TASK_STREAM, self.cfg.cube_lower, self.cfg.cube_upper, names)
        position = torch.cat([cube[:, :2], self.cube_edge[env_ids, None] / 2], dim=1)
        manipulation.place(self, self.cube, env_ids, position, manipulation.upright(cube[:, 2]))

    def _task_state(self) -> torch.Tensor:
        return torch.cat([self.cube_pos, self._goal() - self.tool_pos], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        return {
            "distance": closeness(self._distance),
            "success": self.is_fulfilled(),
            "action": -0.005 * self.actions.square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        return self._distance <= self.cfg.success_distance

    def _failure(self) -> torch.Tensor:
        return self.cube_pos[:, 2] < -CUBE_EDGE
'''

FILES: dict[str, Template] = {
    "__init__.py": Template(_INIT),
    "${name}_env_cfg.py": Template(_CFG),
    "${name}_env.py": Template(_ENV),
}
"""Contents by file name; both hold placeholders."""
