# SPDX-License-Identifier: BSD-3-Clause
"""The panel of a page of viser's: controls, what is drawn, one environment's curves, and settings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import viser
from viser import uplot

from isaaclab_pc.viz.arm_drive import ArmDrive
from isaaclab_pc.viz.controls import Controls
from isaaclab_pc.viz.scene_frame import SceneFrame, SceneLayout, fault_text
from isaaclab_pc.viz.scene_pictures import depth_picture
from isaaclab_pc.viz.viser_drive import DrivePanel
from isaaclab_pc.viz.viser_scene import LAYERS, ViserScene

__all__ = ["AS_TASK", "Panel", "SettingField"]

HISTORY = 300
"""Steps that the curves show."""

AS_TASK = "as the task"
"""Entry for no value in a list of choices."""

_CURVES = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
_LOG_LENGTH = 8


@dataclass(frozen=True)
class SettingField:
    """One setting that the panel changes."""

    key: str
    """Dotted name."""

    value: Any
    """Present value; None is the task's own."""

    meaning: str
    """A sentence or two."""

    choices: tuple[str, ...] = ()
    """Names that it takes; empty for a number."""


class Panel:
    """The panel of one layout. Its inputs are attributes, and what they do are methods."""

    def __init__(
        self,
        server: viser.ViserServer,
        scene: ViserScene,
        layout: SceneLayout,
        controls: Controls,
        title: str,
        fields: Sequence[SettingField] | None,
        color: str,
        drive: ArmDrive | None = None,
    ) -> None:
        """Take the place of the panel that is there.

        Args:
            server: The server.
            scene: What it shows.
            layout: What does not change.
            controls: Told what the person asks for.
            title: What runs, as Markdown.
            fields: Settings that the environments can be built again with; None: there are no controls at all.
            color: Which of the layout's ways colours the points at first.
            drive: Told how the person drives the arm; None: somebody else acts.
        """
        self._gui = server.gui
        self._scene = scene
        self._layout = layout
        self._controls = controls
        self._has_controls = fields is not None
        self._fields = {field.key: field for field in fields or ()}
        self._history: deque[SceneFrame] = deque(maxlen=HISTORY)
        self._log: deque[str] = deque(maxlen=_LOG_LENGTH)

        self._gui.reset()
        self._gui.add_markdown(title)
        self.status = self._gui.add_markdown("")
        if self._has_controls:
            self._add_buttons()
        tabs = self._gui.add_tab_group()
        if drive is not None:
            with tabs.add_tab("Drive"):
                self.drive = DrivePanel(self._gui, drive, layout.num_envs)
        with tabs.add_tab("Scene"):
            self._add_display(color)
        with tabs.add_tab("Environment"):
            self._add_environment()
        if self._has_controls:
            with tabs.add_tab("Settings"):
                self._add_settings()

    # What the inputs do.

    def press(self, button: str) -> None:
        """Do what a button of the first row says."""
        self._handlers[button]()

    def build_again(self) -> None:
        """Ask for environments with the settings that were changed."""
        values = {key: _read(handle.value) for key, handle in self.settings.items()}
        changed = {key: value for key, value in values.items() if value != self._fields[key].value}
        if changed:
            self._controls.message = "building the environments again"
            self._controls.rebuild(changed)
        else:
            self._controls.message = "no setting was changed"

    # What it shows.

    def remember(self, frame: SceneFrame) -> None:
        """Add a frame to the curves and to the log."""
        if self._history and frame.step <= self._history[-1].step:
            # It began anew.
            self._history.clear()
        if frame.actions is not None or frame.watched:
            # Without what takes memory: the curves show numbers only.
            self._history.append(replace(frame, part_poses=(), cameras=(), cloud=None, cloud_colors={}))
        for env in range(self._layout.num_envs):
            fault = fault_text(frame, env)
            if fault:
                self._log.appendleft(f"step {frame.step:g}, env {env}: {fault}")

    def draw(self, frame: SceneFrame) -> None:
        """Show the numbers of the environment that was chosen."""
        env = int(self.env.value)
        _set(self._facts, "content", _facts(frame, env))
        for curves in self.curves.values():
            curves.draw(self._history, env)
        for camera in frame.cameras:
            image = self.depth[camera.name]
            image.image = depth_picture(camera.depth[env])
            _set(image, "visible", True)
        _set(self.log, "content", "\n\n".join(("**Guard, all environments**", *(self._log or ("nothing found",)))))

    def say(self, step: float) -> None:
        """Say what runs at the moment."""
        controls = self._controls
        text = f"Step {step:g} ({step * self._layout.step_s:.1f} s)"
        if self._has_controls:
            doing = "**paused**" if controls.paused else f"running, {controls.speed:g} x real time at most"
            text += f" · {doing}"
        _set(self.status, "content", f"{text}\n\n{controls.message}" if controls.message else text)

    # Its parts.

    def _add_buttons(self) -> None:
        controls = self._controls
        self._handlers: dict[str, Callable[[], None]] = {
            "Run": controls.run,
            "Pause": controls.pause,
            "Step": controls.step,
            "To next fault": controls.run_to_fault,
            "Reset": controls.reset,
        }
        buttons = self._gui.add_button_group(
            "Control",
            tuple(self._handlers),
            hint="A fault is what the guard finds: a value that is not finite or too large.",
        )
        buttons.on_click(lambda _: self.press(buttons.value))
        self.speed = self._gui.add_slider("Speed", 0.05, 1.0, 0.05, controls.speed, hint="Times real time, at most.")
        self.speed.on_update(lambda _: setattr(controls, "speed", self.speed.value))

    def _add_display(self, color: str) -> None:
        # Without a cloud there is nothing to colour, and nothing to choose from.
        ways = tuple(self._layout.color_names)
        has_cloud = bool(ways)
        self.color = self._gui.add_dropdown(
            "Colour points by", ways or (color,), initial_value=color, visible=has_cloud
        )
        self._legend = self._gui.add_markdown("", visible=has_cloud)
        self.point_size = self._gui.add_slider("Point size [mm]", 1, 30, 1, 12, visible=has_cloud)
        self.color.on_update(lambda _: self._on_color())
        self.point_size.on_update(lambda _: self._ask_redraw())
        self._on_color()
        self.layers = {layer: self._add_layer(layer) for layer in LAYERS}

    def _add_layer(self, layer: str) -> Any:
        box = self._gui.add_checkbox(layer.capitalize(), initial_value=True)
        box.on_update(lambda _: self._scene.show_layer(layer, box.value))
        return box

    def _on_color(self) -> None:
        names = self._layout.color_names.get(self.color.value, ())
        self._legend.content = " · ".join(names)
        self._ask_redraw()

    def _ask_redraw(self) -> None:
        self._controls.redraw = True

    def _add_environment(self) -> None:
        self.env = self._gui.add_dropdown("Environment", [str(env) for env in range(self._layout.num_envs)])
        self.env.on_update(lambda _: self._ask_redraw())
        self._facts = self._gui.add_markdown("")
        curves = {"What failed": _watched, "Reward and its terms": _rewards, "Actions": _actions}
        place = self._gui.add_folder("Curves")
        self.curves = {title: _Curves(self._gui, place, title, values) for title, values in curves.items()}
        # Until the first images come.
        nothing = np.zeros((3, 4, 3), np.uint8)
        self.depth = {
            name: self._gui.add_image(nothing, label=f"Depth, {name}", format="png", visible=False)
            for name in self._layout.cameras
        }
        self.log = self._gui.add_markdown("")

    def _add_settings(self) -> None:
        self._gui.add_markdown("The environments are built again with what is changed here. Empty: the task's own.")
        self.settings = {key: self._add_setting(field) for key, field in self._fields.items()}
        self._gui.add_button("Build again").on_click(lambda _: self.build_again())

    def _add_setting(self, field: SettingField) -> Any:
        if field.choices:
            options = (AS_TASK, *field.choices)
            return self._gui.add_dropdown(field.key, options, initial_value=field.value or AS_TASK, hint=field.meaning)
        return self._gui.add_text(field.key, "" if field.value is None else str(field.value), hint=field.meaning)


class _Curves:
    """A diagram of several values over the last steps."""

    def __init__(
        self, gui: Any, place: Any, title: str, values: Callable[[SceneFrame, int], Mapping[str, float]]
    ) -> None:
        self._gui = gui
        self._place = place
        self._title = title
        self._values = values
        self.plot: Any = None

    def draw(self, history: Sequence[SceneFrame], env: int) -> None:
        names = list(self._values(history[-1], env)) if history else []
        if not names:
            return
        steps = np.array([frame.step for frame in history], np.float64)
        rows = [self._values(frame, env) for frame in history]
        data = (steps, *(np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names))
        if self.plot is not None:
            self.plot.data = data
            return

        series = [uplot.Series(label="step")]
        for index, name in enumerate(names):
            series.append(uplot.Series(label=name, stroke=_CURVES[index % len(_CURVES)], width=1.5))
        with self._place, self._gui.add_folder(self._title):
            scales = {"x": uplot.Scale(time=False)}
            self.plot = self._gui.add_uplot(data, tuple(series), scales=scales, aspect=1.8)


def _watched(frame: SceneFrame, env: int) -> dict[str, float]:
    return frame.watched


def _rewards(frame: SceneFrame, env: int) -> dict[str, float]:
    if frame.reward is None:
        return {}
    return {"total": frame.reward[env], **{name: value[env] for name, value in frame.reward_terms.items()}}


def _actions(frame: SceneFrame, env: int) -> dict[str, float]:
    if frame.actions is None:
        return {}
    return {str(index): value for index, value in enumerate(frame.actions[env])}


def _facts(frame: SceneFrame, env: int) -> str:
    """Return an environment's numbers as Markdown."""
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


def _set(handle: Any, name: str, value: Any) -> None:
    """Change a property where it is another one: each change is a message to every browser."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)


def _read(text: str) -> Any:
    """Return what was typed: a number, a name, or None for nothing."""
    text = text.strip()
    if text in ("", AS_TASK):
        return None
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
