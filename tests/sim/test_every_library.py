# SPDX-License-Identifier: BSD-3-Clause
"""Every library with everything that a policy may observe: trained, killed, resumed, evaluated and exported."""

import json
import math
from pathlib import Path

import pytest

from isaaclab_pc.learners import RUNNERS
from tests.sim.test_export import check_export
from tests.sim.training import Training

pytestmark = [pytest.mark.sim, pytest.mark.physx, pytest.mark.slow]

SAMPLES_PER_UPDATE = 1024
"""So many that an iteration takes long enough to be killed in."""


@pytest.mark.parametrize("obs", ["points", "depth", "state"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_killed_it_goes_on_to_its_end_and_its_policy_is_exported(tmp_path: Path, runner: str, obs: str) -> None:
    settings = ["task=reach", f"obs={obs}", "max_iterations=3"]
    with Training(tmp_path, *settings, runner=runner, samples_per_update=SAMPLES_PER_UPDATE) as training:
        training.wait_for_checkpoint().kill()
        assert training.script.wait(timeout=300) == 0, training.output
        record, run = training.record, training.run

    assert [restart["cause"] for restart in record["restarts"]] == ["killed"]
    assert (record["status"], record["evaluation"]["episodes"]) == ("completed", 16)
    lines = [json.loads(line) for line in (run / "iterations.jsonl").read_text(encoding="utf-8").splitlines()]
    counted = [(line["iteration"], line["env_steps"]) for line in lines]
    assert counted == [(number, number * SAMPLES_PER_UPDATE) for number in (1, 2, 3)]
    assert all(math.isfinite(line["metrics"]["loss/value"]) for line in lines)

    check_export(tmp_path, f"run={run.relative_to(tmp_path)}")
