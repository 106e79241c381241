# SPDX-License-Identifier: BSD-3-Clause
"""Films are read as they were written, refused where a stranger broke them, and drawn."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.report import film_figures
from isaaclab_pc.report.films import FILMS_NAME, add_films, read_films
from tests.unit.report.run_folder import make_film


def test_films_are_read_as_they_were_written_beside_those_that_are_there(tmp_path):
    assert read_films(tmp_path) == {}
    add_films(tmp_path, {"first": make_film(1)})
    add_films(tmp_path, {"success": make_film(8), "failure": make_film(3, depth=True)})
    films = read_films(tmp_path)
    assert list(films) == ["first", "success", "failure"]
    for name, expected in (("success", make_film(8)), ("failure", make_film(3, depth=True))):
        for field, value in vars(expected).items():
            found = getattr(films[name], field)
            assert (value is None) == (found is None)
            assert value is None or np.array_equal(value, found)

    add_films(tmp_path, {"failure": None})
    assert list(read_films(tmp_path)) == ["first", "success"]


WRONG = {
    "frames": {"times": np.zeros(9, np.float32)},
    "text": {"times": np.array(["a"])},
    "infinite": {"points": np.full((1, 40, 3), np.inf, np.float16)},
    "no cloud": {"points": None},
    "both": {"depth": np.zeros((1, 3, 4), np.float16)},
    "flat": {"points": np.zeros((1, 40), np.float16)},
    "empty": {"points": np.zeros((1, 0, 3), np.float16)},
    "tool": {"tool": np.zeros((1, 3), np.float32)},
    "iteration": {"iteration": np.zeros(2)},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_film_that_contradicts_itself_is_refused(tmp_path, name):
    add_films(tmp_path, {"first": replace(make_film(1), **WRONG[name])})
    with pytest.raises(ConfigError, match=f"{FILMS_NAME}.* first "):
        read_films(tmp_path)


def test_a_file_that_is_none_is_refused_and_replaced(tmp_path):
    path = tmp_path / FILMS_NAME
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigError, match=FILMS_NAME):
        read_films(tmp_path)
    others = {"first.code": np.zeros(1)}
    with path.open("wb") as file:
        np.savez(file, **others)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=f"{FILMS_NAME}.* first "):
        read_films(tmp_path)
    add_films(tmp_path, {"first": make_film(1)})
    assert list(read_films(tmp_path)) == ["first"]


def luminance(color: np.ndarray) -> float:
    """Return the relative luminance of WCAG 2 of a colour from 0 to 1."""
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_points_of_every_height_stand_out_from_what_is_behind_them():
    ground = luminance(np.array(to_rgb(film_figures._GROUND)))
    for color in film_figures._height_colors(np.linspace(-0.1, 0.5, 20))[:, :3]:
        assert (luminance(color) + 0.05) / (ground + 0.05) > 3.0, "WCAG 2 asks for so much contrast of graphics"


def test_a_grippers_axes_at_the_edge_of_a_picture_are_whole():
    film = make_film(3)
    axes = Figure().subplots()
    film_figures._draw_frame(axes, film, 0, film_figures._ABOVE)
    for line in axes.lines:
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert axes.get_xlim()[0] <= x.min() <= x.max() <= axes.get_xlim()[1]
        assert axes.get_ylim()[0] <= y.min() <= y.max() <= axes.get_ylim()[1]
