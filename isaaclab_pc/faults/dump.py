# SPDX-License-Identifier: BSD-3-Clause
"""The file that keeps the last steps of environments which failed. Loads no torch.

It is a NumPy ``.npz`` without pickled objects: one JSON text, ``about``, and plain arrays. E environments, T steps, T
the longest history in the file; shorter ones are padded with NaN, and with -1 in ``episode_step``.

| Array | Shape | |
|---|---|---|
| ``env_id``, ``cause``, ``step`` | (E,) int64 | which, why (bits, named in ``about``), at which step of the run |
| ``length`` | (E,) int64 | steps of the failed episode that the file has |
| ``episode``, ``episode_step`` | (E, T) int64 | number of the episode, and steps of it before this one |
| ``action`` | (E, T, A) float32 | as the environment was given it |
| ``before.<asset>.<quantity>`` | (E, T, ...) float32 | state at the start of the step, targets already set |
| ``after.<asset>.<quantity>`` | (E, ...) float32 | state after the last step, before the reset |

Quantities are ``root_pose`` (position [m] in the environment's frame, then x, y, z, w), ``root_velocity`` (linear
[m/s], angular [rad/s], in the world's axes) and, of articulations, ``joint_pos`` [rad or m], ``joint_vel`` [rad/s or
m/s], ``joint_pos_target`` and ``joint_vel_target``, in the order of ``about["assets"][<asset>]["joints"]``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict

import numpy as np
from pydantic import TypeAdapter, ValidationError

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.utils.array_archive import NOT_READABLE, read_arrays
from isaaclab_pc.utils.files import write_atomically
from isaaclab_pc.utils.json_record import first_problem

FORMAT = 1
"""Number of this layout; a file of another one is refused."""

SIMULATION_PACKAGES = ("isaaclab_pc", "isaaclab", "newton", "mujoco-warp", "ovphysx", "isaacsim", "warp-lang", "torch")
"""Distributions that a simulation depends on: with other versions a replay may differ."""

_MAX_BYTES = 1 << 30
"""More than a file unpacks to: 64 environments of 1,000 steps have some 100 MB."""

_PER_ENV = ("env_id", "cause", "step", "length")
_PER_STEP = ("episode", "episode_step", "action")


class _Asset(TypedDict):
    kind: str
    joints: list[str]


class _About(TypedDict):
    """Types of :attr:`FaultDump.about`."""

    format: int
    task: str
    config: dict[str, Any]
    seed: int | None
    backend: str
    versions: dict[str, str]
    dt: float
    decimation: int
    assets: dict[str, _Asset]
    causes: list[str]


_ABOUT = TypeAdapter(_About)


@dataclass
class FaultDump:
    """The content of one file."""

    about: dict[str, Any]
    """The run: ``format``, ``task`` (gym id), ``config`` (the run's plain config), ``seed``, ``backend``,
    ``versions``, ``dt`` [s], ``decimation``, ``assets`` (kind and joint names by asset), ``causes`` (names of bits)."""

    arrays: dict[str, np.ndarray]
    """The arrays of the module's table."""

    def save(self, path: Path) -> None:
        """Write the file, or replace it; a reader sees all of it or nothing. Raises OSError where it cannot."""
        about = np.array(json.dumps(self.about))
        # An open file, because NumPy appends .npz to a path that ends otherwise.
        with write_atomically(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, about=about, **self.arrays)  # pyright: ignore[reportArgumentType]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check a file of :meth:`save`; ConfigError if it is missing, broken or something else."""
        try:
            arrays = read_arrays(path, _MAX_BYTES)
            about = json.loads(str(arrays.pop("about", "null")))
        except FileNotFoundError:
            raise ConfigError(f"dump={path}: there is no such file.") from None
        except NOT_READABLE as error:
            raise ConfigError(f"dump={path} cannot be read ({error}): give a .npz that the guard wrote.") from None

        _check(path, about, arrays)
        return cls(about, arrays)

    def position_of(self, env_id: int | None) -> int:
        """Return where in the file an environment of the run is, None: the first; ConfigError if it is not there."""
        ids = self.arrays["env_id"].tolist()
        if env_id is None:
            return 0
        if env_id not in ids:
            raise ConfigError(f"env={env_id}: the dump holds {', '.join(map(str, ids))}.")
        return ids.index(env_id)

    def causes_of(self, position: int) -> list[str]:
        """Return the names of what the guard found in one of the file's environments."""
        bits = int(self.arrays["cause"][position])
        return [name for bit, name in enumerate(self.about["causes"]) if bits >> bit & 1]


def _check(path: Path, about: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what is not a complete dump of this format."""
    if not isinstance(about, dict) or "format" not in about:
        raise ConfigError(f"dump={path} was not written by the guard: it says nothing about itself.")

    if about["format"] != FORMAT:
        versions = about.get("versions")
        wrote = versions.get("isaaclab_pc", "unknown") if isinstance(versions, dict) else "unknown"
        raise ConfigError(
            f"dump={path} has format {about['format']}, this version reads {FORMAT}: replay it with the version that "
            f"wrote it, isaaclab_pc {wrote}."
        )

    try:
        _ABOUT.validate_python(about, strict=True)
    except ValidationError as error:
        raise ConfigError(f"dump={path} was not written by the guard: {first_problem(error)}.") from None

    missing = [name for name in (*_PER_ENV, *_PER_STEP) if name not in arrays]
    if missing:
        raise ConfigError(f"dump={path} is not complete: {', '.join(missing)} is missing.")
    others = [name for name, value in arrays.items() if value.dtype.kind not in "iuf"]
    if others:
        raise ConfigError(f"dump={path} was not written by the guard: {others[0]} holds no numbers.")
    if not _sizes_agree(arrays):
        raise ConfigError(f"dump={path} is not complete: the sizes of its arrays contradict each other.")


def _sizes_agree(arrays: Mapping[str, np.ndarray]) -> bool:
    """Tell whether all arrays are of the same environments and steps, E and T of the module's table."""
    length = arrays["length"]
    steps = arrays["action"].shape[:2]
    per_step = [arrays[name] for name in _PER_STEP]
    per_step += [value for name, value in arrays.items() if name.startswith("before.")]
    return (
        len(steps) == 2
        and steps[0] > 0
        and all(arrays[name].shape == steps[:1] for name in _PER_ENV)
        and all(value.shape[:2] == steps for value in per_step)
        and bool((length > 0).all() and (length <= steps[1]).all())
    )
