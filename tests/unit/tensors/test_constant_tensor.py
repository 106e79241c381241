# SPDX-License-Identifier: BSD-3-Clause
"""Constants are made once and are ordinary tensors, whoever asks first."""

import torch

from isaaclab_pc.tensors.constant_tensor import constant_tensor


def test_the_same_numbers_are_made_once() -> None:
    first = constant_tensor((1.0, 2.5), "cpu")
    assert first.tolist() == [1.0, 2.5]
    assert first.dtype == torch.float32
    assert constant_tensor((1.0, 2.5), "cpu") is first
    assert constant_tensor((1.0, 3.5), "cpu").tolist() == [1.0, 3.5]
    assert constant_tensor((1, 2), "cpu", torch.long).dtype == torch.long


def test_a_constant_that_was_made_in_inference_mode_takes_part_in_gradients() -> None:
    with torch.inference_mode():
        constant = constant_tensor((7.0, 8.0), "cpu")
    weight = torch.ones(2, requires_grad=True)
    (weight * constant).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [7.0, 8.0]
