# SPDX-License-Identifier: BSD-3-Clause
"""Which images are checked for what a policy observes; no simulator is started."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from isaaclab_pc.envs import PointCloudEnv
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
    """Return an environment that was never built; its cloud is made of some of the scene's cameras."""
    scene: Any = SimpleNamespace(articulations={}, rigid_objects={}, env_origins=torch.zeros(NUM_ENVS, 3))
    scene.sensors = dict(zip(NAMES, map(camera, ("depth", "distance_to_image_plane")), strict=True))
    env: Any = object.__new__(PointCloudEnv)
    env._is_closed = True
    env.cfg = SimpleNamespace(goal_points=0, max_depth=5.0)
    env.scene = scene
    env.camera = scene.sensors["camera"]
    env.guard = Guard(GuardCfg(mode=mode), NUM_ENVS, "cpu", task="Lift")
    env.step_guard = StepGuard(env, env.guard, SceneState(env.guard, scene))
    env.given = []

    def points_of(depths: dict[str, torch.Tensor]) -> torch.Tensor:
        env.given.append({name: depth.clone() for name, depth in depths.items()})
        return torch.zeros(NUM_ENVS, 2, 3)

    env.point_cloud = SimpleNamespace(cfg=SimpleNamespace(cameras=cameras), points_of=points_of, casts_rays=False)
    return env


def spoil(env: Any, name: str, value: float) -> None:
    (image,) = env.scene.sensors[name].data.output.values()
    image.torch[1, 2, 3] = value


@pytest.mark.parametrize("value", [math.nan, -1.0, 1e30])
@pytest.mark.parametrize("spoiled", NAMES)
@pytest.mark.parametrize("cameras", [NAMES, NAMES[:1], NAMES[1:]])
def test_the_images_that_a_cloud_is_made_of_are_checked_and_no_others(
    cameras: tuple[str, ...], spoiled: str, value: float
) -> None:
    env = env_with(cameras)
    spoil(env, spoiled, value)
    env.observe_points()
    assert env.guard.faulted.tolist() == [False, spoiled in cameras, False]
    found = env.step_guard.check_observations({"points": torch.zeros(NUM_ENVS, 2, 3)})
    assert (found is not None) == (spoiled in cameras)
    assert found is None or found[1].tolist() == [False, True, False]


def test_a_depth_image_is_that_of_the_fixed_camera() -> None:
    env = env_with(NAMES)
    spoil(env, "wrist_camera", math.nan)
    assert env._observe_depth().shape == (NUM_ENVS, 1, 4, 5)
    assert not env.guard.faulted.any()
    spoil(env, "camera", math.nan)
    env._observe_depth()
    assert env.guard.faulted.tolist() == [False, True, False]


def test_the_cloud_is_made_of_repaired_images() -> None:
    env = env_with(NAMES, "sanitize")
    for name in NAMES:
        spoil(env, name, -1.0)
    env.observe_points()
    (depths,) = env.given
    assert {name: depth[1, 2, 3].item() for name, depth in depths.items()} == dict.fromkeys(NAMES, 0.0)


def test_a_fault_that_is_raised_names_the_camera() -> None:
    env = env_with(NAMES, "raise")
    spoil(env, "wrist_camera", math.nan)
    with pytest.raises(FaultError, match=r"Lift: bad values in wrist_camera \(depth\) of 1 environment"):
        env.observe_points()
