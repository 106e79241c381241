# SPDX-License-Identifier: BSD-3-Clause
"""What arms and other articulations made of primitives are described with, before ``author.py`` writes them as USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isaaclab_pc.assets.arm import ArmCfg
from isaaclab_pc.assets.articulated import Shape
from tools.assets.kinematics import Joint, Vector

DARK: Vector = (0.25, 0.25, 0.28)
"""Linear RGB of fingers."""


@dataclass(frozen=True)
class Inertial:
    """Mass properties of a link."""

    mass: float
    """Mass [kg]."""

    com: Vector
    """Centre of mass in the link frame [m]."""

    inertia: tuple[float, float, float, float, float, float]
    """Inertia about the centre of mass in the link frame: xx, yy, zz, xy, xz, yz [kg*m^2]."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """All that makes an arm of primitives with a parallel gripper, whose fingers are its sliding links."""

    name: str
    """Name of the root prim."""

    joints: tuple[Joint, ...]
    """Parents before children; the first one's parent link is fixed to the world."""

    inertials: Mapping[str, Inertial]
    """Mass properties by link."""

    shapes: Mapping[str, tuple[Shape, ...]]
    """Shapes by link."""

    cfg: ArmCfg
    """Configuration that the arm is simulated with: the file has the gains of its drives, too."""

    def gains(self, joint: Joint) -> tuple[float, float]:
        """Return stiffness and damping of a joint's drive; both are 0 where it does not move.

        Args:
            joint: One of :attr:`joints`.

        Returns:
            In N*m/rad and N*m*s/rad where it turns, in N/m and N*s/m where it slides.
        """
        if joint.axis is None:
            return 0.0, 0.0
        drives = {name: drive for drive in self.cfg.actuators.values() for name in drive.joint_names_expr}
        stiffness, damping = drives[joint.name].stiffness, drives[joint.name].damping
        assert isinstance(stiffness, dict)
        assert isinstance(damping, dict)
        return stiffness[joint.name], damping[joint.name]
