# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a checkpoint, or a task's expert."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isaaclab_pc.processes.child_process import ExitCode, SignalFlag
from isaaclab_pc.run.jobs import PlayJob
from isaaclab_pc.terminal.events import Evaluated
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.utils.files import write_text_atomically
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env, open_session


def play(job: PlayJob, folder: Path, screen: Screen) -> int:
    """Evaluate a policy and write ``result.json`` to a folder.

    Raises:
        ConfigError: The settings or the checkpoint do not fit.
        SystemExit: A signal stopped it.
    """
    settings = job.settings
    with _acting(job, folder) as (env, act):
        screen.begin("evaluate", f"evaluating over {settings.eval.episodes} episodes")
        with SignalFlag() as flag:
            result = evaluate(
                env,
                act,
                settings.eval.episodes,
                settings.eval.seed,
                stopped=lambda: bool(flag.received),
                on_step=screen.advance,
            )
        if result is not None:
            content = {
                "checkpoint": job.checkpoint and str(job.checkpoint),
                "settings": settings.model_dump(),
                **result.to_dict(),
            }
            write_text_atomically(folder / "result.json", json.dumps(content, indent=2) + "\n")
            screen.end_phase()
            screen.show(Evaluated(text=str(result), result=result.to_dict()))
            if result.breakdown:
                screen.say(result.breakdown_table())
        flag.leave()
    return ExitCode.OK


@contextmanager
def _acting(job: PlayJob, folder: Path) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Build the environments, and whoever acts in them."""
    settings = job.settings
    assert settings.num_envs != "auto"
    if job.checkpoint is None:
        with open_env(resolve(settings, settings.num_envs)) as env:
            expert = env.unwrapped.expert()
            yield env, lambda _: expert()
        return

    with open_session(settings, settings.num_envs, folder) as session:
        session.runner.load_policy(job.checkpoint, {"task": settings.task})
        yield session.env, session.runner.act
