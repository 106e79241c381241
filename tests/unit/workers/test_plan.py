# SPDX-License-Identifier: BSD-3-Clause
"""The plan of a run, read off its configs."""

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.num_envs.preflight import Plan
from isaaclab_pc.run.jobs import PlanJob
from isaaclab_pc.workers.plan import plan


def test_a_plan_tells_the_batches_and_the_findings_of_the_preflight(tmp_path):
    settings = compose(["device=cpu", "physics=newton_mjwarp", "points.num_points=64", "minibatch_size=512"])
    assert plan(PlanJob(settings, 2_000_000, tmp_path / "plan.json")) == 0
    found = Plan.read(tmp_path / "plan.json")
    assert (found.batch.horizon, found.batch.minibatch_size) == (8, 512)
    assert any(finding.startswith("error: num_envs=2000000") for finding in found.findings)
