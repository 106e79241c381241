# SPDX-License-Identifier: BSD-3-Clause
"""Recorded launches read and write the arrays that they are given, in whatever order these come."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import warp as wp

from isaaclab_pc.tensors.warp_stream import RecordedLaunches


@wp.kernel(enable_backward=False)
def add_one(values: wp.array(dtype=wp.float32), amount: wp.float32):  # pyright: ignore[reportInvalidTypeForm]
    values[wp.tid()] = values[wp.tid()] + amount


@pytest.mark.parametrize(
    "zeros", [torch.zeros, partial(wp.zeros, dtype=wp.float32, device="cpu")], ids=["torch", "warp"]
)
def test_an_array_that_comes_again_after_another_one_is_the_one_that_is_written(zeros: Callable) -> None:
    launches = RecordedLaunches("cpu")
    first, second = zeros(3), zeros(3)
    for values in (first, second, first, first, second):
        launches.launch("add", add_one, 3, [values], lambda: [1.0])
    assert first.numpy().tolist() == [3.0] * 3
    assert second.numpy().tolist() == [2.0] * 3
