# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a cluster whose commands are faked: the batch script, submitit's job and the signals are real."""

import json
import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from isaaclab_pc.cluster import slurm
from isaaclab_pc.commands import train
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.command_line import parse_command
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.settings import SubmitSettings
from tests.unit.cluster.fake_slurm import Cluster, node_run

FAKE_TRAINER = Path(__file__).with_name("fake_trainer.py")
ROOT = Path(__file__).parents[3]
LAST = 10


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faked = Cluster(tmp_path)
    monkeypatch.setenv("PATH", f"{faked.root}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("FAKE_SLURM", str(faked.root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(train, "run", node_run(str(FAKE_TRAINER)))
    yield faked
    for batch in faked.processes:
        for process in [*psutil.Process(batch.pid).children(recursive=True)] if batch.poll() is None else []:
            process.kill()
        batch.kill()
        batch.wait()


# What a job does when it is told to stop


def test_a_job_that_is_warned_of_its_time_limit_is_requeued_once_and_goes_on_in_its_folder(cluster, capfd):
    assert cluster.submit() == 0
    batch = cluster.start("slow")
    cluster.wait_for(4)
    cluster.signal_task(signal.SIGUSR2)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711"]
    (stopped,) = cluster.runs()
    assert (stopped["status"], stopped["completed_iterations"] < LAST) == ("interrupted", True)

    assert cluster.start("ok", restarts=1).wait(60) == 0, cluster.log
    (run,) = cluster.runs()
    assert (run["status"], run["completed_iterations"]) == ("completed", LAST)
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


def test_what_the_setup_asks_of_bash_does_not_keep_a_job_from_being_requeued(cluster):
    assert cluster.submit("hydra.launcher.setup=['set -euo pipefail','export FROM_SETUP=1']") == 0
    batch = cluster.start("ok")
    cluster.signal_task(signal.SIGTERM)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711"]


def test_a_setup_that_fails_may_still_end_the_job(cluster):
    assert cluster.submit("hydra.launcher.setup=['set -e','false']") == 0
    assert cluster.start("ok").wait(60) == 1
    assert cluster.runs() == []


def test_a_job_that_is_told_to_stop_before_it_heeds_signals_is_requeued(cluster):
    assert cluster.submit() == 0
    batch = cluster.start("ok")
    cluster.signal_task(signal.SIGTERM)
    assert batch.wait(60) == 0, cluster.log
    assert cluster.requeued == ["4711"]
    assert cluster.start("ok", restarts=1).wait(60) == 0
    assert [run["status"] for run in cluster.runs()] == ["completed"]


def test_scancel_requeues_nothing(cluster):
    assert cluster.submit() == 0
    batch = cluster.start("slow")
    cluster.wait_for(4)
    # It signals the batch script as well; this one is so slow that it sees its run end.
    (cluster.root / "state").write_text("COMPLETING", encoding="utf-8")
    cluster.signal_task(signal.SIGTERM)
    assert batch.wait(60) == 75, cluster.log
    assert cluster.requeued == []
    (run,) = cluster.runs()
    assert (run["status"], run["checkpoints"]["latest"] is not None) == ("interrupted", True)


def test_sigint_is_a_person_who_wants_a_checkpoint_and_no_requeue(cluster):
    assert cluster.submit() == 0
    batch = cluster.start("slow")
    cluster.wait_for(4)
    cluster.signal_task(signal.SIGINT)
    assert batch.wait(60) == 130, cluster.log
    assert cluster.requeued == []
    (run,) = cluster.runs()
    assert (run["status"], run["checkpoints"]["latest"] is not None) == ("interrupted", True)


def test_a_job_whose_node_failed_goes_on_from_its_last_checkpoint(cluster):
    assert cluster.submit() == 0
    batch = cluster.start("slow")
    cluster.wait_for(4)
    for process in [*reversed(psutil.Process(batch.pid).children(recursive=True)), batch]:
        process.kill()
    batch.wait()
    assert cluster.start("ok", restarts=1).wait(60) == 0, cluster.log
    (run,) = cluster.runs()
    assert (run["status"], run["completed_iterations"]) == ("completed", LAST)
    assert cluster.starts() == [None, "model_3.pt"]
    assert cluster.requeued == []


def test_a_job_whose_node_failed_before_the_first_checkpoint_begins_anew_in_its_folder(cluster):
    assert cluster.submit() == 0
    batch = cluster.start("slow")
    cluster.wait_for(1)
    for process in [*reversed(psutil.Process(batch.pid).children(recursive=True)), batch]:
        process.kill()
    batch.wait()
    assert cluster.start("ok", restarts=1).wait(60) == 0, cluster.log
    (run,) = cluster.runs()
    assert (run["status"], run["completed_iterations"]) == ("completed", LAST)
    assert cluster.starts() == [None, None]


def test_a_job_that_was_done_when_it_was_requeued_does_nothing(cluster):
    assert cluster.submit() == 0
    assert cluster.start("ok").wait(60) == 0, cluster.log
    assert cluster.start("ok", restarts=1).wait(60) == 0, cluster.log
    assert cluster.starts() == [None]
    assert "is done" in cluster.log


def test_what_is_wrong_with_the_run_itself_is_not_requeued(cluster):
    assert cluster.submit() == 0
    assert cluster.start("broken@2").wait(60) == 1, cluster.log
    assert cluster.requeued == []


def test_a_crash_inside_of_the_allocation_needs_no_requeue(cluster):
    assert cluster.submit() == 0
    assert cluster.start("segfault@5", "ok").wait(60) == 0, cluster.log
    assert cluster.starts() == [None, "model_3.pt"]
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
    assert cluster.start("ok").wait(60) == 0, cluster.log
    (folder,) = cluster.folder.glob("logs/rsl_rl/*/*")
    data = json.loads((folder / "run.json").read_text(encoding="utf-8"))
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
    assert re.search(rf"4711_3  run: logs/rsl_rl/lift/{folder.name}_4711_3\n", out)
    assert "scancel --signal=INT 4711" in out
    assert f"logs: {folder}\n" in out


def test_a_dry_run_prints_what_would_be_submitted_and_needs_no_slurm(cluster, capfd, monkeypatch):
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.mem_gb=null") == 0
    submitted = (cluster.root / "batch.sh").read_text(encoding="utf-8")
    capfd.readouterr()

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("SBATCH_ACCOUNT", "robots")
    before = sorted(cluster.folder.rglob("*"))
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.mem_gb=null", "dry_run=true") == 0
    out = capfd.readouterr().out
    stamp = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
    assert stamp.sub("TIME", submitted) in stamp.sub("TIME", out)
    assert "--mem" not in submitted
    assert "#   SBATCH_ACCOUNT=robots\n" in out
    assert f"#   XDG_CACHE_HOME={cluster.folder}/cache\n" in out
    assert f"shared through {cluster.folder}/cache/isaaclab_pc/profiles.json\n" in out
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
    assert f"apptainer exec --nv '{cluster.folder}/a b.sif' python3 -P -u -m submitit.core._submit" in out
    assert 'exec scontrol requeue "$job"' in out
    assert cluster.submit("image=a b.sif", "dry_run=true", "hydra.launcher.gpus_per_node=null") == 0
    assert "apptainer exec '/" in capfd.readouterr().out


def test_what_latest_and_best_mean_is_settled_at_the_submission(cluster):
    assert cluster.submit() == 0
    assert cluster.start("ok").wait(60) == 0, cluster.log
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
    ("arguments", "message"),
    [
        (["hydra.launcher.timeout_min=2"], "hydra.launcher.timeout_min=2: the job would be told to stop 120 s before"),
        (["hydra.launcher.signal_delay_s=60"], "hydra.launcher.signal_delay_s=60: a run has 90 s"),
        (["hydra.launcher.nodes=2"], "hydra.launcher.nodes=2: a run is one process"),
        (["hydra.launcher.array_parallelism=0"], "hydra.launcher.array_parallelism=0: expected"),
        (["hydra.launcher.gpus_per_node=0"], "hydra.launcher.gpus_per_node=0: expected"),
        (["hydra.launcher.array_parallelism=1.5"], "hydra.launcher.array_parallelism=1.5"),
        (["hydra.launcher.array_parallelism=null"], "hydra.launcher.array_parallelism=null"),
        (["hydra.launcher.submitit_folder=jobs_%j"], "hydra.launcher.submitit_folder=jobs_%j"),
        (["nodes=2"], "nodes=2: a job has one node here"),
        (["gpus=4"], "gpus=4: the job will have 1; give hydra.launcher.gpus_per_node=4."),
        (["hydra.launcher.partiton=gpu"], "Could not override 'hydra.launcher.partiton'"),
        (["hydra.launcher.timeout_min=soon"], "hydra.launcher.timeout_min=soon"),
        (["image=nope.sif"], "image=nope.sif: there is no such file."),
        (["dry_run=perhaps"], "dry_run=perhaps: expected true or false."),
        (["resume=latest"], "holds no run with a checkpoint"),
        (["teacher=nope", "algorithm=distill"], "nope"),
        (["hydra.launcher.submitit_folder=/proc/nope"], "/proc/nope cannot be written"),
        (["-m", "scaling.min=1,9", "scaling.max=3"], "scaling.min=9 is above scaling.max=3."),
        (["-m", "seed=1,1000"], "eval.seed=1000 is the seed of training too"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_does_not_fit_is_said_before_anything_is_submitted(cluster, capfd, arguments, message):
    assert cluster.submit(*arguments) == 2
    err = capfd.readouterr().err
    assert message in err
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


@pytest.mark.parametrize("name", ["run%j", "100%x"])
def test_a_working_folder_in_whose_name_slurm_would_put_numbers_needs_another_one_for_the_jobs(
    cluster, capfd, monkeypatch, name
):
    here = cluster.folder / name
    here.mkdir()
    monkeypatch.chdir(here)
    assert cluster.submit() == 2
    assert "hydra.launcher.submitit_folder=logs/slurm" in capfd.readouterr().err
    assert list(here.iterdir()) == []

    jobs = cluster.folder / "jobs"
    assert cluster.submit(f"hydra.launcher.submitit_folder='{jobs}'") == 0
    (folder,) = jobs.iterdir()
    assert (folder / "4711_submitted.pkl").exists()
    assert f"--output={folder}/%j_0_log.out" in (cluster.root / "batch.sh").read_text(encoding="utf-8")


def test_a_folder_for_each_job_as_submitit_has_it_is_the_folder_around_it(cluster):
    assert cluster.submit("hydra.launcher.submitit_folder='jobs/%j'") == 0
    (folder,) = (cluster.folder / "jobs").iterdir()
    assert (folder / "4711_submitted.pkl").exists()


def test_what_sbatch_says_is_one_line(cluster, capfd):
    text = "#!/bin/bash\necho 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1\n"
    (cluster.root / "bin" / "sbatch").write_text(text, encoding="utf-8")
    assert cluster.submit("-m", "seed=1,2", "hydra.launcher.partition=gpuu") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: hydra/launcher=slurm: nothing was submitted: sbatch: error: invalid partition")
    assert list((cluster.folder / "logs/slurm").iterdir()) == []


def test_where_there_is_no_slurm_it_is_said(cluster, capfd, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert cluster.submit() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "there is no sbatch and no srun here" in line


def test_where_submitit_is_not_installed_the_command_is_said(cluster, capfd, monkeypatch):
    monkeypatch.setattr(slurm.importlib.util, "find_spec", lambda name: None)
    assert cluster.submit() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line == "error: hydra/launcher=slurm needs submitit: pip install 'isaaclab_pc[cluster]'."


@pytest.mark.parametrize("argument", ["dry_run=true", "image=a.sif"])
def test_what_is_for_a_cluster_is_refused_without_one(cluster, capfd, argument):
    assert train.main([argument]) == 2
    assert capfd.readouterr().err == (
        "error: dry_run and image are for jobs of a cluster: give hydra/launcher=slurm as well.\n"
    )


def test_the_plugins_own_preset_is_refused(cluster, capfd):
    assert cluster.submit("-m", launcher="submitit_slurm") == 2
    assert "hydra/launcher=slurm" in capfd.readouterr().err
