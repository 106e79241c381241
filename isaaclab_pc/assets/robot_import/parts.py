# SPDX-License-Identifier: BSD-3-Clause
"""Finds the arm, the hand and the fingers in a description, and a posture for the arm to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.robot_import.description import Array, Description, Joint
from isaaclab_pc.errors import ConfigError, closest

_TIP = 0.02
"""Length of a finger's end that grasps [m]; the tool centre is in its middle."""

_HOME = (0.45, 0.0, 0.35)
"""Tool centre where the arm starts, in the frame of its base [m]."""

_TABLE = (0.55, 0.0, 0.03)
"""Tool centre in the same posture, where it touches the table [m]."""

_STARTS = 20
"""Postures that the search for the home posture starts from."""


class Parts(NamedTuple):
    """An arm with two fingers that slide along the y axis of the tool's frame, closed at 0."""

    arm: list[Joint]
    hand: int
    in_hand: Array
    """The tool's frame, with z out of the gripper, in that of the link ``hand``, (4, 4)."""
    tcp_offset: float
    fingers: list[Joint]
    """Their frames are in the tool's, as those of ``unmoved``: links of a linkage, which have visuals only."""
    unmoved: dict[int, Array]
    home: dict[str, float]
    """Position of each joint at the start [rad or m]."""


def find_parts(robot: Description, hand: str | None = None) -> Parts:
    """Find the parts of an arm; ``hand`` names the link that carries the fingers, None: the first with several joints.

    Fingers that turn, and all that a linkage moves, become fingers that slide as far as their tips move.

    Raises:
        ConfigError: A part cannot be found, or the arm does not reach; the message names the setting to give.
    """
    if hand is not None and robot.merged.get(hand, -1) < 0:
        raise ConfigError(f"hand={hand}: the robot has no such link: {closest(hand, robot.merged)}")
    link = 0 if hand is None else robot.merged[hand]
    while hand is None and len(ways := [joint.child for joint in robot.joints if joint.parent == link]) == 1:
        link = ways[0]
    arm = robot.path(0, link)
    carried = [link]
    for joint in robot.joints:
        if joint.parent in carried:
            carried.append(joint.child)
    tips = _tips(robot, link, carried[1:])
    if not arm or len(tips) != 2:
        found = ", ".join(robot.path(link, tip)[0].name for tip in tips) or "no joint"
        raise ConfigError(
            f"{robot.names[link]} carries {found}: a gripper of two fingers is needed. Name the link that "
            "carries them, hand=<link>, or mount a gripper, gripper=<file> flange=<link>."
        )

    frame, tcp_offset, closed, ways = _tool(robot, link, tips)
    home, in_hand = _home(robot, arm, frame, tcp_offset)
    to_frame = np.linalg.inv(in_hand)
    fingers = []
    for tip, pose, way in zip(tips, closed, ways, strict=True):
        driver = robot.path(link, tip)[0]
        if abs(way) < 1e-3 or driver.upper - driver.lower > np.pi:
            raise ConfigError(f"{driver.name} does not open a gripper: give it limits, or name another hand=<link>.")
        axis = np.sign(way) * (pose[:3, :3].T @ frame[:3, 1])
        # The torque of a finger that turns says little of its force.
        limits = (driver.effort or 20.0, driver.velocity) if driver.slides else (20.0, 0.2)
        frames = to_frame @ pose, np.eye(4)
        fingers.append(Joint(driver.name, link, tip, True, axis, *frames, 0.0, round(abs(way), 6), *limits))
        home[driver.name] = fingers[-1].upper
    unmoved = {child: to_frame @ _in_hand(robot, link, child, 0.5) for child in carried[1:] if child not in tips}
    return Parts(arm, link, in_hand, tcp_offset, fingers, unmoved, home)


def place_links(robot: Description, parts: Parts, positions: Mapping[str, float]) -> dict[int, Array]:
    """Return the frames of base, arm, hand and fingers, (4, 4), seen from the base's origin; the hand's is the tool's.

    ``positions`` are those of joints by name [rad or m]; others are at 0.
    """
    frames = {0: robot.base_pose()}
    for joint in [*parts.arm, *parts.fingers]:
        frame = frames[joint.parent] @ joint.pose(positions.get(joint.name, 0.0))
        frames[joint.child] = frame @ parts.in_hand if joint.child == parts.hand else frame
    return frames


def at_home(robot: Description, parts: Parts) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return solids in the home posture as triangles (T, 3, 3) [m], and the frames of base and tool centre, (4, 4)."""
    placed = place_links(robot, parts, parts.home)
    tool = placed[parts.hand]
    placed[parts.hand] = tool @ np.linalg.inv(parts.in_hand)
    placed |= {link: tool @ pose for link, pose in parts.unmoved.items()}
    visuals, colliders = [np.zeros((0, 3, 3))], [np.zeros((0, 3, 3))]
    for link, pose in placed.items():
        for shape in robot.shapes(link):
            triangles = shape.mesh.vertices[shape.mesh.faces] @ pose[:3, :3].T + pose[:3, 3]
            if shape.is_visual:
                visuals.append(triangles)
            if shape.collides and link != 0 and link not in parts.unmoved:
                colliders.append(triangles)
    tool[:3, 3] += parts.tcp_offset * tool[:3, 2]
    solids = {"visuals": np.concatenate(visuals), "collision shapes": np.concatenate(colliders)}
    return solids, {"base": np.eye(4), "tool centre": tool}


def _in_hand(robot: Description, hand: int, link: int, share: float) -> Array:
    """Return a link's frame in the hand's, (4, 4), where the finger has gone a share of its way, from 0 to 1."""
    # Joints behind the first belong to a linkage, which keeps what it carries parallel.
    first, *others = robot.path(hand, link)
    pose, rest = first.pose(first.lower + share * (first.upper - first.lower)), first.pose(0.0)
    for joint in others:
        at_joint, rest = pose @ joint.in_parent, rest @ joint.pose(0.0)
        pose = rest.copy()
        pose[:3, 3] = at_joint[:3, 3] + rest[:3, :3] @ joint.to_child[:3, :3].T @ joint.to_child[:3, 3]
    return pose


def _corners(robot: Description, hand: int, link: int, share: float) -> Array:
    """Return the corners of a link's collision shapes, in the hand's frame [m], (N, 3)."""
    corners = [np.zeros((0, 3)), *(shape.mesh.vertices for shape in robot.shapes(link) if shape.collides)]
    pose = _in_hand(robot, hand, link, share)
    return np.concatenate(corners) @ pose[:3, :3].T + pose[:3, 3]


def _tips(robot: Description, hand: int, carried: Sequence[int]) -> list[int]:
    """Return the links that end the longest fingers."""
    ends = {link: _corners(robot, hand, link, 0.5) for link in carried}
    ends = {link: end for link, end in ends.items() if len(end) and all(link != one.parent for one in robot.joints)}
    middle = np.mean([end.mean(axis=0) for end in ends.values()], axis=0) if ends else np.ones(3)
    reach = {link: float((end @ middle).max() / np.linalg.norm(middle)) for link, end in ends.items()}
    return [link for link in reach if reach[link] > max(reach.values()) - 0.01]


def _tool(robot: Description, hand: int, tips: Sequence[int]) -> tuple[Array, float, list[Array], list[float]]:
    """Return the tool's frame, the tool centre's distance in it, and of each finger its closed pose and way along y."""
    middle = [_corners(robot, hand, tip, 0.5).mean(axis=0) for tip in tips]
    closed, ways = [], []
    for tip, other in zip(tips, reversed(middle), strict=True):
        ends = [_corners(robot, hand, tip, share).mean(axis=0) for share in (0.0, 1.0)]
        opens = int(np.linalg.norm(ends[1] - other) > np.linalg.norm(ends[0] - other))
        closed.append(1.0 - opens)
        ways.append(ends[opens] - ends[1 - opens])
    y = ways[0] - ways[1] if np.linalg.norm(ways[0] - ways[1]) > 1e-6 else np.array([0.0, 1.0, 0.0])
    y /= np.linalg.norm(y)

    poses = [_in_hand(robot, hand, tip, share) for tip, share in zip(tips, closed, strict=True)]
    z = np.mean(middle, axis=0)
    z = z - (z @ y) * y
    axes = np.concatenate([sign * pose[:3, :3].T for pose in (np.eye(4), *poses) for sign in (1.0, -1.0)])
    nearest = axes[np.argmax(axes @ z)]
    if abs(nearest @ y) < 0.02 and nearest @ z > 0.94 * np.linalg.norm(z):
        # Fingers are seldom symmetric, frames nearly always are.
        z = nearest - (nearest @ y) * y
    z /= np.linalg.norm(z)
    rotation = np.stack([np.cross(y, z), y, z], axis=1)

    places = [_corners(robot, hand, tip, share) @ rotation for tip, share in zip(tips, closed, strict=True)]
    grasping = [place[place[:, 2] > place[:, 2].max() - _TIP] for place in places]
    x = np.mean([place[:, 0].min() + place[:, 0].max() for place in grasping]) / 2
    between = (grasping[0][:, 1].min() + grasping[1][:, 1].max()) / 2
    depth = min(float(place[:, 2].max()) for place in places) - _TIP / 2
    tcp_offset = round(max(depth, _TIP), 4)
    frame = np.eye(4)
    frame[:3, :3] = rotation
    frame[:3, 3] = rotation @ [x, between, depth - tcp_offset]
    return frame, tcp_offset, poses, [float(way @ y) for way in ways]


def _home(robot: Description, arm: Sequence[Joint], frame: Array, tcp_offset: float) -> tuple[dict[str, float], Array]:
    """Return joint positions in which the tool points down over the table, and the frame that is upright then."""
    # A gripper is the same after half a turn about its z axis, but the last joint has limits.
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    tool = frame.copy()
    tool[:3, 3] += tcp_offset * frame[:3, 2]
    lower = np.maximum([joint.lower for joint in arm], -np.pi)
    upper = np.minimum([joint.upper for joint in arm], np.pi)
    middle, half = (lower + upper) / 2, 0.48 * (upper - lower)

    def poses(positions: Array) -> list[Array]:
        poses = [robot.base_pose()]
        for joint, position in zip(arm, positions, strict=True):
            poses.append(poses[-1] @ joint.pose(position))
        return [*poses[2:], poses[-1] @ tool]

    def error(positions: Array, place: tuple[float, ...]) -> Array:
        pose = poses(positions)[-1]
        turn = np.diag([1.0, -1.0, -1.0]) @ pose[:3, :3]
        turn = turn if turn[0, 0] + turn[1, 1] > 0 else turn @ half_turn[:3, :3]
        return np.concatenate([pose[:3, 3] - place, 0.3 * Rotation.from_matrix(turn).as_rotvec()])

    best, home = 0.0, middle
    generator = np.random.default_rng(0)
    for start in range(_STARTS):
        # From the middle outwards: redundant joints stay there.
        guess = middle + half * generator.uniform(-1.0, 1.0, len(arm)) * start / _STARTS
        bounds = middle - half, middle + half
        low = least_squares(error, guess, args=(_TABLE,), bounds=bounds, max_nfev=40)
        if np.linalg.norm(low.fun) > 1e-3 or min(pose[2, 3] for pose in poses(low.x)[:-1]) < 0.1:
            continue
        result = least_squares(error, low.x, args=(_HOME,), bounds=bounds, max_nfev=40)
        # Far from singular, and near the middle of the joints' ranges.
        dexterity = float(np.sqrt(max(np.linalg.det(result.jac @ result.jac.T), 0.0)))
        score = dexterity * float(np.exp(-np.square((result.x - middle) / half).sum()))
        score = score if np.linalg.norm(result.fun) < 1e-3 else 0.0
        if score > best:
            best, home = score, result.x
    if not best:
        raise ConfigError(f"the arm has no posture with its tool {_HOME} m from its base, pointing down; check hand=.")
    names = [joint.name for joint in arm]
    is_turned = poses(home)[-1][0, 0] < 0
    return dict(zip(names, home.round(4).tolist(), strict=True)), frame @ half_turn if is_turned else frame
