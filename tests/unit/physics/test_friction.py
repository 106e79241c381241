# SPDX-License-Identifier: BSD-3-Clause
"""Friction through PhysX' views; the sliding itself is tested on real physics."""

from types import SimpleNamespace

import torch
import warp as wp

from isaaclab_pc.physics.friction import ShapeFriction


class View:
    """Static friction, dynamic friction and restitution of the shapes, as the view of one asset holds them."""

    def __init__(self) -> None:
        self.materials = torch.tensor([1.0, 0.5, 0.1]).repeat(3, 2, 1)

    def get_material_properties(self) -> wp.array:
        return wp.from_torch(self.materials.clone())

    def set_material_properties(self, values: wp.array, indices: wp.array) -> None:
        rows = wp.to_torch(indices).long()
        self.materials[rows] = wp.to_torch(values)[rows]


def test_static_and_dynamic_friction_keep_their_ratio_however_often_they_are_scaled() -> None:
    view = View()
    friction = ShapeFriction(SimpleNamespace(root_view=view), physics=None)
    for factor in (3.0, 2.0):
        friction.scale(torch.tensor([0, 2]), torch.tensor([factor, factor / 2]))
    expected = torch.tensor([[2.0, 1.0, 0.1], [1.0, 0.5, 0.1], [1.0, 0.5, 0.1]])
    torch.testing.assert_close(view.materials, expected[:, None].expand(-1, 2, -1))
