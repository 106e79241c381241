# SPDX-License-Identifier: BSD-3-Clause
"""The scene of ``scripts/view.py`` beside a run of another script: what its policy sees, while it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.launch.replay_result import Reading
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.viz.controls import Controls
from isaaclab_pc.viz.scene_frame import SceneFrame, SceneLayout
from isaaclab_pc.viz.scene_reader import SceneReader
from isaaclab_pc.workers.browser_visualizers import rerun_server

if TYPE_CHECKING:
    from isaaclab_pc.viz.rerun_recording import RerunRecording

__all__ = ["VISER_PORT", "LiveView", "live_view", "rerun_viewer"]

PERIOD = 0.1
"""Least time between two frames [s]: reading and drawing one takes time from the run."""

VISER_PORT = 8080
GRPC_PORT, WEB_PORT = 9876, 9090
"""Isaac Lab's defaults, of its visualizers of the same names; the next free ones where they are taken."""


class LiveView(StepHook):
    """Hands on what there is to see after a step, at most every :data:`PERIOD`."""

    def __init__(self, env: Any, outputs: Sequence[Callable[[SceneFrame], object]], reader: SceneReader) -> None:
        """Wait for the first step.

        Args:
            env: The unwrapped environment.
            outputs: What draws the frames.
            reader: Reads them.
        """
        self._env = env
        self._outputs = outputs
        self._reader = reader
        self._actions = torch.zeros(0)
        self._steps = 0
        self._next = 0.0

    def before_step(self, action: torch.Tensor) -> None:
        """Keep what the policy asks for."""
        self._actions = action

    def after_step(self) -> None:
        """Show the step, where it is time for one."""
        self._steps += 1
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        env = self._env
        result = (env.obs_buf, env.reward_buf, env.reset_terminated, env.reset_time_outs, env.extras)
        self._show(replace(self._reader.after_step(self._actions, result), step=self._steps))

    def show_physics_step(self, step: float, worst: Reading | None, value: float) -> None:
        """Show a physics step of a replay, which takes steps of its own.

        Args:
            step: Steps of the history, and the share of the one that runs.
            worst: What the replay found; None: nothing.
            value: What that is now.
        """
        if worst is None:
            self._show(self._reader.after_physics_step(step, "", "", "", {}))
            return
        text = f"{worst.name} {worst.quantity}: {value:.4g}, bound {worst.bound:g}"
        watched = {worst.quantity: value if math.isfinite(value) else math.nan, "bound": worst.bound}
        self._show(self._reader.after_physics_step(step, worst.asset, worst.name, text, watched))

    def _show(self, frame: SceneFrame) -> None:
        for output in self._outputs:
            output(frame)


@contextmanager
def live_view(env: Any, names: Sequence[str], host: str, title: str) -> Iterator[None]:
    """Show an environment in browsers while it runs.

    Args:
        env: The unwrapped environment, of a task of this package.
        names: Visualizers, of :data:`~isaaclab_pc.workers.browser_visualizers.LIVE`.
        host: Address to listen on.
        title: What runs.
    """
    reader = SceneReader(env)
    with ExitStack() as stack:
        outputs = [_begin(name, reader, host, title, stack) for name in names]
        # For a replay, which takes physics steps by itself.
        env.live_view = LiveView(env, outputs, reader)
        stack.callback(add_step_hook(env, env.live_view))
        yield


def _begin(name: str, reader: SceneReader, host: str, title: str, stack: ExitStack) -> Callable[[SceneFrame], object]:
    """Start a visualizer; returns what draws a frame there."""
    if name == "viser":
        from isaaclab_pc.viz.viser_page import ViserPage

        page = ViserPage(host, VISER_PORT, Controls())
        stack.callback(page.close)
        page.begin(reader.layout, f"### {title}", fields=None)
        current().say(f"watch at {page.url}")
        return page.show

    recording, page = stack.enter_context(rerun_viewer(reader.layout, host))
    current().say(f"watch at {page}")
    return recording.write


@contextmanager
def rerun_viewer(
    layout: SceneLayout, host: str, color: str = "height", port: int = WEB_PORT
) -> Iterator[tuple[RerunRecording, str]]:
    """Show frames in rerun's viewer, in a browser.

    Args:
        layout: What does not change.
        host: Address to listen on.
        color: Which of the layout's ways colours the points.
        port: Port of the page; the next free one where it is taken, and that is said.

    Yields:
        What draws frames there, and the address that a browser opens.

    Raises:
        ConfigError: There is no free port.
        RuntimeError: The viewer does not start.
    """
    from isaaclab_pc.viz.rerun_recording import RerunRecording

    with (
        rerun_server(host, GRPC_PORT, port) as server,
        closing(RerunRecording(server.address, layout, color)) as recording,
    ):
        yield recording, server.page
