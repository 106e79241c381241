# SPDX-License-Identifier: BSD-3-Clause
"""Step an environment at the requests of a person who watches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import SceneFrame, fault_text
from isaaclab_pc.viewer.scene_reader import SceneReader

__all__ = ["Act", "Watch"]

_IDLE_S = 0.01
"""Time between two looks at the requests [s]."""

Act = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""A policy, from the observations to actions (N, A)."""


class Watch:
    """Steps an environment as :class:`~isaaclab_pc.viewer.controls.Controls` say, and shows every frame."""

    def __init__(self, env: Any, act: Act, controls: Controls, recorder: Recorder | None = None) -> None:
        """Prepare; :meth:`run` begins.

        Args:
            env: The gym environment, of a :class:`~isaaclab_pc.envs.PointCloudEnv`.
            act: The policy.
            controls: Requests of the person.
            recorder: Writes the last steps of environments that fail, for a replay.
        """
        self.env = env
        """The gym environment."""
        self.recorder = recorder
        """Recorder of failures; None: they are not recorded."""
        self.reader = SceneReader(env.unwrapped)
        """Reader of the frames."""
        self._act = act
        self._controls = controls

    def run(
        self,
        show: Callable[[SceneFrame], object],
        seed: int,
        steps: float = math.inf,
        stopped: Callable[[], bool] = lambda: False,
        idle: Callable[[], object] = lambda: None,
    ) -> None:
        """Step until it is stopped."""
        step_s = self.env.unwrapped.step_dt
        with torch.no_grad():
            observations, _ = self.env.reset(seed=seed)
            self._hand_on(self.reader.after_reset(observations), show)
            taken = 0
            while taken < steps and not stopped():
                if self._controls.take_reset():
                    observations, _ = self.env.reset()
                    self._hand_on(self.reader.after_reset(observations), show)
                if not self._controls.take_step(step_s):
                    idle()
                    time.sleep(_IDLE_S)
                    continue

                actions = self._act(observations)
                result = self.env.step(actions)
                observations = result[0]
                self._hand_on(self.reader.after_step(actions, result), show)
                taken += 1

    def _hand_on(self, frame: SceneFrame, show: Callable[[SceneFrame], object]) -> None:
        if any(frame.faults):
            self._controls.saw_fault(self._describe_faults(frame))
        show(frame)

    def _describe_faults(self, frame: SceneFrame) -> str:
        """Return the faults of a frame, and how to replay the newest dump."""
        text = "; ".join(f"env {env}: {fault_text(frame, env)}" for env, causes in enumerate(frame.faults) if causes)
        if self.recorder is None:
            return text
        # Otherwise the file is written some steps later, and while the environment stands still there are none.
        self.recorder.flush()
        paths = self.recorder.paths
        return f"{text}\n\n`{command_line('replay', f'dump={paths[-1]}')}`" if paths else text
