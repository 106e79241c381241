# SPDX-License-Identifier: BSD-3-Clause
"""The matrices of :mod:`isaaclab_pc.sensors.camera_matrices` on the CPU."""

import numpy as np
from numba import njit

f32 = np.float32


@njit(inline="always")
def _rotation(quats, env):
    """Return the rows of a rotation matrix; the identity where there are no quaternions."""
    if quats.shape[0] == 0:
        one, zero = f32(1.0), f32(0.0)
        return (one, zero, zero), (zero, one, zero), (zero, zero, one)
    x, y, z, w = quats[env, 0], quats[env, 1], quats[env, 2], quats[env, 3]
    s = f32(2.0) / (x * x + y * y + z * z + w * w)
    one = f32(1.0)
    return (
        (one - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)),
        (s * (x * y + z * w), one - s * (x * x + z * z), s * (y * z - x * w)),
        (s * (x * z - y * w), s * (y * z + x * w), one - s * (x * x + y * y)),
    )


@njit(inline="always")
def _position(positions, env):
    if positions.shape[0] == 0:
        return f32(0.0), f32(0.0), f32(0.0)
    return positions[env, 0], positions[env, 1], positions[env, 2]


@njit(error_model="numpy", cache=True)  # A focal length of 0 gives no points, not an exception.
def ray_transforms(intrinsics, camera_pos, camera_quat, frame_pos, frame_quat, out):
    """Fill ``out``; see :func:`isaaclab_pc.sensors.camera_matrices.ray_matrices`. Empty frames are the world's."""
    for env in range(out.shape[0]):
        f0, f1, f2 = _rotation(frame_quat, env)
        fx, fy, fz = _position(frame_pos, env)
        for c in range(out.shape[1]):
            r0, r1, r2 = _rotation(camera_quat[env], c)
            k = intrinsics[env, c]
            x, y, z = camera_pos[env, c, 0] - fx, camera_pos[env, c, 1] - fy, camera_pos[env, c, 2] - fz
            for axis in range(3):
                a, b, d = f0[axis], f1[axis], f2[axis]
                along_u = (a * r0[0] + b * r1[0] + d * r2[0]) / k[0, 0]
                along_v = (a * r0[1] + b * r1[1] + d * r2[1]) / k[1, 1]
                forward = a * r0[2] + b * r1[2] + d * r2[2]
                out[env, c, axis, 0] = along_u
                out[env, c, axis, 1] = along_v
                out[env, c, axis, 2] = forward - k[0, 2] * along_u - k[1, 2] * along_v
                out[env, c, axis, 3] = a * x + b * y + d * z


@njit(error_model="numpy", cache=True)
def frame_changes(from_pos, from_quat, to_pos, to_quat, out):
    """Fill ``out``; see :func:`isaaclab_pc.sensors.camera_matrices.frame_change`. Empty frames are the world's."""
    for env in range(out.shape[0]):
        f0, f1, f2 = _rotation(from_quat, env)
        t0, t1, t2 = _rotation(to_quat, env)
        fx, fy, fz = _position(from_pos, env)
        tx, ty, tz = _position(to_pos, env)
        for axis in range(3):
            a, b, d = t0[axis], t1[axis], t2[axis]
            for column in range(3):
                out[env, axis, column] = a * f0[column] + b * f1[column] + d * f2[column]
            out[env, axis, 3] = a * (fx - tx) + b * (fy - ty) + d * (fz - tz)
