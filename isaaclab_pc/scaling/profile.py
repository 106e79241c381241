# SPDX-License-Identifier: BSD-3-Clause
"""Answers of earlier searches, kept in one JSON file that many jobs may share."""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

__all__ = ["CacheMode", "Profile", "ProfileCache", "default_path", "profile_key"]

_VERSION = 1
_LOCK_SECONDS = 10.0
_KEPT = 1000
"""Profiles kept in the file; the oldest go first."""


class CacheMode(StrEnum):
    """What a search does with the cache."""

    USE = "use"
    """Take an answer that is there, keep a new one."""
    REFRESH = "refresh"
    """Search again, keep the new answer."""
    IGNORE = "ignore"
    """Neither read nor write."""


@dataclass(frozen=True)
class Profile:
    """The answer of a search."""

    num_envs: int
    """The winner."""
    frames_per_second: float
    """Its training speed [1/s]."""
    host_bytes: int
    """Its peak of host memory [bytes]."""
    device_bytes: int | None
    """Its peak of GPU memory [bytes]; None on the CPU."""
    stop: str
    """Why the search ended (a `Stop`)."""
    label: str = ""
    """What it was measured for, for people."""
    measured: str = ""
    """When it was measured: date and time of the machine."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that it was measured with besides the user's."""


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where profiles are kept: `isaaclab_pc/profiles.json` in `XDG_CACHE_HOME`, or in `~/.cache`."""
    root = environment.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "isaaclab_pc" / "profiles.json"


def profile_key(parts: Mapping[str, object]) -> str:
    """Condense all that an answer depends on into a key.

    Args:
        parts: Names and values; their order does not matter.

    Returns:
        A hexadecimal digest that is the same in every process.
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


class ProfileCache:
    """Profiles by key. Where the file cannot be read or written it warns once and goes on without."""

    def __init__(self, path: Path | None = None) -> None:
        """Name the file.

        Args:
            path: JSON file, made when first written; None: `default_path()`.
        """
        self.path = path or default_path()
        self._warned = False

    def get(self, key: str) -> Profile | None:
        """Return the profile kept under a key, or None."""
        entry = self._read().get(key)
        try:
            profile = Profile(**entry) if isinstance(entry, dict) else None
        except TypeError:  # edited by hand
            return None
        return profile if profile is not None and isinstance(profile.num_envs, int) and profile.num_envs > 0 else None

    def all(self) -> list[Profile]:
        """Return all profiles, the oldest first."""
        return [profile for key in self._read() if (profile := self.get(key)) is not None]

    def put(self, key: str, profile: Profile) -> None:
        """Keep a profile. Other processes may do the same at the same time: none is lost."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.lock", timeout=_LOCK_SECONDS):
                profiles = self._read()
                profiles.pop(key, None)
                profiles[key] = asdict(profile)
                kept = dict(list(profiles.items())[-_KEPT:])
                temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
                temporary.write_text(json.dumps({"version": _VERSION, "profiles": kept}, indent=1), encoding="utf-8")
                temporary.replace(self.path)
        except (OSError, Timeout) as error:
            self._warn(f"the answer is not kept: {error}")

    def _read(self) -> dict[str, object]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._warn(f"it cannot be read: {error}")
            return {}
        if not isinstance(data, dict) or data.get("version") != _VERSION or not isinstance(data.get("profiles"), dict):
            self._warn("it was not written by this version and will be replaced")
            return {}
        return data["profiles"]

    def _warn(self, reason: str) -> None:
        if not self._warned:
            warnings.warn(f"profile cache {self.path}: {reason}", stacklevel=3)
            self._warned = True
