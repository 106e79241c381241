# SPDX-License-Identifier: BSD-3-Clause
"""Warp kernels of the point cloud."""

import warp as wp


@wp.kernel(enable_backward=False)
def sample_points(
    depth: wp.array3d(dtype=wp.float32),
    labels: wp.array3d(dtype=wp.int32),
    removed: wp.array(dtype=wp.bool),
    intrinsics: wp.array(dtype=wp.mat33f),
    camera_pos: wp.array(dtype=wp.vec3f),
    camera_quat: wp.array(dtype=wp.quatf),
    origin: wp.array(dtype=wp.vec3f),
    frame_pos: wp.array(dtype=wp.vec3f),
    frame_quat: wp.array(dtype=wp.quatf),
    crop_lower: wp.vec3f,
    crop_upper: wp.vec3f,
    seed: wp.int32,
    draw: wp.array(dtype=wp.int32),
    points: wp.array2d(dtype=wp.vec3f),
    count: wp.array(dtype=wp.int32),
) -> None:
    """Unproject, crop and draw K pixels of one image per thread, uniformly without replacement.

    Draws by reservoir sampling (Vitter 1985, algorithm R), so nothing of the image's size is stored.
    """
    env = wp.tid()
    num_points = points.shape[1]
    rotation = wp.quat_to_matrix(camera_quat[env])
    position = camera_pos[env] - origin[env]
    k = intrinsics[env]
    dx = wp.vec3f(rotation[0, 0], rotation[1, 0], rotation[2, 0]) / k[0, 0]
    dy = wp.vec3f(rotation[0, 1], rotation[1, 1], rotation[2, 1]) / k[1, 1]
    dz = wp.vec3f(rotation[0, 2], rotation[1, 2], rotation[2, 2])
    state = wp.rand_init(seed, draw[env])
    has_labels = labels.shape[0] > 0

    valid = wp.int32(0)
    for v in range(depth.shape[1]):
        row_ray = dz + (float(v) + 0.5 - k[1, 2]) * dy
        for u in range(depth.shape[2]):
            z = depth[env, v, u]
            if not z > 0.0:
                continue
            # Warp evaluates both sides of `and`, and without labels the inner read is out of bounds.
            if has_labels:  # noqa: SIM102
                if removed[labels[env, v, u]]:
                    continue
            point = position + z * (row_ray + (float(u) + 0.5 - k[0, 2]) * dx)
            inside = (
                point[0] >= crop_lower[0]
                and point[1] >= crop_lower[1]
                and point[2] >= crop_lower[2]
                and point[0] <= crop_upper[0]
                and point[1] <= crop_upper[1]
                and point[2] <= crop_upper[2]
            )
            if inside:
                slot = valid
                if valid >= num_points:
                    slot = wp.randi(state, 0, valid + 1)
                if slot < num_points:
                    points[env, slot] = point
                valid += 1

    drawn = wp.min(valid, num_points)
    count[env] = drawn
    inverse = wp.quat_inverse(frame_quat[env])
    for i in range(drawn):
        points[env, i] = wp.quat_rotate(inverse, points[env, i] - frame_pos[env])
    for i in range(drawn, num_points):
        if drawn > 0:
            points[env, i] = points[env, i % drawn]
        else:
            points[env, i] = wp.vec3f(0.0)
