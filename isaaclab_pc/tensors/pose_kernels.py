# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of poses: one launch each, where a chain of torch's operations would take a dozen.

Quaternions are (x, y, z, w). An array without rows stands for zeros: a frame at the origin.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.func
def vector(rows: wp.array2d(dtype=wp.float32), row: wp.int32) -> wp.vec3f:
    """Return a position or a direction; zeros where there are none."""
    if rows.shape[0] == 0:
        return wp.vec3f()
    return wp.vec3f(rows[row, 0], rows[row, 1], rows[row, 2])


@wp.func
def quaternion(rows: wp.array2d(dtype=wp.float32), row: wp.int32) -> wp.quatf:
    return wp.quatf(rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3])


@wp.func
def put_vector(rows: wp.array2d(dtype=wp.float32), row: wp.int32, column: wp.int32, value: wp.vec3f):
    for axis in range(3):
        rows[row, column + axis] = value[axis]


@wp.func
def put_quaternion(rows: wp.array2d(dtype=wp.float32), row: wp.int32, column: wp.int32, value: wp.quatf):
    for axis in range(4):
        rows[row, column + axis] = value[axis]


@wp.kernel
def from_frame(
    position: wp.array2d(dtype=wp.float32),
    quat: wp.array2d(dtype=wp.float32),
    point: wp.array3d(dtype=wp.float32),
    result: wp.array3d(dtype=wp.float32),
):
    """Express points of moving frames (N, M, 3) in the frame that these move in."""
    row = wp.tid()
    origin = vector(position, row)
    turn = quaternion(quat, row)
    for i in range(point.shape[1]):
        put_vector(result[row], i, 0, origin + wp.quat_rotate(turn, vector(point[row], i)))


@wp.kernel
def into_frame(
    position: wp.array2d(dtype=wp.float32),
    quat: wp.array2d(dtype=wp.float32),
    point: wp.array3d(dtype=wp.float32),
    result: wp.array3d(dtype=wp.float32),
):
    """Express points (N, M, 3) in moving frames."""
    row = wp.tid()
    origin = vector(position, row)
    turn = quaternion(quat, row)
    for i in range(point.shape[1]):
        put_vector(result[row], i, 0, wp.quat_rotate_inv(turn, vector(point[row], i) - origin))


@wp.kernel
def orientation_in_frame(
    frame: wp.array2d(dtype=wp.float32), quat: wp.array2d(dtype=wp.float32), result: wp.array2d(dtype=wp.float32)
):
    """Express orientations (N, 4) in moving frames."""
    row = wp.tid()
    put_quaternion(result, row, 0, wp.quat_inverse(quaternion(frame, row)) * quaternion(quat, row))
