# SPDX-License-Identifier: BSD-3-Clause
"""Ray Tune runs the trials of a tuning, each an ordinary training run in processes of its own. Loads Ray, no torch."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from isaaclab_pc.cluster.ray_cluster import ray_cluster
from isaaclab_pc.cluster.tuning import HISTORY_NAME, Tuning, is_over, read_history, score_of
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.child_process import GRACE_SECONDS
from isaaclab_pc.launch.run_record import RECORD_NAME, RunData, RunRecord
from isaaclab_pc.process_tree import ProcessTree
from isaaclab_pc.scaling.trial import format_size
from isaaclab_pc.terminal.screen import current

__all__ = ["TRIAL_LOG", "RunTrial", "run_trials"]

TRIAL_LOG = "trial.log"
"""Output of the script that trains a trial, in the run's folder."""

RAY_FOLDER = "ray"
"""Ray's own state, in the tuning's folder. Nothing of it is read again: it holds pickles, which can run code."""

REDUCTION_FACTOR = 3
"""``asha`` lets one of so many trials go on."""

_STEP_SECONDS = 5.0
"""Longest time until a trial answers to Ray, with or without a new iteration [s]."""

_LOOK_SECONDS = 0.3
_REFRESH_SECONDS = 1.0

_ENVIRONMENT = {
    # What there is to say of trials is said here.
    "RAY_AIR_NEW_OUTPUT": "0",
    # Records and TensorBoard's files are the runs' own.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # A trial has no score before its first episodes end.
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_FORCE_TRIAL_CLEANUP_S": str(int(2 * GRACE_SECONDS)),
}


class RunTrial(tune.Trainable):
    """Runs one trial in a Ray worker: starts the script that trains it, and reports its record.

    Ray needs no checkpoint of it. The run's folder tells where it goes on, and what it has reported before is reported
    again, so that the scheduler knows it.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Read how far the trial is.

        Args:
            config: ``tuning`` (folder), ``trial`` (name of the run's folder in it), ``metric``, ``program`` (Python's
                arguments, to which the run's folder is added) and ``cwd``.
        """
        tuning = Path(config["tuning"])
        self._folder = tuning / config["trial"]
        if not self._folder.is_dir():
            node = ray.util.get_node_ip_address()
            raise RuntimeError(f"{self._folder} is not there on {node}: all machines must see the tuning's folder.")
        os.chdir(config["cwd"])
        self._metric: str = config["metric"]
        self._program: list[str] = config["program"]
        self._process: ProcessTree | None = None

        history = read_history(tuning).get(config["trial"])
        self._is_over = is_over(self._data()) or (history is not None and history.is_over)
        self._reported = deque(history.scores if history is not None else ())
        self._seen = -1

    def step(self) -> dict[str, Any]:
        """Report the next iteration, or nothing new after a few seconds."""
        if self._reported:
            iteration, score = self._reported.popleft()
            return {"iteration": iteration, "score": score}
        if self._is_over:
            return self._result(done=True)
        if self._process is None:
            self._process = self._start()

        give_up = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < give_up:
            code = self._process.wait(_LOOK_SECONDS)
            data = self._data()
            if code is not None:
                if not is_over(data):
                    # Lost with its supervisor: Ray starts the trial again, which goes on from its checkpoint.
                    raise RuntimeError(f"{self._folder}: its script ended with exit code {code}")
                return self._result(done=True)
            if data is not None and data.completed_iterations > self._seen:
                break
        return self._result(done=False)

    def cleanup(self) -> None:
        """End the run in good order: it writes a checkpoint."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(GRACE_SECONDS)
        self._process.end()

    def _start(self) -> ProcessTree:
        with (self._folder / TRIAL_LOG).open("ab") as log:
            # It gets SIGTERM if this worker is killed.
            return ProcessTree(
                [sys.executable, *self._program, str(self._folder)],
                log,
                on_our_death=signal.SIGTERM,
                expendable=False,
            )

    def _data(self) -> RunData | None:
        return RunRecord.load(self._folder).data if (self._folder / RECORD_NAME).exists() else None

    def _result(self, *, done: bool) -> dict[str, Any]:
        data = self._data()
        result: dict[str, Any] = {"iteration": 0 if data is None else data.completed_iterations, "done": done}
        self._seen = result["iteration"]
        score = None if data is None else score_of(data, self._metric)
        return result if score is None else {**result, "score": score}


class _Recorder(tune.Callback):
    """Writes down what trials report, and lets the user see it."""

    def __init__(self, folder: Path, refresh: Callable[[], None]) -> None:
        self._path = folder / HISTORY_NAME
        self._refresh = refresh
        self._next_refresh = 0.0
        history = read_history(folder)
        self._last: dict[str, tuple[int, float | None]] = {
            name: trial.scores[-1] for name, trial in history.items() if trial.scores
        }
        self._over = {name for name, trial in history.items() if trial.is_over}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        name = trial.config["trial"]
        report = (result["iteration"], result.get("score"))
        last = self._last.get(name, (0, None))
        # What is reported again, after a restart, is known; the evaluation at the end belongs to the last iteration.
        is_new = report[0] > last[0] or (result["done"] and report != last)
        if report[1] is not None and is_new:
            self._last[name] = report
            self._write(trial=name, iteration=report[0], score=report[1])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        name = trial.config["trial"]
        if name not in self._over:
            self._over.add(name)
            self._write(trial=name, over=True)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        current().warn(f"trial {trial.config['trial']}: its Ray worker was lost; it goes on from its checkpoint")

    def on_step_end(self, iteration: int, trials: list[Any], **_: Any) -> None:
        if time.monotonic() > self._next_refresh:
            self._next_refresh = time.monotonic() + _REFRESH_SECONDS
            self._refresh()

    def _write(self, **entry: object) -> None:
        # On a full disk, trials that have ended are told by their own records.
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def run_trials(
    folder: Path,
    tuning: Tuning,
    program: Sequence[str],
    address: str | None,
    machine: Mapping[str, int],
    refresh: Callable[[], None],
) -> list[str]:
    """Run the trials that have not ended, until all have, or a signal stops them.

    Args:
        folder: The tuning's folder, with a folder for each trial in which its settings are.
        tuning: What is tried.
        program: Arguments of Python that train the run in a folder, which is added to them.
        address: A running cluster; None: one is started on this machine, and ended.
        machine: ``num_cpus``, ``num_gpus`` and ``_memory`` [bytes] of that cluster.
        refresh: Called about once a second.

    Returns:
        The errors of trials that Ray gave up.

    Raises:
        ConfigError: There is no cluster at the address, or no machine of it has what a trial needs.
    """
    config = {
        "trial": tune.grid_search(list(tuning.trials)),
        "tuning": str(folder.resolve()),
        "metric": tuning.metric,
        "program": list(program),
        "cwd": str(Path.cwd()),
    }
    resources = {"cpu": tuning.cpus, "gpu": tuning.gpus, "memory": tuning.memory}
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with ray_cluster(address, machine, _ENVIRONMENT), _signals_as_ctrl_c():
        if address:
            _check_nodes(address, resources)
        tuner = tune.Tuner(
            tune.with_resources(RunTrial, resources),
            param_space=config,
            tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=_scheduler(tuning)),
            run_config=tune.RunConfig(
                name=RAY_FOLDER,
                storage_path=str(folder.resolve()),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=tuning.max_failures),
                callbacks=[_Recorder(folder, refresh)],
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
        reduction_factor=REDUCTION_FACTOR,
        stop_last_trials=False,
    )


def _check_nodes(address: str, resources: Mapping[str, float]) -> None:
    """Refuse a cluster where no machine has what a trial needs: the trial would wait forever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    needs = {"CPU": resources["cpu"], "GPU": resources["gpu"], "memory": resources["memory"]}
    if not any(all(node.get(name, 0) >= need for name, need in needs.items()) for node in nodes):
        raise ConfigError(
            f"address={address}: no machine there has {needs['CPU']:g} cores, {needs['GPU']:g} GPUs and "
            f"{format_size(int(needs['memory']))} of memory for a trial."
        )


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """Let other signals end the trials as Ctrl-C does, to which Tune listens."""
    numbers = (signal.SIGTERM, signal.SIGUSR2, signal.SIGHUP)
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    others = (signal.SIGINT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in (*heeded, *others)}
    for number in heeded:
        signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
