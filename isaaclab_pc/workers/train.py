# SPDX-License-Identifier: BSD-3-Clause
"""Train a run to its last iteration, then evaluate it."""

import contextlib
import math
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from isaaclab_pc.guards.step_hooks import add_step_hook
from isaaclab_pc.learners import Decision, NonFiniteError
from isaaclab_pc.num_envs.gpu import OwnMemory
from isaaclab_pc.num_envs.trial import Progress, TrainingPhase
from isaaclab_pc.processes.child_process import ExitCode, SignalFlag
from isaaclab_pc.report.films import Film, add_films
from isaaclab_pc.run.folder import LOG_NAME, PROGRESS_NAME, SETTINGS_NAME, WORKER_LOCK, locked
from isaaclab_pc.run.iteration_log import append_iteration
from isaaclab_pc.run.jobs import TrainJob
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.settings.scaling import parse_budget
from isaaclab_pc.supervise.heartbeat import Heart
from isaaclab_pc.terminal.events import Evaluated, Iterated, finite
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.viewer.film_recorder import FilmRecorder, film_of_now, sees_pictures
from isaaclab_pc.workers.checkpoint_keeper import CheckpointKeeper
from isaaclab_pc.workers.contact_watch import ContactWatch
from isaaclab_pc.workers.evaluation import evaluate, evaluate_in_between
from isaaclab_pc.workers.metric_log import MetricLog, open_metric_log
from isaaclab_pc.workers.phase_file import PhaseFile
from isaaclab_pc.workers.ranks import Order, Ranks, combine_metrics, follow
from isaaclab_pc.workers.session import Session, guard_counts, open_session, record_faults
from isaaclab_pc.workers.watchdog import EarlyStop, LearnerWatch, StormWatch, diverged


def train(job: TrainJob, folder: Path, screen: Screen) -> int:
    """Train to the run's last iteration, then evaluate; of several ranks, the job and folder of the first one count.

    Raises:
        ConfigError: The settings or the checkpoint do not fit.
        SystemExit: The run was stopped, or stopped itself.
    """
    ranks = Ranks()
    ranks.connect()
    folder = ranks.first_ranks_folder(folder)
    job = ranks.tell(job)
    settings = ranks.own_settings(job.settings)
    assert settings.num_envs != "auto"
    if not ranks.is_first:
        return _train_along(settings, job.checkpoint, ranks)
    record = RunRecord.load(folder)
    heart = Heart(folder, settings.device)

    with (
        locked(folder, WORKER_LOCK),
        open_session(settings, settings.num_envs, folder, learns=True) as session,
    ):
        if job.checkpoint is not None:
            session.runner.load(job.checkpoint, {"task": settings.task})
        # Environment and agent were built with them.
        job.settings.save(folder / SETTINGS_NAME)
        _hold_to_budget(settings, heart.gpu)
        _introduce(session, settings, record, screen, ranks.size)
        record_faults(session.env, settings, folder / "dumps")

        with SignalFlag() as flag, open_metric_log(settings, record, screen.warn) as metric_log:
            training = _Training(session, settings, record, screen, flag, heart, ranks, metric_log)
            stop = training.run()
            ranks.disconnect()
            if stop is not None:
                screen.fail(stop.message)
                record.note(harder_physics=stop.physics)
                record.finish(stop.status, stop.message)
                raise SystemExit(stop.code)
            if not flag.received:
                training.evaluate()
            heart.beat(phase="close")
            record.finish("interrupted" if flag.received else "completed")
            flag.leave()
    return ExitCode.OK


def _train_along(settings: RunSettings, checkpoint: Path | None, ranks: Ranks) -> int:
    """Train as a rank that follows the first one; write nothing into the run's folder."""
    assert settings.num_envs != "auto"
    gpu = OwnMemory(settings.device) if settings.device != "cpu" else None
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_session(settings, settings.num_envs, Path(scratch), learns=True) as session,
    ):
        if checkpoint is not None:
            session.runner.load(checkpoint, {"task": settings.task})
            ranks.draw_apart(settings.seed, session.runner.completed_iterations)
        _hold_to_budget(settings, gpu)

        # The launcher gives signals to the first one; a second SIGTERM is its way to end the others after an error.
        with SignalFlag():
            order = follow(ranks, session.runner, session.resolved.max_iterations, lambda: guard_counts(session.env))
            ranks.disconnect()
        if code := ranks.exit_code_after(order):
            raise SystemExit(code)
    return ExitCode.OK


def _hold_to_budget(settings: RunSettings, gpu: OwnMemory | None) -> None:
    """Hold the process to the GPU memory that the user gave the run; trials were held to it by their parent."""
    if gpu is not None and settings.scaling.budget is not None:
        gpu.hold_to(parse_budget(settings.scaling.budget))


def _introduce(session: Session, settings: RunSettings, record: RunRecord, screen: Screen, num_processes: int) -> None:
    resolved = session.resolved
    record.update(
        max_iterations=resolved.max_iterations,
        physics=settings.physics.backend,
        device=settings.device,
        batch=dict(vars(resolved.plan)),
        build_s=session.build_s,
    )
    each = f"{num_processes} processes with {settings.num_envs}" if num_processes > 1 else f"{settings.num_envs}"
    screen.end_phase()
    screen.say(
        f"{settings.task}: {each} environments on {settings.device}, {settings.physics.backend}, "
        f"{resolved.plan.horizon} steps per iteration, built in {session.build_s:.1f} s\n"
        f"run: {record.folder}"
    )
    for warning in session.warnings:
        screen.warn(f"warning: {warning}")


class Pace:
    """Estimates the time left from the mean duration of an iteration; the first one, which compiles, only at first."""

    def __init__(self, completed: int, maximum: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to time the iterations of a run that has completed some already, up to the last one."""
        self._maximum = maximum
        self._first = completed + 1
        self._clock = clock
        self._start = clock()

    def seconds_left(self, completed: int) -> float:
        """Return the time until the last iteration [s]; called once after each iteration, with the completed ones."""
        now = self._clock()
        elapsed = now - self._start
        if completed == self._first:
            self._start = now
        timed = max(completed - self._first, 1)
        return elapsed / timed * (self._maximum - completed)


@dataclass
class _Training:
    """The learning library's loop, and the work between its iterations."""

    session: Session
    settings: RunSettings
    record: RunRecord
    screen: Screen
    flag: SignalFlag
    heart: Heart
    ranks: Ranks
    metric_log: MetricLog

    def __post_init__(self) -> None:
        session, settings, record = self.session, self.settings, self.record
        runner = session.runner
        self._checkpoints = CheckpointKeeper(
            record, runner.save, settings.supervise.checkpoint_interval, settings.eval.best_share
        )
        self._saved_iteration = runner.completed_iterations
        self._pace = Pace(runner.completed_iterations, session.resolved.max_iterations)
        # All resumptions of the run count together.
        self._started = time.monotonic() - record.data.wall_s
        self._guard_before = dict(record.data.guard)
        plan = session.resolved.plan
        progress = Progress(TrainingPhase.BUILD, plan.minibatch_size, session.resolved.replay_samples)
        self._phases = PhaseFile(record.folder / PROGRESS_NAME, plan.horizon, progress)
        self._phases.note_chunk(runner)
        add_step_hook(session.env.unwrapped, self._phases)
        self.heart.beat(
            phase="train", iteration=runner.completed_iterations, max_iterations=session.resolved.max_iterations
        )

        self._contacts = ContactWatch(session.env, record.folder / LOG_NAME)
        self._learner = LearnerWatch(session.resolved)
        self._storm = StormWatch(session.env, session.resolved, record.folder)
        self._stop: EarlyStop | None = None
        self._pauses = False
        """Whether the library's loop was left for an evaluation, and is to be entered again."""

    def run(self) -> EarlyStop | None:
        """Train, with a checkpoint at the end, and return why it stopped early, if anything is wrong."""
        runner = self.session.runner
        try:
            # A signal may have come while the simulator started, or in an evaluation.
            while self.ranks.tell(self._next_order()) is Order.GO_ON:
                self._pauses = False
                self.screen.begin("train")
                self._phases.begin_iteration()
                runner.train(self.session.resolved.max_iterations, self._on_iteration)
                self._save_and_evaluate(runner.completed_iterations)
                if not self._pauses:
                    break
            return self._stop
        finally:
            self.screen.end_phase()

    def evaluate(self) -> None:
        """Evaluate the policy that training ended with."""
        settings = self.settings.eval
        self.screen.begin("evaluate", f"evaluating over {settings.episodes} episodes with unseen seeds")
        base = self.session.env.unwrapped
        completed = self.session.runner.completed_iterations
        recorder = None
        if sees_pictures(base):
            # Of an earlier evaluation, one of the two may be there that this one has not.
            _keep(self.record.folder, {"last": film_of_now(base, completed), "success": None, "failure": None})
            recorder = FilmRecorder(base, completed)
        result = evaluate(
            self.session.env,
            self.session.runner.act,
            settings.episodes,
            settings.seed,
            stopped=self._is_stopped,
            recorder=recorder,
            on_step=self.screen.advance,
        )
        if result is None:
            return
        if recorder is not None:
            _keep(self.record.folder, recorder.films)
        self.record.note(evaluation=result, success=result.success_rate)
        self.metric_log.evaluation(completed, result)
        self.screen.end_phase()
        self.screen.show(Evaluated(text=str(result), result=result.to_dict()))

    def _next_order(self) -> Order:
        """Return the order for all ranks, where no evaluation is due."""
        if self._stop is not None:
            return Order.GIVE_UP
        return Order.STOP if self.flag.received else Order.GO_ON

    def _on_iteration(self, completed: int, metrics: Mapping[str, float]) -> Decision:
        self._phases.begin_iteration()
        reports = self.ranks.gather((dict(metrics), guard_counts(self.session.env)))
        metrics = combine_metrics([report for report, _ in reports])
        guard = {cause: sum(counts[cause] for _, counts in reports) for cause in reports[0][1]}
        self._log_iteration(completed, metrics, guard)
        if completed == 1 and sees_pictures(self.session.env.unwrapped):
            _keep(self.record.folder, {"first": film_of_now(self.session.env.unwrapped, completed)})

        order = self._decide(completed, metrics)
        self.ranks.tell(order)
        return Decision.CONTINUE if order is Order.GO_ON else Decision.STOP

    def _log_iteration(self, completed: int, metrics: Mapping[str, float], guard: Mapping[str, int]) -> None:
        """Append the iteration to its file, and note for the next time that the record is written."""
        env_steps = completed * self.session.resolved.plan.samples_per_update * self.ranks.size
        wall_s = time.monotonic() - self._started
        append_iteration(self.record.folder, completed, env_steps, wall_s, metrics)
        self.metric_log.iteration(completed, metrics)
        self.record.note(
            completed_iterations=completed,
            env_steps=env_steps,
            wall_s=wall_s,
            device_peak_bytes=self.heart.last.device_peak,
            peak_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            metrics=dict(metrics),
            guard={cause: count + self._guard_before.get(cause, 0) for cause, count in guard.items()},
            contacts=self._contacts.usage,
        )

    def _decide(self, completed: int, metrics: Mapping[str, float]) -> Order:
        """Show the iteration, look after the run's health, write a checkpoint where one is due."""
        self._show(completed, metrics)
        self._checkpoints.add_success_rate(metrics.get("success_rate", float("nan")))
        if warning := self._contacts.check():
            self.screen.warn(f"warning: {warning}")
        self.heart.beat(phase="train", iteration=completed)

        if self.flag.received:
            self.screen.say("stopping: writing a checkpoint")
            return Order.STOP
        self._stop = self._learner.check(metrics) or self._storm.check()
        if self._stop is not None:
            return Order.GIVE_UP
        if self._checkpoints.is_due():
            if self._checkpoints.has_time_for(self._evaluation_seconds(metrics)):
                # The libraries hold the last observation, which is not that of the environments after an evaluation.
                self._pauses = True
                return Order.PAUSE
            self._save(completed)
        return Order.GO_ON if self._stop is None else Order.GIVE_UP

    def _evaluation_seconds(self, metrics: Mapping[str, float]) -> float:
        """Return the longest time for an evaluation of a checkpoint, at the pace of the last rollout [s]."""
        env = self.session.env.unwrapped
        rounds = math.ceil(self.settings.eval.best_episodes / env.num_envs)
        step_s = metrics["collect_s"] / self.session.resolved.plan.horizon
        return rounds * env.max_episode_length * step_s

    def _show(self, completed: int, metrics: Mapping[str, float]) -> None:
        data = self.record.data
        self.screen.show(
            Iterated(
                iteration=completed,
                max_iterations=self.session.resolved.max_iterations,
                eta_s=self._pace.seconds_left(completed),
                metrics=finite(metrics),
                guard={cause: count for cause, count in data.guard.items() if count},
                restarts=len(data.restarts),
            )
        )

    def _save_and_evaluate(self, completed: int) -> None:
        """Write a checkpoint outside the library's loop, and evaluate it where it may be the best of several."""
        if completed == self._saved_iteration:
            return
        self._save(completed)
        # The last checkpoint is compared, too, where another one may be better.
        is_candidate = self._pauses or self._checkpoints.has_evaluated_best()
        if not is_candidate or self._next_order() is not Order.GO_ON:
            return

        start = time.monotonic()
        self.screen.begin("evaluate")
        evaluation = evaluate_in_between(
            self.session.env,
            self.session.runner.act,
            self.settings.eval.best_episodes,
            self.settings.eval.best_seed,
            stopped=self._is_stopped,
        )
        self._storm.begin_window()
        if evaluation is not None:
            is_best = self._checkpoints.add_evaluation(evaluation, time.monotonic() - start)
            self.metric_log.evaluation(completed, evaluation)
            text = f"checkpoint {completed}: {evaluation}{', the best so far' if is_best else ''}"
            self.screen.show(Evaluated(text=text, iteration=completed, result=evaluation.to_dict()))

    def _save(self, completed: int) -> None:
        try:
            self._checkpoints.write(completed)
        except NonFiniteError as error:
            # The checkpoint before it stays the latest one.
            self._stop = diverged(self.session.resolved, str(error))
        self._saved_iteration = completed

    def _is_stopped(self) -> bool:
        """Tell an evaluation in every step whether to stop; a sign of life as well."""
        self.heart.beat(phase="evaluate")
        return bool(self.flag.received)


def _keep(folder: Path, films: Mapping[str, Film | None]) -> None:
    """Write the policy's observations for the run's report; without it the run is no worse."""
    with contextlib.suppress(OSError):
        add_films(folder, films)
