# SPDX-License-Identifier: BSD-3-Clause
"""The policies that come with the tasks still solve them."""

from pathlib import Path

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.run.pretrained import find_pretrained, pretrained_tasks
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

# They were trained on PhysX.
pytestmark = [pytest.mark.sim, pytest.mark.physx]

EPISODES = 32
ENOUGH = 0.8
"""Share of them that is solved, at least: of 32, a policy that solves 95 % solves fewer once in a thousand times."""

ENOUGH_OF_ANY = 0.6
"""The same of ``lift_any``, whose policy solves 83 %."""

FAST = ("lift", "reach")
"""Tasks whose policies `make test` plays, too."""


@pytest.mark.parametrize(
    "task", [task if task in FAST else pytest.param(task, marks=pytest.mark.slow) for task in pretrained_tasks()]
)
def test_a_pretrained_policy_solves_its_task(task: str, tmp_path: Path) -> None:
    trained, checkpoint = find_pretrained(compose([f"task={task}"]))
    settings = trained.with_values({"device": "cpu", "physics.backend": "ovphysx"})
    resolved = resolve(settings, EPISODES, "test")

    with open_env(resolved) as env:
        runner = resolved.adapter.make(env, resolved.agent_cfg, tmp_path, "cpu")
        runner.load_policy(checkpoint, {"task": settings.task})
        result = evaluate(env, runner.act, EPISODES, seed=4321)

    print(f"{task}: {result}")
    assert result is not None
    assert result.success_rate is not None
    assert result.success_rate >= (ENOUGH_OF_ANY if task == "lift_any" else ENOUGH)
