# SPDX-License-Identifier: BSD-3-Clause
"""The guard for environments that know nothing of it: any direct or manager-based task of Isaac Lab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from isaaclab.envs import DirectRLEnv, ManagerBasedRLEnv

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.guard_cfg import GuardCfg
from isaaclab_pc.guards.scene_state import STATE, SceneState

_CHECKED = (torch.float16, torch.float32)


def attach_guard(env: Any, cfg: GuardCfg, task: str) -> Guard:
    """Guard an environment, which stays the object that it is: learning libraries' wrappers need its class.

    What its ``step`` and ``reset`` return is checked, and so are the actions it is given and, between physics and the
    task's own terminations and rewards, the state of its assets. A faulty state is replaced by the assets' default
    before the task reads it, so that sums and averages that the task keeps stay finite. Then the episode ends like
    any other, and the task's own reset runs: in the same step, or, where only an observation is bad, before the next
    physics step. Tasks that draw the randomness of all resets from one generator draw other numbers after a fault.

    An environment of one's own may call this at the end of its ``__init__``. Afterwards ``env.guard`` is the guard,
    and ``extras["log"]`` has its counters.

    Args:
        env: A ``DirectRLEnv`` or ``ManagerBasedRLEnv``, or a gymnasium wrapper around one.
        cfg: Mode and bounds. With mode ``disabled`` the environment is left as it is.
        task: Name for messages.

    Returns:
        The guard.

    Raises:
        ConfigError: The environment is of another kind, or has a guard already, or the configuration makes no sense.
    """
    env = env.unwrapped
    if not isinstance(env, (DirectRLEnv, ManagerBasedRLEnv)):
        kind = type(env).__name__
        raise ConfigError(
            f"{task} cannot be guarded: {kind} is neither direct nor manager-based; use guard.mode=disabled."
        )
    if hasattr(env, "guard"):
        raise ConfigError(f"{task} has a guard already.")
    guard = Guard(cfg, env.num_envs, env.device, task=task)
    if guard.enabled:
        _Attachment(env, guard)
    return guard


class _Attachment:
    """Takes the place of some methods of one environment."""

    def __init__(self, env: Any, guard: Guard) -> None:
        self._env, self._guard = env, guard
        self._state = SceneState(guard, env.scene)
        self._all = torch.arange(env.num_envs, device=env.device)
        self._final_obs: Any = None
        env.guard = guard
        self._task_step, env.step = env.step, self._step
        self._task_reset, env.reset = env.reset, self._reset
        self._task_reset_idx, env._reset_idx = env._reset_idx, self._reset_idx
        if isinstance(env, DirectRLEnv):
            self._task_dones, env._get_dones = env._get_dones, self._get_dones
            self._task_rewards, env._get_rewards = env._get_rewards, self._get_rewards
        else:
            terminations, rewards = env.termination_manager, env.reward_manager
            self._task_dones, terminations.compute = terminations.compute, self._compute_terminations
            self._task_rewards, rewards.compute = rewards.compute, self._get_rewards

    # In the order of a step.

    def _step(self, action: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        env, guard = self._env, self._guard
        self._reset_late()
        guard.begin_step()
        if action.is_floating_point():
            action = guard.check_actions(action.to(env.device))
        obs, reward, terminated, truncated, extras = self._task_step(action)
        final = extras.get("final_obs")
        if final is not None and final is not self._final_obs:
            self._final_obs, bad = self._observations(final)
            extras["final_obs"] = self._final_obs
            self._end_by_observation(bad, reward, terminated, truncated)
        env.obs_buf, bad = self._observations(obs)
        self._end_by_observation(bad, reward, terminated, truncated)
        guard.awaiting |= bad
        self._finish(extras)
        return env.obs_buf, reward, terminated, truncated, extras

    def _reset_late(self) -> None:
        """Reset what an observation showed to be faulty, and hold what is benched."""
        awaiting, benched = self._guard.pending()
        if awaiting > 0:
            ids = self._guard.awaiting.nonzero().squeeze(-1).int()
            recorder = getattr(self._env, "recorder_manager", None)
            if recorder is not None:
                recorder.record_pre_reset(ids)
            self._env._reset_idx(ids)
            if recorder is not None:
                recorder.record_post_reset(ids)
        if benched > 0:
            self._state.restore_defaults(self._guard.benched_ids())

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._check_state()
        terminated, truncated = (done.clone() for done in self._task_dones())
        self._end_by_state(terminated, truncated)
        return terminated, truncated

    def _compute_terminations(self) -> torch.Tensor:
        self._check_state()
        self._task_dones()
        terminated, truncated = self._env.termination_manager.terminated, self._env.termination_manager.time_outs
        self._end_by_state(terminated, truncated)
        return terminated | truncated

    def _check_state(self) -> None:
        self._state.check()
        if self._guard.cfg.mode == "sanitize" or self._guard.is_quiet():
            return
        # On CUDA this waits for the physics, as Isaac Lab does a little later to see who is done.
        ids = ((self._guard.causes & int(STATE)) != 0).nonzero().squeeze(-1)
        if len(ids) > 0:
            self._state.restore_defaults(ids)

    def _end_by_state(self, terminated: torch.Tensor, truncated: torch.Tensor) -> None:
        if self._guard.is_quiet():
            return
        terminated &= ~self._guard.muted
        self._guard.end_episodes(self._guard.faulted, terminated, truncated)

    def _get_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        env, guard = self._env, self._guard
        reward = self._task_rewards(*args, **kwargs).to(torch.float32, copy=True)
        if not guard.is_quiet():
            # What is muted was found already, and its reward says nothing more.
            reward.masked_fill_(guard.muted, 0.0)
        guard.check(Cause.REWARD, reward, names=("reward",))
        if guard.is_quiet():
            return reward
        # Isaac Lab reads the masks after the rewards, so a bad reward still ends the episode in this step.
        faulted = guard.faulted
        guard.end_episodes(faulted, env.reset_terminated, env.reset_time_outs)
        env.reset_buf |= faulted
        return reward.masked_fill_(guard.muted, 0.0)

    def _reset_idx(self, env_ids: Any) -> None:
        self._task_reset_idx(env_ids)
        ids = slice(None) if env_ids is None else env_ids
        self._guard.forget(self._all[ids if isinstance(ids, slice) else torch.as_tensor(ids).long()])

    def _reset(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._guard.release()
        obs, extras = self._task_reset(*args, **kwargs)
        self._env.obs_buf, bad = self._observations(obs)
        self._guard.awaiting |= bad
        self._finish(extras)
        return self._env.obs_buf, extras

    # What these share.

    def _observations(self, obs: Any) -> tuple[Any, torch.Tensor]:
        """Return a copy without bad values, and whose episodes they end, shape (N,), bool."""
        guard = self._guard
        leaves = dict(_leaves(obs))
        checked = {name: v for name, v in leaves.items() if v.is_floating_point() and v.numel() > 0}
        checked = {name: v if v.dtype in _CHECKED else v.float() for name, v in checked.items()}
        if guard.cfg.mode == "sanitize":
            checked = {name: v.clone(memory_format=torch.contiguous_format) for name, v in checked.items()}
            guard.check(Cause.OBSERVATION, *checked.values(), names=tuple(checked))
            return _rebuilt(obs, iter([checked.get(name, v).to(v.dtype) for name, v in leaves.items()])), guard.faulted
        bad = guard.check(Cause.OBSERVATION, *checked.values(), names=tuple(checked))
        if guard.is_quiet():
            return obs, bad
        hidden = bad | guard.benched
        filled = [v.masked_fill(hidden.view(-1, *[1] * (v.dim() - 1)), 0) for v in leaves.values()]
        return _rebuilt(obs, iter(filled)), bad & ~guard.benched

    def _end_by_observation(
        self, bad: torch.Tensor, reward: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> None:
        if self._guard.is_quiet():
            return
        reward.masked_fill_(bad, 0.0)
        self._guard.end_episodes(bad, terminated, truncated)
        self._env.reset_buf |= bad

    def _finish(self, extras: dict[str, Any]) -> None:
        self._guard.end_step()
        extras.setdefault("log", {}).update(self._guard.log())


def _leaves(obs: Any, path: str = "") -> Iterable[tuple[str, torch.Tensor]]:
    """Yield the tensors of a group, or of nested groups, by their names."""
    if isinstance(obs, torch.Tensor):
        yield path, obs
        return
    for name, value in obs.items():
        yield from _leaves(value, f"{path}/{name}" if path else name)


def _rebuilt(obs: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Return the same groups with other tensors, in the order of :func:`_leaves`."""
    if isinstance(obs, torch.Tensor):
        return next(tensors)
    return {name: _rebuilt(value, tensors) for name, value in obs.items()}
