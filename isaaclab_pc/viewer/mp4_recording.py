# SPDX-License-Identifier: BSD-3-Clause
"""Writes frames to an MP4 film: the scene beside the cloud and the depth images of the policy."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw

from isaaclab_pc.viewer.scene_frame import SceneFrame, SceneLayout, label_text
from isaaclab_pc.viewer.scene_pictures import PictureView, colors_by_height, depth_picture, draw_points

_MAX_ENVS = 9
"""Environments that are filmed, the first ones: more would be too small to see."""

_POINT_PX = 4
_ASPECT = 16.0 / 9.0
"""Width to height that the grid of environments comes near to."""

_QUALITY = {"crf": "20"}
"""H.264's constant rate factor; lower is better, and 23 is its default."""


class Mp4Recording:
    """A film in real time. It shows the scene, the cloud and the depth images of each environment.

    Observations that the policy does not have are left out: the cloud with ``obs=depth``, both with ``obs=state``.
    """

    def __init__(self, path: Path, layout: SceneLayout, view: PictureView, picture: Callable[[], np.ndarray]) -> None:
        """Begin a film in the place of an older file.

        ``picture`` returns what the camera ``view`` sees of all environments now, shape (N, H, W, 3), uint8.
        """
        self._layout = layout
        self._view = view
        self._picture = picture
        self._film = av.open(path, "w")
        rate = Fraction(1.0 / layout.step_s).limit_denominator(1000)
        self._stream = self._film.add_stream("libx264", rate=rate, options=_QUALITY)
        self._stream.pix_fmt = "yuv420p"

    def write(self, frame: SceneFrame) -> None:
        """Add a frame."""
        pictures = self._picture()
        shown = range(min(self._layout.num_envs, _MAX_ENVS))
        image = _grid([self._environment(frame, pictures[env], env) for env in shown])
        if not self._stream.codec_context.is_open:
            self._stream.height, self._stream.width = image.shape[:2]
        self._film.mux(self._stream.encode(av.VideoFrame.from_ndarray(image)))

    def close(self) -> None:
        """Finish the file."""
        self._film.mux(self._stream.encode(None))
        self._film.close()

    def _environment(self, frame: SceneFrame, scene: np.ndarray, env: int) -> np.ndarray:
        panels = [scene]
        if frame.cloud is not None:
            points = frame.cloud[env] - self._layout.origins[env]
            panels.append(draw_points(points, colors_by_height(points[:, 2]), scene, self._view, _POINT_PX))
        for camera in frame.cameras:
            depth = depth_picture(camera.depth[env])
            width = round(self._view.height * depth.shape[1] / depth.shape[0])
            scaled = Image.fromarray(depth).resize((width, self._view.height), Image.Resampling.NEAREST)
            panels.append(np.asarray(scaled))

        image = Image.fromarray(np.hstack(panels))
        text = f"{label_text(frame, env)}   {frame.step * self._layout.step_s:.1f} s"
        draw = ImageDraw.Draw(image)
        draw.text((6, 4), text, fill="black", font_size=14, stroke_width=2, stroke_fill="white")
        return np.asarray(image)


def _grid(tiles: list[np.ndarray]) -> np.ndarray:
    """Put pictures of one size into rows, with an even number of pixels in both directions, as H.264 needs."""
    height, width = tiles[0].shape[:2]
    columns = min(max(round(np.sqrt(len(tiles) * _ASPECT * height / width)), 1), len(tiles))
    rows = -(-len(tiles) // columns)
    grid = np.full((rows * height + rows * height % 2, columns * width + columns * width % 2, 3), 255, np.uint8)
    for index, tile in enumerate(tiles):
        row, column = divmod(index, columns)
        grid[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile
    return grid
