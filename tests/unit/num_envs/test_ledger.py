# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

import pytest

from isaaclab_pc.num_envs.ledger import (
    KINDS,
    TRAINING,
    TRIALS_NAME,
    EarlierTrials,
    Ledger,
    TrialsFile,
    find_earlier_trials,
    measured_ledger,
    planned_ledger,
)
from isaaclab_pc.num_envs.trial import MemoryReport, Outcome, Trial

MIB = 2**20


def trial(num_envs: int, **changes: object) -> Trial:
    tensors = {"camera buffers": num_envs * MIB, "clouds": num_envs * MIB // 2, "network weights": 3 * MIB}
    memory = MemoryReport(before_env=1000 * MIB, after_env=(1000 + 200 + 5 * num_envs) * MIB, tensors=tensors)
    values = {
        "num_envs": num_envs,
        "outcome": Outcome.FITS,
        "host_bytes": (1000 + 200 + 5 * num_envs + 3 + 2 * num_envs) * MIB,
        "memory": memory,
    }
    return Trial(**{**values, **changes})  # type: ignore[arg-type]


def measured(trials: list[Trial], num_envs: int) -> Ledger:
    ledger = measured_ledger(trials, num_envs)
    assert ledger is not None
    return ledger


def planned(trials: list[Trial], num_envs: int) -> Ledger:
    ledger = planned_ledger(trials, num_envs)
    assert ledger is not None
    return ledger


def test_entries_add_up_to_the_metered_peak() -> None:
    ledger = measured([trial(64)], 64)
    assert ledger.total == trial(64).host_bytes
    assert all(entry.fixed is None and entry.per_env is None for entry in ledger.entries), "one size tells no growth"
    kinds = [entry.kind for entry in ledger.entries]
    assert kinds == [kind for kind in KINDS if kind in kinds]
    assert measured([trial(64, device_bytes=2000 * MIB)], 64).total == 2000 * MIB


def test_two_sizes_tell_the_fixed_part_and_the_growth() -> None:
    ledger = measured([trial(64), trial(128), trial(256, outcome=Outcome.OVER_BUDGET)], 128)
    entries = {entry.kind: entry for entry in ledger.entries}
    simulation = entries["simulation and renderer"]
    assert simulation.fixed == pytest.approx(200 * MIB)
    assert simulation.per_env == pytest.approx(3.5 * MIB)
    assert entries["camera buffers"].per_env == pytest.approx(MIB)
    assert entries["network weights"].per_env == pytest.approx(0)
    assert entries[TRAINING].per_env == pytest.approx(2 * MIB)


def test_a_trial_that_compiled_kernels_is_on_no_line() -> None:
    compiling = {"compiled": True, "host_bytes": (1000 + 200 + 7 * 32 + 3 + 700) * MIB}
    ledger = measured([trial(32, **compiling), trial(64), trial(128)], 128)
    training = next(entry for entry in ledger.entries if entry.kind == TRAINING)
    assert training.per_env == pytest.approx(2 * MIB)
    assert training.fixed == pytest.approx(0, abs=1)


def test_a_child_that_reported_nothing_gives_no_ledger() -> None:
    assert measured_ledger([trial(64, memory=None)], 64) is None
    assert measured_ledger([trial(64)], 128) is None
    assert planned_ledger([], 1024) is None


def test_a_reading_from_outside_below_the_childs_own_turns_nothing_negative() -> None:
    assert all(entry.total > 0 for entry in measured([trial(64, host_bytes=900 * MIB)], 64).entries)


def test_a_size_that_was_not_tried_is_on_the_lines_through_those_that_were() -> None:
    ledger = planned([trial(64), trial(128)], 1024)
    assert ledger.num_envs == 1024
    assert ledger.total == pytest.approx((1000 + 200 + 7 * 1024 + 3) * MIB)
    assert next(entry.total for entry in ledger.entries if entry.kind == "camera buffers") == 1024 * MIB
    assert planned([trial(64)], 1024) == measured([trial(64)], 64), "one size is all that one trial tells"


def test_noise_that_shrinks_an_entry_is_not_extrapolated() -> None:
    less_training = trial(128, host_bytes=(1000 + 200 + 5 * 128 + 3 + 90) * MIB)
    ledger = planned([trial(64), less_training], 1024)
    training = next(entry for entry in ledger.entries if entry.kind == TRAINING)
    assert (training.total, training.fixed, training.per_env) == (90 * MIB, 90 * MIB, 0)
    assert ledger.total == pytest.approx((1000 + 200 + 5 * 1024 + 3 + 90) * MIB)


def test_a_size_that_was_tried_is_told_as_it_was_measured() -> None:
    off_the_line = trial(256, host_bytes=5000 * MIB)
    assert planned([trial(64), trial(128), off_the_line], 256).total == 5000 * MIB


def test_earlier_trials_are_those_of_the_same_settings_and_of_each_size_the_newest(tmp_path: Path) -> None:
    newest = trial(64, wall_seconds=2.0)
    searches = {
        "lift/2026-01-01_10-00-00": ("same", (trial(64), trial(128))),
        "lift/2026-01-02_10-00-00": ("same", (newest, trial(32, outcome=Outcome.OOM), trial(48, compiled=True))),
        "lift/2026-01-03_10-00-00": ("other", (trial(256),)),
        "lift/2026-01-04_10-00-00": ("same", (trial(16, memory=None),)),
    }
    for name, (run, trials) in searches.items():
        (tmp_path / name).mkdir(parents=True)
        TrialsFile(run, trials).write(tmp_path / name / TRIALS_NAME)
    (tmp_path / "lift" / "broken").mkdir()
    (tmp_path / "lift" / "broken" / TRIALS_NAME).write_text("{")

    earlier = find_earlier_trials("same", tmp_path)
    assert earlier.trials == (newest, trial(128))
    assert [Path(folder).name for folder in earlier.folders] == ["2026-01-02_10-00-00", "2026-01-01_10-00-00"]
    assert find_earlier_trials("nobody's", tmp_path) == EarlierTrials()
