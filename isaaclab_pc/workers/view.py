# SPDX-License-Identifier: BSD-3-Clause
"""Show a few environments in a browser, or record them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards.recorder import Recorder
from isaaclab_pc.launch.child_process import SignalFlag
from isaaclab_pc.launch.worker import ViewJob
from isaaclab_pc.program_name import command_line
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import choices_of
from isaaclab_pc.settings.run import SETTINGS
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.viz.arm_drive import ArmDrive
from isaaclab_pc.viz.controls import Controls
from isaaclab_pc.viz.point_colors import color_ways
from isaaclab_pc.viz.scene_frame import SceneLayout
from isaaclab_pc.workers.driving import drive_of, driven
from isaaclab_pc.workers.live_view import VISER_PORT, WEB_PORT, rerun_viewer
from isaaclab_pc.workers.picture_camera import add_picture_camera, read_pictures, usual_view
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import Resolved, resolve
from isaaclab_pc.workers.session import guard_counts, open_env, open_session, record_faults
from isaaclab_pc.workers.watch import Act, Watch

if TYPE_CHECKING:
    from isaaclab_pc.viz.mp4_recording import Mp4Recording
    from isaaclab_pc.viz.rerun_recording import RerunRecording
    from isaaclab_pc.viz.viser_page import ViserPage
    from isaaclab_pc.viz.viser_panel import SettingField

__all__ = ["view"]

PANEL_SETTINGS = (
    *("points.num_points", "points.sampler", "points.realism"),
    *("physics.dt", "physics.substeps", "physics.position_iterations", "physics.velocity_iterations"),
)
"""Settings that the panel changes: the environments are built again with them."""

FILM = ".mp4"
"""End of the name of a recording that is a film."""


def view(options: ViewJob, folder: Path, screen: Screen) -> int:
    """Show environments in a browser until the process is stopped, or record them.

    Args:
        options: Who acts under which settings, and where to show it.
        folder: Where dumps of failures go.
        screen: What the user sees.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings do not fit, or the task cannot be shown.
    """
    settings = options.settings
    _resolve(settings, options)
    with SignalFlag() as flag, ExitStack() as stack:

        def stopped() -> bool:
            return bool(flag.received)

        if options.record is not None:
            _record(settings, options, options.record, folder, screen, stopped)
            return flag.exit_code

        if options.visualizer == "rerun":
            _show_in_rerun(settings, options, folder, screen, stopped)
            return flag.exit_code

        from isaaclab_pc.viz.viser_page import ViserPage

        controls = Controls()
        page = ViserPage(settings.host, options.port or VISER_PORT, controls)
        stack.callback(page.close)
        next_settings: RunSettings | None = settings
        while next_settings is not None:
            next_settings = _show(next_settings, options, page, controls, folder, screen, stopped)
        return flag.exit_code


def _record(
    settings: RunSettings,
    options: ViewJob,
    path: Path,
    folder: Path,
    screen: Screen,
    stopped: Callable[[], bool],
) -> None:
    """Write a recording."""
    controls = Controls()
    controls.speed = math.inf
    with _open(settings, options, folder) as opened, ExitStack() as stack:
        watch = Watch(opened.env, opened.act, controls, recorder=opened.recorder)
        recording = _recording(path, opened.env.unwrapped, watch.reader.layout, options.color)
        stack.callback(recording.close)
        watch.outputs.append(recording.write)
        steps = options.steps or opened.env.unwrapped.max_episode_length
        screen.end_phase()
        screen.say(f"recording {steps} steps of {settings.num_envs} environments, {opened.actor} acts")
        watch.run(settings.seed, steps, stopped)
        _report_faults(opened, screen)
    shows = "any player" if path.suffix == FILM else f"rerun {path}"
    screen.say(f"{path.stat().st_size / 1e6:.1f} MB; {shows} shows it")


def _recording(path: Path, env: Any, layout: SceneLayout, color: str) -> RerunRecording | Mp4Recording:
    """Begin the recording that the path's end names."""
    if path.suffix == FILM:
        from isaaclab_pc.viz.mp4_recording import Mp4Recording

        return Mp4Recording(path, layout, usual_view(env.cfg), partial(read_pictures, env), color)

    from isaaclab_pc.viz.rerun_recording import RerunRecording

    return RerunRecording(path, layout, color)


def _show_in_rerun(
    settings: RunSettings, options: ViewJob, folder: Path, screen: Screen, stopped: Callable[[], bool]
) -> None:
    """Show environments in rerun's viewer."""
    with _open(settings, options, folder) as opened, ExitStack() as stack:
        watch = Watch(opened.env, opened.act, Controls(), recorder=opened.recorder)
        viewer = rerun_viewer(watch.reader.layout, settings.host, options.color, options.port or WEB_PORT)
        recording, page = stack.enter_context(viewer)
        watch.outputs.append(recording.write)
        screen.end_phase()
        screen.say(f"{opened.actor} acts; watch at {page}, Ctrl-C ends it")
        watch.run(settings.seed, options.steps or math.inf, stopped)
        _report_faults(opened, screen)


def _show(
    settings: RunSettings,
    options: ViewJob,
    page: ViserPage,
    controls: Controls,
    folder: Path,
    screen: Screen,
    stopped: Callable[[], bool],
) -> RunSettings | None:
    """Show environments until somebody stops it; returns the settings to go on with if the page asks for others."""
    asked: list[RunSettings] = []

    def ended() -> bool:
        values = controls.wants_rebuild()
        if values is not None:
            try:
                changed = settings.with_values(values)
                _resolve(changed, options)
                asked.append(changed)
            except ConfigError as error:
                controls.message = f"**not built again:** {error}"
        return bool(asked) or stopped()

    def idle() -> None:
        page.update_status()
        if controls.redraw:
            controls.redraw = False
            page.redraw()

    with _open(settings, options, folder) as opened:
        watch = Watch(opened.env, opened.act, controls, [page.show], opened.recorder)
        title = (
            f"### {settings.task}\n{opened.actor} acts · {settings.physics.backend} · {settings.num_envs} environments"
        )
        page.begin(watch.reader.layout, title, _fields(settings), options.color, opened.drive)
        controls.message = ""
        screen.end_phase()
        screen.say(f"{opened.actor} acts; watch at {page.url}, Ctrl-C ends it")
        watch.run(settings.seed, options.steps or math.inf, ended, idle)
        _report_faults(opened, screen)
    return asked[0] if asked and not stopped() else None


@dataclass(frozen=True)
class _Opened:
    """Running environments and who acts in them."""

    env: Any
    """The gym environment."""

    act: Act
    """The policy."""

    actor: str
    """Its name for people."""

    recorder: Recorder | None
    """Writes the last steps of environments that fail; None where the guard is off."""

    drive: ArmDrive | None
    """Actions that a person asks for; None where somebody else acts."""


@contextmanager
def _open(settings: RunSettings, options: ViewJob, folder: Path) -> Iterator[_Opened]:
    """Build the environments and whoever acts in them."""
    assert settings.num_envs != "auto"
    drive = None

    def prepare(cfg: Any) -> None:
        cfg.drawn = True
        if options.record is not None and options.record.suffix == FILM:
            add_picture_camera(cfg, usual_view(cfg))

    with ExitStack() as stack:
        if options.checkpoint is not None:
            session = stack.enter_context(open_session(settings, settings.num_envs, "view", folder, prepare=prepare))
            session.runner.load_policy(options.checkpoint, {"task": settings.task})
            env, act, actor = session.env, session.runner.act, f"the policy {options.checkpoint}"
        else:
            env = stack.enter_context(open_env(_resolve(settings, options), prepare=prepare))
            actor = options.policy or ("expert" if hasattr(env.unwrapped, "expert") else "random")
            drive = drive_of(env.unwrapped) if actor == "keyboard" else None
            act = driven(env.unwrapped, drive) if drive is not None else _make_policy(env.unwrapped, actor, settings)

        recorder = record_faults(env, settings, settings.physics.backend, folder / "dumps")
        yield _Opened(env, act, actor, recorder, drive)


def _make_policy(env: Any, name: str, settings: RunSettings) -> Act:
    """Return a policy that reads no observations."""
    if name == "expert":
        expert = env.expert()
        return lambda _: expert()
    if name == "random":
        actions = RandomActions(env.num_envs, env.cfg.action_space, env.device, settings.seed)
        return lambda _: actions()
    zeros = torch.zeros(env.num_envs, env.cfg.action_space, device=env.device)
    return lambda _: zeros


def _resolve(settings: RunSettings, options: ViewJob) -> Resolved:
    """Resolve the settings, and refuse what cannot be shown."""
    import gymnasium as gym

    from isaaclab_pc.envs import PointCloudEnvCfg

    assert settings.num_envs != "auto"
    resolved = resolve(settings, settings.num_envs, "view")
    if not isinstance(resolved.env_cfg, PointCloudEnvCfg):
        raise ConfigError(
            f"task={settings.task} is no task with this package's point clouds. scripts/train.py and scripts/play.py "
            "show any task's scene with visualizer=viser."
        )
    if options.policy == "expert" and not hasattr(_load(gym.spec(settings.task).entry_point), "expert"):
        raise ConfigError(f"policy=expert: {settings.task} has no expert. Use policy=random, zero or a run.")
    points = resolved.env_cfg.scene.points
    if settings.obs == "points" and points is not None:
        ways = color_ways(points)
        if options.color not in ways:
            raise ConfigError(f"color={options.color}: this cloud's sensor knows {', '.join(ways)}.")
    return resolved


def _load(entry_point: Any) -> Any:
    from gymnasium.envs.registration import load_env_creator

    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _fields(settings: RunSettings) -> list[SettingField]:
    """Return what the panel may change, with the present values."""
    from isaaclab_pc.viz.viser_panel import SettingField

    values = settings.flat()
    return [
        SettingField(key, values[key], SETTINGS[key].meaning, choices_of(SETTINGS[key].type)) for key in PANEL_SETTINGS
    ]


def _report_faults(opened: _Opened, screen: Screen) -> None:
    """Say what the guard found, if it found anything."""
    counts = {cause: count for cause, count in guard_counts(opened.env).items() if count > 0}
    if counts:
        found = ", ".join(f"{cause} {count}" for cause, count in counts.items())
        screen.say(f"the guard found: {found}")
    if opened.recorder is not None:
        opened.recorder.flush()
        for path in opened.recorder.paths:
            screen.say(f"replay: {command_line('replay', f'dump={path}')}")
