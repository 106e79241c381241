# SPDX-License-Identifier: BSD-3-Clause
"""The profile cache: shared by many processes, and never in the way."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isaaclab_pc.num_envs.profile import Profile, ProfileCache, cache_key, default_path
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import Outcome, Trial
from tests.no_locks import without_locks

TRIAL = Trial(64, Outcome.FITS, frames_per_second=350.0, host_bytes=1 << 30)
PROFILE = Profile(64, 350.0, 1 << 30, None, StopReason.COMPLETE, (TRIAL,))


def test_profile_is_found_again_by_its_key_until_it_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "profiles.json"
    ProfileCache(path).put("a", PROFILE)
    ProfileCache(path).put("b", replace(PROFILE, num_envs=128))
    cache = ProfileCache(path)
    assert cache.get("a") == PROFILE
    cache.put("a", None)
    cache.put("c", None)
    assert [cache.get(key) for key in ("a", "b", "c")] == [None, replace(PROFILE, num_envs=128), None]


def test_key_depends_on_every_part_and_not_on_their_order() -> None:
    key = cache_key({"task": "reach", "runner": "rsl_rl"})
    assert cache_key({"runner": "rsl_rl", "task": "reach"}) == key
    assert cache_key({"task": "reach", "runner": "rl_games"}) != key
    assert cache_key({"task": "reach"}) != key


def test_file_lies_in_the_users_cache_folder() -> None:
    assert default_path({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/isaaclab_pc/profiles.json")
    assert default_path({}) == Path.home() / ".cache/isaaclab_pc/profiles.json"


def test_oldest_profiles_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isaaclab_pc.num_envs.profile._MAX_PROFILES", 2)
    cache = ProfileCache(tmp_path / "profiles.json")
    for key in ("a", "b", "a", "c"):
        cache.put(key, PROFILE)
    assert [key for key in ("a", "b", "c") if cache.get(key)] == ["a", "c"]


def test_jobs_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    code = f"""
from pathlib import Path
from isaaclab_pc.num_envs.profile import Profile, ProfileCache
from isaaclab_pc.num_envs.search import StopReason
import sys
for i in range(10):
    profile = Profile(i + 1, 1.0, 1, None, StopReason.COMPLETE, ())
    ProfileCache(Path({str(path)!r})).put(f"{{sys.argv[1]}}-{{i}}", profile)
"""
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(job)]) for job in range(4)]
    assert [job.wait(30) for job in jobs] == [0] * 4
    cache = ProfileCache(path)
    assert all(cache.get(f"{job}-{i}") is not None for job in range(4) for i in range(10))


@pytest.fixture
def warns_once(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ")
    assert "profiles.json" in line


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1, "profiles": {}}', '{"version": 4, "profiles": []}', "\x00"]
)
@pytest.mark.usefixtures("warns_once")
def test_damaged_file_is_replaced_with_one_warning(text: str, tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(text)
    cache = ProfileCache(path)
    assert cache.get("a") is None
    cache.put("a", PROFILE)
    assert cache.get("a") == PROFILE


@pytest.mark.parametrize(
    "entry",
    [
        7,
        {**PROFILE.to_dict(), "num_envs": 0},
        {**PROFILE.to_dict(), "stop": "tired"},
        {**PROFILE.to_dict(), "trials": [{"num_envs": 64}]},
        {**PROFILE.to_dict(), "x": 1},
    ],
)
def test_damaged_entry_counts_as_missing(entry: object, tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"version": 4, "profiles": {"a": entry, "b": PROFILE.to_dict()}}))
    assert ProfileCache(path).get("a") is None
    assert ProfileCache(path).get("b") == PROFILE


@pytest.mark.usefixtures("warns_once")
def test_folder_that_cannot_be_written_is_warned_about_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ProfileCache(tmp_path / "file" / "profiles.json")
    cache.put("a", PROFILE)
    cache.put("b", PROFILE)
    assert cache.get("a") is None


@pytest.mark.usefixtures("warns_once")
def test_an_answer_is_kept_without_a_lock_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch)
    cache = ProfileCache(tmp_path / "profiles.json")
    cache.put("a", PROFILE)
    cache.put("b", PROFILE)
    assert cache.get("a") == PROFILE
