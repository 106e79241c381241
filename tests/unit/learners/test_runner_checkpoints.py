# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of every adapter, on a fake task: resume, acting from weights, and what is refused."""

import functools
import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.learners.common.checkpoint_file import load_checkpoint, save_checkpoint
from tests.unit.learners.bench import NUM_ENVS, SETTINGS, Bench, flat
from tests.unit.learners.fake_env import ACTIONS, NUM_POINTS


def test_resume_is_the_same_run(name: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "2.pt"
    unbroken = Bench(name, tmp_path / "a", aux_coef=0.5)
    unbroken.train(2)
    unbroken.runner.save(checkpoint, {"task": "fake"})
    rates = [metrics["learning_rate"] for _, metrics in unbroken.train(4)]
    unbroken.runner.save(tmp_path / "a.pt", {})

    resumed = Bench(name, tmp_path / "b", aux_coef=0.5)
    assert not torch.allclose(resumed.act(), unbroken.act())
    header = resumed.runner.load(checkpoint)
    assert (header["task"], header["runner"], header["iteration"]) == ("fake", name, 2)
    assert resumed.runner.completed_iterations == 2
    calls = resumed.train(4)
    assert [completed for completed, _ in calls] == [3, 4]
    assert [metrics["learning_rate"] for _, metrics in calls] == rates
    resumed.runner.save(tmp_path / "b.pt", {})
    a, b = (flat(load_checkpoint(tmp_path / f"{run}.pt", "cpu")[0]) for run in "ab")
    assert len(a) > 20
    assert a.keys() == b.keys()
    for key, tensor in a.items():
        assert torch.equal(tensor, b[key]), key
    assert torch.equal(resumed.act(), unbroken.act())

    # A policy acts from its weights alone.
    played = Bench(name, tmp_path / "c", aux_coef=0.5)
    played.env.count = unbroken.env.count
    assert played.runner.load_policy(tmp_path / "a.pt")["iteration"] == 4
    torch.testing.assert_close(played.act(), unbroken.act())
    assert played.runner.completed_iterations == 0


@pytest.mark.parametrize("frames", [1, 3])
def test_a_policy_acts_on_clouds_of_another_size_and_training_does_not_go_on_with_them(
    name: str, frames: int, tmp_path: Path
) -> None:
    Bench(name, tmp_path / "a", history_length=frames).runner.save(tmp_path / "a.pt", {})
    fewer = Bench(name, tmp_path / "b", num_points=NUM_POINTS // 2, history_length=frames)
    fewer.runner.load_policy(tmp_path / "a.pt")
    assert fewer.act().shape == (NUM_ENVS, ACTIONS)
    with pytest.raises(ConfigError, match="observations="):
        fewer.runner.load(tmp_path / "a.pt")
    for other in (Bench(name, tmp_path / "c", obs="depth"), Bench(name, tmp_path / "d", history_length=2)):
        with pytest.raises(ConfigError, match="observations="):
            other.runner.load_policy(tmp_path / "a.pt")


@pytest.mark.parametrize("other", ["observations", "task", "runner"])
def test_a_checkpoint_of_something_else_changes_nothing(name: str, tmp_path: Path, other: str) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {"task": "reach"})
    library = next(each for each in RUNNERS if each != name) if other == "runner" else name
    bench = Bench(library, tmp_path / "b", "depth" if other == "observations" else "points")
    before = bench.act()
    with pytest.raises(ConfigError, match=f"{other}=.*{other}="):
        bench.runner.load(tmp_path / "a.pt", {"task": "lift" if other == "task" else "reach"})
    assert torch.equal(bench.act(), before)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("iteration",), "three"),
        (("rng",), [1, 2]),
        (("rng", "torch"), "noise"),
        (("rng", "numpy"), []),
        (("algorithm", "optimizer"), None),
    ],
)
def test_a_checkpoint_with_values_of_other_types_is_refused(
    name: str, tmp_path: Path, path: tuple[str, ...], value: Any
) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    state, header = load_checkpoint(tmp_path / "a.pt", "cpu")
    parent = functools.reduce(operator.getitem, path[:-1], state)
    key = next(key for key in parent if key.startswith(path[-1]))
    parent[key] = value
    save_checkpoint(tmp_path / "b.pt", state, header)
    with pytest.raises(ConfigError, match=r"b\.pt"):
        Bench(name, tmp_path / "b").runner.load(tmp_path / "b.pt")


def test_another_encoder_trains_and_refuses_the_weights_of_the_default_one(name: str, tmp_path: Path) -> None:
    Bench(name, tmp_path / "a").runner.save(tmp_path / "a.pt", {})
    bench = Bench(name, tmp_path / "b", encoder=replace(SETTINGS.encoder, point_encoder="dp3", chunk=4))
    before = bench.act()
    with pytest.raises(ConfigError, match=r"\.encoder\.encoders\.points\."):
        bench.runner.load(tmp_path / "a.pt")
    assert torch.equal(bench.act(), before)

    bench.train(1)
    bench.runner.save(tmp_path / "b.pt", {})
    again = Bench(name, tmp_path / "c", encoder=replace(SETTINGS.encoder, point_encoder="dp3"))
    again.runner.load(tmp_path / "b.pt")
    observed = bench.env.observe()
    torch.testing.assert_close(again.runner.act(observed), bench.runner.act(observed))


def test_every_library_trains_encoders_in_bfloat16_and_their_checkpoints_go_on_in_float32(
    name: str, tmp_path: Path
) -> None:
    half = Bench(name, tmp_path / "a", encoder=replace(SETTINGS.encoder, precision="bf16"))
    first = half.act()
    half.train(1)
    assert not torch.allclose(half.act(), first)
    half.runner.save(tmp_path / "a.pt", {})

    full = Bench(name, tmp_path / "b")
    full.runner.load(tmp_path / "a.pt")
    observed = half.env.observe()
    actions, rounded = full.runner.act(observed), half.runner.act(observed)
    assert not torch.equal(actions, rounded)
    torch.testing.assert_close(actions, rounded, rtol=0, atol=0.02)
    full.train(2)
