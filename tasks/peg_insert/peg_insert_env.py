# SPDX-License-Identifier: BSD-3-Clause
"""The peg insertion task."""

from typing import Any

import torch
from isaaclab.assets import RigidObject

from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.peg_insert.peg_insert_env_cfg import PegInsertEnvCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.poses import from_frame, into_frame, orientation_in_frame

_PEG_STREAM = TASK_STREAM
_BOX_STREAM = TASK_STREAM + 1

_GRASP_OFFSET = 0.07
"""Distance of the place to grasp from the peg's middle, towards the tail [m]: the hand then stays clear of the box."""

_LINED_UP = 0.01
"""Largest distance of the peg's head and middle from the hole's axis at which the peg is lined up [m]."""


class PegInsertEnv(PointCloudEnv):
    """Grasp a peg and put it into a box's hole.

    Randomization: arm joints around their defaults; x, y and yaw of the peg, which lies on the table, and of the box;
    the sizes of peg, box and hole and the hole's place in the box, which stay what they are in an environment. Both
    are in the cloud, and the policy is told nothing else of them. Success, as in ManiSkill's PegInsertionSide: the
    peg's head is within ``success_depth`` of the middle of the hole, which is half the peg's length inside, and within
    the hole's radius of its axis. A peg that leaves the table ends the episode.

    The reward is that of PegInsertionSide, divided by its maximum (https://github.com/haosulab/ManiSkill): ``reach``
    the peg's tail, ``grasp`` it, ``line_up`` head and middle with the hole's axis once grasped, ``insert`` the head
    once lined up; the maximum in a step with ``success``.
    """

    cfg: PegInsertEnvCfg
    expert = expert_of("isaaclab_pc.tasks.peg_insert.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.peg: RigidObject = self.scene["peg"]
        self.box: RigidObject = self.scene["box"]
        spawn: Any = self.box.cfg.spawn
        sizes = [box.size for box in spawn.assets_cfg]

        plan = self.sim.get_clone_plan()
        assert plan is not None
        # Combinations of a peg with a box: the box is the faster index.
        variant = torch.as_tensor(plan.topology.world_prototype_layout, device=self.device).long() % len(sizes)

        def per_env(values: list) -> torch.Tensor:
            return torch.tensor(values, device=self.device)[variant]

        self.half_length = per_env([size.half_length for size in sizes])
        """Half of the peg's length and of the box's edge [m], shape (N,)."""

        self.radius = per_env([size.radius for size in sizes])
        """Half of the peg's width and height [m], shape (N,)."""
        self.randomizer.record(torch.arange(self.num_envs, device=self.device), ["peg_radius"], self.radius[:, None])

        self._places = torch.zeros(self.num_envs, 3, 3, device=self.device)
        self._places[:, 0, 0] = self.half_length
        self._places[:, 2, 0] = -_GRASP_OFFSET
        """The peg's head, its middle, and where to grasp it, in the peg's frame [m], shape (N, 3, 3)."""

        self._tail = -self._places[:, 0]
        self._width = 2.0 * self.radius
        self._lowest = -self.radius

        self.hole_radius = per_env([size.hole_radius for size in sizes])
        """Half of the hole's width and height [m], shape (N,)."""

        self._radii = torch.stack([torch.ones_like(self.radius), self.hole_radius, self.hole_radius], dim=1)

        self.hole_in_box = per_env([[0.0, *size.hole_center] for size in sizes])
        """Middle of the hole in the box's frame [m], shape (N, 3)."""

    @kept
    def peg_pos(self) -> torch.Tensor:
        """Middle of the peg in the environment frame [m], shape (N, 3)."""
        return manipulation.position(self, self.peg)

    @property
    def peg_quat(self) -> torch.Tensor:
        """Orientation of the peg, x axis towards its head, (x, y, z, w), shape (N, 4)."""
        return self.peg.data.root_quat_w.torch

    @property
    def grasp_pos(self) -> torch.Tensor:
        """Where to grasp the peg, in the environment frame [m], shape (N, 3)."""
        return self._places_now[:, 2]

    @kept
    def hole_pos(self) -> torch.Tensor:
        """Middle of the hole in the environment frame [m], shape (N, 3)."""
        return from_frame(manipulation.position(self, self.box), self.box_quat, self.hole_in_box)

    @property
    def box_quat(self) -> torch.Tensor:
        """Orientation of the box, x axis along the hole, (x, y, z, w), shape (N, 4)."""
        return self.box.data.root_quat_w.torch

    @property
    def head_in_hole(self) -> torch.Tensor:
        """The peg's head in the frame of the hole's middle, x axis inwards [m], shape (N, 3)."""
        return self._places_in_hole[:, 0]

    @property
    def middle_in_hole(self) -> torch.Tensor:
        """The peg's middle in the frame of the hole's middle, x axis inwards [m], shape (N, 3)."""
        return self._places_in_hole[:, 1]

    @kept
    def grasped(self) -> torch.Tensor:
        """Whether the closed gripper is stopped by the peg between its fingers, shape (N,), bool."""
        tool = into_frame(self.peg_pos, self.peg_quat, self.tool_pos)
        # The point of the peg's axis that is nearest to the tool.
        held = tool.clamp(self._tail, self._places[:, 0])
        return manipulation.between_fingers(self, held, self._width, tool)

    @kept
    def _places_now(self) -> torch.Tensor:
        """The peg's head, its middle, and where to grasp it, in the environment frame [m], shape (N, 3, 3)."""
        return from_frame(self.peg_pos, self.peg_quat, self._places)

    @kept
    def _places_in_hole(self) -> torch.Tensor:
        """The same in the frame of the hole's middle [m], shape (N, 3, 3)."""
        return into_frame(self.hole_pos, self.box_quat, self._places_now)

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("peg_x", "peg_y", "peg_yaw")
        peg = self.uniform_pose(env_ids, _PEG_STREAM, self.cfg.peg_lower, self.cfg.peg_upper, names)
        position = torch.cat([peg[:, :2], self.radius[env_ids, None]], dim=1)
        manipulation.place(self, self.peg, env_ids, position, manipulation.upright(peg[:, 2]))

        names = ("box_x", "box_y", "box_yaw")
        box = self.uniform_pose(env_ids, _BOX_STREAM, self.cfg.box_lower, self.cfg.box_upper, names)
        position = torch.cat([box[:, :2], self.half_length[env_ids, None]], dim=1)
        manipulation.place_kinematic(self, self.box, env_ids, position, manipulation.upright(box[:, 2]))

    def _task_state(self) -> torch.Tensor:
        peg_pos = self.peg_pos
        hole_pos = self.hole_pos
        peg_quat_in_hole = orientation_in_frame(self.box_quat, self.peg_quat)
        poses = [peg_pos, self.peg_quat, hole_pos, self.box_quat, self.head_in_hole, peg_quat_in_hole]
        sizes = [self.half_length[:, None], self.radius[:, None], self.hole_radius[:, None], self.hole_in_box[:, 1:]]
        velocity = self.peg.data.root_vel_w.torch
        relative = [self.grasp_pos - self.tool_pos]
        return torch.cat([*poses, *sizes, velocity, *relative, self.grasped[:, None]], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        success = self.is_fulfilled()
        held = self.grasped.masked_fill(success, False)

        off_axis = torch.linalg.vector_norm(self._places_in_hole[:, :2, 1:], dim=2)
        nearest, farthest = torch.aminmax(off_axis, dim=1)
        ways = torch.stack(
            [
                torch.linalg.vector_norm(self.grasp_pos - self.tool_pos, dim=1),
                torch.add(nearest, farthest, alpha=10.0),
                torch.linalg.vector_norm(self.head_in_hole, dim=1),
            ]
        )
        scales, weights = (constant_tensor(row, self.device)[:, None] for row in ((4.0, 0.5, 5.0), (0.1, 0.3, 0.5)))
        scores = weights * closeness(ways, scales)
        line_up, insert = held * scores[1:]

        return {
            "reach": scores[0].masked_fill(success, 0.0),
            "grasp": 0.1 * held,
            "line_up": line_up,
            "insert": insert.masked_fill(farthest >= _LINED_UP, 0.0),
            "success": success,
        }

    def _success(self) -> torch.Tensor:
        depth = constant_tensor((self.cfg.success_depth, 1.0, 1.0), self.device)
        return (self.head_in_hole.abs() <= depth * self._radii).all(dim=1)

    def _failure(self) -> torch.Tensor:
        return self.peg_pos[:, 2] < self._lowest
