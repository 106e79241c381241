# SPDX-License-Identifier: BSD-3-Clause
"""Dump and replay of a task that is not this package's: Isaac Lab's manager-based cart-pole."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.faults.dump import FaultDump
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.faults.replay_state import History
from isaaclab_pc.guards import GuardCfg, attach_guard
from isaaclab_pc.workers.replay import repeat_steps

pytestmark = [pytest.mark.sim, pytest.mark.parametrize("make_cartpole", ["Isaac-Cartpole"], indirect=True)]

KICK_STEP, KICK = 4, 1e5
ABOUT = {"task": "cartpole", "config": {}, "backend": "newton_mjwarp"}


@pytest.fixture(scope="module")
def env(make_cartpole: Callable) -> Any:
    made = make_cartpole(1)
    attach_guard(made, GuardCfg(), made.spec.id)
    return made


def test_a_replay_follows_the_recording_and_finds_the_first_bad_physics_step(env: Any, tmp_path: Path) -> None:
    """The cart is pushed from side to side, then gets a speed that it cannot have, before a step's physics."""
    recorder = Recorder.attach(env, tmp_path, ABOUT)
    env.reset(seed=3)
    for step in range(KICK_STEP + 2):
        if step == KICK_STEP:
            cart = next(iter(env.scene.articulations.values()))
            ids = torch.tensor([0], dtype=torch.int32)
            cart.write_joint_velocity_to_sim_index(velocity=torch.full((1, cart.num_joints), KICK), env_ids=ids)
        env.step(torch.full((1, 1), 0.1 * (-1) ** step))
    (path,) = recorder.paths
    dump = FaultDump.load(path)
    assert dump.arrays["length"].tolist() == [KICK_STEP + 1]
    assert dump.arrays["action"][0, :, 0].tolist() == pytest.approx([0.1, -0.1, 0.1, -0.1, 0.1])
    assert "joint_velocity" in dump.causes_of(0)

    history = History(env, dump, 0)
    through = repeat_steps(env, history, from_each_step=False)
    assert through.fault is None, "the kick is no action"
    assert max(through.differences[: KICK_STEP - 1]) < 1e-5
    fault = repeat_steps(env, history, from_each_step=True).fault
    assert fault is not None
    assert (fault.step, fault.substep) == (KICK_STEP, 1)
    assert fault.offenders[0].quantity == "joint velocity [rad/s or m/s]"


def test_a_bad_action_is_recorded_as_it_was_given(env: Any, tmp_path: Path) -> None:
    recorder = Recorder.attach(env, tmp_path, ABOUT)
    env.reset(seed=3)
    env.step(torch.full((1, 1), math.nan))
    path = recorder.flush()
    assert path is not None
    fault = repeat_steps(env, History(env, FaultDump.load(path), 0), from_each_step=False).fault
    assert fault is not None
    assert (fault.step, fault.substep) == (0, 0)
    assert fault.offenders[0].quantity == "action"
