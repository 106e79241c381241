# SPDX-License-Identifier: BSD-3-Clause
"""How often our part of a learner would wait for a GPU, counted on the CPU over whole iterations of each library.

Stable-Baselines3 is left out: its rollout lives on the host, so it waits in every step.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.host_syncs import OURS, HostSyncs
from isaaclab_pc.learners import Decision, Runner
from tests.unit.learners import bench, test_distill_runner, test_fine_tuning, test_recurrent

ITERATIONS = 2
MINIBATCHES = bench.SETTINGS.num_epochs * bench.PLAN.num_minibatches

LOGGED = ("tolist()", "isaaclab_pc/learners/common/iteration_metrics.py:read_numbers")
SKIPPED_UPDATES = ("a number is read", "isaaclab_pc/learners/common/tripwire.py:end_iteration")

EPISODES = {
    ("a boolean mask selects", "isaaclab_pc/learners/common/iteration_metrics.py:means"): 1,
    ("tolist()", "isaaclab_pc/learners/common/iteration_metrics.py:means"): 1,
}
"""RSL-RL would wait for the returns in each step, and skrl counts no episodes of Isaac Lab's environments."""

ONCE = {
    **EPISODES,
    ("a number is read", "isaaclab_pc/learners/rsl_rl/adapter.py:log"): 1,
    SKIPPED_UPDATES: 1,
    LOGGED: 1,
}
"""Reads of what is logged: once an iteration each."""

DISTILLATION = {**ONCE, ("tolist()", "isaaclab_pc/learners/rsl_rl/distillation.py:update"): 1}

MEMORY = {**ONCE, ("nonzero", "isaaclab_pc/learners/rsl_rl/model.py:get_latent"): MINIBATCHES}
"""Trajectories that are padded to one length have as many real steps as only the device knows."""

RL_GAMES = {SKIPPED_UPDATES: 1, LOGGED: 2}
"""The log of the environment, and the losses."""

RL_GAMES_MEMORY = {
    **RL_GAMES,
    ("tolist()", "isaaclab_pc/learners/rl_games/network.py:_remember"): MINIBATCHES,
}
"""Sequences are cut where an episode began, which only the device knows."""

SKRL = {
    **EPISODES,
    SKIPPED_UPDATES: 1,
    LOGGED: 1,
    ("a number is read", "isaaclab_pc/learners/skrl/agent.py:take_metrics"): 1,
}


def ppo(folder: Path, obs: str = "points", library: str = "rsl_rl", **encoder: object) -> Runner:
    encoder_settings = replace(bench.SETTINGS.encoder, **encoder)  # type: ignore[arg-type]
    return bench.Bench(library, folder, obs, encoder=encoder_settings).runner


def recurrent(folder: Path, library: str = "rsl_rl") -> Runner:
    return test_recurrent.make(test_recurrent.Policy(library, "gru"), folder)[1]


def fine_tuned(folder: Path) -> Runner:
    student = folder / "student.pt"
    distilled = test_fine_tuning.rsl_rl_cfg.make_distill_cfg(test_fine_tuning.STUDENT, "x")
    test_fine_tuning.build(folder, distilled).save(student, {})
    return test_fine_tuning.build(folder, test_fine_tuning.finetune_cfg(), student)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(ppo, ONCE, id="pointnet"),
        pytest.param(lambda folder: ppo(folder, chunk=4), ONCE, id="chunks"),
        pytest.param(lambda folder: ppo(folder, chunk=4, precision="bf16"), ONCE, id="bf16"),
        pytest.param(lambda folder: ppo(folder, point_encoder="dp3"), ONCE, id="dp3"),
        pytest.param(lambda folder: ppo(folder, "depth"), ONCE, id="depth"),
        pytest.param(recurrent, MEMORY, id="memory"),
        pytest.param(fine_tuned, ONCE, id="fine-tuning"),
        pytest.param(lambda folder: test_distill_runner.Bench(folder).runner, DISTILLATION, id="distillation"),
        pytest.param(lambda folder: ppo(folder, library="rl_games"), RL_GAMES, id="rl_games"),
        pytest.param(lambda folder: recurrent(folder, "rl_games"), RL_GAMES_MEMORY, id="rl_games-memory"),
        pytest.param(lambda folder: ppo(folder, library="skrl"), SKRL, id="skrl"),
    ],
)
def test_a_learner_of_ours_waits_for_the_log_alone(
    make: Callable[[Path], Runner], expected: Mapping[tuple[str, str], int], tmp_path: Path
) -> None:
    # What the fake task does must not look like what calls it.
    syncs = HostSyncs((*OURS, "tests"))
    with ExitStack() as counting:

        def on_iteration(completed: int, metrics: Mapping[str, float]) -> Decision:
            # Optimizers allocate their state in the first iteration.
            if completed == 1:
                counting.enter_context(syncs)
            return Decision.CONTINUE

        make(tmp_path).train(1 + ITERATIONS, on_iteration)

    waits: Counter[tuple[str, str]] = Counter()
    for sync, count in syncs.counts.items():
        # A learner is all on one device, where to(device) copies nothing: most calls are those of PyTorch's clipping.
        if sync.is_ours and sync.what != "to(device)" and not sync.where.startswith("tests/"):
            waits[sync.what, sync.function] += count
    assert waits == {place: ITERATIONS * count for place, count in expected.items()}
    # The counter was at work: each library waits by itself, too.
    assert any(not sync.is_ours for sync in syncs.counts)
