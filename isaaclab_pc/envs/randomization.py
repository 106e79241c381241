# SPDX-License-Identifier: BSD-3-Clause
"""Domain randomization in levels: where things stand, their size, mass and friction, and the camera's pose.

Sizes differ between environments but stay the same for the whole run, because a running simulation cannot change its
shapes. Everything else is drawn anew for every episode. All draws are keyed by (seed, environment, episode).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
import numpy as np
import torch
from isaaclab import cloner
from isaaclab.utils import configclass, replace
from isaaclab.utils.math import convert_camera_frame_orientation_convention, quat_from_angle_axis, quat_mul

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.friction import ShapeFriction
from isaaclab_pc.physics.mass import ObjectMasses
from isaaclab_pc.tensors.constant_tensor import constant_tensor
from isaaclab_pc.tensors.keyed_random import keyed_hash, keyed_uniform

if TYPE_CHECKING:
    from isaaclab.scene import InteractiveScene
    from isaaclab.sim import SimulationContext, SpawnerCfg
    from numpy.typing import NDArray

    from isaaclab_pc.envs.point_cloud_env_cfg import PointCloudEnvCfg

_SIZE_STREAM = 10
_CAMERA_STREAM = 11
# These two are the first of one stream for each randomized object.
_MASS_STREAM = 20
_FRICTION_STREAM = 40

_NUM_SIZES = 5
"""Number of sizes of an object: each is a prototype that the scene clones."""

_NUM_FRICTIONS = 32
"""Number of factors on an object's friction: PhysX keeps a material for each, and has room for 64,000."""


@dataclass(frozen=True, kw_only=True)
class Randomization:
    """The ranges of one level; those of sizes, masses and frictions are factors on the task's own values."""

    pose: float = 1.0
    """Width of the ranges that a task draws with ``uniform_pose``, about their centres."""

    size: tuple[float, float] = (1.0, 1.0)
    """Factor on the size of the objects in ``cfg.randomized``."""

    mass: tuple[float, float] = (1.0, 1.0)
    """Factor on their mass; the inertia follows."""

    friction: tuple[float, float] = (1.0, 1.0)
    """Factor on their static and dynamic friction."""

    camera_position: float = 0.0
    """Largest offset of the camera along each axis of its environment [m]."""

    camera_rotation: float = 0.0
    """Largest rotation of the camera about each of its own axes [rad]."""


LEVELS: dict[str, Randomization] = {
    "none": Randomization(),
    "default": Randomization(
        size=(0.9, 1.1), mass=(0.7, 1.4), friction=(0.8, 1.25), camera_position=0.01, camera_rotation=0.02
    ),
    "hard": Randomization(
        pose=1.2, size=(0.8, 1.1), mass=(0.4, 2.5), friction=(0.6, 1.5), camera_position=0.03, camera_rotation=0.06
    ),
}
"""The levels of ``env.randomization``. With ``none`` only what a task draws by itself varies: robot, objects, goals."""


def scaled(spawn: SpawnerCfg, factor: float) -> SpawnerCfg:
    """Return a copy of a primitive with all lengths times a factor; ConfigError for anything else."""
    lengths = {
        name: tuple(factor * edge for edge in value) if isinstance(value, tuple) else factor * value
        for name in ("size", "radius", "height")
        if (value := getattr(spawn, name, None)) is not None
    }
    if not lengths:
        raise ConfigError(
            f"env.randomization: a {type(spawn).__name__} has no size to vary. Take it out of env.randomized, or set "
            "env.randomization=none."
        )
    return replace(spawn, **lengths)


def randomize_sizes(cfg: PointCloudEnvCfg) -> None:
    """Vary the sizes of objects between environments before the scene is built; ConfigError without a size."""
    lower, upper = LEVELS[cfg.randomization].size
    if lower == upper or not cfg.randomized:
        return

    factors = np.linspace(lower, upper, _NUM_SIZES).tolist()
    for name in cfg.randomized:
        asset: Any = getattr(cfg.scene, name)
        # The task varies the sizes of this one itself.
        if isinstance(asset.spawn, sim_utils.MultiAssetSpawnerCfg | sim_utils.MultiUsdFileCfg):
            continue
        variants = [scaled(asset.spawn, factor) for factor in factors]
        asset.spawn = _SizesCfg(assets_cfg=variants, random_choice=False)

    # Isaac Lab's default goes round the variants; a task's own strategy stays.
    if cfg.scene.clone_cfg.clone_strategy is cloner.sequential:
        cfg.scene.clone_cfg.clone_strategy = partial(_keyed_choice, cfg.seed or 0)


@configclass
class _SizesCfg(sim_utils.MultiAssetSpawnerCfg):
    """An object in the sizes of a level, the smallest first: not one of which the task varies the sizes itself."""


def _keyed_choice(seed: int, weights: NDArray[np.float64], num_clones: int) -> NDArray[np.int64]:
    """Choose each environment's variant by (seed, environment); with a seed, a ``CloneCfg.clone_strategy``."""
    bits = keyed_hash(seed, torch.arange(num_clones), _SIZE_STREAM)
    return torch.remainder(bits, len(weights)).numpy()


class Randomizer:
    """Randomizes the running simulation: draws mass, friction and camera poses, and writes them."""

    def __init__(self, cfg: PointCloudEnvCfg, scene: InteractiveScene, sim: SimulationContext) -> None:
        """Read the values that the factors apply to, from an initialized scene."""
        self.level = LEVELS[cfg.randomization]
        self.seed = cfg.seed or 0
        """Key of all draws."""
        self.episode_index = torch.zeros(scene.num_envs, dtype=torch.long, device=scene.device)
        """Number of the running episode, shape (N,): another key of all draws."""
        self._cfg = cfg
        self._scene = scene
        self._sim = sim
        self._device = scene.device
        self._assets: list[Any] = [scene[name] for name in cfg.randomized]

        self._factors: dict[tuple[str, ...], torch.Tensor] = {}
        everywhere = torch.arange(scene.num_envs, device=scene.device)
        for name in cfg.randomized:
            self.record(everywhere, [f"{name}_size"], self.size_factor(name)[:, None])

        self._camera: Any = scene["camera"] if cfg.scene.camera is not None else None
        if self._camera is not None:
            # Turns the axes of the camera's convention into those of OpenGL.
            unturned = torch.tensor([[0.0, 0.0, 0.0, 1.0]], device=scene.device)
            self._to_opengl = convert_camera_frame_orientation_convention(
                unturned, origin=self._camera.cfg.offset.convention, target="opengl"
            )

        # Reading and writing them costs time at every reset, so only where the level varies them.
        self._mass: ObjectMasses | None = None
        self._friction: list[ShapeFriction] = []
        if self._assets and self.level.mass[0] < self.level.mass[1]:
            self._mass = ObjectMasses(self._assets, sim.cfg.physics)
        if self.level.friction[0] < self.level.friction[1]:
            self._friction = [ShapeFriction(asset, sim.cfg.physics) for asset in self._assets]

    def uniform(
        self,
        env_ids: torch.Tensor,
        stream: int,
        lower: Sequence[float],
        upper: Sequence[float],
        names: Sequence[str] = (),
    ) -> torch.Tensor:
        """Draw one vector per environment; see :meth:`~isaaclab_pc.envs.task_env.TaskEnv.uniform`."""
        if len(lower) != len(upper) or (names and len(names) != len(lower)):
            raise ValueError(
                f"stream {stream}: {len(lower)} lower bounds, {len(upper)} upper ones, names {tuple(names)}."
            )
        low = constant_tensor(tuple(lower), self._device)
        high = constant_tensor(tuple(upper), self._device)
        unit = keyed_uniform(self.seed, env_ids, self.episode_index[env_ids], stream, len(lower))
        draw = low + (high - low) * unit
        self.record(env_ids, names, draw)
        return draw

    def record(self, env_ids: torch.Tensor, names: Sequence[str], values: torch.Tensor) -> None:
        """Remember what was drawn for new episodes, so that evaluations can tell where a policy fails.

        ``values`` (M, D) are those of environments (M,); without ``names``, of which there are D, nothing is
        remembered.
        """
        key = tuple(names)
        if not key:
            return
        if key not in self._factors:
            self._factors[key] = torch.full((self._scene.num_envs, len(key)), float("nan"), device=self._device)
        self._factors[key][env_ids] = values

    def factors(self) -> dict[str, torch.Tensor]:
        """Return what was drawn for the running episodes, by name, each (N,)."""
        columns = ((names, values.unbind(1)) for names, values in self._factors.items())
        return {name: column for names, part in columns for name, column in zip(names, part, strict=True)}

    def size_factor(self, name: str) -> torch.Tensor:
        """Return the factor on an object's size in each environment, shape (N,)."""
        num_envs = self._scene.num_envs
        plan = self._sim.get_clone_plan()
        spawn = getattr(self._cfg.scene, name).spawn
        lower, upper = self.level.size
        if plan is None or not isinstance(spawn, _SizesCfg):
            return torch.ones(num_envs, device=self._device)
        variants = cloner.path.get_asset_prototypes(plan, self._scene[name].cfg.prim_path).tolist()

        # The clone plan lists the members of each different world, and which of these worlds an environment is.
        factors = np.linspace(lower, upper, _NUM_SIZES)
        topology: Any = plan.topology
        members = topology.world_prototypes
        starts = topology.world_prototype_starts
        of_world = [
            next(factors[variants.index(member)] for member in members[start:end] if member in variants)
            for start, end in pairwise(starts[1:])
        ]
        chosen = np.asarray(of_world)[topology.world_prototype_layout]
        return torch.tensor(chosen, dtype=torch.float32, device=self._device)

    def reset(self, env_ids: torch.Tensor) -> None:
        """Draw mass, friction and camera poses of the new episodes of environments, shape (M,), and write them."""
        names = self._cfg.randomized
        if self._mass is not None:
            lower, upper = self.level.mass
            factors = [
                self.uniform(env_ids, _MASS_STREAM + index, [lower], [upper], names=[f"{name}_mass"])
                for index, name in enumerate(names)
            ]
            self._mass.scale(env_ids, torch.cat(factors, dim=1))

        lower, upper = self.level.friction
        for index, friction in enumerate(self._friction):
            unit = self.uniform(env_ids, _FRICTION_STREAM + index, [0.0], [_NUM_FRICTIONS])[:, 0]
            steps = unit.floor().clamp(max=_NUM_FRICTIONS - 1) / (_NUM_FRICTIONS - 1)
            factor = lower + (upper - lower) * steps
            friction.scale(env_ids, factor)
            self.record(env_ids, [f"{names[index]}_friction"], factor[:, None])

        if self._camera is not None and max(self.level.camera_position, self.level.camera_rotation) > 0.0:
            self._move_camera(env_ids)

    def _move_camera(self, env_ids: torch.Tensor) -> None:
        camera = self._camera
        bound = [self.level.camera_position] * 3 + [self.level.camera_rotation] * 3
        draw = self.uniform(env_ids, _CAMERA_STREAM, [-b for b in bound], bound)
        self.record(env_ids, ["camera_offset"], torch.linalg.vector_norm(draw[:, :3], dim=1, keepdim=True))

        offset = camera.cfg.offset
        centre = constant_tensor(tuple(offset.pos), self._device)
        position = centre + self._scene.env_origins[env_ids] + draw[:, :3]
        # The rest of the draw is a rotation vector about the camera's own axes.
        angle = torch.linalg.vector_norm(draw[:, 3:], dim=1)
        rotation = quat_from_angle_axis(angle, draw[:, 3:] / angle.clamp_min(1e-9)[:, None])
        start = constant_tensor(tuple(offset.rot), self._device)
        quat = quat_mul(quat_mul(start.expand_as(rotation), rotation), self._to_opengl.expand_as(rotation))
        # Isaac Lab would convert another convention, and wait for the device in doing so.
        camera.set_world_poses(position, quat, env_ids=env_ids.int(), convention="opengl")
