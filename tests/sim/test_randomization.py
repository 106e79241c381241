# SPDX-License-Identifier: BSD-3-Clause
"""Domain randomization on real physics: what is drawn reaches the solver, the renderer and the task. And the goal."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from isaaclab.utils.math import quat_apply_inverse

from isaaclab_pc.envs.randomization import LEVELS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics.broadphase import shape_bounds
from isaaclab_pc.physics.friction import ShapeFriction
from isaaclab_pc.sensors import BodyPointsCfg
from isaaclab_pc.sensors.appended_points import BodyPoints
from isaaclab_pc.tasks.lift.lift_env_cfg import CUBE_EDGE

pytestmark = pytest.mark.sim

TASK, NUM_ENVS = "IsaacPC-Lift-Cube-Franka-Direct", 6
HARD = LEVELS["hard"]
GRAVITY = 9.81
GOAL_POINTS = 8


@pytest.fixture(scope="module")
def env(make_env: Callable):
    points = {"source": "image", "frame": "env", "dtype": "float32", "remove": ("robot", "table", "ground")}
    fields = {f"scene.points.{name}": value for name, value in points.items()}
    return make_env(TASK, NUM_ENVS, randomization="hard", goal_points=GOAL_POINTS, **fields)


def wait(env, steps: int) -> dict[str, torch.Tensor]:
    """Step with the hand going up, out of the cube's way."""
    action = torch.zeros(env.num_envs, env.cfg.action_space)
    action[:, 2] = 1.0
    observation = {}
    for _ in range(steps):
        observation = env.step(action)[0]
    return observation


def drawn(env) -> torch.Tensor:
    """Return what a level draws for an episode as the simulation has it, one row per environment."""
    camera = torch.cat([env.camera.data.pos_w.torch - env.scene.env_origins, env.camera.data.quat_w_ros.torch], dim=1)
    friction = ShapeFriction(env.cube, env.cfg.sim.physics).start.flatten(1)[:, :1]
    return torch.cat([env.cube.data.body_mass.torch, friction, camera], dim=1)


def between(factor: torch.Tensor, bounds: tuple[float, float]) -> bool:
    return bool(((factor > bounds[0] - 1e-5) & (factor < bounds[1] + 1e-5)).all())


def test_cubes_of_different_sizes_stand_on_the_table(env) -> None:
    assert len(env.cube_edge.unique()) > 1
    assert between(env.cube_edge / CUBE_EDGE, HARD.size)
    env.reset(seed=3)
    torch.testing.assert_close(env.cube_pos[:, 2], env.cube_edge / 2, atol=1e-6, rtol=0.0)
    wait(env, 20)
    torch.testing.assert_close(env.cube_pos[:, 2], env.cube_edge / 2, atol=2e-4, rtol=0.0)


def test_the_solvers_bounds_hold_every_cube(env, backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("only Newton leaves the bounds of the first environment to all")
    from isaaclab_newton.physics import NewtonManager

    model: Any = NewtonManager._solver.mjw_model  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    radius, half = shape_bounds(torch.tensor(model.geom_type.numpy()), torch.tensor(model.geom_size.numpy()))
    cube = (half != half[:1]).any(dim=2).any(dim=0)
    assert cube.sum() == 1
    assert (torch.tensor(model.geom_rbound.numpy())[:, cube] >= radius[:, cube] - 1e-6).all()
    assert (torch.tensor(model.geom_aabb.numpy())[0, cube, 1] >= half[:, cube] - 1e-6).all()


def test_the_moved_camera_sees_cubes_of_these_sizes_where_they_are(env) -> None:
    env.reset(seed=3)
    points = wait(env, 10)["points"][:, :-GOAL_POINTS]
    seen = (points - env.cube_pos[:, None]).norm(dim=2) < CUBE_EDGE
    assert (seen.sum(dim=1) >= 3).all()
    quat = env.cube_quat[:, None].expand(-1, points.shape[1], -1)
    # In the cube's frame, a point of its surface has half an edge as its largest coordinate.
    face = quat_apply_inverse(quat, points - env.cube_pos[:, None]).abs().amax(dim=2)
    error = (face - env.cube_edge[:, None] / 2).abs()[seen]
    assert error.max() < 3e-4


def test_the_goal_is_a_sphere_at_the_end_of_the_cloud(env) -> None:
    env.reset(seed=3)
    goal = wait(env, 1)["points"][:, -GOAL_POINTS:]
    distance = (goal - env.goal_pos[:, None]).norm(dim=2)
    torch.testing.assert_close(distance, torch.full_like(distance, env.cfg.goal_radius), atol=1e-5, rtol=0.0)
    assert len(goal[0].unique(dim=0)) == GOAL_POINTS


def test_draws_are_inside_the_level_and_keyed_by_seed_environment_and_episode(env) -> None:
    env.reset(seed=3)
    first = drawn(env)
    assert between(first[:, 0] / 0.1, HARD.mass)
    assert between(first[:, 1], HARD.friction)
    offset = first[:, 2:5] - torch.tensor(env.camera.cfg.offset.pos)
    assert (offset.abs() <= HARD.camera_position + 1e-5).all()
    assert all(len(column.unique()) > 1 for column in first.T)
    env.episode_length_buf[2] = env.max_episode_length - 1
    wait(env, 1)
    second = drawn(env)
    others = torch.arange(NUM_ENVS) != 2
    assert torch.equal(second[others], first[others])
    assert (second[2, [0, 2, 3, 4]] != first[2, [0, 2, 3, 4]]).all()
    env.reset(seed=3)
    assert torch.equal(drawn(env), first)
    env.reset(seed=4)
    assert not torch.equal(drawn(env)[:, 0], first[:, 0])


def test_things_stand_in_ranges_that_are_wider_about_the_same_centres(env) -> None:
    lower, upper = torch.tensor(env.cfg.goal_lower), torch.tensor(env.cfg.goal_upper)
    goals = []
    for seed in range(40):
        env.reset(seed=seed)
        goals.append(env.goal_pos.clone())
    from_centre = (torch.cat(goals) - (lower + upper) / 2).abs() / ((upper - lower) / 2)
    assert (from_centre <= HARD.pose + 1e-5).all()
    assert (from_centre > 1.0).any(dim=0).all()


def test_points_of_what_differs_between_environments_are_refused(env) -> None:
    with pytest.raises(ConfigError, match=r"^points\.append: 'cube'"):
        BodyPoints(BodyPointsCfg(asset="cube", num_points=8), env.scene, 0)
    hand = BodyPoints(BodyPointsCfg(asset="robot", bodies="panda_hand", num_points=8), env.scene, 0)
    assert hand.positions().shape == (NUM_ENVS, 8, 3)


def test_what_was_drawn_is_told_by_name_and_is_what_the_simulation_has(env) -> None:
    env.reset(seed=3)
    factors = {name: value.clone() for name, value in env.randomized_factors().items()}
    expected = {"cube_size", "cube_mass", "cube_friction", "camera_offset", "cube_yaw"}
    expected |= {f"{what}_{axis}" for what, axes in (("cube", "xy"), ("goal", "xyz")) for axis in axes}
    assert set(factors) == expected

    simulated = drawn(env)
    torch.testing.assert_close(factors["cube_size"], env.cube_edge / CUBE_EDGE)
    torch.testing.assert_close(factors["cube_mass"], simulated[:, 0] / 0.1)
    torch.testing.assert_close(factors["cube_friction"], simulated[:, 1])
    offset = simulated[:, 2:5] - torch.tensor(env.camera.cfg.offset.pos)
    torch.testing.assert_close(factors["camera_offset"], offset.norm(dim=1), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(factors["cube_x"], env.cube_pos[:, 0], atol=1e-5, rtol=0.0)
    torch.testing.assert_close(factors["goal_z"], env.goal_pos[:, 2])

    env.episode_length_buf[2] = env.max_episode_length - 1
    wait(env, 1)
    changed = env.randomized_factors()["cube_x"] != factors["cube_x"]
    assert changed.tolist() == [index == 2 for index in range(NUM_ENVS)]


def test_newtons_constants_follow_the_masses_without_being_computed_anew(env, backend: str) -> None:
    if backend != "newton_mjwarp":
        pytest.skip("PhysX derives nothing that we write")
    from isaaclab_newton.physics import NewtonManager
    from newton import ModelFlags

    solver: Any = NewtonManager._solver
    model = solver.mjw_model

    def constants() -> dict[str, torch.Tensor]:
        names = ("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_invweight0")
        arrays = {name: getattr(model, name) for name in names} | {"meaninertia": model.stat.meaninertia}
        return {name: torch.tensor(array.numpy()) for name, array in arrays.items()}

    told = []
    with mock.patch.object(solver, "notify_model_changed", told.append):
        env.reset(seed=3)
        wait(env, 1)
        before = constants()
        env.episode_length_buf[2] = env.max_episode_length - 1
        wait(env, 2)
    assert set(told) == {ModelFlags.SHAPE_PROPERTIES}

    scaled = constants()
    assert all((scaled[name][2] != before[name][2]).any() for name in scaled)
    assert all(torch.equal(scaled[name][3], before[name][3]) for name in scaled)
    solver.notify_model_changed(ModelFlags.BODY_INERTIAL_PROPERTIES)
    torch.testing.assert_close(constants(), scaled, rtol=2e-5, atol=1e-9)


def test_what_is_pulled_up_rises_where_its_mass_is_small_enough(env) -> None:
    env.reset(seed=3)
    wait(env, 5)
    mass = env.cube.data.body_mass.torch[:, 0]
    force = torch.zeros(NUM_ENVS, 1, 3)
    force[..., 2] = GRAVITY * mass.median()
    env.cube.permanent_wrench_composer.set_forces_and_torques_index(
        forces=force * 1.02, torques=torch.zeros_like(force), is_global=True
    )
    wait(env, 15)
    rises = env.cube_pos[:, 2] > env.cube_edge / 2 + 0.01
    env.cube.permanent_wrench_composer.reset()
    assert rises.tolist() == (mass <= mass.median()).tolist()


def test_a_cube_slides_the_shorter_the_higher_its_friction_is(env) -> None:
    env.reset(seed=3)
    wait(env, 5)
    factor = torch.linspace(0.2, 0.8, NUM_ENVS)
    env.randomizer._friction[0].scale(torch.arange(NUM_ENVS), factor)
    start = env.cube_pos.clone()
    velocity = torch.zeros(NUM_ENVS, 6)
    velocity[:, 0] = 0.5
    env.cube.write_root_velocity_to_sim_index(root_velocity=velocity)
    wait(env, 25)
    way = (env.cube_pos - start)[:, 0]
    assert (way > 0.005).all()
    assert (way.diff() < -1e-4).all()
