# SPDX-License-Identifier: BSD-3-Clause
"""The part of a page of viser's from which a person drives the arm: sliders and keys."""

from __future__ import annotations

from functools import partial
from typing import Any

from isaaclab_pc.viz.arm_drive import ArmDrive

__all__ = ["DrivePanel"]

STOP_KEY = "X"


class DrivePanel:
    """Sliders of the action's components, and the keys that move them."""

    def __init__(self, gui: Any, drive: ArmDrive, num_envs: int) -> None:
        """Add them where the page is at.

        Args:
            gui: viser's.
            drive: Told what the person asks for.
            num_envs: Environments to choose from.
        """
        self._drive = drive
        self.env = gui.add_dropdown(
            "Drive environment", [str(env) for env in range(num_envs)], hint="The others hold still."
        )
        self.env.on_update(lambda _: self._choose())
        self.sliders = [self._add_slider(gui, index) for index in range(len(drive.motions))]
        """One for each motion."""
        self.commands: dict[str, Any] = {}
        """viser's, by their keys."""
        for index, motion in enumerate(drive.motions):
            for key, direction in zip(motion.keys or (), (-1.0, 1.0), strict=False):
                self._add_key(
                    gui, key, f"{motion.name} {'+' if direction > 0 else '-'}", partial(self.press, index, direction)
                )
        if not all(motion.stays for motion in drive.motions):
            gui.add_button("Stop", hint=f"Sliders of motions go back to 0; key {STOP_KEY}.").on_click(
                lambda _: self.stop()
            )
            self._add_key(gui, STOP_KEY, "Stop", self.stop)

    def press(self, index: int, direction: float) -> None:
        """Do what a motion's key says."""
        self._drive.press(index, direction)
        self._show()

    def stop(self) -> None:
        """Do what the button says."""
        self._drive.stop()
        self._show()

    def _choose(self) -> None:
        # The one that was driven rests, as all others do.
        self.stop()
        self._drive.env = int(self.env.value)

    def _add_slider(self, gui: Any, index: int) -> Any:
        motion = self._drive.motions[index]
        keys = "" if motion.keys is None else " ({}/{})".format(*motion.keys)
        slider = gui.add_slider(f"{motion.name}{keys}", -1.0, 1.0, 0.01, round(motion.start, 2), hint=motion.meaning)

        def moved() -> None:
            self._drive.values[index] = float(slider.value)

        slider.on_update(lambda _: moved())
        return slider

    def _add_key(self, gui: Any, key: str, label: str, act: Any) -> None:
        self.commands[key] = gui.add_command(label, hotkey=key)
        self.commands[key].on_trigger(lambda _: act())

    def _show(self) -> None:
        """Put the sliders where the drive is."""
        for slider, value in zip(self.sliders, self._drive.values, strict=True):
            if slider.value != value:
                slider.value = value
