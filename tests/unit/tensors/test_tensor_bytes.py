# SPDX-License-Identifier: BSD-3-Clause
from types import SimpleNamespace

import torch
import warp as wp
from tensordict import TensorDict
from torch import nn

from isaaclab_pc.tensors.tensor_bytes import tensor_bytes


def test_tensors_modules_arrays_and_containers_count() -> None:
    assert tensor_bytes(torch.zeros(10, 3)) == 120
    assert tensor_bytes(nn.Linear(4, 2)) == 40
    assert tensor_bytes(wp.zeros(5, dtype=wp.vec3f, device="cpu")) == 60
    assert tensor_bytes({"a": torch.zeros(2), "b": [torch.zeros(3, dtype=torch.float16), None, "text"]}) == 14
    assert tensor_bytes(TensorDict({"points": torch.zeros(4, 2), "rest": {"x": torch.zeros(4)}}, [4])) == 48


def test_views_of_one_storage_count_once() -> None:
    tensor = torch.zeros(8)
    assert tensor_bytes(tensor, [tensor[:2], tensor.view(2, 4)], SimpleNamespace(t=tensor)) == 32
    assert tensor_bytes(tensor[:1]) == 32


def test_attributes_count_but_not_theirs() -> None:
    inner = SimpleNamespace(t=torch.zeros(100))
    outer = SimpleNamespace(t=torch.zeros(1), many={"u": torch.zeros(2)}, inner=inner)
    assert tensor_bytes(outer) == 12


def test_the_state_of_an_optimizer_counts_after_its_first_step() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    assert tensor_bytes(optimizer.state) == 0
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    # Two moments of each of the ten weights, and the step count of both tensors.
    assert tensor_bytes(optimizer.state) == 2 * 40 + 2 * 4
