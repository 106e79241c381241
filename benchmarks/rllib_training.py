# SPDX-License-Identifier: BSD-3-Clause
"""What rllib_faults.py disturbs: PPO of RLlib on CartPole, as a careful user would train it, in a process of its own.

The folder it is given is how the two talk. Every iteration's end is a line of `progress.jsonl`, every start of an
environment a line of `runners.jsonl`; a file named after a value of `Fault` is taken by the first environment that sees
it, and happens there. Checkpoints are written beside and renamed, so that a kill never leaves half of one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ray  # pyright: ignore[reportMissingImports]
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from ray import tune  # pyright: ignore[reportMissingImports]
from ray.rllib.algorithms.ppo import PPO, PPOConfig  # pyright: ignore[reportMissingImports]

FAULTS = ("raise", "nan_state", "nan_reward")
CHECKPOINT_INTERVAL = 1.0
"""Least seconds between two checkpoints, as in tests/sim/test_fault_tolerance.py."""


def append(path: Path, **line: Any) -> None:
    """Add one line of JSON with the time to a file; a line of this length is written whole or not at all."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"time": time.time(), **line}, default=float) + "\n")


class FaultyCartPole(CartPoleEnv):
    """CartPole that raises or diverges when a file says so."""

    def __init__(self, folder: Path, runner: int) -> None:
        """Write that this runner has an environment."""
        super().__init__()
        self._faults = {name: folder / name for name in FAULTS}
        append(folder / "runners.jsonl", runner=runner, pid=os.getpid())

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and let happen what is asked for. A state that is NaN stays so until the episode is over."""
        if self._takes("raise"):
            raise RuntimeError("injected")
        observation, reward, terminated, truncated, info = super().step(action)
        if self._takes("nan_state"):
            self.state = np.full(4, np.nan)
            observation = np.full(4, np.nan, dtype=np.float32)
        if self._takes("nan_reward"):
            reward = float("nan")
        return observation, reward, terminated, truncated, info

    def _takes(self, fault: str) -> bool:
        path = self._faults[fault]
        if not path.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            return True
        return False


def make_env(context: Any) -> gymnasium.Env[Any, Any]:
    """Return the environment of one runner, whose episodes end after 500 steps as CartPole-v1's do."""
    env = FaultyCartPole(Path(context["folder"]), context.worker_index)
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps=500)


def report_iteration(*, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
    """Write that an iteration has ended, and whether the learner's weights are finite."""
    folder = Path(algorithm.config.env_config["folder"])
    finite = None
    if algorithm.config.num_learners == 0:
        weights = algorithm.learner_group.get_weights()
        finite = all(np.isfinite(value).all() for module in weights.values() for value in module.values())
    runners = result["env_runners"]
    append(
        folder / "progress.jsonl",
        pid=os.getpid(),
        iteration=result["training_iteration"],
        steps=runners.get("num_env_steps_sampled", 0),
        total_steps=result.get("num_env_steps_sampled_lifetime"),
        episode_return=runners.get("episode_return_mean"),
        finite=None if finite is None else bool(finite),
    )


def make_config(folder: Path, settings: dict[str, dict[str, Any]]) -> PPOConfig:
    """Return PPO with two runners of four environments each and updates of 500 samples."""
    config = (
        PPOConfig()
        .environment("faulty_cartpole", env_config={"folder": str(folder)})
        .env_runners(num_env_runners=2, num_envs_per_env_runner=4)
        .training(train_batch_size_per_learner=500, minibatch_size=250, num_epochs=2)
        .callbacks(on_train_result=report_iteration)
        .debugging(seed=1)
    )
    for section, values in settings.items():
        getattr(config, section)(**values)
    return config


def train(config: PPOConfig, folder: Path) -> None:
    """Train for ever in this process, from the last checkpoint if there is one."""
    algorithm = config.build_algo()
    if saved := sorted(folder.glob("checkpoint_*")):
        algorithm.restore_from_path(saved[-1])

    last = time.monotonic()
    while True:
        algorithm.train()
        if time.monotonic() - last >= CHECKPOINT_INTERVAL:
            save(algorithm, folder)
            last = time.monotonic()


def save(algorithm: Any, folder: Path) -> None:
    """Write a checkpoint, and remove the ones before once it is whole."""
    before = list(folder.glob("checkpoint_*"))
    new = folder / "new"
    shutil.rmtree(new, ignore_errors=True)
    algorithm.save_to_path(new)
    new.rename(folder / f"checkpoint_{algorithm.iteration:09}")
    for old in before:
        shutil.rmtree(old)
    append(folder / "checkpoints.jsonl", iteration=algorithm.iteration)


def train_with_tune(config: PPOConfig, folder: Path) -> None:
    """Train for ever as the only trial of Tune, with a checkpoint after every iteration."""
    run_config = tune.RunConfig(
        storage_path=str(folder / "tune"),
        failure_config=tune.FailureConfig(max_failures=-1),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=2),
    )
    tune.Tuner(PPO, param_space=config.to_dict(), run_config=run_config).fit()


def main() -> None:
    """Train as told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--settings", type=json.loads, default={}, help="of the algorithm's config, by method")
    parser.add_argument("--tune", action="store_true")
    args = parser.parse_args()

    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=200 << 20, _temp_dir=str(args.folder / "ray"))
    tune.register_env("faulty_cartpole", make_env)
    config = make_config(args.folder, args.settings)
    (train_with_tune if args.tune else train)(config, args.folder)


if __name__ == "__main__":
    sys.exit(main())
