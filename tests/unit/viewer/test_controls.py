# SPDX-License-Identifier: BSD-3-Clause
"""Requests of a person who watches, and when the next step is due."""

import math
import time

from isaaclab_pc.viewer.controls import Controls

STEP_S = 1e-9


def test_a_fault_pauses_only_who_asked_to_run_to_it():
    controls = Controls()
    controls.saw_fault("env 0: reward")
    assert not controls.paused

    controls.pause()
    controls.run_to_fault()
    assert controls.take_step(STEP_S)
    controls.saw_fault("env 0: reward")
    assert controls.paused
    assert "env 0: reward" in controls.message

    controls.run()
    controls.saw_fault("env 0: reward")
    assert not controls.paused


def test_slow_motion_is_slower_than_real_time():
    controls = Controls()
    controls.speed = 0.1
    begin = time.monotonic()
    steps = 0
    while steps < 3:
        steps += controls.take_step(0.005)
    # The first step is due at once.
    assert time.monotonic() - begin >= 2 * 0.05


def test_without_a_limit_every_step_is_due():
    controls = Controls()
    controls.speed = math.inf
    assert all(controls.take_step(1e6) for _ in range(10))
