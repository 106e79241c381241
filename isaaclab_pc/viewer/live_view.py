# SPDX-License-Identifier: BSD-3-Clause
"""The page of ``scripts/view.py`` beside a run of another script."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import torch

from isaaclab_pc.faults.replay_result import Reading
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import SceneFrame
from isaaclab_pc.viewer.scene_reader import SceneReader

PERIOD = 0.1
"""Least time between two frames [s]: reading and drawing one takes time from the run."""


class LiveView(StepHook):
    """Shows the scene after a step, at most every :data:`PERIOD`."""

    def __init__(self, env: Any, show: Callable[[SceneFrame], object], reader: SceneReader) -> None:
        """Wait for the first step."""
        self._env = env
        self._show = show
        self._reader = reader
        self._actions = torch.zeros(0)
        self._steps = 0
        self._next = 0.0

    def before_step(self, action: torch.Tensor) -> None:
        """Keep the policy's action."""
        self._actions = action

    def after_step(self) -> None:
        """Show the step, if a frame is due."""
        self._steps += 1
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        env = self._env
        result = (env.obs_buf, env.reward_buf, env.reset_terminated, env.reset_time_outs, env.extras)
        self._show(replace(self._reader.after_step(self._actions, result), step=self._steps))

    def show_physics_step(self, step: float, worst: Reading | None, value: float) -> None:
        """Show a physics step of a replay: ``step`` counts those of the history, and the fraction of the running one.

        ``worst`` is the reading that was found to fail first, None: nothing failed; ``value`` is its present value.
        """
        self._show(self._reader.after_physics_step(step, worst, value))


@contextmanager
def live_view(env: Any, host: str, title: str) -> Iterator[None]:
    """Show an unwrapped environment, of a task of this package, on viser's page at an address while it runs."""
    from isaaclab_pc.viewer.viser_page import VISER_PORT, ViserPage

    reader = SceneReader(env)
    with closing(ViserPage(host, VISER_PORT, Controls())) as page:
        page.begin(reader.layout, f"### {title}")
        current().say(f"watch at {page.url}")
        # For a replay, which takes physics steps by itself.
        env.live_view = LiveView(env, page.show, reader)
        remove = add_step_hook(env, env.live_view)
        try:
            yield
        finally:
            remove()
