# SPDX-License-Identifier: BSD-3-Clause
"""Physics settings in a real simulation: what was asked for is what the solver steps with."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.physics.apply import PRESETS, apply_physics
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend
from tools.assets.author_franka import FRANKA

pytestmark = pytest.mark.sim

NUM_ENVS, STEPS = 4, 20
EFFORTS = [joint.effort for joint in FRANKA.joints if joint.name in FRANKA_PANDA_PRIMITIVE_CFG.arm_joints]
"""Of the arm's joints [N*m]."""


@pytest.fixture
def make(make_env: Callable, backend: Backend) -> Callable[..., Any]:
    """Build lift with physics settings, in place of the environment before it."""

    def make(**settings: Any) -> Any:
        def adjust(cfg: Any) -> None:
            apply_physics(cfg, PhysicsSettings(backend=backend, **settings))

        return make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust, obs="state")

    return make


def check_rates(env: Any, backend: str) -> None:
    """Check that the preset ``robust`` keeps the control rate of the simulation."""
    assert env.step_dt == pytest.approx(1 / 30)
    assert env.physics_dt == pytest.approx(PRESETS[backend]["robust"]["dt"])


def test_newtons_solver_has_the_presets_and_the_given_values(make: Callable[..., Any], backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("PhysX does not tell its iterations")
    from isaaclab_newton.physics import NewtonManager

    env = make(preset="robust", position_iterations=3)
    check_rates(env, backend)
    env.reset(seed=5)
    env.step(torch.zeros(NUM_ENVS, env.cfg.action_space))
    solver: Any = NewtonManager._solver  # Isaac Lab has no public way to it
    values = PRESETS[backend]["robust"]
    assert solver.mjw_model.opt.iterations == 3
    assert float(solver.mjw_model.opt.timestep.numpy()[0]) == pytest.approx(values["dt"] / values["substeps"])
    limits = solver.mjw_model.jnt_actfrcrange.numpy()[0, :7, 1]
    assert limits.tolist() == pytest.approx(EFFORTS)


def push_into_the_table(env: Any) -> torch.Tensor:
    """Press the closed gripper down; return joint positions (N, J)."""
    env.reset(seed=5)
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    actions[:, 2:] = -1.0
    for _ in range(STEPS):
        env.step(actions)
    return env.robot.data.joint_pos.torch.clone()


def test_physx_steps_with_the_given_values(make: Callable[..., Any], backend: str) -> None:
    """PhysX does not tell its iterations, but equal ones give equal motions, and others do not."""
    if backend != "ovphysx":
        pytest.skip("read from Newton's solver directly")
    env = make(preset="balanced", position_iterations=1)
    # A simulation's first motion differs from all others.
    _, few, again = (push_into_the_table(env) for _ in range(3))
    assert torch.equal(few, again)

    env = make(preset="balanced", position_iterations=32)
    _, many = (push_into_the_table(env) for _ in range(2))
    assert (few - many).abs().max() > 1e-3

    env = make(preset="robust")
    check_rates(env, backend)
    assert env.robot.data.joint_effort_limits.torch[0, :7].tolist() == pytest.approx(EFFORTS)
