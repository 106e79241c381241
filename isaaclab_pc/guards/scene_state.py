# SPDX-License-Identifier: BSD-3-Clause
"""The guard's view of a scene's physics state: every articulation and rigid object in it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import warp as wp

from isaaclab_pc.guards import kernels
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.tensors.constant_tensor import constant_tensor

STATE_CAUSES = Cause.POSITION | Cause.ORIENTATION | Cause.VELOCITY | Cause.JOINT_POSITION | Cause.JOINT_VELOCITY
"""The causes that are found in the physics state."""


@dataclass
class _Joints:
    """Joints of one articulation, J of them, and the bounds of their state, each (J,)."""

    name: str
    asset: Any
    lower: torch.Tensor
    upper: torch.Tensor
    fastest: torch.Tensor
    limits: torch.Tensor
    """Bounds that joint positions are repaired to, (2, J): their limits without the margin, infinite for none."""


def own_assets(scene: Any, num_envs: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a scene's articulations and rigid objects by name, without those that the environments share."""

    def own(assets: Mapping[str, Any]) -> dict[str, Any]:
        return {name: asset for name, asset in assets.items() if asset.num_instances == num_envs}

    return own(scene.articulations), own(scene.rigid_objects)


class SceneState:
    """Checks, repairs and restores the state of all assets of a scene.

    Of an articulation with a fixed base only the joints are checked; the links' poses follow from them. Deformable
    objects, collections and assets that the environments share are not checked.
    """

    def __init__(self, guard: Guard, scene: Any) -> None:
        """Read the assets' limits from an initialized ``InteractiveScene``; findings go to ``guard``."""
        self._guard = guard
        self._scene = scene
        articulations, rigid_objects = own_assets(scene, guard.num_envs)
        self._joints = [
            joint_bounds(guard.cfg, name, asset) for name, asset in articulations.items() if asset.num_joints
        ]
        floating = {name: asset for name, asset in articulations.items() if not asset.is_fixed_base}
        # Rigid objects, and the roots of floating articulations.
        self._bodies = rigid_objects | floating

    def check(self) -> None:
        """Mark environments with a faulty state. ``sanitize`` repairs them, ``raise`` raises :class:`FaultError`."""
        guard = self._guard
        raises = guard.cfg.mode == "raise"

        for joints in self._joints:
            data = joints.asset.data

            def bounds(joints: _Joints = joints) -> list[Any]:
                arrays = [wp.from_torch(bound) for bound in (joints.lower, joints.upper, joints.fastest)]
                return [*arrays, guard.findings]

            state = [data.joint_pos.warp, data.joint_vel.warp]
            guard.launch((joints.name, "joints"), kernels.check_joints, guard.num_envs, state, bounds)
            if raises:
                guard.raise_if(guard.causes & STATE_CAUSES, joints.name)

        for name, body in self._bodies.items():
            data = body.data
            state = [data.root_link_pose_w.warp, data.root_com_vel_w.warp]
            guard.launch((name, "body"), kernels.check_bodies, guard.num_envs, state, self._body_bounds)
            if raises:
                guard.raise_if(guard.causes & STATE_CAUSES, name)

        if guard.repairs:
            self._repair((guard.causes & STATE_CAUSES) != 0)

    def restore_defaults(self, env_ids: torch.Tensor) -> None:
        """Write every asset's default state, and hold it as the target of the drives, in environments (M,), int64."""
        ids = env_ids.int()

        for body in self._bodies.values():
            pose = body.data.default_root_pose.torch[env_ids].clone()
            pose[:, :3] += self._scene.env_origins[env_ids]
            body.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids)
            if not _is_kinematic(body):
                velocity = body.data.default_root_vel.torch[env_ids]
                body.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=ids)

        for joints in self._joints:
            position = joints.asset.data.default_joint_pos.torch[env_ids]
            velocity = joints.asset.data.default_joint_vel.torch[env_ids]
            joints.asset.write_joint_position_to_sim_index(position=position, env_ids=ids)
            joints.asset.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids)

            command = joints.asset.actuators.target_command
            command.set_position_index(value=position, env_ids=ids)
            command.set_velocity_index(value=velocity, env_ids=ids)

    def _body_bounds(self) -> list[Any]:
        cfg = self._guard.cfg
        origins = wp.from_torch(self._scene.env_origins.contiguous(), dtype=wp.vec3f)
        fastest: Any = cfg.fastest()
        limits = [*cfg.bounds("position"), cfg.quaternion_tolerance, wp.vec2f(*fastest)]
        return [origins, *limits, self._guard.findings]

    def _repair(self, bad: torch.Tensor) -> None:
        """Write the nearest state that the assets can be in to environments, a mask of shape (num_envs,), bool."""
        # On CUDA, asking would wait for the device; writing nothing waits for nothing.
        if bad.device.type == "cpu" and not bad.any():
            return

        # To the limit, not to the bound of a fault: far beyond its limit a joint would fail again in the next step.
        mask = wp.from_torch(bad)
        for joints in self._joints:
            data = joints.asset.data
            position = data.joint_pos.torch
            nearest = position.clamp(*joints.limits)
            # NaN, and a joint that turns without end.
            is_near = _is_within(nearest, joints.lower, joints.upper)
            nearest = torch.where(is_near, nearest, data.default_joint_pos.torch)
            position = torch.where(_is_within(position, joints.lower, joints.upper), position, nearest)
            velocity = data.joint_vel.torch
            velocity = torch.where(_is_within(velocity, -joints.fastest, joints.fastest), velocity, 0.0)
            joints.asset.write_joint_position_to_sim_mask(position=position, env_mask=mask)
            joints.asset.write_joint_velocity_to_sim_mask(velocity=velocity, env_mask=mask)
        for body in self._bodies.values():
            self._repair_body(body, mask)

    def _repair_body(self, asset: Any, mask: wp.array) -> None:
        origins = self._scene.env_origins
        pose = asset.data.root_link_pose_w.torch
        default = asset.data.default_root_pose.torch

        # Where the bounds are there is nothing that the body could rest on.
        place = pose[:, :3] - origins
        in_place = _is_within(place, *self._guard.cfg.bounds("position")).all(dim=1, keepdim=True)
        position = torch.where(in_place, place, default[:, :3]) + origins

        # A quaternion of about the right length is normalized; of another one the direction means nothing.
        length = torch.linalg.vector_norm(pose[:, 3:], dim=1, keepdim=True)
        usable = (length - 1.0).abs() <= 0.5
        quat = torch.where(usable, pose[:, 3:] / length, default[:, 3:])
        asset.write_root_pose_to_sim_mask(root_pose=torch.cat([position, quat], dim=1), env_mask=mask)

        if not _is_kinematic(asset):
            velocity = asset.data.root_com_vel_w.torch
            linear, angular = self._guard.cfg.fastest()
            fastest = constant_tensor((linear,) * 3 + (angular,) * 3, velocity.device)
            velocity = torch.where(_is_within(velocity, -fastest, fastest) & in_place, velocity, 0.0)
            asset.write_root_velocity_to_sim_mask(root_velocity=velocity, env_mask=mask)


def joint_bounds(cfg: GuardCfg, name: str, asset: Any) -> _Joints:
    """Return the bounds of an articulation's joints: the widest limits of all environments, widened by the margins."""
    limits = asset.data.joint_pos_limits.torch
    least = limits[..., 0].amin(dim=0)
    most = limits[..., 1].amax(dim=0)
    margin = cfg.joint_position_margin * (most - least)

    speed = asset.data.joint_vel_limits.torch.amax(dim=0)
    # A limit of 0 or inf is how simulators write that there is none.
    fastest = torch.where((speed > 0) & speed.isfinite(), cfg.joint_velocity_factor * speed, math.inf)

    cap = cfg.max_abs
    return _Joints(
        name,
        asset,
        lower=torch.nan_to_num(least - margin, nan=-cap).clamp(-cap, cap).contiguous(),
        upper=torch.nan_to_num(most + margin, nan=cap).clamp(-cap, cap).contiguous(),
        fastest=fastest.clamp(max=cap).contiguous(),
        limits=torch.stack([torch.where(least >= -cap, least, -math.inf), torch.where(most <= cap, most, math.inf)]),
    )


def _is_within(values: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    return (values >= low) & (values <= high)


def _is_kinematic(asset: Any) -> bool:
    """Tell whether a body is moved by its pose only; PhysX floods the log when such a body gets a velocity."""
    properties = getattr(asset.cfg.spawn, "rigid_props", None) or []
    properties = properties if isinstance(properties, (list, tuple)) else [properties]
    return any(getattr(part, "kinematic_enabled", None) for part in properties)
