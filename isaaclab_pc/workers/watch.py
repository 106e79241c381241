# SPDX-License-Identifier: BSD-3-Clause
"""Step one environment as a person who watches asks for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from isaaclab_pc.guards.recorder import Recorder
from isaaclab_pc.program_name import command_line
from isaaclab_pc.viz.controls import Controls
from isaaclab_pc.viz.scene_frame import SceneFrame, fault_text
from isaaclab_pc.viz.scene_reader import SceneReader

__all__ = ["Act", "Watch"]

_IDLE_S = 0.01
"""Time between two looks at what the person asks for [s]."""

Act = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""A policy, from the observations to actions (N, A)."""


class Watch:
    """Steps an environment as its :class:`~isaaclab_pc.viz.controls.Controls` say, and hands every frame on."""

    def __init__(
        self,
        env: Any,
        act: Act,
        controls: Controls,
        outputs: Sequence[Callable[[SceneFrame], object]] = (),
        recorder: Recorder | None = None,
    ) -> None:
        """Prepare; :meth:`run` begins.

        Args:
            env: The gym environment, of a :class:`~isaaclab_pc.envs.PointCloudEnv`.
            act: The policy.
            controls: What the person asks for.
            outputs: What draws or writes the frames.
            recorder: Writes the last steps of environments that fail, for a replay.
        """
        self.reader = SceneReader(env.unwrapped)
        """Reads the frames."""
        self.outputs = list(outputs)
        """Draws or writes the frames."""
        self._env = env
        self._act = act
        self._controls = controls
        self._recorder = recorder

    def run(
        self,
        seed: int,
        steps: float = math.inf,
        stopped: Callable[[], bool] = lambda: False,
        idle: Callable[[], object] = lambda: None,
    ) -> None:
        """Step until it is stopped.

        Args:
            seed: Seed of the first reset.
            steps: Steps after which it ends.
            stopped: Asked all the time whether to end.
            idle: Called all the time while no step is due.
        """
        step_s = self._env.unwrapped.step_dt
        with torch.no_grad():
            observations = self._reset(seed)
            taken = 0
            while taken < steps and not stopped():
                if self._controls.wants_reset():
                    observations = self._reset(None)
                if not self._controls.wants_step(step_s):
                    idle()
                    time.sleep(_IDLE_S)
                    continue

                actions = self._act(observations)
                result = self._env.step(actions)
                observations = result[0]
                self._hand_on(self.reader.after_step(actions, result))
                taken += 1

    def _reset(self, seed: int | None) -> Mapping[str, torch.Tensor]:
        observations, _ = self._env.reset(seed=seed)
        self._hand_on(self.reader.after_reset(observations))
        return observations

    def _hand_on(self, frame: SceneFrame) -> None:
        if frame.has_fault:
            faults = [f"env {env}: {fault_text(frame, env)}" for env, causes in enumerate(frame.faults) if causes]
            self._controls.saw_fault("; ".join(faults) + self._replay_hint())
        for output in self.outputs:
            output(frame)

    def _replay_hint(self) -> str:
        """Return how to replay the newest dump; empty where there is none."""
        if self._recorder is None:
            return ""
        # The file is written some steps later otherwise, and while it stands still there are none.
        self._recorder.flush()
        paths = self._recorder.paths
        return f"\n\n`{command_line('replay', f'dump={paths[-1]}')}`" if paths else ""
