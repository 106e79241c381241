# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a cluster whose commands are faked: the batch script, submitit's job and the signals are real."""

import json
import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.cli.command_line import parse_command
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cluster import slurm
from isaaclab_pc.cluster.slurm import SubmitSettings
from isaaclab_pc.commands import train
from isaaclab_pc.errors import ConfigError
from tests.unit.cluster.fake_slurm import SMALL, Cluster, node_run
from tests.unit.supervise import fake_trainer
from tests.unit.supervise.fake_trainer import LAST

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faked = Cluster(tmp_path)
    monkeypatch.setenv("PATH", f"{faked.root}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("FAKE_SLURM", str(faked.root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(train, "run", node_run(fake_trainer.__file__))
    yield faked
    for batch in faked.processes:
        for process in [*psutil.Process(batch.pid).children(recursive=True)] if batch.poll() is None else []:
            process.kill()
        batch.kill()
        batch.wait()


# What a job does when it is told to stop


def test_a_job_that_is_warned_of_its_time_limit_is_requeued_once_and_goes_on_in_its_folder(cluster, capfd):
    batch = cluster.train_until(4)
    cluster.signal_task(signal.SIGUSR2)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711"]
    (stopped,) = cluster.runs()
    assert (stopped["status"], stopped["completed_iterations"] < LAST) == ("interrupted", True)

    run = cluster.complete()
    checkpoint = f"model_{stopped['completed_iterations']}.pt"
    assert cluster.starts() == [None, checkpoint]
    assert run["resumed"] == [checkpoint]
    assert cluster.requeued == ["4711"]


def test_a_job_that_is_preempted_is_requeued_once_however_often_it_is_told(cluster):
    assert cluster.submit("-m", "seed=1,2") == 0
    batch = cluster.start("slow", task=1)
    cluster.wait_for(4)
    cluster.signal_task(signal.SIGTERM, signal.SIGTERM, signal.SIGUSR2, signal.SIGTERM)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711_1"]
    (run,) = cluster.runs()
    assert (run["status"], run["checkpoints"]["latest"]["iteration"]) == ("interrupted", run["completed_iterations"])
    assert f"seed: {2}" in next(cluster.folder.glob("logs/rsl_rl/*/*_4711_1/config.yaml")).read_text(encoding="utf-8")


def test_a_setup_that_fails_may_still_end_the_job(cluster):
    assert cluster.submit("hydra.launcher.setup=['set -e','false']") == 0
    assert cluster.start("ok").wait(60) == 1
    assert cluster.runs() == []


STRICT_BASH = "hydra.launcher.setup=['set -euo pipefail','export FROM_SETUP=1']"


def test_a_job_that_is_told_to_stop_before_it_heeds_signals_is_requeued_whatever_its_setup_asks_of_bash(cluster):
    assert cluster.submit(STRICT_BASH) == 0
    batch = cluster.start("ok")
    cluster.signal_task(signal.SIGTERM)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711"]
    cluster.complete()


@pytest.mark.parametrize(
    ("state", "number", "code"),
    [
        # scancel signals the batch script as well; this one is so slow that it sees its run end.
        ("COMPLETING", signal.SIGTERM, 75),
        # A person wants a checkpoint, and no requeue.
        ("RUNNING", signal.SIGINT, 130),
    ],
    ids=["scancel", "sigint"],
)
def test_a_job_that_is_cancelled_writes_a_checkpoint_and_is_not_requeued(cluster, state, number, code):
    batch = cluster.train_until(4)
    (cluster.root / "state").write_text(state, encoding="utf-8")
    cluster.signal_task(number)
    assert batch.wait(60) == code, cluster.log
    assert cluster.requeued == []
    (run,) = cluster.runs()
    assert (run["status"], run["checkpoints"]["latest"] is not None) == ("interrupted", True)


@pytest.mark.parametrize(("failed_at", "checkpoint"), [(4, "model_3.pt"), (1, None)])
def test_a_job_whose_node_failed_goes_on_from_its_last_checkpoint_in_its_folder(cluster, failed_at, checkpoint):
    batch = cluster.train_until(failed_at)
    for process in [*reversed(psutil.Process(batch.pid).children(recursive=True)), batch]:
        process.kill()
    batch.wait()
    cluster.complete()
    assert cluster.starts() == [None, checkpoint]
    assert cluster.requeued == []


def test_a_job_that_was_done_when_it_was_requeued_does_nothing(cluster):
    assert cluster.submit() == 0
    cluster.complete(restarts=0)
    cluster.complete()
    assert cluster.starts() == [None]


@pytest.mark.parametrize(
    ("faults", "code", "starts"),
    [(["broken@2"], 1, [None]), (["segfault@5", "ok"], 0, [None, "model_3.pt"])],
    ids=["error", "crash"],
)
def test_an_error_and_a_crash_inside_of_the_allocation_need_no_requeue(cluster, faults, code, starts):
    assert cluster.submit() == 0
    assert cluster.start(*faults).wait(60) == code, cluster.log
    assert cluster.starts() == starts
    assert cluster.requeued == []


def test_requeues_have_an_end(cluster):
    assert cluster.submit("hydra.launcher.max_num_timeout=2") == 0
    batch = cluster.start("slow", restarts=2)
    cluster.wait_for(1)
    cluster.signal_task(signal.SIGUSR2)
    assert batch.wait(60) == 75, cluster.log
    assert cluster.requeued == []


def test_a_job_that_resumes_a_run_goes_on_from_its_newest_checkpoint_after_a_requeue(cluster):
    assert cluster.submit() == 0
    data = cluster.complete(restarts=0)
    (folder,) = cluster.folder.glob("logs/rsl_rl/*/*")
    (folder / "run.json").write_text(json.dumps({**data, "status": "interrupted", "completed_iterations": 9}))

    arguments = ["hydra/launcher=slurm", f"resume={folder.relative_to(cluster.folder)}/checkpoints/model_3.pt"]
    assert train.main([*arguments, "max_iterations=12"]) == 0
    batch = cluster.start("slow")
    cluster.until(lambda: cluster.runs()[0]["completed_iterations"] in (5, 6, 7))
    cluster.signal_task(signal.SIGUSR2)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.start("ok", restarts=1).wait(60) == 0, cluster.log
    first, second, third = cluster.starts()
    assert (first, second) == (None, "model_3.pt")
    assert third not in (None, "model_3.pt")


def test_submitits_local_executor_runs_a_preempted_job_to_its_end(cluster, capfd):
    (cluster.folder / "faults").write_text("slow\nok", encoding="utf-8")
    assert cluster.submit(launcher="submitit_local") == 0
    (controller,) = [child for child in psutil.Process().children() if "submitit.local._local" in child.cmdline()]
    cluster.wait_for(4)
    controller.terminate()
    controller.wait(60)
    (run,) = cluster.runs()
    assert (run["status"], run["completed_iterations"]) == ("completed", LAST)
    first, second = cluster.starts()
    assert (first, second is None) == (None, False)
    assert f"{controller.pid}  run: logs/rsl_rl/reach/" in capfd.readouterr().out


# What is submitted


def test_a_sweep_is_one_array_and_the_script_says_what_to_do_with_it(cluster, capfd):
    assert cluster.submit("-m", "seed=1,2", "task=reach,lift", "hydra.launcher.partition=gpu") == 0
    text = (cluster.root / "batch.sh").read_text(encoding="utf-8")
    for line in ("--array=0-3%4", "--partition=gpu", "--requeue", "--signal=USR2@120", "--time=240"):
        assert f"#SBATCH {line}\n" in text
    (folder,) = (cluster.folder / "logs/slurm").iterdir()
    assert len(list(folder.glob("4711_?_submitted.pkl"))) == 4
    out = capfd.readouterr().out
    assert f" logs/rsl_rl/lift/{folder.name}_4711_3\n" in out
    assert "--signal=INT 4711" in out
    assert f"logs: {folder}\n" in out


def test_a_dry_run_prints_what_would_be_submitted_and_needs_no_slurm(cluster, capfd, monkeypatch):
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.mem_gb=null") == 0
    submitted = (cluster.root / "batch.sh").read_text(encoding="utf-8")
    capfd.readouterr()

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    before = sorted(cluster.folder.rglob("*"))
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.mem_gb=null", "dry_run=true") == 0
    out = capfd.readouterr().out
    stamp = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
    assert stamp.sub("TIME", submitted) in stamp.sub("TIME", out)
    assert "--mem" not in submitted
    assert sorted(cluster.folder.rglob("*")) == before


def test_an_option_of_sbatch_that_is_false_or_null_is_left_out(cluster):
    given = {"requeue": "false", "comment": "null", "nice": "0", "exclusive": "true"}
    options = [f"+hydra.launcher.additional_parameters.{name}={value}" for name, value in given.items()]
    assert cluster.submit(*options) == 0
    text = (cluster.root / "batch.sh").read_text(encoding="utf-8")
    assert "--requeue" not in text
    assert "--comment" not in text
    assert "#SBATCH --nice=0\n" in text
    assert "#SBATCH --exclusive\n" in text


def test_an_image_runs_the_job_and_leaves_the_requeue_outside(cluster, capfd):
    (cluster.folder / "a b.sif").touch()
    assert cluster.submit("image=a b.sif", "dry_run=true") == 0
    out = capfd.readouterr().out
    assert re.search(rf"apptainer exec --nv '{cluster.folder}/a b\.sif' python3 -P .*submitit", out)
    assert re.search(r"^ *exec scontrol requeue", out, re.MULTILINE)
    assert cluster.submit("image=a b.sif", "dry_run=true", "hydra.launcher.gpus_per_node=null") == 0
    assert "--nv" not in capfd.readouterr().out


def test_what_latest_and_best_mean_is_settled_at_the_submission(cluster):
    assert cluster.submit() == 0
    cluster.complete(restarts=0)
    (folder,) = cluster.folder.glob("logs/rsl_rl/*/*")

    def settled(resume):
        asked = compose([f"resume={resume}", "max_iterations=20"])
        command = parse_command(["max_iterations=20"])
        return Path(str(train.check(asked, command, SubmitSettings(), True).resume))

    assert settled("latest").samefile(folder)
    assert settled(folder).samefile(folder)
    assert settled("best").samefile(folder / "checkpoints/model_9.pt")
    assert settled(folder / "checkpoints/model_3.pt").samefile(folder / "checkpoints/model_3.pt")


# What is refused


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("hydra.launcher.timeout_min=2", ""),
        ("hydra.launcher.signal_delay_s=60", ""),
        ("hydra.launcher.nodes=2", ""),
        ("hydra.launcher.array_parallelism=1.5", ""),
        ("hydra.launcher.submitit_folder=jobs_%j", ""),
        ("nodes=2", ""),
        ("gpus=4", "hydra.launcher.gpus_per_node=4"),
        ("hydra.launcher.partiton=gpu", "hydra.launcher.partiton"),
        ("image=nope.sif", ""),
        ("resume=latest", "resume"),
        ("teacher=nope algorithm=distill", "nope"),
        ("hydra.launcher.submitit_folder=/proc/nope", "/proc/nope"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_submitted(cluster, capfd, arguments, named):
    assert cluster.submit(*arguments.split()) == 2
    err = capfd.readouterr().err
    assert (named or f"{arguments}: ") in err
    assert "Traceback" not in err
    assert not (cluster.root / "batch.sh").exists()
    assert not (cluster.folder / "logs").exists()


@pytest.mark.parametrize(("name", "least"), slurm._LEAST.items())
def test_a_field_of_the_launcher_below_its_least_is_refused_by_name(name, least):
    slurm._check_least({name: least})
    slurm._check_least({"partition": "gpu"})
    for value in (least - 1, -32):
        with pytest.raises(ConfigError, match=rf"^hydra\.launcher\.{name}={value}: expected"):
            slurm._check_least({name: value})


def test_folder_with_placeholders_of_slurm(cluster, capfd, monkeypatch):
    here = cluster.folder / "run%j"
    here.mkdir()
    monkeypatch.chdir(here)
    assert cluster.submit() == 2
    assert "hydra.launcher.submitit_folder=logs/slurm" in capfd.readouterr().err
    assert list(here.iterdir()) == []

    jobs = cluster.folder / "jobs"
    assert cluster.submit(f"hydra.launcher.submitit_folder='{jobs}/%j'") == 0
    (folder,) = jobs.iterdir()
    assert (folder / "4711_submitted.pkl").exists()
    assert f"--output={folder}/%j_0_log.out" in (cluster.root / "batch.sh").read_text(encoding="utf-8")


def test_what_sbatch_says_is_one_line(cluster, capfd):
    text = "#!/bin/bash\necho 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1\n"
    (cluster.root / "bin" / "sbatch").write_text(text, encoding="utf-8")
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.partition=gpuu") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: hydra/launcher=slurm: ")
    assert line.endswith(" gpuu")
    assert list((cluster.folder / "logs/slurm").iterdir()) == []


def test_where_slurm_or_submitit_is_missing_it_is_said_in_one_line(cluster, capfd, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert cluster.submit() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "sbatch" in line
    assert "dry_run=true" in line

    monkeypatch.setattr(slurm, "installed_versions", lambda names: {})
    assert cluster.submit() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "isaaclab_pc[cluster]" in line


@pytest.mark.parametrize("argument", ["dry_run=true", "image=a.sif", "hydra/launcher=submitit_slurm"])
def test_the_plugins_own_preset_and_settings_of_jobs_without_a_cluster_are_refused(cluster, capfd, argument):
    assert train.main([*SMALL, argument]) == 2
    assert "hydra/launcher=slurm" in capfd.readouterr().err
