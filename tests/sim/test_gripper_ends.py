# SPDX-License-Identifier: BSD-3-Clause
"""A gripper that is open where its configuration says closed, in a real simulation."""

from collections.abc import Callable

import pytest

from isaaclab_pc.errors import ConfigError

pytestmark = pytest.mark.sim


def test_swapped_ends_are_refused_as_the_arm_is_built_and_the_right_ones_taken(make_env: Callable) -> None:
    ends = {"fingers_closed": (0.04, 0.04), "fingers_open": (0.0, 0.0)}

    def adjust(cfg) -> None:
        cfg.obs = "state"
        for name, positions in ends.items():
            setattr(cfg.scene.robot, name, positions)

    with pytest.raises(ConfigError, match=r"fingers_closed=\(0\.0, 0\.0\) and fingers_open=\(0\.04, 0\.04\)"):
        make_env("IsaacPC-Lift-Cube-Franka-Direct", 1, adjust)

    ends = {"fingers_closed": (0.0, 0.0), "fingers_open": (0.03, 0.03)}
    env = make_env("IsaacPC-Lift-Cube-Franka-Direct", 1, adjust)
    assert env.finger_limits[0].flatten().tolist() == pytest.approx([0.0, 0.03] * 2)
    assert env.finger_travel[0].tolist() == pytest.approx([0.03] * 2)
