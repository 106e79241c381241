# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a run going: a training process that dies is started again from the last checkpoint."""

import contextlib
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.memory import memory_cgroups
from isaaclab_pc.num_envs.trial import Outcome, Progress, format_size
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag, run_child, was_stopped
from isaaclab_pc.run.find_checkpoint import newest_checkpoint
from isaaclab_pc.run.folder import EVENTS_NAME, LOG_NAME, wait_for_worker
from isaaclab_pc.run.jobs import JOB_NAME, TrainJob
from isaaclab_pc.run.kernel_cache import begin_build
from isaaclab_pc.run.record import RestartEntry, RunRecord
from isaaclab_pc.supervise.deaths import Death, DeathCause, classify_death
from isaaclab_pc.supervise.oom_watch import OthersWatch
from isaaclab_pc.supervise.restarts import Restart, RestartLimit, choose_restart
from isaaclab_pc.supervise.watch import WorkerWatch
from isaaclab_pc.terminal.screen import current
from isaaclab_pc.utils.files import end_of

StartCommand = Callable[[TrainJob, Path, bool], list[str]]
"""Writes a job into a run's folder, and returns the command line of the processes that train; whether it is a restart
comes last. See :func:`isaaclab_pc.cluster.start.start_command`."""

LONGEST_PAUSE = 60.0
"""Longest pause before a restart [s]; the first one without progress takes a second, each further one twice as long."""

_TAIL_BYTES = 1 << 16
"""End of the log that is searched for the cause."""


def supervise(
    record: RunRecord, job: TrainJob, start: StartCommand, clock: Callable[[], float] = time.monotonic
) -> tuple[int, Death | None]:
    """Run training processes, one after another, until the run is done or must not go on; keep its record up to date.

    ``job`` is the first one's, ``start`` gives the command line of each, ``clock`` tells the time [s].

    Returns:
        The exit code of the last one and, if it died and none followed, why.
    """
    try:
        with SignalFlag() as flag:
            return _Supervisor(record, start, flag, clock).run(job)
    finally:
        (record.folder / JOB_NAME).unlink(missing_ok=True)


@dataclass
class _Supervisor:
    _record: RunRecord
    _start: StartCommand
    _flag: SignalFlag
    _clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._limit = RestartLimit(self._clock)
        self._deaths_in_a_row = 0
        """Deaths since the last completed iteration."""
        self._died_at: float | None = None
        self._began_at = 0
        """Iterations of the checkpoint that the last process went on from."""
        self._progress: Progress | None = None
        """Last activity of the last process."""

    def run(self, job: TrainJob) -> tuple[int, Death | None]:
        """Run the first process and those that follow."""
        is_restarted = False
        while True:
            code, death = self._run_once(job, is_restarted)
            if death is None:
                if is_restarted and code == ExitCode.REFUSED:
                    # The reason stands in the terminal; the run is not one that never began.
                    return code, Death(DeathCause.ERROR, "it refused to go on after a restart")
                return code, None

            death = self._note_death(death)
            restart = self._allowed_restart(death, job) if not self._flag.received else None
            if restart is None:
                return code, death
            try:
                # A rank on another machine may outlive its launcher, and finish its iteration.
                if wait_for_worker(self._record.folder):
                    self._record.data = RunRecord.load(self._record.folder).data
                job = self._prepare(death, restart, job)
            except ConfigError as error:
                return code, Death(death.cause, f"{death.detail}; it cannot go on: {error}")
            self._flag.wait(min(2.0 ** max(self._deaths_in_a_row - 1, 0), LONGEST_PAUSE), self._clock)
            if self._flag.received:
                self._note_stop()
                return self._flag.exit_code, None
            is_restarted = True

    def _run_once(self, job: TrainJob, is_restarted: bool) -> tuple[int, Death | None]:
        """Run one process to its end; return its exit code and, if it died, why."""
        run = job.settings
        folder = self._record.folder
        log = folder / LOG_NAME
        log_size = log.stat().st_size if log.exists() else 0
        self._began_at = self._saved_iteration()

        # The memory of other machines and of several GPUs is not known here.
        others = OthersWatch(run.device) if run.ranks == 1 else None
        watch = WorkerWatch(folder, run.supervise.stall_timeout, self._on_iteration, self._clock)
        begin_build(run)
        command = self._start(job, folder, is_restarted)
        code = run_child(command, log=log, watch=watch, flag=self._flag)

        # The process writes the record while it trains.
        self._record.data = RunRecord.load(folder).data
        self._progress = watch.progress()
        status = self._record.data.status
        if self._flag.received and (was_stopped(code) or status == "interrupted"):
            self._note_stop()
            # Simulators crash while they close, and then have another code.
            return code if was_stopped(code) else self._flag.exit_code, None
        if status == "completed":
            # Simulators crash and hang while they close; there is nothing left to do.
            return ExitCode.OK, None

        death = watch.verdict or classify_death(
            code,
            end_of(log, _TAIL_BYTES, log_size).decode(errors="replace") if log.exists() else "",
            status,
            watch.recent_oom_kills(),
            may_lose_ranks=run.nodes > 1 or run.cluster is not None,
        )
        if death is None:
            return code, None
        if death.cause is DeathCause.OUT_OF_MEMORY and others is not None and (taken := others.taken()):
            detail = f"{death.detail}; other programs took {format_size(taken)} meanwhile"
            death = replace(death, detail=detail, taken_by_others=taken)
        if self._flag.received and death.cause not in (DeathCause.ERROR, DeathCause.STORM):
            # It died while it stopped. Of several ranks, the launcher reports the one that ended first.
            _say(death, "it was told to stop")
            self._note_stop()
            return self._flag.exit_code, None
        return code, death

    def _add_event(self, event: str, **facts: object) -> None:
        add_event(self._record.folder, event, **facts)

    def _saved_iteration(self) -> int:
        latest = self._record.data.checkpoints.latest
        return 0 if latest is None else latest.iteration

    def _note_stop(self) -> None:
        name = signal.Signals(self._flag.received[0]).name
        self._add_event("stopped", signal=name, iteration=self._record.data.completed_iterations)

    def _on_iteration(self, iteration: int) -> None:
        self._deaths_in_a_row = 0
        if self._died_at is not None:
            seconds = self._clock() - self._died_at
            self._died_at = None
            self._add_event("recovered", iteration=iteration, seconds=round(seconds, 1))

    def _note_death(self, death: Death) -> Death:
        """Count a death. Treat two kills without progress as out of memory."""
        self._died_at = self._clock()
        self._deaths_in_a_row += 1
        # In some containers, the kernel's count of kills for lack of memory cannot be read.
        is_counted = any(group.oom_kills() is not None for group in memory_cgroups())
        if death.cause is DeathCause.KILLED and self._deaths_in_a_row > 1 and not is_counted:
            detail = f"{death.detail}, twice without an iteration in between"
            death = Death(DeathCause.OUT_OF_MEMORY, detail)
        data = self._record.data
        facts = {"cause": death.cause.value, "detail": death.detail}
        self._add_event("died", **facts, iteration=data.completed_iterations, num_envs=data.num_envs)
        return death

    def _allowed_restart(self, death: Death, job: TrainJob) -> Restart | None:
        """Choose how the run goes on; None where it must not."""
        data = self._record.data
        allowed = job.settings.supervise
        assert data.num_envs != "auto"
        fits = [trial["num_envs"] for trial in data.trials if trial.get("outcome") == Outcome.FITS]
        restart = choose_restart(death, allowed, data.num_envs, fits, data.harder_physics, self._progress)
        # Of iterations without a checkpoint nothing is left.
        made_progress = self._saved_iteration() > self._began_at
        if restart is None or self._limit.allow(allowed.max_restarts, made_progress=made_progress):
            return restart
        self._add_event("gave up", restarts=allowed.max_restarts)
        _say(death, f"supervise.max_restarts={allowed.max_restarts} is reached")
        return None

    def _prepare(self, death: Death, restart: Restart, job: TrainJob) -> TrainJob:
        """Make the run ready to go on; return the next process's job."""
        record = self._record
        checkpoint = newest_checkpoint(record)
        settings = job.settings.with_values(restart.settings)

        died_at = record.data.completed_iterations
        num_envs = record.data.num_envs
        assert num_envs != "auto"
        iteration = record.go_on(checkpoint, num_envs=restart.settings.get("num_envs", num_envs))
        entry = RestartEntry(
            time=datetime.now().astimezone().isoformat(timespec="seconds"),
            cause=death.cause.value,
            detail=death.detail,
            iteration=died_at,
            from_iteration=iteration,
            note=restart.note,
            num_envs=num_envs,
            taken_by_others=death.taken_by_others,
        )
        record.update(restarts=[*record.data.restarts, entry])

        lost = died_at - iteration
        self._add_event("restart", from_iteration=iteration, lost_iterations=lost, note=restart.note)
        where = f"from {checkpoint.name}" if checkpoint is not None else "from the start"
        iterations = f"{lost} iteration{'' if lost == 1 else 's'}"
        change = f", with {restart.note}" if restart.note else ""
        _say(death, f"it goes on {where}, {iterations} lost{change}")
        return TrainJob(settings, checkpoint)


def add_event(folder: Path, event: str, **facts: object) -> None:
    """Append ``died``, ``restart``, ``recovered``, ``gave up`` or ``stopped`` to a run's file, with time and facts."""
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    # A full disk must not end the run; the terminal tells the same.
    with contextlib.suppress(OSError), (folder / EVENTS_NAME).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": now, "event": event, **facts}) + "\n")


def _say(death: Death, then: str) -> None:
    current().warn(f"the training process ended ({death.cause}: {death.detail}); {then}")
