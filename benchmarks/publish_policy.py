# SPDX-License-Identifier: BSD-3-Clause
"""Make a run's policy the one that comes with its task: ``scripts/play.py task=<task> resume=pretrained``.

Run ``python benchmarks/publish_policy.py logs/rsl_rl/lift/<time>``. It writes the weights of the network that acts into
the task's folder. The header says what they were trained with, and what the evaluation at the end of the run found.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from isaaclab_pc.cli.task_names import short_name
from isaaclab_pc.learners.common.checkpoint_file import acting_weights, load_checkpoint, save_checkpoint
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.pretrained import PRETRAINED, policy_file
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings

LEFT_OUT = (
    "device",
    "physics.backend",
    "teacher",
    "demos",
    "resume",
    "replay_samples",
    "visualizer",
    "scaling.",
    "supervise.",
    "eval.",
)
"""Settings, and groups of them, that belong to a machine, or that only training needs."""


def settings_to_tell(settings: RunSettings) -> dict[str, Any]:
    """Return the settings that are not the defaults, by dotted name."""
    defaults = RunSettings().flat()
    told = {
        key: value for key, value in settings.flat().items() if value != defaults[key] and not key.startswith(LEFT_OUT)
    }
    # That it went on from a policy says which network it has; where that policy lay says nothing.
    return told | ({"init": PRETRAINED} if settings.init is not None else {})


def publish(run: Path) -> Path:
    """Write the policy of a run that is done; returns the file."""
    record = RunRecord.load(run)
    settings = RunSettings.load(run / SETTINGS_NAME)
    checkpoint = record.checkpoint("latest")
    evaluation = record.data.evaluation
    assert checkpoint is not None, "the run has no checkpoint"
    assert evaluation is not None, "the run was not evaluated"

    state, header = load_checkpoint(checkpoint, "cpu", ("algorithm",))
    header |= {
        "task": settings.task,
        "settings": settings_to_tell(settings),
        "evaluation": str(evaluation),
        "physics": record.data.physics,
        "git": record.data.git,
    }
    path = policy_file(short_name(settings.task))
    save_checkpoint(path, {"algorithm": acting_weights(state["algorithm"])}, header)
    return path


def main() -> None:
    """Publish the policy that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run that is done")
    path = publish(parser.parse_args().run)
    print(f"written: {path}, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
