# SPDX-License-Identifier: BSD-3-Clause
"""The panel of viser's page: controls, layers, curves and images of an environment, and a drive."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex
from viser import uplot

from isaaclab_pc.report.drawing import HEIGHT_SPAN
from isaaclab_pc.viewer.arm_drive import ArmDrive
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import SceneFrame, SceneLayout, curves, fault_text
from isaaclab_pc.viewer.scene_pictures import depth_picture
from isaaclab_pc.viewer.viser_scene import LAYERS, ViserScene

_HISTORY = 300
"""Steps that the curves show."""

_LOG_LENGTH = 8
_CURVES = {"watched": "What failed", "reward": "Reward and its terms", "action": "Actions"}
"""Titles of the diagrams, by the group of their curves."""

_STROKES = [to_hex(color) for color in mpl.colormaps["tab10"](np.arange(10))]
_STOP_KEY = "X"


class Panel:
    """The panel of one layout. Its inputs are attributes, and their effects are methods."""

    def __init__(
        self,
        gui: Any,
        scene: ViserScene,
        layout: SceneLayout,
        controls: Controls,
        title: str,
        has_controls: bool,
        drive: ArmDrive | None,
    ) -> None:
        """Replace what stands in viser's ``GuiApi``; the arguments are those of :meth:`ViserPage.begin`."""
        self._gui = gui
        self._scene = scene
        self._layout = layout
        self._controls = controls
        self._has_controls = has_controls
        self._history: deque[SceneFrame] = deque(maxlen=_HISTORY)
        self._log: deque[str] = deque(maxlen=_LOG_LENGTH)

        gui.reset()
        gui.add_markdown(title)
        self.status = gui.add_markdown("")
        if self._has_controls:
            self._add_buttons()
        tabs = gui.add_tab_group()
        if drive is not None:
            with tabs.add_tab("Drive"):
                self.drive = DrivePanel(gui, drive, layout.num_envs)
        with tabs.add_tab("Scene"):
            self._add_display()
        with tabs.add_tab("Environment"):
            self._add_environment()

    def press(self, button: str) -> None:
        """Press a button of the first row."""
        self._handlers[button]()

    def remember(self, frame: SceneFrame) -> None:
        """Add a frame to the curves and to the log."""
        if self._history and frame.step <= self._history[-1].step:
            # A replay begins anew.
            self._history.clear()
        if frame.actions is not None or frame.watched:
            # The curves show numbers only; the rest takes memory.
            self._history.append(replace(frame, part_poses=(), cameras=(), cloud=None))
        for env in range(self._layout.num_envs):
            if fault := fault_text(frame, env):
                self._log.appendleft(f"step {frame.step:g}, env {env}: {fault}")

    def draw(self, frame: SceneFrame) -> None:
        """Show the numbers and images of the chosen environment."""
        env = int(self.env.value)
        self._facts.content = _facts(frame, env)
        if self._history:
            steps = np.array([past.step for past in self._history], np.float64)
            rows = [curves(past, env) for past in self._history]
            for group, diagram in self.diagrams.items():
                diagram.draw(steps, [row.get(group, {}) for row in rows])
        for camera in frame.cameras:
            image = self.depth[camera.name]
            image.image = depth_picture(camera.depth[env])
            image.visible = True
        self.log.content = "\n\n".join(("**Guard, all environments**", *(self._log or ("nothing found",))))

    def update_status(self, step: float) -> None:
        """Show the present step, and the answer to the last request."""
        controls = self._controls
        text = f"Step {step:g} ({step * self._layout.step_s:.1f} s)"
        if self._has_controls:
            text += " · **paused**" if controls.paused else f" · running, {controls.speed:g} x real time at most"
        self.status.content = f"{text}\n\n{controls.message}" if controls.message else text

    def _add_buttons(self) -> None:
        controls = self._controls
        self._handlers: dict[str, Callable[[], None]] = {
            "Run": controls.run,
            "Pause": controls.pause,
            "Step": controls.step,
            "To next fault": controls.run_to_fault,
            "Reset": controls.reset,
        }
        hint = "A fault is what the guard finds: a value that is not finite or too large."
        buttons = self._gui.add_button_group("Control", tuple(self._handlers), hint=hint)
        buttons.on_click(lambda _: self.press(buttons.value))
        self.speed = self._gui.add_slider("Speed", 0.05, 1.0, 0.05, controls.speed, hint="Times real time, at most.")
        self.speed.on_update(lambda _: setattr(controls, "speed", self.speed.value))

    def _add_display(self) -> None:
        hint = f"Their colours are heights, from 0 m to {HEIGHT_SPAN} m and above."
        has_cloud = self._layout.crop is not None
        self.point_size = self._gui.add_slider("Point size [mm]", 1, 30, 1, 12, hint=hint, visible=has_cloud)
        self.point_size.on_update(lambda _: self._request_redraw())
        self.layers = {layer: self._add_layer(layer) for layer in LAYERS}

    def _add_layer(self, layer: str) -> Any:
        box = self._gui.add_checkbox(layer.capitalize(), initial_value=True)
        box.on_update(lambda _: setattr(self._scene.layers[layer], "visible", box.value))
        return box

    def _request_redraw(self) -> None:
        self._controls.redraw = True

    def _add_environment(self) -> None:
        self.env = self._gui.add_dropdown("Environment", [str(env) for env in range(self._layout.num_envs)])
        self.env.on_update(lambda _: self._request_redraw())
        self._facts = self._gui.add_markdown("")
        folder = self._gui.add_folder("Curves")
        self.diagrams = {group: _Diagram(self._gui, folder, title) for group, title in _CURVES.items()}
        # Until the first images come.
        nothing = np.zeros((3, 4, 3), np.uint8)
        self.depth = {
            name: self._gui.add_image(nothing, label=f"Depth, {name}", format="png", visible=False)
            for name in self._layout.cameras
        }
        self.log = self._gui.add_markdown("")


class DrivePanel:
    """Sliders of an action's components, and the keys that move them."""

    def __init__(self, gui: Any, drive: ArmDrive, num_envs: int) -> None:
        """Add the inputs to viser's open container; the drive gets the person's requests."""
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
        self._follow()

    def stop(self) -> None:
        """Stop all motions."""
        self._drive.stop()
        self._follow()

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

    def _follow(self) -> None:
        """Put the sliders at the drive's values."""
        for slider, value in zip(self.sliders, self._drive.values, strict=True):
            slider.value = value


class _Diagram:
    """Several values over the last steps."""

    def __init__(self, gui: Any, folder: Any, title: str) -> None:
        self._gui = gui
        self._folder = folder
        self._title = title
        self.plot: Any = None

    def draw(self, steps: np.ndarray, rows: Sequence[Mapping[str, float]]) -> None:
        """Draw the values of the last row's names, one row for each step."""
        names = list(rows[-1])
        if not names:
            return
        data = (steps, *(np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names))
        if self.plot is not None:
            self.plot.data = data
            return

        series = [uplot.Series(label="step")]
        for index, name in enumerate(names):
            series.append(uplot.Series(label=name, stroke=_STROKES[index % len(_STROKES)], width=1.5))
        with self._folder, self._gui.add_folder(self._title):
            scales = {"x": uplot.Scale(time=False)}
            self.plot = self._gui.add_uplot(data, tuple(series), scales=scales, aspect=1.8)


def _facts(frame: SceneFrame, env: int) -> str:
    facts = []
    if frame.success is not None:
        facts.append(f"success **{'yes' if frame.success[env] else 'no'}**")
    if frame.cloud is not None:
        distinct = len(np.unique(frame.cloud[env], axis=0))
        facts.append(f"{distinct} distinct points of {len(frame.cloud[env])}")
    if frame.age is not None and frame.age[env] > 0:
        facts.append(f"{frame.age[env]} frames old")
    x, y, z = frame.gripper[env, :3]
    facts.append(f"gripper at {x:.3f}, {y:.3f}, {z:.3f} m")
    return " · ".join(facts)
