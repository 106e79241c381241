# SPDX-License-Identifier: BSD-3-Clause
"""What a run learns with, and from whom."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isaaclab_pc.cli import task_names
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run.algorithm import choose_algorithm, teacher_settings
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.record import RunRecord

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
    monkeypatch.setattr(task_names, "expert_tasks", lambda: EXPERTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def choose(*arguments: str) -> tuple[str, str | None]:
    env = [text for text in arguments if text.startswith("env.")]
    settings = choose_algorithm(compose([text for text in arguments if text not in env], env))
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
        (["task=lift"], "distill", "auto: the task has an expert"),
        (["task=lift", "obs=depth"], "distill", "auto: the task has an expert"),
        (["task=lift", "obs=state"], "ppo", "auto: obs=state"),
        (["task=lift", "runner=rl_games"], "ppo", "auto: runner=rl_games"),
        (["task=push"], "ppo", "auto: the task has no expert"),
        (["task=lift", "algorithm=ppo"], "ppo", "as given"),
        (["task=lift", "algorithm=distill", "obs=state"], "distill", "as given"),
        (["task=lift", "teacher=expert"], "distill", "auto: a teacher is given"),
        (["task=lift", "init=pretrained"], "ppo", "auto: it goes on from init"),
        (["task=lift", "recurrent=gru"], "ppo", "auto: a recurrent policy learns from rewards"),
    ],
)
def test_the_run_says_what_it_learns_with(arguments: list[str], chosen: str, reason: str, capsys: Any) -> None:
    teacher = "expert" if chosen == "distill" else None
    assert choose(*arguments) == (chosen, teacher)
    said = capsys.readouterr().out
    assert said.startswith(f"algorithm={chosen}{' teacher=expert' if teacher else ''} ")
    assert f" ({reason}" in said
    assert said.count("\n") == 1


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
    note = "note: agent=large (auto: on a GPU); agent=default is the one for a CPU"
    given = any(text.startswith("agent=") for text in arguments)
    assert (note in capsys.readouterr().out.splitlines()) == (agent == "large" and not given)
    assert choose_algorithm(chosen) == chosen


def test_a_teacher_is_trained_on_the_state_with_the_settings_that_are_not_the_students_own() -> None:
    given = ["task=push", "teacher=train", "seed=5", "points.num_points=64", "replay_samples=5000", "max_iterations=7"]
    given.append("visualizer=viser")
    of_env = ["env.episode_length_s=3", "env.history_length=2", "env.scene.points.realism.flying_pixels=0"]
    student = choose_algorithm(compose(given, of_env, ["agent.algorithm.learning_rate=1e-3"]))
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
        (["task=lift", "algorithm=distill", "runner=rl_games"], "only RSL-RL can distill. Use runner=rsl_rl, or algo"),
        (
            ["task=push", "algorithm=distill"],
            "teacher=expert: IsaacPC-Push.* has no expert; these have one: lift. Give",
        ),
        (["task=lift", "algorithm=ppo", "teacher=expert"], "teacher=expert has no effect with algorithm=ppo"),
        (["task=push", "replay_samples=5000"], "replay_samples=5000 has no effect with algorithm=ppo"),
        (["task=lift", "algorithm=distill", "init=pretrained"], "init=pretrained has no effect with algorithm=distill"),
        (["task=push", "teacher=nowhere"], "teacher=nowhere: expected latest, best, or the path"),
        (["task=push", "teacher=latest"], "teacher=latest: .*push_state holds no run with a checkpoint"),
        (
            ["task=push", "teacher=train", "algorithm=distill", "obs=state"],
            "the student would see what its teacher sees",
        ),
        (["task=lift", "init=pretrained", "runner=rl_games"], "init=pretrained with runner=rl_games: give runner=rsl_"),
        (["task=lift", "init=pretrained", "obs=depth"], "from a run with obs=points: give obs=points here"),
        (["task=lift", "init=pretrained", "robot=ur5e"], "with robot=franka, this one has robot=ur5e"),
        (["task=push", "init=nowhere"], "init=nowhere: expected latest, best, or the path"),
        (
            ["task=lift", "recurrent=gru", "runner=skrl"],
            "recurrent=gru with runner=skrl algorithm=ppo: only PPO of rsl_rl and rl",
        ),
        (["task=lift", "recurrent=lstm", "algorithm=distill"], "recurrent=lstm with runner=rsl_rl algorithm=distill"),
        (
            ["task=lift", "recurrent=gru", "init=pretrained"],
            "init=pretrained: that policy has no memory. Leave out one",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose(*arguments)


@pytest.fixture
def leave_run(folder: Path) -> Callable[..., Path]:
    """Leave the folder of a run as a training does, and return its checkpoint."""

    def train(*arguments: str) -> Path:
        env = [text for text in arguments if text.startswith("env.")]
        agent = [text for text in arguments if text.startswith("agent.")]
        settings = compose([text for text in arguments if text not in env + agent], env, agent)
        run = folder / "logs" / "rsl_rl" / "push_state" / "1"
        checkpoint = run / "checkpoints" / "model_7.pt"
        checkpoint.parent.mkdir(parents=True)
        settings.save(run / SETTINGS_NAME)
        with zipfile.ZipFile(checkpoint, "w") as archive:
            header = {"format": 1, "task": settings.task, "runner": settings.runner}
            archive.writestr("archive/header.json", json.dumps(header))
        entry: Any = {"latest": {"path": "checkpoints/model_7.pt", "iteration": 7, "success_rate": None}}
        RunRecord.create(run, settings, "push_state").update(checkpoints=entry)
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
        (["task=reach", "obs=state"], [], "comes from a run with task=IsaacPC-Reach.*, this one has task=IsaacPC-Push"),
        (["task=push", "obs=state", "robot=ur5e"], [], "with robot=ur5e, this one has robot=franka"),
        (["task=push", "obs=points"], [], "obs=points: only a policy with obs=state can teach. Train one"),
        (["task=push", "obs=state", "recurrent=gru"], [], "recurrent=gru: its student would have to know what it rem"),
        (["task=push", "obs=state"], ["env.action=joint_delta"], "acts otherwise .*no env.*env.action=joint_delta"),
        (["task=push", "obs=state", "env.tool_delta=0.01"], [], "trained with env.tool_delta=0.01, .*has none"),
    ],
)
def test_a_teacher_of_something_else_is_refused(
    leave_run: Callable[..., Path], trained: list[str], asked: list[str], message: str
) -> None:
    checkpoint = leave_run(*trained)
    with pytest.raises(ConfigError, match=message):
        choose("task=push", f"teacher={checkpoint}", *asked)


@pytest.mark.parametrize("by", ["checkpoint", "folder"])
def test_ppo_goes_on_with_the_network_of_the_student(leave_run: Callable[..., Path], by: str) -> None:
    network = ["agent.student.hidden_dims=[64]", "agent.student.distribution_cfg.init_std=0.2"]
    checkpoint = leave_run("task=lift", "algorithm=distill", *network, "agent.algorithm.turn_steps=3")
    init = {"checkpoint": checkpoint, "folder": checkpoint.parent.parent}[by]
    chosen = choose_algorithm(compose(["task=lift", f"init={init}"], [], ["agent.algorithm.gamma=0.9"]))
    assert (chosen.algorithm, chosen.learner, chosen.init) == ("ppo", "finetune", str(checkpoint))
    assert chosen.agent_overrides == ["agent.actor.hidden_dims=[64]", "agent.algorithm.gamma=0.9"]


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
        (
            ["task=reach", "algorithm=distill"],
            [],
            "comes from a run with task=IsaacPC-Reach.*, this one has task=Isaac",
        ),
        (["task=lift", "algorithm=ppo"], [], "a run with algorithm=ppo: it goes on with resume="),
        (
            ["task=lift", "algorithm=distill", "agent=large"],
            ["agent=default"],
            "with agent=large: give agent=large here, too",
        ),
        (
            ["task=lift", "algorithm=distill", "encoder=dp3"],
            ["encoder=pointnet"],
            "with encoder=dp3: give encoder=dp3 here, too",
        ),
        (["task=lift", "algorithm=distill"], ["env.tool_delta=0.01"], "init=.* acts otherwise than this run"),
    ],
)
def test_a_policy_of_something_else_is_no_beginning(
    leave_run: Callable[..., Path], trained: list[str], asked: list[str], message: str
) -> None:
    checkpoint = leave_run(*trained)
    with pytest.raises(ConfigError, match=message):
        choose("task=lift", f"init={checkpoint}", *asked)
