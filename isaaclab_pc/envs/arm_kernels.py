# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of an arm, one thread an environment: its state, its inverse kinematics, and what its gripper holds."""

import warp as wp

from isaaclab_pc.tensors.pose_kernels import put_quaternion, put_vector, quaternion, vector

DAMPING = wp.constant(0.05)
"""Damping of the inverse kinematics (the lambda of Buss 2004)."""

POSTURE_GAIN = wp.constant(0.1)
"""Share of the way to the default joint positions that is asked for in one step, where the tool leaves it free."""

POSTURE_DAMPING = wp.constant(0.01)
"""Damping of that motion's null space: the larger, the more it moves the tool away from singular poses, too."""

POSTURE_STEP = wp.constant(0.03)
"""Largest change of a joint that is asked for on that way in one step [rad]."""

SPEED_SCALE = wp.constant(0.1)
"""Factor of the joints' velocities in what a policy observes."""

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.struct
class Arm:
    """Constants of an arm with J joints in N environments."""

    hand: wp.int32
    """Index of the body that carries the fingers."""

    tcp_offset: wp.float32
    """Distance of the tool centre from the hand's frame along its z axis [m]."""

    origins: wp.array2d(dtype=wp.float32)
    """Origins of the environments in the world [m], shape (N, 3)."""

    joints: wp.array(dtype=wp.int32)
    """Indices of the arm's joints, shape (J,)."""

    fingers: wp.array(dtype=wp.int32)
    """Indices of the finger joints, shape (F,)."""

    finger_limits: wp.array3d(dtype=wp.float32)
    """Positions of the finger joints, closed and open [rad or m], shape (N, F, 2)."""

    finger_travel: wp.array2d(dtype=wp.float32)
    """How far each finger moves from closed to open [m], shape (N, F)."""

    observed: wp.array(dtype=wp.int32)
    """Indices of the joints that a policy observes, shape (C,)."""

    rest: wp.array2d(dtype=wp.float32)
    """Default positions of the arm's joints [rad], shape (N, J)."""

    limits: wp.array3d(dtype=wp.float32)
    """Smallest and largest positions of the arm's joints [rad], shape (N, J, 2)."""


@wp.func
def lever(quat: wp.quatf, arm: Arm) -> wp.vec3f:
    """Return the tool centre relative to the hand [m]."""
    return wp.quat_rotate(quat, wp.vec3f(0.0, 0.0, arm.tcp_offset))


@wp.kernel
def read_arm(
    pose: wp.array2d(dtype=wp.transformf),
    joint_pos: wp.array2d(dtype=wp.float32),
    joint_vel: wp.array2d(dtype=wp.float32),
    default_pos: wp.array2d(dtype=wp.float32),
    observed: wp.array2d(dtype=wp.float32),
    speed: wp.array(dtype=wp.float32),
    openings: wp.array2d(dtype=wp.float32),
    arm: Arm,
):
    """Write what a policy observes of the robot, (N, 2 C + 7), and more of its state.

    That is the speed of the fastest arm joint [rad/s] (N,), and the openings of the fingers [m] (N, F).
    """
    env = wp.tid()

    count = arm.observed.shape[0]
    for i in range(count):
        joint = arm.observed[i]
        observed[env, i] = joint_pos[env, joint] - default_pos[env, joint]
        observed[env, count + i] = SPEED_SCALE * joint_vel[env, joint]

    quat = wp.transform_get_rotation(pose[env, arm.hand])
    tool = wp.transform_get_translation(pose[env, arm.hand]) + lever(quat, arm) - vector(arm.origins, env)
    put_vector(observed, env, 2 * count, tool)
    put_quaternion(observed, env, 2 * count + 3, quat)

    fastest = wp.float32(0.0)
    for i in range(arm.joints.shape[0]):
        # Unlike wp.max, this keeps NaN.
        velocity = wp.abs(joint_vel[env, arm.joints[i]])
        fastest = wp.where(velocity > fastest or wp.isnan(velocity), velocity, fastest)
    speed[env] = fastest

    for i in range(arm.fingers.shape[0]):
        closed = arm.finger_limits[env, i, 0]
        scale = arm.finger_travel[env, i] / (arm.finger_limits[env, i, 1] - closed)
        openings[env, i] = scale * (joint_pos[env, arm.fingers[i]] - closed)


@wp.func
def rotation_between(current: wp.quatf, wanted: wp.quatf) -> wp.vec3f:
    """Return the rotation vector [rad], of length pi at most, that turns one orientation into another."""
    turn = wanted * wp.quat_inverse(current)
    # The same rotation is written with either sign: with this one, the angle is pi at most.
    sign = wp.where(turn[3] < 0.0, -1.0, 1.0)
    axis = sign * wp.vec3f(turn[0], turn[1], turn[2])
    sine = wp.length(axis)
    if sine < 1.0e-6:
        return 2.0 * axis
    return (2.0 * wp.atan2(sine, sign * turn[3]) / sine) * axis


@wp.func
def column(
    jacobian: wp.array4d(dtype=wp.float32), env: wp.int32, body: wp.int32, joint: wp.int32, offset: wp.vec3f
) -> wp.spatial_vectorf:
    """Return how the tool centre, ``offset`` from a body, moves [m] and turns [rad] with a joint [rad]."""
    linear = wp.vec3f(jacobian[env, body, 0, joint], jacobian[env, body, 1, joint], jacobian[env, body, 2, joint])
    angular = wp.vec3f(jacobian[env, body, 3, joint], jacobian[env, body, 4, joint], jacobian[env, body, 5, joint])
    moved = linear + wp.cross(angular, offset)
    return wp.spatial_vectorf(moved[0], moved[1], moved[2], angular[0], angular[1], angular[2])


@wp.func
def solved(system: wp.spatial_matrixf, damping: wp.float32, motion: wp.spatial_vectorf) -> wp.spatial_vectorf:
    """Solve a symmetric system with the square of a damping on its diagonal.

    It is positive definite, so its pivots are in place. All loops are unrolled, and what is multiplied by 0 is not.
    """
    matrix = system
    right = motion
    for i in range(6):
        matrix[i, i] = matrix[i, i] + damping * damping
    for pivot in range(6):
        for row in range(6):
            if row > pivot:
                factor = matrix[row, pivot] / matrix[pivot, pivot]
                for k in range(6):
                    if k > pivot:
                        matrix[row, k] = matrix[row, k] - factor * matrix[pivot, k]
                right[row] = right[row] - factor * right[pivot]
    for back in range(6):
        row = 5 - back
        for k in range(6):
            if k > row:
                right[row] = right[row] - matrix[row, k] * right[k]
        right[row] = right[row] / matrix[row, row]
    return right


@wp.func
def posture_step(arm: Arm, env: wp.int32, i: wp.int32, position: wp.float32) -> wp.float32:
    return wp.clamp(POSTURE_GAIN * (arm.rest[env, i] - position), -POSTURE_STEP, POSTURE_STEP)


@wp.func
def solve_joints(
    jacobian: wp.array4d(dtype=wp.float32),
    joint_pos: wp.array2d(dtype=wp.float32),
    arm: Arm,
    env: wp.int32,
    offset: wp.vec3f,
    motion: wp.spatial_vectorf,
    change: wp.array2d(dtype=wp.float32),
):
    """Write the change of the joints [rad] (N, J) for a motion of the tool centre [m] and of the tool [rad].

    It is the damped least squares of Buss (2004), and, in their null space, a step towards the default positions: the
    damped term of Liegeois (1977). Near singular poses that moves the tool, too: it bends an arm again that was
    stretched out, where the inverse kinematics alone would press the elbow against its limit.
    """
    body = arm.hand - 1  # Isaac Lab's Jacobian has no row for the fixed base.

    system = wp.spatial_matrixf()
    posture = wp.spatial_vectorf()
    for i in range(arm.joints.shape[0]):
        joint = arm.joints[i]
        moves = column(jacobian, env, body, joint, offset)
        system += wp.outer(moves, moves)
        posture += posture_step(arm, env, i, joint_pos[env, joint]) * moves

    weights = solved(system, DAMPING, motion) - solved(system, POSTURE_DAMPING, posture)
    for i in range(arm.joints.shape[0]):
        joint = arm.joints[i]
        moves = column(jacobian, env, body, joint, offset)
        change[env, i] = wp.dot(moves, weights) + posture_step(arm, env, i, joint_pos[env, joint])


@wp.kernel
def move_to_pose(
    pose: wp.array2d(dtype=wp.transformf),
    jacobian: wp.array4d(dtype=wp.float32),
    joint_pos: wp.array2d(dtype=wp.float32),
    position: wp.array2d(dtype=wp.float32),
    quat: wp.array2d(dtype=wp.float32),
    change: wp.array2d(dtype=wp.float32),
    arm: Arm,
):
    """Write the change of the joints [rad] (N, J) that brings the tool to a pose in the world."""
    env = wp.tid()
    current = wp.transform_get_rotation(pose[env, arm.hand])
    offset = lever(current, arm)
    way = vector(position, env) - wp.transform_get_translation(pose[env, arm.hand]) - offset
    turn = rotation_between(current, quaternion(quat, env))
    motion = wp.spatial_vectorf(way[0], way[1], way[2], turn[0], turn[1], turn[2])
    solve_joints(jacobian, joint_pos, arm, env, offset, motion, change)


@wp.func
def within(value: wp.float32, low: wp.float32, high: wp.float32) -> wp.float32:
    # Unlike wp.clamp, this keeps NaN: it would send a joint to its limit.
    return wp.where(value < low, low, wp.where(value > high, high, value))


@wp.kernel
def follow_action(
    pose: wp.array2d(dtype=wp.transformf),
    jacobian: wp.array4d(dtype=wp.float32),
    joint_pos: wp.array2d(dtype=wp.float32),
    action: wp.array2d(dtype=wp.float32),
    position: wp.array2d(dtype=wp.float32),
    velocity: wp.array2d(dtype=wp.float32),
    turns: wp.bool,
    translation: wp.float32,
    rotation: wp.float32,
    most: wp.float32,
    step_dt: wp.float32,
    arm: Arm,
):
    """Write the targets of the joints' positions [rad] and velocities [rad/s], each (N, J), for motions of the tool.

    Where it ``turns``, the action (N, 6) is along the axes of the tool, otherwise (N, 3) along those of the world, and
    the gripper is held pointing down.
    """
    env = wp.tid()
    quat = wp.transform_get_rotation(pose[env, arm.hand])
    offset = lever(quat, arm)

    way = translation * vector(action, env)
    if turns:
        way = wp.quat_rotate(quat, way)
        turn = wp.quat_rotate(quat, rotation * wp.vec3f(action[env, 3], action[env, 4], action[env, 5]))
        # The same orientation is reached by the shorter way round.
        angle = wp.length(turn)
        if angle > wp.pi:
            turn = ((angle - 2.0 * wp.pi * wp.rint(angle / (2.0 * wp.pi))) / angle) * turn
    else:
        turn = rotation_between(quat, wp.quatf(1.0, 0.0, 0.0, 0.0))
    motion = wp.spatial_vectorf(way[0], way[1], way[2], turn[0], turn[1], turn[2])
    solve_joints(jacobian, joint_pos, arm, env, offset, motion, position)

    # Scaled as a whole, so that the tool keeps its direction near singular poses.
    largest = wp.float32(1.0e-6)
    for i in range(arm.joints.shape[0]):
        largest = wp.max(largest, wp.abs(position[env, i]))
    scale = wp.min(most / largest, 1.0)
    for i in range(arm.joints.shape[0]):
        now = joint_pos[env, arm.joints[i]]
        target = within(now + scale * position[env, i], arm.limits[env, i, 0], arm.limits[env, i, 1])
        position[env, i] = target
        velocity[env, i] = (target - now) / step_dt


@wp.kernel
def find_held(
    object: wp.array2d(dtype=wp.float32),
    width: wp.array(dtype=wp.float32),
    tool: wp.array2d(dtype=wp.float32),
    openings: wp.array2d(dtype=wp.float32),
    action: wp.array2d(dtype=wp.float32),
    held: wp.array(dtype=wp.bool),
    distance: wp.float32,
    least: wp.float32,
    most: wp.float32,
    arm: Arm,
):
    """Tell which objects (N,) the closing gripper is stopped by: near the tool, each finger open by a share of it."""
    env = wp.tid()
    is_held = wp.length(vector(object, env) - vector(tool, env)) < distance
    is_held = is_held and action[env, action.shape[1] - 1] <= 0.0
    for i in range(openings.shape[1]):
        share = openings[env, i] / width[env]
        is_held = is_held and share > least and share < most
    held[env] = is_held
