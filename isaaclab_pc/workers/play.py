# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.launch.child_process import SignalFlag
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.events import Evaluated
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.session import open_session

__all__ = ["play"]

RESULT_NAME = "result.json"


def play(settings_path: Path, checkpoint: Path, screen: Screen) -> int:
    """Evaluate a checkpoint and write ``result.json`` beside the settings.

    Args:
        settings_path: The settings to evaluate under.
        checkpoint: The policy.
        screen: What the user sees.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings or the checkpoint do not fit.
    """
    settings = RunSettings.load(settings_path)
    assert settings.num_envs != "auto"
    folder = settings_path.parent

    with open_session(settings, settings.num_envs, "play", folder) as session:
        session.runner.load_policy(checkpoint, {"task": settings.task})
        screen.begin("evaluate", f"evaluating over {settings.eval.episodes} episodes")
        with SignalFlag() as flag:
            result = evaluate(
                session.env,
                session.runner.act,
                settings.eval.episodes,
                settings.eval.seed,
                stopped=lambda: bool(flag.received),
            )
        if result is not None:
            content = {"checkpoint": str(checkpoint), "settings": settings.model_dump(), **result.to_dict()}
            write_text_atomically(folder / RESULT_NAME, json.dumps(content, indent=2) + "\n")
            screen.end_phase()
            screen.show(Evaluated(text=str(result), result=result.to_dict()))
            if result.breakdown:
                screen.say(result.breakdown_table())
        return flag.exit_code
