# SPDX-License-Identifier: BSD-3-Clause
"""Turn valve: turn a valve by its knob, by an angle and in a direction that differ from episode to episode."""

from isaaclab_pc.tasks.registration import register_task

register_task(
    "IsaacPC-Turn-Valve-Franka-Direct",
    env=f"{__name__}.turn_valve_env:TurnValveEnv",
    env_cfg=f"{__name__}.turn_valve_env_cfg:TurnValveEnvCfg",
)
