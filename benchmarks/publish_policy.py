# SPDX-License-Identifier: BSD-3-Clause
"""Make a run's policy the one that comes with its task: ``scripts/play.py resume=pretrained``.

Run ``python benchmarks/publish_policy.py logs/rsl_rl/lift/<time>``. It writes the weights of the network that acts, and
the run's settings, into the task's folder. The header says what the evaluation at the end of the run found.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from isaaclab_pc.launch.pretrained import POLICY_NAME, pretrained_folder
from isaaclab_pc.launch.run_folder import SETTINGS_NAME
from isaaclab_pc.launch.run_record import RunRecord
from isaaclab_pc.launch.task_names import short_name
from isaaclab_pc.runners.checkpoint_file import load_checkpoint, save_checkpoint
from isaaclab_pc.settings import RunSettings

ACTING = ("student_state_dict", "actor_state_dict", "model")
"""Names of the network that acts, by algorithm and library."""


def publish(run: Path) -> Path:
    """Write the policy of a run that is done; returns the file."""
    record = RunRecord.load(run)
    settings = RunSettings.load(run / SETTINGS_NAME)
    checkpoint = record.checkpoint("latest")
    evaluation = record.data.evaluation
    assert checkpoint is not None, "the run has no checkpoint"
    assert evaluation is not None, "the run was not evaluated"

    state, header = load_checkpoint(checkpoint, "cpu", ("algorithm",))
    weights = {name: state["algorithm"][name] for name in ACTING if name in state["algorithm"]}
    folder = pretrained_folder(short_name(settings.task))
    path = folder / POLICY_NAME
    save_checkpoint(path, {"algorithm": weights}, {**header, "evaluation": str(evaluation), "git": record.data.git})
    # Neither is needed to act, and both name places of the machine that trained it.
    settings.with_values({"teacher": None, "resume": None}).save(folder / SETTINGS_NAME)
    return path


def main() -> None:
    """Publish the policy that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run that is done")
    path = publish(parser.parse_args().run)
    print(f"written: {path}, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
