# SPDX-License-Identifier: BSD-3-Clause
"""The child process that holds the simulator: ``python -m isaaclab_pc.workers.train train|probe|plan|play CONFIG``.

It reads one config file and nothing else. It ends with one of :class:`~isaaclab_pc.launch.child_process.ExitCode`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from isaaclab_pc.launch.child_process import SignalFlag, die_with_parent, exit_code_of
from isaaclab_pc.launch.compose import load_config
from isaaclab_pc.launch.run_record import RunRecord, WallClock
from isaaclab_pc.output_filter import LogTail, divert_output, flood_warnings, full_log
from isaaclab_pc.workers.probe import guard_counts, plan, probe

if TYPE_CHECKING:
    from isaaclab_pc.workers.session import Session
    from isaaclab_pc.workers.watchdog import Stop

__all__ = ["main"]

LOG_NAME = "worker.log"
RESULT_NAME = "result.json"


def main(argv: Sequence[str]) -> int:
    """Run one mode.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description="Internal: the scripts start it.")
    parser.add_argument("mode", choices=["train", "probe", "plan", "play"])
    parser.add_argument("config", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--num-envs", type=int)
    parser.add_argument("--result", type=Path)
    args = parser.parse_args(argv)
    die_with_parent()
    # A probe's output is kept by the scaler; otherwise what simulators print goes to a log, and the user sees progress.
    stream = sys.stdout if args.mode == "probe" else divert_output(args.config.parent / LOG_NAME)

    def work() -> int:
        if args.mode in ("probe", "plan"):
            return (probe if args.mode == "probe" else plan)(args.config, args.num_envs, args.result)
        if args.mode == "play":
            return play(args.config, args.checkpoint, stream)
        return train(args.config, args.checkpoint, stream)

    try:
        return exit_code_of(work, refuse=lambda message: stream.write(f"error: {message}\n"))
    finally:
        stream.flush()


def train(config_path: Path, checkpoint: Path | None, stream: IO[str]) -> int:
    """Train to the run's last iteration, then evaluate.

    Args:
        config_path: The run's config, in the run's folder.
        checkpoint: Where to go on; None for a new run.
        stream: What the user sees.

    Returns:
        The exit code.

    Raises:
        ConfigError: The config or the checkpoint does not fit.
    """
    from isaaclab_pc.workers.session import open_session, record_faults

    config = load_config(config_path)
    record = RunRecord.load(config_path.parent)
    with open_session(config, config["num_envs"], record.data["experiment"], record.folder) as session:
        resolved = session.resolved
        if checkpoint is not None:
            session.runner.load(checkpoint, {"task": config["task"]})
        record.update(
            max_iterations=resolved.max_iterations,
            physics=resolved.backend,
            device=resolved.device,
            batch=vars(resolved.plan),
            build_s=session.build_s,
        )
        stream.write(
            f"{config['task']}: {config['num_envs']} environments on {resolved.device}, {resolved.backend}, "
            f"{resolved.plan.horizon} steps per iteration, built in {session.build_s:.1f} s\n"
            f"run: {record.folder}\n"
        )
        stream.writelines(f"warning: {warning}\n" for warning in session.warnings)
        record_faults(session, config, record.folder / "dumps")
        with SignalFlag() as flag:
            stop = _Training(session, config, record, stream, flag).run()
            if stop is not None:
                stream.write(f"error: {stop.message}\n")
                record.update(harder_physics=stop.physics)
                record.finish(stop.status, stop.message)
                return stop.code
            if not flag.received:
                _evaluate(session, config, record, stream, flag)
            # Before the environment closes: Kit ends the process as it closes.
            record.finish("interrupted" if flag.received else "completed")
            return flag.exit_code


class _Training:
    """What happens between iterations."""

    def __init__(
        self, session: Session, config: Mapping[str, Any], record: RunRecord, stream: IO[str], flag: SignalFlag
    ) -> None:
        from isaaclab_pc.workers.checkpoint_keeper import Checkpoints
        from isaaclab_pc.workers.contact_watch import ContactWatch
        from isaaclab_pc.workers.progress import make_display
        from isaaclab_pc.workers.watchdog import LearnerWatch, StormWatch

        self._session, self._config, self._record, self._flag = session, config, record, flag
        self._checkpoints = Checkpoints(record, session.runner.save)
        self._saved = session.runner.completed_iterations
        maximum = session.resolved.max_iterations
        self._display = make_display(stream, session.runner.completed_iterations, maximum)
        self._clock = WallClock(record)
        self._output = LogTail(record.folder / LOG_NAME)
        self._contacts = ContactWatch(session.env, full_log(record.folder / LOG_NAME))
        self._learner = LearnerWatch(config)
        self._storm = StormWatch(session.env, session.resolved, config, record.folder)
        self._stop: Stop | None = None
        plan = session.resolved.plan
        self._frames = plan.samples_per_update

    def run(self) -> Stop | None:
        """Train, with a checkpoint at the end, and return why it stopped early, if anything is wrong."""
        runner = self._session.runner
        try:
            runner.train(self._session.resolved.max_iterations, self._on_iteration)
        finally:
            self._display.close()
        self._save(runner.completed_iterations)
        return self._stop

    def _on_iteration(self, completed: int, metrics: Mapping[str, float]) -> Any:
        from isaaclab_pc.runners import Decision

        self._display.iteration(completed, metrics)
        self._checkpoints.note(metrics.get("success_rate", float("nan")))
        if warning := self._contacts.look():
            self._display.message(f"warning: {warning}")
        for warning in flood_warnings(self._output.lines()):
            self._display.message(f"warning: {warning}")
        self._record.update(
            completed_iterations=completed,
            env_steps=completed * self._frames,
            wall_s=self._clock.seconds(),
            metrics=dict(metrics),
            guard=guard_counts(self._session.env),
            contacts=self._contacts.usage,
        )
        if self._flag.received:
            self._display.message("stopping: writing a checkpoint")
            return Decision.STOP
        self._stop = self._learner.look(metrics) or self._storm.look()
        if self._stop is None and self._checkpoints.due():
            self._save(completed)
        return Decision.CONTINUE if self._stop is None else Decision.STOP

    def _save(self, completed: int) -> None:
        from isaaclab_pc.runners import NonFiniteError
        from isaaclab_pc.workers.watchdog import diverged

        if completed == self._saved:
            return
        try:
            self._checkpoints.write(completed)
        except NonFiniteError as error:
            # The checkpoint before it stays the latest one.
            self._stop = diverged(self._config, str(error))
        self._saved = completed


def _evaluate(
    session: Session, config: Mapping[str, Any], record: RunRecord, stream: IO[str], flag: SignalFlag
) -> None:
    """Evaluate the policy that training ended with."""
    from isaaclab_pc.workers.evaluation import evaluate

    stream.write(f"evaluating over {config['eval']['episodes']} episodes with unseen seeds\n")
    result = evaluate(session.env, session.runner.act, stopped=lambda: bool(flag.received), **config["eval"])
    if result is not None:
        record.update(evaluation={**result.to_dict(), "seed": config["eval"]["seed"]}, success=result.success_rate)
        stream.write(f"{result}\n")


def play(config_path: Path, checkpoint: Path, stream: IO[str]) -> int:
    """Evaluate a checkpoint and write ``result.json`` beside the config.

    Args:
        config_path: The config to evaluate under.
        checkpoint: The policy.
        stream: What the user sees.

    Returns:
        The exit code.

    Raises:
        ConfigError: The config or the checkpoint does not fit.
    """
    from isaaclab_pc.workers.evaluation import evaluate
    from isaaclab_pc.workers.session import open_session

    config = load_config(config_path)
    folder = config_path.parent
    with open_session(config, config["num_envs"], "play", folder) as session:
        session.runner.load(checkpoint, {"task": config["task"]})
        with SignalFlag() as flag:
            result = evaluate(session.env, session.runner.act, stopped=lambda: bool(flag.received), **config["eval"])
        if result is not None:
            content = {"checkpoint": str(checkpoint), "config": config, **result.to_dict()}
            (folder / RESULT_NAME).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            stream.write(f"{result}\n")
        return flag.exit_code


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # Simulators' own threads and exit handlers can hang or crash here, with everything written and closed.
    os._exit(code)
