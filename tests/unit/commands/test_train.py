# SPDX-License-Identifier: BSD-3-Clause
"""The parent of a run, with a fake worker behind the process boundary."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.cluster.start import start_command
from isaaclab_pc.commands import train, train_to_end
from isaaclab_pc.commands.train import main
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import STOP_SIGNALS
from isaaclab_pc.report import page
from isaaclab_pc.run import algorithm, jobs
from isaaclab_pc.run import record as run_record
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings

DRIVER = """\
import sys
sys.path.insert(0, {folder!r})
from conftest import FAKE_WORKER
from isaaclab_pc.commands import train
from isaaclab_pc.run import jobs
jobs.PROGRAM = FAKE_WORKER
sys.exit(train.main(["num_envs={num_envs}", "device=cpu", "seed=1", "scaling.cache=ignore"]))
"""


def test_a_run_has_one_folder_with_its_settings_and_record(folder, runs, seen, record):
    assert main(["task=reach", "num_envs=8", "device=cpu", "env.episode_length_s=3"]) == 0
    (run,) = runs()
    assert seen(run)["argv"] == ["train", str(run.relative_to(folder) / "job.json")]
    assert not (run / "job.json").exists()
    settings = seen(run)["settings"]
    assert settings["task"] == "IsaacPC-Reach-Franka-Direct"
    assert settings["num_envs"] == 8
    assert settings["env_overrides"] == ["env.episode_length_s=3"]
    assert record(run)["status"] == "completed"
    assert sorted(path.name for path in folder.iterdir()) == ["logs"], "Hydra wrote something of its own"


def test_the_worker_is_told_what_was_chosen_and_the_record_says_it(monkeypatch, runs, seen, record):
    assert main(["task=reach", "num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    settings = seen(run)["settings"]
    chosen = (settings["algorithm"], settings["teacher"])
    assert chosen == (record(run)["algorithm"], record(run)["teacher"]) == ("distill", "expert")

    monkeypatch.setattr(algorithm, "has_expert", lambda task: False)
    assert main(["task=reach", "num_envs=8", "device=cpu"]) == 0
    assert record(runs()[1])["algorithm"] == "ppo"


def test_a_teacher_that_is_trained_first_has_a_run_of_its_own(folder, runs, seen, record, capsys):
    assert main(["num_envs=8", "device=cpu", "teacher=train", "points.num_points=32"]) == 0
    (teacher,) = (folder / "logs" / "rsl_rl" / "reach_state").iterdir()
    (student,) = runs()
    settings = seen(teacher)["settings"]
    assert (settings["obs"], settings["algorithm"], settings["points"]["num_points"]) == ("state", "ppo", None)
    settings = seen(student)["settings"]
    assert (settings["obs"], settings["algorithm"], settings["points"]["num_points"]) == ("points", "distill", 32)
    assert settings["teacher"] == record(student)["teacher"] == str(teacher / "checkpoints" / "model_3.pt")
    assert capsys.readouterr().out.startswith("algorithm=distill teacher=train (auto: a teacher is given)\nfirst the")


def test_without_its_teacher_a_student_is_not_trained(folder, capsys):
    assert main(["num_envs=8", "device=cpu", "teacher=train", "seed=12"]) == 3
    (teacher,) = (folder / "logs" / "rsl_rl").glob("*/*")
    assert teacher.parent.name == "reach_state"
    assert f"then teacher={teacher.relative_to(folder)} trains the student" in capsys.readouterr().out


def test_a_teacher_that_seldom_solves_the_task_is_not_imitated(folder, monkeypatch, capsys):
    monkeypatch.setattr(train, "train_to_end", lambda run, *_: run.update(success=0.3) or run.finish("completed") or 0)
    assert main(["num_envs=8", "device=cpu", "teacher=train"]) == 1
    assert not (folder / "logs" / "rsl_rl" / "reach").exists()
    error = capsys.readouterr().err
    assert "the teacher solves 30 % of its episodes" in error
    assert "max_iterations=<more>, then give teacher=logs/rsl_rl/reach_state/" in error


def test_auto_tries_sizes_freezes_the_answer_and_remembers_it(capsys, runs, seen, record):
    arguments = ["num_envs=auto", "device=cpu", "scaling.min=8", "scaling.max=8"]
    assert main(arguments) == 0
    (run,) = runs()
    assert seen(run)["settings"]["num_envs"] == 8
    assert record(run)["num_envs"] == 8
    assert [trial["num_envs"] for trial in record(run)["trials"]] == [8]
    assert "num_envs=8: fits" in capsys.readouterr().out
    assert main([*arguments, "seed=7"]) == 0
    assert seen(runs()[1])["settings"]["num_envs"] == 8
    assert "from an earlier search" in capsys.readouterr().out


def test_a_remembered_answer_brings_its_search_into_the_record_and_the_report(runs, record):
    arguments = ["num_envs=auto", "device=cpu", "scaling.min=8", "scaling.max=8"]
    assert main(arguments) == 0
    assert main([*arguments, "seed=7"]) == 0
    first, second = runs()
    # The output of the first run's trials is gone.
    assert record(second)["trials"] == [{**trial, "log": ""} for trial in record(first)["trials"]]
    date = record(second)["earlier_search"]
    assert (record(first)["earlier_search"], date[:2]) == (None, "20")
    text = (second / "report.html").read_text(encoding="utf-8")
    assert f"found by an earlier run, in its search of {date}" in text
    for figure in ("ledger", "trials-memory", "trials-speed"):
        assert f'<figure id="figure-{figure}">' in text, figure
    assert "found by an earlier run" not in (first / "report.html").read_text(encoding="utf-8")


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
    said = "num_envs=4: with a visualizer on, auto means 4" in capsys.readouterr().out
    assert said == (num_envs == 4)


def test_a_resumed_run_is_watched_only_when_that_is_asked_for_again(runs, seen, has_visualizers):
    has_visualizers("viser")
    assert main(["num_envs=8", "device=cpu", "visualizer=viser"]) == 0
    (run,) = runs()
    for given, expected in ((["visualizer=viser"], "viser"), ([], None)):
        assert main(["resume=latest", "max_iterations=9", *given]) == 0
        assert (seen(run)["settings"]["visualizer"], seen(run)["settings"]["num_envs"]) == (expected, 8)


def test_a_full_disk_is_said_in_one_line_and_leaves_no_folder_behind(folder, capsys, runs, monkeypatch):
    def refuse(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_record, "write_text_atomically", refuse)
    assert main(["num_envs=8", "device=cpu"]) == 2
    assert "cannot be written (No space left on device): make room, or start from" in capsys.readouterr().err
    assert runs() == []


@pytest.mark.parametrize("num_envs", ["8", "auto"])
def test_settings_that_the_worker_refuses_leave_no_folder_behind(folder, capfd, num_envs, runs):
    assert main([f"num_envs={num_envs}", "device=cpu", "seed=2"]) == 2
    assert runs() == []
    output = capfd.readouterr()
    assert "error: no such field" in output.out + output.err


def test_what_has_a_checkpoint_is_never_removed(folder, runs, monkeypatch):
    def supervise(record, *_):
        (record.folder / "checkpoints").mkdir()
        (record.folder / "checkpoints" / "model_3.pt").touch()
        raise ConfigError("run.json cannot be read")

    monkeypatch.setattr(train_to_end, "supervise", supervise)
    assert main(["num_envs=8", "device=cpu"]) == 2
    assert (runs()[0] / "checkpoints" / "model_3.pt").exists()


def test_a_report_that_fails_fails_no_run(runs, capsys, record, monkeypatch):
    def fail(folder):
        raise RuntimeError("no such colour")

    monkeypatch.setattr(page, "run_page", fail)
    assert main(["num_envs=8", "device=cpu"]) == 0
    (run,) = runs()
    assert record(run)["status"] == "completed"
    output = capsys.readouterr()
    assert "warning: no report was written (RuntimeError: no such colour)\n" in output.err
    assert f"python scripts/report.py logs/rsl_rl/reach/{run.name} writes its report\n" in output.out


def test_a_signal_during_the_report_leaves_a_completed_run(runs, record, monkeypatch):
    def stop(folder):
        raise SystemExit(128 + signal.SIGTERM)

    monkeypatch.setattr(page, "run_page", stop)
    assert main(["num_envs=8", "device=cpu"]) == 75
    (run,) = runs()
    assert record(run)["status"] == "completed"


def test_a_crash_shows_the_end_of_the_log_and_is_recorded(folder, capsys, runs, record):
    assert main(["num_envs=8", "device=cpu", "seed=3"]) == 1
    (run,) = runs()
    assert record(run)["status"] == "failed"
    assert record(run)["error"] == "error: exit code 1: RuntimeError: it broke"
    output, error = capsys.readouterr()
    assert "RuntimeError: it broke" in error
    assert "worker.log" in error
    assert output.endswith(f"python scripts/report.py logs/rsl_rl/reach/{run.name} writes its report\n")


def test_a_run_that_dies_before_its_first_checkpoint_goes_on_with_the_gpus_that_are_left(folder, monkeypatch):
    starts = []

    def start(job, folder, is_restart):
        starts.append((job.checkpoint is None, is_restart))
        command = start_command(job, folder, is_restart=is_restart)
        return command if len(starts) > 1 else [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]

    monkeypatch.setattr(train_to_end, "start_command", start)
    assert main(["num_envs=8", "device=cpu"]) == 0
    assert main(["resume=latest", "max_iterations=9"]) == 0
    assert starts == [(True, False), (True, True), (False, False)]


def test_a_process_that_dies_after_a_signal_leaves_a_run_that_can_go_on(folder, runs, record, monkeypatch):
    # As torch elastic, of whose ranks one runs out of memory on the way out.
    program = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "time.sleep(1)\n"
        "log = pathlib.Path(sys.argv[2]).with_name('worker.log')\n"
        "log.write_text('torch.OutOfMemoryError: CUDA out of memory.\\n')\n"
        "sys.exit(137)"
    )
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", program))
    assert main(["num_envs=8", "device=cpu"]) == 75
    assert (record(runs()[0])["status"], record(runs()[0])["error"]) == ("interrupted", None)


def test_a_crash_with_the_code_of_a_storm_is_a_crash(runs, record, monkeypatch):
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", "raise SystemExit(4)"))
    assert main(["num_envs=8", "device=cpu"]) == 1
    assert record(runs()[0])["status"] == "failed"


def test_a_disk_that_fills_while_training_is_recorded_where_that_is_possible(capsys, runs, record, monkeypatch):
    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable, "-c", "raise SystemExit(5)"))
    assert main(["num_envs=8", "device=cpu"]) == 5
    (run,) = runs()
    assert (record(run)["status"], record(run)["error"]) == ("failed", "the disk was full")
    assert "worker.log" not in capsys.readouterr().err


@pytest.mark.parametrize(("seed", "status", "code"), [(11, "storm", 4), (12, "failed", 3)])
def test_a_run_that_stops_by_itself_keeps_its_code_status_and_advice(capfd, runs, record, seed, status, code):
    assert main(["num_envs=8", "device=cpu", f"seed={seed}"]) == code
    (run,) = runs()
    assert (record(run)["status"], record(run)["error"]) == (status, "stopped, with advice")
    output = capfd.readouterr()
    assert output.out.count("error: stopped, with advice\n") == 1
    assert f"resume=logs/rsl_rl/reach/{run.name} goes on after iteration 3" in output.out
    assert "worker.log" not in output.err


def test_a_run_goes_on_with_harder_physics(runs, seen, record):
    assert main(["num_envs=8", "device=cpu", "seed=11", "physics.substeps=4"]) == 4
    assert main(["resume=latest", "max_iterations=9", "physics.substeps=8", "physics.position_iterations=20"]) == 4
    (run,) = runs()
    physics = seen(run)["settings"]["physics"]
    assert (physics["substeps"], physics["position_iterations"], physics["dt"]) == (8, 20, None)
    assert main(["resume=latest", "max_iterations=9", "physics.dt=0.005", "physics.decimation=8"]) == 4
    physics = seen(run)["settings"]["physics"]
    assert (physics["dt"], physics["decimation"], physics["substeps"]) == (0.005, 8, 8)
    assert RunSettings.load(run / "config.yaml").physics.model_dump() == physics


@pytest.mark.parametrize(
    ("first", "then"),
    [([], ["physics.decimation=8"]), (["physics.dt=0.01", "physics.decimation=4"], ["physics.dt=0.005"])],
)
def test_harder_physics_keeps_the_control_rate(folder, capsys, first, then):
    assert main(["num_envs=8", "device=cpu", *first]) == 0
    assert main(["resume=latest", "max_iterations=9", *then]) == 2
    assert "give both, so that the run keeps its control rate" in capsys.readouterr().err


def test_several_values_are_several_runs_and_children_see_one_each(folder, runs, seen):
    assert main(["-m", "num_envs=8", "device=cpu", "seed=5,6", "env.a=1,2"]) == 0
    all_settings = [seen(run)["settings"] for run in runs()]
    combinations = sorted((settings["seed"], settings["env_overrides"][0]) for settings in all_settings)
    assert combinations == [(5, "env.a=1"), (5, "env.a=2"), (6, "env.a=1"), (6, "env.a=2")]
    assert all("-m" not in seen(run)["argv"] for run in runs())
    assert sorted(path.name for path in folder.iterdir()) == ["logs"], "Hydra wrote something of its own"


@pytest.fixture
def start(folder):
    """Start a parent whose worker waits for a signal."""
    started = []

    def run(num_envs):
        driver = DRIVER.format(folder=str(Path(__file__).parent), num_envs=num_envs)
        process = subprocess.Popen([sys.executable, "-c", driver], cwd=folder, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


SIGNALS = pytest.mark.parametrize("number", STOP_SIGNALS)


@SIGNALS
def test_a_signal_stops_the_run_with_a_checkpoint_and_leaves_no_child(folder, start, runs, record, number):
    process = start(num_envs=8)
    assert process.stdout.readline().startswith("algorithm=")
    assert process.stdout.readline().startswith("building 8 environments")
    assert process.stdout.readline() == "training\n"
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 75
    assert len(family) == 1
    assert psutil.wait_procs(family, timeout=5)[1] == []
    (run,) = runs()
    assert record(run)["status"] == "interrupted"
    assert (run / "checkpoints" / "model_3.pt").is_file()
    assert f"resume={run.relative_to(folder)} goes on after iteration 3" in output
    assert not (run / "report.html").exists(), "whoever stops a run waits for its checkpoint alone"
    assert output.endswith(f"python scripts/report.py {run.relative_to(folder)} writes its report\n")


@SIGNALS
def test_a_signal_during_the_search_stops_it_and_leaves_no_child(folder, start, runs, record, number):
    process = start(num_envs="auto")
    deadline = time.monotonic() + 30
    while not list(folder.glob("probing")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 75
    assert family
    assert psutil.wait_procs(family, timeout=5)[1] == []
    (run,) = runs()
    assert record(run)["status"] == "interrupted"
    assert output.endswith(f"python scripts/report.py {run.relative_to(folder)} writes its report\n")


def test_a_run_in_a_bare_environment_optimized_through_a_link_and_below_an_odd_path(folder, tmp_path_factory):
    here = Path(__file__)
    checkout = tmp_path_factory.mktemp("linked") / "check out"
    checkout.symlink_to(here.parents[3], target_is_directory=True)
    odd = folder / "a b='ü\"$(c);{d}"
    odd.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "XDG_CACHE_HOME", "WARP_CACHE_PATH")}
    driver = DRIVER.format(folder=str(checkout / here.parent.relative_to(here.parents[3])), num_envs=8)
    driver = driver.replace("seed=1", "seed=42")

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
