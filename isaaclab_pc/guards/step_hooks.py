# SPDX-License-Identifier: BSD-3-Clause
"""The one place that hooks into the steps of an environment, direct or manager-based.

A :class:`StepHook` watches: recorders, probes, viewers. A filter changes values: the guard of an environment that does
not call one by itself. The environment's methods are replaced once, however many hooks there are. A step then goes as
follows; at each point, hooks are called in the order in which they were added.

1. ``hook.before_step(action)``, with the action as the caller gave it
2. ``filter.before_step(action)`` returns the action that is taken
3. the environment sets its targets (``_pre_physics_step``, or ``action_manager.process_action``)
4. ``hook.after_targets()``
5. physics
6. ``hook.after_physics()``, with the state as physics left it
7. ``filter.before_dones()``
8. the environment decides which episodes end (``_get_dones``, or ``termination_manager.compute``)
9. ``filter.after_dones(terminated, truncated)`` returns the masks that count
10. rewards (``_get_rewards``, or ``reward_manager.compute``), then ``filter.after_reward(reward)`` returns what counts
11. resets (``_reset_idx``), each followed by ``filter.on_reset(env_ids)``
12. the environment makes its observations
13. ``filter.after_step(result)`` returns what the caller gets
14. ``hook.after_step()``

Around ``env.reset``, ``filter.before_reset()`` and ``filter.after_reset(result)`` are called likewise.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch


class StepHook:
    """Watches the steps of an environment; override what is needed. A hook changes nothing that it is given.

    An exception in a hook ends the step, as one of the environment's own code does.
    """

    def before_step(self, action: torch.Tensor) -> None:
        """A step begins; ``action`` is what the caller gave, shape (num_envs, ...)."""

    def after_targets(self) -> None:
        """The actions are processed and the drives have their targets; the physics has not moved yet."""

    def after_physics(self) -> None:
        """The last physics step is done; nothing is terminated, rewarded or reset yet."""

    def after_step(self) -> None:
        """The step is over: environments that were done are reset, and the observations are made."""

    def close(self) -> None:
        """The environment is about to be closed; called once."""


def add_step_hook(env: Any, hook: StepHook) -> Callable[[], None]:
    """Let a hook watch the steps of an unwrapped environment, until it is removed or the environment is closed.

    It is called after those that were added before. The returned function removes it.
    """
    methods = _methods_of(env)
    methods.hooks = (*methods.hooks, hook)
    return lambda: methods.remove(hook)


def set_step_filter(env: Any, step_filter: Any) -> None:
    """Let a filter, an object with the methods above, change what an environment takes and returns from now on.

    What it is given may be the task's own tensors, so it changes none of them in place, but for those of the result of
    a step, which are the caller's. Raises ValueError if the environment has a filter already.
    """
    _methods_of(env).use_filter(step_filter)


def _methods_of(env: Any) -> "_HookedMethods":
    if not hasattr(env, "step_methods"):
        env.step_methods = _HookedMethods(env)
    return env.step_methods


class _HookedMethods:
    """Takes the place of some methods of one environment and its managers."""

    def __init__(self, env: Any) -> None:
        self.hooks: tuple[StepHook, ...] = ()
        self._env = env
        self._filter: Any = None

        self._own_step = _replace(env, "step", self._step)
        self._own_close = _replace(env, "close", self._close)
        self._managed = hasattr(env, "action_manager")
        if self._managed:
            self._own_set_targets = _replace(env.action_manager, "process_action", self._set_targets)
            self._own_dones = _replace(env.termination_manager, "compute", self._compute_terminations)
        else:
            self._own_set_targets = _replace(env, "_pre_physics_step", self._set_targets)
            self._own_dones = _replace(env, "_get_dones", self._get_dones)

    def use_filter(self, step_filter: Any) -> None:
        if self._filter is not None:
            raise ValueError("the environment has a step filter already")

        self._filter = step_filter
        env = self._env
        self._own_reset = _replace(env, "reset", self._reset)
        self._own_reset_idx = _replace(env, "_reset_idx", self._reset_idx)
        owner, name = (env.reward_manager, "compute") if self._managed else (env, "_get_rewards")
        self._own_reward = _replace(owner, name, self._get_rewards)

    def remove(self, hook: StepHook) -> None:
        self.hooks = tuple(other for other in self.hooks if other is not hook)

    # In the order of a step.

    def _step(self, action: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for hook in self.hooks:
            hook.before_step(action)
        if self._filter is not None:
            action = self._filter.before_step(action)

        result = self._own_step(action, *args, **kwargs)

        if self._filter is not None:
            result = self._filter.after_step(result)
        for hook in self.hooks:
            hook.after_step()
        return result

    def _set_targets(self, action: torch.Tensor) -> None:
        self._own_set_targets(action)
        for hook in self.hooks:
            hook.after_targets()

    def _get_dones(self) -> Any:
        self._after_physics()
        dones = self._own_dones()
        return dones if self._filter is None else self._filter.after_dones(*dones)

    def _compute_terminations(self) -> torch.Tensor:
        self._after_physics()
        dones = self._own_dones()
        if self._filter is None:
            return dones

        # Into the manager's own buffers, which the environment reads. Copying a tensor to itself does nothing.
        manager = self._env.termination_manager
        terminated, truncated = self._filter.after_dones(manager.terminated, manager.time_outs)
        manager.terminated.copy_(terminated)
        manager.time_outs.copy_(truncated)
        return manager.terminated | manager.time_outs

    def _after_physics(self) -> None:
        for hook in self.hooks:
            hook.after_physics()
        if self._filter is not None:
            self._filter.before_dones()

    def _get_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self._filter.after_reward(self._own_reward(*args, **kwargs))

    def _reset_idx(self, env_ids: Any) -> None:
        self._own_reset_idx(env_ids)
        self._filter.on_reset(env_ids)

    def _reset(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        self._filter.before_reset()
        return self._filter.after_reset(self._own_reset(*args, **kwargs))

    def _close(self) -> None:
        hooks = self.hooks
        self.hooks = ()
        # The environment is closed, and every hook told, whatever one of them raises.
        with ExitStack() as stack:
            stack.callback(self._own_close)
            for hook in reversed(hooks):
                stack.callback(hook.close)


def _replace(owner: Any, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    own = getattr(owner, name)
    setattr(owner, name, method)
    return own
