# SPDX-License-Identifier: BSD-3-Clause
"""What a learning library takes of memory, from its real networks and an environment that only has shapes."""

from __future__ import annotations

import copy
import math
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch
from isaaclab.envs import DirectRLEnv
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from isaaclab_pc.runners import Decision
from isaaclab_pc.scaling.batch import BatchPlan
from isaaclab_pc.scaling.trial import Spaces
from isaaclab_pc.tensor_bytes import tensor_bytes

__all__ = ["LearnerMemory", "MemoryPeak", "RunConfigs", "StandIn", "learner_memory"]

_FEW_SAMPLES = BatchPlan(horizon=4, num_minibatches=1, minibatch_size=8)
"""The rollout that the stand-in gives; few samples, as they pass the real networks."""


class RunConfigs(Protocol):
    """What a prediction reads of a run whose configs are resolved."""

    env_cfg: Any
    """The task's config, every setting applied."""
    agent_cfg: Any
    """The learning library's config, every setting applied."""
    adapter: Any
    """The learning library's adapter, a module of :mod:`isaaclab_pc.runners`."""
    plan: BatchPlan
    """Horizon and minibatches of an update."""
    device: str
    """Device that will run it: ``cpu`` or ``cuda:N``."""
    fault_dumps: int
    """Files of failures that are kept; 0: nothing is recorded."""


@dataclass(frozen=True)
class LearnerMemory:
    """Bytes of a learner for one batch plan."""

    weights: int
    """Parameters and buffers of the networks."""
    optimizer: int
    """The optimizer's state."""
    storage: int
    """The rollout of all environments, and what the library keeps beside it for the update."""
    replay: int
    """Samples that are kept over iterations; 0 where learning forgets them."""
    activations: int | None
    """Most that one minibatch's forward and backward pass hold at once beside the networks: its copy out of the
    rollout, activations, and the gradients; None where the library's networks cannot be called from outside, or have a
    memory."""


def learner_memory(run: RunConfigs, spaces: Spaces) -> LearnerMemory:
    """Build a run's real learner, let it learn from a rollout of few samples, and work out what it takes for all.

    Weights and optimizer are those of the run, and the rollout grows with its samples. The minibatch passes the
    networks once more, as shapes alone, on fake tensors.

    Args:
        run: The run's configs; left as they are.
        spaces: Observations and actions.

    Returns:
        The memory; nothing of the size of a rollout or a minibatch was allocated.
    """
    few_samples = _FEW_SAMPLES.samples_per_update
    replay_samples = run.adapter.replay_samples(run.agent_cfg)
    agent_cfg = copy.deepcopy(run.agent_cfg)
    run.adapter.configure(
        agent_cfg,
        obs=getattr(run.env_cfg, "obs", "points"),
        seed=0,
        max_iterations=1,
        device="cpu",
        plan=_FEW_SAMPLES,
        experiment="plan",
        replay_samples=few_samples if replay_samples else None,
    )

    # An update is needed: optimizers make their state in the first one.
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        env = StandIn(spaces, _FEW_SAMPLES.samples_per_update // _FEW_SAMPLES.horizon)
        runner = run.adapter.make(env, agent_cfg, Path(folder), "cpu")
        with _record_calls() as arguments:
            runner.train(1, lambda completed, metrics: Decision.STOP)
        holders = runner.holders()
        sizes = {kind: tensor_bytes(holder) for kind, holder in holders.items()}

    networks = holders["network weights"]
    modules = networks if isinstance(networks, list | tuple) else [networks]
    calls = [(module, arguments[module]) for module in modules if module in arguments]
    device = "cpu" if run.device == "cpu" else "meta"
    activations = _minibatch_peak(calls, _FEW_SAMPLES.minibatch_size, run.plan.minibatch_size, device)

    return LearnerMemory(
        weights=sizes["network weights"],
        optimizer=sizes["optimizer"],
        storage=math.ceil(sizes.get("rollout storage", 0) * run.plan.samples_per_update / few_samples),
        replay=math.ceil(sizes.get("replay", 0) * replay_samples / few_samples),
        activations=activations,
    )


@contextmanager
def _record_calls() -> Iterator[dict[nn.Module, tuple[Any, ...]]]:
    """Record the arguments of the last call of each module in an update, where gradients are wanted."""
    calls: dict[nn.Module, tuple[Any, ...]] = {}

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled():
            calls[module] = args

    # Of all modules: which are the networks is known only after an update (RL-Games makes its buffers in it). Keyword
    # arguments are left out: RSL-RL asks with one for a sample, which has no gradient.
    hook = register_module_forward_pre_hook(keep)
    try:
        yield calls
    finally:
        hook.remove()


def _minibatch_peak(
    calls: Sequence[tuple[nn.Module, tuple[Any, ...]]], batch: int, size: int, device: str
) -> int | None:
    """Repeat calls with another batch size and go backward; return the most memory held beside the weights [bytes].

    None where there are no calls, and for networks with a memory, whose trajectories have no fixed shape.

    Args:
        calls: Networks, and what they were called with.
        batch: Samples that they were called with.
        size: Samples to call them with.
        device: ``cpu``, or ``meta`` in place of a GPU: encoders choose their chunks by the kind of device.
    """
    if not calls or any(map(_has_memory, (network for network, _ in calls))):
        return None

    with FakeTensorMode():
        for network, _ in calls:
            _replace_by_shapes(network, device)

        with MemoryPeak() as peak:
            made: dict[int, Any] = {}
            outputs = [
                network(*(_resized(value, batch, size, device, made) for value in args)) for network, args in calls
            ]
            torch.stack([loss for output in outputs for loss in _losses(output)]).sum().backward()
    return peak.bytes


def _has_memory(network: nn.Module) -> bool:
    return any(isinstance(module, nn.RNNBase) for module in network.modules())


def _replace_by_shapes(network: nn.Module, device: str) -> None:
    """Put fake tensors in the place of a network's parameters and buffers."""
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                empty = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
                module._parameters[name] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=device)


def _resized(value: Any, batch: int, size: int, device: str, made: dict[int, Any]) -> Any:
    """Return an argument for another batch size; what two calls share is made once and kept in ``made``."""
    if isinstance(value, Tensor):
        rows = (size,) if value.dim() and value.shape[0] == batch else value.shape[:1]
        return torch.empty(*rows, *value.shape[1:], dtype=value.dtype, device=device)
    if isinstance(value, Mapping | TensorDictBase):
        if id(value) not in made:
            made[id(value)] = {name: _resized(item, batch, size, device, made) for name, item in value.items()}
        return made[id(value)]
    return value


def _losses(output: Any) -> list[Tensor]:
    """Return a scalar of every tensor in a network's output that has a gradient."""
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple) else [output]
    return [value.sum() for value in values if isinstance(value, Tensor) and value.requires_grad]


class MemoryPeak(TorchDispatchMode):
    """Counts the storages that are made while it is active, until they are freed."""

    def __init__(self) -> None:
        """Start at nothing: what there is already does not count."""
        super().__init__()
        self._live = 0
        self._peak = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def bytes(self) -> int:
        """Most that was held at once [bytes]."""
        return self._peak

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count the storages that it made."""
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, Tensor):
                self._seen.add(value.untyped_storage())

        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self._count(value.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._seen:
            self._seen.add(storage)
            size = storage.nbytes()
            self._live += size
            self._peak = max(self._peak, self._live)
            weakref.finalize(storage, self._on_freed, size)

    def _on_freed(self, size: int) -> None:
        self._live -= size


class StandIn(DirectRLEnv):
    """An environment that only has shapes: zeros for observations and rewards, and no simulation."""

    def __init__(self, spaces: Spaces, num_envs: int) -> None:
        """Make the spaces.

        Args:
            spaces: Observations and actions.
            num_envs: Environments.
        """
        # The base class's __init__ is not called: it starts a simulation. It is the base class because the wrappers of
        # the learning libraries check for it.
        self._is_closed = True
        self.scene: Any = SimpleNamespace(num_envs=num_envs)
        self.sim: Any = SimpleNamespace(device="cpu")
        self.cfg = SimpleNamespace(is_finite_horizon=False)
        self.render_mode = None

        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.obs_buf = {
            name: torch.zeros(num_envs, *shape, dtype=getattr(torch, dtype))
            for name, (shape, dtype) in spaces.observations.items()
        }

        self.single_observation_space = gym.spaces.Dict(
            {
                name: gym.spaces.Box(-np.inf, np.inf, shape, np.dtype(dtype).type)
                for name, (shape, dtype) in spaces.observations.items()
            }
        )
        self.single_action_space = gym.spaces.Box(-np.inf, np.inf, (spaces.num_actions,))
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
        no = torch.zeros(self.num_envs, dtype=torch.bool)
        return self.obs_buf, torch.zeros(self.num_envs), no, no.clone(), {}

    def expert(self) -> Callable[[], Tensor]:
        """Return an expert that does nothing."""
        return lambda: torch.zeros(self.num_envs, *self.single_action_space.shape)

    def close(self) -> None:
        """Do nothing."""
