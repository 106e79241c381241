# SPDX-License-Identifier: BSD-3-Clause
"""skrl's PPO, built from skrl's own kind of configuration, with the changes that make hyperparameters mean the same.

- The memory keeps each observation group by itself, in the environment's own type: clouds stay float16. A minibatch is
  copied out of it when its turn comes, so the rollout is held once.
- An episode that ran out of time goes on with the value of its last observation. skrl would take the first observation
  of the next episode, as Isaac Lab has reset the environment by then.
- The gradients of actor and critic are clipped apart, where the model says which parameters belong to which.
- Processes that train together share gradients, KL divergence and weights here. skrl's own way, which stays off,
  insists on NCCL.

One difference stays: skrl's loss of a value that left the clipping range has no gradient, even back into the range.
"""

import pkgutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import Wrapper
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.utils.runner.torch import Runner
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.learners.common.iteration_metrics import EpisodeStats, IterationLog
from isaaclab_pc.learners.common.policy_protocols import scale_own_losses
from isaaclab_pc.learners.common.shared import clip_gradients, tensor_cores
from isaaclab_pc.learners.common.tripwire import Tripwire
from isaaclab_pc.tensors.distributed import average_gradients, average_number, broadcast_module, world_size


class GroupMemory(RandomMemory):
    """Rollout storage for observations that are dictionaries of groups."""

    def __init__(self, **kwargs: Any) -> None:
        """Start without tensors."""
        super().__init__(**kwargs)
        self._groups: dict[str, list[str]] = {}

    def create_tensor(self, name: str, *, size: Any, dtype: Any = None, keep_dimensions: bool = False) -> bool:
        """Create a tensor, or one for each group of a dictionary, with the shape and type of its space."""
        if not isinstance(size, gymnasium.spaces.Dict):
            return super().create_tensor(name, size=size, dtype=dtype, keep_dimensions=keep_dimensions)

        self._groups[name] = list(size)
        for group, space in size.items():
            shape = list(space.shape or ())
            super().create_tensor(
                f"{name}/{group}", size=shape, dtype=getattr(torch, str(space.dtype)), keep_dimensions=True
            )
        return True

    def add_samples(self, **tensors: Any) -> None:
        """Add a step of all environments."""
        groups = {f"{name}/{key}": value for name in self._groups for key, value in tensors.pop(name).items()}
        # skrl takes the number of environments from the first one, which must have two dimensions.
        super().add_samples(**tensors, **groups)

    def sample(  # type: ignore[override]
        self, names: list[str], *, batch_size: int, mini_batches: int = 1, sequence_length: int = 1
    ) -> Iterator[list[Any]]:
        """Yield random minibatches that together hold each sample once; skrl would copy all of them at once."""
        order = torch.randperm(batch_size, device=self.device)
        for rows in order.tensor_split(mini_batches):
            yield [self._rows_of(name, rows) for name in names]

    def _rows_of(self, name: str, rows: Tensor) -> Any:
        if name in self._groups:
            return {group: self.tensors_view[f"{name}/{group}"].index_select(0, rows) for group in self._groups[name]}
        return self.tensors_view[name].index_select(0, rows) if name in self.tensors_view else None


class _PolicySchedule(KLAdaptiveLR):
    """skrl's adaptive learning rate, for processes that train together."""

    def step(self, kl: Any = None, *, epoch: int | None = None) -> None:
        super().step(None if kl is None else average_number(float(kl)), epoch=epoch)


class PpoAgent(PPO):
    """skrl's PPO, which measures itself here and writes no files."""

    cfg: Any
    memory: Any
    policy: Any
    scheduler: Any
    _current_values: Any

    def __init__(self, *, num_envs: int, horizon: int, is_finite_horizon: bool, **kwargs: Any) -> None:
        """Build optimizer and normalizers, from skrl's arguments besides.

        ``horizon`` are the steps of each environment in an iteration; ``is_finite_horizon`` is Isaac Lab's setting:
        whether an episode is worth nothing once its time is up.

        Raises:
            ConfigError: Updates would end at different times in several processes.
        """
        super().__init__(**kwargs)
        if self.cfg.kl_threshold and world_size() > 1:
            raise ConfigError(
                "agent.agent.kl_threshold ends updates at different times in several processes: set gpus=1."
            )
        self.horizon = horizon
        if self.value is self.policy:
            del self.checkpoint_modules["value"]

        # Done here, each in another way: see the module's text.
        self._max_grad_norm = self.cfg.grad_norm_clip
        self._shape_rewards: Callable[..., Tensor] = self.cfg.rewards_shaper or (lambda rewards, *_: rewards)
        self._bootstrap = self.cfg.discount_factor if self.cfg.time_limit_bootstrap and not is_finite_horizon else 0.0
        self.cfg.grad_norm_clip = 0.0
        self.cfg.rewards_shaper = None
        self.cfg.time_limit_bootstrap = False

        self.scaler = _Scaler(self._clip_gradients, self._device_type, self.cfg.mixed_precision)
        if self.cfg.mixed_precision:
            self.checkpoint_modules["scaler"] = self.scaler
        scale_own_losses(self.policy, lambda loss: self.scaler.scale(loss))

        self.env_log = IterationLog()
        self.episodes = EpisodeStats(num_envs, self.device)
        self.learn_s = 0.0
        self.tripwire = Tripwire(self.optimizer, self.networks())
        self.act = tensor_cores()(self.act)

    def begin(self) -> None:
        """Make the memory, and forget what an earlier training has left unfinished."""
        if not self.memory.tensors:
            self.init()
        self.memory.reset()
        self.episodes.forget_running()
        self.enable_training_mode(True)
        for network in self.networks():
            broadcast_module(network)
        # A checkpoint may have been loaded since the last training.
        self.tripwire.keep_buffers()

    def networks(self) -> list[nn.Module]:
        """Return the models and, where they are configured, skrl's own normalizers."""
        return [module for module in self.checkpoint_modules.values() if isinstance(module, nn.Module)]

    def record_transition(self, *, rewards: Tensor, terminated: Tensor, truncated: Tensor, **transition: Any) -> None:
        """Keep a step of all environments, and their log."""
        ended = terminated | truncated
        self.env_log.add_extras(transition["infos"])
        self.episodes.add(rewards.squeeze(-1), ended.squeeze(-1))

        shaped = self._shape_rewards(rewards, transition["timestep"], transition["timesteps"])
        super().record_transition(
            rewards=shaped + self._bootstrap * self._current_values * truncated,
            terminated=ended,
            truncated=torch.zeros_like(truncated),
            **transition,
        )

    @tensor_cores()
    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn from a rollout."""
        started = time.perf_counter()
        # The rollout has put counted samples to use: restore nothing older than that.
        self.tripwire.keep_buffers()
        super().update(timestep=timestep, timesteps=timesteps)
        self.learn_s = time.perf_counter() - started

    def take_metrics(self) -> dict[str, float]:
        """Return what the last update measured."""
        tracked = {key: float(values[-1]) for key, values in self.tracking_data.items()}
        self.tracking_data.clear()
        return {
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            "action_std": tracked["Policy / Standard deviation"],
            "loss/value": tracked["Loss / Value loss"] / (self.cfg.value_loss_scale or 1.0),
            "loss/surrogate": tracked["Loss / Policy loss"],
            "loss/entropy": float(self.policy.get_entropy(role="policy").detach().mean()),
        }

    def _clip_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self._max_grad_norm > 0.0:
            (group,) = optimizer.param_groups
            clip_gradients(self.policy, group["params"], self._max_grad_norm)


class _Scaler(GradScaler):
    """The scaler of mixed precision, through which skrl takes every step: here with all processes, clipped."""

    def __init__(self, prepare: Callable[[torch.optim.Optimizer], None], device: str, enabled: bool) -> None:
        super().__init__(device, enabled=enabled)
        self._prepare = prepare

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        average_gradients(parameter for group in optimizer.param_groups for parameter in group["params"])
        self.unscale_(optimizer)
        self._prepare(optimizer)
        return super().step(optimizer, *args, **kwargs)


_COMPONENTS = {"KLAdaptiveLR": _PolicySchedule, "RunningStandardScaler": RunningStandardScaler}
"""Components by name, in place of text that skrl would evaluate as code."""

_NAMED = ("learning_rate_scheduler", "observation_preprocessor", "state_preprocessor", "value_preprocessor")


def read_groups(cfg: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the observation groups that actor and critic read; None for the models of skrl's own configurations."""
    policy = cfg["models"]["policy"]
    return (policy["actor"], policy["critic"]) if "actor" in policy else None


def build_agent(env: Wrapper, cfg: Mapping[str, Any], run_dir: Path, device: str) -> PpoAgent:
    """Build models and agent, which makes its memory in ``init``; nothing is written to ``run_dir``."""
    components = _Components(env, cfg)
    spaces = {name: getattr(env, name) for name in ("observation_space", "state_space", "action_space")}
    agent_cfg = components.agent_cfg(run_dir)
    for name, size in (("observation", env.observation_space), ("state", env.state_space), ("value", 1)):
        getattr(agent_cfg, f"{name}_preprocessor_kwargs").update(size=size, device=device)
    return PpoAgent(
        cfg=agent_cfg,
        models=components.models(spaces, device),
        memory=GroupMemory(memory_size=agent_cfg.rollouts, num_envs=env.num_envs, device=device),
        device=device,
        num_envs=env.num_envs,
        horizon=agent_cfg.rollouts,
        is_finite_horizon=getattr(env.cfg, "is_finite_horizon", False),
        **spaces,
    )


class _Components(Runner):
    """skrl's runner, for what it knows of configurations; its ``__init__`` would also seed every random generator."""

    def __init__(self, env: Wrapper, cfg: Mapping[str, Any]) -> None:
        self._env = env
        self._verbose = False
        self._cfg = self._check_cfg_compatibility(dict(cfg))

    def agent_cfg(self, run_dir: Path) -> PPO_CFG:
        settings = self._process_cfg(self._cfg["agent"])
        scale = settings.pop("rewards_shaper_scale", None)
        if scale not in (None, 1.0):
            settings["rewards_shaper"] = lambda rewards, *_: rewards * scale
        nothing = {"experiment_name": ".", "write_interval": 0, "checkpoint_interval": 0}
        return PPO_CFG(**{**settings, "experiment": {"directory": str(run_dir), **nothing}})

    def models(self, spaces: Mapping[str, Any], device: str) -> dict[str, Any]:
        if read_groups(self._cfg) is None:
            return self._generate_models(self._env, self._cfg)["agent"]

        settings = dict(self._cfg["models"]["policy"])
        model = pkgutil.resolve_name(settings.pop("class"))(**spaces, device=device, **settings)
        return {"policy": model, "value": model}

    def _process_cfg(self, cfg: Mapping[str, Any]) -> dict[str, Any]:
        """Return a section with components in the place of their names, which skrl's own method evaluates as code."""
        processed = {key: value for key, value in cfg.items() if key != "class"}
        for key, value in processed.items():
            if key.endswith("_kwargs"):
                processed[key] = dict(value or {})
            elif key in _NAMED and value is not None:
                if value not in _COMPONENTS:
                    raise ConfigError(f"agent.agent.{key}={value} is unknown: {closest(str(value), _COMPONENTS)}")
                processed[key] = _COMPONENTS[value]
        return processed
