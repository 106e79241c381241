# SPDX-License-Identifier: BSD-3-Clause
"""Arms that are not what environments take them for are refused, by the field that mends them."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from isaaclab.utils import replace

from isaaclab_pc.assets.franka import FRANKA_PANDA_PRIMITIVE_CFG
from isaaclab_pc.envs.arm_checks import check_arm, check_arm_cfg
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.tasks.lift.lift_env_cfg import LiftEnvCfg

HAND = torch.tensor([0.3, -0.2, 0.9])
DOWN = torch.tensor([1.0, 0.0, 0.0, 0.0])
"""The hand's z axis points down, so its y axis is the world's -y."""


def proxy(values: torch.Tensor) -> Any:
    return SimpleNamespace(torch=values)


def robot(
    fingers: list[tuple[list[float], list[float], tuple[float, float]]], *, turns: bool = False, at: float = 0.0
) -> Any:
    """Return a robot of an arm joint and finger joints: base, hand, and a body for each finger.

    Args:
        fingers: Of each: where its body is in the hand's frame now, the joint's axis there, and the joint's limits. A
            joint that turns does so about a point 4 cm to the side of the hand.
        turns: Whether they turn.
        at: Where all finger joints are.
    """
    to_world = torch.tensor([1.0, -1.0, -1.0])
    num = len(fingers)
    jacobian = torch.zeros(1, 1 + num, 6, 1 + num)
    places = [torch.zeros(3), HAND]
    links = [torch.zeros(3), HAND]
    for index, (place, axis, _) in enumerate(fingers):
        body = HAND + to_world * torch.tensor(place)
        direction = to_world * torch.tensor(axis)
        link = HAND + to_world * torch.tensor([0.0, math.copysign(0.04, place[1]), 0.0]) if turns else body
        jacobian[0, 1 + index, 3 if turns else 0 : 6 if turns else 3, 1 + index] = direction
        places.append(body)
        links.append(link)
    data = SimpleNamespace(
        soft_joint_pos_limits=proxy(torch.tensor([[(-2.0, 2.0), *(limits for *_, limits in fingers)]])),
        joint_pos=proxy(torch.tensor([[0.0, *[at] * num]])),
        body_link_jacobian_w=proxy(jacobian),
        body_link_pos_w=proxy(torch.stack(links)[None]),
        body_com_pos_w=proxy(torch.stack(places)[None]),
        body_link_quat_w=proxy(DOWN.expand(1, 2 + num, 4)),
    )
    names = [f"finger{index}" for index in range(num)]
    return SimpleNamespace(
        is_fixed_base=True, joint_names=["arm", *names], body_names=["base", "palm", *names], data=data
    )


def lift(num_fingers: int, **fields: Any) -> LiftEnvCfg:
    cfg = LiftEnvCfg()
    names = tuple(f"finger{index}" for index in range(num_fingers))
    given = {"arm_joints": ("arm",), "finger_joints": names, "hand": "palm", **fields}
    cfg.scene.robot = replace(cfg.scene.robot, **given)
    cfg.scene.points = None
    return cfg


LEFT, RIGHT = [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]
PANDA = [([0.0, 0.0, 0.1], LEFT, (0.0, 0.04)), ([0.0, 0.0, 0.1], RIGHT, (0.0, 0.04))]
ROBOTIQ = [([0.0, 0.04, 0.1], [1.0, 0.0, 0.0], (0.0, 0.8)), ([0.0, -0.04, 0.1], [-1.0, 0.0, 0.0], (0.0, 0.8))]
"""Open at 0: each finger stands straight out, 4 cm beside the middle, and leans inwards as its joint turns."""

MIRRORED = [PANDA[0], ([0.0, 0.0, 0.1], LEFT, (-0.04, 0.0))]
INVERTED = [([0.0, 0.04, 0.1], RIGHT, (0.0, 0.04)), ([0.0, -0.04, 0.1], LEFT, (0.0, 0.04))]
BESIDE = [([0.0, 0.07, 0.1], LEFT, (0.0, 0.04)), ([0.0, 0.07, 0.1], RIGHT, (0.0, 0.04))]


@pytest.mark.parametrize(
    ("fingers", "fields"),
    [
        pytest.param(PANDA, {}, id="closed at 0"),
        pytest.param(PANDA[:1], {}, id="one finger"),
        pytest.param(BESIDE, {}, id="beside the hand's axis"),
        pytest.param(INVERTED, {"fingers_closed": (0.04, 0.04), "fingers_open": (0.0, 0.0)}, id="open at 0"),
        pytest.param(MIRRORED, {"fingers_closed": (0.0, 0.0), "fingers_open": (0.04, -0.04)}, id="mirrored"),
        pytest.param(
            ROBOTIQ,
            {"fingers_closed": (0.8, 0.8), "fingers_open": (0.0, 0.0), "finger_travel": 0.0425},
            id="turning",
        ),
    ],
)
def test_grippers_that_open_where_the_config_says_are_taken(fingers: list, fields: dict) -> None:
    turns = "finger_travel" in fields
    check_arm(lift(len(fingers), **fields), robot(fingers, turns=turns))


@pytest.mark.parametrize(
    ("fingers", "turns", "fields", "named"),
    [
        (INVERTED, False, {}, r"finger0, finger1 .*fingers_closed=\(0\.04, 0\.04\) .*fingers_open=\(0\.0, 0\.0\)"),
        (MIRRORED, False, {}, r": finger1 .*fingers_closed=\(0\.0, 0\.0\) .*fingers_open=\(0\.04, -0\.04\)"),
        (ROBOTIQ, True, {"finger_travel": 0.04}, r"fingers_closed=\(0\.8, 0\.8\)"),
        (ROBOTIQ[:1], True, {"finger_travel": 0.04}, r"fingers_closed=\(0\.8,\)"),
        (PANDA, False, {"fingers_closed": (0.04, 0.04), "fingers_open": (0.0, 0.0)}, "fingers_closed"),
        (ROBOTIQ, True, {"fingers_closed": (0.8, 0.8), "fingers_open": (0.0, 0.0)}, "finger_travel"),
        ([([0.0, 0.0, 0.1], [1.0, 0.0, 0.0], (0.0, 0.04))], False, {}, "x axis"),
        ([([0.0, 0.0, -0.1], LEFT, (0.0, 0.04))], False, {}, "hand=palm"),
        ([([0.0, 0.0, 0.1], LEFT, (-math.inf, math.inf))], False, {}, "fingers_open"),
    ],
)
def test_grippers_that_do_not_are_refused_with_what_turns_them_round(
    fingers: list, turns: bool, fields: dict, named: str
) -> None:
    with pytest.raises(ConfigError, match=rf"env\.scene\.robot.*{named}"):
        check_arm(lift(len(fingers), **fields), robot(fingers, turns=turns))


def test_where_the_fingers_are_as_they_are_checked_is_no_matter() -> None:
    half_open = [([0.0, 0.02, 0.1], LEFT, (0.0, 0.04)), ([0.0, -0.02, 0.1], RIGHT, (0.0, 0.04))]
    check_arm(lift(2), robot(half_open, at=0.02))


def test_a_gripper_that_no_action_commands_is_not_looked_at() -> None:
    cfg = lift(2)
    cfg.gripper = False
    check_arm(cfg, robot(INVERTED))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda _, built: setattr(built, "is_fixed_base", False), "fix_root_link"),
        (lambda cfg, _: setattr(cfg.scene.robot, "arm_joints", ("arn",)), r"arm_joints: .* arm\?"),
        (lambda cfg, _: setattr(cfg.scene.robot, "finger_joints", ("finger.*",)), r"finger_joints: .*finger\.\*"),
        (lambda cfg, _: setattr(cfg.scene.robot, "hand", "plam"), r"hand: .* palm\?"),
        (lambda cfg, _: setattr(cfg.scene, "points", LiftEnvCfg().scene.points), r"points\.gripper_body: .*panda_hand"),
    ],
)
def test_a_robot_that_was_built_otherwise_is_refused(change: Callable, named: str) -> None:
    cfg, built = lift(2), robot(PANDA)
    change(cfg, built)
    with pytest.raises(ConfigError, match=named):
        check_arm(cfg, built)


def test_positions_need_limits_to_be_between() -> None:
    cfg, built = lift(2), robot(PANDA)
    built.data.soft_joint_pos_limits.torch[0, 0] = torch.tensor([-1e10, 1e10])
    check_arm(cfg, built)
    cfg.action = "joint_position"
    with pytest.raises(ConfigError, match=r"^env\.action=joint_position: arm\b.*joint_delta"):
        check_arm(cfg, built)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"arm_joints": ()}, "arm_joints"),
        ({"arm_joints": "panda_joint.*"}, "arm_joints"),
        ({"finger_joints": ()}, "finger_joints"),
        ({"finger_joints": ("panda_joint1", "panda_finger_joint2")}, "panda_joint1"),
        ({"fingers_closed": (0.8,)}, "fingers_closed"),
        ({"fingers_open": (0.0, math.nan)}, "fingers_open"),
        ({"finger_travel": -1.0}, "finger_travel"),
        ({"tcp_offset": math.inf}, "tcp_offset"),
        ({"tcp_offset": None}, "tcp_offset"),
        ({"init_state": replace(FRANKA_PANDA_PRIMITIVE_CFG.init_state, rot=(0.0, 0.0, 0.0, 0.0))}, r"init_state\.rot"),
    ],
)
def test_a_configuration_that_is_no_arm_is_refused_before_a_simulator_starts(fields: dict, named: str) -> None:
    cfg = LiftEnvCfg()
    cfg.scene.robot = replace(cfg.scene.robot, **fields)
    with pytest.raises(ConfigError, match=named):
        cfg.check()


def test_an_arm_without_a_gripper_is_one_where_no_action_commands_it() -> None:
    check_arm_cfg(replace(FRANKA_PANDA_PRIMITIVE_CFG, finger_joints=()), gripper=False)
