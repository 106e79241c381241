# SPDX-License-Identifier: BSD-3-Clause
"""The Warp kernel of the contact monitor: one launch a step."""

import warp as wp

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def note_usage(
    points: wp.array(dtype=wp.int32),
    pairs: wp.array(dtype=wp.int32),
    rows: wp.array(dtype=wp.int32),
    flags: wp.array(dtype=wp.int32),
    dropped: wp.int32,
    max_contacts: wp.int32,
    max_rows: wp.int32,
    most_contacts: wp.array(dtype=wp.int32),
    shares: wp.array(dtype=wp.float32),
    most_rows: wp.array(dtype=wp.int32),
):
    """Keep the most contacts (1,) and rows (N,) that were needed, and the shares of the fuller buffer (N,)."""
    env = wp.tid()
    needed = wp.max(most_rows[env], rows[env])
    most_rows[env] = needed
    used = wp.float32(needed) / wp.float32(max_rows)
    if env == 0:
        contacts = wp.max(most_contacts[0], wp.max(points[0], pairs[0]))
        most_contacts[0] = contacts
        used = wp.max(used, wp.float32(contacts) / wp.float32(max_contacts))
    if flags[env] & dropped != 0:
        used = wp.max(used, 1.0)
    shares[env] = wp.max(shares[env], used)
