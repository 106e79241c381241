# SPDX-License-Identifier: BSD-3-Clause
"""What each learning library's rollout takes: bytes a sample, and CPU time beside the simulation.

    python benchmarks/library_rollouts.py --num-envs 256

The environment has the shapes of ``reach`` and no simulation, so all of a step's time is the library's: the policy, and
keeping and converting what it is given. It is the CPU's time on one thread, so other jobs on the machine matter little.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from isaaclab.envs import DirectRLEnv
from torch import Tensor

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.learners import RUNNERS, Decision
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes
from isaaclab_pc.workers.resolve import resolve

OBSERVATIONS = {"policy": ((24,), torch.float32), "critic": ((30,), torch.float32), "points": ((64, 3), torch.float16)}
NUM_ACTIONS = 3


class TimedEnv(DirectRLEnv):
    """An environment that only has the shapes of ``reach``, returns zeros, and notes when it is stepped."""

    def __init__(self, num_envs: int) -> None:
        """Make the spaces."""
        # The base class's __init__ is not called: it starts a simulation. It is the base class because the wrappers of
        # the learning libraries check for it.
        self._is_closed = True
        self.scene: Any = SimpleNamespace(num_envs=num_envs)
        self.sim: Any = SimpleNamespace(device="cpu")
        self.cfg = SimpleNamespace(is_finite_horizon=False)
        self.render_mode = None
        self.times: list[float] = []

        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.obs_buf = {name: torch.zeros(num_envs, *shape, dtype=kind) for name, (shape, kind) in OBSERVATIONS.items()}
        boxes: dict[str, gym.Space] = {
            name: gym.spaces.Box(-np.inf, np.inf, tuple(value.shape[1:]), value.numpy().dtype.type)
            for name, value in self.obs_buf.items()
        }
        self.single_observation_space = gym.spaces.Dict(boxes)
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (NUM_ACTIONS,))
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.state_space = None

    @property
    def max_episode_length(self) -> int:
        """Steps of an episode; none of them ends here."""
        return 1000

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Tensor], dict]:
        """Return zeros."""
        return self.obs_buf, {}

    def step(self, action: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict]:
        """Return zeros."""
        self.times.append(time.process_time())
        no = torch.zeros(self.num_envs, dtype=torch.bool)
        return self.obs_buf, torch.zeros(self.num_envs), no, no.clone(), {}

    def close(self) -> None:
        """Do nothing."""


def measure(runner: str, num_envs: int) -> tuple[int, float]:
    """Return the bytes of a sample in the rollout, and the median CPU time of a step [ms]."""
    settings = compose([f"runner={runner}", "task=reach", "algorithm=ppo", "device=cpu", "physics=ovphysx"])
    run = resolve(settings, num_envs)
    env = TimedEnv(num_envs)

    with tempfile.TemporaryDirectory() as folder:
        learner = run.adapter.make(env, run.agent_cfg, Path(folder), "cpu")
        learner.train(1, lambda completed, metrics: Decision.STOP)
        held = tensor_bytes(learner.holders()["rollout storage"])
    steps = [after - before for before, after in itertools.pairwise(env.times)]
    return held // run.plan.samples_per_update, 1e3 * statistics.median(steps)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=256, metavar="N")
    num_envs = parser.parse_args().num_envs

    torch.set_num_threads(1)
    print(f"| `runner` | bytes a sample | CPU time of a step of {num_envs} environments [ms] |\n|---|---|---|")
    for runner in RUNNERS:
        held, milliseconds = measure(runner, num_envs)
        print(f"| `{runner}` | {held} | {milliseconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
