# SPDX-License-Identifier: BSD-3-Clause
"""Two real processes that train together over Gloo, started as a run starts them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.agents.networks import RunningNorm
from isaaclab_pc.cluster.ranks import ranks_command
from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.workers.ranks import combine_metrics
from tests.unit.learners import rank_program

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which both ranks have left their results."""
    folder = tmp_path_factory.mktemp("ranks")
    program = [sys.executable, "-m", "tests.unit.learners.rank_program", str(folder)]
    done = subprocess.run(ranks_command(2, program), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> list[dict[str, Any]]:
    """The results of the ranks."""
    return [torch.load(folder / f"rank_{rank}.pt", weights_only=False) for rank in range(2)]


def test_two_ranks_have_the_gradient_of_all_of_their_samples(results: list[dict[str, Any]]) -> None:
    everything = rank_program.gradient(rank_program.samples().flatten(0, 1))
    for result in results:
        for own, parameter in zip(result["gradient"], everything.parameters(), strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(own, parameter.grad, rtol=1e-12, atol=1e-12)


def test_two_ranks_normalize_with_the_statistics_of_all_of_their_samples(results: list[dict[str, Any]]) -> None:
    everything = RunningNorm(rank_program.FEATURES).double()
    samples = rank_program.samples().flatten(0, 1)
    everything.add_samples(samples)
    everything.add_samples(0.5 * samples)
    for result in results:
        for name, buffer in everything.state_dict().items():
            torch.testing.assert_close(result["norm"][name], buffer, rtol=1e-12, atol=1e-12)


def test_an_update_that_is_bad_on_one_rank_happens_on_none(results: list[dict[str, Any]]) -> None:
    first, second = (result["one bad update"] for result in results)
    assert first["metrics"] == second["metrics"] == {"Learner/updates": 3.0, "Learner/skipped_updates": 1.0}
    for name, weight in first["weights"].items():
        assert weight.isfinite().all()
        assert torch.equal(weight, second["weights"][name])


@pytest.mark.parametrize("library", [*RUNNERS, "distill"])
def test_both_ranks_have_the_same_weights_after_a_training_and_the_first_one_writes_a_log(
    library: str, folder: Path, results: list[dict[str, Any]]
) -> None:
    first, second = (result[library] for result in results)
    assert first.keys() == second.keys()
    weights = {name for name, tensor in first.items() if tensor.is_floating_point() and tensor.numel() > 1}
    assert weights
    for name in weights:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, msg=name)

    assert list((folder / f"{library}_0").glob("events.out.tfevents.*"))
    assert not list((folder / f"{library}_1").glob("events.out.tfevents.*"))


def test_the_others_pause_and_stop_with_the_first_rank(results: list[dict[str, Any]]) -> None:
    iterations, gathered = results[0]["lead"]
    assert (iterations, results[1]["lead"][0]) == (4, 4)
    assert [counts for _, counts in gathered] == [{"state": 1}, {"state": 3}]
    combined = combine_metrics([metrics for metrics, _ in gathered])
    assert combined == {"success_rate": 0.5, "Perf/total_fps": 200.0}


def test_each_rank_has_its_own_seed_and_gpu_and_the_first_one_the_viewer(results: list[dict[str, Any]]) -> None:
    (first_seed, *first), (second_seed, *second) = (result["settings"] for result in results)
    assert (first_seed, first) == (5, ["cuda:0", "viser"])
    assert second_seed != 5
    assert second == ["cuda:1", None]


def test_what_is_not_known_on_one_rank_is_that_of_the_others() -> None:
    nan = float("nan")
    first = {"a": nan, "b": nan, "learn_s": 1.0, "Memory/host_bytes": 5.0}
    combined = combine_metrics([first, {"a": 2.0, "b": nan, "learn_s": 3.0, "Memory/host_bytes": 4.0}])
    assert combined["a"] == 2.0
    assert combined["b"] != combined["b"]
    assert (combined["learn_s"], combined["Memory/host_bytes"]) == (3.0, 5.0)
