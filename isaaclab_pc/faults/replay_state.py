# SPDX-License-Identifier: BSD-3-Clause
"""A replay's state: the recorded steps to begin from, and readings after every physics step with the guard's bounds."""

from collections.abc import Sequence
from typing import Any

import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.replay_result import Reading
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.guards.scene_state import joint_bounds


class History:
    """The recorded steps of one environment, matched with a simulation of one environment.

    Raises:
        ConfigError: The environment has other assets, joints or actions than the recorded one.
    """

    def __init__(self, env: Any, dump: FaultDump, position: int) -> None:
        """Match the assets of a dump's environment with those of ``env``."""
        self._env = env
        self.num_steps = int(dump.arrays["length"][position])
        """Steps of the history."""
        self.episode_step = dump.arrays["episode_step"][position, : self.num_steps].tolist()
        """For each of them, how many steps of its episode came before."""

        # Shorter histories are padded in the file.
        rows = {
            name: torch.tensor(value[position, : self.num_steps], device=env.device)
            for name, value in dump.arrays.items()
            if name == "action" or name.startswith("before.")
        }
        self.actions = rows["action"]
        """As they were given to the environment, shape (num_steps, A)."""
        _check_same_task(env, dump, self.actions.shape[1])

        # What the environments of the run shared was not recorded.
        self._assets = {name: asset for name, asset in _scene_assets(env).items() if name in dump.about["assets"]}
        # Backends order joints differently.
        self._joint_order = {
            name: [dump.about["assets"][name]["joints"].index(joint) for joint in self._assets[name].joint_names]
            for name in self._assets.keys() & env.scene.articulations.keys()
        }
        self._states = {
            name: {
                key.removeprefix(f"before.{name}."): value
                for key, value in rows.items()
                if key.startswith(f"before.{name}.")
            }
            for name in self._assets
        }

    def restore(self, step: int) -> None:
        """Put the simulation into the recorded state at the start of a step of the history, drive targets included."""
        env = self._env
        ids = torch.zeros(1, dtype=torch.int32, device=env.device)
        for name, asset in self._assets.items():
            state = {key: value[step : step + 1] for key, value in self._states[name].items()}

            pose = state["root_pose"].clone()
            pose[:, :3] += env.scene.env_origins
            asset.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids)
            if not getattr(asset, "is_fixed_base", False):
                asset.write_root_velocity_to_sim_index(root_velocity=state["root_velocity"], env_ids=ids)

            if name in self._joint_order:
                order = self._joint_order[name]
                asset.write_joint_position_to_sim_index(position=state["joint_pos"][:, order], env_ids=ids)
                asset.write_joint_velocity_to_sim_index(velocity=state["joint_vel"][:, order], env_ids=ids)
                command = asset.actuators.target_command
                command.set_position_index(value=state["joint_pos_target"][:, order], env_ids=ids)
                command.set_velocity_index(value=state["joint_vel_target"][:, order], env_ids=ids)

        env.scene.write_data_to_sim()
        env.sim.forward()

    def difference(self, step: int) -> float:
        """Return the largest difference of a joint or root coordinate from a recorded step's start [rad, m], or NaN."""
        differences = []
        for name, asset in self._assets.items():
            state = self._states[name]
            position = asset.data.root_pos_w.torch[0] - self._env.scene.env_origins[0]
            differences.append(position - state["root_pose"][step, :3])
            if name in self._joint_order:
                recorded = state["joint_pos"][step, self._joint_order[name]]
                differences.append(asset.data.joint_pos.torch[0] - recorded)
        return float(torch.cat(differences).abs().max())


def _check_same_task(env: Any, dump: FaultDump, num_actions: int) -> None:
    task = dump.about["task"]
    here = {name: sorted(getattr(asset, "joint_names", [])) for name, asset in _scene_assets(env).items()}
    recorded = {name: sorted(asset["joints"]) for name, asset in dump.about["assets"].items()}
    differing = sorted(name for name in recorded if here.get(name) != recorded[name])
    if differing:
        raise ConfigError(
            f"The dump is of another scene than {task} has now: {', '.join(differing)} differs. Replay it with the "
            "version of the task that it was made with."
        )

    width = env.single_action_space.shape[0]
    if width != num_actions:
        raise ConfigError(f"The dump has {num_actions} actions per step, {task} has {width} now.")


class StateReader:
    """Reads joints, bodies and actions of the only environment, and relates them to the guard's bounds."""

    def __init__(self, env: Any) -> None:
        """Read the joints' limits of an unwrapped environment, of one environment."""
        self._env = env
        self._cfg = env.guard.cfg if hasattr(env, "guard") else GuardCfg()
        self._joints = {name: joint_bounds(self._cfg, name, asset) for name, asset in env.scene.articulations.items()}

    def read_action(self, action: torch.Tensor) -> list[Reading]:
        """Read the components of an action, shape (1, A)."""
        names = [f"component {index}" for index in range(action.shape[1])]
        low, high = self._cfg.bounds("action")
        return make_readings("", "action", names, action[0], low, high)

    def read_state(self) -> list[Reading]:
        """Read all joints, free bodies and links."""
        readings = []
        for name, asset in _scene_assets(self._env).items():
            if name in self._joints:
                readings += self._read_joints(name, asset)
            readings += self._read_bodies(name, asset)
        return readings

    def _read_joints(self, name: str, asset: Any) -> list[Reading]:
        limits = self._joints[name]
        names = asset.joint_names
        position, velocity = asset.data.joint_pos.torch[0], asset.data.joint_vel.torch[0]
        return [
            *make_readings(name, "joint position [rad or m]", names, position, limits.lower, limits.upper),
            *make_readings(name, "joint velocity [rad/s or m/s]", names, velocity, -limits.fastest, limits.fastest),
        ]

    def _read_bodies(self, name: str, asset: Any) -> list[Reading]:
        data = asset.data
        follows = name in self._joints and asset.is_fixed_base
        linear, angular = self._cfg.fastest()
        position = data.body_pos_w.torch[0] - self._env.scene.env_origins[0]
        quantities = {
            "position [m]": (position, *self._cfg.bounds("position")),
            "velocity [m/s]": (data.body_lin_vel_w.torch[0], -linear, linear),
            "angular velocity [rad/s]": (data.body_ang_vel_w.torch[0], -angular, angular),
        }
        readings = []
        for label, (values, low, high) in quantities.items():
            readings += make_readings(name, label, asset.body_names, values, low, high, follows)
        return readings


def make_readings(
    asset: str,
    quantity: str,
    names: Sequence[str],
    values: torch.Tensor,
    low: torch.Tensor | float,
    high: torch.Tensor | float,
    set_by_joints: bool = False,
) -> list[Reading]:
    """Return one reading for each joint or body, R ``names``: that of its worst component of ``values`` (R, ...).

    ``quantity`` has its unit in brackets; ``low`` and ``high`` are numbers, or shape (R,).
    """
    values = values.reshape(len(names), -1)
    low, high = (
        torch.as_tensor(bound, dtype=values.dtype, device=values.device).view(-1, 1).expand_as(values)
        for bound in (low, high)
    )
    middle = (low + high) / 2
    excess = (values - middle).abs() / ((high - low) / 2)
    excess, worst = torch.where(excess.isfinite(), excess, torch.inf).max(dim=1, keepdim=True)

    bounds = torch.where(values < middle, low, high).gather(1, worst)
    rows = torch.cat([values.gather(1, worst), bounds, excess], dim=1).tolist()
    return [
        Reading(asset, name, quantity, value, bound, row_excess, set_by_joints)
        for name, (value, bound, row_excess) in zip(names, rows, strict=True)
    ]


def _scene_assets(env: Any) -> dict[str, Any]:
    return {**env.scene.articulations, **env.scene.rigid_objects}
