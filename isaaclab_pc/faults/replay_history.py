# SPDX-License-Identifier: BSD-3-Clause
"""The recorded steps of a failed environment, and the way back into the states that they began in."""

from __future__ import annotations

from typing import Any

import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.replay_readings import scene_assets

__all__ = ["History"]


class History:
    """The recorded steps of one environment, matched with a simulation of one environment."""

    def __init__(self, env: Any, dump: FaultDump, position: int) -> None:
        """Match a dump's assets with an environment's.

        Raises:
            ConfigError: The environment has other assets, joints or actions than the one that was recorded.
        """
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
        self._assets = {name: asset for name, asset in scene_assets(env).items() if name in dump.about["assets"]}
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
        """Return how far the simulation is from the recorded state at the start of a step of the history.

        Returns:
            Largest difference of a joint position or of a coordinate of a root [rad, m]; NaN where one is not finite.
        """
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
    here = {name: sorted(getattr(asset, "joint_names", [])) for name, asset in scene_assets(env).items()}
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
