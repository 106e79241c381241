# SPDX-License-Identifier: BSD-3-Clause
"""Another object in each environment: its mass, how it rests, what its cloud shows, and that it is lifted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trimesh
from isaaclab.utils.math import quat_apply_inverse, quat_error_magnitude

from isaaclab_pc.assets.objects.graspable import Graspable
from isaaclab_pc.assets.objects.object_set import dealt_objects
from isaaclab_pc.assets.objects.sets import load_set, make_object
from isaaclab_pc.envs import manipulation

pytestmark = pytest.mark.sim

RECIPES = [("box", 1000), ("mug", 6000), ("L", 1000), ("star", 1000)]
NUM_ENVS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    for index, recipe in enumerate(RECIPES):
        make_object(recipe).save(folder / f"{index}.npz")
    return folder


@pytest.fixture(scope="module")
def env(make_env: Callable, folder: Path) -> Any:
    points = {"frame": "env", "dtype": "float32", "remove": ("robot", "table", "ground"), "num_points": 200}
    fields = {f"scene.points.{name}": value for name, value in points.items()}
    fields["scene.points.cameras"] = ("camera",)
    return make_env("IsaacPC-Lift-Any-Franka-Direct", NUM_ENVS, objects=str(folder), **fields)


@pytest.fixture(scope="module")
def objects(env: Any, folder: Path) -> list[Graspable]:
    """The object of each environment."""
    loaded = load_set(str(folder))
    dealt = dealt_objects().tolist()
    assert len(dealt) == NUM_ENVS
    assert set(dealt) == set(range(len(RECIPES)))
    return [loaded[index] for index in dealt]


def test_masses_are_those_of_the_shapes(env: Any, objects: list[Graspable]) -> None:
    expected = torch.tensor([graspable.mass for graspable in objects])
    torch.testing.assert_close(env.object.data.body_mass.torch.flatten(), expected, rtol=1e-5, atol=0)
    inertia = env.object.data.body_inertia.torch.reshape(NUM_ENVS, 3, 3)
    moments = torch.linalg.eigvalsh(inertia)
    expected = torch.linalg.eigvalsh(torch.from_numpy(np.stack([graspable.inertia for graspable in objects])))
    torch.testing.assert_close(moments, expected.float(), rtol=1e-3, atol=0)


def test_objects_rest_where_they_are_put_and_their_clouds_lie_on_them(env: Any, objects: list[Graspable]) -> None:
    quat = torch.tensor(np.stack([graspable.rest_quat[0] for graspable in objects]), dtype=torch.float32)
    height = torch.tensor([graspable.rest_height[0] for graspable in objects], dtype=torch.float32)
    position = torch.cat([torch.tensor([[0.5, 0.0]]).expand(NUM_ENVS, 2), height[:, None]], dim=1)
    env.reset(seed=1)
    manipulation.place(env, env.object, torch.arange(NUM_ENVS), position, quat)
    up = torch.zeros(NUM_ENVS, env.cfg.action_space)
    up[:, 2] = 1.0
    for _ in range(15):
        env.step(up)

    torch.testing.assert_close(env.object_pos, position, atol=1.5e-3, rtol=0)
    assert quat_error_magnitude(env.object_quat, quat).max() < 0.03

    data = env.scene["points"].data
    assert (data.count.torch > 100).all()
    for index, graspable in enumerate(objects):
        points = data.points.torch[index, :, :3] - env.object_pos[index]
        local = quat_apply_inverse(env.object_quat[index].expand(len(points), 4), points).numpy()
        distance = [trimesh.proximity.signed_distance(part, local) for part in graspable.parts()]
        # Of the parts, the one that it is deepest in.
        assert np.abs(np.max(distance, axis=0)).max() < 1e-3


def test_episodes_start_in_the_resting_poses_by_their_chance(env: Any, objects: list[Graspable]) -> None:
    heights = []
    for seed in range(60):
        env.reset(seed=seed)
        assert env.corner_heights.amin(dim=1).abs().max() < 2e-3
        heights.append(env.object_pos[:, 2])
    heights = torch.stack(heights, dim=1).numpy()
    for index, graspable in enumerate(objects):
        poses = np.abs(heights[index, :, None] - graspable.rest_height - 0.0005) < 1e-4
        # Poses of one height are counted together.
        expected = [graspable.rest_chance[row].sum() for row in poses]
        found = [poses[:, column].mean() for column in poses.argmax(axis=1)]
        assert all(poses.any(axis=1))
        np.testing.assert_allclose(found, expected, atol=0.25)


def test_the_expert_lifts_them_all(env: Any) -> None:
    env.reset(seed=4)
    expert = env.expert()
    for _ in range(env.max_episode_length - 1):
        env.step(expert())
    assert env.is_fulfilled().all()
