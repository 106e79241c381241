# SPDX-License-Identifier: BSD-3-Clause
"""num_envs=auto from end to end, with small real children in place of the simulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import ProbeError
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS, Outcome, Overrides, Trial, format_size
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.unit.num_envs.workshop import MEMORY_HUNGRY, MIB, SATURATED, Workshop


def test_fewest_environments_near_the_best_speed_are_chosen_on_the_cpu(workshop: Workshop) -> None:
    result = workshop.fit(SATURATED)
    assert (result.num_envs, result.earlier_date) == (64, "")
    assert workshop.tried == [256, 128, 64, 32]
    assert [trial.num_envs for trial in result.trials] == workshop.tried
    for part in ("num_envs=64", "4 tried", "340 frames/s"):
        assert part in result.reason
    assert workshop.left_over == []


def test_largest_size_inside_the_budget_is_chosen_for_memory(workshop: Workshop) -> None:
    result = workshop.fit(MEMORY_HUNGRY, objective="memory", budget="110MiB", min=64)
    assert workshop.tried == [64, 256, 384]
    assert all(trial.fits for trial in workshop.trials), "the first two tell that the third fits, and no more"
    assert result.num_envs == 384, "about 10 MiB of Python and 1 MiB for 4 environments"
    assert max(trial.host_bytes for trial in result.trials if trial.fits) <= 110 * MIB


OVERFLOWS = """
if overrides.get("room", 1) < n // 16:
    json.dump({"num_envs": n, "outcome": "overflow"}, open(path, "w"))
else:
    fits(100)
"""


def double_the_room(trial: Trial, overrides: Overrides) -> Overrides | None:
    return {"room": 2 * overrides.get("room", 1)} if trial.outcome is Outcome.OVERFLOW else None


def test_a_config_that_is_refused_leaves_nothing(workshop: Workshop) -> None:
    refuses = (
        """json.dump({"num_envs": n, "outcome": "error", "config_error": True, "detail": "no"}, open(path, "w"))"""
    )
    with pytest.raises(ProbeError):
        workshop.fit(refuses)
    assert workshop.left_over == []


def test_a_size_is_tried_again_with_overrides_that_stay_and_are_part_of_the_answer(workshop: Workshop) -> None:
    workshop.retry = double_the_room
    result = workshop.fit(OVERFLOWS, objective="memory", min=32, max=64)
    assert (result.num_envs, result.overrides) == (64, {"room": 4})
    assert [(trial.num_envs, trial.outcome) for trial in workshop.trials] == [
        (32, "overflow"),
        (32, "fits"),
        (64, "overflow"),
        (64, "fits"),
    ]
    again = workshop.fit("raise AssertionError('no child is started')", objective="memory", min=32, max=64)
    assert again.overrides == {"room": 4}


def test_error_of_the_environment_is_shown_whole_and_not_tried_smaller(workshop: Workshop) -> None:
    with pytest.raises(
        ProbeError, match=r"num_envs=128(?s:.*)building\nTraceback(?s:.*)KeyError: 'panda_hand'"
    ) as caught:
        workshop.fit("print('building')\nif n < 256: raise KeyError('panda_hand')\nfits(n)")
    assert workshop.tried == [256, 128]
    assert Path(caught.value.trial.log).exists()
    assert not (workshop.folder / "cache").exists()


TRAINS = """
with open(path.replace(".json", ".phase"), "w") as file:
    json.dump({"phase": "rollout", "minibatch_size": 64}, file)
"""
"""A child that has built its environment."""


def test_kernels_that_the_first_child_compiles_take_no_time_of_the_search(workshop: Workshop) -> None:
    workshop.first_start, workshop.each_trial = 100.0, 10.0
    result = workshop.fit(SATURATED, max_seconds=25)
    assert workshop.tried == [256, 128], "the first child alone took longer than the search may"
    assert result.num_envs == 128
    assert "scaling.max_seconds" in result.reason, "it was cut short"


ALMOST_A_BUILD = FIRST_BUILD_SECONDS - 0.6
"""It leaves a real child this long to be built, and then it is ended [s]."""


def test_where_no_environment_is_built_in_time_nothing_is_said_of_what_fits(workshop: Workshop) -> None:
    workshop.first_start, workshop.each_trial = ALMOST_A_BUILD, 1.0
    with pytest.raises(ConfigError) as caught:
        workshop.fit("time.sleep(60)")
    assert workshop.tried == [256]
    assert "15 min" in str(caught.value)
    assert workshop.trials[0].log in str(caught.value)


def test_builds_that_run_out_of_memory_share_the_time_for_the_first_build(workshop: Workshop) -> None:
    workshop.each_trial = ALMOST_A_BUILD / 3
    with pytest.raises(ConfigError, match="15 min"):
        workshop.fit("if n > 8: raise MemoryError\ntime.sleep(60)", max=32)
    assert workshop.tried == [32, 32, 16, 8]


def test_a_machine_that_bears_sixteen_environments_gets_them(workshop: Workshop) -> None:
    result = workshop.fit("if n > 16: raise MemoryError\nfits(n)", objective="memory")
    assert result.num_envs == 16
    assert workshop.tried == [32, 32, 16, 24, 20], "the first trial may have compiled kernels"
    (best,) = (trial for trial in result.trials if trial.num_envs == 16)
    assert format_size(best.host_bytes) in result.reason


FULL = "raise MemoryError"


@pytest.mark.parametrize(
    ("code", "settings", "tried", "advice"),
    [
        (FULL, {"max": 32}, {32, 16, 8, 4, 2, 1}, r"even num_envs=1: .* scaling\.budget \(now automatic\)"),
        (FULL, {"min": 16}, {256, 128, 64, 32, 16}, r"even num_envs=16: .* scaling\.min \(now 16\)"),
        (FULL, {"min": 512, "max": 512}, {512}, r"^num_envs=512: .* give a smaller num_envs\. "),
        (OVERFLOWS, {"min": 512, "max": 512}, {512}, r"raise physics\.contacts"),
        (
            MEMORY_HUNGRY + ";time.sleep(9)",
            {"budget": "9MiB", "min": 32, "max": 64},
            {64, 32},
            r"raise scaling\.budget \(now 9MiB\)",
        ),
        (TRAINS + "time.sleep(60)", {"max_seconds": 0.5}, {256}, r"scaling\.max_seconds \(now 0\.5\), or set"),
        ("import signal; os.kill(os.getpid(), signal.SIGSEGV)", {"max": 1}, {1}, "SIGSEGV.*read its output"),
    ],
)
def test_advice_where_nothing_fits(workshop: Workshop, code: str, settings: dict, tried: set[int], advice: str) -> None:
    workshop.each_trial = 1.0
    with pytest.raises(ConfigError, match=advice) as caught:
        workshop.fit(code, **settings)
    assert set(workshop.tried) == tried
    assert ("scaling.min" in str(caught.value)) == ("min" in settings and settings["min"] != settings.get("max"))
    assert ("9.0 MiB" in str(caught.value)) == (settings.get("budget") == "9MiB")
    assert Path(workshop.trials[0].log).exists()


def test_processes_on_the_cpu_share_its_memory(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    result = workshop.fit("fits(n)", processes=4, max=64)
    assert {trial.host_budget for trial in result.trials} == {200 * MIB}


def test_both_memories_are_held_to_budgets(workshop: Workshop, nvml: FakeNvml, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    nvml.gpus = [FakeGpu(total=10_000 * MIB, used=2000 * MIB)]
    result = workshop.fit("fits(n)", device="cuda:0", max=2048)
    assert workshop.tried == [2048, 1024]
    assert result.num_envs == 2048
    assert {(t.host_budget, t.device_budget) for t in result.trials} == {(800 * MIB, 7200 * MIB)}
    assert workshop.fit("", device="cuda:0", max=2048).earlier_date


def test_gpus_share_the_hosts_memory(workshop: Workshop, nvml: FakeNvml, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    nvml.gpus = [FakeGpu(total=10_000 * MIB, used=2000 * MIB)]
    shared = {"device": "cuda:0", "max": 1024, "processes": 4, "reserve": 600 * MIB}
    result = workshop.fit("fits(n)", **shared)
    assert {(t.host_budget, t.device_budget) for t in result.trials} == {(200 * MIB, 6600 * MIB)}
    assert workshop.fit("", **shared).earlier_date
    assert not workshop.fit("fits(n)", device="cuda:0", max=1024).earlier_date


@pytest.mark.parametrize(("objective", "speed"), [("memory", 0.0), ("throughput", 64.0)])
def test_answer_chosen_by_its_speed_has_one(workshop: Workshop, objective: str, speed: float) -> None:
    for _ in range(2):  # found, and remembered
        answer = workshop.fit("fits(n)", max=64, objective=objective).answer
        assert answer is not None
        assert (answer.num_envs, answer.frames_per_second) == (64, speed)
