# SPDX-License-Identifier: BSD-3-Clause
"""Simulated robots in a process of their own, which speak the messages of a robot, and an exported policy on them.

    python scripts/export.py run=pretrained task=lift
    python examples/simulated_robot.py logs/pretrained/lift/export

The robots are environments with the settings of the policy's run, ``--run`` for one of your own. They publish what a
robot does: joint states, the tool's pose, the goal, and a PointCloud2 of the camera's points that are not the robot's,
or with ``--images`` the depth image, its calibration and a self-filter's mask. The policy sees nothing else. Prints the
success of the episodes, the time from messages to command, and with ``--compare`` the largest difference between its
actions and those of the learning library in the simulator's process.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from exported_policy import ExportedPolicy
from robot_commands import Command, Limits
from robot_inputs import StopError
from robot_loop import PolicyLoop, Reading
from robot_messages import CameraInfo, Image, JointState, Message, Numbers, PoseStamped, write_points

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.output_filter import divert_output
from isaaclab_pc.run.find_checkpoint import find_trained
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.run.pretrained import PRETRAINED
from isaaclab_pc.settings import RunSettings

if TYPE_CHECKING:
    from isaaclab_pc.viewer.cloud_recorder import CloudRecorder

FASTEST = 10.0
"""Speed [m/s] above all that a policy commands: the simulated robots need no limit."""


@dataclass(frozen=True)
class Settings:
    """Settings of the simulated robots."""

    task: str
    """Gym id of the policy's task."""
    run: str
    """The policy's run: pretrained, or the path of a run or a checkpoint."""
    physics: str
    """Physics backend."""
    num_envs: int
    """Robots, N."""
    episodes: int
    """Episodes of each of them."""
    seed: int
    """Seed of the first reset."""
    images: bool
    """Whether depth images are published in the place of points."""
    compare: bool
    """Whether actions are compared with those of the learning library."""


@dataclass(frozen=True)
class Results:
    """Results of the episodes, which the simulator sends after the last step."""

    successes: list[bool]
    """Success of each episode at its end."""
    difference: float
    """Largest difference of an action from the learning library's; NaN where they were not compared."""


def simulate(settings: Settings, connection: Connection, log: Path) -> None:
    """Run the robots: send a list of readings, receive one command for each or None where it holds, until the end.

    What the simulator prints goes to ``log``.
    """
    divert_output(log)
    try:
        results = _play(settings, connection)
    except Exception as error:
        # The other process has no use for classes that only a simulator loads.
        connection.send(f"{type(error).__name__}: {error}")
        raise
    connection.send(results)


def find_run(settings: Settings) -> tuple[RunSettings, Path]:
    """Return the settings of the policy's run, and its checkpoint.

    Raises:
        ConfigError: There is none, or its policy reads no clouds.
    """
    asked = compose([f"task={settings.task}"])
    trained, checkpoint, _ = find_trained(settings.run, asked, "run")
    if trained.obs != "points":
        raise ConfigError(f"{checkpoint}: has obs={trained.obs}; the simulated robots need a policy with obs=points.")
    return trained, checkpoint


def _play(settings: Settings, connection: Connection) -> Results:
    from isaaclab_pc.workers.resolve import resolve
    from isaaclab_pc.workers.session import open_env

    trained, checkpoint = find_run(settings)
    chosen = trained.with_values({"device": "cpu", "physics.backend": settings.physics})
    resolved = resolve(choose_platform(chosen), settings.num_envs)
    points_cfg = resolved.env_cfg.scene.points
    rounded_to = getattr(torch, points_cfg.dtype)
    # The policy's own program rounds the points, as on a robot.
    points_cfg.dtype = "float32"
    points_cfg.source = "image" if settings.images else "auto"

    with open_env(resolved) as env, ExitStack() as stack, torch.no_grad():
        robots = _Robots(env.unwrapped, settings)
        expected = None
        if settings.compare:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            runner = resolved.adapter.make(env, resolved.agent_cfg, scratch, "cpu")
            runner.load_policy(checkpoint, {"task": resolved.settings.task})
            expected = runner.act

        largest = 0.0
        observations, _ = env.reset(seed=settings.seed)
        began = np.ones(settings.num_envs, dtype=bool)
        while not robots.are_done():
            connection.send(robots.readings(observations, began))
            commands = connection.recv()
            actions = robots.actions(commands)
            if expected is not None:
                rounded = observations | {"points": observations["points"].to(rounded_to).float()}
                acting = torch.tensor([command is not None for command in commands])
                difference = (expected(rounded).clamp(-1.0, 1.0) - actions)[acting].abs()
                largest = max(largest, float(difference.max()) if acting.any() else 0.0)
            observations, _, terminated, truncated, _ = env.step(actions)
            began = robots.count(terminated | truncated)
    return Results(robots.successes, largest if settings.compare else math.nan)


class _Robots:
    """Environments as robots: their messages, their commands and their episodes."""

    def __init__(self, base: Any, settings: Settings) -> None:
        from isaaclab_pc.envs.quantities import action_parts, vector_quantities
        from isaaclab_pc.viewer.cloud_recorder import CloudRecorder

        self._base = base
        self._episodes = settings.episodes
        self._parts = action_parts(base)
        if any(part.name == "joint_position" for part in self._parts):
            raise ConfigError(f"{settings.task}: its actions are joint positions; these robots take motions.")
        sizes = [quantity.size for quantity in vector_quantities(base)]
        names = [quantity.name for quantity in vector_quantities(base)]
        self._columns = {
            name: slice(end - size, end) for name, size, end in zip(names, sizes, np.cumsum(sizes), strict=True)
        }
        self._recorder = CloudRecorder(base.point_cloud) if settings.images else None
        self._step = 0
        # Older clouds than these, of two seconds, no robot acts on.
        self._frames: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=60)
        self._ended = np.zeros(settings.num_envs, dtype=int)
        self._grip = np.ones(settings.num_envs)
        self.successes: list[bool] = []

    def are_done(self) -> bool:
        return bool((self._ended >= self._episodes).all())

    def readings(self, observations: dict[str, torch.Tensor], began: np.ndarray) -> list[Reading]:
        """Return what each robot measures now."""
        from isaaclab_pc.envs.observation_history import newest_frame
        from isaaclab_pc.tensors.poses import from_frame, into_frame

        base = self._base
        now = self._step * base.step_dt
        newest = newest_frame(observations, base.cfg.history_length)
        state, camera = base.robot.data, base.camera.data
        pos, quat = camera.pos_w.torch, camera.quat_w_ros.torch

        # A camera with latency shows what it saw a while ago, from a frame that may have moved since.
        cloud = base.point_cloud
        frame_pos, frame_quat = cloud.frame_pose(cloud.cfg.frame)
        if frame_quat is None:
            frame_quat = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(len(frame_pos), 4)
        self._frames.append((frame_pos.clone(), frame_quat.clone()))
        then = [self._frames[-1 - age] for age in cloud.age.tolist()]
        frame_pos, frame_quat = (torch.stack([pose[part][env] for env, pose in enumerate(then)]) for part in (0, 1))
        seen = into_frame(pos, quat, from_frame(frame_pos, frame_quat, newest["points"][..., :3]))

        measured = [newest["policy"], state.joint_pos.torch, state.joint_vel.torch]
        measured += [pos - base.scene.env_origins, quat, seen, cloud.data.count.torch, now - cloud.age * base.step_dt]
        rows = zip(*(value.cpu().numpy() for value in measured), strict=True)
        return [
            Reading(now, list(self._messages(now, *row)), bool(first)) for row, first in zip(rows, began, strict=True)
        ]

    def _messages(
        self,
        now: float,
        vector: np.ndarray,
        joint_pos: np.ndarray,
        joint_vel: np.ndarray,
        camera_pos: np.ndarray,
        camera_quat: np.ndarray,
        seen: np.ndarray,
        count: int,
        seen_at: float,
    ) -> Iterator[tuple[str, Message]]:
        parts = {name: vector[columns] for name, columns in self._columns.items()}
        # In another order than the policy's, as drivers have it.
        names = self._base.robot.joint_names[::-1]
        yield "joint_states", JointState(now, "", names, joint_pos[::-1], joint_vel[::-1])
        yield "tool_pose", PoseStamped(now, "env", parts.pop("tool_pos"), parts.pop("tool_quat"))
        for name, value in parts.items():
            if name == "goal_pos":
                yield "goal", PoseStamped(now, "env", value)
            elif not name.startswith(("arm_", "finger_", "last_action", "goal_from_tool")):
                yield name, Numbers(now, "", value)

        yield "camera/pose", PoseStamped(now, "env", camera_pos, camera_quat)
        if self._recorder is not None:
            yield from _images(float(seen_at), self._recorder)
        else:
            yield "camera", write_points(seen[:count], float(seen_at), "camera_optical_frame")

    def actions(self, commands: Sequence[Command | None]) -> torch.Tensor:
        """Return the actions that move the robots as commanded; one that holds keeps its gripper as it is."""
        rows = []
        for index, command in enumerate(commands):
            if command is not None:
                self._grip[index] = command.parts.get("gripper", self._grip[index : index + 1])[0]
            still = {"gripper": self._grip[index : index + 1]}
            parts = still if command is None else command.parts
            rows.append(np.concatenate([parts.get(p.name, np.zeros(p.size)) / (p.scale or 1.0) for p in self._parts]))
        return torch.tensor(np.array(rows), dtype=torch.float32)

    def count(self, ended: torch.Tensor) -> np.ndarray:
        """Count the episodes that ended in a step, and return the robots that begin one, shape (N,), bool."""
        done = ended.cpu().numpy()
        success = self._base.episode_success.cpu().numpy()
        self.successes += success[done & (self._ended < self._episodes)].tolist()
        self._ended += done
        self._step += 1
        return done


def _images(seen_at: float, recorder: CloudRecorder) -> Iterator[tuple[str, Message]]:
    """Yield the first robot's depth in millimetres, its calibration and the mask of the robot itself."""
    frame = recorder.frame
    depth, mask = frame["depth_camera"], frame["removed_camera"].astype(np.uint8)
    height, width = depth.shape
    millimetres = np.where(np.isfinite(depth) & (depth < 60.0), 1000.0 * depth, 0.0).round().astype("<u2")
    matrix = frame["intrinsics_camera"].astype(float).copy()
    matrix[:2, 2] -= 0.5
    name = "camera_optical_frame"
    yield "camera/info", CameraInfo(seen_at, name, height, width, (), matrix.ravel().tolist())
    yield "camera/removed", Image(seen_at, name, height, width, "8UC1", 0, width, mask.tobytes())
    yield "camera", Image(seen_at, name, height, width, "16UC1", 0, 2 * width, millimetres.tobytes())


def run(folder: Path, settings: Settings, limits: Limits, log: Path | None) -> Results:
    """Let an exported policy act on simulated robots until their episodes are over, and print the results.

    Raises:
        ConfigError: The export cannot be used, or the simulator refused its settings.
    """
    loops = [PolicyLoop(ExportedPolicy(folder), limits) for _ in range(settings.num_envs)]
    find_run(settings)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    simulator_log = folder / "simulator.log"
    process = context.Process(target=simulate, args=(settings, there, simulator_log), daemon=True)
    process.start()
    there.close()
    stopped = [False] * settings.num_envs
    try:
        while isinstance(received := here.recv(), list):
            here.send([_answer(index, loops, received[index], stopped) for index in range(settings.num_envs)])
    except (EOFError, OSError):
        received = "its process died"
    process.join()
    if not isinstance(received, Results):
        raise ConfigError(f"the simulator ended: {received}; see {simulator_log}.")

    latency = 1e3 * np.array([row["latency"] for loop in loops for _, row in loop.log])
    print(f"success {np.mean(received.successes):.1%} of {len(received.successes)} episodes")
    print(f"messages to command: median {np.median(latency):.2f} ms, p99 {np.percentile(latency, 99):.2f} ms")
    if settings.compare:
        print(f"actions as the runner's to {received.difference:.1e} over {len(latency)} steps")
    if log is not None:
        loops[0].save_log(log)
    return received


def _answer(index: int, loops: list[PolicyLoop], reading: Reading, stopped: list[bool]) -> Command | None:
    """Return a robot's command; None until its next episode once something was wrong."""
    stopped[index] &= not reading.is_first
    if stopped[index]:
        return None
    try:
        return loops[index].react(reading)
    except StopError as error:
        print(f"robot {index} holds until its next episode: {error}", file=sys.stderr)
        stopped[index] = True
        return None


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what scripts/export.py wrote")
    parser.add_argument("--run", default=PRETRAINED, help="pretrained, or the path of the export's run")
    parser.add_argument("--physics", default="auto", help="backend")
    parser.add_argument("--num-envs", type=int, default=4, help="robots at once; 1 with --images")
    parser.add_argument("--episodes", type=int, default=1, help="of each robot")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--images", action="store_true", help="publish depth images instead of points")
    parser.add_argument("--compare", action="store_true", help="with the learning library's actions")
    parser.add_argument("--max-speed", type=float, default=FASTEST, help="of the tool [m/s]")
    parser.add_argument("--log", type=Path, help="HDF5 file for the first robot's steps")
    given = parser.parse_args()
    try:
        if given.images and given.num_envs > 1:
            raise ConfigError("--images: images of one robot are published; add --num-envs 1.")
        if min(given.num_envs, given.episodes) < 1:
            raise ConfigError("--num-envs and --episodes are at least 1.")
        chosen = {field.name: getattr(given, field.name) for field in fields(Settings) if field.name != "task"}
        settings = Settings(task=ExportedPolicy(given.folder).description["task"], **chosen)
        limits = Limits(max_speed=given.max_speed, max_turn=FASTEST, max_joint_speed=FASTEST)
        run(given.folder, settings, limits, given.log)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
