# SPDX-License-Identifier: BSD-3-Clause
"""``seen.npz``: what the policy of a run saw, a few frames of it. Loads neither torch nor matplotlib.

It is a NumPy ``.npz`` without pickled objects. Its arrays are named ``<film>.<field>``, by the films of :data:`FILMS`
and the fields of :class:`Film`; those that a film does not have are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from isaaclab_pc.array_archive import NOT_READABLE, read_arrays
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.files import write_atomically

__all__ = ["FILMS", "FILMS_NAME", "MOST_FRAMES", "Film", "add_films", "read_films"]

FILMS_NAME = "seen.npz"
"""The file's name in the run's folder."""

FILMS = ("first", "last", "success", "failure")
"""``first``: one frame, after the first iteration; ``last``: one frame, at the end of training; ``success`` and
``failure``: an episode each of the evaluation at the end."""

MOST_FRAMES = 8
"""Frames of a film."""

_MOST_BYTES = 1 << 26
"""More than a file unpacks to."""


@dataclass(frozen=True)
class Film:
    """Frames of one environment. It has points or depth images, as the policy has."""

    iteration: np.ndarray
    """Iterations that were completed, shape (), int64."""

    times: np.ndarray
    """Time of each frame since the start of its episode [s], shape (F,), rising, float32."""

    tool: np.ndarray
    """Tool centre in the environment's frame [m] and orientation (x, y, z, w), shape (F, 7), float32."""

    points: np.ndarray | None = None
    """Clouds in the environment's frame [m], shape (F, K, 3), float16."""

    depth: np.ndarray | None = None
    """Depth images [m], shape (F, H, W), float16; 0 where a pixel hits nothing, or what is too far."""

    goal: np.ndarray | None = None
    """Goal in the environment's frame [m], shape (F, 3), float32; None where the goal is no point."""


def add_films(folder: Path, films: Mapping[str, Film | None]) -> None:
    """Write films into a run's file, beside those that it has.

    Args:
        folder: The run's folder.
        films: By the names of :data:`FILMS`; one that is there already is replaced, and with None removed.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        known = read_films(folder)
    except ConfigError:
        # What cannot be read is of no use to anybody.
        known = {}
    arrays = {}
    for name, film in {**known, **films}.items():
        values = {field.name: getattr(film, field.name) for field in fields(film)} if film is not None else {}
        arrays |= {f"{name}.{field}": value for field, value in values.items() if value is not None}
    # An open file, because NumPy appends .npz to a path that ends otherwise.
    with write_atomically(folder / FILMS_NAME) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def read_films(folder: Path) -> dict[str, Film]:
    """Read what a run's policy saw.

    Args:
        folder: The run's folder.

    Returns:
        The films by name; empty where the run recorded none.

    Raises:
        ConfigError: There is a file, and it is broken, or something else.
    """
    path = folder / FILMS_NAME
    try:
        arrays = read_arrays(path, _MOST_BYTES)
    except FileNotFoundError:
        return {}
    except NOT_READABLE as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None

    films = {}
    for name in FILMS:
        values = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
        if values:
            films[name] = _film(path, name, values)
    return films


def _film(path: Path, name: str, values: dict[str, np.ndarray]) -> Film:
    """Check the arrays of a film, and return it."""
    try:
        film = Film(**values)
    except TypeError:
        raise ConfigError(f"{path}: the film {name} has other arrays than a film.") from None
    frames = len(film.times) if film.times.ndim == 1 else 0
    shapes = {"iteration": (), "times": (frames,), "tool": (frames, 7), "goal": (frames, 3)}
    is_whole = all(value.dtype.kind in "iuf" and np.isfinite(value).all() for value in values.values())
    is_whole = is_whole and all(values[field].shape == shape for field, shape in shapes.items() if field in values)
    is_whole &= 0 < frames <= MOST_FRAMES and (film.points is None) != (film.depth is None)
    seen = film.points if film.points is not None else film.depth
    if is_whole and seen is not None:
        is_whole = seen.ndim == 3 and len(seen) == frames and seen.size > 0
        is_whole = is_whole and (film.points is None or seen.shape[2] == 3)
    if not is_whole:
        raise ConfigError(f"{path}: the arrays of the film {name} contradict each other.")
    return film
