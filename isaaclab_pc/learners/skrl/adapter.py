# SPDX-License-Identifier: BSD-3-Clause
"""skrl as a learning library of this package.

:mod:`isaaclab_pc.learners.skrl.agent` changes its PPO, and :mod:`isaaclab_pc.learners.skrl.env` its environments.
"""

import copy
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, override

import gymnasium
import torch
from torch import Tensor, nn

from isaaclab_pc.agents.observation_groups import policy_groups
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners.common.interface import Adapter, AfterIteration, LearnerOptions, Runner, checkpoint_identity
from isaaclab_pc.learners.common.iteration_metrics import EnvClock, iteration_metrics, write_metrics
from isaaclab_pc.learners.common.policy_protocols import HasPolicy
from isaaclab_pc.learners.common.shared import USUAL_NUM_ENVS, log_writer, random_first_lengths

if "WORLD_SIZE" in os.environ:
    # skrl would make a process group of its own while it is imported, with NCCL.
    _world_size = os.environ.pop("WORLD_SIZE")
    import skrl as _skrl  # noqa: F401  # pyright: ignore[reportUnusedImport]

    os.environ["WORLD_SIZE"] = _world_size

from isaaclab_pc.learners.skrl.agent import PpoAgent, build_agent, read_groups
from isaaclab_pc.learners.skrl.env import FlatEnv, GroupEnv, as_vectors

_ACTING = ("model", "observation_preprocessor", "state_preprocessor", "value_preprocessor")
"""Modules of a checkpoint that acting needs, by name; skrl's own models may read any of the normalizers."""


# It warns of what Isaac Lab's own configurations hold, where nobody can change it.
logging.getLogger("skrl").setLevel(logging.ERROR)


class SkrlRunner(Runner):
    """skrl's PPO."""

    def __init__(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> None:
        """Build networks and optimizer; the memory is made when training begins.

        See :meth:`~isaaclab_pc.learners.Adapter.make`.
        """
        super().__init__(run_dir, device)
        cfg = copy.deepcopy(dict(agent_cfg))
        groups = read_groups(cfg)
        self._env = FlatEnv(env) if groups is None else GroupEnv(env, *groups)
        self._env_clock = EnvClock()
        self._agent = build_agent(self._env, cfg, run_dir, device)

        model = self._agent.policy
        self._policy = _Policy(model) if isinstance(model, HasPolicy) else _StockPolicy(self._agent, self._env)

        shapes = {**_shapes("states", self._env.state_space), **_shapes("observations", self._env.observation_space)}
        self._identity = checkpoint_identity(ADAPTER.name, shapes, self._agent.policy.num_actions)

    @override
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        self._agent.begin()
        with log_writer(self._run_dir) as writer:
            observations, _ = self._env.reset()
            random_first_lengths(self._env)
            states = self._env.state()

            is_last = False
            while not is_last:
                started = time.perf_counter()
                observations, states = self._collect_and_learn(observations, states)
                metrics = self._measure(time.perf_counter() - started)
                write_metrics(writer, metrics, self.completed_iterations + 1)
                is_last = after_iteration(metrics)

    def _collect_and_learn(self, observations: Any, states: Any) -> tuple[Any, Any]:
        """Collect steps, of which the last one updates the policy, and return the next observations."""
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
        agent = self._agent
        return iteration_metrics(
            {**agent.env_log.take_means(), **agent.tripwire.end_iteration()},
            *agent.episodes.means(),
            env_s=self._env_clock.take(),
            collect_s=elapsed_s - agent.learn_s,
            learn_s=agent.learn_s,
            env_steps=agent.horizon * self._env.num_envs,
            of_update=agent.take_metrics(),
            device=self._device,
        )

    @override
    def holders(self) -> Mapping[str, Any]:
        agent = self._agent
        return {
            "rollout storage": agent.memory.tensors,
            "network weights": agent.networks(),
            "optimizer": agent.optimizer.state,
        }

    @override
    def _library_state(self) -> dict[str, Any]:
        return {"algorithm": {name: part.state_dict() for name, part in self._parts().items()}}

    @override
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        for name, part in self._parts().items():
            # A run that resumes with mixed precision for the first time begins with a new scale.
            if name != "scaler" or name in state["algorithm"]:
                part.load_state_dict(state["algorithm"][name])

    @override
    def _networks(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts().items() if isinstance(part, nn.Module)}

    @override
    def _acting_modules(self) -> dict[str, nn.Module]:
        return {name: part for name, part in self._parts().items() if name in _ACTING}

    def _parts(self) -> dict[str, Any]:
        """Return the parts of the agent that a checkpoint holds, by name; ``model`` is the policy."""
        return {"model" if name == "policy" else name: part for name, part in self._agent.checkpoint_modules.items()}


class SkrlAdapter(Adapter):
    """Adapter of skrl."""

    name = "skrl"
    make = SkrlRunner
    learning_rate_key = "agent.agent.learning_rate"

    @override
    def batch_target(self, agent_cfg: Mapping[str, Any]) -> tuple[int, int]:
        agent = agent_cfg["agent"]
        if agent["class"].lower() != "ppo":
            asked = f"this task's skrl agent is {agent['class']}"
            raise ConfigError(f"runner=skrl trains with PPO, and {asked}: give runner=rsl_rl.")

        # A task of another package: the samples of its usual environments.
        samples = agent_cfg.get("samples_per_update", agent["rollouts"] * USUAL_NUM_ENVS)
        return samples, max(1, samples // agent["mini_batches"])

    @override
    def configure(self, agent_cfg: dict[str, Any], options: LearnerOptions) -> None:
        agent = agent_cfg["agent"]
        iterations = options.max_iterations or self.max_iterations(agent_cfg)
        agent_cfg["seed"] = options.seed

        if options.obs is not None and read_groups(agent_cfg) is not None:
            agent_cfg["models"]["policy"]["actor"] = policy_groups(options.obs)
        if options.plan is not None:
            agent["rollouts"] = options.plan.horizon
            agent["mini_batches"] = options.plan.num_minibatches
        agent_cfg["trainer"]["timesteps"] = iterations * agent["rollouts"]

    @override
    def max_iterations(self, agent_cfg: Mapping[str, Any]) -> int:
        return max(1, agent_cfg["trainer"]["timesteps"] // agent_cfg["agent"]["rollouts"])


ADAPTER: Adapter = SkrlAdapter()


class _Policy(nn.Module):
    """A model of this package without its critic and sampling."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        return self.model.policy(obs)


class _StockPolicy(nn.Module):
    """A model of skrl's own without its sampling, and with the agent's normalizers."""

    def __init__(self, agent: PpoAgent, env: FlatEnv) -> None:
        super().__init__()
        # Modules and spaces only: export copies the policy, and can copy no agent and no environment.
        self.model = agent.policy
        self.observation_preprocessor = agent.checkpoint_modules.get("observation_preprocessor", nn.Identity())
        self.state_preprocessor = agent.checkpoint_modules.get("state_preprocessor", nn.Identity())
        self.observation_space = env.observation_space
        self.state_space = env.state_space

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        observations = as_vectors(self.observation_space, obs["policy"])
        states = as_vectors(self.state_space, obs.get("critic"))
        inputs = {
            "observations": self.observation_preprocessor(observations),
            "states": self.state_preprocessor(states),
        }
        actions, outputs = self.model.act(inputs, role="policy")
        return outputs.get("mean_actions", actions)


def _shapes(name: str, space: Any) -> dict[str, Any]:
    if isinstance(space, gymnasium.spaces.Dict):
        return {group: own.shape for group, own in space.items()}
    return {} if space is None else {name: space.shape}
