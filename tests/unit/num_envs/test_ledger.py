# SPDX-License-Identifier: BSD-3-Clause
import pytest

from isaaclab_pc.num_envs.ledger import KINDS, TRAINING, Ledger, measured_ledger
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


def test_a_reading_from_outside_below_the_childs_own_turns_nothing_negative() -> None:
    assert all(entry.total > 0 for entry in measured([trial(64, host_bytes=900 * MIB)], 64).entries)
