# SPDX-License-Identifier: BSD-3-Clause
"""What a plan tells; configs are read, nothing is simulated."""

import json

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.launch.compose import compose
from isaaclab_pc.launch.worker import PlanJob
from isaaclab_pc.scaling import memory_plan
from isaaclab_pc.scaling.learner_memory import LearnerMemory
from isaaclab_pc.workers.plan import plan


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Make jobs in an empty folder, for a learner that need not be built."""
    memory = LearnerMemory(weights=1 << 20, optimizer=2 << 20, storage=3 << 20, replay=0, activations=4 << 20)
    monkeypatch.setattr(memory_plan, "learner_memory", lambda resolved, spaces: memory)
    monkeypatch.chdir(tmp_path)

    def make(num_points):
        settings = compose(["device=cpu", "physics=newton_mjwarp", f"points.num_points={num_points}"])
        return PlanJob(settings, 64, tmp_path / "plan.json")

    return make


def test_a_plan_tells_parts_batch_and_what_only_a_trial_tells(job, tmp_path):
    assert plan(job(64)) == 0
    content = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert set(content) == {"parts", "missing", "batch", "findings"}
    assert content["parts"]["network weights"][:1] == [1 << 20]
    assert content["batch"]["horizon"] >= 1
    assert set(content["batch"]) == {"horizon", "num_minibatches", "minibatch_size"}
    assert content["missing"], "there was no trial before"
    assert all(isinstance(finding, str) for finding in content["findings"])


def test_settings_that_do_not_fit_are_refused(job, tmp_path):
    with pytest.raises(ConfigError, match="pixels of the cameras"):
        plan(job(100_000))
    assert not (tmp_path / "plan.json").exists()
