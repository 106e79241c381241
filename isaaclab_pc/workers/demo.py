# SPDX-License-Identifier: BSD-3-Clause
"""Record waves of an expert's episodes to a file of demonstrations."""

import inspect
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from isaaclab.utils.datasets import EpisodeData

from isaaclab_pc.cli.command_line import override_value
from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.demos.demo_file import SHARED, DemoFile
from isaaclab_pc.export.policy_description import describe_env
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag
from isaaclab_pc.run.jobs import DemoJob
from isaaclab_pc.run.record import git_commit
from isaaclab_pc.sensors.scene_cameras import depth_image, depth_limits, image_intrinsics
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.workers.random_actions import RandomActions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

FLOAT16_GROUPS = ("points", "depth")
"""Observation groups that are stored in float16; they take nearly all of a file."""

DISTURBED_STEPS = 4
"""Mean number of steps of a random action. Clones learned less from longer and fewer ones."""

GIVE_UP_AFTER = 64
"""Episodes without a success after which the recording ends with an error."""


@dataclass(frozen=True)
class Wave:
    """One episode of every environment, all from one seed."""

    episodes: dict[int, EpisodeData]
    """The episodes by the index of their environment, without those in which the guard found a fault."""
    successes: int
    """How many of these succeeded."""


def record_wave(
    env: Any,
    policy: Callable[[], torch.Tensor],
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
    *,
    with_depth: bool = False,
    disturbances: float = 0.0,
) -> Wave | None:
    """Run every environment to the end of one episode; one that is done early waits for the others.

    Otherwise short episodes would be recorded more often than long ones. All of the unwrapped ``PointCloudEnv`` is
    reset with ``seed``; ``policy`` returns the actions (N, A) for the current state. Returns None where ``stopped``,
    which is asked at every step, says so. ``with_depth`` records the depth maps that the clouds are made of. A
    share ``disturbances`` of the steps in the first half executes random actions, and the policy's are recorded all the
    same; the second half is for the way back.
    """
    observations, _ = env.reset(seed=seed)
    initial = _on_cpu(env.scene.get_state(is_relative=True))
    steps: dict[str, Any] = {}
    running = torch.ones_like(env.episode_success)
    successful = torch.zeros_like(running)
    faulty = torch.zeros_like(running)
    lengths = torch.zeros_like(running, dtype=torch.long)

    disturbance = RandomActions(env.num_envs, env.cfg.action_space, env.device, seed, DISTURBED_STEPS, disturbances)
    state = _StateAfterPhysics(env.scene)
    remove_hook = add_step_hook(env, state)
    try:
        for step in range(env.max_episode_length):
            if stopped():
                return None

            before = {name: obs.half() if name in FLOAT16_GROUPS else obs for name, obs in observations.items()}
            # Copied, since the step overwrites the sensors' buffers.
            row: dict[str, Any] = {"obs": before, **_on_cpu(sight(env, with_depth))}
            row["actions"] = executed = policy().clamp(-1.0, 1.0)
            if disturbances:
                if 2 * step < env.max_episode_length:
                    random = disturbance()
                    executed = torch.where(random.isnan(), executed, random)
                row["executed_actions"] = executed
            observations, row["rewards"], terminated, truncated, _ = env.step(executed)
            done = terminated | truncated
            row |= {"dones": done.byte(), "states": state.value}
            _write(steps, step, row, env.max_episode_length)

            # An environment that waits for the others goes on with episodes that are not recorded.
            ends = running & done
            successful |= ends & env.episode_success
            faulty |= ends & ((env.guard.causes != 0) | env.guard.benched)
            lengths += running
            running &= ~done
            if not running.any():
                break
    finally:
        remove_hook()

    episodes = {}
    for index in (~faulty).nonzero().squeeze(-1).tolist():
        episode = EpisodeData()
        episode.seed = seed
        episode.success = bool(successful[index])
        episode.data = _select(steps, (slice(int(lengths[index])), index))
        episode.data["initial_state"] = _select(initial, slice(index, index + 1))
        episodes[index] = episode
    return Wave(episodes, int((successful & ~faulty).sum()))


def sight(env: Any, with_depth: bool) -> dict[str, Any]:
    """Return where the present cloud and the cameras are in the frame env, and with ``with_depth`` their images."""
    sensor = env.point_cloud
    result: dict[str, Any] = {}
    names = [] if env.camera is None else ["camera"]
    origins = env.scene.env_origins
    if sensor is not None:
        names = list(sensor.cfg.cameras)
        pos, quat = sensor.frame_pose(sensor.cfg.frame)
        quat = origins.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(len(pos), 4) if quat is None else quat
        frame = {"frame_pos": pos - origins, "frame_quat": quat}
        result["cloud"] = {"count": sensor.data.count.torch, "age": sensor.age, **frame}

    for name in names:
        camera = env.scene[name]
        pose = {"pos": camera.data.pos_w.torch - origins, "quat": camera.data.quat_w_ros.torch}
        seen = {"intrinsics": image_intrinsics(camera), **pose}
        if with_depth:
            seen["depth"] = _in_millimetres(depth_image(camera), depth_limits(camera))
        result.setdefault("cameras", {})[name] = seen
    return result


def _in_millimetres(depth: torch.Tensor, limits: tuple[float, float]) -> torch.Tensor:
    """Return depth [m] as whole millimetres, uint16, as depth cameras give it; 0 where there is none."""
    near, miss_from = limits
    seen = (depth > near) & (depth < miss_from)
    return torch.where(seen, 1000.0 * depth, 0.0).round().clamp_max(65535.0).to(torch.uint16)


class _StateAfterPhysics(StepHook):
    """Keeps the scene's state after a step's physics, before the reset of environments that are done."""

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        self.value: Mapping[str, Any] = {}

    def after_physics(self) -> None:
        self.value = self._scene.get_state(is_relative=True)


def _on_cpu(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies on the CPU."""
    return {
        key: _on_cpu(value) if isinstance(value, Mapping) else value.to("cpu", copy=True) for key, value in tree.items()
    }


def _write(steps: dict[str, Any], step: int, row: Mapping[str, Any], num_steps: int) -> None:
    """Write the row of a step, a tree of tensors (N, ...), into a tree of tensors (T, N, ...) on the CPU."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            _write(steps.setdefault(key, {}), step, value, num_steps)
            continue
        if key not in steps:
            # Memory that no step is written to is never taken.
            steps[key] = torch.empty((num_steps, *value.shape), dtype=value.dtype)
        steps[key][step] = value


def _select(tree: Mapping[str, Any], index: Any) -> dict[str, Any]:
    """Return a part of each tensor of a tree, without branches that hold none."""
    parts = {key: _select(value, index) if isinstance(value, Mapping) else value[index] for key, value in tree.items()}
    return {key: part for key, part in parts.items() if isinstance(part, torch.Tensor) or part}


def record(
    env: Any,
    job: DemoJob,
    origin: Mapping[str, Any] | None = None,
    say: Callable[[str], object] = print,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Add waves of an unwrapped environment to the job's file until it has its episodes, or until stopped.

    ``origin`` is that of :meth:`DemoFile.add_wave`. ``say`` is called with a line for every wave, and ``stopped`` is
    asked at every step whether to give up the wave.

    Raises:
        RuntimeError: The policy solves no episode.
    """
    settings, episodes = job.settings, job.episodes
    file = DemoFile(job.file)
    policy = env.expert()
    progress = file.progress()
    first_seed = settings.seed if progress.next_seed is None else progress.next_seed
    # An evaluation must not see the same resets as the demonstrations.
    evaluated = {settings.eval.seed, settings.eval.best_seed}
    seeds = (seed for seed in count(first_seed) if seed not in evaluated)

    start = time.monotonic()
    episodes_before = progress.episodes
    while progress.episodes < episodes:
        seed = next(seeds)
        wave = record_wave(env, policy, seed, stopped, with_depth=job.with_depth, disturbances=job.disturbances)
        if wave is None:
            return

        kept = ((index, episode) for index, episode in wave.episodes.items() if job.keep == "all" or episode.success)
        chosen = dict(islice(kept, episodes - progress.episodes))
        file.add_wave(settings, seed, env.num_envs, wave.successes, chosen, origin)
        progress = progress.plus(len(chosen), env.num_envs, wave.successes, seed)

        episodes_per_s = (progress.episodes - episodes_before) / (time.monotonic() - start)
        missing = episodes - progress.episodes
        time_left = f", {missing / episodes_per_s:.0f} s left" if episodes_per_s > 0.0 else ""
        say(f"{progress.episodes}/{episodes} episodes, {progress.rate}{time_left}")

        if job.keep == "success" and progress.attempts >= GIVE_UP_AFTER and progress.successes == 0:
            raise RuntimeError(f"the expert solved none of {progress.attempts} episodes under these settings")


def _origin(env: Any, settings: RunSettings, disturbances: float) -> dict[str, Any]:
    """Tell what the episodes hold and how to record the like, for who reads the file without a simulator."""
    in_words = (inspect.getdoc(type(env.cfg)) or settings.task).splitlines()[0]
    description = {"task": in_words, **describe_env(env, settings.robot)}

    task = short_name(settings.task)
    defaults = RunSettings().flat()
    shared = {key: value for key, value in settings.flat().items() if key.split(".")[0] in SHARED}
    del shared["task"], shared["env_overrides"]
    changes = [f"{key}={override_value(value)}" for key, value in shared.items() if value != defaults[key]]
    if disturbances:
        changes.append(f"disturbances={disturbances}")
    command = shlex.join(["python", "scripts/demo.py", f"task={task}", *changes, *settings.env_overrides])
    return {"task": task, "description": description, "command": command, "git": git_commit()}


def demo(job: DemoJob, _folder: Path, screen: Screen) -> int:
    """Add waves to a file, checked and locked by the parent, until it has enough episodes.

    Raises:
        SystemExit: A signal stopped it.
    """
    settings = job.settings
    assert settings.num_envs != "auto"
    with open_env(resolve(settings, settings.num_envs)) as env, SignalFlag() as flag:
        screen.begin("record")
        origin = _origin(env.unwrapped, settings, job.disturbances)
        record(env.unwrapped, job, origin, screen.say, lambda: bool(flag.received))
        flag.leave()
    return ExitCode.OK
