# SPDX-License-Identifier: BSD-3-Clause
"""What the configs tell about a run's memory, without building anything of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from isaaclab_pc.guards.recorder import RecorderCfg, recorder_bytes
from isaaclab_pc.physics.apply import scene_parts, spawner_fragments
from isaaclab_pc.physics.contacts import predicted_contact_buffer_bytes
from isaaclab_pc.runners import split_history
from isaaclab_pc.scaling.earlier_trials import EarlierTrials
from isaaclab_pc.scaling.learner_memory import LearnerMemory, RunConfigs, learner_memory
from isaaclab_pc.scaling.ledger import HISTORY, KINDS, OVERHEAD, SIMULATION, TRAINING, Entry, Part, measured_ledger
from isaaclab_pc.scaling.observation_size import cloud_shape, history_length, kept_bytes, observation_bytes
from isaaclab_pc.scaling.preflight import rendered_cameras
from isaaclab_pc.scaling.trial import Spaces
from isaaclab_pc.sensors import DepthRealism, DepthToCloud
from isaaclab_pc.sensors.scene_cameras import predicted_renderer_bytes
from isaaclab_pc.tensor_bytes import tensor_bytes

if TYPE_CHECKING:
    from isaaclab_pc.sensors import PointCloudCfg

__all__ = ["find_spaces", "missing_kinds", "predict_memory"]

_IMAGE_BYTES = {"normals": 12, "rgb_hdr": 12, "motion_vectors": 8}
"""Bytes per pixel of the images that Isaac Lab's cameras hold, where they are not 4; ``rgb`` is a view of ``rgba``."""


def predict_memory(run: RunConfigs, earlier: EarlierTrials) -> dict[str, Part]:
    """Predict the memory whose size follows from the configs, and take the rest from trials.

    Args:
        run: The run's configs.
        earlier: Earlier trials of the same task. They tell what no config does: libraries, simulation and renderer,
            and what training takes beside its tensors.

    Returns:
        Memory by kind (see :data:`isaaclab_pc.scaling.ledger.KINDS`).
    """
    parts = _scene_parts(run)

    spaces = find_spaces(run.env_cfg, earlier.spaces)
    frames = history_length(run.env_cfg)
    if spaces is not None and frames > 1:
        parts[HISTORY] = (0, _history_bytes(spaces), f"the last {frames} frames of each environment")
    recorder = _fault_recorder(run, spaces)
    if recorder is not None:
        parts["fault recorder"] = recorder
    learner = None if spaces is None else learner_memory(run, spaces)
    parts |= _learner_parts(run, spaces, learner, measured=earlier.spaces is not None)

    return parts | _measured_parts(run, learner, earlier)


def _scene_parts(run: RunConfigs) -> dict[str, Part]:
    """Predict the buffers of cameras and renderer, clouds and contact buffers."""
    env_cfg = run.env_cfg
    parts: dict[str, Part] = {}
    is_our_task = hasattr(env_cfg, "obs")
    points = getattr(env_cfg.scene, "points", None) if getattr(env_cfg, "obs", "points") == "points" else None

    # (height, width, kinds of image) of each camera. Our tasks choose the kinds by what the policy observes.
    images: list[tuple[int, int, list[str]]] = []
    our_kinds = list(points.data_types()) if points else ["depth"]
    in_renderer: list[tuple[int, int]] = []
    for _, camera, renderer in rendered_cameras(env_cfg):
        kinds = our_kinds if is_our_task else list(camera.data_types)
        images.append((camera.height, camera.width, kinds))
        if renderer == "newton_warp":
            in_renderer.append(predicted_renderer_bytes(camera.height, camera.width, kinds))

    if images:
        per_env = sum(
            height * width * sum(_IMAGE_BYTES.get(kind, 4) for kind in {kind.replace("rgba", "rgb") for kind in kinds})
            for height, width, kinds in images
        )
        note = ", ".join(f"{height} x {width} {' + '.join(kinds)}" for height, width, kinds in images)
        parts["camera buffers"] = (0, per_env, note)
    if in_renderer:
        fixed, growing = (sum(sizes) for sizes in zip(*in_renderer, strict=True))
        parts["renderer buffers"] = (fixed, growing, "rays, poses, and for classes the shape at each pixel")
    if points is not None:
        parts["clouds"] = _clouds(points, [(height, width) for height, width, _ in images], run.device)

    contacts = _contact_buffers(env_cfg)
    if contacts is not None:
        parts["contact buffers"] = contacts
    return parts


def _learner_parts(
    run: RunConfigs, spaces: Spaces | None, learner: LearnerMemory | None, *, measured: bool
) -> dict[str, Part]:
    """Predict storage, replay, weights and optimizer; the first two alone, and in part, where spaces are unknown."""
    # The batch plan keeps the samples per update, so more environments only shorten the horizon.
    samples = run.plan.samples_per_update
    if spaces is not None and learner is not None:
        vectors = "as measured" if measured else "as the task declares"
        kept = run.adapter.replay_samples(run.agent_cfg)
        storage: dict[str, Part] = {
            "rollout storage": (learner.storage, 0, f"{samples} samples of {_describe(spaces)}"),
            "replay": (learner.replay, 0, f"{kept} samples, those of clouds and images as float16"),
        }
        return {
            **{kind: part for kind, part in storage.items() if part[0]},
            "network weights": (learner.weights, 0, f"sizes of vectors {vectors}"),
            "optimizer": (learner.optimizer, 0, ""),
        }

    sample = observation_bytes(run.env_cfg)
    if not sample:
        return {}
    kept = run.adapter.replay_samples(run.agent_cfg)
    if kept:
        sample = kept_bytes(run.env_cfg)
        return {"replay": (kept * sample, 0, f"{kept} samples of {sample} bytes, vectors not counted")}
    return {"rollout storage": (samples * sample, 0, f"{samples} samples of {sample} bytes, vectors not counted")}


def missing_kinds(parts: Mapping[str, Part], run: RunConfigs, earlier: EarlierTrials) -> list[str]:
    """Name the kinds of memory that a prediction lacks, or holds in part, until a trial has run.

    Args:
        parts: The prediction.
        run: The run's configs.
        earlier: As for :func:`predict_memory`.

    Returns:
        Names out of :data:`isaaclab_pc.scaling.ledger.KINDS`, in their order; kinds that the run does not have are
        left out.
    """
    needed = {OVERHEAD, SIMULATION, "network weights", "optimizer", TRAINING}
    if hasattr(run.env_cfg.sim.physics, "solver_cfg"):
        needed.add("contact buffers")
    partial = set() if earlier.trials else {TRAINING}
    return [kind for kind in KINDS if kind in needed and (kind not in parts or kind in partial)]


def find_spaces(env_cfg: Any, measured: Spaces | None) -> Spaces | None:
    """Tell what a task observes and how large its actions are, before its scene is built.

    Clouds and depth images follow from the config of this package's tasks. The sizes of vectors are those of a trial,
    or else those that the task's config declares as Isaac Lab's direct tasks do: ``observation_space`` and
    ``state_space``, those of one frame.

    Args:
        env_cfg: Isaac Lab's environment config, resolved.
        measured: The sizes in a trial, as its child reported them; None without one.

    Returns:
        The sizes; None where neither tells.
    """
    spaces = _declared_spaces(env_cfg) if measured is None else measured
    if spaces is None:
        return None

    groups = dict(spaces.observations)
    obs = getattr(env_cfg, "obs", None)
    if obs not in ("points", "depth"):
        return spaces

    # The trial may have been one with another history; what the config declares is one frame.
    tried, _ = split_history(groups[obs][0] if obs in groups else ())
    frames = history_length(env_cfg)
    (size,), dtype = groups["policy"]
    groups["policy"] = ((size // tried * frames,), dtype)

    time = (frames,) if frames > 1 else ()
    if obs == "points":
        rows, channels, itemsize = cloud_shape(env_cfg.scene.points)
        groups["points"] = ((*time, rows, channels), f"float{8 * itemsize}")
    else:
        groups["depth"] = ((*time, 1, env_cfg.scene.camera.height, env_cfg.scene.camera.width), "float32")
    return Spaces(groups, spaces.num_actions)


def _history_bytes(spaces: Spaces) -> int:
    """Return what an environment keeps of earlier frames [bytes]: as much as the policy observes at once."""
    seen = [(shape, dtype) for name, (shape, dtype) in spaces.observations.items() if name != "critic"]
    return sum(math.prod(shape) * getattr(torch, dtype).itemsize for shape, dtype in seen)


def _declared_spaces(env_cfg: Any) -> Spaces | None:
    """Return the vectors that the config declares."""
    policy = _declared_size(env_cfg, "observation_space")
    state = _declared_size(env_cfg, "state_space")
    actions = _declared_size(env_cfg, "action_space")
    obs = getattr(env_cfg, "obs", None)
    if obs is not None:
        from isaaclab_pc.envs.arm_control import arm_action_size

        actions = arm_action_size(env_cfg) + int(env_cfg.gripper)
        policy = state if obs == "state" else policy
    if not policy or not actions:
        return None

    vectors = {"policy": policy, "critic": state} if state else {"policy": policy}
    return Spaces({name: ((size,), "float32") for name, size in vectors.items()}, actions)


def _declared_size(env_cfg: Any, name: str) -> int:
    """Return a declared size; 0 where none is declared, or as something else than a number."""
    size = getattr(env_cfg, name, 0)
    return size if isinstance(size, int) else 0


def _describe(spaces: Spaces) -> str:
    """Render observations for people."""
    return ", ".join(
        f"{name} {' x '.join(map(str, shape))} {dtype}" for name, (shape, dtype) in spaces.observations.items()
    )


def _measured_parts(run: RunConfigs, learner: LearnerMemory | None, earlier: EarlierTrials) -> dict[str, Part]:
    """Predict what only trials tell; activations are computed, and what a trial had beside them is added."""
    note = f"a minibatch of {run.plan.minibatch_size} samples"
    activations = 0 if learner is None else learner.activations or 0
    computed: dict[str, Part] = {TRAINING: (activations, 0, note)} if activations else {}
    if not earlier.trials:
        return computed

    # Sizes grow by factors, so the nearest one is that of the least ratio.
    num_envs = run.env_cfg.scene.num_envs
    nearest = min((trial.num_envs for trial in earlier.trials), key=lambda size: abs(math.log(size / num_envs)))
    ledger = measured_ledger(earlier.trials, nearest)
    entries = {entry.kind: entry for entry in ledger.entries} if ledger is not None else {}

    where = f"measured in {earlier.folder}"
    parts = {kind: _line(entries[kind], nearest, where) for kind in (OVERHEAD, SIMULATION) if kind in entries}
    if TRAINING in entries:
        rest = max(entries[TRAINING].total - activations, 0)
        parts[TRAINING] = (activations + rest, 0, f"{note if activations else 'as'} and the rest {where}")
    return computed | parts


def _line(entry: Entry, num_envs: int, where: str) -> Part:
    """Return what was measured of a kind, with its growth where several sizes told it."""
    if entry.kind == SIMULATION and entry.fixed is not None and entry.per_env is not None and entry.per_env > 0:
        return entry.fixed, entry.per_env, where
    growth = "" if entry.kind == OVERHEAD else f", at {num_envs} environments only"
    return entry.total, 0, where + growth


def _contact_buffers(env_cfg: Any) -> Part | None:
    """Predict Newton's buffers; PhysX makes its own as it needs them on a CPU, and on a GPU no formula is known."""
    solver = getattr(env_cfg.sim.physics, "solver_cfg", None)
    contacts = getattr(solver, "nconmax", None)
    rows = getattr(solver, "njmax", None)
    if contacts is None or rows is None:
        return None

    assets = _count_assets(env_cfg.scene)
    if assets is None:
        return None

    dofs = assets.joints + 6 * assets.rigid_objects
    note = f"{contacts} contacts, {rows} rows of {dofs} degrees of freedom"
    condim = max(_condim(getattr(part, "spawn", None)) for part in scene_parts(env_cfg))
    return 0, predicted_contact_buffer_bytes(contacts, rows, dofs, condim), note


def _fault_recorder(run: RunConfigs, spaces: Spaces | None) -> Part | None:
    """Predict the history that is kept of each environment; None where there is none, or nothing tells its size."""
    assets = _count_assets(run.env_cfg.scene) if run.fault_dumps > 0 and spaces is not None else None
    if assets is None or spaces is None:
        return None

    # Pose and velocity of each root; position, velocity and both targets of each joint.
    state_width = 13 * (assets.articulations + assets.rigid_objects) + 4 * assets.joints
    cfg = RecorderCfg(dumps=run.fault_dumps)
    fixed, per_env = recorder_bytes(cfg, run.env_cfg.scene.num_envs, state_width, spaces.num_actions)
    return fixed, per_env, "the last steps of each environment, fewer where there are many"


class _Assets(NamedTuple):
    """How many there are in an environment."""

    articulations: int
    joints: int
    rigid_objects: int


def _count_assets(scene: Any) -> _Assets | None:
    """Count what moves in an environment; None where an articulation's file cannot be read here."""
    from isaaclab.assets import ArticulationCfg, RigidObjectCfg

    articulations = joints = rigid_objects = 0
    for part in vars(scene).values():
        if isinstance(part, ArticulationCfg):
            path = getattr(part.spawn, "usd_path", None)
            if not isinstance(path, str) or not Path(path).is_file():
                return None
            articulations += 1
            joints += _joints(path)
        elif isinstance(part, RigidObjectCfg):
            rigid_objects += 1
    return _Assets(articulations, joints, rigid_objects)


def _condim(spawn: Any) -> int:
    """Return the largest ``condim`` of a spawner's colliders, all variants included; MuJoCo's 3 where none is set."""
    fragments = spawner_fragments(spawn, "collision_props")
    return max(getattr(fragment, "condim", None) or 3 for fragment in fragments)


def _joints(path: str) -> int:
    """Count the joints that move in a USD file."""
    from pxr import Usd, UsdPhysics

    stage: Any = Usd.Stage.Open(path)
    joints = (UsdPhysics.RevoluteJoint, UsdPhysics.PrismaticJoint)
    return sum(any(prim.IsA(kind) for kind in joints) for prim in stage.Traverse())


def _clouds(points: PointCloudCfg, sizes: list[tuple[int, int]], device: str) -> Part:
    """Predict the memory of the point-cloud sensor.

    Operator and camera errors are built on the CPU for two sizes and measured, since their scratch memory depends on
    the settings. The sensor's own buffers are added. For ``fps`` this may be 2 bytes a pixel more than a GPU takes,
    where up to 4,096 pixels need no scratch memory.
    """
    few, more = (_built_bytes(points, sizes, num_envs, device) for num_envs in (64, 128))

    rows, channels, itemsize = cloud_shape(points)
    cloud = rows * channels * itemsize
    pixels_and_mask = 4 * points.num_points + rows
    return 0, (more - few) / 64 + cloud + pixels_and_mask, f"{rows} x {channels} {points.dtype}"


def _built_bytes(points: PointCloudCfg, sizes: list[tuple[int, int]], num_envs: int, device: str) -> int:
    """Build what the sensor computes with and return its memory [bytes]."""
    operator = DepthToCloud(
        num_envs,
        sizes,
        points.num_points,
        sampler=points.sampler,
        crop_lower=points.crop_lower,
        crop_upper=points.crop_upper,
        voxel_size=points.voxel_size,
        backend="warp" if device.startswith("cuda") else None,
    )
    if points.realism is None:
        return operator.nbytes

    realism = DepthRealism(points.realism, sizes, num_envs, "cpu")
    # The frames that latency keeps are allocated with the first one: points, their number and their pixels.
    _, channels, _ = cloud_shape(points)
    seen = torch.zeros(num_envs, points.num_points, channels, dtype=getattr(torch, points.dtype))
    realism.delay(seen, seen[:, 0, 0].int(), seen[:, :, 0].int())
    return operator.nbytes + tensor_bytes(realism)
