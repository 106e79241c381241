# SPDX-License-Identifier: BSD-3-Clause
"""Asset checks against numbers worked out by hand, and against the maps that they are about."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.physics.asset_checks import check_drives, largest_stable_dt

GAINS = st.floats(1e-2, 1e4)


@pytest.mark.parametrize(
    ("stiffness", "damping", "inertia", "implicit_damping", "limit"),
    [
        (400.0, 0.0, 1.0, False, 0.1),  # 2 / omega, omega = 20 rad/s
        (400.0, 0.0, 1.0, True, 0.1),  # no damping: both are the same
        (0.0, 80.0, 0.1, False, 0.0025),  # 2 m / d
        (0.0, 80.0, 0.1, True, math.inf),
        (300.0, 40.0, 1.0, False, 0.0430501),  # 300 dt^2 + 80 dt = 4: (sqrt(2800) - 40) / 300
        (300.0, 40.0, 1.0, True, 0.3097168),  # 300 dt^2 - 80 dt = 4: (sqrt(2800) + 40) / 300
        (0.0, 0.0, 1.0, False, math.inf),
    ],
)
def test_the_largest_step_is_the_one_worked_out_by_hand(
    stiffness: float, damping: float, inertia: float, implicit_damping: bool, limit: float
) -> None:
    step = largest_stable_dt(stiffness, damping, inertia, implicit_damping=implicit_damping)
    assert float(step) == pytest.approx(limit, rel=1e-5)


def spectral_radius(k: float, d: float, m: float, dt: float, implicit_damping: bool) -> float:
    """Return the largest eigenvalue of one step of (x, v), written down from the integrator."""
    divisor = 1.0 + dt * d / m if implicit_damping else 1.0
    velocity = np.array([-dt * k / m, 1.0 if implicit_damping else 1.0 - dt * d / m]) / divisor
    step = np.array([np.array([1.0, 0.0]) + dt * velocity, velocity])
    return float(np.abs(np.linalg.eigvals(step)).max())


@given(GAINS, GAINS, GAINS, st.booleans())
def test_the_integrator_is_stable_below_the_limit_and_not_above(k: float, d: float, m: float, implicit: bool) -> None:
    limit = float(largest_stable_dt(k, d, m, implicit_damping=implicit))
    assert spectral_radius(k, d, m, 0.99 * limit, implicit) < 1.0
    assert spectral_radius(k, d, m, 1.01 * limit, implicit) > 1.0


def test_an_unstable_drive_is_named_with_the_limit_and_the_armature_that_would_do() -> None:
    # 80 / 0.1 at 1/240 s: the limit is 0.0025 s; 2 * 80 / 240 / 4 = 0.16667 is needed, 0.0667 more.
    (warning,) = check_drives(["wrist", "shoulder"], [0.0, 0.0], [80.0, 80.0], [0.1, 1.0], 1 / 240)
    assert all(part in warning for part in ("wrist", "0.0025 s", "0.067"))
    assert check_drives(["wrist"], [0.0], [80.0], [0.1 + 0.0667], 1 / 240) == []
    assert check_drives(["wrist"], [0.0], [80.0], [0.1], 1 / 240, implicit_damping=True) == []
