# SPDX-License-Identifier: BSD-3-Clause
"""The drawer task."""

import torch
from isaaclab.assets import Articulation

from isaaclab_pc.assets.articulated.cabinets import CABINETS, DRAWER_AXIS
from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.envs import manipulation
from isaaclab_pc.envs.expert import expert_of
from isaaclab_pc.envs.kept import kept
from isaaclab_pc.envs.manipulation import closeness
from isaaclab_pc.envs.point_cloud_env import TASK_STREAM, PointCloudEnv
from isaaclab_pc.tasks.open_drawer.open_drawer_env_cfg import OpenDrawerEnvCfg
from isaaclab_pc.tensors.poses import from_frame

_MOVED = 0.001
"""Share of the drawer's travel from which the handle counts as reached, as in ManiSkill."""


class OpenDrawerEnv(PointCloudEnv):
    """Pull the drawer of a cabinet open by its handle.

    Randomization: arm joints around their defaults, the cabinet's x, y and yaw on the table, and with ``cfg.cabinets``
    another cabinet in every environment, with a bar, a knob or an edge to pull. Handle and drawer are in the cloud and
    in the critic's state, never in the policy's proprioception. Success, as in ManiSkill's OpenCabinetDrawer: the
    drawer is open by ``success_open`` of its travel and no faster than ``success_speed``. Episodes end at their time
    limit and count as their last step.

    The reward follows ManiSkill's OpenCabinetDrawer (https://github.com/haosulab/ManiSkill): ``reach`` the handle, a
    term that is paid in full once the drawer has moved, and ``open`` the drawer as far as success needs. Unlike there,
    the place to reach is the middle of the gap behind the bar, from where a gripper of any opening pulls, and
    ``success`` is a term of its own, the only one that rewards standing still.
    """

    cfg: OpenDrawerEnvCfg
    expert = expert_of("isaaclab_pc.tasks.open_drawer.expert:CASES")

    def _bind_scene(self) -> None:
        super()._bind_scene()
        self.cabinet: Articulation = self.scene["cabinet"]
        self._drawer = self.cabinet.find_bodies("drawer")[0][0]
        cabinets = [CABINETS[self.cfg.cabinets][index] for index in dealt_objects()]
        self._handle = torch.tensor([cabinet.handle_center for cabinet in cabinets], device=self.device)
        self.travel = torch.tensor([cabinet.travel for cabinet in cabinets], device=self.device)
        """How far each drawer opens [m], shape (N,)."""
        self.gap = torch.tensor([cabinet.gap for cabinet in cabinets], device=self.device)
        """Free space between each drawer's front and its handle [m], shape (N,)."""
        self.handle_length = torch.tensor([cabinet.handle_length for cabinet in cabinets], device=self.device)
        """Length of each handle [m], shape (N,)."""
        self._axis = torch.tensor(DRAWER_AXIS, device=self.device).expand(self.num_envs, 3)

    @kept
    def handle_pos(self) -> torch.Tensor:
        """Centre of the handle in the environment frame [m], shape (N, 3)."""
        data = self.cabinet.data
        drawer_pos = data.body_pos_w.torch[:, self._drawer] - self.scene.env_origins
        return from_frame(drawer_pos, data.body_quat_w.torch[:, self._drawer], self._handle)

    @kept
    def pull_axis(self) -> torch.Tensor:
        """Unit vector along which the drawer opens, in the environment frame, shape (N, 3)."""
        return from_frame(None, self.cabinet.data.root_quat_w.torch, self._axis)

    @kept
    def grip_pos(self) -> torch.Tensor:
        """Middle of the gap between the handle and the drawer's front, in the environment frame [m], shape (N, 3)."""
        return self.handle_pos - (self.gap / 2)[:, None] * self.pull_axis

    @kept
    def opening(self) -> torch.Tensor:
        """How far the drawer is open, as a share of its travel, shape (N,)."""
        return self.cabinet.data.joint_pos.torch[:, 0] / self.travel

    def _drawer_velocity(self) -> torch.Tensor:
        return self.cabinet.data.joint_vel.torch[:, 0]

    def _reset_task(self, env_ids: torch.Tensor) -> None:
        names = ("cabinet_x", "cabinet_y", "cabinet_yaw")
        pose = self.uniform_pose(env_ids, TASK_STREAM, self.cfg.cabinet_lower, self.cfg.cabinet_upper, names)
        position = torch.cat([pose[:, :2], torch.zeros_like(pose[:, :1])], dim=1)
        manipulation.place_fixed_base(self, self.cabinet, env_ids, position, manipulation.upright(pose[:, 2]))

    def _task_state(self) -> torch.Tensor:
        relative = self.grip_pos - self.tool_pos
        drawer = torch.stack([self.opening, self._drawer_velocity()], dim=1)
        return torch.cat([self.handle_pos, relative, self.pull_axis[:, :2], drawer], dim=1)

    def _reward_terms(self) -> dict[str, torch.Tensor]:
        reach = closeness(torch.linalg.vector_norm(self.grip_pos - self.tool_pos, dim=1))
        opening = self.opening
        share = (opening / self.cfg.success_open).clamp(0.0, 1.0)

        return {
            "reach": 0.2 * torch.where(opening > _MOVED, 2.0, reach),
            "open": 0.4 * share + 0.2 * (share == 1.0).float(),
            "success": 0.5 * self.is_fulfilled(),
            "action": -0.005 * self.actions[:, :-1].square().sum(dim=1),
        }

    def _success(self) -> torch.Tensor:
        still = self._drawer_velocity().abs() <= self.cfg.success_speed
        return (self.opening >= self.cfg.success_open) & still
