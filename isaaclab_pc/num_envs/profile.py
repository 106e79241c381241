# SPDX-License-Identifier: BSD-3-Clause
"""Answers of earlier searches, kept in one JSON file that many jobs may share."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from filelock import Timeout

from isaaclab_pc.num_envs.search import Objective, StopReason
from isaaclab_pc.num_envs.trial import Outcome, Overrides, Trial
from isaaclab_pc.processes.caches import cache_root
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import locked_file, write_text_atomically
from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

_VERSION = 4
_LOCK_SECONDS = 10.0
"""How long to wait for another job that writes the file [s]."""
_MAX_PROFILES = 300
"""Profiles kept in the file; the oldest go first."""


class Doubt(StrEnum):
    """Why a training contradicts an answer."""

    SPEED = "speed"
    """It was much faster or slower: one trial of the answer decides whether sizes are searched again."""
    MEMORY = "memory"
    """It ran out of memory: the search goes on below."""


@dataclass(frozen=True)
class Answer(JsonRecord):
    """The answer that a run trains with, as the run keeps it, and its verdict on it."""

    key: str
    """Under which the cache has it, from `cache_key`."""
    num_envs: Size
    """Environments."""
    frames_per_second: NonNegative
    """Speed of its trial [1/s]; 0 where it was chosen for its memory: such a trial may be too short to tell."""
    minibatch_size: Count = 0
    """Samples of a minibatch in its trial; 0: not known."""
    configuration: str = ""
    """Digest of the configurations in its trial."""
    verdict: str = ""
    """How the training compares with that, for people; empty until it tells."""


@dataclass(frozen=True)
class Profile(JsonRecord):
    """The answer of a search."""

    num_envs: Size
    """The winner."""
    frames_per_second: NonNegative
    """Its training speed [1/s]."""
    host_bytes: Count
    """Its peak of host memory [bytes]."""
    device_bytes: Count | None
    """Its peak of GPU memory [bytes]; None on the CPU."""
    stop: StopReason
    """Why the search ended."""
    trials: tuple[Trial, ...]
    """Every trial of the search, in the order they ran."""
    date: str = ""
    """When the search was: date and time of the machine."""
    overrides: Overrides = field(default_factory=dict)
    """Settings that it was measured with in place of the user's."""
    doubt: Doubt | None = None
    """Why a training contradicts it; None where none does."""

    def is_unfinished(self, max_trials: int | None) -> bool:
        """Whether its search is to go on, where so many trials are allowed now; None: any number."""
        if self.stop is StopReason.TRIALS:
            return max_trials is None or max_trials > len(self.trials)
        return self.stop is StopReason.TIME or self.doubt is Doubt.MEMORY

    def as_answer(self, key: str, objective: Objective) -> Answer:
        """Return the part that a run keeps."""
        fitting = [trial for trial in self.trials if trial.fits and trial.num_envs == self.num_envs]
        # A file that somebody edited may not have it.
        winner = fitting[-1] if fitting else Trial(self.num_envs, Outcome.FITS)
        return Answer(
            key,
            self.num_envs,
            self.frames_per_second if objective is Objective.THROUGHPUT else 0.0,
            minibatch_size=0 if winner.progress is None else winner.progress.minibatch_size,
            configuration=winner.configuration,
        )


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where profiles are kept: `isaaclab_pc/profiles.json` in `XDG_CACHE_HOME`, or in `~/.cache`."""
    return cache_root(environment) / "isaaclab_pc" / "profiles.json"


def cache_key(parts: Mapping[str, object]) -> str:
    """Hash names and values of all that an answer depends on; their order does not matter."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


class ProfileCache:
    """Profiles by key. Where the file cannot be read or written it warns once and goes on without."""

    def __init__(self, path: Path | None = None) -> None:
        """Name the JSON file, which is made when first written; None: `default_path()`."""
        self.path = path or default_path()
        self._warned = False

    def get(self, key: str) -> Profile | None:
        """Return the profile kept under a key; None where there is none, or where somebody damaged it."""
        try:
            return Profile.from_dict(self._entries().get(key))
        except ValueError:
            return None

    def put(self, key: str, profile: Profile | None) -> None:
        """Keep a profile, or forget the one that is there. Other processes may do the same at once: none is lost."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked_file(Path(f"{self.path}.lock"), _LOCK_SECONDS) as is_held:
                if not is_held:
                    self._warn_once("its file system has no locks, and searches that end at once may lose an answer")
                entries = self._entries()
                entries.pop(key, None)
                if profile is not None:
                    # At the end, as the newest.
                    entries[key] = profile.to_dict()
                newest = dict(list(entries.items())[-_MAX_PROFILES:])
                write_text_atomically(self.path, json.dumps({"version": _VERSION, "profiles": newest}, indent=1))
        except (OSError, Timeout) as error:
            self._warn_once(f"the answer is not kept: {error}")

    def _entries(self) -> dict[str, object]:
        """Read the file's entries, unchecked."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._warn_once(f"it cannot be read: {error}")
            return {}

        if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("profiles"), dict):
            self._warn_once("it was not written by this version and will be replaced")
            return {}
        return data["profiles"]

    def _warn_once(self, reason: str) -> None:
        if not self._warned:
            current().warn(f"warning: profile cache {self.path}: {reason}")
            self._warned = True
