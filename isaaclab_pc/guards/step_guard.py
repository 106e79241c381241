# SPDX-License-Identifier: BSD-3-Clause
"""What happens to an environment's step when the guard finds something: the one implementation for all environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.guards.guard import Guard
from isaaclab_pc.guards.scene_state import STATE_CAUSES, SceneState

__all__ = ["BadObservations", "GuardedDones", "NoStepGuard", "StepGuard", "check_action", "make_step_guard"]


class GuardedDones(NamedTuple):
    """Which episodes end once the guard knows of faults, each mask (num_envs,), bool."""

    terminated: torch.Tensor
    """In place of the task's own."""

    truncated: torch.Tensor
    """In place of the task's own."""

    failed: torch.Tensor
    """Environments in which the task cannot count as fulfilled: terminated by it, faulty or benched."""


class BadObservations(NamedTuple):
    """What follows from the check of a step's observations, each mask (num_envs,), bool."""

    hidden: torch.Tensor
    """Environments whose observations become zeros: bad or benched."""

    ended: torch.Tensor
    """Environments whose episode ends: bad and not benched."""


def check_action(action: Any, shape: tuple[int, ...]) -> None:
    """Refuse what a step cannot take; nothing waits for the device.

    Args:
        action: What the caller gave.
        shape: What the task takes, (num_envs, ...).

    Raises:
        TypeError: It is no tensor of real numbers.
        ValueError: It has another shape.
    """
    if not isinstance(action, torch.Tensor) or action.is_complex():
        kind = action.dtype if isinstance(action, torch.Tensor) else type(action).__name__
        raise TypeError(f"actions are {kind}, expected a torch.Tensor of real numbers.")
    if action.shape != shape:
        raise ValueError(f"actions have shape {tuple(action.shape)}, expected {shape}.")


def make_step_guard(env: Any, guard: Guard, scene_state: SceneState, restore_state: bool = False) -> NoStepGuard:
    """Return what guards the steps of an environment; arguments as for :class:`StepGuard`.

    Returns:
        A :class:`NoStepGuard` for a guard of mode ``disabled``, so that none of the guard's code runs in a step.
    """
    return StepGuard(env, guard, scene_state, restore_state) if guard.enabled else NoStepGuard()


class NoStepGuard:
    """Finds nothing and changes nothing: for a guard of mode ``disabled``."""

    def before_reset_all(self) -> None:
        """Prepare for a reset of all environments, by ``env.reset``: those that are benched get a new chance."""

    def begin_step(self, action: torch.Tensor) -> torch.Tensor:
        """Reset and hold what the last step left to do, and check the actions.

        Args:
            action: What the caller gave, shape (num_envs, ...); not changed. Only floating-point actions are checked.

        Returns:
            The action to take: 0 in excluded environments, repaired in mode ``sanitize``.

        Raises:
            FaultError: Here as in all other checks: something was found, and the mode is ``raise``.
        """
        return action

    def check_state(self) -> None:
        """Check the state that physics left, before the task reads it for its terminations and rewards."""

    def check_dones(self, terminated: torch.Tensor, truncated: torch.Tensor) -> GuardedDones | None:
        """End the episodes of environments with a fault in this step, whatever else they may have ended for.

        Args:
            terminated: Shape (num_envs,), bool; not changed.
            truncated: Shape (num_envs,), bool; not changed.

        Returns:
            What to take in their place; None if it is known that there is no fault.
        """
        return None

    def check_reward(self, reward: torch.Tensor) -> torch.Tensor | None:
        """Set the reward to 0 where it does not count, and end the episodes in which it is bad.

        Args:
            reward: Shape (num_envs,), float32, changed in place.

        Returns:
            Environments in which no term of the reward counts, shape (num_envs,), bool; None if it is known that all
            count.
        """
        return None

    def on_reset(self, env_ids: torch.Tensor) -> None:
        """Prepare for the new episodes of environments, shape (M,), int64."""

    def check_depth(self, images: Mapping[str, torch.Tensor]) -> None:
        """Check depth images, whose faults count among those of the next :meth:`check_observations`.

        Args:
            images: Planar depth [m] by the name of the camera, each (num_envs, H, W), float32. In mode ``sanitize``
                they are repaired in place.
        """

    def check_observations(self, groups: Mapping[str, torch.Tensor]) -> BadObservations | None:
        """Check observation groups.

        Args:
            groups: Each (num_envs, ...), float16 or float32. In mode ``sanitize`` they are repaired in place.

        Returns:
            What the caller has to hide and to end; None if it is known that there is nothing.
        """
        return None

    def end_by_observation(
        self, ended: torch.Tensor, reward: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> None:
        """End episodes in which an observation is bad, after the step's resets: all are changed in place.

        Args:
            ended: Environments whose episodes end, shape (num_envs,), bool.
            reward: The step's reward, shape (num_envs,).
            terminated: Shape (num_envs,), bool.
            truncated: Shape (num_envs,), bool.
        """

    def reset_later(self, mask: torch.Tensor) -> None:
        """Have environments, a mask of shape (num_envs,), bool, reset before the next physics step."""

    def end_step(self) -> None:
        """Update the bench."""

    def log(self) -> dict[str, torch.Tensor]:
        """Return the guard's counters, for the training log; see :meth:`Guard.log`."""
        return {}


class StepGuard(NoStepGuard):
    """Guards the steps of an environment, which calls the methods in the order in which they stand here.

    In mode ``quarantine``, the episode of a faulty environment ends in the same step with reward 0, and the
    environment's own reset follows. A bad observation is found after the resets of the step, so its environment returns
    zeros and is reset at the start of the next one. An environment that keeps failing right after its resets is
    benched: it is held at its default state, with reward 0 and observations of zeros.

    :class:`~isaaclab_pc.envs.PointCloudEnv` has one as ``step_guard``;
    :func:`~isaaclab_pc.guards.attach_guard` puts one on any other environment.
    """

    def __init__(self, env: Any, guard: Guard, scene_state: SceneState, restore_state: bool = False) -> None:
        """Guard an environment from now on.

        Args:
            env: The ``DirectRLEnv`` or ``ManagerBasedRLEnv``.
            guard: Finds and counts.
            scene_state: Checks the state of the environment's scene.
            restore_state: Whether a faulty state is replaced by the assets' defaults before the task reads it, so that
                sums and averages that the task keeps stay finite.
        """
        self._env = env
        self._guard = guard
        self._state = scene_state
        self._restore_state = restore_state and guard.cfg.mode != "sanitize"
        self._bad_depth: torch.Tensor | None = None

    def before_reset_all(self) -> None:
        """See :meth:`NoStepGuard.before_reset_all`."""
        self._guard.unbench_all()

    def begin_step(self, action: torch.Tensor) -> torch.Tensor:
        """See :meth:`NoStepGuard.begin_step`."""
        awaiting_reset, benched = self._guard.pending_counts()
        if awaiting_reset > 0:
            self._reset_awaiting()
        if benched > 0:
            self._state.restore_defaults(self._guard.benched_ids())

        self._guard.begin_step()
        if not action.is_floating_point():
            return action
        return self._guard.check_actions(action.to(self._env.device))

    def _reset_awaiting(self) -> None:
        """Reset the environments in which the last step's observation was bad."""
        env_ids = self._guard.awaiting_reset.nonzero().squeeze(-1).int()
        # Isaac Lab's recorder of manager-based environments is told of every reset.
        recorder = getattr(self._env, "recorder_manager", None)
        if recorder is not None:
            recorder.record_pre_reset(env_ids)
        self._env._reset_idx(env_ids)
        if recorder is not None:
            recorder.record_post_reset(env_ids)

    def check_state(self) -> None:
        """See :meth:`NoStepGuard.check_state`."""
        self._state.check()
        if not self._restore_state or self._guard.has_no_known_faults():
            return

        # A benched environment's faults are recorded no longer, and its state may be bad again after any physics step.
        is_bad = ((self._guard.causes & int(STATE_CAUSES)) != 0) | self._guard.benched
        # On CUDA this waits for the physics, as Isaac Lab does a little later to see who is done.
        env_ids = is_bad.nonzero().squeeze(-1)
        if len(env_ids) > 0:
            self._state.restore_defaults(env_ids)

    def check_dones(self, terminated: torch.Tensor, truncated: torch.Tensor) -> GuardedDones | None:
        """See :meth:`NoStepGuard.check_dones`."""
        if self._guard.has_no_known_faults():
            return None

        return GuardedDones(*self._guard.check_dones(terminated, truncated))

    def check_reward(self, reward: torch.Tensor) -> torch.Tensor | None:
        """See :meth:`NoStepGuard.check_reward`."""
        # Isaac Lab reads the masks after the rewards, so a bad reward still ends the episode in this step.
        env = self._env
        return self._guard.check_reward(reward, env.reset_terminated, env.reset_time_outs, env.reset_buf)

    def on_reset(self, env_ids: torch.Tensor) -> None:
        """See :meth:`NoStepGuard.on_reset`."""
        self._guard.on_reset(env_ids)

    def check_depth(self, images: Mapping[str, torch.Tensor]) -> None:
        """See :meth:`NoStepGuard.check_depth`."""
        self._bad_depth = self._guard.check(Cause.DEPTH, *images.values(), names=tuple(images))

    def check_observations(self, groups: Mapping[str, torch.Tensor]) -> BadObservations | None:
        """See :meth:`NoStepGuard.check_observations`."""
        guard = self._guard
        bad = guard.check(Cause.OBSERVATION, *groups.values(), names=tuple(groups))
        if guard.cfg.mode == "sanitize" or guard.has_no_known_faults():
            return None

        return BadObservations(*guard.bad_observations(bad, self._bad_depth))

    def end_by_observation(
        self, ended: torch.Tensor, reward: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> None:
        """See :meth:`NoStepGuard.end_by_observation`."""
        self._guard.end_episodes(ended, reward, terminated, truncated, self._env.reset_buf)

    def reset_later(self, mask: torch.Tensor) -> None:
        """See :meth:`NoStepGuard.reset_later`."""
        self._guard.awaiting_reset |= mask

    def end_step(self) -> None:
        """See :meth:`NoStepGuard.end_step`."""
        self._guard.end_step()

    def log(self) -> dict[str, torch.Tensor]:
        """See :meth:`NoStepGuard.log`."""
        return self._guard.log()
