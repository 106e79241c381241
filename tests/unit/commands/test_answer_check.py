# SPDX-License-Identifier: BSD-3-Clause
"""What a training tells of the answer that it trained with."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.commands.answer_check import check_answer
from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile, ProfileCache
from isaaclab_pc.num_envs.search import StopReason
from isaaclab_pc.num_envs.trial import Outcome, Trial
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.record import RestartEntry, RunRecord
from isaaclab_pc.supervise.deaths import Death, DeathCause

ANSWER = Answer("key", 64, 1000.0, minibatch_size=512)
TRIALS = (
    Trial(32, Outcome.FITS, frames_per_second=600.0, host_bytes=1 << 20),
    Trial(64, Outcome.FITS, frames_per_second=1000.0, host_bytes=2 << 20),
)
PROFILE = Profile(64, 1000.0, 2 << 20, None, StopReason.COMPLETE, TRIALS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileCache:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = ProfileCache()
    cache.put("key", PROFILE)
    return cache


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    (tmp_path / "run").mkdir()
    record = RunRecord.create(tmp_path / "run", compose(["num_envs=64", "device=cpu"]))
    batch = {"horizon": 32, "num_minibatches": 4, "minibatch_size": 512}
    record.update(answer=ANSWER, batch=batch)
    return record


def train_at(record: RunRecord, frames_per_second: float, iterations: int = 30) -> None:
    seconds = 2048 / frames_per_second
    for number in range(1, iterations + 1):
        # The first one compiles kernels, and one now and then is disturbed.
        slow = 20.0 if number % 7 == 1 else 1.0
        metrics = {"collect_s": 0.75 * seconds * slow, "learn_s": 0.25 * seconds * slow}
        append_iteration(record.folder, number, 2048 * number, number * seconds, metrics)


def verdict_of(record: RunRecord) -> str:
    answer = RunRecord.load(record.folder).data.answer
    assert answer is not None
    return answer.verdict


def restart(num_envs: int, taken: int = 0, cause: DeathCause = DeathCause.OUT_OF_MEMORY) -> RestartEntry:
    now = datetime.now().isoformat()
    told = {"num_envs": num_envs, "taken_by_others": taken}
    return RestartEntry(time=now, cause=cause.value, detail="", iteration=9, from_iteration=6, note="", **told)


@pytest.mark.parametrize(("speed", "doubt"), [(1250, None), (800, None), (1350, Doubt.SPEED), (700, Doubt.SPEED)])
def test_a_speed_that_is_another_puts_the_answer_in_doubt(record, cache, speed, doubt, capsys):
    train_at(record, speed)
    check_answer(record, None)
    assert cache.get("key") == replace(PROFILE, doubt=doubt)
    assert f"{speed} frames/s" in verdict_of(record)
    assert ("num_envs=64" in capsys.readouterr().err) == (doubt is not None)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": {"horizon": 32, "num_minibatches": 8, "minibatch_size": 256}},
        {"batch": None},
        {"num_envs": 32},
        {"answer": None},
        {"answer": replace(ANSWER, minibatch_size=0)},
        {"answer": replace(ANSWER, frames_per_second=0.0)},
        {"answer": replace(ANSWER, verdict="heard before")},
    ],
)
def test_what_cannot_be_compared_changes_nothing(record, cache, changes: dict[str, Any]):
    train_at(record, 100)
    record.update(**changes)
    check_answer(record, None)
    assert cache.get("key") == PROFILE
    assert record.data.answer == changes.get("answer", ANSWER)


def test_a_short_run_tells_no_speed_and_a_longer_resumption_of_it_does(record, cache):
    train_at(record, 500, iterations=5)
    check_answer(record, None)
    assert (verdict_of(record), cache.get("key")) == ("", PROFILE)
    train_at(record, 500)
    check_answer(record, None)
    assert cache.get("key") == replace(PROFILE, doubt=Doubt.SPEED)


@pytest.mark.parametrize(
    ("restarts", "death"),
    [
        ([restart(64)], None),
        ([], Death(DeathCause.OUT_OF_MEMORY, "")),
        ([restart(64, taken=1 << 30), restart(64)], None),
    ],
)
def test_an_answer_that_ran_out_of_memory_is_ruled_out(record, cache, restarts, death):
    record.update(restarts=restarts)
    train_at(record, 1000)
    check_answer(record, death)
    profile = cache.get("key")
    assert profile is not None
    assert (profile.num_envs, profile.frames_per_second, profile.host_bytes) == (32, 600.0, 1 << 20)
    assert profile.doubt is Doubt.MEMORY
    assert [trial.outcome for trial in profile.trials] == [Outcome.FITS, Outcome.OOM]
    assert "num_envs=64" in verdict_of(record)


def test_where_nothing_else_was_found_to_fit_the_answer_is_forgotten(record, cache):
    cache.put("key", replace(PROFILE, trials=TRIALS[1:]))
    record.update(restarts=[restart(64)])
    check_answer(record, None)
    assert cache.get("key") is None


@pytest.mark.parametrize("one", [restart(64, taken=1 << 30), restart(32), restart(64, cause=DeathCause.KILLED)])
def test_memory_that_others_took_and_other_ends_say_nothing_against_it(record, cache, one):
    record.update(restarts=[one])
    train_at(record, 1000)
    check_answer(record, None)
    assert cache.get("key") == PROFILE
    assert verdict_of(record).startswith("1000 frames/s")


def test_an_answer_that_another_run_has_corrected_is_left_alone(record, cache):
    corrected = replace(PROFILE, num_envs=32, doubt=Doubt.MEMORY)
    cache.put("key", corrected)
    record.update(restarts=[restart(64)])
    check_answer(record, None)
    assert cache.get("key") == corrected
