# SPDX-License-Identifier: BSD-3-Clause
"""What a run learns with, and from whom."""

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.cli import task_names
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import algorithm
from isaaclab_pc.run.algorithm import DEMOS_NUM_ENVS, choose_algorithm, teacher_settings
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings

EXPERTS = {"lift": "IsaacPC-Lift-Cube-Franka-Direct"}

CARTPOLE = "Isaac-Cartpole-Direct-v0"
HOVER = "Example-Hover-Cube-Franka-Direct"
OTHERS = {
    CARTPOLE: {"has_expert": False, "has_sizes": False, "modules": []},
    HOVER: {"has_expert": True, "has_sizes": True, "modules": []},
}
"""Tasks of other packages."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, where of our tasks lift alone has an expert."""
    monkeypatch.setattr(task_names, "registered_tasks", lambda: OTHERS)
    monkeypatch.setattr(task_names, "_has_expert_module", lambda task_id: task_id in EXPERTS.values())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def composed(*arguments: str) -> RunSettings:
    env, agent = ([text for text in arguments if text.startswith(part)] for part in ("env.", "agent."))
    return compose([text for text in arguments if text not in env + agent], env, agent)


def choose(*arguments: str) -> tuple[str, str | None]:
    settings = choose_algorithm(composed(*arguments))
    return settings.algorithm, settings.teacher


@pytest.mark.parametrize(
    ("task", "algorithm", "teacher", "agent"),
    [(CARTPOLE, "ppo", None, "default"), (HOVER, "distill", "expert", "large")],
)
def test_a_task_of_another_package_may_have_an_expert_and_agents_of_every_size(
    task: str, algorithm: str, teacher: str | None, agent: str
) -> None:
    chosen = choose_algorithm(compose(["device=cuda:0"]).with_values({"task": task}))
    assert (chosen.algorithm, chosen.teacher, chosen.agent) == (algorithm, teacher, agent)


@pytest.mark.parametrize(
    ("arguments", "chosen", "reason"),
    [
        (["task=lift"], "distill", "auto"),
        (["task=lift", "obs=depth"], "distill", "auto"),
        (["task=lift", "obs=state"], "ppo", "auto: obs=state"),
        (["task=lift", "runner=rl_games"], "ppo", "auto: runner=rl_games"),
        (["task=push"], "ppo", "auto"),
        (["task=lift", "algorithm=ppo"], "ppo", "as given"),
        (["task=lift", "algorithm=distill", "obs=state"], "distill", "as given"),
        (["task=lift", "teacher=expert"], "distill", "auto"),
        (["task=lift", "init=pretrained"], "ppo", "auto"),
        (["task=lift", "recurrent=gru"], "ppo", "auto"),
    ],
)
def test_the_run_says_what_it_learns_with(arguments: list[str], chosen: str, reason: str, capsys: Any) -> None:
    teacher = "expert" if chosen == "distill" else None
    assert choose(*arguments) == (chosen, teacher)
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith(f"algorithm={chosen}{' teacher=expert' if teacher else ''} ")
    assert f" ({reason}" in said


@pytest.mark.parametrize(
    ("arguments", "agent"),
    [
        (["task=lift", "device=cpu"], "default"),
        (["task=lift", "device=cuda:1"], "large"),
        (["task=lift", "device=cuda:1", "runner=rl_games"], "large"),
        (["task=lift", "device=cuda:1", "agent=default"], "default"),
        (["task=lift", "device=cpu", "agent=large"], "large"),
    ],
)
def test_the_agent_is_large_on_a_gpu_unless_it_is_given(arguments: list[str], agent: str, capsys: Any) -> None:
    chosen = choose_algorithm(compose(arguments))
    assert chosen.agent == agent
    given = any(text.startswith("agent=") for text in arguments)
    assert ("note: agent=large " in capsys.readouterr().out) == (agent == "large" and not given)
    assert choose_algorithm(chosen) == chosen


def test_a_teacher_is_trained_on_the_state_with_the_settings_that_are_not_the_students_own() -> None:
    given = ["task=push", "teacher=train", "seed=5", "points.num_points=64", "replay_samples=5000", "max_iterations=7"]
    of_env = ["env.episode_length_s=3", "env.history_length=2", "env.scene.points.realism.flying_pixels=0"]
    others = ["visualizer=viser", "agent.algorithm.learning_rate=1e-3"]
    student = choose_algorithm(composed(*given, *of_env, *others))
    assert (student.algorithm, student.teacher) == ("distill", "train")

    teacher = teacher_settings(student)
    assert (teacher.task, teacher.seed, teacher.env_overrides) == (student.task, 5, of_env[:1])
    assert (teacher.obs, teacher.algorithm, teacher.teacher) == ("state", "ppo", None)
    assert (teacher.points.num_points, teacher.replay_samples, teacher.max_iterations) == (None, None, None)
    assert (teacher.agent_overrides, teacher.visualizer) == ([], None)
    assert choose_algorithm(teacher) == teacher


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=lift", "algorithm=distill", "runner=rl_games"], r"runner=rl_games: .* runner=rsl_rl"),
        (["task=push", "algorithm=distill"], r"^teacher=expert: IsaacPC-Push.* lift\. .* algorithm=ppo"),
        (["task=lift", "algorithm=ppo", "teacher=expert"], r"^teacher=expert .* algorithm=distill"),
        (["task=push", "replay_samples=5000"], r"^replay_samples=5000 .* algorithm=distill"),
        (["task=lift", "algorithm=distill", "init=pretrained"], r"^init=pretrained .* algorithm=distill"),
        (["task=push", "teacher=nowhere"], r"^teacher=nowhere: "),
        (["task=push", "teacher=latest"], r"^teacher=latest: .*push_state "),
        (["task=push", "teacher=train", "algorithm=distill", "obs=state"], r"^teacher=train with obs=state"),
        (["task=lift", "init=pretrained", "runner=rl_games"], r"runner=rl_games: give runner=rsl_"),
        (["task=lift", "init=pretrained", "obs=depth"], r"give obs=points here"),
        (["task=lift", "init=pretrained", "robot=ur5e"], r"robot=franka, .* robot=ur5e"),
        (["task=push", "init=nowhere"], r"^init=nowhere: "),
        (["task=lift", "recurrent=gru", "runner=skrl"], r"^recurrent=gru with runner=skrl .* rsl_rl and rl_games"),
        (["task=lift", "recurrent=lstm", "algorithm=distill"], r"^recurrent=lstm .* algorithm=distill"),
        (["task=lift", "recurrent=gru", "init=pretrained"], r"^recurrent=gru with init=pretrained"),
        (["task=push", "demos=nowhere.hdf5"], r"^demos=nowhere\.hdf5: .* scripts/demo\.py"),
        (["task=push", "demos=a.hdf5", "teacher=expert"], r"^teacher=expert .* demos=a\.hdf5"),
        (["task=push", "demos=a.hdf5", "replay_samples=5000"], r"^replay_samples=5000 .* demos=a\.hdf5"),
        (["task=push", "demos=a.hdf5", "algorithm=ppo"], r"^demos=a\.hdf5 .* algorithm=distill"),
        (["task=push", "demos=a.hdf5", "runner=skrl"], r"runner=skrl: .* runner=rsl_rl"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose(*arguments)


@pytest.mark.parametrize(("given", "num_envs"), [("auto", DEMOS_NUM_ENVS), ("8", 8)])
def test_demonstrations_need_neither_an_expert_nor_a_search(given: str, num_envs: int, folder: Path) -> None:
    (folder / "a.hdf5").touch()
    chosen = choose_algorithm(composed("task=push", "demos=a.hdf5", f"num_envs={given}"))
    assert (chosen.algorithm, chosen.teacher, chosen.num_envs) == ("distill", None, num_envs)
    assert chosen.demos == str(folder / "a.hdf5")
    assert choose_algorithm(chosen) == chosen


def test_a_lerobot_dataset_is_read_again_once_it_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = folder / "lift" / "meta" / "info.json"
    info.parent.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"^demos=.*lift is a folder without meta/info\.json"):
        choose("task=lift", "demos=lift")

    script = folder / "lerobot_dataset.py"
    script.write_text("import sys\nopen(sys.argv[2], 'a').write('read')\n")
    monkeypatch.setattr(algorithm, "conversion", lambda _, *paths: [sys.executable, *map(str, (script, *paths))])
    info.touch()
    path = folder / "lift" / "demos.hdf5"
    for _ in range(2):
        assert choose_algorithm(composed("task=lift", "demos=lift")).demos == str(path)
    assert path.read_text(encoding="utf-8") == "read"

    os.utime(path, (0, 0))
    script.write_text("import sys\nsys.exit('no feature')\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^demos=.*lift cannot be learned from"):
        choose("task=lift", "demos=lift")


@pytest.fixture
def leave_run(folder: Path) -> Callable[..., Path]:
    """Leave the folder of a run as a training does, and return its checkpoint."""

    def train(*arguments: str) -> Path:
        settings = composed(*arguments)
        run = folder / "logs" / "rsl_rl" / "push_state" / "1"
        checkpoint = run / "checkpoints" / "model_7.pt"
        checkpoint.parent.mkdir(parents=True)
        settings.save(run / SETTINGS_NAME)
        with zipfile.ZipFile(checkpoint, "w") as archive:
            header = {"format": 1, "task": settings.task, "runner": settings.runner}
            archive.writestr("archive/header.json", json.dumps(header))
        entry: Any = {"latest": {"path": "checkpoints/model_7.pt", "iteration": 7, "success_rate": None}}
        RunRecord.create(run, settings).update(checkpoints=entry)
        return checkpoint

    return train


@pytest.mark.parametrize("by", ["checkpoint", "folder", "latest"])
def test_a_run_with_the_state_teaches(leave_run: Callable[..., Path], by: str) -> None:
    checkpoint = leave_run("task=push", "obs=state", "env.tool_delta=0.02")
    teacher = {"checkpoint": checkpoint, "folder": checkpoint.parent.parent, "latest": "latest"}[by]
    chosen = choose("task=push", f"teacher={teacher}", "env.tool_delta=0.02", "env.episode_length_s=2")
    assert chosen == ("distill", str(checkpoint))


@pytest.mark.parametrize(
    ("trained", "asked", "message"),
    [
        (["task=reach", "obs=state"], [], r"task=IsaacPC-Reach.* task=IsaacPC-Push"),
        (["task=push", "obs=state", "robot=ur5e"], [], r"robot=ur5e, .* robot=franka"),
        (["task=push", "obs=points"], [], r"obs=points: .* obs=state"),
        (["task=push", "obs=state", "recurrent=gru"], [], r"recurrent=gru: "),
        (["task=push", "obs=state"], ["env.action=joint_delta"], r" no env\..* env\.action=joint_delta"),
        (["task=push", "obs=state", "env.tool_delta=0.01"], [], r" env\.tool_delta=0\.01, .* none"),
    ],
)
def test_a_teacher_of_something_else_is_refused(
    leave_run: Callable[..., Path], trained: list[str], asked: list[str], message: str
) -> None:
    checkpoint = leave_run(*trained)
    with pytest.raises(ConfigError, match=rf"^teacher={checkpoint} .*{message}"):
        choose("task=push", f"teacher={checkpoint}", *asked)


@pytest.mark.parametrize("by", ["checkpoint", "folder"])
def test_ppo_goes_on_with_the_network_of_the_student(leave_run: Callable[..., Path], by: str) -> None:
    network = ["agent.student.hidden_dims=[64]", "agent.student.distribution_cfg.init_std=0.2"]
    own = ["agent.algorithm.turn_steps=3", "env.history_length=3", "env.randomization=hard"]
    checkpoint = leave_run("task=lift", "algorithm=distill", *network, *own)
    init = {"checkpoint": checkpoint, "folder": checkpoint.parent.parent}[by]
    chosen = choose_algorithm(composed("task=lift", f"init={init}", "agent.algorithm.gamma=0.9"))
    assert (chosen.algorithm, chosen.learner, chosen.init) == ("ppo", "finetune", str(checkpoint))
    assert chosen.agent_overrides == ["agent.actor.hidden_dims=[64]", "agent.algorithm.gamma=0.9"]
    assert chosen.env_overrides == ["env.history_length=3"]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_ppo_goes_on_with_the_size_and_the_encoder_of_the_student_on_any_device(
    leave_run: Callable[..., Path], device: str
) -> None:
    checkpoint = leave_run("task=lift", "algorithm=distill", "agent=large", "encoder=dp3")
    chosen = choose_algorithm(compose(["task=lift", f"init={checkpoint}", f"device={device}"]))
    assert (chosen.agent, chosen.encoder) == ("large", "dp3")


def test_a_run_that_goes_on_needs_its_init_no_more(leave_run: Callable[..., Path]) -> None:
    checkpoint = leave_run("task=lift", "algorithm=distill", "agent.student.hidden_dims=[64]")
    begun = choose_algorithm(compose(["task=lift", f"init={checkpoint}"]))
    checkpoint.unlink()
    assert choose_algorithm(begun, begins=False) == begun


@pytest.mark.parametrize(
    ("trained", "asked", "message"),
    [
        (["task=reach", "algorithm=distill"], [], r"task=IsaacPC-Reach.* task=IsaacPC-Lift"),
        (["task=lift", "algorithm=ppo"], [], r"algorithm=ppo: .* resume="),
        (["task=lift", "algorithm=distill", "agent=large"], ["agent=default"], r"agent=large: "),
        (["task=lift", "algorithm=distill", "encoder=dp3"], ["encoder=pointnet"], r"encoder=dp3: "),
        (["task=lift", "algorithm=distill"], ["env.tool_delta=0.01"], r" env\.tool_delta=0\.01"),
    ],
)
def test_a_policy_of_something_else_is_no_beginning(
    leave_run: Callable[..., Path], trained: list[str], asked: list[str], message: str
) -> None:
    checkpoint = leave_run(*trained)
    with pytest.raises(ConfigError, match=rf"^init={checkpoint} .*{message}"):
        choose("task=lift", f"init={checkpoint}", *asked)
