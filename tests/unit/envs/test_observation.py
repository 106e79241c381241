# SPDX-License-Identifier: BSD-3-Clause
"""Which images are checked for what a policy observes; no simulator is started."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.envs.observation import observe_depth, observe_points
from isaaclab_pc.guards import FaultError, Guard, GuardCfg, SceneState, StepGuard

NUM_ENVS = 3
NAMES = ("camera", "wrist_camera")


def camera(kind: str) -> Any:
    """Stand for a camera that sees a wall 1 m away, in images of a size of its own."""
    image = torch.ones(NUM_ENVS, 4, 5 if kind == "depth" else 6, 1)
    return SimpleNamespace(
        cfg=SimpleNamespace(data_types=[kind]), data=SimpleNamespace(output={kind: SimpleNamespace(torch=image)})
    )


def env_with(cameras: tuple[str, ...], mode: Any = "quarantine") -> Any:
    """Stand for an environment whose cloud is made of some of the scene's cameras."""
    scene: Any = SimpleNamespace(articulations={}, rigid_objects={}, env_origins=torch.zeros(NUM_ENVS, 3))
    scene.sensors = dict(zip(NAMES, map(camera, ("depth", "distance_to_image_plane")), strict=True))
    guard = Guard(GuardCfg(mode=mode), NUM_ENVS, "cpu", task="Lift")
    points = SimpleNamespace(torch=torch.zeros(NUM_ENVS, 2, 3))
    return SimpleNamespace(
        cfg=SimpleNamespace(goal_points=0, max_depth=5.0),
        scene=scene,
        camera=scene.sensors["camera"],
        point_cloud=SimpleNamespace(cfg=SimpleNamespace(cameras=cameras), data=SimpleNamespace(points=points)),
        step_guard=StepGuard(None, guard, SceneState(guard, scene)),
        guard=guard,
    )


def spoil(env: Any, name: str, value: float) -> torch.Tensor:
    (image,) = env.scene.sensors[name].data.output.values()
    image.torch[1, 2, 3] = value
    return image.torch


@pytest.mark.parametrize("value", [math.nan, -1.0, 1e30])
@pytest.mark.parametrize("spoiled", NAMES)
@pytest.mark.parametrize("cameras", [NAMES, NAMES[:1], NAMES[1:]])
def test_the_images_that_a_cloud_is_made_of_are_checked_and_no_others(
    cameras: tuple[str, ...], spoiled: str, value: float
) -> None:
    env = env_with(cameras)
    spoil(env, spoiled, value)
    observe_points(env)
    assert env.guard.faulted.tolist() == [False, spoiled in cameras, False]
    found = env.step_guard.check_observations({"points": torch.zeros(NUM_ENVS, 2, 3)})
    assert (found is not None) == (spoiled in cameras)
    assert found is None or found.ended.tolist() == [False, True, False]


def test_a_depth_image_is_that_of_the_fixed_camera() -> None:
    env = env_with(NAMES)
    spoil(env, "wrist_camera", math.nan)
    assert observe_depth(env).shape == (NUM_ENVS, 1, 4, 5)
    assert not env.guard.faulted.any()
    spoil(env, "camera", math.nan)
    observe_depth(env)
    assert env.guard.faulted.tolist() == [False, True, False]


def test_sanitize_repairs_the_image_of_each_camera_before_the_cloud_is_made() -> None:
    env = env_with(NAMES, "sanitize")
    images = [spoil(env, name, -1.0) for name in NAMES]
    observe_points(env)
    assert [image[1, 2, 3].item() for image in images] == [0.0, 0.0]


def test_a_fault_that_is_raised_names_the_camera() -> None:
    env = env_with(NAMES, "raise")
    spoil(env, "wrist_camera", math.nan)
    with pytest.raises(FaultError, match=r"Lift: bad values in wrist_camera \(depth\) of 1 environment"):
        observe_points(env)
