# SPDX-License-Identifier: BSD-3-Clause
"""Figures of films for a run's report: one frame from two sides, and episodes as strips of frames."""

import math
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.spatial.transform import Rotation

from isaaclab_pc.report.curves import PageFigure
from isaaclab_pc.report.drawing import HEIGHT_SPAN, draw_svg
from isaaclab_pc.report.films import Film

_GROUND = "#1b2230"
"""Behind the points, in both of the page's themes: the lowest and the highest points stand out from it."""

_AXES = ("#ff7b6b", "#8be28b", "#7db8ff")
_AXIS_LENGTH = 0.06
_GOAL = {"markeredgecolor": "#ff8ff0", "markerfacecolor": "none", "markersize": 8, "markeredgewidth": 1.5}
_MARGIN = 0.07
"""Around all that is shown [m]: a gripper's axes at the edge stay whole."""

_LOWEST = 0.4
"""Share of the colour map below which colours are too dark on the ground."""

# Horizontal and vertical axis of a view in the environment's frame: x away from the robot, y to its left, z up.
_SIDE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_ABOVE = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
_OBLIQUE = np.array([[0.7071, 0.7071, 0.0], [-0.3590, 0.3590, 0.8615]])
"""From in front of the robot, from its right and from above."""

_COLUMNS = 4


def film_figure(key: str, title: str, film: Film) -> PageFigure:
    """Draw a single frame large, a cloud from the side and from above, or all frames of an episode as a strip."""
    frames = len(film.times)
    rows = math.ceil(frames / _COLUMNS)

    def draw_strip(figure: Figure) -> None:
        for frame, time in enumerate(film.times):
            axes = figure.add_subplot(rows, _COLUMNS, frame + 1)
            _draw_frame(axes, film, frame, _OBLIQUE)
            axes.set_title(f"{time:.2f} s")
            axes.set(xticks=[], yticks=[])

    def draw_views(figure: Figure) -> None:
        views = ((_SIDE, "x [m]", "z [m]", "from the side"), (_ABOVE, "-y [m]", "x [m]", "from above"))
        for number, (view, x_label, y_label, name) in enumerate(views, start=1):
            axes = figure.add_subplot(1, 2, number)
            _draw_frame(axes, film, 0, view)
            axes.set(xlabel=x_label, ylabel=y_label, title=name)

    note = _note(film)
    label = f"{title}. {note}"
    if frames > 1:
        aspect = 1.0 if film.depth is None else film.depth.shape[1] / film.depth.shape[2]
        svg = draw_svg(draw_strip, key, label, (4.6, 0.1 + (0.25 + 1.1 * aspect) * rows))
    elif film.depth is None:
        svg = draw_svg(draw_views, key, label, (4.6, 2.5))
    else:
        svg = draw_svg(lambda figure: _draw_frame(figure.subplots(), film, 0, _OBLIQUE), key, label)
    return PageFigure(key, title, svg, note)


def _note(film: Film) -> str:
    """Return when the film was made, and the meaning of its colours and marks."""
    when = f"After iteration {int(film.iteration):,}"
    if film.depth is not None:
        near, far = _depth_range(film.depth)
        return f"{when}. Bright is near, {near:.2f} m; dark is far, {far:.2f} m; pixels that hit nothing are empty."
    goal = ", the ring is the goal" if film.goal is not None else ""
    colors = f"Colours are heights, from 0 m, dark, to {HEIGHT_SPAN} m, bright"
    return f"{when}. {colors}. The three lines are the gripper{goal}."


def _draw_frame(axes: Any, film: Film, frame: int, view: np.ndarray) -> None:
    """Draw a frame's depth image, or its cloud as seen in a view."""
    axes.set_facecolor(_GROUND)
    axes.grid(visible=False)
    if film.depth is not None:
        near, far = _depth_range(film.depth)
        shown = np.ma.masked_less_equal(film.depth[frame].astype(np.float64), 0.0)
        axes.imshow(shown, cmap="viridis_r", vmin=near, vmax=far, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
    else:
        _draw_cloud(axes, film, frame, view)


def _depth_range(depth: np.ndarray) -> tuple[float, float]:
    """Return the nearest and the farthest distance of all frames [m]."""
    hit = depth[depth > 0]
    return (float(hit.min()), float(hit.max())) if hit.size else (0.0, 1.0)


def _height_colors(heights: np.ndarray) -> np.ndarray:
    """Return the colours of heights [m]: red, green, blue and opacity from 0 to 1, shape (K, 4)."""
    share = (heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return mpl.colormaps["viridis"](_LOWEST + (1.0 - _LOWEST) * share)


def _draw_cloud(axes: Any, film: Film, frame: int, view: np.ndarray) -> None:
    """Draw a frame's points, gripper and goal, projected onto the two axes of a picture, shape (2, 3)."""
    assert film.points is not None
    points = film.points[frame].astype(np.float64)
    # The nearest points come last.
    points = points[np.argsort(points @ np.cross(view[0], view[1]))]
    size = float(np.clip(1500 / len(points), 4.0, 12.0))
    # As pixels: so many shapes would make the page large.
    axes.scatter(*(points @ view.T).T, s=size, c=_height_colors(points[:, 2]), linewidths=0, rasterized=True)

    center = film.tool[frame, :3].astype(np.float64)
    ends = center + _AXIS_LENGTH * Rotation.from_quat(film.tool[frame, 3:]).as_matrix().T
    for end, color in zip(ends, _AXES, strict=True):
        axes.plot(*(np.stack([center, end]) @ view.T).T, color=color, linewidth=1.6)
    if film.goal is not None:
        axes.plot(*(view @ film.goal[frame]), "o", **_GOAL)

    # The same square in all frames, with nearly all points, the grippers and the goals in it.
    cloud = film.points.reshape(-1, 3).astype(np.float64) @ view.T
    marks = [film.tool[:, :3] @ view.T, *([film.goal @ view.T] if film.goal is not None else [])]
    corners = np.vstack([np.quantile(cloud, (0.01, 0.99), axis=0), *marks])
    low, high = corners.min(axis=0), corners.max(axis=0)
    center, half = (low + high) / 2, (high - low).max() / 2 + _MARGIN
    axes.set_aspect("equal")
    axes.set(xlim=(center[0] - half, center[0] + half), ylim=(center[1] - half, center[1] + half))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(4))
