# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of the guard: each reads a tensor once and records the environments that have bad values.

The results are two integers an environment: ``causes``, bits of :class:`~isaaclab_pc.guards.causes.Cause`, and a count
of its faulty steps. The thread that sets an environment's first bit in a step counts the fault, so that counts are
exact in any order of the threads. Comparisons are written so that NaN fails them.
"""

from typing import Any

import warp as wp

from isaaclab_pc.guards.causes import Cause

POSITION_BIT = wp.constant(int(Cause.POSITION))
ORIENTATION_BIT = wp.constant(int(Cause.ORIENTATION))
VELOCITY_BIT = wp.constant(int(Cause.VELOCITY))
JOINT_POSITION_BIT = wp.constant(int(Cause.JOINT_POSITION))
JOINT_VELOCITY_BIT = wp.constant(int(Cause.JOINT_VELOCITY))
REWARD_BIT = wp.constant(int(Cause.REWARD))

# A loop over the grid, which no launch of ours needs, would cost registers.
wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.struct
class Findings:
    """Where kernels record faults, for N environments and C causes."""

    causes: wp.array(dtype=wp.int32)
    """Bits found in this step, shape (N,)."""

    benched: wp.array(dtype=wp.bool)
    """Benched environments: their faults no longer count, shape (N,)."""

    counts: wp.array(dtype=wp.int64)
    """Faulty environment steps by their first cause, shape (C,)."""

    env_counts: wp.array(dtype=wp.int64)
    """Faulty steps of each environment, shape (N,)."""

    total: wp.array(dtype=wp.int64)
    """Faulty environment steps, shape (1,)."""


@wp.func
def record(findings: Findings, env: wp.int32, bits: wp.int32):
    """Add bits to an environment, and count the fault under the lowest bit if it is the first one in this step."""
    if findings.benched[env]:
        return

    before = wp.atomic_or(findings.causes, env, bits)
    if before == 0:
        index = wp.int32(0)
        while (bits >> index) & 1 == 0:
            index += 1
        wp.atomic_add(findings.counts, index, wp.int64(1))
        wp.atomic_add(findings.env_counts, env, wp.int64(1))
        wp.atomic_add(findings.total, 0, wp.int64(1))


@wp.kernel
def check_values(
    values: wp.array2d(dtype=Any),
    low: wp.float32,
    high: wp.float32,
    passes: wp.float32,
    repairs: wp.bool,
    bits: wp.int32,
    lane_bits: wp.int32,
    bad: wp.array(dtype=wp.bool),
    findings: Findings,
):
    """Check numbers (N, D) against one interval; the value ``passes`` outside the interval is no fault.

    2 ** ``lane_bits`` threads for each environment, of which each takes every so many-th number.
    """
    # A power of two, since a division takes 64 bits and longer.
    thread = wp.tid()
    lanes = 1 << lane_bits
    env = thread >> lane_bits
    column = thread & (lanes - 1)

    found = wp.bool(False)
    while column < values.shape[1]:
        if not (wp.float32(values[env, column]) >= low and wp.float32(values[env, column]) <= high):
            value = wp.float32(values[env, column])
            if value != passes:
                found = True
                if repairs:
                    repaired = wp.clamp(wp.where(wp.isnan(value), 0.0, value), low, high)
                    values[env, column] = values.dtype(repaired)
        column += lanes

    if found:
        bad[env] = True
        record(findings, env, bits)


@wp.kernel
def check_joints(
    position: wp.array2d(dtype=wp.float32),
    velocity: wp.array2d(dtype=wp.float32),
    lower: wp.array(dtype=wp.float32),
    upper: wp.array(dtype=wp.float32),
    fastest: wp.array(dtype=wp.float32),
    findings: Findings,
):
    """Check joint positions and velocities (N, J) against limits (J,), one thread an environment."""
    env = wp.tid()

    bits = wp.int32(0)
    for joint in range(position.shape[1]):
        if not (position[env, joint] >= lower[joint] and position[env, joint] <= upper[joint]):
            bits = bits | JOINT_POSITION_BIT
        if not (wp.abs(velocity[env, joint]) <= fastest[joint]):
            bits = bits | JOINT_VELOCITY_BIT

    if bits != 0:
        record(findings, env, bits)


@wp.kernel
def check_bodies(
    pose: wp.array(dtype=wp.transformf),
    velocity: wp.array(dtype=wp.spatial_vectorf),
    origins: wp.array(dtype=wp.vec3f),
    lowest: wp.float32,
    highest: wp.float32,
    tolerance: wp.float32,
    fastest: wp.vec2f,
    findings: Findings,
):
    """Check poses and velocities (linear, angular) of a free body (N,), one thread an environment."""
    env = wp.tid()

    bits = wp.int32(0)

    place = wp.transform_get_translation(pose[env]) - origins[env]
    for axis in range(3):
        if not (place[axis] >= lowest and place[axis] <= highest):
            bits = bits | POSITION_BIT
        if not (wp.abs(velocity[env][axis]) <= fastest[0] and wp.abs(velocity[env][axis + 3]) <= fastest[1]):
            bits = bits | VELOCITY_BIT

    if not (wp.abs(wp.length(wp.transform_get_rotation(pose[env])) - 1.0) <= tolerance):
        bits = bits | ORIENTATION_BIT

    if bits != 0:
        record(findings, env, bits)


@wp.kernel
def check_dones(
    terminated: wp.array(dtype=wp.bool),
    truncated: wp.array(dtype=wp.bool),
    terminated_now: wp.array(dtype=wp.bool),
    truncated_now: wp.array(dtype=wp.bool),
    failed: wp.array(dtype=wp.bool),
    repairs: wp.bool,
    as_termination: wp.bool,
    findings: Findings,
):
    """Tell which episodes end once faults are known, and which tasks are not fulfilled, one thread an environment."""
    env = wp.tid()
    faulted = findings.causes[env] != 0 and not repairs
    benched = findings.benched[env]
    terminated_now[env] = (faulted and as_termination) or (terminated[env] and not faulted and not benched)
    truncated_now[env] = (faulted and not as_termination) or (truncated[env] and not faulted)
    failed[env] = terminated[env] or faulted or benched


@wp.func
def end_episode(
    env: wp.int32,
    as_termination: wp.bool,
    terminated: wp.array(dtype=wp.bool),
    truncated: wp.array(dtype=wp.bool),
    done: wp.array(dtype=wp.bool),
):
    terminated[env] = as_termination
    truncated[env] = not as_termination
    done[env] = True


@wp.kernel
def check_reward(
    reward: wp.array(dtype=wp.float32),
    terminated: wp.array(dtype=wp.bool),
    truncated: wp.array(dtype=wp.bool),
    done: wp.array(dtype=wp.bool),
    uncounted: wp.array(dtype=wp.bool),
    low: wp.float32,
    high: wp.float32,
    repairs: wp.bool,
    as_termination: wp.bool,
    findings: Findings,
):
    """Check rewards, and set them to 0 and end the episodes where there is a fault, one thread an environment."""
    env = wp.tid()
    benched = findings.benched[env]
    faulted = findings.causes[env] != 0 and not repairs

    value = reward[env]
    is_bad = not benched and not faulted and not (value >= low and value <= high)
    if is_bad:
        record(findings, env, REWARD_BIT)
        if repairs:
            reward[env] = wp.clamp(wp.where(wp.isnan(value), 0.0, value), low, high)
        else:
            faulted = True

    uncounted[env] = is_bad or faulted or benched
    if faulted or benched:
        reward[env] = 0.0
    if faulted:
        end_episode(env, as_termination, terminated, truncated, done)


@wp.kernel
def end_episodes(
    ended: wp.array(dtype=wp.bool),
    reward: wp.array(dtype=wp.float32),
    terminated: wp.array(dtype=wp.bool),
    truncated: wp.array(dtype=wp.bool),
    done: wp.array(dtype=wp.bool),
    as_termination: wp.bool,
):
    """End episodes without a reward, one thread an environment."""
    env = wp.tid()
    if ended[env]:
        reward[env] = 0.0
        end_episode(env, as_termination, terminated, truncated, done)


@wp.kernel
def hide_observations(
    bad: wp.array(dtype=wp.bool),
    bad_depth: wp.array(dtype=wp.bool),
    hidden: wp.array(dtype=wp.bool),
    ended: wp.array(dtype=wp.bool),
    findings: Findings,
):
    """Tell which environments hide their observations and which episodes end, one thread an environment."""
    env = wp.tid()
    is_bad = bad[env] or bad_depth[env]
    hidden[env] = is_bad or findings.benched[env]
    ended[env] = is_bad and not findings.benched[env]


@wp.kernel
def update_bench(
    causes: wp.array(dtype=wp.int32),
    awaiting_reset: wp.array(dtype=wp.bool),
    bench_steps: wp.int32,
    bench_after: wp.int32,
    since_fault: wp.array(dtype=wp.int32),
    relapses: wp.array(dtype=wp.int32),
    benched: wp.array(dtype=wp.bool),
    pending: wp.array(dtype=wp.int32),
):
    """Bench the environments that relapsed too often, one thread an environment.

    ``pending`` (2,), zeros before, gets how many environments await a reset and how many are benched.
    """
    env = wp.tid()

    since = since_fault[env] + 1
    if causes[env] != 0:
        relapses[env] = wp.where(since <= bench_steps, relapses[env] + 1, 0)
        since = 0
        if relapses[env] >= bench_after:
            benched[env] = True
    elif since > bench_steps:
        # Held here, so that it never overflows.
        since = bench_steps
        relapses[env] = 0
    since_fault[env] = since

    if awaiting_reset[env]:
        wp.atomic_add(pending, 0, 1)
    if benched[env]:
        wp.atomic_add(pending, 1, 1)


# Named here, since a type that is first met at a launch compiles the module again.
CHECK_VALUES = {
    dtype: wp.overload(check_values, {"values": wp.array2d(dtype=dtype)}) for dtype in (wp.float16, wp.float32)
}
"""Variants of :func:`check_values` by the type of the checked numbers."""
