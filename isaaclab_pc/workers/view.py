# SPDX-License-Identifier: BSD-3-Clause
"""Show a few environments in a browser, or film them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import load_env_creator

from isaaclab_pc.envs import PointCloudEnvCfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.processes.child_process import SignalFlag
from isaaclab_pc.run.jobs import ViewJob
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.program_name import command_line
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.viewer.arm_drive import ArmDrive, arm_drive
from isaaclab_pc.viewer.controls import Controls
from isaaclab_pc.viewer.scene_frame import SceneFrame, fault_text
from isaaclab_pc.viewer.scene_pictures import add_picture_camera, default_view, read_pictures
from isaaclab_pc.viewer.scene_reader import SceneReader
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import Resolved, resolve
from isaaclab_pc.workers.session import guard_counts, open_env, open_session, record_faults

_IDLE_S = 0.01
"""Time between two looks at the requests [s]."""

Act = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""A policy, from the observations to actions (N, A)."""


def view(job: ViewJob, folder: Path, screen: Screen) -> int:
    """Show environments in a browser until the process is stopped, or film them; the folder is for dumps of faults.

    Raises:
        ConfigError: The settings do not fit, or the task cannot be shown.
    """
    settings = job.settings
    _resolve(settings, job)
    with SignalFlag() as flag:
        viewer = _Viewer(job, folder, screen, lambda: bool(flag.received))
        if job.record is not None:
            viewer.record(settings, job.record)
        else:
            viewer.show(settings)
        return flag.exit_code


@dataclass
class Watch:
    """Steps an environment as :class:`~isaaclab_pc.viewer.controls.Controls` say, and shows every frame."""

    env: Any
    """The gym environment, of a :class:`~isaaclab_pc.envs.PointCloudEnv`."""
    act: Act
    controls: Controls
    recorder: Recorder | None = None
    """Writes the last steps of environments that fail, for a replay."""
    actor: str = ""
    """Who acts, for people."""
    drive: ArmDrive | None = None
    """Actions of a person; None where a policy acts."""

    def __post_init__(self) -> None:
        """Build a reader of the frames."""
        self.reader = SceneReader(self.env.unwrapped)

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
                if self.controls.take_reset():
                    observations, _ = self.env.reset()
                    self._hand_on(self.reader.after_reset(observations), show)
                if not self.controls.take_step(step_s):
                    idle()
                    time.sleep(_IDLE_S)
                    continue

                actions = self.act(observations)
                result = self.env.step(actions)
                observations = result[0]
                self._hand_on(self.reader.after_step(actions, result), show)
                taken += 1

    def _hand_on(self, frame: SceneFrame, show: Callable[[SceneFrame], object]) -> None:
        if any(frame.faults):
            self.controls.saw_fault(self._describe_faults(frame))
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


@dataclass(frozen=True)
class _Viewer:
    """Builds environments, and shows or films them."""

    job: ViewJob
    folder: Path
    screen: Screen
    stopped: Callable[[], bool]

    def record(self, settings: RunSettings, path: Path) -> None:
        """Write a film."""
        from isaaclab_pc.viewer.mp4_recording import Mp4Recording

        controls = Controls()
        controls.speed = math.inf
        with self._open(settings, controls) as watch:
            env = watch.env.unwrapped
            steps = self.job.steps or env.max_episode_length
            self.screen.end_phase()
            self.screen.say(f"recording {steps} steps of {settings.num_envs} environments, {watch.actor} acts")
            view, picture = default_view(env.cfg), partial(read_pictures, env)
            with closing(Mp4Recording(path, watch.reader.layout, view, picture)) as film:
                watch.run(film.write, settings.seed, steps, self.stopped)
            self._report_faults(watch)
        self.screen.say(f"{path.stat().st_size / 1e6:.1f} MB")

    def show(self, settings: RunSettings) -> None:
        """Show environments on a page."""
        from isaaclab_pc.viewer.viser_page import VISER_PORT, ViserPage

        controls = Controls()
        with closing(ViserPage(settings.host, self.job.port or VISER_PORT, controls)) as page:

            def idle() -> None:
                page.update_status()
                if controls.redraw:
                    controls.redraw = False
                    page.redraw()

            with self._open(settings, controls) as watch:
                facts = f"{watch.actor} acts · {settings.physics.backend} · {settings.num_envs} environments"
                title = f"### {settings.task}\n{facts}"
                page.begin(watch.reader.layout, title, has_controls=True, drive=watch.drive)
                self.screen.end_phase()
                self.screen.say(f"{watch.actor} acts; watch at {page.url}, Ctrl-C ends it")
                watch.run(page.show, settings.seed, self.job.steps or math.inf, self.stopped, idle)
                self._report_faults(watch)

    @contextmanager
    def _open(self, settings: RunSettings, controls: Controls) -> Iterator[Watch]:
        """Build the environments, and whoever acts in them."""
        assert settings.num_envs != "auto"
        job = self.job
        drive = None

        def prepare(cfg: Any) -> None:
            cfg.drawn = True
            if job.record is not None:
                add_picture_camera(cfg, default_view(cfg))

        with ExitStack() as stack:
            if job.checkpoint is not None:
                opening = open_session(settings, settings.num_envs, self.folder, prepare=prepare)
                session = stack.enter_context(opening)
                session.runner.load_policy(job.checkpoint, {"task": settings.task})
                env, act, actor = session.env, session.runner.act, f"the policy {job.checkpoint}"
            else:
                env = stack.enter_context(open_env(_resolve(settings, job), prepare=prepare))
                actor = job.policy or ("expert" if hasattr(env.unwrapped, "expert") else "random")
                drive = arm_drive(env.unwrapped) if actor == "keyboard" else None
                act = _make_policy(env.unwrapped, actor, drive, settings.seed)

            recorder = record_faults(env, settings, self.folder / "dumps")
            yield Watch(env, act, controls, recorder, actor, drive)

    def _report_faults(self, watch: Watch) -> None:
        counts = [f"{cause} {count}" for cause, count in guard_counts(watch.env).items() if count > 0]
        if counts:
            self.screen.say(f"the guard found: {', '.join(counts)}")
        if watch.recorder is not None:
            watch.recorder.flush()
            for path in watch.recorder.paths:
                self.screen.say(f"replay: {command_line('replay', f'dump={path}')}")


def _make_policy(env: Any, name: str, drive: ArmDrive | None, seed: int) -> Act:
    """Return a policy that reads no observations."""
    if drive is not None:
        return lambda _: drive.next_actions(env.num_envs, env.device)
    if name == "expert":
        expert = env.expert()
        return lambda _: expert()
    if name == "random":
        actions = RandomActions(env.num_envs, env.cfg.action_space, env.device, seed)
        return lambda _: actions()
    zeros = torch.zeros(env.num_envs, env.cfg.action_space, device=env.device)
    return lambda _: zeros


def _resolve(settings: RunSettings, job: ViewJob) -> Resolved:
    """Resolve the settings, and refuse a task that cannot be shown."""
    assert settings.num_envs != "auto"
    resolved = resolve(settings, settings.num_envs)
    if not isinstance(resolved.env_cfg, PointCloudEnvCfg):
        raise ConfigError(
            f"task={settings.task} is no task with this package's point clouds. scripts/train.py and scripts/play.py "
            "show any task's scene with visualizer=viser."
        )
    entry_point: Any = gym.spec(settings.task).entry_point
    env_class = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    if job.policy == "expert" and not hasattr(env_class, "expert"):
        raise ConfigError(f"policy=expert: {settings.task} has no expert. Use policy=random, zero or a run.")
    return resolved
