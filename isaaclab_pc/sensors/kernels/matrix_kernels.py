# SPDX-License-Identifier: BSD-3-Clause
"""The matrices of :mod:`isaaclab_pc.sensors.camera_matrices`, bit for bit the same on the CPU and on CUDA.

One thread for each environment: there are few cameras, and they share the frame.
"""

import warp as wp

from isaaclab_pc.tensors.pose_kernels import vector

# Products are rounded before they are added, as on the CPU: the samplers' pixels hang on the last bit.
wp.set_module_options({"enable_backward": False, "fuse_fp": False, "fast_math": False, "default_grid_stride": False})


@wp.func
def rotation(quats: wp.array2d(dtype=wp.float32), row: wp.int32) -> wp.mat33f:
    """Return a rotation matrix; the identity where there are no quaternions."""
    if quats.shape[0] == 0:
        return wp.mat33f(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    x = quats[row, 0]
    y = quats[row, 1]
    z = quats[row, 2]
    w = quats[row, 3]
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return wp.mat33f(
        1.0 - s * (y * y + z * z),
        s * (x * y - z * w),
        s * (x * z + y * w),
        s * (x * y + z * w),
        1.0 - s * (x * x + z * z),
        s * (y * z - x * w),
        s * (x * z - y * w),
        s * (y * z + x * w),
        1.0 - s * (x * x + y * y),
    )


@wp.func
def along(a: wp.mat33f, i: wp.int32, b: wp.mat33f, j: wp.int32) -> wp.float32:
    """Return the product of column i of ``a`` and column j of ``b``."""
    return a[0, i] * b[0, j] + a[1, i] * b[1, j] + a[2, i] * b[2, j]


@wp.kernel
def ray_transforms(
    intrinsics: wp.array4d(dtype=wp.float32),
    camera_pos: wp.array3d(dtype=wp.float32),
    camera_quat: wp.array3d(dtype=wp.float32),
    frame_pos: wp.array2d(dtype=wp.float32),
    frame_quat: wp.array2d(dtype=wp.float32),
    transforms: wp.array4d(dtype=wp.float32),
):
    """Fill what :func:`isaaclab_pc.sensors.camera_matrices.ray_matrices` returns. Empty frames are the world's."""
    env = wp.tid()
    f = rotation(frame_quat, env)
    origin = vector(frame_pos, env)
    for camera in range(transforms.shape[1]):
        r = rotation(camera_quat[env], camera)
        offset = vector(camera_pos[env], camera) - origin
        focal_u = intrinsics[env, camera, 0, 0]
        focal_v = intrinsics[env, camera, 1, 1]
        center_u = intrinsics[env, camera, 0, 2]
        center_v = intrinsics[env, camera, 1, 2]
        for axis in range(3):
            along_u = along(f, axis, r, 0) / focal_u
            along_v = along(f, axis, r, 1) / focal_v
            transforms[env, camera, axis, 0] = along_u
            transforms[env, camera, axis, 1] = along_v
            transforms[env, camera, axis, 2] = along(f, axis, r, 2) - center_u * along_u - center_v * along_v
            transforms[env, camera, axis, 3] = f[0, axis] * offset[0] + f[1, axis] * offset[1] + f[2, axis] * offset[2]


@wp.kernel
def frame_changes(
    from_pos: wp.array2d(dtype=wp.float32),
    from_quat: wp.array2d(dtype=wp.float32),
    to_pos: wp.array2d(dtype=wp.float32),
    to_quat: wp.array2d(dtype=wp.float32),
    transforms: wp.array3d(dtype=wp.float32),
):
    """Fill what :func:`isaaclab_pc.sensors.camera_matrices.frame_change` returns. Empty frames are the world's."""
    env = wp.tid()
    f = rotation(from_quat, env)
    t = rotation(to_quat, env)
    offset = vector(from_pos, env) - vector(to_pos, env)
    for axis in range(3):
        for column in range(3):
            transforms[env, axis, column] = along(t, axis, f, column)
        transforms[env, axis, 3] = t[0, axis] * offset[0] + t[1, axis] * offset[1] + t[2, axis] * offset[2]
