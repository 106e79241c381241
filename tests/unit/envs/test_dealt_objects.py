# SPDX-License-Identifier: BSD-3-Clause
"""Which grasp of an object is preferred, in which pose it rests, and how objects are dealt out."""

import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from isaaclab.utils.math import quat_apply, quat_error_magnitude, quat_from_euler_xyz, quat_mul

from isaaclab_pc.assets.objects.sets import make_object
from isaaclab_pc.envs.dealt_objects import DealtObjects, preferred_grasp
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.lift_any.lift_any_env_cfg import LiftAnyEnvCfg
from isaaclab_pc.terminal.screen import Lines, use

angles = st.floats(-3.1, 3.1)


def turned(roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0) -> torch.Tensor:
    return quat_from_euler_xyz(*torch.tensor([[roll], [pitch], [yaw]]))[0]


def downward(yaw: float) -> torch.Tensor:
    return turned(roll=math.pi, yaw=yaw)


def one_object(*grasps: tuple[tuple[float, float, float], torch.Tensor, float]) -> DealtObjects:
    """An object with grasps of positions, orientations and costs, all 3 cm wide."""
    position, quat, cost = zip(*grasps, strict=True)
    return DealtObjects(
        rest_cumulative=torch.tensor([[0.25, 1.0, 1.0]]),
        rest_quat=torch.stack([turned(), turned(roll=1.0), turned()])[None],
        rest_height=torch.tensor([[0.01, 0.02, 0.0]]),
        grasp_position=torch.tensor([position]),
        grasp_quat=torch.stack(quat)[None],
        grasp_width=torch.full((1, len(cost)), 0.03),
        grasp_cost=torch.tensor([cost]),
        corners=torch.zeros(1, 42, 3),
    )


def choose(dealt: DealtObjects, quat: torch.Tensor, tool: Any = (0.4, 0.0, 0.4), yaw: float = 0.0) -> Any:
    where = torch.tensor([[0.5, 0.1, 0.05]])
    position, held, width = preferred_grasp(dealt, where, quat[None], torch.tensor([tool]), downward(yaw)[None])
    assert width.tolist() == [pytest.approx(0.03)]
    return position[0] - where[0], held[0]


@given(yaw=angles, tool_yaw=st.floats(-1.5, 1.5))
def test_of_the_sides_of_a_cube_the_one_is_held_that_needs_the_least_turn(yaw: float, tool_yaw: float) -> None:
    cube = one_object(((0.0, 0.0, 0.0), downward(0.0), 0.1), ((0.0, 0.0, 0.0), downward(math.pi / 2), 0.1))
    _, held = choose(cube, turned(yaw=yaw), yaw=tool_yaw)
    sides = [quat_mul(turned(yaw=yaw), downward(quarter * math.pi / 2)) for quarter in range(4)]
    # The tool's own yaw counts a quarter as much.
    cost = [
        min(quat_error_magnitude(side, downward(turn)) for turn in (0.0, math.pi))
        + 0.25 * min(quat_error_magnitude(side, downward(tool_yaw + turn)) for turn in (0.0, math.pi))
        for side in sides
    ]
    errors = [float(quat_error_magnitude(held, side)) for side in sides]
    assert float(cost[errors.index(min(errors))]) == pytest.approx(float(min(cost)), abs=0.01)
    assert min(errors) < 0.01
    # Of the two ways round, the one nearer to the tool.
    assert quat_error_magnitude(held, downward(tool_yaw)) < math.pi / 2 + 0.01


@given(roll=angles, pitch=angles)
def test_a_grasp_that_would_come_from_below_or_through_the_table_is_never_preferred(roll: float, pitch: float) -> None:
    down = (0.0, 0.0, 0.01), downward(0.0), 1.0
    up = (0.0, 0.0, -0.01), turned(), 0.0
    low = (0.0, 0.0, -0.048), downward(0.0), 0.0
    position, held = choose(one_object(down, up, low), turned())
    assert position[2] == pytest.approx(0.01)
    assert quat_apply(held, torch.tensor([0.0, 0.0, 1.0]))[2] < -0.99

    # However it lies, the grasp is one of its own.
    quat = turned(roll, pitch)
    position, _ = choose(one_object(down, up), quat)
    assert min((position - quat_apply(quat, torch.tensor([0.0, 0.0, z]))).norm() for z in (0.01, -0.01)) < 1e-4


def test_the_place_on_the_right_is_preferred_wherever_the_tool_is() -> None:
    rod = one_object(((0.0, -0.05, 0.0), downward(0.0), 0.1), ((0.0, 0.05, 0.0), downward(0.0), 0.1))
    for tool in ((0.3, 0.4, 0.4), (0.8, -0.3, 0.3), (0.5, 0.15, 0.2)):
        assert choose(rod, turned(), tool)[0][1] == pytest.approx(-0.05)
        assert choose(rod, turned(yaw=math.pi), tool)[0][1] == pytest.approx(-0.05)


def test_of_grasps_that_are_as_good_the_closer_one_is_preferred_and_never_a_bad_one() -> None:
    for cost, z in ((0.15, 0.02), (0.9, -0.02)):
        rod = one_object(((0.0, 0.0, -0.02), downward(0.0), 0.1), ((0.0, 0.0, 0.02), downward(0.0), cost))
        assert choose(rod, turned(), (0.5, 0.1, 0.08))[0][2] == pytest.approx(z)


def test_resting_poses_are_drawn_by_their_chance() -> None:
    dealt = one_object(((0.0, 0.0, 0.0), downward(0.0), 0.1))
    unit = torch.tensor([0.0, 0.24, 0.26, 0.999999])
    quat, height = dealt.resting(torch.zeros(4, dtype=torch.long), unit)
    assert height.tolist() == pytest.approx([0.01, 0.01, 0.02, 0.02])
    torch.testing.assert_close(quat[2], turned(roll=1.0))


@pytest.fixture
def cfg(tmp_path: Path) -> LiftAnyEnvCfg:
    """The task's configuration with a set of two boxes."""
    for seed in (1, 2):
        make_object(("box", seed)).save(tmp_path / f"{seed}.npz")
    cfg = LiftAnyEnvCfg()
    cfg.objects = str(tmp_path)
    return cfg


def test_a_set_that_is_not_there_is_refused_before_a_scene_is_built(cfg: LiftAnyEnvCfg, tmp_path: Path) -> None:
    cfg.check()
    cfg.objects = "heldout"
    with pytest.raises(ConfigError, match="held_out"):
        cfg.check()
    cfg.objects = str(tmp_path / "empty")
    Path(cfg.objects).mkdir()
    with pytest.raises(ConfigError, match="holds no object"):
        cfg.check()


def test_objects_that_are_left_out_are_told(cfg: LiftAnyEnvCfg) -> None:
    for num_envs in (2, 1):
        cfg.scene.num_envs = num_envs
        said = io.StringIO()
        with use(Lines(said)):
            cfg.deal()
        assert ("1 of 2 objects are dealt out" in said.getvalue()) == (num_envs == 1)
        spawn: Any = cfg.scene.object.spawn
        assert len(spawn.usd_path) == 2


def test_contacts_that_would_be_those_of_one_object_are_refused(cfg: LiftAnyEnvCfg) -> None:
    presets: Any = cfg.sim.physics
    cfg.sim.physics = presets.newton_mjwarp
    cfg.deal()
    solver: Any = presets.newton_mjwarp.solver_cfg
    solver.use_mujoco_contacts = True
    with pytest.raises(ConfigError, match="use_mujoco_contacts"):
        cfg.deal()
