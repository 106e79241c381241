# SPDX-License-Identifier: BSD-3-Clause
"""The bounds of primitives agree with those that MuJoCo computes."""

import mujoco
import torch

from isaaclab_pc.physics.broadphase import shape_bounds

XML = """
<mujoco><worldbody>
  <geom type="sphere" size="0.3"/>
  <geom type="capsule" size="0.1 0.4"/>
  <geom type="ellipsoid" size="0.1 0.5 0.2"/>
  <geom type="cylinder" size="0.3 0.4"/>
  <geom type="box" size="0.1 0.2 0.3"/>
</worldbody></mujoco>
"""


def test_bounds_are_mujocos_own() -> None:
    model = mujoco.MjModel.from_xml_string(XML)  # pyright: ignore[reportAttributeAccessIssue]
    kind = torch.tensor(model.geom_type)
    size = torch.tensor(model.geom_size, dtype=torch.float32)
    radius, half = shape_bounds(kind, torch.stack([size, 2.0 * size]))
    expected = torch.tensor(model.geom_rbound, dtype=torch.float32)
    torch.testing.assert_close(radius, torch.stack([expected, 2.0 * expected]))
    box = torch.tensor(model.geom_aabb, dtype=torch.float32).reshape(-1, 2, 3)[:, 1]
    torch.testing.assert_close(half, torch.stack([box, 2.0 * box]))
