# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of what a policy saw, for a run's report: a cloud from two sides, and episodes as strips of frames."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator, NullLocator
from scipy.spatial.transform import Rotation

from isaaclab_pc.viz.drawing import HEIGHT_SPAN, INK, draw_svg
from isaaclab_pc.viz.films import Film
from isaaclab_pc.viz.run_figures import PageFigure

__all__ = ["film_figure", "look_figure"]

_GROUND = "#1b2230"
"""Behind the points, in both of the page's themes: no other colour lets the lowest and the highest ones be seen."""

_AXES = ("#ff7b6b", "#8be28b", "#7db8ff")
_AXIS_LENGTH = 0.06
_MARGIN = 0.07
"""Around all that is shown [m]: a gripper's axes at the edge stay whole."""
_LOWEST = 0.4
"""Share of the colour map below which colours are too dark to be told from what is behind the points."""
_GOAL = "#ff8ff0"

_SIDE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_ABOVE = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
_COLUMNS = 4


def look_figure(key: str, title: str, film: Film) -> PageFigure:
    """Draw the last frame of a film: a cloud from the side and from above, or a depth image.

    Args:
        key: Name in the page.
        title: Headline.
        film: What to draw.

    Returns:
        The figure, with its points in the environment's frame: x away from the robot, y to its left, z up.
    """
    columns, rows = _table(film)
    label = f"{title}: {'; '.join(f'{name} {value}' for name, value in zip(columns, rows[-1], strict=True))}"
    note = f"{_where(film)}. {_legend(film)}"
    if film.depth is not None:
        image = film.depth[-1]
        svg = draw_svg(lambda axes: _draw_depth(axes, image, _depth_range(film)), key, label)
        return PageFigure(key, title, svg, columns, rows, note)

    def draw(panels: Any) -> None:
        views = ((_SIDE, "x [m]", "z [m]", "from the side"), (_ABOVE, "-y [m]", "x [m]", "from above"))
        for axes, (view, x_label, y_label, name) in zip(panels, views, strict=True):
            _draw_cloud(axes, film, len(film.times) - 1, view)
            axes.set(xlabel=x_label, ylabel=y_label)
            axes.set_title(name, fontsize=9, color=INK)

    return PageFigure(key, title, draw_svg(draw, key, label, (4.6, 2.5), (1, 2)), columns, rows, note)


def film_figure(key: str, title: str, film: Film) -> PageFigure:
    """Draw all frames of a film beside each other.

    Args:
        key: Name in the page.
        title: Headline.
        film: What to draw.
    """
    columns, rows = _table(film)
    first, last = rows[0], rows[-1]
    label = (
        f"{title}, {len(rows)} frames from {first[0]} to {last[0]} s; the gripper goes from {first[1]} to {last[1]} m"
    )
    lines = -(-len(rows) // _COLUMNS)
    view = _oblique()

    def draw(panels: Any) -> None:
        for frame, axes in enumerate(panels.flat):
            if frame >= len(rows):
                axes.set_axis_off()
                continue
            if film.depth is not None:
                _draw_depth(axes, film.depth[frame], _depth_range(film))
            else:
                _draw_cloud(axes, film, frame, view)
            axes.set_title(f"{rows[frame][0]} s", fontsize=9, color=INK, pad=3)
            axes.spines[:].set_visible(False)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(NullLocator())

    aspect = 1.0 if film.depth is None else film.depth.shape[1] / film.depth.shape[2]
    svg = draw_svg(draw, key, label, (4.6, 0.1 + (0.25 + 1.1 * aspect) * lines), (lines, _COLUMNS))
    return PageFigure(key, title, svg, columns, rows, f"{_where(film)}. {_legend(film)}")


def _where(film: Film) -> str:
    iterations = int(film.iteration)
    return f"After {iterations:,} iteration{'' if iterations == 1 else 's'}"


def _legend(film: Film) -> str:
    """Return what the colours and marks mean."""
    if film.depth is not None:
        near, far = _depth_range(film)
        return f"Bright is near, {near:.2f} m; dark is far, {far:.2f} m; what nothing was seen in is empty."
    goal = ", the ring is the goal" if film.goal is not None else ""
    return f"Colours are heights, from 0 m, dark, to {HEIGHT_SPAN} m, bright. The three lines are the gripper{goal}."


def _table(film: Film) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return what the frames show as numbers."""
    columns = ["time [s]", "gripper x, y, z [m]"]
    cells = [[f"{time:.2f}" for time in film.times], [_position(tool[:3]) for tool in film.tool]]
    if film.goal is not None:
        columns.append("goal x, y, z [m]")
        cells.append([_position(goal) for goal in film.goal])
    if film.points is not None:
        columns += ["points", "lowest and highest [m]"]
        heights = film.points[..., 2]
        cells.append([str(film.points.shape[1])] * len(heights))
        cells.append([f"{of_frame.min():.3f}, {of_frame.max():.3f}" for of_frame in heights])
    if film.depth is not None:
        columns.append("pixels that saw something")
        cells.append([f"{int((image > 0).sum()):,} of {image.size:,}" for image in film.depth])
    return tuple(columns), tuple(zip(*cells, strict=True))


def _position(position: np.ndarray) -> str:
    return ", ".join(f"{value:.3f}" for value in position)


def _oblique() -> np.ndarray:
    """Return the axes of a picture seen from in front of the robot, from its right and from above, shape (2, 3)."""
    forward = -np.array([0.6, -0.6, 0.5])
    right = np.cross(forward, [0.0, 0.0, 1.0])
    up = np.cross(right, forward)
    return np.stack([right / np.linalg.norm(right), up / np.linalg.norm(up)])


def _height_colors(heights: np.ndarray) -> np.ndarray:
    """Return the colours of points by their heights [m], red, green, blue and opacity from 0 to 1, shape (K, 4)."""
    share = (heights / HEIGHT_SPAN).clip(0.0, 1.0)
    return mpl.colormaps["viridis"](_LOWEST + (1.0 - _LOWEST) * share)


def _draw_cloud(axes: Any, film: Film, frame: int, view: np.ndarray) -> None:
    """Draw a frame's points, gripper and goal, projected onto the two axes of a picture, shape (2, 3)."""
    assert film.points is not None
    points = film.points[frame].astype(np.float64)
    # What is nearer to the eye comes last.
    points = points[np.argsort(points @ np.cross(view[0], view[1]))]
    colors = _height_colors(points[:, 2])
    axes.set_facecolor(_GROUND)
    axes.grid(visible=False)
    size = float(np.clip(1500 / len(points), 4.0, 12.0))
    # As pixels: so many shapes would make the page large.
    axes.scatter(*(points @ view.T).T, s=size, c=colors, linewidths=0, rasterized=True)

    center = film.tool[frame, :3].astype(np.float64)
    ends = center + _AXIS_LENGTH * Rotation.from_quat(film.tool[frame, 3:]).as_matrix().T
    for end, color in zip(ends, _AXES, strict=True):
        axes.plot(*(np.stack([center, end]) @ view.T).T, color=color, linewidth=1.6)
    if film.goal is not None:
        goal = {"markeredgecolor": _GOAL, "markerfacecolor": "none", "markersize": 8, "markeredgewidth": 1.5}
        axes.plot(*(view @ film.goal[frame]), "o", **goal)
    axes.set_aspect("equal")
    _set_limits(axes, film, view)


def _set_limits(axes: Any, film: Film, view: np.ndarray) -> None:
    """Show the same square in all frames, with nearly all points, the grippers and the goals in it."""
    assert film.points is not None
    cloud = film.points.reshape(-1, 3).astype(np.float64) @ view.T
    marks = [film.tool[:, :3] @ view.T, *([film.goal @ view.T] if film.goal is not None else [])]
    corners = np.vstack([np.quantile(cloud, (0.01, 0.99), axis=0), *marks])
    low, high = corners.min(axis=0), corners.max(axis=0)
    center, half = (low + high) / 2, (high - low).max() / 2 + _MARGIN
    axes.set(xlim=(center[0] - half, center[0] + half), ylim=(center[1] - half, center[1] + half))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(4))


def _depth_range(film: Film) -> tuple[float, float]:
    """Return the nearest and the farthest distance of all frames [m]."""
    assert film.depth is not None
    hit = film.depth[film.depth > 0]
    return (float(hit.min()), float(hit.max())) if hit.size else (0.0, 1.0)


def _draw_depth(axes: Any, image: np.ndarray, limits: tuple[float, float]) -> None:
    shown = np.ma.masked_less_equal(image.astype(np.float64), 0.0)
    axes.set_facecolor(_GROUND)
    axes.imshow(shown, cmap="viridis_r", vmin=limits[0], vmax=limits[1], interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
