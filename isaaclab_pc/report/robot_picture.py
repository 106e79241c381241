# SPDX-License-Identifier: BSD-3-Clause
"""The picture of an imported arm: what is seen of it, and what collides, in the posture that it starts from."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from isaaclab_pc.assets.robot_import.description import Array, Description
from isaaclab_pc.assets.robot_import.parts import Parts, place_links
from isaaclab_pc.report.drawing import BAD, GOOD, INK, SERIES, draw_triangles, save_png

_TO_EYE = Rotation.from_euler("zx", (-30.0, -70.0), degrees=True).as_matrix()
_COLOR = np.array([0.62, 0.68, 0.76])
_AXES = (BAD, GOOD, SERIES[0])
"""Colours of x, y and z."""


def save_robot_picture(robot: Description, parts: Parts, path: Path, title: str) -> None:
    """Draw an arm at its home posture into a PNG file, with the frames of its base and of its tool centre."""
    links = place_links(robot, parts, parts.home)
    hand = links[parts.hand]
    placed = {**links, parts.hand: hand @ np.linalg.inv(parts.in_hand)}
    placed |= {link: hand @ pose for link, pose in parts.unmoved.items()}
    tool = hand.copy()
    tool[:3, 3] += parts.tcp_offset * hand[:3, 2]

    def draw(figure: Figure) -> None:
        for axes, collides in zip(figure.subplots(1, 2), (False, True), strict=True):
            solids = [
                shape.mesh.vertices[shape.mesh.faces] @ pose[:3, :3].T + pose[:3, 3]
                for link, pose in placed.items()
                for shape in robot.shapes(link)
                if (shape.collides and link in links and link != 0 if collides else shape.is_visual)
            ]
            draw_triangles(axes, np.concatenate([np.zeros((0, 3, 3)), *solids]) @ _TO_EYE.T, _COLOR)
            for name, frame in (("base", np.eye(4)), ("tool centre", tool)):
                _draw_frame(axes, frame, name)
            axes.set_axis_off()
            axes.set(title="collision shapes" if collides else "visuals", aspect="equal")
            axes.autoscale_view()

    save_png(draw, path, title, (9.0, 5.0))


def _draw_frame(axes: Any, frame: Array, name: str) -> None:
    start = _TO_EYE @ frame[:3, 3]
    for axis, color in enumerate(_AXES):
        end = start + 0.15 * _TO_EYE @ frame[:3, axis]
        axes.plot(*zip(start[:2], end[:2], strict=True), color=color, linewidth=2.0)
        axes.annotate("xyz"[axis], end[:2], color=color, fontsize=8, ha="center", va="center")
    axes.annotate(name, start[:2], (-8.0, -8.0), textcoords="offset points", color=INK, fontsize=8, ha="right")
