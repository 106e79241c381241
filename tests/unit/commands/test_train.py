# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a run, with a fake worker behind the process boundary."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.commands import train, train_to_end
from isaaclab_pc.commands.train import main
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import STOP_SIGNALS
from isaaclab_pc.report import page
from isaaclab_pc.run import jobs
from isaaclab_pc.run import record as run_record
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from tests.waiting import wait_until

BASE = ("num_envs=8", "device=cpu")

DRIVER = """\
import sys
sys.path.insert(0, {folder!r})
from conftest import FAKE_WORKER
from isaaclab_pc.commands import train
from isaaclab_pc.run import jobs
jobs.PROGRAM = FAKE_WORKER
sys.exit(train.main(["num_envs={num_envs}", "device=cpu", "seed={seed}", "scaling.cache=ignore"]))
"""


def test_a_run_has_one_folder_with_its_settings_and_record(folder, runs, seen, record):
    assert main(["task=reach", *BASE, "env.episode_length_s=3"]) == 0
    (run,) = runs()
    assert seen(run)["argv"] == ["train", str(run.relative_to(folder) / "job.json")]
    assert not (run / "job.json").exists()
    settings = seen(run)["settings"]
    assert (settings["task"], settings["num_envs"]) == ("IsaacPC-Reach-Franka-Direct", 8)
    assert settings["env_overrides"] == ["env.episode_length_s=3"]
    chosen = (settings["algorithm"], settings["teacher"])
    assert chosen == (record(run)["algorithm"], record(run)["teacher"]) == ("distill", "expert")
    assert record(run)["status"] == "completed"
    assert sorted(path.name for path in folder.iterdir()) == ["logs"], "Hydra wrote something of its own"


def test_a_run_tells_the_settings_that_sim2real_stands_for(folder, capfd):
    assert main([*BASE, "sim2real=true", "env.history_length=2", "--json"]) == 0
    events = map(json.loads, capfd.readouterr().out.splitlines())
    (values,) = (event["values"] for event in events if "points.realism" in event.get("values", {}))
    points = {"points.realism": "mixed", "points.num_points": 128}
    assert values == {**points, "env.randomization": "hard", "env.history_length": "2"}


def test_a_teacher_that_is_trained_first_has_a_run_of_its_own(folder, runs, seen, record, capsys):
    assert main([*BASE, "teacher=train", "points.num_points=32"]) == 0
    (teacher,) = (folder / "logs" / "rsl_rl" / "reach_state").iterdir()
    (student,) = runs()
    settings = seen(teacher)["settings"]
    assert (settings["obs"], settings["algorithm"], settings["points"]["num_points"]) == ("state", "ppo", None)
    settings = seen(student)["settings"]
    assert (settings["obs"], settings["algorithm"], settings["points"]["num_points"]) == ("points", "distill", 32)
    assert settings["teacher"] == record(student)["teacher"] == str(teacher / "checkpoints" / "model_3.pt")
    assert capsys.readouterr().out.startswith("algorithm=distill teacher=train ")


@pytest.mark.parametrize("seed", [7, 12], ids=["seldom solves the task", "diverges"])
def test_without_a_good_teacher_no_student_is_trained(folder, monkeypatch, capsys, seed):
    def train_badly(run, *_):
        run.update(success=0.3)
        run.finish("completed")
        return 0

    if seed == 7:
        monkeypatch.setattr(train, "train_to_end", train_badly)
    assert main([*BASE, "teacher=train", f"seed={seed}"]) == (1 if seed == 7 else 3)
    (teacher,) = (folder / "logs" / "rsl_rl").glob("*/*")
    assert teacher.parent.name == "reach_state"
    output, error = capsys.readouterr()
    assert f"teacher={teacher.relative_to(folder)}" in output + error
    assert ("30 %" in error, "max_iterations=" in error) == (seed == 7, seed == 7)


def test_auto_tries_sizes_and_a_later_run_takes_the_answer_with_its_trials(runs, seen, record):
    arguments = ["num_envs=auto", "device=cpu", "scaling.min=8", "scaling.max=8"]
    assert main(arguments) == 0
    assert main([*arguments, "seed=7"]) == 0
    first, second = runs()
    assert (seen(first)["settings"]["num_envs"], record(first)["num_envs"]) == (8, 8)
    assert (seen(second)["settings"]["num_envs"], record(second)["num_envs"]) == (8, 8)
    assert [trial["num_envs"] for trial in record(first)["trials"]] == [8]
    # The output of the first run's trials is gone.
    assert record(second)["trials"] == [{**trial, "log": ""} for trial in record(first)["trials"]]
    date = record(second)["earlier_search"]
    assert (record(first)["earlier_search"], date[:2]) == (None, "20")
    text = (second / "report.html").read_text(encoding="utf-8")
    assert [shown for shown in (date, "by purpose", '<figure id="figure-trials">') if shown not in text] == []


@pytest.mark.parametrize(("given", "num_envs"), [([], 4), (["num_envs=auto"], 4), (["num_envs=8"], 8)])
def test_who_watches_sees_few_environments_unless_told_otherwise(
    capsys, runs, seen, record, has_visualizers, given, num_envs
):
    has_visualizers("viser")
    assert main(["device=cpu", "visualizer=viser", *given]) == 0
    (run,) = runs()
    settings = seen(run)["settings"]
    assert (settings["visualizer"], settings["num_envs"]) == ("viser", num_envs)
    assert record(run)["trials"] == []
    assert ("num_envs=4: " in capsys.readouterr().out) == (num_envs == 4)


def test_a_full_disk_leaves_no_folder_behind(folder, capsys, runs, monkeypatch):
    def refuse(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_record, "write_text_atomically", refuse)
    assert main(BASE) == 2
    assert os.strerror(errno.ENOSPC) in capsys.readouterr().err
    assert runs() == []


@pytest.mark.parametrize("num_envs", ["8", "auto"])
def test_settings_that_the_worker_refuses_leave_no_folder_behind(folder, capfd, num_envs, runs):
    assert main([f"num_envs={num_envs}", "device=cpu", "seed=2"]) == 2
    assert runs() == []
    output = capfd.readouterr()
    assert "error: " in output.out + output.err


def test_what_has_a_checkpoint_is_never_removed(folder, runs, monkeypatch):
    def supervise(record, *_):
        (record.folder / "checkpoints").mkdir()
        (record.folder / "checkpoints" / "model_3.pt").touch()
        raise ConfigError("run.json cannot be read")

    monkeypatch.setattr(train_to_end, "supervise", supervise)
    assert main(BASE) == 2
    assert (runs()[0] / "checkpoints" / "model_3.pt").exists()


@pytest.mark.parametrize(("error", "code"), [(RuntimeError("no such colour"), 0), (SystemExit(143), 75)])
def test_a_report_that_fails_or_is_stopped_leaves_a_completed_run(runs, capsys, record, monkeypatch, error, code):
    def fail(folder):
        raise error

    monkeypatch.setattr(page, "run_page", fail)
    assert main(BASE) == code
    (run,) = runs()
    assert record(run)["status"] == "completed"
    output = capsys.readouterr()
    if code == 0:
        assert "RuntimeError" in output.err
        assert f"scripts/report.py logs/rsl_rl/reach/{run.name}" in output.out


def test_a_crash_shows_the_end_of_the_log_and_is_recorded(folder, capsys, runs, record):
    assert main([*BASE, "seed=3"]) == 1
    (run,) = runs()
    assert record(run)["status"] == "failed"
    assert "RuntimeError" in record(run)["error"]
    output, error = capsys.readouterr()
    assert "RuntimeError" in error
    assert "worker.log" in error
    assert f"scripts/report.py logs/rsl_rl/reach/{run.name}" in output.splitlines()[-1]


def test_a_run_that_dies_before_its_first_checkpoint_goes_on_with_the_gpus_that_are_left(folder, monkeypatch):
    starts = []

    def start(job, folder, is_restart):
        starts.append((job.checkpoint is None, is_restart))
        command = start_command(job, folder, is_restart=is_restart)
        return command if len(starts) > 1 else [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]

    monkeypatch.setattr(train_to_end, "start_command", start)
    assert main(BASE) == 0
    assert main(["resume=latest", "max_iterations=9"]) == 0
    assert starts == [(True, False), (True, True), (False, False)]


KILLED_AFTER_A_SIGNAL = """\
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(1)
log = pathlib.Path(sys.argv[2]).with_name('worker.log')
log.write_text('torch.OutOfMemoryError: CUDA out of memory.\\n')
sys.exit(137)
"""
"""As torch elastic ends, of whose ranks one runs out of memory on the way out."""


@pytest.mark.parametrize(
    ("program", "code", "status", "shows_log"),
    [
        pytest.param("raise SystemExit(4)", 1, "failed", True, id="a crash with the code of a storm"),
        pytest.param("raise SystemExit(5)", 5, "failed", False, id="a full disk"),
        pytest.param(KILLED_AFTER_A_SIGNAL, 75, "interrupted", False, id="killed after a signal"),
    ],
)
def test_the_end_of_a_worker_is_recorded(capsys, runs, record, monkeypatch, program, code, status, shows_log):
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", program))
    assert main(BASE) == code
    data = record(runs()[0])
    assert (data["status"], data["error"] is None) == (status, status == "interrupted")
    assert ("worker.log" in capsys.readouterr().err) == shows_log


@pytest.mark.parametrize(("seed", "status", "code"), [(11, "storm", 4), (12, "failed", 3)])
def test_a_run_that_stops_by_itself_keeps_its_code_status_and_advice(capfd, runs, record, seed, status, code):
    assert main([*BASE, f"seed={seed}"]) == code
    (run,) = runs()
    advice = record(run)["error"]
    assert record(run)["status"] == status
    output = capfd.readouterr()
    assert output.err.count(f"error: {advice}\n") == 1
    assert f"resume=logs/rsl_rl/reach/{run.name}" in output.out
    assert "worker.log" not in output.err


def test_a_run_goes_on_with_harder_physics_at_its_control_rate(runs, seen, refused):
    assert main([*BASE, "seed=11", "physics.substeps=4"]) == 4
    assert main(["resume=latest", "max_iterations=9", "physics.substeps=8", "physics.position_iterations=20"]) == 4
    (run,) = runs()
    physics = seen(run)["settings"]["physics"]
    assert (physics["substeps"], physics["position_iterations"], physics["dt"]) == (8, 20, None)
    assert main(["resume=latest", "max_iterations=9", "physics.dt=0.005", "physics.decimation=8"]) == 4
    physics = seen(run)["settings"]["physics"]
    assert (physics["dt"], physics["decimation"], physics["substeps"]) == (0.005, 8, 8)
    assert RunSettings.load(run / "config.yaml").physics.model_dump() == physics

    refused(train, ["resume=latest", "max_iterations=9", "physics.dt=0.002"], "physics.dt physics.decimation")


def test_several_values_are_several_runs_and_children_see_one_each(folder, runs, seen):
    assert main(["-m", *BASE, "seed=5,6", "env.a=1,2"]) == 0
    all_settings = [seen(run)["settings"] for run in runs()]
    combinations = sorted((settings["seed"], settings["env_overrides"][0]) for settings in all_settings)
    assert combinations == [(5, "env.a=1"), (5, "env.a=2"), (6, "env.a=1"), (6, "env.a=2")]
    assert sorted(path.name for path in folder.iterdir()) == ["logs"], "Hydra wrote something of its own"


@pytest.mark.parametrize("num_envs", [8, "auto"], ids=["training", "search"])
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_stops_a_run_with_a_checkpoint_and_leaves_no_child(folder, runs, record, number, num_envs):
    driver = DRIVER.format(folder=str(Path(__file__).parent), num_envs=num_envs, seed=1)
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until((folder / "waiting").exists, alive=process)
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(number)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 75
    assert family
    assert psutil.wait_procs(family, timeout=5)[1] == []
    (run,) = runs()
    assert record(run)["status"] == "interrupted"
    assert f"scripts/report.py {run.relative_to(folder)}" in output.splitlines()[-1]
    assert not (run / "report.html").exists(), "whoever stops a run waits for its checkpoint alone"
    if num_envs == 8:
        assert len(family) == 1
        assert (run / "checkpoints" / "model_3.pt").is_file()
        shown = output.splitlines()
        assert [line.partition(" ")[0] for line in shown[:3]] == ["algorithm=distill", "building", "training"]
        assert any(line.startswith(f"resume={run.relative_to(folder)} ") for line in shown)


def test_a_run_in_a_bare_environment_optimized_through_a_link_and_below_an_odd_path(folder, tmp_path_factory):
    here = Path(__file__)
    checkout = tmp_path_factory.mktemp("linked") / "check out"
    checkout.symlink_to(here.parents[3], target_is_directory=True)
    odd = folder / "a b='ü\"$(c);{d}"
    odd.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "XDG_CACHE_HOME", "WARP_CACHE_PATH")}
    driver = DRIVER.format(folder=str(checkout / here.parent.relative_to(here.parents[3])), num_envs=8, seed=42)

    done = subprocess.run(
        [sys.executable, "-O", "-c", driver],
        cwd=odd,
        env={**kept, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(checkout)},
        umask=0o077,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = (odd / "logs" / "rsl_rl" / "reach").iterdir()
    assert RunRecord.load(run).data.status == "completed"
    assert (run / "report.html").is_file()
    assert {path.stat().st_mode & 0o077 for path in odd.rglob("*")} == {0}
