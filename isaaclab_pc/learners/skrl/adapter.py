# SPDX-License-Identifier: BSD-3-Clause
"""skrl behind the :class:`~isaaclab_pc.learners.common.interface.Adapter` protocol.

What is changed in its PPO is in :mod:`isaaclab_pc.learners.skrl.agent`, and in its environments in
:mod:`isaaclab_pc.learners.skrl.env`.
"""

import contextlib
import copy
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

from isaaclab_pc.distributed import world_rank
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.base_runner import CheckpointedRunner, checkpoint_identity
from isaaclab_pc.learners.common.interface import Adapter, Decision, OnIteration, TeacherPolicy, policy_groups
from isaaclab_pc.learners.common.iteration_metrics import EnvClock, iteration_metrics, write_metrics
from isaaclab_pc.learners.common.policy_protocols import HasPolicy
from isaaclab_pc.learners.common.shared import USUAL_NUM_ENVS, random_first_lengths

if "WORLD_SIZE" in os.environ:
    # skrl would make a process group of its own while it is imported, with NCCL.
    _world_size = os.environ.pop("WORLD_SIZE")
    import skrl as _skrl  # noqa: F401  # pyright: ignore[reportUnusedImport]

    os.environ["WORLD_SIZE"] = _world_size

from isaaclab_pc.learners.skrl.agent import PpoAgent
from isaaclab_pc.learners.skrl.components import build_agent, read_groups
from isaaclab_pc.learners.skrl.env import FlatEnv, GroupEnv, as_vectors

if TYPE_CHECKING:
    from isaaclab_pc.learners.batch import BatchPlan

__all__ = ["ADAPTER", "SkrlAdapter", "SkrlRunner"]

_ACTING = ("model", "observation_preprocessor", "state_preprocessor", "value_preprocessor")
"""Modules of a checkpoint that acting needs, by name; skrl's own models may read any of the normalizers."""


# It warns of what Isaac Lab's own configurations hold, where nobody can change it.
logging.getLogger("skrl").setLevel(logging.ERROR)


class SkrlAdapter:
    """Adapter of skrl. See :class:`~isaaclab_pc.learners.common.interface.Adapter` for the methods."""

    name = "skrl"
    learning_rate_key = "agent.agent.learning_rate"

    def batch_target(self, agent_cfg: Mapping[str, Any]) -> tuple[int, int]:
        """Return the samples per update and the minibatch size that the configuration asks for."""
        agent = agent_cfg["agent"]
        if agent["class"].lower() != "ppo":
            asked = f"this task's skrl agent is {agent['class']}"
            raise ConfigError(f"runner=skrl trains with PPO, and {asked}: give runner=rsl_rl.")

        # Tasks of other packages say no samples_per_update: keep what they learn from with their usual environments.
        samples = agent_cfg.get("samples_per_update", agent["rollouts"] * USUAL_NUM_ENVS)
        return samples, max(1, samples // agent["mini_batches"])

    def configure(
        self,
        agent_cfg: dict[str, Any],
        *,
        obs: str | None,
        seed: int,
        max_iterations: int | None,
        device: str,
        plan: "BatchPlan | None",
        experiment: str,
        replay_samples: int | None = None,
        teacher: TeacherPolicy | None = None,
        init: Path | None = None,
    ) -> None:
        """Write a run's settings into the configuration."""
        agent = agent_cfg["agent"]
        iterations = max_iterations if max_iterations is not None else self.max_iterations(agent_cfg)
        agent_cfg["seed"] = seed
        agent["experiment"]["directory"] = experiment

        if obs is not None and read_groups(agent_cfg) is not None:
            agent_cfg["models"]["policy"]["actor"] = policy_groups(obs)
        if plan is not None:
            agent["rollouts"] = plan.horizon
            agent["mini_batches"] = plan.num_minibatches
        agent_cfg["trainer"]["timesteps"] = iterations * agent["rollouts"]

    def replay_samples(self, agent_cfg: Mapping[str, Any]) -> int:
        """Return 0: PPO keeps none."""
        return 0

    def max_iterations(self, agent_cfg: Mapping[str, Any]) -> int:
        """Return the iterations of a whole run."""
        return max(1, agent_cfg["trainer"]["timesteps"] // agent_cfg["agent"]["rollouts"])

    def make(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> "SkrlRunner":
        """Build a runner around an environment."""
        return SkrlRunner(env, agent_cfg, run_dir, device)


ADAPTER: Adapter = SkrlAdapter()
"""The adapter that :func:`isaaclab_pc.learners.load_adapter` returns."""


class SkrlRunner(CheckpointedRunner):
    """skrl's PPO. Implements :class:`~isaaclab_pc.learners.common.interface.Runner`."""

    def __init__(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> None:
        """Build networks and optimizer; the memory is made when training begins.

        Args:
            env: The gym environment.
            agent_cfg: The configuration; it is left as it is.
            run_dir: Where the logs go.
            device: Where the networks live.
        """
        self.completed_iterations = 0
        self._device = device
        self._run_dir = run_dir
        cfg = copy.deepcopy(dict(agent_cfg))
        groups = read_groups(cfg)
        self._env = FlatEnv(env) if groups is None else GroupEnv(env, *groups)
        self._env_clock = EnvClock()
        self._agent = build_agent(self._env, cfg, run_dir, device)

        model = self._agent.policy
        self._policy = _Policy(model) if isinstance(model, HasPolicy) else _StockPolicy(self._agent, self._env)

        shapes = {**_shapes("states", self._env.state_space), **_shapes("observations", self._env.observation_space)}
        self._identity = checkpoint_identity(ADAPTER.name, shapes, self._agent.policy.num_actions)

    def train(self, max_iterations: int, on_iteration: OnIteration) -> None:
        """Train; see :meth:`~isaaclab_pc.learners.common.interface.Runner.train`."""
        if max_iterations <= self.completed_iterations:
            return

        self._agent.begin()
        with SummaryWriter(str(self._run_dir)) if world_rank() == 0 else contextlib.nullcontext() as writer:
            observations, _ = self._env.reset()
            random_first_lengths(self._env)
            states = self._env.state()

            while self.completed_iterations < max_iterations:
                started = time.perf_counter()
                observations, states = self._collect_and_learn(observations, states)
                metrics = self._measure(time.perf_counter() - started)
                self.completed_iterations += 1
                if writer is not None:
                    write_metrics(writer, metrics, self.completed_iterations)
                if on_iteration(self.completed_iterations, metrics) is Decision.STOP:
                    break

    def _collect_and_learn(self, observations: Any, states: Any) -> tuple[Any, Any]:
        """Collect steps; skrl's agent updates the policy after the last one. Return the next observations."""
        agent = self._agent
        steps = agent.horizon
        for step in range(steps):
            time_of_step = {"timestep": step, "timesteps": steps}
            agent.pre_interaction(**time_of_step)
            with torch.no_grad():
                actions, _ = agent.act(observations, states, **time_of_step)
                with self._env_clock:
                    next_observations, rewards, terminated, truncated, infos = self._env.step(actions)
                    next_states = self._env.state()
                agent.record_transition(
                    observations=observations,
                    states=states,
                    actions=actions,
                    rewards=rewards,
                    next_observations=next_observations,
                    next_states=next_states,
                    terminated=terminated,
                    truncated=truncated,
                    infos=infos,
                    **time_of_step,
                )
            agent.post_interaction(**time_of_step)
            observations, states = next_observations, next_states
        return observations, states

    def _measure(self, elapsed_s: float) -> dict[str, float]:
        """Return the metrics of an iteration."""
        agent = self._agent
        return iteration_metrics(
            {**agent.env_log.take_means(), **agent.end_iteration()},
            agent.episodes,
            env_s=self._env_clock.take(),
            collect_s=elapsed_s - agent.learn_s,
            learn_s=agent.learn_s,
            env_steps=agent.horizon * self._env.num_envs,
            of_update=agent.take_metrics(),
            device=self._device,
        )

    def policy(self) -> nn.Module:
        """Return the deterministic policy; see :meth:`~isaaclab_pc.learners.common.interface.Runner.policy`."""
        return self._policy

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute deterministic actions; see :meth:`~isaaclab_pc.learners.common.interface.Runner.act`."""
        with torch.no_grad():
            return self._policy({name: value.to(self._device) for name, value in obs.items()})

    def holders(self) -> Mapping[str, Any]:
        """Return what holds tensors; see :meth:`~isaaclab_pc.learners.common.interface.Runner.holders`."""
        agent = self._agent
        return {
            "rollout storage": agent.memory.tensors,
            "network weights": agent.networks(),
            "optimizer": [optimizer.state for optimizer in agent.optimizers()],
        }

    def _library_state(self) -> dict[str, Any]:
        return {"algorithm": {name: part.state_dict() for name, part in self._parts().items()}}

    def _restore_library(self, state: Mapping[str, Any]) -> None:
        for name, part in self._parts().items():
            # A run that only now goes on with mixed precision begins with a new scale.
            if name != "scaler" or name in state["algorithm"]:
                part.load_state_dict(state["algorithm"][name])

    def _networks(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts().items() if isinstance(part, nn.Module)}

    def _acting_modules(self) -> dict[str, nn.Module]:
        return {name: part for name, part in self._parts().items() if name in _ACTING}

    def _parts(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the agent, by name; ``model`` is the policy."""
        return {"model" if name == "policy" else name: part for name, part in self._agent.checkpoint_modules.items()}


class _Policy(nn.Module):
    """A model of this package's without its critic and its sampling."""

    def __init__(self, model: Any) -> None:
        """Share the agent's model.

        Args:
            model: The agent's, which keeps :class:`~isaaclab_pc.learners.common.policy_protocols.HasPolicy`.
        """
        super().__init__()
        self.model = model

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute actions, shape (N, A), of observation groups by name."""
        return self.model.policy(obs)


class _StockPolicy(nn.Module):
    """A model of skrl's own without its sampling, and with what the agent does to what it reads."""

    def __init__(self, agent: PpoAgent, env: FlatEnv) -> None:
        """Share the agent's model and its normalizers.

        Args:
            agent: The agent.
            env: The environment, which knows the spaces of what the model reads.
        """
        super().__init__()
        # Modules and spaces only: whoever exports the policy copies it, and can copy no agent and no environment.
        self.model = agent.policy
        self.observation_preprocessor = agent.checkpoint_modules.get("observation_preprocessor", nn.Identity())
        self.state_preprocessor = agent.checkpoint_modules.get("state_preprocessor", nn.Identity())
        self.observation_space = env.observation_space
        self.state_space = env.state_space

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Compute the most likely actions, shape (N, A), of observation groups by name."""
        observations = as_vectors(self.observation_space, obs["policy"])
        states = as_vectors(self.state_space, obs.get("critic"))
        inputs = {
            "observations": self.observation_preprocessor(observations),
            "states": self.state_preprocessor(states),
        }
        actions, outputs = self.model.act(inputs, role="policy")
        return outputs.get("mean_actions", actions)


def _shapes(name: str, space: Any) -> dict[str, Any]:
    """Return the shape of each group of a space; one that is no dictionary is one group."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {group: own.shape for group, own in space.items()}
    return {} if space is None else {name: space.shape}
