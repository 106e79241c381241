# SPDX-License-Identifier: BSD-3-Clause
"""A file of demonstrations that grows by whole episodes, whatever ends its recorder. Loads no torch by itself.

HDF5 in the layout of Isaac Lab 3.0, ``isaaclab.utils.datasets``, format version 1 (quaternions are (x, y, z, w)), which
is that of robomimic; its writer writes the episodes::

    attrs: format_version
    data/                      attrs: total, env_args; ours: next_seed, attempts, successes
        demo_<i>/              attrs: num_samples, seed, success; ours: env
            actions            (T, A) float32, in [-1, 1]
            executed_actions   (T, A) float32, with disturbances: those that were executed in place of actions
            obs/<group>        (T, ...), before the action: points (T, K, C), depth (T, 1, H, W) float16; others float32
            cloud/             (T, ...): count and age, int; frame_pos and frame_quat, the frame of the points in env
            cameras/<name>/    (T, ...): intrinsics, pos and quat (optical) in env; depth (T, H, W) [mm], uint16
            rewards            (T,) float32
            dones              (T,) uint8, 1 in the last step
            states/            (T, ...) float32, the scene's state after the step and before a reset
            initial_state/     (1, ...) float32, the scene's state after the reset

HDF5 changes a file in place, so a process that is killed while it writes may lose the whole file. Each wave, the
episodes of all environments from one seed, is therefore a file of its own in ``<file>.parts`` that appears under its
name once it is complete. Merging copies the file, adds the waves to the copy, and replaces the file by it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
from filelock import Timeout

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import flatten
from isaaclab_pc.utils.files import locked_file, write_atomically

if TYPE_CHECKING:
    from isaaclab.utils.datasets import EpisodeData

SHARED = ("task", "obs", "reward", "robot", "seed", "physics", "points", "env_overrides")
"""Settings that all episodes of a file share."""

SUFFIX = ".hdf5"

_COUNTS = ("attempts", "successes")


@dataclass(frozen=True)
class DemoCounts:
    """How far a recording is, waves that are not merged yet included."""

    episodes: int = 0
    """Episodes that were kept."""
    attempts: int = 0
    """Episodes that were run."""
    successes: int = 0
    """Episodes that succeeded, kept or not."""
    next_seed: int | None = None
    """The first seed above all used ones; None where there is nothing yet."""

    @property
    def rate(self) -> str:
        """The success rate, for people."""
        share = f"{100 * self.successes / self.attempts:.1f} %" if self.attempts else "unknown"
        return f"success rate {share} ({self.successes} of {self.attempts})"

    def plus(self, episodes: int, attempts: int, successes: int, seed: int) -> DemoCounts:
        """Return the progress after one more wave, which used ``seed``."""
        return DemoCounts(self.episodes + episodes, self.attempts + attempts, self.successes + successes, seed + 1)


class DemoFile:
    """A file of demonstrations and the waves that wait beside it."""

    def __init__(self, path: Path) -> None:
        """Take the path of the file, which may exist; a ConfigError refuses one that does not end in ``.hdf5``."""
        if path.suffix != SUFFIX:
            raise ConfigError(f"file={path}: expected a path that ends in {SUFFIX}.")
        self.path = path
        self.parts = path.with_name(f"{path.name}.parts")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other recorders away from the file.

        Raises:
            ConfigError: Another process is recording to it, or the folder cannot be made or locked.
        """
        lock = self.parts / ".lock"
        instead = f"Two recorders could write to file={self.path}: give a file on another disk, such as a local one."
        with contextlib.ExitStack() as stack:
            try:
                self.parts.mkdir(parents=True, exist_ok=True)
                stack.callback(_tidy, lock)
                stack.enter_context(locked_file(lock, instead))
            except Timeout:
                stack.pop_all()
                raise ConfigError(f"file={self.path}: another process is recording to it; give another file.") from None
            except OSError as error:
                raise ConfigError(f"file={self.path}: {error}; give a file where you may write.") from None
            yield

    def check(self, settings: RunSettings) -> None:
        """Raise ConfigError, naming the setting, for episodes of another task, or recorded under other settings.

        The run's ``settings`` have device and physics backend chosen.
        """
        asked = flatten(json.loads(json.dumps(_shared(settings))))
        for path in (path for path in (self.path, *self._waves()[:1]) if path.is_file()):
            with _open(path) as file:
                data: Any = file["data"]
                recorded = flatten(json.loads(data.attrs["env_args"])["settings"])
            for key in sorted(recorded.keys() | asked.keys(), key=lambda key: (key != "task", key)):
                was, now = recorded.get(key), asked.get(key)
                if was != now:
                    was, now = ("null" if value is None else value for value in (was, now))
                    raise ConfigError(
                        f"file={self.path} was recorded with {key}={was}, not {now}: give the same settings to go on "
                        "with it, or another file."
                    )

    def progress(self) -> DemoCounts:
        """Return how far the recording is."""
        files = [self.path] if self.path.is_file() else []
        total = DemoCounts()
        for path in (*files, *self._waves()):
            with h5py.File(path, "r", locking=False) as file:
                data: Any = file["data"]
                attempts, successes, next_seed = (int(data.attrs[name]) for name in (*_COUNTS, "next_seed"))
                total = total.plus(len(data), attempts, successes, next_seed - 1)
        return total

    def add_wave(
        self,
        settings: RunSettings,
        seed: int,
        attempts: int,
        successes: int,
        episodes: Mapping[int, EpisodeData],
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        """Write one wave, which counts once its file is complete; its seed is above those of all others.

        ``attempts`` episodes were run, and ``successes`` of them succeeded. ``episodes`` are those to keep, by the
        index of their environment, in order; there may be none. ``origin`` are further JSON values of ``env_args``:
        what the episodes hold, and how they were made.
        """
        from isaaclab.utils.datasets import HDF5DatasetFileHandler

        with write_atomically(self.parts / f"seed_{seed:012d}{SUFFIX}") as partial:
            # Isaac Lab's writer takes no other suffix.
            draft = partial.with_suffix(SUFFIX)
            writer = HDF5DatasetFileHandler()
            writer.create(str(draft), env_name=settings.task)
            writer.add_env_args({"settings": _shared(settings), **(origin or {})})
            for episode in episodes.values():
                writer.write_episode(episode)
            writer.close()

            with h5py.File(draft, "r+", locking=False) as file:
                data: Any = file["data"]
                data.attrs.update(next_seed=seed + 1, attempts=attempts, successes=successes)
                for index, env in enumerate(episodes):
                    data[f"demo_{index}"].attrs["env"] = env
            draft.rename(partial)

    def merge(self) -> None:
        """Add the waves to the file and remove them, and remove what a killed recorder left half-written."""
        for torn in (*self.parts.glob(".seed_*"), *self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp")):
            torn.unlink()

        waves = self._waves()
        if waves:
            with write_atomically(self.path) as partial:
                if self.path.is_file():
                    shutil.copyfile(self.path, partial)
                with h5py.File(partial, "a", locking=False) as merged:
                    for wave in waves:
                        with h5py.File(wave, "r", locking=False) as file:
                            _append(merged, file)

        # All of them: a merge that was killed before this step left waves that the file holds already.
        for wave in self.parts.glob(f"*{SUFFIX}"):
            wave.unlink()

    def _waves(self) -> list[Path]:
        """Return the complete waves that the file does not hold yet, in the order of their seeds."""
        first = 0
        if self.path.is_file():
            with _open(self.path) as file:
                data: Any = file["data"]
                first = int(data.attrs["next_seed"])
        paths = sorted(self.parts.glob(f"seed_*{SUFFIX}"))
        return [path for path in paths if int(path.stem.removeprefix("seed_")) >= first and _is_whole(path)]


def _tidy(lock: Path) -> None:
    """Remove a lock's file and its folder, which stays where waves could not be merged."""
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
        lock.parent.rmdir()


def _shared(settings: RunSettings) -> dict[str, Any]:
    return settings.model_dump(include=set(SHARED))


def _open(path: Path) -> h5py.File:
    """Open a file of demonstrations for reading, and refuse any other file."""
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise ConfigError(f"file={path} cannot be read ({error}): move it away, or give another file.") from None

    data: Any = file.get("data")
    if data is None or not {"env_args", "next_seed", *_COUNTS} <= data.attrs.keys():
        file.close()
        raise ConfigError(f"file={path} was not recorded by scripts/demo.py: give another file.")
    return file


def _is_whole(path: Path) -> bool:
    """Tell whether a wave can be read: a crash of the machine may leave a file without its content."""
    try:
        h5py.File(path, "r", locking=False).close()
    except OSError:
        return False
    return True


def _append(merged: h5py.File, wave: h5py.File) -> None:
    source: Any = wave["data"]
    if "data" not in merged:
        merged.attrs["format_version"] = wave.attrs["format_version"]
        merged.create_group("data")

    data: Any = merged["data"]
    count = len(data)
    if not data.attrs:
        data.attrs.update(env_args=source.attrs["env_args"], total=0, attempts=0, successes=0)

    for index in range(len(source)):
        source.copy(f"demo_{index}", data, name=f"demo_{count + index}")
    for name in ("total", *_COUNTS):
        data.attrs[name] += source.attrs[name]
    data.attrs["next_seed"] = source.attrs["next_seed"]
