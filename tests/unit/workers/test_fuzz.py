# SPDX-License-Identifier: BSD-3-Clause
"""Every value that a setting's type takes: the preflight passes, or refuses it by the setting's name."""

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.num_envs.preflight import check_run
from isaaclab_pc.settings.base import shown
from isaaclab_pc.settings.run import SETTINGS, RunSettings
from isaaclab_pc.workers.resolve import resolve
from tests.unit.settings.setting_values import SEEDS, refusal_of, valid

FREE = 16 << 30

CHOSEN_BY_THE_PARENT = ("task", "device", "physics.backend", "visualizer")
"""What the parent has checked and replaced before a worker reads it."""


@functools.cache
def composed() -> RunSettings:
    return compose(["task=reach", "device=cpu", "physics=newton_mjwarp"])


# Each example resolves the configs of an environment and an agent.
@given(key=st.sampled_from([key for key in SETTINGS if key not in CHOSEN_BY_THE_PARENT]), data=st.data())
@settings(max_examples=200)
def test_a_run_passes_the_preflight_or_is_refused_by_the_settings_name(key: str, data: st.DataObject) -> None:
    value = data.draw(valid(key))

    def preflight() -> None:
        changed = composed().with_values({key: value})
        num_envs = 8 if changed.num_envs == "auto" else changed.num_envs
        resolved = resolve(changed, num_envs)
        check_run(resolved.env_cfg, FREE, trial=False)

    refusal = refusal_of(preflight)
    # Of a long value, messages show the beginning.
    given_text = f"{key.rpartition('.')[2]}={shown(value)[:60]}"
    assert (
        refusal is None
        or given_text in refusal
        or refusal.startswith(f"{key} does not exist on newton_mjwarp")
        or (key in SEEDS and refusal.startswith(SEEDS))
    )
