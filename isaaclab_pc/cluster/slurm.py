# SPDX-License-Identifier: BSD-3-Clause
"""``hydra/launcher=slurm``: runs as jobs of a SLURM cluster.

Hydra composes the runs and the launcher's settings (conf/hydra/launcher/slurm.yaml, with the names and types of
hydra-submitit-launcher), and submitit writes and submits the sbatch file. That plugin's launcher class itself is not
used: it waits for the last job, knows no container, and pickles Hydra's whole state.

A job is requeued in one place, the end of the batch script, outside of any container: where the run was stopped by a
signal and SLURM still counts the job as running, so never after scancel.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from isaaclab_pc.cli.command_line import LAUNCHER, Command
from isaaclab_pc.cli.sweep import launcher_settings, run_each
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import GRACE_SECONDS, ExitCode, exit_code_of, was_stopped
from isaaclab_pc.run.folder import make_folder, runs_folder
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.base import Expects, ScriptSettings
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.terminal.user_stream import standard_streams
from isaaclab_pc.utils.packages import installed_versions

_CLUSTERS = {"slurm": "slurm", "submitit_local": "local"}
"""Values of ``hydra/launcher`` that submit runs, and the executor of submitit for each; ``local`` tries jobs without a
cluster: all of them at once, on this machine."""

_LEAST = {"timeout_min": 1, "max_num_timeout": 0, "array_parallelism": 1}
"""Lower bounds of the launcher's fields that are computed with here; sbatch checks the others."""

_STOPPED = (ExitCode.PREEMPTED, 138, 140, 143)
"""Exit codes of a job that was told to stop; those of the signals are from before it heeds them."""

_ImagePath = Annotated[
    str, StringConstraints(min_length=1, max_length=4096, pattern=r"\S"), Expects("the path of an Apptainer image")
]


class SubmitSettings(ScriptSettings):
    """Jobs of a SLURM cluster, with hydra/launcher=slurm (docs/clusters.md)."""

    dry_run: bool = False
    """Print the sbatch file, and submit nothing."""

    image: _ImagePath | None = None
    """Run the jobs inside of this Apptainer image, which has isaaclab_pc[cluster] installed."""


Check = Callable[[RunSettings, bool], RunSettings]
"""Refuses settings that the node would refuse, which has a GPU or not; returns those to submit."""

Run = Callable[[RunSettings, Command, str, bool], int]
"""Trains; takes the settings, their command line, the name of the run's folder, and whether the job was requeued, and
returns the exit code."""


@dataclass(frozen=True)
class SlurmJob:
    """A callable that submitit pickles on the login node and calls on the node of the job."""

    run: Run
    settings: RunSettings
    command: Command
    submitted: str
    """When it was submitted, as in the names of runs."""

    def folder_name(self, job_id: str) -> str:
        """Return the name of the run's folder for a job, ``4711`` or ``4711_0``: the same after each requeue."""
        return f"{self.submitted}_{job_id}"

    def __call__(self) -> None:
        """Train, and end the process with the run's exit code unless it is done.

        While it trains, submitit's signal handlers are replaced by those of this package: they write a checkpoint and
        leave the requeue to the batch script, which goes by the exit code.
        """
        import submitit

        environment = submitit.JobEnvironment()
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")

        def work() -> int:
            current().say(f"job {environment.job_id} on {environment.hostname}, restart {restarts}")
            return self.run(self.settings, self.command, self.folder_name(environment.job_id), restarts != "0")

        # A full disk below the job's log must not change the exit code either.
        with standard_streams():
            code = exit_code_of(work)
        # SIGINT comes from a person, scancel --signal=INT, who wants a checkpoint and no requeue.
        if was_stopped(code) and code != ExitCode.INTERRUPTED:
            code = ExitCode.PREEMPTED
        if code == ExitCode.PREEMPTED and environment.cluster == "local":
            from submitit.local.local import LOCAL_REQUEUE_RETURN_CODE

            code = LOCAL_REQUEUE_RETURN_CODE
        if code != ExitCode.OK:
            sys.exit(code)


def is_submitted(command: Command) -> bool:
    """Tell whether the runs of a command line go to a cluster.

    Raises:
        ConfigError: It names the plugin's own launcher, which does not requeue jobs.
    """
    if command.launcher == "submitit_slurm":
        raise ConfigError(f"{LAUNCHER}=submitit_slurm: give {LAUNCHER}=slurm, which requeues jobs.")
    return command.launcher in _CLUSTERS and set(command.flags) <= {"--multirun"}


def submit(command: Command, options: SubmitSettings, run: Run, check: Check) -> int:
    """Check every run of a command line, and submit all of them as one job array.

    It returns once they are submitted: they need neither this process nor the terminal. ``run`` trains, on the node;
    ``check`` is called with the settings of each run. Returns 2 where any of them is refused, and none is submitted.

    Raises:
        ConfigError: The launcher's settings are refused, something is not installed, or sbatch refuses the jobs.
    """
    cluster = _CLUSTERS[str(command.launcher)]
    parameters = _parameters(command, options)
    parent = _job_folder(parameters.pop("submitit_folder"))
    on_gpu = bool(parameters.get("gpus_per_node") or parameters.get("gpus_per_task") or parameters.get("gres"))
    missing = [name for name in ("sbatch", "srun") if shutil.which(name) is None]
    if missing and not options.dry_run and cluster == "slurm":
        raise ConfigError(
            f"{LAUNCHER}=slurm: there is no {' and no '.join(missing)} here; start from a login node of the cluster. "
            "dry_run=true shows what would be submitted."
        )

    checked: list[RunSettings] = []

    def keep(settings: RunSettings) -> int:
        _check_share(settings, parameters)
        checked.append(check(settings, on_gpu))
        return ExitCode.OK

    others = [text for text in command.settings if not text.lstrip("+~").startswith((LAUNCHER, "hydra.launcher"))]
    code = run_each(replace(command, settings=others), keep)
    if code != ExitCode.OK:
        print("error: nothing was submitted", file=sys.stderr)
        return code

    if options.dry_run:
        folder = parent / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        _show(_executor(cluster, folder, parameters, options.image, on_gpu), len(checked))
        return ExitCode.OK

    folder = make_folder(parent)
    jobs = [SlurmJob(run, settings, command, folder.name) for settings in checked]
    try:
        # submitit prints the message of sbatch, and raises it.
        with contextlib.redirect_stderr(io.StringIO()):
            submitted = _executor(cluster, folder, parameters, options.image, on_gpu).submit_array(jobs)
    except Exception as error:
        shutil.rmtree(folder)
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ConfigError(f"hydra/launcher={command.launcher}: nothing was submitted: {said}") from None
    _tell(jobs, [job.job_id for job in submitted], folder, cluster)
    return ExitCode.OK


def _parameters(command: Command, options: SubmitSettings) -> dict[str, Any]:
    """Compose and check the launcher's settings; those that are null are left out."""
    if not installed_versions(["hydra-submitit-launcher"]):
        raise ConfigError(f"{LAUNCHER}={command.launcher} needs submitit: pip install 'isaaclab_pc[cluster]'.")

    named = replace(command, settings=["hydra.job.name=isaaclab_pc", *command.settings])
    parameters = {name: value for name, value in launcher_settings(named).items() if value is not None}
    del parameters["_target_"]

    _check_least(parameters)
    seconds = 60 * parameters["timeout_min"]
    warning = parameters.get("signal_delay_s", GRACE_SECONDS)
    if warning < GRACE_SECONDS:
        raise ConfigError(
            f"hydra.launcher.signal_delay_s={warning}: a run has {GRACE_SECONDS:.0f} s for its last checkpoint; give "
            "at least that."
        )
    if seconds <= warning:
        raise ConfigError(
            f"hydra.launcher.timeout_min={parameters['timeout_min']}: the job would be told to stop {warning:.0f} s "
            "before its end, and so before it begins; give more."
        )
    for name in ("nodes", "tasks_per_node"):
        if parameters.get(name, 1) != 1:
            raise ConfigError(f"hydra.launcher.{name}={parameters[name]}: a run is one process on one node; give 1.")
    if options.image is not None and not Path(options.image).exists():
        raise ConfigError(f"image={options.image}: there is no such file.")
    return parameters


def _check_least(parameters: dict[str, Any]) -> None:
    for name, least in _LEAST.items():
        if parameters.get(name, least) < least:
            raise ConfigError(f"hydra.launcher.{name}={parameters[name]}: expected a whole number of at least {least}.")


def _job_folder(text: str) -> Path:
    """Return the parent folder of all submissions."""
    folder = Path(text).expanduser().absolute()
    # submitit's own default ends in a folder for each job, /%j.
    while re.fullmatch(r"(%[jtaA]_?)+", folder.name):
        folder = folder.parent
    if "%" in str(folder):
        raise ConfigError(
            f"hydra.launcher.submitit_folder={text}: SLURM and submitit would replace %j and the like in {folder}; "
            "give the path of a folder without %."
        )
    return folder


def _check_share(settings: RunSettings, parameters: dict[str, Any]) -> None:
    if settings.nodes > 1:
        raise ConfigError(
            f"nodes={settings.nodes}: a job has one node here; docs/several-gpus.md starts several by srun."
        )
    there = parameters.get("gpus_per_node", 0)
    if settings.gpus > there > 0:
        raise ConfigError(
            f"gpus={settings.gpus}: the job will have {there}; give hydra.launcher.gpus_per_node={settings.gpus}."
        )


def _executor(cluster: str, folder: Path, parameters: dict[str, Any], image: str | None, on_gpu: bool) -> Any:
    """Make the executor of submitit, which writes the batch script."""
    import submitit

    # -P: modules that lie in the working directory are not imported.
    python = f"{shlex.quote(sys.executable)} -P"
    if image is not None:
        gpu = " --nv" if on_gpu else ""
        python = f"apptainer exec{gpu} {shlex.quote(str(Path(image).resolve()))} python3 -P"

    if cluster == "local":
        executor = submitit.LocalExecutor(folder, python=python)
        executor.update_parameters(**parameters)
        return executor

    class Slurm(submitit.SlurmExecutor):
        """Can also be made where there is no SLURM, for a dry run."""

        @classmethod
        def affinity(cls) -> int:
            return 2

    restarts = parameters.pop("max_num_timeout")
    executor = Slurm(folder, max_num_timeout=restarts, python=python)
    # SLURM restarts a job that it preempts or that loses its node, and does so in the folder of the submission.
    directives = {"requeue": True, "chdir": os.getcwd(), **parameters.pop("additional_parameters", {})}
    # After the user's `set -e` the script would end with the run, before it requeues the job; with `pipefail` it would
    # take a scontrol that grep does not read to its end for one that failed.
    setup = [*parameters.pop("setup", []), "set +e +o pipefail"]
    executor.update_parameters(
        **executor._convert_parameters(parameters),
        setup=setup,
        # submitit would write False and None as values, which sbatch refuses.
        additional_parameters={
            name: value for name, value in directives.items() if value is not False and value is not None
        },
        # Since SLURM 22.05, srun does not take this from sbatch.
        srun_args=[f"--cpus-per-task={parameters['cpus_per_task']}"] if "cpus_per_task" in parameters else [],
        teardown=_requeue_lines(restarts),
    )
    return executor


def _requeue_lines(restarts: int) -> list[str]:
    """Return the end of the batch script."""
    # scancel ends the script itself; the state is asked for where the run was faster. A second requeue, SLURM's own at
    # the end of a preemption, finds the job waiting and does nothing.
    return [
        "code=$?",
        'job="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"',
        'case "$code" in',
        f"  {'|'.join(str(int(code)) for code in _STOPPED)})",
        f'    if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {restarts} ] &&',
        '       scontrol show job --oneliner "$job" | grep -q " JobState=RUNNING "; then',
        '      exec scontrol requeue "$job"',
        "    fi ;;",
        "esac",
        'exit "$code"',
    ]


def _show(executor: Any, runs: int) -> None:
    if not hasattr(executor, "_submitit_command_str") or not executor._make_submission_file_text("", ""):
        print("dry run: submitit's local executor writes no batch script", flush=True)
        return
    if runs > 1:
        executor.parameters["map_count"] = runs
    print(f"\n{executor._make_submission_file_text(executor._submitit_command_str, '')}")

    print("# dry run: nothing was submitted", flush=True)


def _tell(jobs: Sequence[SlurmJob], ids: Sequence[str], folder: Path, cluster: str) -> None:
    """Print the jobs, their runs and logs, and how to follow and end them."""
    print(f"\nsubmitted {len(jobs)} run{'s' if len(jobs) > 1 else ''}; this script is not needed any more")
    for job, job_id in zip(jobs, ids, strict=True):
        settings = job.settings
        run = settings.resume or runs_folder(settings) / job.folder_name(job_id)
        print(f"  {job_id}  run: {run}")
    array = ids[0].partition("_")[0]
    current().made("logs", folder)
    print(f"follow:  tail -F {folder}/{ids[0]}_0_log.out")
    if cluster == "slurm":
        print(f"         squeue --jobs={array}")
        print(f"end:     scancel --signal=INT {array}    each with a checkpoint; without --signal at once", flush=True)
