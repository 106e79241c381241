# SPDX-License-Identifier: BSD-3-Clause
"""One setting of the stability measurement on a real simulation."""

from pathlib import Path

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.physics.stability import Cell
from isaaclab_pc.run.jobs import StabilityJob
from isaaclab_pc.workers import stability as stability_child

pytestmark = [pytest.mark.sim, pytest.mark.slow_on_newton]

NUM_ENVS = 4
RANDOM_ENV_STEPS = 400


def test_a_setting_is_measured_with_expert_and_random_actions(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By steps, not by time, so that every machine takes the same ones.
    monkeypatch.setattr(stability_child, "RANDOM_SECONDS", 600.0)
    monkeypatch.setattr(stability_child, "RANDOM_ENV_STEPS", RANDOM_ENV_STEPS)
    sizes = [f"num_envs={NUM_ENVS}", f"eval.episodes={NUM_ENVS}"]
    config = compose(["task=lift", "device=cpu", f"physics={backend}", "obs=state", *sizes])
    job = StabilityJob(config, {"decimation": 2, "position_iterations": 8}, tmp_path / "cell.json")
    stability_child.stability(job)
    cell = Cell.read(tmp_path / "cell.json")
    assert cell.settings == {"dt": pytest.approx(1 / 60), "position_iterations": 8}
    assert cell.success == 1.0
    assert cell.env_steps == RANDOM_ENV_STEPS
    assert cell.failures == 0
    assert cell.cost > 0
