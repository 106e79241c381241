# SPDX-License-Identifier: BSD-3-Clause
"""The scaler as a library: how many environments of your own fit, and which number trains fastest.

    python examples/fit_your_env.py --budget 2GiB

Nothing here is Isaac Lab's: the environments are gymnasium's CartPole, the policy is a small network. The program
starts itself as a child for each size that is tried. A child builds everything, trains for a moment, and writes one
Trial; its memory is metered from outside, and it is ended where it passes the budget.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import fit
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trial import Outcome, Overrides, Trial

STEPS = 16
"""Steps of a rollout."""


def main() -> None:
    """Search, or be a child that tries one size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="2GiB", help="memory that a run may take: a size or a fraction")
    parser.add_argument("--largest", type=int, default=256, help="largest number of environments to try")
    parser.add_argument("--try-size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.try_size is not None:
        try_size(args.try_size, args.result)
        return

    def child_command(num_envs: int, result_path: Path, overrides: Overrides) -> list[str]:
        return [sys.executable, __file__, "--try-size", str(num_envs), "--result", str(result_path)]

    try:
        settings = SearchSettings(budget=args.budget, max=args.largest, min=8, cache="ignore")
        result = fit(child_command, settings, key={"what": "CartPole-v1"}, on_trial=print)
    except ConfigError as error:
        parser.error(str(error))
    print(result.reason)


def try_size(num_envs: int, result_path: Path) -> None:
    """Train a moment with a number of environments and write down how it went.

    Args:
        num_envs: Environments to try.
        result_path: Where the Trial goes.
    """
    import gymnasium as gym
    import torch

    start = time.perf_counter()
    envs = gym.make_vec("CartPole-v1", num_envs)
    policy = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters())
    build_s = time.perf_counter() - start

    def train_once() -> tuple[float, float]:
        """Return the seconds of a rollout and of an update, which is REINFORCE's (Williams 1992)."""
        rollout_start = time.perf_counter()
        observation, _ = envs.reset(seed=0)
        log_probs = []
        rewards = []
        for _ in range(STEPS):
            distribution = torch.distributions.Categorical(logits=policy(torch.as_tensor(observation)))
            action = distribution.sample()
            observation, reward, _, _, _ = envs.step(action.numpy())
            log_probs.append(distribution.log_prob(action))
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))

        update_start = time.perf_counter()
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(log_probs) * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return update_start - rollout_start, time.perf_counter() - update_start

    # The first round warms up what later rounds find ready.
    train_once()
    rollout_s, update_s = train_once()
    envs.close()

    trial = Trial(
        num_envs,
        Outcome.FITS,
        frames_per_second=num_envs * STEPS / (rollout_s + update_s),
        seconds={"build": build_s, "rollout": rollout_s, "update": update_s},
    )
    trial.write(result_path)


if __name__ == "__main__":
    main()
