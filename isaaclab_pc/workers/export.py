# SPDX-License-Identifier: BSD-3-Clause
"""Write a policy for programs without a simulator, and check that it acts as the runner does."""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isaaclab_pc.envs import PointCloudEnv
from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.export.exported_policy import (
    PlainPolicy,
    compare,
    compute_in_float32,
    load_onnx,
    load_torchscript,
    milliseconds,
)
from isaaclab_pc.export.policy_description import describe_memory, describe_policy, describe_sight
from isaaclab_pc.processes.child_process import ExitCode
from isaaclab_pc.run.jobs import ExportJob
from isaaclab_pc.run.record import git_commit, versions
from isaaclab_pc.sensors import PointCloudCfg
from isaaclab_pc.sensors.scene_cameras import depth_image
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.utils.packages import installed_versions
from isaaclab_pc.viewer.cloud_recorder import CloudRecorder
from isaaclab_pc.workers.session import Session, open_session

FORMAT = 1
"""Version of ``policy.json`` and ``sample.npz``; readers refuse others."""

_STEPS = 64
"""Steps of the policy that are compared."""

_SAMPLE = 8
"""Of these, so many are kept in the sample: the first ones, as a policy's memory begins with an episode."""


def export(job: ExportJob, folder: Path, screen: Screen) -> int:
    """Write ``policy.pt``, ``policy.onnx``, ``policy.json`` and ``sample.npz`` to a folder.

    Raises:
        ConfigError: The settings or the checkpoint do not fit, or the policy is one that cannot be exported.
        RuntimeError: A file acts otherwise than the runner; none is written.
    """
    settings = job.settings
    with open_session(settings, 1, folder, prepare=_render_images) as session:
        header = session.runner.load_policy(job.checkpoint, {"task": settings.task})
        compute_in_float32(session.runner.policy())
        frames = _record(session, settings.eval.seed)
        obs = {name: torch.cat([frame.obs[name] for frame in frames]) for name in frames[0].obs}
        actions = torch.cat([frame.action for frame in frames])
        policy = PlainPolicy(session.runner.policy(), obs)
        inputs = policy.inputs(obs)
        began = [frame.is_first for frame in frames]

        # All files or none: those of two checkpoints would not belong together.
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as partial:
            checks = _write_policies(Path(partial), policy, inputs, actions, began, screen)
            content = {
                "format": FORMAT,
                "task": settings.task,
                "runner": settings.runner,
                "algorithm": settings.algorithm,
                "checkpoint": job.checkpoint.name,
                "iteration": header.get("iteration"),
                **describe_policy(session.env.unwrapped, inputs, actions.shape[1], settings.robot),
                "memory": describe_memory(policy.state),
                "files": {name: hashlib.sha256((Path(partial) / name).read_bytes()).hexdigest() for name in checks},
                "checks": checks,
                "versions": versions() | installed_versions(("onnx", "onnxruntime")),
                "git": git_commit(),
            }
            describe_sight(content, [frame.seen for frame in frames])
            (Path(partial) / "policy.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            _write_sample(Path(partial) / "sample.npz", frames[:_SAMPLE], actions[:_SAMPLE])
            for path in Path(partial).iterdir():
                path.replace(folder / path.name)
    return ExitCode.OK


def _render_images(env_cfg: Any) -> None:
    """Make clouds of images, as where the policy will be used: the recorded steps hold them."""
    points = getattr(env_cfg.scene, "points", None)
    if isinstance(points, PointCloudCfg):
        points.source = "image"


def _write_policies(
    folder: Path,
    policy: PlainPolicy,
    inputs: Mapping[str, torch.Tensor],
    actions: torch.Tensor,
    began: Sequence[bool],
    screen: Screen,
) -> dict[str, dict[str, float]]:
    """Write both files and compare them with the runner; return the results by the files' names."""
    files = {"policy.pt": (policy.write_torchscript, load_torchscript), "policy.onnx": (policy.write_onnx, load_onnx)}
    first = {**{name: value[:1] for name, value in inputs.items()}, **policy.state}
    checks = {}
    for name, (write, load) in files.items():
        write(folder / name, inputs)
        run = load(folder / name)
        difference = compare(run, inputs, actions, policy.state, began)
        time = milliseconds(run, first)
        checks[name] = {"difference": difference, "observations": len(actions), "milliseconds": time}
        screen.say(
            f"{name}: actions as the runner's to {difference:.1e} over {len(actions)} observations, {time:.2f} ms per "
            "action on one thread"
        )
    return checks


class _Frame:
    """One step: all observations, those of this step alone, the action, and the cameras' images."""

    action: torch.Tensor
    """Shape (1, A), float32."""

    def __init__(self, obs: Mapping[str, torch.Tensor], recorder: CloudRecorder | None, base: Any) -> None:
        self.is_first = bool(base.episode_length_buf[0] == 0)
        self.obs = {name: value.clone() for name, value in obs.items()}
        length = base.cfg.history_length if isinstance(base, PointCloudEnv) else 1
        self.newest = newest_frame(self.obs, length)
        self.seen: dict[str, np.ndarray] = {}
        if recorder is not None:
            self.seen = recorder.frame
        elif isinstance(base, PointCloudEnv) and base.camera is not None:
            self.seen = {"depth_camera": depth_image(base.camera)[0].cpu().numpy().copy()}


def _record(session: Session, seed: int) -> list[_Frame]:
    base = session.env.unwrapped
    sensor = base.point_cloud if isinstance(base, PointCloudEnv) else None
    recorder = CloudRecorder(sensor) if sensor is not None else None

    frames = []
    with torch.no_grad():
        obs, _ = session.env.reset(seed=seed)
        for _ in range(_STEPS):
            frame = _Frame(obs, recorder, base)
            action = session.runner.act(obs)
            frame.action = action.float().cpu().clone()
            frames.append(frame)
            obs, *_ = session.env.step(action)
    return frames


def _write_sample(path: Path, frames: list[_Frame], actions: torch.Tensor) -> None:
    """Write frames, one row each, for a program to compare its actions with."""
    rows = [{name: value[0].cpu().numpy() for name, value in frame.newest.items()} | frame.seen for frame in frames]
    arrays: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    arrays.pop("critic", None)
    np.savez_compressed(path, actions=actions.numpy(), **arrays)
