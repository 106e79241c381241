# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the guard."""

import math
from typing import Literal, get_args

from isaaclab.utils import configclass

from isaaclab_pc.errors import ConfigError, closest

Bounds = tuple[float, float]
"""Smallest and largest value that is not a fault."""

Mode = Literal["quarantine", "sanitize", "raise", "disabled"]

_OWN_BOUNDS = ("action", "position", "reward", "observation")
_SETTINGS = ("mode", "ends", "max_abs")
"""Fields that are settings of a run, ``guard.<name>``; the others are reached as ``env.guard.<name>``."""

_POSITIVE = ("max_abs", "linear_velocity", "angular_velocity", "joint_velocity_factor")


@configclass
class GuardCfg:
    """Bounds of a fault, and the reaction to one.

    Joints are bounded by the limits of their assets. A bound of None is ``max_abs`` in both directions.
    """

    mode: Mode = "quarantine"
    """``quarantine`` ends a faulty environment's episode with reward 0 and resets the environment. ``sanitize``
    replaces the bad value and goes on: a reward, observation, depth or action by the nearest bound, its NaN by 0; a
    joint's position by its limit, a velocity by 0, a free body's position and other NaN by the asset's default.
    ``raise`` stops with a :class:`FaultError`; it waits for the device at every check. ``disabled`` checks nothing."""

    ends: Literal["terminated", "truncated"] = "terminated"
    """How ``quarantine`` marks the end of a faulty episode. After ``terminated`` a learner expects no more reward;
    after ``truncated`` it estimates the reward that would have followed, from the last observation before the fault."""

    max_abs: float = 1000.0
    """Largest magnitude accepted anywhere, in each tensor's SI unit; the bounds below can only narrow it."""

    action: Bounds | None = None
    """Actions as the policy gives them, before they are clipped."""

    position: Bounds = (-100.0, 100.0)
    """Coordinates of free bodies, relative to their environment's origin [m]."""

    linear_velocity: float = 200.0
    """Largest component of a free body's velocity [m/s]."""

    angular_velocity: float = 1000.0
    """Largest component of a free body's angular velocity [rad/s]."""

    quaternion_tolerance: float = 0.05
    """Largest deviation of a quaternion's length from 1."""

    joint_position_margin: float = 1.0
    """How far a joint may be beyond its limits, as a share of their range. Limits are soft in most solvers: random
    actions on Newton pushed a finger beyond by 0.48 of its range."""

    joint_velocity_factor: float = 30.0
    """How much faster than its limit a joint may be. Newton enforces no such limit. On PhysX a finger that was pressed
    into the table leaves it at up to 5 m/s (``max_depenetration_velocity``), 25 times its limit: no blow-up."""

    reward: Bounds | None = None
    """Reward of one step."""

    observation: Bounds | None = None
    """Numbers in observation groups."""

    bench_steps: int = 5
    """A fault within this number of steps after the last one is a relapse."""

    bench_after: int = 3
    """Relapses in a row after which an environment is benched: it is held at its default state with reward 0.
    ``sanitize`` benches none."""

    def check(self) -> None:
        """Raise ConfigError, naming the setting, for values that make no sense."""
        for name, choices in (("mode", get_args(Mode)), ("ends", ("terminated", "truncated"))):
            if getattr(self, name) not in choices:
                raise ConfigError(f"guard.{name}={getattr(self, name)}: {closest(str(getattr(self, name)), choices)}")

        for name in _POSITIVE:
            self._need(name, 0 < getattr(self, name) < math.inf, "a number above 0")
        self._need("quaternion_tolerance", 0 < self.quaternion_tolerance < 1, "a number above 0 and below 1")
        self._need("joint_position_margin", 0 <= self.joint_position_margin < math.inf, "a number of at least 0")
        for name in ("bench_steps", "bench_after"):
            self._need(name, getattr(self, name) >= 1, "a whole number of at least 1")

        for name in _OWN_BOUNDS:
            given = getattr(self, name)
            is_pair = isinstance(given, (tuple, list)) and len(given) == 2 and given[0] < given[1]
            self._need(name, given is None or is_pair, "null, or (least, most) with least < most")
            # A bound may be sound by itself and still lie outside max_abs.
            low, high = self.bounds(name)
            self._need(name, low < high, f"an interval that guard.max_abs={self.max_abs:g} leaves open")

    def bounds(self, name: str) -> Bounds:
        """Return the bounds of ``action``, ``position``, ``reward`` or ``observation``, within ``max_abs``."""
        low, high = getattr(self, name) or (-self.max_abs, self.max_abs)
        return max(low, -self.max_abs), min(high, self.max_abs)

    def fastest(self) -> tuple[float, float]:
        """Return the bounds of a free body's linear [m/s] and angular [rad/s] velocity, within ``max_abs``."""
        return min(self.linear_velocity, self.max_abs), min(self.angular_velocity, self.max_abs)

    def _need(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            prefix = "guard" if name in _SETTINGS else "env.guard"
            raise ConfigError(f"{prefix}.{name}={getattr(self, name)}: expected {expected}.")
