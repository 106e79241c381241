# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/tune.py`` up to its first trial: what is refused, and what each trial gets."""

import io
import json
import subprocess
import sys

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster import ray_tune
from isaaclab_pc.cluster.tuning import TrialShare, Tuning
from isaaclab_pc.commands import tune
from isaaclab_pc.commands.tune_results import report, tuning_display
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit import FitResult
from isaaclab_pc.run import jobs
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Lines, use

BASE = ("task=reach", "device=cpu", "algorithm=ppo", "num_envs=8")
RATE = "agent.algorithm.learning_rate=1e-3,1e-4"


CHECK = "import json, pathlib, sys; job = json.load(open(sys.argv[2])); pathlib.Path(job['result']).write_text('[90]')"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Let nothing start, and return what would."""
    monkeypatch.chdir(tmp_path)
    calls = []
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", CHECK))
    monkeypatch.setattr(ray_tune, "run_trials", lambda *arguments: calls.append(arguments) or [])
    monkeypatch.setattr(
        tune,
        "find_num_envs",
        lambda run, *_: (
            calls.append(run)
            or FitResult(48 if run.num_envs == "auto" else run.num_envs, (), "", {"physics.contacts": 100})
        ),
    )
    return calls


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "agent.algorithm.learning_rate=tag(log,interval(1e-5,1e-3))"),
        (["tasks=reach,lift"], "tasks"),
        (["task=reach,lift"], "task=reach,lift"),
        (["supervise.max_restarts=1,2"], "supervise.max_restarts=1,2"),
        (["physics.dt=interval(0.001,0.5)"], "physics.dt=0.5 1e-05 0.1 s."),
        (["points.num_points=64,0"], "points.num_points=0"),
        (["seed=1,1000"], "eval.seed=1000"),
        (["seed=1,2", "seed=3"], "seed twice"),
        (["supervise.enabled=false", RATE], "supervise.enabled"),
        (["teacher=train", "algorithm=distill", RATE], "teacher=train obs=state"),
        (["grace_iterations=91", RATE], "grace_iterations=91 90"),
        (["resume=nowhere"], "resume=nowhere"),
        (["resume=.", "samples=3"], "samples: resume alone"),
        (["resume=.", RATE], "agent.algorithm.learning_rate: resume alone"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_starts(started, tmp_path, refused, arguments, words):
    base = () if arguments and arguments[0].startswith("resume=") else ("task=reach", "device=cpu", "algorithm=ppo")
    taken = {argument.partition("=")[0] for argument in arguments}
    refused(tune, [*(text for text in base if text.partition("=")[0] not in taken), *arguments], words)
    assert started == []
    assert list(tmp_path.iterdir()) == []


def test_ray_is_not_loaded_before_trials_start():
    code = "import sys; from isaaclab_pc.commands import tune; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_ray_the_command_that_installs_it_is_named(started, monkeypatch, refused):
    monkeypatch.setattr(tune, "is_installed", lambda module: module != "ray")
    refused(tune, [*BASE, RATE], "pip install 'isaaclab_pc[cluster]'")


def test_trials_are_runs_whose_settings_are_written_before_the_first_one_starts(started, tmp_path, capsys):
    assert tune.main([*BASE, RATE, "points.num_points=64,128", "samples=3", "concurrent=1"]) == 75
    folder, tuning = started[0][:2]
    assert Tuning.load(folder) == tuning
    assert tuning.fixed == ("task=reach", "device=cpu", "algorithm=ppo", "num_envs=8")
    assert (tuning.max_iterations, tuning.grace_iterations, tuning.metric) == (90, 10, "success_rate")
    assert len(tuning.trials) == 3
    for name, values in tuning.trials.items():
        settings = RunSettings.load(folder / name / "config.yaml")
        rate = values["agent.algorithm.learning_rate"]
        assert settings.agent_overrides == [f"agent.algorithm.learning_rate={rate}"]
        assert settings.points.num_points == int(values["points.num_points"])
        assert (settings.num_envs, settings.algorithm) == (8, "ppo")
    assert f"scripts/tune.py resume={folder}" in capsys.readouterr().out
    assert not (folder / "results.csv").exists(), "none has begun"

    assert tune.main([f"resume={folder}"]) == 75
    assert started[1][:2] == (folder, tuning)


def test_the_number_of_environments_is_searched_once_within_the_share_of_each(started):
    assert tune.main(["task=reach", "device=cpu", "algorithm=ppo", "seed=1,2,3", "concurrent=2"]) == 75
    run, call = started
    folder, tuning = call[:2]
    assert run.scaling.budget == 0.4, "half of the host's"
    assert {RunSettings.load(folder / name / "config.yaml").num_envs for name in tuning.trials} == {48}
    assert "num_envs=48" in tuning.fixed
    assert "physics.contacts=100" in tuning.fixed
    assert tuning.share.concurrent == 2


def test_more_at_once_than_fit_are_refused(started, monkeypatch, refused):
    def nothing_fits(*_):
        raise ConfigError("num_envs=8: 4 GiB are not enough.")

    monkeypatch.setattr(tune, "find_num_envs", nothing_fits)
    refused(tune, [*BASE, RATE, "concurrent=2"], "concurrent=2 num_envs=8 fewer")


def test_changes_of_the_trials_are_shown_and_the_results_are_decided_and_made(tmp_path, monkeypatch):
    tuning = Tuning(
        tuner="asha",
        metric="success_rate",
        max_iterations=10,
        grace_iterations=1,
        fixed=("task=reach",),
        trials={"000": {"seed": "1"}, "001": {"seed": "2"}},
        max_failures=5,
        share=TrialShare(1, 1, 0.0, 1),
    )
    stream = io.StringIO()
    with use(Lines(stream)) as screen:
        screen.begin("tune")
        refresh = tuning_display(tmp_path, tuning)
        (tmp_path / "000").mkdir()
        record = RunRecord.create(tmp_path / "000", compose(["num_envs=8", "device=cpu"]))
        record.update(status="running", completed_iterations=3)
        refresh()
        refresh()
        record.update(status="completed", completed_iterations=10, metrics={"success_rate": 0.75})
        refresh()
        report(tmp_path, tuning)

    first, last, *_ = stream.getvalue().splitlines()
    assert first == "trial 000 (seed=1) running, iteration 3  (0/2 ended)"
    assert last == "trial 000 (seed=1) completed, iteration 10, success_rate 0.75  (1/2 ended)"
    assert "the best is 000: success_rate 0.75" in stream.getvalue()
    lines = (tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "trial,seed,status,iterations,success_rate,success,seconds,env_steps,restarts"
    assert lines[1:] == ["000,1,completed,10,0.75,,0,0,0", "001,2,waiting,0,,,,,"]


def test_with_json_what_is_said_of_one_trial_is_said_once(started, capfd):
    assert tune.main(["--json", *BASE[:2], "num_envs=8", RATE, "concurrent=1"]) == 75
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    decisions = [event["text"] for event in events if event["kind"] == "decision"]
    assert len(decisions) == len(set(decisions))
    assert [event["phase"] for event in events if event["kind"] == "phase" and event["state"] == "begin"] == ["tune"]
    assert events[-1]["files"]["tuning"] == [str(started[0][0])]
