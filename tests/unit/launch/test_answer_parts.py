# SPDX-License-Identifier: BSD-3-Clause
"""On which settings, files and versions an answer depends."""

from pathlib import Path

import pytest

from isaaclab_pc.launch import answer_parts as module
from isaaclab_pc.launch.answer_parts import answer_parts
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.settings import RunSettings

GIVEN = ["task=reach", "device=cpu", "algorithm=ppo"]


@pytest.fixture(autouse=True)
def _no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sources", lambda task: f"sources of {task}")


def run(*settings: str, env: tuple[str, ...] = ()) -> RunSettings:
    return compose([*GIVEN, *settings], list(env))


@pytest.mark.parametrize(
    ("setting", "matters"),
    [
        ("seed=7", False),
        ("max_iterations=3", False),
        ("num_envs=64", False),
        ("scaling.max_seconds=60", False),
        ("supervise.max_restarts=1", False),
        ("logger=wandb", False),
        ("device=cuda:1", False),
        ("obs=state", True),
        ("task=lift", True),
        ("runner=skrl", True),
        ("points.num_points=128", True),
        ("guard.mode=disabled", True),
        ("minibatch_size=512", True),
        ("gpus=2", True),
    ],
)
def test_an_answer_depends_on_what_is_simulated_and_learned(setting: str, matters: bool) -> None:
    assert (answer_parts(run(setting)) != answer_parts(run())) == matters


def test_a_file_that_an_override_names_counts_by_its_content(tmp_path: Path) -> None:
    mesh = tmp_path / "cup.usd"
    mesh.write_text("small")
    settings = run(env=(f"env.scene.object.spawn.usd_path={mesh}",))
    before = answer_parts(settings)
    assert answer_parts(settings) == before
    mesh.write_text("a larger one")
    assert answer_parts(settings) != before


@pytest.mark.parametrize(
    ("package", "matters"), [("torch", True), ("newton", True), ("rsl-rl-lib", True), ("skrl", False), ("rich", False)]
)
def test_an_answer_depends_on_the_versions_of_what_allocates(
    monkeypatch: pytest.MonkeyPatch, package: str, matters: bool
) -> None:
    def versions(of: str):
        return lambda names: {name: "2" if name == of else "1" for name in names}

    monkeypatch.setattr(module, "installed_versions", versions(""))
    before = answer_parts(run())
    monkeypatch.setattr(module, "installed_versions", versions(package))
    assert (answer_parts(run()) != before) == matters
