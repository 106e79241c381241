# SPDX-License-Identifier: BSD-3-Clause
"""Answers of earlier searches, kept in files that many jobs may share."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from isaaclab_pc.num_envs.search import Objective, StopReason
from isaaclab_pc.num_envs.trial import Outcome, Overrides, Trial
from isaaclab_pc.processes.caches import cache_root
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative, Size

_VERSION = 5
"""Part of each key: answers of a search that worked otherwise are not found."""


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

    @property
    def is_unfinished(self) -> bool:
        """Whether its search is to go on."""
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
        )


def cache_key(parts: Mapping[str, object]) -> str:
    """Hash names and values of all that an answer depends on; their order does not matter."""
    return hashlib.sha256(json.dumps([_VERSION, parts], sort_keys=True, default=str).encode()).hexdigest()[:32]


class ProfileCache:
    """Profiles by key, each in a file of its own, so that many jobs may write at once."""

    def __init__(self, folder: Path | None = None) -> None:
        """Name the folder, which is made when first written; None: `isaaclab_pc/profiles` in the user's caches."""
        self.folder = folder or cache_root() / "isaaclab_pc" / "profiles"

    def path_of(self, key: str) -> Path:
        """Return the file of a key, which may be missing."""
        # Hashed, since a key may come from the record of a stranger's run.
        return self.folder / f"{cache_key({'key': key})}.json"

    def get(self, key: str) -> Profile | None:
        """Return the profile kept under a key; None where there is none, or where somebody damaged it."""
        return Profile.read_or_none(self.path_of(key))

    def put(self, key: str, profile: Profile | None) -> None:
        """Keep a profile, or forget the one that is there; warn where that cannot be written."""
        try:
            if profile is None:
                self.path_of(key).unlink(missing_ok=True)
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            profile.write(self.path_of(key))
        except OSError as error:
            current().warn(f"warning: profile cache {self.folder}: the answer is not kept: {error}")
