# SPDX-License-Identifier: BSD-3-Clause
"""The profile cache: shared by many processes, and never in the way."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from isaaclab_pc.num_envs.profile import Profile, ProfileCache, cache_key
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import Outcome, Trial

TRIAL = Trial(64, Outcome.FITS, frames_per_second=350.0, host_bytes=1 << 30)
PROFILE = Profile(64, 350.0, 1 << 30, None, StopReason.COMPLETE, (TRIAL,))


def test_profile_is_found_again_by_its_key_until_it_is_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "profiles"
    ProfileCache(folder).put("a", PROFILE)
    ProfileCache(folder).put("b", replace(PROFILE, num_envs=128))
    cache = ProfileCache(folder)
    assert cache.get("a") == PROFILE
    cache.put("a", None)
    cache.put("c", None)
    assert [cache.get(key) for key in ("a", "b", "c")] == [None, replace(PROFILE, num_envs=128), None]


def test_key_depends_on_every_part_and_not_on_their_order() -> None:
    key = cache_key({"task": "reach", "runner": "rsl_rl"})
    assert cache_key({"runner": "rsl_rl", "task": "reach"}) == key
    assert cache_key({"task": "reach", "runner": "rl_games"}) != key
    assert cache_key({"task": "reach"}) != key


def test_profiles_lie_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert ProfileCache().folder == Path("/cache/isaaclab_pc/profiles")


def test_a_key_from_a_strangers_run_names_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "precious.json").touch()
    cache = ProfileCache(tmp_path / "profiles")
    for key in ("../precious", str(tmp_path / "precious"), "a\0b", "x" * 1000):
        cache.put(key, PROFILE)
        assert cache.get(key) == PROFILE
        cache.put(key, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious.json", "profiles"]
    assert (tmp_path / "precious.json").stat().st_size == 0


def test_jobs_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from isaaclab_pc.num_envs.profile import Profile, ProfileCache
from isaaclab_pc.num_envs.search import StopReason
import sys
for i in range(10):
    profile = Profile(i + 1, 1.0, 1, None, StopReason.COMPLETE, ())
    ProfileCache(Path({str(tmp_path)!r})).put(f"{{sys.argv[1]}}-{{i}}", profile)
"""
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(job)]) for job in range(4)]
    assert [job.wait(30) for job in jobs] == [0] * 4
    cache = ProfileCache(tmp_path)
    assert all(cache.get(f"{job}-{i}") is not None for job in range(4) for i in range(10))


@pytest.mark.parametrize("change", [{"num_envs": 0}, {"stop": "tired"}, {"trials": [{"num_envs": 64}]}, {"x": 1}, None])
def test_damaged_file_counts_as_missing_and_is_replaced(change: dict[str, object] | None, tmp_path: Path) -> None:
    cache = ProfileCache(tmp_path)
    text = "{" if change is None else json.dumps(PROFILE.to_dict() | change)
    cache.path_of("a").write_text(text)
    assert cache.get("a") is None
    cache.put("a", PROFILE)
    assert cache.get("a") == PROFILE


def test_folder_that_cannot_be_written_is_warned_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ProfileCache(tmp_path / "file" / "profiles")
    cache.put("a", PROFILE)
    assert cache.get("a") is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ")
    assert str(cache.folder) in line
