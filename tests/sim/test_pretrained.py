# SPDX-License-Identifier: BSD-3-Clause
"""The policies that come with the tasks still solve them, also where they were not trained."""

from pathlib import Path

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.learners import read_header
from isaaclab_pc.run.pretrained import find_pretrained, policy_file, pretrained_tasks
from isaaclab_pc.workers.evaluation import evaluate
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

pytestmark = pytest.mark.sim

EPISODES = 32
ENOUGH = 0.8
"""Share of them that is solved, at least: of 32, a policy that solves 95 % solves fewer once in a thousand times."""

ENOUGH_OF_ANY = 0.6
"""The same of ``lift_any``, whose policy solves 83 %."""

FAST = ("lift", "reach")
"""Tasks whose policies `make test` plays, too."""

FOR_REAL = [task for task in pretrained_tasks() if read_header(policy_file(task))["settings"].get("sim2real")]
"""Tasks with policies that were trained with ``sim2real=true``."""


def play(task: str, folder: Path, backend: str = "ovphysx", realism: str | None = None, **env: str) -> float:
    """Return the success of the policy that comes with a task; without further values as it was trained."""
    trained, checkpoint = find_pretrained(compose([f"task={task}"]))
    settings = trained.with_values({"device": "cpu", "physics.backend": backend})
    if realism is not None:
        # Of two overrides of a field, the last one counts.
        overrides = [*settings.env_overrides, *(f"env.{name}={value}" for name, value in env.items())]
        settings = settings.with_values({"points.realism": realism, "env_overrides": overrides})
    resolved = resolve(settings, EPISODES)

    with open_env(resolved) as made:
        runner = resolved.adapter.make(made, resolved.agent_cfg, folder, "cpu")
        runner.load_policy(checkpoint, {"task": settings.task})
        result = evaluate(made, runner.act, EPISODES, seed=4321)

    print(f"{task}: {result}")
    assert result is not None
    assert result.success_rate is not None
    return result.success_rate


@pytest.mark.physx
@pytest.mark.parametrize(
    "task", [task if task in FAST else pytest.param(task, marks=pytest.mark.slow) for task in pretrained_tasks()]
)
def test_a_pretrained_policy_solves_its_task(task: str, tmp_path: Path) -> None:
    assert play(task, tmp_path) >= (ENOUGH_OF_ANY if task == "lift_any" else ENOUGH)


@pytest.mark.slow
@pytest.mark.physx
@pytest.mark.parametrize("realism", ["none", "structured_light", "stereo"])
@pytest.mark.parametrize("task", FOR_REAL)
def test_a_policy_for_real_cameras_sees_by_each_of_them(task: str, realism: str, tmp_path: Path) -> None:
    assert play(task, tmp_path, realism=realism) >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("task", FOR_REAL)
def test_a_policy_for_real_cameras_acts_on_another_engine(task: str, tmp_path: Path) -> None:
    assert play(task, tmp_path, "newton_mjwarp", "none", randomization="none") >= ENOUGH


@pytest.mark.slow
@pytest.mark.physx
def test_the_policy_of_valves_turns_those_it_was_not_trained_on(tmp_path: Path) -> None:
    assert play("turn_valve", tmp_path, realism="structured_light", valves="held_out") >= ENOUGH
