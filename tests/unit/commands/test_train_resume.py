# SPDX-License-Identifier: BSD-3-Clause
"""A run that goes on, with a fake worker behind the process boundary."""

import json
import zipfile
from types import SimpleNamespace

import pytest
from filelock import FileLock

from isaaclab_pc.commands import play, resume
from isaaclab_pc.commands.train import main
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import folder as run_folder
from isaaclab_pc.settings import RunSettings


def test_resuming_goes_on_in_the_same_folder(folder, runs, seen, record):
    assert main(["num_envs=8", "device=cpu", "seed=7", "guard.max_abs=50"]) == 0
    assert main(["resume=latest", "max_iterations=9"]) == 0
    (run,) = runs()
    checkpoint = run.relative_to(folder) / "checkpoints" / "model_3.pt"
    assert seen(run)["checkpoint"] == str(checkpoint)
    settings = seen(run)["settings"]
    assert (settings["num_envs"], settings["seed"], settings["max_iterations"]) == (8, 7, 9)
    assert settings["guard"]["max_abs"] == 50
    assert record(run)["resumed"] == ["model_3.pt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resume=latest"], "has all of its 3 iterations"),
        (["resume=latest", "num_envs=16", "max_iterations=9"], "a run with num_envs=8, which stays"),
        (["resume=latest", "max_iterations=9", "seed=1"], "seed: a resumed run keeps its settings"),
        (["resume=latest", "max_iterations=9", "physics.contacts=9"], "physics.contacts: a resumed run keeps"),
        (["resume=latest", "max_iterations=9", "env.x=1"], "env.x=1: a resumed run keeps its settings"),
        (["resume=latest", "task=lift"], "no run with a checkpoint"),
        (["resume=RUN", "task=lift", "max_iterations=9"], "a run with task=IsaacPC-Reach-Franka-Direct"),
        (["resume=RUN", "obs=state", "max_iterations=9"], "a run with obs=points, not state"),
    ],
)
def test_what_would_make_it_another_run_is_refused(folder, capsys, arguments, message, runs):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    before = (run / "config.yaml").read_bytes(), (run / "run.json").read_bytes()
    assert main([argument.replace("RUN", str(run)) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
    assert ((run / "config.yaml").read_bytes(), (run / "run.json").read_bytes()) == before


@pytest.mark.parametrize("given", [[], ["max_iterations=3"]])
def test_a_run_that_was_stopped_in_its_last_evaluation_goes_on_with_it(runs, seen, record, given):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    (run / "run.json").write_text(json.dumps({**record(run), "status": "interrupted"}), encoding="utf-8")
    assert main([f"resume={run}", *given]) == 0
    assert seen(run)["checkpoint"] == str(run / "checkpoints" / "model_3.pt")
    assert record(run)["status"] == "completed"
    assert main([f"resume={run}", *given]) == 2, "now it is done"


def test_fewer_iterations_than_an_unfinished_run_has_are_refused(runs, record, capsys):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    (run / "run.json").write_text(json.dumps({**record(run), "status": "interrupted"}), encoding="utf-8")
    assert main([f"resume={run}", "max_iterations=2"]) == 2
    assert "has all of its 3 iterations in model_3.pt: give a larger max_iterations" in capsys.readouterr().err


def test_a_resume_that_the_worker_refuses_changes_nothing(folder, runs, seen, monkeypatch):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    before = (run / "config.yaml").read_bytes(), (run / "run.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setenv("refuses", "1")
        assert main(["resume=latest", "max_iterations=9", "physics.dt=0.005", "physics.decimation=7"]) == 2
    assert seen(run)["settings"]["physics"]["dt"] == 0.005, "the worker was asked"
    assert ((run / "config.yaml").read_bytes(), (run / "run.json").read_bytes()) == before
    assert not (run / "job.json").exists()

    assert main(["resume=latest", "max_iterations=9"]) == 0
    assert "max_iterations: 9" in (run / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "it has nodes=2. Give nodes=2 on each of them, or nodes=1"),
        (["nodes=2", "node_rank=0"], "where do they meet"),
    ],
)
def test_a_run_of_several_nodes_that_is_refused_is_left_as_it_was(folder, runs, capsys, monkeypatch, given, message):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("nodes: 1\n", "nodes: 2\n"))
    before = config.read_bytes(), (run / "run.json").read_bytes()
    assert main(["resume=latest", "max_iterations=9", *given]) == 2
    assert message in capsys.readouterr().err
    assert (config.read_bytes(), (run / "run.json").read_bytes()) == before

    # Only the command that starts the processes finds this out.
    def refuse(*_):
        raise ConfigError("no such node")

    monkeypatch.setattr(resume, "train_to_end", refuse)
    assert main(["resume=latest", "max_iterations=9", "nodes=1"]) == 2
    assert "no such node" in capsys.readouterr().err
    assert (config.read_bytes(), (run / "run.json").read_bytes()) == before


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": 1, "task": "IsaacPC-Lift-Cube-Franka-Direct"}, "has task=IsaacPC-Lift-Cube-Franka-Direct"),
        ({"format": 1, "runner": "rl_games"}, "has runner=rl_games, this run has runner=rsl_rl"),
        (None, "is not a checkpoint of isaaclab_pc"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_before_a_worker_starts(folder, capsys, runs, header, message):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    (run / "seen.json").unlink()
    checkpoint = run / "checkpoints" / "model_3.pt"
    checkpoint.write_bytes(b"")
    if header is not None:
        with zipfile.ZipFile(checkpoint, "w") as archive:
            archive.writestr("archive/header.json", json.dumps(header))
    assert main(["resume=latest", "max_iterations=9"]) == 2
    assert play.main([]) == 2
    assert capsys.readouterr().err.count(message) == 2
    assert not (run / "seen.json").exists()


def test_a_run_is_not_trained_twice_at_the_same_time(folder, runs):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    with FileLock(run / ".lock"):
        assert main(["resume=latest", "max_iterations=9"]) == 2


def test_a_resume_waits_for_a_worker_that_outlives_its_script(folder, monkeypatch, runs):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    held = FileLock(run / ".worker.lock", thread_local=False)
    held.acquire()
    said = []

    def say(text):
        said.append(text)
        held.release()

    monkeypatch.setattr(run_folder, "current", lambda: SimpleNamespace(say=say))
    assert main(["resume=latest", "max_iterations=9"]) == 0
    (waits,) = said
    assert "waiting for a worker that outlived its script" in waits


def test_an_older_checkpoint_of_a_completed_run_may_go_on(runs, seen, record):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    older = run / "checkpoints" / "model_1.pt"
    with zipfile.ZipFile(run / "checkpoints" / "model_3.pt") as archive:
        header = json.loads(archive.read("archive/header.json"))
    with zipfile.ZipFile(older, "w") as archive:
        archive.writestr("archive/header.json", json.dumps({**header, "iteration": 1}))
    assert main([f"resume={older}"]) == 0
    assert seen(run)["checkpoint"] == str(older)


def test_a_run_of_several_nodes_goes_on_with_one(runs, seen):
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    stored = RunSettings.load(run / "config.yaml")
    stored.with_values({"nodes": 2, "node_rank": 0, "rendezvous": "host:29400"}).save(run / "config.yaml")
    assert main([f"resume={run}", "nodes=1", "max_iterations=9"]) == 0
    settings = seen(run)["settings"]
    assert (settings["nodes"], settings["node_rank"], settings["rendezvous"]) == (1, None, None)


def test_a_teacher_is_not_trained_first_on_several_nodes(folder, capsys):
    assert main(["task=lift", "teacher=train", "nodes=2", "node_rank=1", "rendezvous=host", "device=cpu"]) == 2
    assert "these are two runs. Train the teacher first, with obs=state" in capsys.readouterr().err
