# SPDX-License-Identifier: BSD-3-Clause
"""Ray Tune runs the trials of a tuning, each an ordinary training run in processes of its own. Loads Ray, no torch."""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from isaaclab_pc.cluster.ray_cluster import ray_cluster
from isaaclab_pc.cluster.tuning import STOPPED_EARLY_NAME, Tuning, read_scores, read_trial
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.processes.child_process import GRACE_SECONDS, handle_signals
from isaaclab_pc.processes.process_tree import ProcessTree
from isaaclab_pc.terminal.screen import current

TRIAL_LOG = "trial.log"
"""Output of the script that trains a trial, in the run's folder."""

_STEP_SECONDS = 5.0
"""Longest time until a trial answers to Ray, with or without a new iteration [s]."""

_LOOK_SECONDS = 0.3
_REFRESH_SECONDS = 1.0

_ENVIRONMENT = {
    # The script has its own display.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Records and TensorBoard's files are the runs' own.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # A trial has no score before its first episodes end.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_FORCE_TRIAL_CLEANUP_S": str(int(2 * GRACE_SECONDS)),
}


class RunTrial(tune.Trainable):
    """Runs one trial in a Ray worker: starts the script that trains it, and reports its iterations.

    The run's folder tells where a trial goes on, so Ray needs no checkpoint of it. After a restart all of its
    iterations are reported again, so that the scheduler knows them.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Take a trial, which may have begun, or be over.

        ``config`` holds ``tuning`` (folder), ``trial`` (name of the run's folder in it), ``metric``, ``program``
        (Python's arguments, to which the run's folder is added) and ``cwd``.
        """
        self._folder = Path(config["tuning"], config["trial"])
        os.chdir(config["cwd"])
        self._metric: str = config["metric"]
        self._unreported: list[tuple[int, float | None]] = []
        self._reported = 0
        self._process: ProcessTree | None = None
        if not read_trial(self._folder, self._metric).is_over:
            command = [sys.executable, *config["program"], str(self._folder)]
            with (self._folder / TRIAL_LOG).open("ab") as log:
                # It gets SIGTERM if this worker is killed.
                self._process = ProcessTree(command, log, on_our_death=signal.SIGTERM, expendable=False)

    def step(self) -> dict[str, Any]:
        """Report the next iteration, or nothing new after a few seconds."""
        give_up = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < give_up:
            # Asked before the iterations are read: those before its end are reported before its end.
            code = 0 if self._process is None else self._process.wait(0.0)
            if not self._unreported:
                scores = read_scores(self._folder, self._metric)
                self._unreported = [entry for entry in scores if entry[0] > self._reported]
            if self._unreported:
                self._reported, score = self._unreported.pop(0)
                return _result(self._reported, score, done=False)
            if code is not None:
                trial = read_trial(self._folder, self._metric)
                if not trial.is_over:
                    # Lost with its supervisor: Ray starts the trial again, which goes on from its checkpoint.
                    raise RuntimeError(f"{self._folder}: its script ended with exit code {code}")
                return _result(trial.iterations, trial.score, done=True)
            time.sleep(_LOOK_SECONDS)
        return _result(self._reported, None, done=False)

    def cleanup(self) -> None:
        """End the run in good order: it writes a checkpoint."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(GRACE_SECONDS)
        self._process.end()


def _result(iteration: int, score: float | None, *, done: bool) -> dict[str, Any]:
    result = {"iteration": iteration, "done": done}
    return result if score is None else {**result, "score": score}


class _Progress(tune.Callback):
    """Marks the trials that the scheduler ends, and lets the user see how all stand."""

    def __init__(self, folder: Path, refresh: Callable[[], None]) -> None:
        self._folder = folder
        self._refresh = refresh
        self._next_refresh = 0.0

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        folder = self._folder / trial.config["trial"]
        if not read_trial(folder, trial.config["metric"]).is_over:
            # On a full disk the trial counts as interrupted.
            with contextlib.suppress(OSError):
                (folder / STOPPED_EARLY_NAME).touch()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        current().warn(f"trial {trial.config['trial']}: its Ray worker was lost; it goes on from its checkpoint")

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        if time.monotonic() > self._next_refresh:
            self._next_refresh = time.monotonic() + _REFRESH_SECONDS
            self._refresh()


def run_trials(
    folder: Path, tuning: Tuning, program: Sequence[str], machine: Mapping[str, int], refresh: Callable[[], None]
) -> list[str]:
    """Run the trials of a tuning's folder that have not ended, until all have, or a signal stops them.

    Args:
        folder: The tuning's folder.
        tuning: The tuning in it.
        program: Arguments of Python that train the run in a folder, which is added to them.
        machine: ``num_cpus`` and ``num_gpus`` of this machine.
        refresh: Called about once a second.

    Raises:
        ConfigError: This machine has no GPU for a trial.
    """
    share = tuning.share
    if machine["num_gpus"] < share.gpus:
        # A trial would wait forever.
        raise ConfigError(f"this machine has no GPU, and a trial of {folder} needs one: go on where there is one.")
    config = {
        "trial": tune.grid_search(list(tuning.trials)),
        "tuning": str(folder.resolve()),
        "metric": tuning.metric,
        "program": list(program),
        "cwd": str(Path.cwd()),
    }
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with ray_cluster(None, machine, _ENVIRONMENT):
        _heed_signals_as_ctrl_c()
        tuner = tune.Tuner(
            tune.with_resources(RunTrial, {"cpu": share.cpus, "gpu": share.gpus}),
            param_space=config,
            tune_config=tune.TuneConfig(
                metric="score", mode="max", scheduler=_scheduler(tuning), max_concurrent_trials=share.concurrent
            ),
            run_config=tune.RunConfig(
                # Ray's own state. Nothing of it is read again: it holds pickles, which can run code.
                name="ray",
                storage_path=str(folder.resolve()),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=tuning.max_failures),
                callbacks=[_Progress(folder, refresh)],
                verbose=0,
            ),
        )
        return [str(error) for error in tuner.fit().errors]


def _scheduler(tuning: Tuning) -> TrialScheduler:
    if tuning.tuner == "random":
        return FIFOScheduler()
    return ASHAScheduler(
        time_attr="iteration",
        # A trial that has come to its last iteration is evaluated: it is not ended there.
        max_t=max(tuning.max_iterations - 1, tuning.grace_iterations),
        grace_period=tuning.grace_iterations,
        reduction_factor=3,
        stop_last_trials=False,
    )


def _heed_signals_as_ctrl_c() -> None:
    """Let other signals end the trials as Ctrl-C does, to which Tune listens; the cluster's block restores them."""
    others = (signal.SIGTERM, signal.SIGUSR2, signal.SIGHUP)
    handle_signals(others, lambda *_: os.kill(os.getpid(), signal.SIGINT))
