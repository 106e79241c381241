# SPDX-License-Identifier: BSD-3-Clause
"""Detection, counting, repair and benching."""

import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.host_syncs import HostSyncs
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.guards import CAUSES, Cause, FaultError, Guard, GuardCfg, StepGuard
from isaaclab_pc.guards.guard import is_within

BAD = [math.nan, math.inf, -math.inf, 1e30, -1e30]
NO_STATE: Any = None


def counted(guard: Guard) -> dict[str, int]:
    return {cause: int(count) for cause, count in guard.counts.items() if count > 0}


@pytest.mark.parametrize(
    ("cause", "shape", "envs", "value"),
    [
        *((Cause.OBSERVATION, (4, 3), [0, 3], value) for value in BAD),
        (Cause.OBSERVATION, (4, 2, 70), [0, 1, 2, 3], math.nan),
        (Cause.REWARD, (4,), [2], math.nan),
        (Cause.ACTION, (4, 3), [0, 3], -1e30),
    ],
    ids=str,
)
def test_a_bad_value_marks_the_environments_that_have_it(cause: Cause, shape: tuple, envs: list, value: float) -> None:
    guard = Guard(GuardCfg(), 4, "cpu")
    tensor = torch.zeros(shape)
    tensor.view(4, -1)[envs, -1] = value
    guard.begin_step()
    bad = guard.check(cause, torch.zeros(4), tensor)
    expected = [env in envs for env in range(4)]
    assert bad.tolist() == guard.faulted.tolist() == expected
    assert counted(guard) == {cause.label: len(envs)}
    assert guard.env_counts.tolist() == [int(is_bad) for is_bad in expected]


@pytest.mark.parametrize("cause", [Cause.ACTION, Cause.REWARD, Cause.OBSERVATION])
def test_denormals_and_the_bounds_themselves_pass(cause: Cause) -> None:
    guard = Guard(GuardCfg(max_abs=50.0), 4, "cpu")
    assert not guard.check(cause, torch.tensor([[1e-45], [-1e-45], [50.0], [-50.0]])).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", ["rows", "columns", "transposed"])
def test_a_repair_reaches_a_tensor_however_it_lies_in_memory(shape: str, dtype: torch.dtype) -> None:
    values = torch.zeros(4, 6, 2, dtype=dtype)
    tensor = {"rows": values, "columns": values[:, ::2], "transposed": values.transpose(1, 2)}[shape]
    tensor[2, 0, 0], tensor[1, -1, -1] = math.nan, math.inf
    guard = Guard(GuardCfg(mode="sanitize", max_abs=1e6), 4, "cpu")
    guard.begin_step()
    assert guard.check(Cause.OBSERVATION, tensor).tolist() == [False, True, True, False]
    # 1e6 is more than float16 has.
    largest = min(1e6, torch.finfo(dtype).max)
    assert (float(tensor[2, 0, 0]), float(tensor[1, -1, -1])) == (0.0, largest)
    assert int(tensor.count_nonzero()) == 1


def test_bounds_that_single_precision_rounds_groups_without_numbers_and_a_guard_that_is_off_find_nothing() -> None:
    guard = Guard(GuardCfg(reward=(-0.1, 0.1)), 2, "cpu")
    assert not guard.check(Cause.REWARD, torch.tensor([-0.1, 0.1])).any()
    assert not guard.check(Cause.OBSERVATION, torch.zeros(2, 0)).any()
    off = Guard(GuardCfg(mode="disabled"), 2, "cpu")
    assert not off.check(Cause.REWARD, torch.full((2, 1), math.nan)).any()
    assert counted(off) == counted(guard) == {}


def test_a_step_has_no_known_faults_until_something_is_found_and_never_with_a_benched_environment() -> None:
    guard = Guard(GuardCfg(bench_steps=1, bench_after=1), 2, "cpu")
    faultless = []
    for value in (0.0, math.nan, 0.0, math.nan, math.nan, 0.0):
        guard.begin_step()
        assert guard.has_no_known_faults() == (len(faultless) < 5)
        guard.check(Cause.REWARD, torch.tensor([value, 0.0]))
        faultless.append(guard.has_no_known_faults())
        guard.end_step()
    assert guard.benched.tolist() == [True, False]
    assert faultless == [True, False, True, False, False, False]


@pytest.mark.parametrize("value", [math.nan, -math.inf, -1e-3, 1e30])
def test_depth_that_no_renderer_writes_is_bad_and_a_miss_is_not(value: float) -> None:
    guard = Guard(GuardCfg(), 2, "cpu")
    depth = torch.tensor([[[0.0, math.inf]], [[0.7, value]]])
    assert guard.check(Cause.DEPTH, depth).tolist() == [False, True]


def test_an_environment_counts_once_per_step_under_its_first_cause_and_keeps_all_of_them() -> None:
    guard = Guard(GuardCfg(), 3, "cpu")
    bad = torch.tensor([[0.0], [math.nan], [0.0]])
    guard.begin_step()
    guard.check(Cause.ACTION, bad)
    guard.check(Cause.REWARD, bad, bad)
    assert counted(guard) == {"action": 1}
    assert guard.causes.tolist() == [0, Cause.ACTION | Cause.REWARD, 0]
    guard.begin_step()
    assert not guard.faulted.any()
    assert guard.check(Cause.REWARD, bad).tolist() == [False, True, False]
    assert counted(guard) == {"action": 1, "reward": 1}
    assert guard.env_counts.tolist() == [0, 2, 0]
    assert guard.check(Cause.REWARD, torch.tensor([0.0, 0.0, math.inf])).tolist() == [False, False, True]
    assert not guard.check(Cause.REWARD, torch.zeros(3)).any(), "each check tells of itself alone"


def test_sanitize_repairs_in_place_and_ends_nothing() -> None:
    guard = Guard(GuardCfg(mode="sanitize", max_abs=10.0), 4, "cpu")
    reward = torch.tensor([math.nan, math.inf, -1e30, 3.0])
    guard.begin_step()
    assert guard.check(Cause.REWARD, reward).tolist() == [True, True, True, False]
    assert reward.tolist() == [0.0, 10.0, -10.0, 3.0]
    assert not guard.faulted.any()
    assert counted(guard) == {"reward": 3}
    depth = torch.tensor([[math.nan], [math.inf], [-1.0], [0.5]])
    guard.check(Cause.DEPTH, depth)
    assert depth.tolist() == [[0.0], [math.inf], [0.0], [0.5]]
    assert guard.check_actions(torch.full((4, 1), math.inf)).tolist() == [[10.0]] * 4


@st.composite
def steps_in_the_middle(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """State of some environments when their rewards are checked."""
    n = draw(st.integers(1, 6))
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    masks = {name: torch.tensor(draw(flags)) for name in ("faulted", "benched", "terminated", "truncated")}
    rewards = st.sampled_from([0.5, -1.0, 2000.0, math.nan, -math.inf])
    # What is benched has no faults any more.
    masks["faulted"] &= ~masks["benched"]
    return {**masks, "reward": torch.tensor(draw(st.lists(rewards, min_size=n, max_size=n)))}


@given(step=steps_in_the_middle(), ends=st.sampled_from(["terminated", "truncated"]))
def test_episodes_of_faulty_environments_end_in_one_way_and_nothing_of_them_counts(step: dict, ends: Any) -> None:
    faulted, benched, terminated, truncated = (step[n] for n in ("faulted", "benched", "terminated", "truncated"))
    guard = Guard(GuardCfg(ends=ends), len(faulted), "cpu")
    guard.causes[faulted] = int(Cause.VELOCITY)
    guard.benched |= benched

    # Known to somebody, so that the CPU asks no further.
    guard._total += 1
    env = SimpleNamespace(reset_terminated=None, reset_time_outs=None, reset_buf=None)
    step_guard = StepGuard(env, guard, NO_STATE)
    now = step_guard.check_dones(terminated, truncated)
    assert now is not None
    kept = terminated & ~faulted & ~benched
    expected = {"terminated": kept, "truncated": truncated & ~faulted}
    expected[ends] = expected[ends] | faulted
    assert [mask.tolist() for mask in now[:2]] == [expected["terminated"].tolist(), expected["truncated"].tolist()]
    assert now[2].tolist() == (terminated | faulted | benched).tolist()

    excluded = faulted | benched
    bad = ~excluded & ~(step["reward"].abs() <= 1000.0)
    reward, done = step["reward"].clone(), now[0] | now[1]
    env.reset_terminated, env.reset_time_outs, env.reset_buf = now[0], now[1], done
    uncounted = step_guard.check_reward(reward)
    assert uncounted is not None
    assert uncounted.tolist() == (excluded | bad).tolist()
    assert reward.tolist() == torch.where(excluded | bad, 0.0, step["reward"]).tolist()
    assert counted(guard) == ({"reward": int(bad.sum())} if bad.any() else {})
    ended = {"terminated": now[0], "truncated": now[1]}
    assert ended.pop(ends)[bad | faulted].all()
    assert not ended.popitem()[1][bad | faulted].any()
    assert done[bad | faulted].all()


def test_a_bad_reward_is_repaired_and_its_terms_do_not_count_while_the_episode_goes_on() -> None:
    guard = Guard(GuardCfg(mode="sanitize", max_abs=10.0), 3, "cpu")
    names = ("reset_terminated", "reset_time_outs", "reset_buf")
    env = SimpleNamespace(**{name: torch.zeros(3, dtype=torch.bool) for name in names})
    step_guard = StepGuard(env, guard, NO_STATE)
    reward = torch.tensor([math.nan, 20.0, 3.0])
    guard.begin_step()
    uncounted = step_guard.check_reward(reward)
    assert uncounted is not None
    assert uncounted.tolist() == [True, True, False]
    assert reward.tolist() == [0.0, 10.0, 3.0]
    assert not torch.stack([*vars(env).values()]).any()
    guard.begin_step()
    assert step_guard.check_reward(reward) is None, "on the CPU it is known that all count"


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_a_bad_observation_ends_the_episode_unless_the_environment_is_benched(ends: Any) -> None:
    guard = Guard(GuardCfg(ends=ends), 4, "cpu")
    guard.benched[3] = True
    masks = {name: torch.tensor([False, True, True, False]) for name in ("terminated", "truncated", "done")}
    step_guard = StepGuard(SimpleNamespace(reset_buf=masks["done"]), guard, NO_STATE)
    step_guard.check_depth({"camera": torch.tensor([[1.0], [math.nan], [1.0], [1.0]])})
    found = step_guard.check_observations({"points": torch.tensor([math.nan, 0.0, 0.0, math.nan])})
    assert found is not None
    hidden, ended = found
    assert (hidden.tolist(), ended.tolist()) == ([True, True, False, True], [True, True, False, False])

    reward = torch.ones(4)
    step_guard.end_by_observation(ended, reward, masks["terminated"], masks["truncated"])
    assert reward.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert masks["done"].tolist() == [True, True, True, False]
    assert masks[ends].tolist() == [True, True, True, False]
    other = masks["truncated" if ends == "terminated" else "terminated"]
    assert other.tolist() == [False, False, True, False]


def test_raise_names_everything() -> None:
    guard = Guard(GuardCfg(mode="raise"), 4, "cpu", task="Lift")
    asked = []
    guard.begin_step()
    guard.begin_step()
    guard.check(Cause.OBSERVATION, torch.zeros(4), names=("policy",))
    groups = torch.zeros(4, 2), torch.tensor([0.0, 1e30, 0.0, math.nan])
    with pytest.raises(FaultError, match=r"points \(observation\).*\(1, 3\)") as one:
        guard.check(Cause.OBSERVATION, *groups, names=("policy", "points"))
    error = one.value
    assert (error.task, error.env_ids, error.causes) == ("Lift", (1, 3), ("observation",))
    assert (error.tensor, error.step, error.dump) == ("points", 2, None)
    guard.dump = lambda env_ids: asked.append(env_ids.tolist()) or Path("x/dump_0.npz")
    with pytest.raises(FaultError, match=r"dump_0\.npz"):
        guard.check(Cause.REWARD, groups[1])
    assert asked == [[1, 3]]


def run(guard: Guard, pattern: str) -> list[bool]:
    """Steps of two environments, the first faulty where ``pattern`` has an x; whether it is benched after each."""
    benched = []
    for mark in pattern:
        guard.begin_step()
        guard.check(Cause.REWARD, torch.tensor([math.nan if mark == "x" else 0.0, 0.0]))
        guard.end_step()
        benched.append(bool(guard.benched[0]))
    assert not guard.benched[1]
    return benched


def test_sanitize_benches_nobody_and_counts_no_relapse() -> None:
    guard = Guard(GuardCfg(mode="sanitize", bench_steps=1, bench_after=1), 2, "cpu")
    assert run(guard, "xxxxx") == [False] * 5
    assert guard.pending_counts() == (0, 0)
    assert not guard._relapses.any()
    assert counted(guard) == {"reward": 5}, "repairs are counted"


@given(gaps=st.lists(st.integers(1, 9), max_size=6), bench_steps=st.integers(1, 4), bench_after=st.integers(1, 3))
def test_relapses_are_counted_alike_after_any_number_of_calm_steps(gaps: list, bench_steps: int, bench_after: int):
    guard = Guard(GuardCfg(bench_steps=bench_steps, bench_after=bench_after), 2, "cpu")
    benched = run(guard, "." * 7 + "x" + "".join("." * (gap - 1) + "x" for gap in gaps))
    relapses, expected = 0, None
    for index, gap in enumerate(gaps):
        relapses = relapses + 1 if gap <= bench_steps else 0
        if relapses >= bench_after:
            expected = 7 + sum(gaps[: index + 1])
            break
    assert (benched.index(True) if any(benched) else None) == expected


def test_torch_has_its_threads_again_after_a_large_tensor_that_cannot_be_read() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert is_within(torch.zeros(1 << 16), 0.0, 1.0)
        with pytest.raises(RuntimeError):
            is_within(torch.zeros(1 << 16, dtype=torch.complex64), 0.0, 1.0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_benched_environment_counts_no_longer_is_excluded_and_is_warned_of_once(caplog) -> None:
    guard = Guard(GuardCfg(bench_steps=1, bench_after=1), 2, "cpu", task="Lift")
    run(guard, "xx")
    assert guard.pending_counts() == (0, 1)
    before = counted(guard)
    run(guard, "x")
    assert counted(guard) == before == {"reward": 2}
    assert guard.excluded.tolist() == [True, False]
    assert not guard.faulted.any()
    with caplog.at_level(logging.WARNING):
        assert guard.benched_ids().tolist() == guard.benched_ids().tolist() == [0]
    assert len(caplog.records) == 1
    assert "Lift: environments 0 " in caplog.text
    guard.unbench_all()
    assert not guard.benched.any()
    assert guard.pending_counts() == (0, 0)


def test_which_are_benched_is_read_only_when_there_are_more() -> None:
    guard = Guard(GuardCfg(bench_steps=1, bench_after=1), 2, "cpu")
    run(guard, "xx")
    assert guard.benched_ids().tolist() == [0]
    syncs = HostSyncs()
    with syncs:
        assert guard.benched_ids() is guard.benched_ids()
    assert not syncs.counts

    guard.benched[1] = True
    guard.end_step()
    assert guard.benched_ids().tolist() == [0, 1]
    guard.unbench_all()
    assert guard.benched_ids().tolist() == []


def test_the_log_holds_the_counters_themselves() -> None:
    guard = Guard(GuardCfg(), 4, "cpu")
    guard.begin_step()
    early = guard.log()
    for _ in range(2):
        guard.check(Cause.REWARD, torch.tensor([0.0, 0.0, math.nan, 0.0]))
        guard.end_step()
        guard.begin_step()
    log = guard.log()
    assert set(log) == {f"Guard/{name}" for name in (*CAUSES, "per_million_steps", "worst_env", "benched")}
    assert float(early["Guard/reward"]) == float(log["Guard/reward"]) == 2.0
    assert float(log["Guard/worst_env"]) == 2.0
    assert float(log["Guard/per_million_steps"]) == pytest.approx(2e6 / (3 * 4))


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("mode", "quarantin", "guard.mode=quarantin: .* quarantine"),
        ("ends", "done", "guard.ends=done"),
        ("max_abs", math.nan, "guard.max_abs=nan"),
        ("position", (2000.0, 3000.0), "env.guard.position"),
        ("action", (1.0, -1.0), "env.guard.action"),
        ("reward", (0.0,), "env.guard.reward"),
        ("observation", (5.0, math.nan), "env.guard.observation"),
        ("quaternion_tolerance", 1.0, "env.guard.quaternion_tolerance"),
        ("joint_position_margin", -0.1, "env.guard.joint_position_margin"),
        ("bench_after", 0, "env.guard.bench_after"),
    ],
)
def test_bad_bounds_are_refused_by_name(field: str, value: object, name: str) -> None:
    cfg = GuardCfg()
    setattr(cfg, field, value)
    with pytest.raises(ConfigError, match=f"^{name}"):
        Guard(cfg, 2, "cpu")


def test_a_repaired_action_is_one_that_the_task_allows() -> None:
    guard = Guard(GuardCfg(mode="sanitize"), 2, "cpu", allowed_actions=(-1.0, 1.0))
    guard.begin_step()
    assert guard.check_actions(torch.tensor([[math.inf], [5.0]])).tolist() == [[1.0], [5.0]], "clipping is the task's"
    assert counted(guard) == {"action": 1}


def test_a_bad_action_of_several_dimensions_touches_its_own_environment_alone() -> None:
    guard = Guard(GuardCfg(), 4, "cpu")
    actions = torch.ones(4, 2, 3, dtype=torch.float64)
    actions[1, 1, 2] = math.nan
    guard.begin_step()
    assert guard.check_actions(actions.requires_grad_()).sum(dim=(1, 2)).tolist() == [6.0, 0.0, 6.0, 6.0]
    assert actions[1, 1, 2].isnan(), "the caller's tensor is not changed"
    guard.begin_step()
    assert guard.check_actions(torch.tensor([1.0, math.inf, 2.0, 3.0])).tolist() == [1.0, 0.0, 2.0, 3.0]
