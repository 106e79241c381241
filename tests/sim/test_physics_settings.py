# SPDX-License-Identifier: BSD-3-Clause
"""Physics settings in a real simulation: what was asked for is what the solver steps with."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from isaaclab_pc.physics import PRESETS, apply_physics
from isaaclab_pc.physics.asset_checks import check_scene
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

pytestmark = pytest.mark.sim

NUM_ENVS, STEPS = 4, 20


@pytest.fixture(scope="module")
def make(make_env: Callable, backend: Backend) -> Callable[..., Any]:
    """Build lift with physics settings, in place of the environment before it."""
    open_envs: list[Any] = []

    def make(**settings: Any) -> Any:
        def adjust(cfg: Any) -> None:
            cfg.obs = "state"
            apply_physics(cfg, PhysicsSettings(backend=backend, **settings))

        for env in open_envs:
            env.close()
        open_envs[:] = [make_env("IsaacPC-Lift-Cube-Franka-Direct", NUM_ENVS, adjust)]
        return open_envs[0]

    return make


def push_into_the_table(env: Any) -> torch.Tensor:
    """Press the closed gripper down; return joint positions (N, J)."""
    env.reset(seed=5)
    actions = torch.zeros(NUM_ENVS, env.cfg.action_space)
    actions[:, 2:] = -1.0
    for _ in range(STEPS):
        env.step(actions)
    return env.robot.data.joint_pos.torch.clone()


def test_newtons_solver_has_the_presets_and_the_given_values(make: Callable[..., Any], backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("PhysX does not tell what it was set to")
    from isaaclab_newton.physics import NewtonManager

    push_into_the_table(make(preset="robust", position_iterations=3))
    solver: Any = NewtonManager._solver  # Isaac Lab has no public way to it
    values = PRESETS[backend]["robust"]
    assert solver.mjw_model.opt.iterations == 3
    assert float(solver.mjw_model.opt.timestep.numpy()[0]) == pytest.approx(values["dt"] / values["substeps"])


def test_physx_solves_with_the_given_iterations(make: Callable[..., Any], backend: str) -> None:
    """PhysX does not tell what it was set to, but equal settings give equal motions, and others do not."""
    if backend != "ovphysx":
        pytest.skip("read from Newton's solver directly")
    few, again, many = (push_into_the_table(make(preset="balanced", position_iterations=n)) for n in (1, 1, 32))
    assert torch.equal(few, again)
    assert (few - many).abs().max() > 1e-3


def swing(env: Any) -> tuple[float, float]:
    """Swing the arm from side to side; return its greatest joint speed [rad/s] and how far a joint got [rad]."""
    env.reset(seed=5)
    start = env.robot.data.joint_pos.torch[:, :7].clone()
    speeds, ways = [], []
    for step in range(STEPS):
        target = start.clone()
        target[:, :7] += 1.5 if step % 10 < 5 else -1.5
        for _ in range(2):
            env.robot.actuators.target_command.set_position_index(value=target, joint_ids=list(range(7)))
            env.scene.write_data_to_sim()
            env.sim.step(render=False)
            env.scene.update(dt=env.physics_dt)
            speeds.append(env.robot.data.joint_vel.torch[:, :7].abs().max())
            ways.append((env.robot.data.joint_pos.torch[:, :7] - start).abs().max())
    return float(max(speeds)), float(max(ways))


def test_physx_keeps_the_tightened_limits(make: Callable[..., Any], backend: str) -> None:
    if backend != "ovphysx":
        pytest.skip("read from Newton's solver directly")
    limit = 2.61  # of the fastest joints [rad/s]
    free, way = swing(make())
    slow, _ = swing(make(velocity_limit_scale=0.25))
    assert slow < 0.25 * limit * 1.05 < free
    assert swing(make(effort_limit_scale=0.002))[1] < 0.3 * way


def test_newtons_solver_has_the_tightened_effort_limits(make: Callable[..., Any], backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("PhysX does not tell what it was set to")
    from isaaclab_newton.physics import NewtonManager

    def limits(**settings: Any) -> Any:
        make(**settings)
        solver: Any = NewtonManager._solver  # Isaac Lab has no public way to it
        return solver.mjw_model.jnt_actfrcrange.numpy()[:, :7]

    assert limits(effort_limit_scale=0.5) == pytest.approx(0.5 * limits())


def test_the_assets_are_sound_and_an_unsound_drive_is_found(make: Callable[..., Any], backend: str) -> None:
    env = make()
    assert check_scene(env.scene, env.cfg.sim) == []
    for actuator in env.robot.actuators.values():
        actuator.is_implicit_model = False  # as if Isaac Lab computed its force once per physics step
    warnings = check_scene(env.scene, env.cfg.sim)
    # The shoulder carries the most, the wrist has small gains, and on PhysX the fingers have their motor's inertia.
    sound = ["panda_joint2", "panda_joint5", "panda_joint6"]
    sound += ["panda_finger_joint1", "panda_finger_joint2"] if backend == "ovphysx" else []
    unsound = [name for name in env.robot.joint_names if name not in sound]
    assert [name for name in env.robot.joint_names if any(f"{name} (" in line for line in warnings)] == unsound
    assert len(warnings) == len(unsound)
    assert "panda_joint7 (stiffness 137.9, damping 13.79, inertia 0.106" in warnings[unsound.index("panda_joint7")]


def test_a_preset_keeps_the_control_rate_of_the_simulation(make: Callable[..., Any], backend: str) -> None:
    env = make(preset="robust")
    assert env.step_dt == pytest.approx(1 / 30)
    assert env.physics_dt == pytest.approx(PRESETS[backend]["robust"]["dt"])
