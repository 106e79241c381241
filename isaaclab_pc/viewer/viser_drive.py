# SPDX-License-Identifier: BSD-3-Clause
"""The tab of viser's page from which a person drives the arm: sliders and keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from isaaclab_pc.viewer.arm_drive import ArmDrive

__all__ = ["DrivePanel"]

_STOP_KEY = "X"


class DrivePanel:
    """Sliders of the action's components, and the keys that move them."""

    def __init__(self, gui: Any, drive: ArmDrive, num_envs: int) -> None:
        """Add the inputs to viser's open container.

        Args:
            gui: viser's ``GuiApi``.
            drive: Gets the person's requests.
            num_envs: Environments to choose from.
        """
        self._gui = gui
        self._drive = drive
        envs = [str(env) for env in range(num_envs)]
        self.env = gui.add_dropdown("Drive environment", envs, hint="The others hold still.")
        self.env.on_update(lambda _: self._choose())
        self.sliders = [self._add_slider(index) for index in range(len(drive.motions))]
        """One for each motion."""
        for index, motion in enumerate(drive.motions):
            for key, direction, sign in zip(motion.keys or (), (-1.0, 1.0), "-+", strict=False):
                self._add_key(key, f"{motion.name} {sign}", partial(self.press, index, direction))
        if not all(motion.stays for motion in drive.motions):
            stop = gui.add_button("Stop", hint=f"Sliders of motions go back to 0; key {_STOP_KEY}.")
            stop.on_click(lambda _: self.stop())
            self._add_key(_STOP_KEY, "Stop", self.stop)

    def press(self, index: int, direction: float) -> None:
        """Move by a motion's key."""
        self._drive.press(index, direction)
        self._show()

    def stop(self) -> None:
        """Stop all motions."""
        self._drive.stop()
        self._show()

    def _choose(self) -> None:
        # The environment that was driven rests, as all others do.
        self.stop()
        self._drive.env = int(self.env.value)

    def _add_slider(self, index: int) -> Any:
        motion = self._drive.motions[index]
        name = motion.name if motion.keys is None else "{} ({}/{})".format(motion.name, *motion.keys)
        slider = self._gui.add_slider(name, -1.0, 1.0, 0.01, round(motion.start, 2), hint=motion.meaning)

        def move() -> None:
            self._drive.values[index] = float(slider.value)

        slider.on_update(lambda _: move())
        return slider

    def _add_key(self, key: str, label: str, act: Callable[[], None]) -> None:
        self._gui.add_command(label, hotkey=key).on_trigger(lambda _: act())

    def _show(self) -> None:
        """Put the sliders at the drive's values."""
        for slider, value in zip(self.sliders, self._drive.values, strict=True):
            if slider.value != value:
                slider.value = value
