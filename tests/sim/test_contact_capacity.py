# SPDX-License-Identifier: BSD-3-Clause
"""Newton's contact buffers in a real run: sized as asked, watched, reported when they overflow, and grown."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from isaaclab_pc.physics import apply_physics, grown
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

pytestmark = pytest.mark.sim

TASK, NUM_ENVS = "IsaacPC-Lift-Cube-Franka-Direct", 4
CONTACTS, CONSTRAINTS = 5, 24
"""Room for a cube at rest, and little more."""


@pytest.fixture(scope="module")
def make(make_env: Callable, backend: Backend) -> Callable[..., Any]:
    """Build the environment with physics settings."""

    def make(**settings: Any) -> Any:
        def adjust(cfg: Any) -> None:
            cfg.obs = "state"
            apply_physics(cfg, PhysicsSettings(backend=backend, **settings))

        return make_env(TASK, NUM_ENVS, adjust)

    return make


def step(env: Any, steps: int) -> None:
    """Hold still with closed fingers."""
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    actions[:, -1] = -1.0
    for _ in range(steps):
        env.step(actions)


def push_the_cube_into_the_hand(env: Any) -> None:
    """Make contacts between the cube, the hand and both fingers."""
    position = env.tool_pos + env.scene.env_origins + torch.tensor([0.0, 0.0, 0.03])
    env.cube.write_root_pose_to_sim_index(root_pose=torch.cat([position, env.tool_quat], dim=1))
    step(env, 1)


def overflows(usage: Any) -> bool:
    return usage["contacts"]["overflowed"] or usage["constraints"]["overflowed"]


def test_newton_drops_contacts_until_its_buffers_are_grown(make: Callable[..., Any], backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("PhysX gives no reading")
    settings, history = {"contacts": CONTACTS, "constraints": CONSTRAINTS}, []
    while len(history) < 4:
        env = make(**settings)
        monitor, log = env.contact_monitor, env.extras
        fresh = monitor.usage()
        assert fresh["contacts"]["capacity"] == NUM_ENVS * settings["contacts"]
        assert fresh["constraints"]["capacity"] == settings["constraints"]
        env.reset(seed=5)
        step(env, 2)
        resting = monitor.usage()
        assert resting["contacts"]["used"] == 4 * NUM_ENVS, "a cube stands on its four corners"
        assert not overflows(resting)

        for _ in range(5):
            push_the_cube_into_the_hand(env)
        pressed = monitor.usage()
        env.close()
        assert log["log"]["Physics/contacts_used_share"] == pytest.approx(pressed["share"], abs=1e-4)
        assert (pressed["share"] >= 1.0) == overflows(pressed)
        history.append(overflows(pressed))
        if not history[-1]:
            break
        settings |= grown(pressed)
    assert history == [True] * (len(history) - 1) + [False]
    assert len(history) > 1


def test_physx_is_not_watched(make: Callable[..., Any], backend: str) -> None:
    if backend == "newton_mjwarp":
        pytest.skip("Newton gives a reading")
    env = make()
    step(env, 1)
    assert env.contact_monitor is None
    assert "Physics/contacts_used_share" not in env.extras["log"]
