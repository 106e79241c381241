# SPDX-License-Identifier: BSD-3-Clause
"""Which points are added to what the cameras see. Loads neither a simulator nor USD."""

from isaaclab.utils import configclass


@configclass
class BodyPointsCfg:
    """Points on the surface of an asset's bodies, where forward kinematics puts them.

    On the robot's fingers this is DexPoint's imagined hand (Qin et al. 2022): the policy sees all of the hand, also
    where the camera does not.
    """

    num_points: int = 32
    """Points in all, spread over the bodies by area."""

    asset: str = "robot"
    """Name of the scene's articulation or rigid object."""

    bodies: str | list[str] = ".*"
    """Regular expressions of body names."""


@configclass
class GivenPointsCfg:
    """Points that the environment's code writes, such as a goal.

    Write them with ``scene["points"].given["goal"][:] = goal_pos_w[:, None]``, in the world's frame [m].
    """

    num_points: int = 1
    """Points, M; the tensor is (N, M, 3)."""

    name: str = "goal"
    """Key of the tensor."""
