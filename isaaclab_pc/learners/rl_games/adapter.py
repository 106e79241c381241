# SPDX-License-Identifier: BSD-3-Clause
"""RL-Games as a learning library of this package.

:mod:`isaaclab_pc.learners.rl_games.agent` changes its training loop.
"""

import contextlib
import copy
import io
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, override

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from isaaclab_pc.agents.networks import State, forget
from isaaclab_pc.agents.observation_groups import policy_groups
from isaaclab_pc.learners.common.interface import Adapter, AfterIteration, LearnerOptions, Runner, checkpoint_identity
from isaaclab_pc.learners.common.policy_protocols import ActsFromState, HasPolicy
from isaaclab_pc.learners.common.shared import USUAL_NUM_ENVS, StopTraining, log_writer
from isaaclab_pc.utils.packages import is_installed

if not is_installed("gym"):
    # isaaclab_rl asks for the package that gymnasium replaced; it uses the spaces only, which are the same.
    sys.modules["gym"] = gymnasium
    sys.modules["gym.spaces"] = gymnasium.spaces

from isaaclab_rl.rl_games import RlGamesVecEnvWrapper
from rl_games.common.a2c_common import rescale_actions
from rl_games.common.ivecenv import IVecEnv
from rl_games.common.tr_helpers import DefaultRewardsShaper

from isaaclab_pc.learners.rl_games.agent import Agent, LogObserver


class RlGamesRunner(Runner):
    """RL-Games' PPO."""

    def __init__(self, env: Any, agent_cfg: Mapping[str, Any], run_dir: Path, device: str) -> None:
        """Build networks and storage; the network must be registered with RL-Games."""
        super().__init__(run_dir, device)
        params = copy.deepcopy(agent_cfg["params"])
        config = params["config"]
        config.update(device=device, device_name=device)
        vec_env = env if isinstance(env, IVecEnv) else RlGamesVecEnvWrapper.from_agent_cfg(env, {"params": params})

        # RL-Games makes folders and opens its log at once and prints, also for a policy that only plays.
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as scratch:
            config.update(_library_settings(vec_env, config, scratch))
            self._agent = Agent("run", params)
            self._agent.writer.close()
        self._env = self._agent.vec_env

        space = self._agent.observation_space
        concatenate = not isinstance(space, gymnasium.spaces.Dict)
        groups = list((params["env"].get("obs_groups") or {"obs": ["policy"]})["obs"])
        shapes = {"obs": space.shape} if concatenate else {name: space[name].shape for name in groups}
        self._identity = checkpoint_identity(ADAPTER.name, shapes, self._agent.actions_num)
        kind = _Policy
        if self._agent.is_rnn:
            of_ours = isinstance(self._agent.model.a2c_network, ActsFromState)
            kind = _RecurrentPolicy if of_ours else _StockRecurrentPolicy
        self._policy = kind(self._agent, groups, concatenate, params["env"]).eval()
        self._memory = self._policy if self._agent.is_rnn else None

    @override
    def _train(self, max_iterations: int, after_iteration: AfterIteration) -> None:
        with log_writer(self._run_dir) as writer, contextlib.suppress(StopTraining):
            self._agent.begin(self.completed_iterations, writer, after_iteration)
            self._agent.train()

    @override
    def policy(self) -> nn.Module:
        return self._policy.eval()

    @override
    def holders(self) -> Mapping[str, Any]:
        # RL-Games makes the buffers of a rollout when training begins.
        buffer = getattr(self._agent, "experience_buffer", None)
        memory = getattr(self._agent, "mb_rnn_states", [])
        return {
            "rollout storage": [{} if buffer is None else vars(buffer), vars(self._agent.dataset), memory],
            "network weights": self._agent.model,
            "optimizer": self._agent.optimizer.state,
        }

    @override
    def _library_state(self) -> dict[str, Any]:
        return {"algorithm": self._agent.get_full_state_weights()}

    @override
    def _restore_library(self, state: Mapping[str, Any]) -> None:
        self._agent.set_full_state_weights(state["algorithm"])
        # RL-Games saves the optimizer's learning rate, but resumes with the configured one.
        self._agent.last_lr = self._agent.optimizer.param_groups[0]["lr"]

    @override
    def _acting_modules(self) -> dict[str, nn.Module]:
        return {"model": self._agent.model}


class RlGamesAdapter(Adapter):
    """Adapter of RL-Games."""

    name = "rl_games"
    make = RlGamesRunner
    learning_rate_key = "agent.params.config.learning_rate"

    @override
    def batch_target(self, agent_cfg: Mapping[str, Any]) -> tuple[int, int]:
        config = agent_cfg["params"]["config"]
        if "samples_per_update" in config:
            samples = config["samples_per_update"]
            return samples, max(1, samples // config["num_minibatches"])

        # A task of another package: the samples of its usual environments.
        usual_minibatch = config.get("minibatch_size_per_env", 1) * USUAL_NUM_ENVS
        return config["horizon_length"] * USUAL_NUM_ENVS, config.get("minibatch_size", usual_minibatch)

    @override
    def configure(self, agent_cfg: dict[str, Any], options: LearnerOptions) -> None:
        params = agent_cfg["params"]
        config = params["config"]
        network = params["network"]
        params["seed"] = options.seed
        config.update(device=options.device, device_name=options.device)

        # RL-Games' own networks read one vector, whatever its groups.
        if options.obs is not None and "actor" in network:
            network["actor"] = policy_groups(options.obs)
            params["env"]["obs_groups"] = {"obs": [*network["actor"], *network["critic"]], "states": []}
        if options.max_iterations is not None:
            config["max_epochs"] = options.max_iterations
        if options.plan is not None:
            config["horizon_length"] = options.plan.horizon
            config["minibatch_size"] = options.plan.minibatch_size
            if config.get("central_value_config") is not None:
                config["central_value_config"]["minibatch_size"] = options.plan.minibatch_size
            if network.get("rnn_type") is not None:
                config["seq_length"] = options.plan.horizon

    @override
    def max_iterations(self, agent_cfg: Mapping[str, Any]) -> int:
        return agent_cfg["params"]["config"]["max_epochs"]


ADAPTER: Adapter = RlGamesAdapter()


class _Policy(nn.Module):
    """RL-Games' model without critic and sampling, which scales and clips as in training."""

    def __init__(self, agent: Agent, groups: Sequence[str], concatenate: bool, clipping: Mapping[str, Any]) -> None:
        """Share the agent's model; ``clipping`` is the configuration's ``env`` section."""
        super().__init__()
        self.model = agent.model
        network = self.model.a2c_network
        self.groups = list(network.actor_groups) if isinstance(network, HasPolicy) else list(groups)
        self.concatenate = concatenate
        self.clips = agent.clip_actions
        self.largest_observation = float(clipping.get("clip_observations", math.inf))
        self.largest_action = float(clipping.get("clip_actions", math.inf))
        self.register_buffer("low", agent.actions_low)
        self.register_buffer("high", agent.actions_high)

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        batch = self._batch(obs)
        network = self.model.a2c_network
        if isinstance(network, HasPolicy):
            return self._actions(network.policy(batch))
        return self._actions(network({"is_train": False, "prev_actions": None, "obs": batch, "rnn_states": None})[0])

    def _batch(self, obs: Mapping[str, Tensor]) -> Any:
        batch: Any = {name: _clipped(obs[name], self.largest_observation) for name in self.groups}
        if self.concatenate:
            batch = torch.cat(list(batch.values()), dim=-1)
        return self.model.norm_obs(batch)

    def _actions(self, mean: Tensor) -> Tensor:
        actions = rescale_actions(self.low, self.high, mean.clamp(-1.0, 1.0)) if self.clips else mean
        return _clipped(actions, self.largest_action)


class _RecurrentPolicy(_Policy):
    """The same with a memory; see :class:`~isaaclab_pc.learners.common.policy_protocols.ActsFromState`."""

    def initial_state(self, batch: int) -> State:
        return self.model.a2c_network.initial_state(batch)

    def act_from(self, obs: Mapping[str, Tensor], state: State) -> tuple[Tensor, State]:
        mean, after = self.model.a2c_network.act_from(self._batch(obs), state)
        return self._actions(mean), after

    def reset(self, dones: Tensor | None = None) -> None:
        self.model.a2c_network.reset(dones)


class _StockRecurrentPolicy(_Policy):
    """The same with a recurrent network of RL-Games' own, which is given its memory and returns it."""

    _state: State | None = None

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        batch = self._batch(obs)
        if self._state is None:
            # RL-Games' own are of as many environments as it trains with, and on the CPU.
            first = obs[self.groups[0]]
            layers = [(state.shape[0], state.shape[2]) for state in self.model.get_default_rnn_state()]
            self._state = tuple(torch.zeros(count, len(first), size, device=first.device) for count, size in layers)

        given = {"is_train": False, "prev_actions": None, "obs": batch, "rnn_states": self._state}
        mean, _, _, self._state = self.model.a2c_network(given)
        return self._actions(mean)

    def reset(self, dones: Tensor | None = None) -> None:
        self._state = forget(self._state, dones)


def _clipped(values: Tensor, largest: float) -> Tensor:
    """Return values in [-largest, largest], as floats."""
    # The wrapper's clipping makes floats of integers even without a limit; what is exported holds no needless step.
    values = values if values.is_floating_point() else values.float()
    return values if math.isinf(largest) else values.clamp(-largest, largest)


def _library_settings(vec_env: IVecEnv, config: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings that RL-Games' own entry point would add, and those that turn off its files."""
    return {
        "vec_env": vec_env,
        "env_info": _env_info(vec_env),
        "num_actors": vec_env.num_envs,  # type: ignore[attr-defined]
        "reward_shaper": DefaultRewardsShaper(**config["reward_shaper"]),
        "features": {"observer": LogObserver()},
        "train_dir": folder,
        "full_experiment_name": ".",
        "print_stats": False,
        # Our callback writes the checkpoints.
        "save_frequency": 0,
        "save_best_after": sys.maxsize,
    }


def _env_info(vec_env: IVecEnv) -> dict[str, Any]:
    """Return the spaces, with the types of the observation groups: Isaac Lab's wrapper says float32 of all of them."""
    info: Any = vec_env.get_env_info()
    groups = info["observation_space"]
    if isinstance(groups, gymnasium.spaces.Dict):
        own = vec_env.unwrapped.single_observation_space  # type: ignore[attr-defined]
        # Its clipping makes floats of integers.
        kept = {name: own[name] if np.issubdtype(own[name].dtype, np.floating) else groups[name] for name in groups}
        info["observation_space"] = gymnasium.spaces.Dict(kept)
    return info
