# SPDX-License-Identifier: BSD-3-Clause
"""num_envs=auto from end to end, with small real children in place of the simulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import ProbeError
from isaaclab_pc.num_envs.memory import FreeMemory
from isaaclab_pc.num_envs.retry import retry_overrides
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS, Outcome, Overrides, Trial, format_size
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.unit.num_envs.workshop import MEMORY_HUNGRY, MIB, SATURATED, Workshop


def test_fewest_environments_near_the_best_speed_are_chosen_on_the_cpu(workshop: Workshop) -> None:
    result = workshop.fit(SATURATED)
    assert (result.num_envs, result.cached) == (64, False)
    assert workshop.tried == [256, 128, 64, 32]
    assert [trial.num_envs for trial in result.trials] == workshop.tried
    assert "num_envs=64" in result.reason
    assert "4 tried" in result.reason
    assert "340 frames/s" in result.reason
    assert workshop.left_over == []


def test_largest_size_inside_the_budget_is_chosen_for_memory(workshop: Workshop) -> None:
    result = workshop.fit(MEMORY_HUNGRY, objective="memory", budget="110MiB", granule=64, min=64)
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


def test_a_size_that_fits_stays_the_answer_where_there_is_no_time_for_larger_buffers(workshop: Workshop) -> None:
    workshop.retry = lambda trial, overrides: {"room": 2} if trial.fits and not overrides else None
    workshop.each_trial = 29.0
    result = workshop.fit("if overrides: time.sleep(60)\nfits(100)", min=32, max=32, max_seconds=30)
    assert [trial.outcome for trial in workshop.trials] == [Outcome.FITS, Outcome.TIMEOUT]
    assert (result.num_envs, result.overrides) == (32, {})


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


def test_first_trial_gets_a_second_try_as_it_may_have_compiled_kernels(workshop: Workshop) -> None:
    compiled = workshop.folder / "compiled"
    code = f"""
if not os.path.exists({str(compiled)!r}):
    open({str(compiled)!r}, "w").close()
    block = bytearray(100 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    time.sleep(5)
fits(100)
"""
    assert workshop.fit(code, objective="memory", budget="60MiB", max=32).num_envs == 32
    assert [trial.outcome for trial in workshop.trials] == ["over_budget", "fits"]


COMPILES = """
first = not os.path.exists({marker!r})
open({marker!r}, "w").close()
values = {{"num_envs": n, "outcome": "fits", "frames_per_second": 100, "compiled": first}}
json.dump(values, open(path + ".tmp", "w"))
os.replace(path + ".tmp", path)
"""


def test_first_trial_runs_again_where_it_compiled_kernels(workshop: Workshop) -> None:
    result = workshop.fit(COMPILES.format(marker=str(workshop.folder / "compiled")), min=32, max=64)
    assert [(trial.num_envs, trial.compiled) for trial in workshop.trials] == [(64, True), (64, False), (32, False)]
    assert [trial.num_envs for trial in result.trials] == [64, 32], "what the memory of the first was is not known"


def test_a_first_trial_that_compiled_kernels_is_the_answer_where_there_is_no_time_for_another(
    workshop: Workshop,
) -> None:
    code = COMPILES.format(marker=str(workshop.folder / "compiled")).replace(
        "open(", "if not first: time.sleep(60)\nopen(", 1
    )
    workshop.each_trial = 29.0
    assert workshop.fit(code, min=32, max=32, max_seconds=30).num_envs == 32
    assert [trial.outcome for trial in workshop.trials] == [Outcome.FITS, Outcome.TIMEOUT]


def test_a_size_that_no_change_helps_does_not_fit(workshop: Workshop) -> None:
    workshop.retry = double_the_room
    code = OVERFLOWS.replace("n // 16", "(99 if n > 32 else 1)")
    assert workshop.fit(code, objective="memory", min=32, max=64, granule=32).num_envs == 32
    assert workshop.tried == [32, 64, 64, 64, 64]


ACTIVATIONS = """
minibatch = overrides.get("minibatch_size", 4096)
held = min(overrides.get("chunk", 32_768), minibatch)
with open(path.replace(".json", ".phase"), "w") as file:
    json.dump({"phase": "update", "minibatch_size": minibatch, "chunk": held}, file)
if 10 * n + held > 1800: raise MemoryError
fits(n)
"""
"""A child with memory for its environments and for the activations of a minibatch."""


def test_an_update_that_does_not_fit_is_tried_with_a_smaller_chunk_before_fewer_environments(
    workshop: Workshop,
) -> None:
    workshop.retry = retry_overrides
    result = workshop.fit(ACTIVATIONS, objective="memory", max=128)
    assert (result.num_envs, result.overrides) == (128, {"chunk": 512})
    sizes = [(trial.num_envs, trial.outcome, dict(trial.overrides)) for trial in workshop.trials]
    # The first trial may have compiled kernels, and is run twice.
    assert sizes[:3] == [(32, Outcome.OOM, {}), (32, Outcome.OOM, {}), (32, Outcome.FITS, {"chunk": 512})]
    assert all(outcome is Outcome.FITS for _, outcome, _ in sizes[3:])
    assert str(workshop.trials[2]).startswith("num_envs=32 chunk=512: fits (")
    assert workshop.fit("raise AssertionError", objective="memory", max=128).overrides == {"chunk": 512}


def test_training_on_nan_stops_the_search(workshop: Workshop) -> None:
    with pytest.raises(ProbeError, match="loss is nan"):
        workshop.fit('json.dump({"num_envs": n, "outcome": "nan", "detail": "loss is nan"}, open(path, "w"))')
    assert workshop.tried == [256]


def test_error_of_the_environment_is_shown_whole_and_not_tried_smaller(workshop: Workshop) -> None:
    with pytest.raises(ProbeError) as caught:
        workshop.fit("print('building')\nif n < 256: raise KeyError('no such body: panda_hand')\nfits(n)")
    assert workshop.tried == [256, 128]
    message = str(caught.value)
    assert "num_envs=128" in message
    assert "building\nTraceback (most recent call last):" in message
    assert "KeyError: 'no such body: panda_hand'" in message
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


ALMOST_A_BUILD = FIRST_BUILD_SECONDS - 0.6
"""It leaves a real child this long to be built, and then it is ended [s]."""


def test_where_no_environment_is_built_in_time_nothing_is_said_of_what_fits(workshop: Workshop) -> None:
    workshop.first_start, workshop.each_trial = ALMOST_A_BUILD, 1.0
    with pytest.raises(ConfigError) as caught:
        workshop.fit("time.sleep(60)")
    assert workshop.tried == [256]
    assert str(caught.value).startswith("num_envs=auto: no environment was built in 15 min")
    assert workshop.trials[0].log in str(caught.value)


def test_builds_that_run_out_of_memory_share_the_time_for_the_first_build(workshop: Workshop) -> None:
    workshop.each_trial = ALMOST_A_BUILD / 3
    with pytest.raises(ConfigError, match=r"no environment was built in 15 min"):
        workshop.fit("if n > 8: raise MemoryError\ntime.sleep(60)", max=32)
    assert workshop.tried == [32, 32, 16, 8]


def test_a_machine_that_bears_sixteen_environments_gets_them(workshop: Workshop) -> None:
    result = workshop.fit("if n > 16: raise MemoryError\nfits(n)", objective="memory")
    assert result.num_envs == 16
    assert workshop.tried == [32, 32, 16, 24, 20], "the first trial may have compiled kernels"
    assert result.reason == "num_envs=16: the largest that fits, 4 tried (16 frames/s, 0 B)".replace(
        "0 B", format_size(result.host_bytes)
    )


FULL = "raise MemoryError"


@pytest.mark.parametrize(
    ("code", "settings", "tried", "advice"),
    [
        (FULL, {"max": 32}, {32, 16, 8, 4, 2, 1}, r"even num_envs=1: .* scaling\.budget \(now automatic\)"),
        (FULL, {"min": 16}, {256, 128, 64, 32, 16}, r"even num_envs=16: .* scaling\.min \(now 16\)"),
        (FULL, {"min": 512, "max": 512, "granule": 512}, {512}, r"^num_envs=512: .* give a smaller num_envs\. "),
        (OVERFLOWS, {"min": 512, "max": 512, "granule": 512}, {512}, r"raise physics\.contacts"),
        (FULL, {"max_trials": 2}, {256, 128}, r"down to num_envs=128: .* scaling\.max_trials \(now 2\)"),
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
def test_when_nothing_fits_the_message_names_what_to_change(
    workshop: Workshop, code: str, settings: dict, tried: set[int], advice: str
) -> None:
    workshop.each_trial = 1.0
    with pytest.raises(ConfigError, match=advice) as caught:
        workshop.fit(code, **settings)
    assert set(workshop.tried) == tried
    assert ("scaling.min" in str(caught.value)) == ("min" in settings and settings["min"] != settings.get("max"))
    needs = "needs more than 9.0 MiB of host memory for its first 32 environments" in str(caught.value)
    assert needs == (settings.get("budget") == "9MiB")
    assert Path(workshop.trials[0].log).exists()


def test_search_ends_in_time_with_the_best_so_far_and_says_so(workshop: Workshop) -> None:
    workshop.each_trial = 10.0
    result = workshop.fit("fits(100)", max_seconds=35)
    assert (result.num_envs, workshop.tried) == (64, [256, 128, 64])
    assert "cut short by scaling.max_seconds" in result.reason


def test_processes_on_the_cpu_share_its_memory(workshop: Workshop, set_free: Callable[[int], None]) -> None:
    set_free(1000 * MIB)
    result = workshop.fit("fits(n)", processes=4, max=64)
    assert {trial.host_budget for trial in result.trials} == {200 * MIB}


def test_gpu_search_holds_both_memories_to_their_budgets(
    workshop: Workshop, nvml: FakeNvml, set_free: Callable[[int], None]
) -> None:
    set_free(1000 * MIB)
    nvml.gpus = [FakeGpu(total=10_000 * MIB, used=2000 * MIB)]
    result = workshop.fit("fits(n)", device="cuda:0", max=2048)
    assert workshop.tried == [2048, 1024]
    assert result.num_envs == 2048
    assert {(t.host_budget, t.device_budget) for t in result.trials} == {(800 * MIB, 7200 * MIB)}
    assert workshop.fit("", device="cuda:0", max=2048).cached


@pytest.mark.usefixtures("nvml")
def test_a_size_that_is_too_many_for_the_agent_is_no_first_trial_that_may_compile(workshop: Workshop) -> None:
    compiled = workshop.folder / "compiled"
    code = f"""
if n > 512:
    json.dump({{"num_envs": n, "outcome": "too_many", "most_envs": 512}}, open(path, "w"))
    sys.exit()
if not os.path.exists({str(compiled)!r}):
    open({str(compiled)!r}, "w").close()
    raise MemoryError
json.dump({{"num_envs": n, "outcome": "fits", "frames_per_second": n, "most_envs": 512}}, open(path, "w"))
"""
    assert workshop.fit(code, device="cuda:0").num_envs == 512
    assert workshop.tried == [4096, 512, 512, 256]


def test_memory_that_others_took_changes_no_setting_and_leaves_the_size_its_chance(
    workshop: Workshop, set_free: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def free_memory() -> FreeMemory:
        size = 500 * MIB if taken.exists() else 1000 * MIB
        set_free(size)
        return FreeMemory(size, "memory")

    set_free(1000 * MIB)
    taken = workshop.folder / "taken"
    monkeypatch.setattr("isaaclab_pc.num_envs.trial_runner.free_host_memory", free_memory)
    workshop.retry = lambda trial, overrides: {"chunk": 64} if trial.outcome is Outcome.OOM else None
    code = f"""
if n == 64 and not os.path.exists({str(taken)!r}):
    open({str(taken)!r}, "w").close()
    raise MemoryError
fits(100 if n >= 64 else 50)
"""
    result = workshop.fit(code, max=128)
    assert (result.num_envs, result.overrides) == (64, {})
    assert [(trial.num_envs, trial.outcome) for trial in workshop.trials] == [
        *((128, Outcome.FITS), (64, Outcome.OOM), (64, Outcome.FITS), (32, Outcome.FITS))
    ]
    assert [trial.taken_by_others for trial in workshop.trials] == [0, 500 * MIB, 0, 0]
    assert [trial.host_budget for trial in workshop.trials] == [800 * MIB, 800 * MIB, 400 * MIB, 400 * MIB]


def test_a_run_on_several_gpus_shares_the_hosts_memory_and_keeps_some_of_the_first_gpus(
    workshop: Workshop, nvml: FakeNvml, set_free: Callable[[int], None]
) -> None:
    set_free(1000 * MIB)
    nvml.gpus = [FakeGpu(total=10_000 * MIB, used=2000 * MIB)]
    shared = {"device": "cuda:0", "max": 1024, "processes": 4, "reserve": 600 * MIB}
    result = workshop.fit("fits(n)", **shared)
    assert {(t.host_budget, t.device_budget) for t in result.trials} == {(200 * MIB, 6600 * MIB)}
    assert workshop.fit("", **shared).cached
    assert not workshop.fit("fits(n)", device="cuda:0", max=1024).cached


@pytest.mark.parametrize(("objective", "speed"), [("memory", 0.0), ("throughput", 64.0)])
def test_a_run_is_told_the_speed_of_an_answer_that_was_chosen_by_it(
    workshop: Workshop, objective: str, speed: float
) -> None:
    for _ in range(2):  # found, and remembered
        answer = workshop.fit("fits(n)", max=64, objective=objective).answer
        assert answer is not None
        assert (answer.num_envs, answer.frames_per_second) == (64, speed)
