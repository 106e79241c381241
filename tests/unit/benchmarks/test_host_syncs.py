# SPDX-License-Identifier: BSD-3-Clause
"""The counter of synchronizations, on the operations that it is for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp
from isaaclab.controllers import DifferentialIKController, DifferentialIKControllerCfg
from isaaclab.utils.math import convert_camera_frame_orientation_convention
from isaaclab.utils.warp.warp_math import convert_camera_frame_orientation_convention_wp

from benchmarks.host_syncs import HostSyncs, Launches

X = torch.arange(12.0).reshape(4, 3)
IDS = torch.tensor([0, 2])
MASK = torch.tensor([True, False, True, False])


@torch.jit.script
def compiled(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


@torch.jit.script
def compiled_numbers(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([0.0, 0.0, 1.0], device=x.device)


@torch.jit.script
def compiled_buffer(x: torch.Tensor) -> torch.Tensor:
    return torch.empty([3], device=x.device)


def write(index: torch.Tensor | slice, value: float | torch.Tensor) -> None:
    x = X.clone()
    x[index] = value


def found_in(function: Callable[[], object]) -> dict[str, int]:
    """Return what a call waits for, and how often; all of it must be found in this file."""
    syncs = HostSyncs(ours=["tests"])
    with syncs:
        function()
    assert all(sync.where.startswith("tests/unit/benchmarks/test_host_syncs.py:") for sync in syncs.counts)
    return {sync.what: count for sync, count in syncs.counts.items()}


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda: float(X.sum()), "a number is read"),
        (lambda: bool((X > 3.0).any()), "a number is read"),
        (lambda: X.nonzero(), "nonzero"),
        (lambda: compiled(X), "nonzero"),
        (lambda: X.masked_select(X > 1.0), "masked_select"),
        (lambda: IDS.unique(), "unique"),
        (lambda: X[MASK], "a boolean mask selects"),
        (lambda: write(MASK, torch.ones(2, 3)), "a boolean mask selects"),
        (lambda: write(IDS, 0.0), "a number is written by indices"),
        (lambda: torch.tensor([1.0, 2.0]), "host data becomes a tensor"),
        (lambda: torch.tensor(1.0, device="cpu"), "host data becomes a tensor"),
        (lambda: X.new_tensor([1.0, 2.0]), "host data becomes a tensor"),
        (lambda: X[[0, 1]], "host data becomes a tensor"),
        (lambda: torch.from_numpy(np.zeros(3)), "host data becomes a tensor"),
        (lambda: compiled_numbers(X), "host data becomes a tensor"),
        (lambda: torch.inverse(torch.eye(3)), "a factorization is checked"),
        (lambda: torch.linalg.solve(torch.eye(3), X[:3]), "a factorization is checked"),
        (lambda: X.repeat_interleave(torch.ones_like(X[:, 0]).long(), dim=0), "repeat_interleave"),
        (lambda: X.cpu(), "cpu()"),
        (lambda: X.tolist(), "tolist()"),
        (lambda: X.numpy(), "numpy()"),
        (lambda: X.to("cpu"), "to(device)"),
        (lambda: wp.synchronize(), "synchronize()"),
        (lambda: wp.from_torch(X).numpy(), "numpy()"),
        (lambda: wp.array([1.0, 2.0], dtype=float, device="cpu"), "host data becomes a Warp array"),
    ],
)
def test_what_waits_is_counted_where_it_stands(function: Callable, what: str) -> None:
    wp.init()
    assert found_in(function).get(what) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda: write(IDS, X[IDS] + 1.0),
        lambda: write(IDS[:1], X[:1]),
        lambda: write(MASK, 0.0),
        lambda: write(slice(0, 2), 0.0),
        lambda: X.clone().index_fill_(0, IDS, 0.0),
        lambda: torch.where(X > 2.0, X, 0.0),
        lambda: torch.linalg.solve_ex(torch.eye(3), X[:3]).result,
        lambda: X[IDS],
        lambda: torch.arange(3) + torch.zeros(3),
        lambda: compiled_buffer(X),
        lambda: torch.empty(3, layout=torch.strided),
        lambda: X + torch.as_tensor(3, dtype=torch.int64),
        lambda: wp.to_torch(wp.from_torch(X), requires_grad=False),
    ],
)
def test_what_does_not_wait_is_not_counted(function: Callable) -> None:
    wp.init()
    assert found_in(function) == {}


def test_a_package_that_waits_is_told_apart_with_who_called_it() -> None:
    cfg = DifferentialIKControllerCfg(command_type="pose", ik_method="dls", ik_params={"lambda_val": 0.05})
    ik = DifferentialIKController(cfg, 2, "cpu")
    syncs = HostSyncs(ours=["tests"])
    with syncs:
        ik._compute_delta_joint_pos(torch.ones(2, 6), torch.ones(2, 6, 7))
    (sync,) = syncs.counts
    assert (sync.what, sync.is_ours) == ("a factorization is checked", False)
    assert sync.where.startswith("isaaclab/controllers/differential_ik.py:_compute_delta_joint_pos:")
    assert sync.caller.startswith("tests/unit/benchmarks/test_host_syncs.py:test_a_package_that_waits")


@wp.kernel(enable_backward=False)
def doubled(x: wp.array(dtype=wp.float32)):  # pyright: ignore[reportInvalidTypeForm]
    i = wp.tid()
    x[i] = 2.0 * x[i]


def recorded_launch() -> None:
    command: Any = wp.launch(doubled, dim=2, inputs=[wp.zeros(2, dtype=wp.float32, device="cpu")], record_cmd=True)
    command.launch()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: X + X, {"add": 1}),
        (lambda: X.clone().mul_(2.0), {"clone": 1, "mul_": 1}),
        (lambda: torch.where(X > 2.0, X, 0.0), {"gt": 1, "scalar_tensor": 1, "where": 1}),
        (lambda: torch.zeros(3), {"zeros": 1}),
        (lambda: (X[1:].t().reshape(-1), X.expand(2, 4, 3)[0], X.detach()), {"clone": 1}),
        (lambda: torch.cat([X, X[:, :0]], dim=1), {"cat": 1}),
        (lambda: compiled(X[:0]), {"nonzero": 1}),
        (lambda: (torch.empty(3), torch.empty_like(X), X.new_empty(2)), {}),
        (lambda: X[:0] + 1.0, {}),
        (lambda: wp.launch(doubled, dim=2, inputs=[wp.zeros(2, dtype=wp.float32, device="cpu")]), {"doubled": 1}),
        (recorded_launch, {"doubled": 1}),
    ],
)
def test_what_a_gpu_would_launch_is_counted(function: Callable, expected: dict[str, int]) -> None:
    wp.init()
    launches = Launches(ours=["tests"])
    with launches:
        function()
    assert all(place.where.startswith("tests/unit/benchmarks/") for place in launches.counts)
    assert {place.what: count for place, count in launches.counts.items()} == expected
    assert launches.foreign_kernels == 0


def test_a_packages_kernels_are_counted_apart_and_its_operations_are_not() -> None:
    pose = torch.tensor([[0.0, 0.0, 0.0, 1.0]])
    launches = Launches(ours=["tests"])
    with launches:
        source, result = (wp.from_torch(p, dtype=wp.quatf) for p in (pose, torch.empty_like(pose)))
        convert_camera_frame_orientation_convention_wp(source, result, "opengl", "ros", device="cpu")
        convert_camera_frame_orientation_convention(pose, "opengl", "ros")
    assert launches.foreign_kernels == 1
    assert launches.counts.total() > 5
    assert not any(place.is_ours for place in launches.counts)


def test_nothing_is_counted_outside() -> None:
    syncs = HostSyncs(ours=["tests"])
    with syncs:
        pass
    X.tolist()
    wp.synchronize()
    assert not syncs.counts
