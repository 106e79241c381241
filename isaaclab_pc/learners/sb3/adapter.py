# SPDX-License-Identifier: BSD-3-Clause
"""Stable-Baselines3 as a learning library of this package.

:mod:`isaaclab_pc.learners.sb3.agent` changes its PPO, and :mod:`isaaclab_pc.learners.sb3.env` its environments.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, override

import gymnasium
import torch
from torch import Tensor, nn

from isaaclab_pc.agents.observation_groups import policy_groups
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.interface import Adapter, AfterIteration, LearnerOptions, Runner, checkpoint_identity
from isaaclab_pc.learners.common.iteration_metrics import iteration_metrics, write_metrics
from isaaclab_pc.learners.common.policy_protocols import HasPolicy
from isaaclab_pc.learners.common.shared import USUAL_NUM_ENVS, log_writer
from isaaclab_pc.learners.sb3.agent import Agent, GroupRollout, read_groups
from isaaclab_pc.learners.sb3.env import GroupEnv


class Sb3Runner(Runner):
    """Stable-Baselines3's PPO."""

    def __init__(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> None:
        """Build networks, optimizer and rollout; see :meth:`~isaaclab_pc.learners.Adapter.make`."""
        super().__init__(run_dir, device)
        self._env = env

        groups = read_groups(agent_cfg)
        vectorized = GroupEnv(env, None if groups is None else list(dict.fromkeys(groups[0] + groups[1])))
        self._agent = Agent(vectorized, agent_cfg, device)
        self._policy = _Policy(self._agent)

        space = vectorized.observation_space
        spaces = space.spaces if isinstance(space, gymnasium.spaces.Dict) else {"policy": space}
        shapes = {name: own.shape or () for name, own in spaces.items()}
        num_actions = env.unwrapped.single_action_space.shape[0]
        self._identity = checkpoint_identity(ADAPTER.name, shapes, num_actions)

    @override
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        agent = self._agent
        with log_writer(self._run_dir) as writer:

            def after_update() -> bool:
                metrics = iteration_metrics(
                    {**agent.env.env_log.take_means(), **agent.tripwire.end_iteration()},
                    *agent.env.episodes.means(),
                    env_s=agent.env.clock.take(),
                    collect_s=agent.collect_s,
                    learn_s=agent.learn_s,
                    env_steps=agent.n_steps * agent.n_envs,
                    of_update=agent.take_metrics(),
                    device=self._device,
                )
                write_metrics(writer, metrics, self.completed_iterations + 1)
                return after_iteration(metrics)

            agent.run(self.completed_iterations, max_iterations, after_update)

    @override
    def holders(self) -> Mapping[str, Any]:
        rollout = self._agent.rollout_buffer
        return {
            "rollout storage": rollout.tensors() if isinstance(rollout, GroupRollout) else {},
            "network weights": [self._agent.network or self._agent.policy],
            "optimizer": self._agent.policy.optimizer.state,
        }

    @override
    def _library_state(self) -> dict[str, Any]:
        policy = self._agent.policy
        return {"algorithm": {"model": policy.state_dict(), "optimizer": policy.optimizer.state_dict()}}

    @override
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        self._agent.policy.load_state_dict(state["algorithm"]["model"])
        self._agent.policy.optimizer.load_state_dict(state["algorithm"]["optimizer"])

    @override
    def _acting_modules(self) -> dict[str, nn.Module]:
        return {"model": self._agent.policy}


class Sb3Adapter(Adapter):
    """Adapter of Stable-Baselines3."""

    name = "sb3"
    make = Sb3Runner
    learning_rate_key = "agent.learning_rate"

    @override
    def batch_target(self, agent_cfg: Mapping[str, Any]) -> tuple[int, int]:
        wrapped = [key for key in ("normalize_input", "normalize_value") if agent_cfg.get(key)]
        if wrapped:
            raise ConfigError(
                f"runner=sb3: this task's agent has {wrapped[0]}, and Stable-Baselines3 keeps its statistics "
                f"outside of its networks: set {' '.join(f'agent.{key}=false' for key in wrapped)}, or give "
                "runner=rsl_rl."
            )

        samples = _samples(agent_cfg)
        if "n_minibatches" in agent_cfg:
            return samples, max(1, samples // agent_cfg["n_minibatches"])
        return samples, agent_cfg["batch_size"]

    @override
    def configure(self, agent_cfg: dict[str, Any], options: LearnerOptions) -> None:
        iterations = options.max_iterations or self.max_iterations(agent_cfg)
        agent_cfg["seed"] = options.seed
        agent_cfg["device"] = options.device

        if options.obs is not None and read_groups(agent_cfg) is not None:
            agent_cfg["policy_kwargs"]["net_arch"]["actor"] = policy_groups(options.obs)
        if options.plan is not None:
            agent_cfg["n_steps"] = options.plan.horizon
            agent_cfg["n_minibatches"] = options.plan.num_minibatches
            agent_cfg.pop("batch_size", None)
        agent_cfg["n_timesteps"] = iterations * _samples(agent_cfg)

    @override
    def max_iterations(self, agent_cfg: Mapping[str, Any]) -> int:
        return max(1, int(agent_cfg["n_timesteps"]) // _samples(agent_cfg))


ADAPTER: Adapter = Sb3Adapter()


class _Policy(nn.Module):
    """Stable-Baselines3's policy without its critic and its sampling; actions are clipped, as it clips them."""

    low: Tensor
    high: Tensor

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.network: Any = agent.network
        if agent.network is None:
            # Without its optimizer, which knows the agent: export copies the policy, and can copy no agent.
            self.network = copy.copy(agent.policy)
            self.network.optimizer = None
        for name in ("low", "high"):
            bound = torch.as_tensor(getattr(agent.action_space, name), device=agent.device)
            self.register_buffer(name, bound, persistent=False)

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        is_ours = isinstance(self.network, HasPolicy)
        mean = self.network.policy(obs) if is_ours else self.network.get_distribution(obs["policy"]).mode()
        return mean.clamp(self.low, self.high)


def _samples(agent_cfg: Mapping[str, Any]) -> int:
    # A task of another package: the samples of its usual environments.
    return agent_cfg.get("samples_per_update", agent_cfg["n_steps"] * USUAL_NUM_ENVS)
