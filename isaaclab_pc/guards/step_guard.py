# SPDX-License-Identifier: BSD-3-Clause
"""Reaction of an environment's step to the guard's findings: the one implementation for all environments."""

from collections.abc import Mapping
from typing import Any

import torch

from isaaclab_pc.guards import kernels
from isaaclab_pc.guards.causes import Cause
from isaaclab_pc.guards.guard import Guard, is_within
from isaaclab_pc.guards.scene_state import STATE_CAUSES, SceneState


def check_action(action: Any, shape: tuple[int, ...]) -> None:
    """Raise TypeError unless ``action`` is a real tensor, ValueError unless it has ``shape``; waits for nothing."""
    if not isinstance(action, torch.Tensor) or action.is_complex():
        kind = action.dtype if isinstance(action, torch.Tensor) else type(action).__name__
        raise TypeError(f"actions are {kind}, expected a torch.Tensor of real numbers.")
    if action.shape != shape:
        raise ValueError(f"actions have shape {tuple(action.shape)}, expected {shape}.")


class StepGuard:
    """Guards the steps of an environment, which calls the methods in the order in which they stand here.

    In mode ``quarantine``, the episode of a faulty environment ends in the same step with reward 0, and the
    environment's own reset follows. A bad observation is found after the resets of the step, so its environment returns
    zeros and is reset at the start of the next one. An environment that keeps failing right after its resets is
    benched: it is held at its default state, with reward 0 and observations of zeros.

    In mode ``raise``, each check raises a :class:`FaultError`.

    :class:`~isaaclab_pc.envs.PointCloudEnv` has one as ``step_guard``;
    :func:`~isaaclab_pc.guards.attach_guard` puts one on any other environment.
    """

    def __init__(self, env: Any, guard: Guard, scene_state: SceneState, restore_state: bool = False) -> None:
        """Guard a ``DirectRLEnv`` or ``ManagerBasedRLEnv`` from now on: ``guard`` finds and counts.

        ``scene_state`` checks the state of the environment's scene. With ``restore_state`` the assets' defaults replace
        a faulty state before the task reads it.
        """
        self._env = env
        self._guard = guard
        self._state = scene_state
        self._restore_state = restore_state and not guard.repairs
        self._reward_bounds = guard.cfg.bounds("reward")
        self._as_termination = guard.cfg.ends == "terminated"
        self._bad_depth: torch.Tensor | None = None

    def before_reset_all(self) -> None:
        """Prepare for a reset of all environments, by ``env.reset``: those that are benched get a new chance."""
        self._guard.unbench_all()

    def begin_step(self, action: torch.Tensor) -> torch.Tensor:
        """Reset and hold what the last step left to do, and check the actions, (num_envs, ...), which are not changed.

        Returns the action to take: 0 in excluded environments, repaired in mode ``sanitize``. Only floating-point
        actions are checked.
        """
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
        """Check the state that physics left, before the task reads it for its terminations and rewards."""
        self._state.check()
        if not self._restore_state or self._guard.has_no_known_faults():
            return

        # A benched environment's faults are recorded no longer, and its state may be bad again after any physics step.
        is_bad = ((self._guard.causes & int(STATE_CAUSES)) != 0) | self._guard.benched
        # On CUDA this waits for the physics, as Isaac Lab does a little later to see who is done.
        env_ids = is_bad.nonzero().squeeze(-1)
        if len(env_ids) > 0:
            self._state.restore_defaults(env_ids)

    def check_dones(
        self, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """End the episodes of environments with a fault in this step, in the way that ``cfg.ends`` names.

        Args:
            terminated: Conclusion of the task, shape (num_envs,), bool; not changed. Ignored where faulty or benched.
            truncated: Environments out of time, likewise. It counts in benched environments, too: an evaluation waits
                for the ends of all environments' episodes.

        Returns:
            Both masks to take in their place, and that of the environments in which the task cannot count as fulfilled:
            terminated by it, faulty or benched. None if it is known that there is no fault.
        """
        guard = self._guard
        if guard.has_no_known_faults():
            return None

        guarded = torch.empty_like(guard.benched), torch.empty_like(guard.benched), torch.empty_like(guard.benched)
        arrays = [terminated.contiguous(), truncated.contiguous(), *guarded]
        guard.launch("dones", kernels.check_dones, guard.num_envs, arrays, self._ending)
        return guarded

    def check_reward(self, reward: torch.Tensor) -> torch.Tensor | None:
        """Check the reward, set it to 0 in excluded environments, and end the episodes in which it is bad.

        ``reward`` (num_envs,), float32, is changed in place. Returns the environments in which it does not count, shape
        (num_envs,), bool; None if it is known that all do.
        """
        guard = self._guard
        low, high = self._reward_bounds
        if guard.has_no_known_faults() and is_within(reward, low, high):
            return None

        # Isaac Lab reads the masks after the rewards, so a bad reward still ends the episode in this step.
        env = self._env
        uncounted = torch.empty_like(guard.benched)
        arrays = [reward, env.reset_terminated, env.reset_time_outs, env.reset_buf, uncounted]
        guard.launch("reward", kernels.check_reward, guard.num_envs, arrays, lambda: [low, high, *self._ending()])
        guard.raise_if(uncounted, "reward")
        return uncounted

    def _ending(self) -> list[Any]:
        return [self._guard.repairs, self._as_termination, self._guard.findings]

    def on_reset(self, env_ids: torch.Tensor) -> None:
        """Prepare for the new episodes of environments, shape (M,), int64."""
        self._guard.on_reset(env_ids)

    def check_depth(self, images: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Check planar depth [m] by the name of the camera, each (num_envs, H, W), float32.

        Returns the images to use, which mode ``sanitize`` repairs in place. Faults count among those of the next
        :meth:`check_observations`.
        """
        self._bad_depth = self._guard.check(Cause.DEPTH, *images.values(), names=tuple(images))
        return images

    def check_observations(self, groups: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Check observation groups (num_envs, ...), float16 or float32; mode ``sanitize`` repairs them in place.

        Returns two masks (num_envs,), bool: environments with observations that become zeros, bad or benched, and those
        with an episode that ends, bad and not benched. None if it is known that there are none.
        """
        guard = self._guard
        bad = guard.check(Cause.OBSERVATION, *groups.values(), names=tuple(groups))
        if guard.repairs or guard.has_no_known_faults():
            return None

        found = torch.empty_like(bad), torch.empty_like(bad)
        arrays = [bad, bad if self._bad_depth is None else self._bad_depth, *found]
        guard.launch("observations", kernels.hide_observations, guard.num_envs, arrays, lambda: [guard.findings])
        return found

    def end_by_observation(
        self, ended: torch.Tensor, reward: torch.Tensor, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> None:
        """End the episodes of ``ended`` after the step's resets, in the way that ``cfg.ends`` names, with reward 0.

        All are (num_envs,): ``reward`` float32, the others bool; all but ``ended`` are changed in place.
        """
        arrays = [ended, reward, terminated, truncated, self._env.reset_buf]
        guard = self._guard
        guard.launch("end", kernels.end_episodes, guard.num_envs, arrays, lambda: [self._as_termination])

    def reset_later(self, mask: torch.Tensor) -> None:
        """Have environments, a mask of shape (num_envs,), bool, reset before the next physics step."""
        self._guard.awaiting_reset |= mask

    def end_step(self) -> None:
        """Update the bench."""
        self._guard.end_step()

    def log(self) -> dict[str, torch.Tensor]:
        """Return the guard's counters, for the training log; see :meth:`Guard.log`."""
        return self._guard.log()


class NoStepGuard:
    """Takes the place of a :class:`StepGuard` in mode ``disabled``: none of the guard's code runs in a step."""

    def begin_step(self, action: torch.Tensor) -> torch.Tensor:
        """Return the action."""
        return action

    def check_depth(self, images: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the images."""
        return images

    def log(self) -> dict[str, torch.Tensor]:
        """Return no counters."""
        return {}

    def _nothing(self, *_: Any) -> None:
        """Find nothing and change nothing."""

    before_reset_all = check_state = check_dones = check_reward = on_reset = _nothing
    check_observations = end_by_observation = reset_later = end_step = _nothing
