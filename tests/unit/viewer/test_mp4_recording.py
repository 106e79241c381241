# SPDX-License-Identifier: BSD-3-Clause
"""A film of given frames: its size, its length, and what stands where."""

import numpy as np
import pytest

from isaaclab_pc.viewer.scene_pictures import PictureView, depth_picture, draw_points
from tests.unit.viewer import scenes

VIEW = PictureView(eye=(2.0, 0.0, 0.0), target=(0.0, 0.0, 0.0), width=64, height=48, fov_deg=60.0)
RED, GREEN = (255, 0, 0), (0, 255, 0)


def test_points_are_drawn_where_the_camera_sees_them_and_the_nearest_is_on_top():
    scene = np.full((VIEW.height, VIEW.width, 3), 100, np.uint8)
    points = np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.3], [0.0, 9.0, 0.0], [3.0, 0.0, 0.0]])
    colors = np.array([RED, GREEN, GREEN, GREEN, GREEN], np.uint8)
    picture = draw_points(points, colors, scene, VIEW, size=2)
    assert (picture[24:26, 32:34] == RED).all()
    rows, columns = np.nonzero((picture == GREEN).all(axis=-1))
    assert len(rows) == 4, "one is hidden, one is beside the picture, and one is behind the camera"
    # y goes to the right of who looks at the base, and z up.
    assert columns.min() == 32 + int(0.5 / 2.0 * 32.0 / np.tan(np.radians(30.0)))
    assert rows.max() < 24
    assert (picture[0, 0] == 100 // 5 + 204).all()


def test_depth_is_coloured_from_near_to_far_and_misses_are_black():
    picture = depth_picture(np.array([[0.5, 1.0], [0.0, 0.75]], np.float32))
    near, far, miss = picture[0, 0], picture[0, -1], picture[-1, 0]
    assert picture.shape == (8, 8, 3)
    assert not np.array_equal(near, far)
    assert np.array_equal(miss, [0, 0, 0])


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({}, 64 + 64 + 2 * 64),
        ({"cameras": scenes.frame(0).cameras[:1]}, 64 + 64 + 64),
        ({"cloud": None}, 64 + 2 * 64),
        ({"cloud": None, "cameras": ()}, 64),
    ],
)
def test_a_film_has_a_picture_for_every_frame_and_panels_for_what_is_seen(tmp_path, fields, width):
    av = pytest.importorskip("av", reason="needs av: uv pip install -c constraints.txt -e '.[viz]'")
    from isaaclab_pc.viewer.mp4_recording import Mp4Recording

    pictures = np.stack([np.full((48, 64, 3), value, np.uint8) for value in (40, 200)])
    path = tmp_path / "out.mp4"
    recording = Mp4Recording(path, scenes.layout(), VIEW, lambda: pictures)
    for step in range(5):
        recording.write(scenes.frame(step, **fields))
    recording.close()

    with av.open(path) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
        assert float(film.streams.video[0].average_rate) == 20.0
    assert len(frames) == 5
    wide = width == 64
    assert frames[0].shape == ((48, 128, 3) if wide else (96, width, 3))
    assert frames[4][40, 10] == pytest.approx([40] * 3, abs=4)
    assert (frames[4][40, 74] if wide else frames[4][88, 10]) == pytest.approx([200] * 3, abs=4)
