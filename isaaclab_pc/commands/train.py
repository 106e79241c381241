# SPDX-License-Identifier: BSD-3-Clause
"""``scripts/train.py``: check, find num_envs, make the run's folder, run the worker. Loads no torch."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from filelock import FileLock, Timeout
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import ExitCode, exit_code_of, run_child, worker_command
from isaaclab_pc.launch.compose import Command, load_config, parse_command, save_config, to_config
from isaaclab_pc.launch.platform import check_isaaclab, check_runner, settle_platform
from isaaclab_pc.launch.run_record import CONFIG_NAME, RunRecord, find_checkpoint, make_run_folder
from isaaclab_pc.launch.task_names import resolve_task
from isaaclab_pc.physics.ladder import SOLVER_SETTINGS
from isaaclab_pc.runners import check_header, read_extra
from isaaclab_pc.scaling import ProbeError, ScalingSettings
from isaaclab_pc.scaling.auto_num_envs import apply_overrides, find_num_envs
from isaaclab_pc.scaling.fit import ChildCommand
from isaaclab_pc.scaling.trial import Overrides

__all__ = ["experiment_name", "main"]

LOGS = Path("logs")

MAY_CHANGE = frozenset({"task", "runner", "runner.name", "obs", "resume", "device", "max_iterations", "visualizer"})
"""Settings that may be given beside ``resume``: those that find the run, and those that do not change what it is."""

SOLVER = frozenset(f"physics.{name}" for name in SOLVER_SETTINGS)
"""Settings that may be given too: the advice after a storm."""

SIGNALLED = (ExitCode.INTERRUPTED, ExitCode.TERMINATED)

LOG_LINES = 25
"""Lines of the worker's log that are shown when it fails."""


def main(argv: Sequence[str]) -> int:
    """Train, once or, with ``-m``, once for each combination of values.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code, an :class:`~isaaclab_pc.launch.child_process.ExitCode`; of several runs, the highest.
    """

    def work() -> int:
        command = parse_command(argv)
        with tempfile.TemporaryDirectory() as scratch:
            return _run_hydra(command, scratch)

    return exit_code_of(work)


def _refuse(error: ConfigError) -> int:
    print(f"error: {error}", file=sys.stderr)
    return ExitCode.REFUSED


def _run_hydra(command: Command, scratch: str) -> int:
    codes = [0]

    def job(composed: DictConfig) -> None:
        if command.multirun:
            overrides = HydraConfig.get().overrides.task
            print(f"\n== run {HydraConfig.get().job.num}: {' '.join(overrides)}", flush=True)
        try:
            codes.append(run(to_config(composed), command))
        except ConfigError as error:
            codes.append(_refuse(error))
        if codes[-1] in SIGNALLED:
            sys.exit(codes[-1])  # Ctrl-C is for all of the runs

    # The sweeper writes its own config into its folder, for which a run has no use.
    sweep_dir = [] if "hydra.sweep.dir" in command.given else [f"hydra.sweep.dir={scratch}"]
    sys.argv = [sys.argv[0], *command.hydra_args(), *sweep_dir]
    hydra.main(version_base="1.3", config_path="pkg://isaaclab_pc.conf", config_name="train")(job)()
    return max(codes)


def run(config: dict[str, Any], command: Command) -> int:
    """Train one run.

    Args:
        config: The plain config.
        command: The command line it comes from.

    Returns:
        The exit code.

    Raises:
        ConfigError: Something in the config does not fit.
    """
    check_isaaclab()
    check_runner(config["runner"]["name"])
    if config["resume"] is not None:
        return _resume(config, command)
    settle_platform(config)
    settings = ScalingSettings(device=config["device"], **config["scaling"])
    experiment = experiment_name(config)
    folder = make_run_folder(LOGS, config["runner"]["name"], experiment)
    save_config(folder / CONFIG_NAME, config)
    record = RunRecord.create(folder, config, experiment)
    try:
        with _locked(folder):
            if config["num_envs"] == "auto":
                versions = record.data["versions"]
                result = find_num_envs(config, probe_command(config), settings, versions, record.add_trial)
                config = apply_overrides(config, {"num_envs": result.num_envs, **result.overrides})
                save_config(folder / CONFIG_NAME, config)
                record.update(num_envs=config["num_envs"], config=config)
            code = _work(record, None)
    except ConfigError:
        shutil.rmtree(folder)
        raise
    except ProbeError as error:
        record.finish("failed", error.trial.detail)
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.FAILED
    except SystemExit:
        record.finish("interrupted")
        raise
    if code == ExitCode.REFUSED:
        shutil.rmtree(folder)  # refused before the first iteration: bad input leaves nothing behind
    return code


def probe_command(config: Mapping[str, Any]) -> ChildCommand:
    """Return the function that gives the command line of a child that tries a size of a run.

    Args:
        config: The run's plain config.

    Returns:
        ``command(num_envs, result_path, overrides)``; it writes the child's config beside ``result_path``.
    """

    def command(num_envs: int, result_path: Path, overrides: Overrides) -> list[str]:
        path = result_path.with_suffix(".yaml")
        save_config(path, apply_overrides(config, overrides))
        return worker_command("probe", path, num_envs=num_envs, result=result_path)

    return command


def experiment_name(config: Mapping[str, Any]) -> str:
    """Return the name of the experiment's folder: the task, with the observations where they are not the cloud."""
    name = resolve_task(config["task"])[1]
    return name if config["obs"] == "points" else f"{name}_{config['obs']}"


def _resume(config: Mapping[str, Any], command: Command) -> int:
    """Go on with a run: same folder, same settings, from its checkpoint to its last iteration."""
    record, checkpoint = find_checkpoint(config["resume"], LOGS, config["runner"]["name"], experiment_name(config))
    stored = load_config(record.folder / CONFIG_NAME, from_older=True)
    _check_same_run(config, stored, command, record)
    for key in ("device", "max_iterations"):
        if key in command.given:
            stored[key] = config[key]
    stored["visualizer"] = config["visualizer"]  # who watched then need not watch now
    for name in SOLVER_SETTINGS:
        if f"physics.{name}" in command.given:
            stored["physics"][name] = config["physics"][name]
    settle_platform(stored)
    check_checkpoint(checkpoint, stored)
    with _locked(record.folder):
        save_config(record.folder / CONFIG_NAME, stored)
        resumed = [*record.data["resumed"], checkpoint.name]
        record.update(status="running", error=None, ended=None, harder_physics=None, config=stored, resumed=resumed)
        print(f"resuming from {checkpoint}", flush=True)
        return _work(record, checkpoint)


def check_checkpoint(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse a file that is no checkpoint or belongs to another task or library; reads its header only.

    Args:
        path: The checkpoint.
        config: The config of the run that shall use it.

    Raises:
        ConfigError: It does not fit.
    """
    check_header(read_extra(path), {"task": config["task"], "runner": config["runner"]["name"]}, path)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training the same run."""
    try:
        with FileLock(folder / ".lock", blocking=False):
            yield
    except Timeout:
        raise ConfigError(f"{folder} is being trained by another process.") from None


def _check_same_run(config: Mapping[str, Any], stored: Mapping[str, Any], command: Command, record: RunRecord) -> None:
    found = f"resume={config['resume']} is {record.folder}"
    for key in command.given & {"task", "obs", "runner"}:
        if config[key] != stored[key]:
            raise ConfigError(f"{key}: {found}, a run with {key}={_shown(stored[key])}, not {_shown(config[key])}.")
    if "num_envs" in command.given and config["num_envs"] != stored["num_envs"]:
        raise ConfigError(
            f"num_envs={config['num_envs']}: {found}, a run with num_envs={stored['num_envs']}, which stays."
        )
    others = sorted(command.given - MAY_CHANGE - SOLVER - {"num_envs"}) + command.env + command.agent
    others = [key for key in others if not key.startswith("hydra")]
    if others:
        raise ConfigError(
            f"{', '.join(others)}: a resumed run keeps its settings; only device, max_iterations, visualizer and "
            f"{', '.join(sorted(SOLVER))} may be given."
        )
    _check_control_rate(stored, command)
    last = config["max_iterations"] if "max_iterations" in command.given else record.data["max_iterations"]
    if last is not None and record.data["completed_iterations"] >= last and config["resume"] != "best":
        raise ConfigError(
            f"{found}, which has all of its {record.data['completed_iterations']} iterations: give a larger "
            "max_iterations to train on, or evaluate it with scripts/play.py."
        )


def _check_control_rate(stored: Mapping[str, Any], command: Command) -> None:
    dt, decimation = (f"physics.{name}" in command.given for name in ("dt", "decimation"))
    follows = stored["physics"]["decimation"] is None
    if (decimation and not dt) or (dt and not decimation and not follows):
        raise ConfigError("physics.dt and physics.decimation: give both, so that the run keeps its control rate.")


def _shown(value: Any) -> str:
    return value["name"] if isinstance(value, Mapping) else str(value)


def _work(record: RunRecord, checkpoint: Path | None) -> int:
    """Run the training worker and close the run's record, whatever became of the worker."""
    folder = record.folder
    code = run_child(worker_command("train", folder / CONFIG_NAME, checkpoint=checkpoint), log=folder / "worker.log")
    record.data = RunRecord.load(folder).data
    crashed = record.data["status"] == "running" and code not in SIGNALLED
    if record.data["status"] == "running":
        error = f"the worker ended with exit code {code}" if crashed else None
        record.finish("failed" if crashed else "interrupted", error)
    if code == ExitCode.OK:
        print(f"run: {folder}", flush=True)
    if code in (ExitCode.OK, ExitCode.REFUSED):
        return code
    if crashed:
        show_log(folder / "worker.log", code)
        code = ExitCode.FAILED
    if record.checkpoint("latest") is not None:
        print(f"resume={folder} goes on after iteration {record.data['completed_iterations']}", flush=True)
    return code


def show_log(path: Path, code: int) -> None:
    """Print the end of a failed worker's log, and where the rest is.

    Args:
        path: The log.
        code: The worker's exit code.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    print("\n".join(lines[-LOG_LINES:]), file=sys.stderr)
    print(f"error: the worker ended with exit code {code}; all of its output is in {path}", file=sys.stderr)
