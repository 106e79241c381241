# SPDX-License-Identifier: BSD-3-Clause
"""The guard for environments that know nothing of it: any direct or manager-based task of Isaac Lab."""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import gymnasium as gym
import torch
from isaaclab.envs import DirectRLEnv, ManagerBasedRLEnv

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.guards.scene_state import SceneState
from isaaclab_pc.guards.step_guard import StepGuard, check_action
from isaaclab_pc.guards.step_hooks import set_step_filter

_CHECKED = (torch.float16, torch.float32)
"""Types that the guard reads; other floating-point types are checked as float32."""


def attach_guard(env: Any, cfg: GuardCfg, task: str) -> Guard:
    """Guard an environment, which stays the same object: learning libraries' wrappers need its class.

    Actions, results of ``step`` and ``reset`` and, between physics and the task's terminations and rewards, the state
    of its assets are checked. A faulty state is replaced by the assets' defaults, so sums that the task keeps stay
    finite. The episode ends like any other, and the task's own reset runs in the same step or, if only an observation
    is bad, before the next physics step. A task that draws all resets from one generator draws other numbers after a
    fault.

    An environment of your own may call this at the end of its ``__init__``. Afterwards ``env.guard`` is the guard, and
    ``extras["log"]`` has its counters.

    Args:
        env: A ``DirectRLEnv`` or ``ManagerBasedRLEnv``, or a gymnasium wrapper around one.
        cfg: Mode and bounds. With mode ``disabled`` the environment is left as it is.
        task: Name for messages.

    Raises:
        ConfigError: The environment is of another kind, or has a guard already, or a bound or mode is not valid.
    """
    env = env.unwrapped
    kind = type(env)
    if not issubclass(kind, (DirectRLEnv, ManagerBasedRLEnv)):
        raise ConfigError(
            f"{task} cannot be guarded: {kind.__name__} is neither direct nor manager-based; use guard.mode=disabled."
        )
    if hasattr(env, "guard"):
        raise ConfigError(f"{task} has a guard already.")

    guard = Guard(cfg, env.num_envs, env.device, task, _allowed_actions(env, cfg))
    if guard.enabled:
        set_step_filter(env, _GuardFilter(env, guard))
        env.guard = guard
    return guard


def _allowed_actions(env: Any, cfg: GuardCfg) -> tuple[Any, Any]:
    """Return the action space's bounds; where it has none, those of the guard, or [-1, 1]."""
    low, high = cfg.action or (-1.0, 1.0)
    space = getattr(env, "single_action_space", None)
    if not isinstance(space, gym.spaces.Box):
        return low, high
    least, most = (torch.as_tensor(bound, dtype=torch.float32, device=env.device) for bound in (space.low, space.high))
    # Who means that there is no bound may also write the largest number that there is.
    has_least, has_most = least.abs() <= cfg.max_abs, most.abs() <= cfg.max_abs
    return (
        torch.where(has_least, least, torch.where(has_most, most.clamp(max=low), low)),
        torch.where(has_most, most, torch.where(has_least, least.clamp(min=high), high)),
    )


class _GuardFilter:
    """Runs a :class:`StepGuard` as a foreign environment's filter. Tensors of the task are copied before changes."""

    def __init__(self, env: Any, guard: Guard) -> None:
        self._env = env
        self._guard = guard
        self._step_guard = StepGuard(env, guard, SceneState(guard, env.scene), restore_state=True)
        self._all_ids = torch.arange(env.num_envs, device=env.device)
        self._final_obs: Any = None

    def before_step(self, action: torch.Tensor) -> torch.Tensor:
        space = getattr(self._env, "single_action_space", None)
        # One of a few values may come in another layout than its space says.
        own = space.shape if isinstance(space, gym.spaces.Box) else getattr(action, "shape", ())[1:]
        check_action(action, (self._env.num_envs, *own))
        return self._step_guard.begin_step(action)

    def before_dones(self) -> None:
        self._step_guard.check_state()

    def after_dones(self, terminated: torch.Tensor, truncated: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        guarded = self._step_guard.check_dones(terminated, truncated)
        return (terminated, truncated) if guarded is None else guarded[:2]

    def after_reward(self, reward: torch.Tensor) -> torch.Tensor:
        reward = reward.to(torch.float32, copy=True)
        self._step_guard.check_reward(reward)
        return reward

    def on_reset(self, env_ids: Any) -> None:
        chosen = slice(None) if env_ids is None else env_ids
        if not isinstance(chosen, slice):
            chosen = torch.as_tensor(chosen)
            # A task may reset by a mask.
            chosen = chosen if chosen.dtype == torch.bool else chosen.long()
        self._step_guard.on_reset(self._all_ids[chosen])

    def after_step(self, result: tuple[Any, ...]) -> tuple[Any, ...]:
        obs, reward, terminated, truncated, extras = result

        # The last observation of the episodes that ended in this step; it stays in the extras until the next one.
        final_obs = extras.get("final_obs")
        if final_obs is not None and final_obs is not self._final_obs:
            self._final_obs, ended = self._guarded_observations(final_obs)
            extras["final_obs"] = self._final_obs
            if ended is not None:
                # Isaac Lab computes it for all environments. Where no episode ended, there was no reset.
                running = ~(terminated | truncated)
                self._step_guard.end_by_observation(ended, reward, terminated, truncated)
                self._step_guard.reset_later(ended & running)

        obs, ended = self._guarded_observations(obs)
        if ended is not None:
            # After a reset it is the first observation of the next episode, and the last one stays as it ended.
            running = ~(terminated | truncated)
            self._step_guard.end_by_observation(ended & running, reward, terminated, truncated)
            self._step_guard.reset_later(ended)

        self._finish(obs, extras)
        return obs, reward, terminated, truncated, extras

    def before_reset(self) -> None:
        self._step_guard.before_reset_all()

    def after_reset(self, result: tuple[Any, ...]) -> tuple[Any, ...]:
        obs, extras = result
        obs, ended = self._guarded_observations(obs)
        if ended is not None:
            self._step_guard.reset_later(ended)

        self._finish(obs, extras)
        return obs, extras

    def _finish(self, obs: Any, extras: dict[str, Any]) -> None:
        # Learning libraries' wrappers read the observations here.
        self._env.obs_buf = obs
        self._step_guard.end_step()
        log = extras.setdefault("log", {})
        if not isinstance(log, MutableMapping):
            # A task may log anything; whoever averages it tells what is no number.
            log = extras["log"] = dict(log) if isinstance(log, Mapping) else {"log": log}
        log.update(self._step_guard.log())

    def _guarded_observations(self, obs: Any) -> tuple[Any, torch.Tensor | None]:
        """Return observations without bad values, and the mask (num_envs,) of episodes that they end, or None."""
        leaves = dict(_leaves(obs, self._guard.num_envs))
        checked = {name: v for name, v in leaves.items() if v.is_floating_point() and v.numel() > 0}
        checked = {name: v if v.dtype in _CHECKED else v.float() for name, v in checked.items()}

        if self._guard.cfg.mode == "sanitize":
            checked = {name: v.clone(memory_format=torch.contiguous_format) for name, v in checked.items()}
            self._step_guard.check_observations(checked)
            return _replaced(obs, {name: v.to(leaves[name].dtype) for name, v in checked.items()}), None

        found = self._step_guard.check_observations(checked)
        if found is None:
            return obs, None
        hidden, ended = found
        filled = {n: v.masked_fill(hidden.view(-1, *[1] * (v.dim() - 1)), 0) for n, v in leaves.items()}
        return _replaced(obs, filled), ended


def _leaves(obs: Any, num_envs: int, path: str = "") -> Iterable[tuple[str, torch.Tensor]]:
    """Yield the tensors of a group, or of nested groups, by their names: those with a row for each environment."""
    if isinstance(obs, torch.Tensor):
        if obs.dim() > 0 and len(obs) == num_envs:
            yield path, obs
    elif hasattr(obs, "items"):
        for name, value in obs.items():
            yield from _leaves(value, num_envs, f"{path}/{name}" if path else name)


def _replaced(obs: Any, tensors: Mapping[str, torch.Tensor], path: str = "") -> Any:
    """Return the same groups with other tensors, by the names of :func:`_leaves`."""
    if isinstance(obs, torch.Tensor) or not hasattr(obs, "items"):
        return tensors.get(path, obs)
    return {name: _replaced(value, tensors, f"{path}/{name}" if path else name) for name, value in obs.items()}
