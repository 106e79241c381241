# SPDX-License-Identifier: BSD-3-Clause
"""Recorded launches read and write the arrays that they are given, in whatever order these come."""

import torch
import warp as wp

from isaaclab_pc.tensors.warp_stream import RecordedLaunches


@wp.kernel(enable_backward=False)
def add_one(values: wp.array(dtype=wp.float32), amount: wp.float32):  # pyright: ignore[reportInvalidTypeForm]
    values[wp.tid()] = values[wp.tid()] + amount


def test_a_tensor_that_comes_again_after_another_one_is_the_one_that_is_written() -> None:
    launches = RecordedLaunches("cpu")
    first, second = torch.zeros(3), torch.zeros(3)
    for values in (first, second, first, first, second):
        launches.launch("add", add_one, 3, [values], lambda: [1.0])
    assert first.tolist() == [3.0] * 3
    assert second.tolist() == [2.0] * 3


def test_so_is_an_array_of_warp() -> None:
    launches = RecordedLaunches("cpu")
    first, second = (wp.zeros(3, dtype=wp.float32, device="cpu") for _ in range(2))
    for values in (first, second, first):
        launches.launch("add", add_one, 3, [values], lambda: [1.0])
    assert first.numpy().tolist() == [2.0] * 3
    assert second.numpy().tolist() == [1.0] * 3
