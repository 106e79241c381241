# SPDX-License-Identifier: BSD-3-Clause
"""``seen.npz``: films of what a run's policy saw. Loads neither torch nor matplotlib.

A NumPy ``.npz`` without pickled objects. Its arrays are named ``<film>.<field>``, by the films of :data:`FILMS` and the
fields of :class:`Film` that are not None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.array_archive import NOT_READABLE, read_arrays
from isaaclab_pc.utils.files import write_atomically

FILMS_NAME = "seen.npz"
"""Name of the file in the run's folder."""

FILMS = {
    "first": "First look",
    "last": "Last look",
    "success": "An episode that succeeded",
    "failure": "An episode that failed",
}
"""Names and titles: one frame after the first iteration, one at the end of training, and two episodes of the evaluation
at the end."""

MAX_FRAMES = 8
"""Frames of a film."""

_MAX_BYTES = 1 << 26
"""Upper limit of the unpacked size."""


@dataclass(frozen=True)
class Film:
    """F frames of one environment, with the points or depth images that the policy has."""

    iteration: np.ndarray
    """Completed iterations, shape (), int64."""
    times: np.ndarray
    """Time of each frame since the start of its episode [s], shape (F,), rising, float32."""
    tool: np.ndarray
    """Tool centre in the environment's frame [m] and orientation (x, y, z, w), shape (F, 7), float32."""
    points: np.ndarray | None = None
    """Clouds in the environment's frame [m], shape (F, K, 3), float16."""
    depth: np.ndarray | None = None
    """Depth images [m], shape (F, H, W), float16; 0 where a pixel hits nothing, or is too far."""
    goal: np.ndarray | None = None
    """Goal in the environment's frame [m], shape (F, 3), float32; None where the goal is no point."""


def add_films(folder: Path, films: Mapping[str, Film | None]) -> None:
    """Replace films, by the names of :data:`FILMS`, in a run's file; None removes one.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        known = read_films(folder)
    except ConfigError:
        # A file that cannot be read is of no use to anybody.
        known = {}
    arrays = {
        f"{name}.{field}": value
        for name, film in {**known, **films}.items()
        if film is not None
        for field, value in vars(film).items()
        if value is not None
    }
    # An open file, because NumPy appends .npz to a path that ends otherwise.
    with write_atomically(folder / FILMS_NAME) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_films(folder: Path) -> dict[str, Film]:
    """Read the films of a run by name; none where it recorded none.

    Raises:
        ConfigError: The file is broken, or no file of films.
    """
    path = folder / FILMS_NAME
    try:
        arrays = read_arrays(path, _MAX_BYTES)
    except FileNotFoundError:
        return {}
    except NOT_READABLE as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None

    films = {}
    for name in FILMS:
        values = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
        if not values:
            continue
        try:
            films[name] = Film(**values)
        except TypeError:
            raise ConfigError(f"{path}: the film {name} has other arrays than a film.") from None
        if not _is_whole(films[name]):
            raise ConfigError(f"{path}: the arrays of the film {name} contradict each other.")
    return films


def _is_whole(film: Film) -> bool:
    """Tell whether the arrays are finite numbers of shapes that fit each other."""
    values = {field: value for field, value in vars(film).items() if value is not None}
    if any(value.dtype.kind not in "iuf" or not np.isfinite(value).all() for value in values.values()):
        return False
    frames = len(film.times) if film.times.ndim == 1 else 0
    shapes = {"iteration": (), "times": (frames,), "tool": (frames, 7), "goal": (frames, 3)}
    if any(values[field].shape != shape for field, shape in shapes.items() if field in values):
        return False
    if not 0 < frames <= MAX_FRAMES or (film.points is None) == (film.depth is None):
        return False
    seen = film.depth if film.points is None else film.points
    assert seen is not None
    return seen.ndim == 3 and len(seen) == frames and seen.size > 0 and (film.points is None or seen.shape[2] == 3)
