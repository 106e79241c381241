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


@pytest.mark.parametrize("backend", ["newton_mjwarp"], scope="module")
def test_newton_drops_contacts_until_its_buffers_are_grown(
    make_env: Callable, backend: Backend, capfd: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"contacts": CONTACTS, "constraints": CONSTRAINTS}
    history: list[bool] = []
    while len(history) < 4:
        physics = PhysicsSettings(backend=backend, **settings)
        env = make_env(TASK, NUM_ENVS, lambda cfg, physics=physics: apply_physics(cfg, physics), obs="state")
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
    # Newton's own lines would be thousands; what they tell is read from its flags.
    assert "please increase" not in "".join(capfd.readouterr())
