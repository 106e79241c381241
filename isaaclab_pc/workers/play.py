# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a checkpoint, or a task's expert."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.launch.child_process import ExitCode, SignalFlag
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.events import Evaluated
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env, open_session

__all__ = ["play"]

RESULT_NAME = "result.json"


def play(settings_path: Path, checkpoint: Path | None, screen: Screen) -> int:
    """Evaluate a policy and write ``result.json`` beside the settings.

    Args:
        settings_path: The settings to evaluate under.
        checkpoint: The policy; None: the task's expert.
        screen: What the user sees.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings or the checkpoint do not fit.
    """
    settings = RunSettings.load(settings_path)
    folder = settings_path.parent

    with _acting(settings, checkpoint, folder) as (env, act):
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
                "checkpoint": checkpoint and str(checkpoint),
                "settings": settings.model_dump(),
                **result.to_dict(),
            }
            write_text_atomically(folder / RESULT_NAME, json.dumps(content, indent=2) + "\n")
            screen.end_phase()
            screen.show(Evaluated(text=str(result), result=result.to_dict()))
            if result.breakdown:
                screen.say(result.breakdown_table())
        if flag.exit_code:
            # Kit ends the process with the code of what leaves this block, or 0.
            raise SystemExit(flag.exit_code)
    return ExitCode.OK


@contextmanager
def _acting(settings: RunSettings, checkpoint: Path | None, folder: Path) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Build the environments, and whoever acts in them."""
    assert settings.num_envs != "auto"
    if checkpoint is None:
        with open_env(resolve(settings, settings.num_envs, "play")) as env:
            expert = env.unwrapped.expert()
            yield env, lambda _: expert()
        return

    with open_session(settings, settings.num_envs, "play", folder) as session:
        session.runner.load_policy(checkpoint, {"task": settings.task})
        yield session.env, session.runner.act
