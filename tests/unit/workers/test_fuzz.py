# SPDX-License-Identifier: BSD-3-Clause
"""Every value that a setting's type takes: the preflight passes, or refuses it by the setting's name."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.scaling.machine import Machine
from isaaclab_pc.scaling.preflight import check_run
from isaaclab_pc.settings.run import SETTINGS
from isaaclab_pc.workers.resolve import resolve
from tests.unit.settings.test_fuzz import refusal_of, valid

MACHINE = Machine(free_bytes=16 << 30, threads=2, cores=2)

CHOSEN_BY_THE_PARENT = ("task", "device", "physics.backend", "visualizer")
"""What the parent has checked and replaced before a worker reads it."""

FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Each resolves the configs of an environment and an agent."""


@pytest.mark.parametrize("key", [key for key in SETTINGS if key not in CHOSEN_BY_THE_PARENT])
@given(data=st.data())
@FEW
def test_a_run_passes_the_preflight_or_is_refused_by_the_settings_name(key: str, data: st.DataObject) -> None:
    run = compose(["task=reach", "device=cpu", "physics=newton_mjwarp"])
    value = data.draw(valid(key))

    def preflight() -> None:
        changed = run.with_values({key: value})
        num_envs = 8 if changed.num_envs == "auto" else changed.num_envs
        resolved = resolve(changed, num_envs, "reach")
        check_run(resolved.env_cfg, resolved.plan, MACHINE, trial=False)

    refusal = refusal_of(preflight)
    assert refusal is None or key.rpartition(".")[2] in refusal
