# SPDX-License-Identifier: BSD-3-Clause
"""A run that goes on, with a fake worker behind the process boundary."""

import json
import zipfile
from types import SimpleNamespace

import pytest
from filelock import FileLock

from isaaclab_pc.commands import play, resume, train
from isaaclab_pc.commands.train import main
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.run import folder as run_folder
from isaaclab_pc.settings import RunSettings

GOES_ON = ("resume=latest", "max_iterations=9")


@pytest.fixture
def kept(run):
    """Return what a refusal has to leave as it is."""
    return lambda: ((run / "config.yaml").read_bytes(), (run / "run.json").read_bytes())


def write_header(checkpoint, header):
    with zipfile.ZipFile(checkpoint, "w") as archive:
        archive.writestr("archive/header.json", json.dumps(header))


def test_resuming_goes_on_in_the_same_folder(folder, run, runs, seen, record):
    assert main(GOES_ON) == 0
    assert runs() == [run]
    checkpoint = run.relative_to(folder) / "checkpoints" / "model_3.pt"
    assert seen(run)["checkpoint"] == str(checkpoint)
    settings = seen(run)["settings"]
    assert (settings["num_envs"], settings["seed"], settings["max_iterations"]) == (8, 7, 9)
    assert settings["env_overrides"] == ["env.a=1"]
    assert record(run)["resumed"] == ["model_3.pt"]


def test_a_resumed_run_is_watched_only_when_that_is_asked_for_again(run, seen, has_visualizers):
    has_visualizers("viser")
    for given, expected in ((["visualizer=viser"], "viser"), ([], None)):
        assert main([*GOES_ON, *given]) == 0
        assert (seen(run)["settings"]["visualizer"], seen(run)["settings"]["num_envs"]) == (expected, 8)


@pytest.mark.parametrize("given", [[], ["max_iterations=3"]])
def test_a_run_that_was_stopped_in_its_last_evaluation_goes_on_with_it(run, seen, record, refused, given):
    (run / "run.json").write_text(json.dumps({**record(run), "status": "interrupted"}), encoding="utf-8")
    refused(train, [f"resume={run}", "max_iterations=2"], "model_3.pt max_iterations")
    assert main([f"resume={run}", *given]) == 0
    assert seen(run)["checkpoint"] == str(run / "checkpoints" / "model_3.pt")
    assert record(run)["status"] == "completed"
    assert main([f"resume={run}", *given]) == 2, "now it is done"


def test_a_resume_that_the_worker_refuses_changes_nothing(run, seen, kept, monkeypatch):
    before = kept()
    with monkeypatch.context() as patch:
        patch.setenv("refuses", "1")
        assert main([*GOES_ON, "physics.dt=0.005", "physics.decimation=7"]) == 2
    assert seen(run)["settings"]["physics"]["dt"] == 0.005, "the worker was asked"
    assert kept() == before
    assert not (run / "job.json").exists()

    assert main(GOES_ON) == 0
    assert RunSettings.load(run / "config.yaml").max_iterations == 9


def test_a_run_of_several_nodes_goes_on_with_all_or_with_one(run, seen, kept, refused, monkeypatch):
    stored = RunSettings.load(run / "config.yaml")
    stored.with_values({"nodes": 2, "node_rank": 0, "rendezvous": "host:29400"}).save(run / "config.yaml")
    before = kept()
    refused(train, GOES_ON, "nodes=2 nodes=1")
    refused(train, [*GOES_ON, "nodes=2", "node_rank=0"], "rendezvous")
    assert kept() == before

    # Only the command that starts the processes finds this out.
    def refuse(*_):
        raise ConfigError("nodes=1")

    with monkeypatch.context() as patch:
        patch.setattr(resume, "train_to_end", refuse)
        refused(train, [*GOES_ON, "nodes=1"], "nodes=1")
    assert kept() == before

    assert main([*GOES_ON, "nodes=1"]) == 0
    settings = seen(run)["settings"]
    assert (settings["nodes"], settings["node_rank"], settings["rendezvous"]) == (1, None, None)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"format": 1, "task": "IsaacPC-Lift-Cube-Franka-Direct"}, "task=IsaacPC-Lift-Cube-Franka-Direct"),
        ({"format": 1, "runner": "rl_games"}, "runner=rl_games runner=rsl_rl"),
        (None, "model_3.pt"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_before_a_worker_starts(run, refused, header, words):
    (run / "seen.json").unlink()
    checkpoint = run / "checkpoints" / "model_3.pt"
    checkpoint.write_bytes(b"")
    if header is not None:
        write_header(checkpoint, header)
    refused(train, GOES_ON, words)
    refused(play, [], words)
    assert not (run / "seen.json").exists()


def test_a_run_is_not_trained_twice_at_the_same_time(run):
    with FileLock(run / ".lock"):
        assert main(GOES_ON) == 2


def test_a_resume_waits_for_a_worker_that_outlives_its_script(run, monkeypatch):
    held = FileLock(run / ".worker.lock", thread_local=False)
    held.acquire()
    said = []

    def say(text):
        said.append(text)
        held.release()

    monkeypatch.setattr(run_folder, "current", lambda: SimpleNamespace(say=say))
    assert main(GOES_ON) == 0
    assert len(said) == 1


def test_an_older_checkpoint_of_a_completed_run_may_go_on(run, seen):
    older = run / "checkpoints" / "model_1.pt"
    with zipfile.ZipFile(run / "checkpoints" / "model_3.pt") as archive:
        header = json.loads(archive.read("archive/header.json"))
    write_header(older, {**header, "iteration": 1})
    assert main([f"resume={older}"]) == 0
    assert seen(run)["checkpoint"] == str(older)
