# SPDX-License-Identifier: BSD-3-Clause
"""Environments of isaaclab_pc for lerobot, which observe what ``scripts/demo.py format=lerobot`` records.

    python scripts/demo.py task=lift obs=state episodes=200 format=lerobot
    lerobot-train --dataset.repo_id=isaaclab_pc/lift --dataset.root=logs/demo/lift/lerobot --policy.type=act \
        --policy.push_to_hub=false --output_dir=logs/act
    PYTHONPATH=examples lerobot-eval --env.discover_packages_path=lerobot_isaaclab_pc --env.type=isaaclab_pc \
        --env.dataset=logs/demo/lift/lerobot --policy.path=logs/act/checkpoints/last/pretrained_model

lerobot needs other versions of numpy and packaging than simulators. So this file runs twice: where lerobot is, and as a
program by the interpreter of isaaclab_pc, which ``ISAACLAB_PC_PYTHON`` names; without it, ``.venv/bin/python`` of this
repository. lerobot's EnvHub downloads one file: this one, with ``make_env``. ``ISAACLAB_PC_SETTINGS`` are the settings
then, as "task=lift env.randomization=hard".
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

if TYPE_CHECKING:
    from isaaclab_pc.demos.convert.lerobot_dataset import World


def make_env(n_envs: int = 1, use_async_envs: bool = False, cfg: Any = None) -> gym.vector.VectorEnv:
    """Return N environments with the settings of ``ISAACLAB_PC_SETTINGS``; called by lerobot's EnvHub."""
    return SimulatedEnvs(shlex.split(os.environ.get("ISAACLAB_PC_SETTINGS", "task=lift")), n_envs)


class SimulatedEnvs(gym.vector.VectorEnv):
    """Environments of isaaclab_pc, simulated by a process of their own."""

    def __init__(self, settings: Sequence[str], num_envs: int) -> None:
        """Start the process, which takes half a minute, and more the first time on a machine.

        A RuntimeError says why it ended.
        """
        self._here, there = Pipe()
        command = [_interpreter(), "-P", __file__, *settings]
        log, self._log = tempfile.mkstemp(prefix="isaaclab_pc_simulator_", suffix=".log")
        os.close(log)
        command += ["--num-envs", str(num_envs), "--connection", str(there.fileno()), "--log", self._log]
        self._process = subprocess.Popen(command, pass_fds=[there.fileno()])
        there.close()
        self._told = self._receive()

        self.num_envs = num_envs
        self.metadata = {"render_fps": self._told["rate_hz"], "autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.single_action_space = gym.spaces.Box(-1.0, 1.0, self._told["actions"], np.float32)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        first = self._observe(self._ask("reset", None))
        self.single_observation_space = gym.spaces.Dict(
            {name: gym.spaces.Box(-np.inf, np.inf, values.shape[1:], np.float32) for name, values in first.items()}
        )
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode in each environment; of several seeds the first draws all of them."""
        first = seed[0] if isinstance(seed, list) else seed
        return self._observe(self._ask("reset", first)), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments; ``is_success`` of the infos is that of the episodes that ended."""
        observed, reward, terminated, truncated, success = self._ask("step", np.asarray(actions, dtype=np.float32))
        return self._observe(observed), reward, terminated, truncated, {"is_success": success}

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return what lerobot asks of each environment: its length, its task, or its picture."""
        if name == "render":
            return tuple(self._ask("pictures"))
        if name not in self._told:
            raise AttributeError(name)
        return (self._told[name],) * self.num_envs

    get_attr = call

    def close_extras(self, **kwargs: Any) -> None:
        """Let the process end, and wait for it."""
        self._here.close()
        if self._process.wait() == 0:
            Path(self._log).unlink(missing_ok=True)

    def _observe(self, observed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Name features as lerobot expects them of environments, which makes the features' names of them again."""
        names = {name: name.removeprefix("observation.") for name in observed} | {"observation.state": "agent_pos"}
        return {names[name]: values.astype(np.float32) for name, values in observed.items()}

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._here.send((name, *arguments))
        return self._receive()

    def _receive(self) -> Any:
        try:
            answer = self._here.recv()
        except EOFError:
            answer = "its process died"
        if isinstance(answer, str):
            raise RuntimeError(f"the simulator ended: {answer}; see {self._log}.")
        return answer


def _interpreter() -> str:
    python = os.environ.get("ISAACLAB_PC_PYTHON", str(Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python"))
    if not Path(python).is_file():
        raise RuntimeError(f"{python} is missing: let ISAACLAB_PC_PYTHON name the interpreter isaaclab_pc runs in")
    return python


class Simulator:
    """Runs N environments; each public method answers a message."""

    def __init__(self, env: Any, world: World) -> None:
        """Take an unwrapped environment, and what makes a dataset's features of what it observes."""
        self._env = env
        self._world = world

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode in every environment; ``seed`` draws all of them."""
        observations, _ = self._env.reset(seed=seed)
        return self._observed(observations)

    def step(self, actions: np.ndarray) -> tuple[dict[str, np.ndarray], *tuple[np.ndarray, ...]]:
        """Return observations, rewards, and three (N,), bool: terminated, truncated, and ended with success.

        Takes actions (N, A). An environment that is done begins its next episode, as Isaac Lab does.
        """
        device = self._env.device
        observations, reward, terminated, truncated, _ = self._env.step(torch.as_tensor(actions, device=device))
        success = (terminated | truncated) & self._env.episode_success
        return self._observed(observations), *(
            value.cpu().numpy() for value in (reward, terminated, truncated, success)
        )

    def pictures(self) -> np.ndarray:
        """Return colour pictures of the scenes, (N, H, W, 3), uint8."""
        from isaaclab_pc.viewer.scene_pictures import read_pictures

        return read_pictures(self._env)

    def _observed(self, observations: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        from isaaclab_pc.workers.demo import sight

        seen = sight(self._env, with_depth=False)
        if "cloud" in seen and bool(seen["cloud"]["age"].any()):
            raise ValueError("clouds are late, and their frame has moved since: set latency of points.realism to 0.")
        return self._world.observed(_as_numpy({"obs": observations, **seen}))


def _as_numpy(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: _as_numpy(value) if isinstance(value, dict) else value.cpu().numpy() for name, value in tree.items()}


def _serve(connection: Connection, num_envs: int, settings: Sequence[str]) -> None:
    """Answer messages, each a method's name and its arguments, until the other side hangs up."""
    from isaaclab_pc.cli.compose import compose
    from isaaclab_pc.demos.convert.lerobot_dataset import World
    from isaaclab_pc.export.policy_description import describe_env
    from isaaclab_pc.run.platform import choose_platform
    from isaaclab_pc.viewer.scene_pictures import add_picture_camera, default_view
    from isaaclab_pc.workers.resolve import resolve
    from isaaclab_pc.workers.session import open_env

    resolved = resolve(choose_platform(compose(list(settings))), num_envs)
    # lerobot asks for the pictures of all environments at each step of the episodes that it films.
    add_picture_camera(resolved.env_cfg, replace(default_view(resolved.env_cfg), width=160, height=120))
    with open_env(resolved) as env, torch.no_grad():
        base: Any = env.unwrapped
        in_words = (type(base.cfg).__doc__ or "").strip().splitlines()[0]
        world = World({"task": in_words, **describe_env(base, resolved.settings.robot)})
        simulator = Simulator(base, world)
        connection.send(
            {
                "task": world.task,
                "task_description": world.task,
                "_max_episode_steps": base.max_episode_length,
                "rate_hz": world.frames_per_s,
                "actions": base.single_action_space.shape,
            }
        )
        while True:
            try:
                name, *arguments = connection.recv()
            except EOFError:
                return
            connection.send(getattr(simulator, name)(*arguments))


def main() -> None:
    """Serve the process that has the other end of ``--connection``."""
    parser = argparse.ArgumentParser(description="Simulate for a process that has lerobot, which starts this one.")
    parser.add_argument("settings", nargs="*", help="as those of scripts/train.py")
    parser.add_argument("--connection", type=int, required=True, help="file descriptor")
    parser.add_argument("--num-envs", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True, help="file of what the simulator prints")
    arguments = parser.parse_args()

    from isaaclab_pc.processes.output_filter import divert_output

    divert_output(arguments.log)
    with Connection(arguments.connection) as connection:
        try:
            _serve(connection, arguments.num_envs, arguments.settings)
        except Exception as error:
            traceback.print_exc()
            connection.send(f"{type(error).__name__}: {error}")
            raise SystemExit(1) from error


if __name__ == "__main__":
    main()
