# SPDX-License-Identifier: BSD-3-Clause
"""Sets of objects by name or folder, made once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import trimesh

from isaaclab_pc.assets.objects import families
from isaaclab_pc.assets.objects.graspable import Graspable, make_graspable
from isaaclab_pc.errors import ConfigError, closest
from isaaclab_pc.processes.caches import cache_root

_TRIES = 20
"""Sizes that are drawn until an object can be grasped."""

Recipe = tuple[str, int]
"""Family and seed of an object."""


def _recipes(first_seed: int, counts: dict[str, int]) -> list[Recipe]:
    """Return as many objects of each family as are asked for, one of each in turn."""
    return [
        (family, first_seed + number)
        for number in range(max(counts.values()))
        for family, count in counts.items()
        if number < count
    ]


SETS: dict[str, list[Recipe]] = {
    "train": _recipes(1000, {**dict.fromkeys(families.KNOWN, 8), "cup": 24, "turned": 32, "compound": 104}),
    "held_out": [*_recipes(5000, dict.fromkeys(families.KNOWN, 2)), *_recipes(6000, dict.fromkeys(families.UNSEEN, 8))],
}
"""Sets that come with the package: 256 objects to learn from, and 48 to test with, half of them of unseen families."""


def load_set(name: str, progress: Callable[[int, int], None] = lambda done, total: None) -> list[Graspable]:
    """Load the objects of a set, in the order of their files' names; makes those of :data:`SETS` once.

    ``name`` is one of :data:`SETS`, or a folder of ``.npz`` files. ``progress`` is told how many of how many are made.

    Raises:
        ConfigError: There is no such set, its folder is empty, or holds something else.
    """
    folder = set_folder(name)
    if name in SETS and not folder.exists():
        _make_set(name, folder, progress)
    check_set(name)
    return [Graspable.load(file) for file in sorted(folder.glob("*.npz"))]


def check_set(name: str) -> None:
    """Raise ConfigError for a set that :func:`load_set` would not find; those of :data:`SETS` need not be made yet."""
    folder = set_folder(name)
    is_made_later = name in SETS and not folder.exists()
    if not is_made_later and not any(folder.glob("*.npz")):
        raise ConfigError(
            f"{folder} holds no object (.npz): import some with scripts/objects.py meshes=<folder> out={name}."
        )


def usd_files(name: str, *, padded: bool = False) -> list[Path]:
    """Return a USD file of each object of a set, in the order of :func:`load_set`; writes what is missing.

    ``padded``: each has as many parts as the object with the most, as Newton needs it.
    """
    parts = [len(graspable.part_ends) for graspable in load_set(name)]
    num_parts = max(parts) if padded else 0
    suffix = f".{num_parts}.{_digest('usd_file')}.usda"
    files = [file.with_suffix(suffix) for file in sorted(set_folder(name).glob("*.npz"))]
    missing = [file for file in files if not file.exists()]
    if missing:
        # In a process of its own: USD's modules must not be loaded before Kit has started.
        with _pool(1) as pool:
            list(pool.map(_write_usd, missing))
    return files


def set_folder(name: str) -> Path:
    """Return the folder of a set, which for :data:`SETS` may not be made yet.

    Raises:
        ConfigError: There is no such set or folder.
    """
    if name in SETS:
        digest = _digest("families", "graspable", "grasping", text=str(SETS[name]))
        return cache_root() / "isaaclab_pc" / "objects" / f"{name}-{digest}"
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"{name} is neither a set of objects nor a folder of one: {closest(name, SETS)}")
    return folder


def make_object(recipe: Recipe) -> Graspable:
    """Make the object of a family that a seed draws: of the first sizes in which it can be grasped."""
    family, seed = recipe
    for number in range(_TRIES):
        parts = families.ALL[family](np.random.default_rng([seed, number]))
        try:
            return make_graspable(family, parts, seed=seed)
        except ConfigError:
            continue
    raise RuntimeError(f"{family}: no size of {_TRIES} can be grasped")


def _digest(*modules: str, text: str = "") -> str:
    sources = [(Path(__file__).parent / f"{module}.py").read_bytes() for module in modules]
    return hashlib.sha256(b"".join([f"{trimesh.__version__} {text}".encode(), *sources])).hexdigest()[:12]


def _make_set(name: str, folder: Path, progress: Callable[[int, int], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        recipes = SETS[name]
        with _pool(len(os.sched_getaffinity(0))) as pool:
            for index, graspable in enumerate(pool.map(make_object, recipes)):
                graspable.save(scratch / f"{index:03d}_{graspable.family}.npz")
                progress(index + 1, len(recipes))
        # Another process may have made it meanwhile.
        if not folder.exists():
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: a simulator's threads do not survive that.
    try:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
    except BrokenProcessPool as error:
        raise ConfigError(
            "the processes that make objects ended: they import the script that you started, so its work belongs below "
            'if __name__ == "__main__":. Or make the set beforehand: scripts/objects.py.'
        ) from error


def _write_usd(file: Path) -> None:
    from isaaclab_pc.assets.objects.usd_file import write_usd

    stem, num_parts, _, _ = file.name.rsplit(".", 3)
    scratch = file.with_name(f".{os.getpid()}.{file.name}")
    write_usd(Graspable.load(file.with_name(f"{stem}.npz")), scratch, int(num_parts))
    scratch.rename(file)
