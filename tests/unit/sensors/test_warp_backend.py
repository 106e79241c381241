# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA backend takes the CPU's pixels; without a GPU it runs on Warp's CPU device."""

import gc
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.cloud_checks import SAMPLERS
from isaaclab_pc.sensors.point_sampler import CANDIDATES
from isaaclab_pc.sensors.warp_backend import WarpBackend
from tests.unit.sensors.backend_helpers import Sizes, backends, lens_tables, on, operator, run, scene

EXACT = ("random", "grid")
samplers = pytest.mark.parametrize("sampler", EXACT)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def storages() -> dict[int, int]:
    """Return the address and the bytes of what all tensors of this process hold."""
    tensors = [thing for thing in gc.get_objects() if type(thing) is torch.Tensor]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


@devices
@samplers
def test_both_backends_give_the_same_cloud_through_lenses(device: str, sampler: str) -> None:
    sizes = [(17, 13), (24, 32)]
    numba, warp = backends(device, 5, sizes, 64, sampler)
    inputs, centers = scene(5, sizes), lens_tables(sizes)
    expected = run(numba, 64, inputs, centers=centers)
    assert run(warp, 64, on(device, inputs), centers=on(device, [centers])[0]) == expected
    assert run(numba, 64, inputs) != expected
    # The middle of each pixel is what there is without a lens, in the same operator.
    middles = [torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1) + 0.5 for h, w in sizes]
    assert run(numba, 64, inputs, centers=tuple(middles)) == run(numba, 64, inputs)
    assert run(warp, 64, on(device, inputs)) == run(numba, 64, inputs)


SOME = torch.tensor([True, False, True, False, False])
ALL = torch.ones_like(SOME)


def poses(make: DepthToCloud, mask: torch.Tensor) -> dict[str, Any]:
    """Return the arguments of an operator, on its device; another mask is another draw."""
    num_envs, sizes = len(mask), make.image_sizes
    depths, labels, removed, _, _, keys, _ = scene(num_envs, sizes)
    intrinsics = torch.stack([torch.tensor([[40.0, 0, w / 2], [0, 35, h / 2], [0, 0, 1]]) for h, w in sizes])
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(num_envs, len(sizes), 3, generator=generator) - 0.5
    quat = torch.nn.functional.normalize(torch.randn(num_envs, len(sizes), 4, generator=generator), dim=-1)
    inputs = {"depth": depths, "labels": labels, "removed": removed, "keys": keys + int(mask.sum()), "mask": mask}
    inputs |= {"intrinsics": intrinsics.repeat(num_envs, 1, 1, 1), "camera_pos": pos, "camera_quat": quat}
    inputs |= {"output_pos": pos[:, 0], "output_quat": quat[:, 0]}
    return dict(zip(inputs, on(str(make.device), list(inputs.values())), strict=True))


@pytest.mark.parametrize(
    ("device", "sampler"),
    [*(("cpu", name) for name in SAMPLERS), *(pytest.param("cuda", name, marks=pytest.mark.gpu) for name in EXACT)],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_operator_gives_the_same_cloud_from_poses(device: str, sampler: str, dtype: Any) -> None:
    numba, warp = (
        operator(5, [(24, 32), (17, 13)], 64, sampler, voxel_size=0.1, dtype=dtype, device=where, backend=name)
        for where, name in (("cpu", "numba"), (device, "warp"))
    )
    # In the second call the environments that are left out keep their clouds.
    for mask in (ALL, SOME):
        expected, cloud = (make(**poses(make, mask)) for make in (numba, warp))
        assert cloud.points.dtype == expected.points.dtype == getattr(torch, dtype)
        for name in ("points", "pixels", "count"):
            assert torch.equal(getattr(expected, name), getattr(cloud, name).cpu())


@devices
@pytest.mark.parametrize("sampler", ["voxel", "fps"])
def test_other_samplers_choose_from_random_pixels(device: str, sampler: str) -> None:
    sizes, num_points = [(20, 24), (16, 16)], 40
    make_given = operator(5, sizes, CANDIDATES * num_points, "random", dtype="float32")
    make = operator(5, sizes, num_points, sampler, voxel_size=0.1, dtype="float32", device=device, backend="warp")
    before = make(**poses(make, ALL)).points
    given, cloud = make_given(**poses(make_given, SOME)), make(**poses(make, SOME))
    assert torch.equal(cloud.points[~SOME], before[~SOME])
    for env in SOME.nonzero().flatten().tolist():
        total = int(given.count[env])
        point_of = dict(zip(given.pixels[env, :total].tolist(), given.points[env, :total], strict=True))
        pixels = cloud.pixels[env].tolist()
        assert int(cloud.count[env]) == min(total, num_points) == len(set(pixels))
        expected = torch.stack([point_of[pixel] for pixel in pixels])
        torch.testing.assert_close(cloud.points[env].cpu(), expected, atol=1e-5, rtol=0)


@devices
@given(
    num_envs=st.integers(1, 6),
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=1, max_size=3),
    share=st.floats(0.01, 1.0),
    sampler=st.sampled_from(EXACT),
    labelled=st.booleans(),
    moved=st.booleans(),
    seed=st.integers(0, 2**31),
)
@example(num_envs=5, sizes=[(64, 64)], share=0.125, sampler="random", labelled=False, moved=False, seed=0)
@settings(max_examples=60, deadline=None)
def test_images_of_any_size_give_the_same_cloud(
    device: str, num_envs: int, sizes: Sizes, share: float, sampler: str, labelled: bool, moved: bool, seed: int
) -> None:
    num_points = max(1, int(share * sum(height * width for height, width in sizes)))
    numba, warp = backends(device, num_envs, sizes, num_points, sampler)
    inputs = scene(num_envs, sizes, seed, labelled=labelled, moved=moved)
    assert run(warp, num_points, on(device, inputs)) == run(numba, num_points, inputs)


@pytest.mark.parametrize("size", [(2**15 + 1, 1), (1, 2**16 + 1)])
def test_an_image_too_large_to_number_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="at most 32768 x 65536"):
        operator(1, [size], 1, "random", backend="warp")


@pytest.mark.parametrize("size", [(2**15, 1), (1, 2**16)])
def test_the_largest_images_give_the_same_cloud(size: tuple[int, int]) -> None:
    numba, warp = backends("cpu", 1, [size], 100, "grid")
    inputs = scene(1, [size], labelled=False)
    inputs[3][..., :2] /= 1000
    expected = run(numba, 100, inputs)
    assert expected.pixels.max() > 2**14
    assert run(warp, 100, inputs) == expected


@devices
@samplers
def test_inputs_may_be_views(device: str, sampler: str) -> None:
    numba, warp = backends(device, 4, [(16, 24)] * 2, 50, sampler)
    inputs = scene(4, [(16, 24)] * 2)
    expected = run(numba, 50, inputs)
    inputs = on(device, inputs)
    inputs[0], inputs[1] = torch.stack(inputs[0], dim=1).unbind(1), torch.stack(inputs[1], dim=1).unbind(1)
    inputs[3], inputs[4] = inputs[3].mT.contiguous().mT, inputs[4].mT.contiguous().mT
    assert not any(tensor.is_contiguous() for tensor in (inputs[0][0], inputs[1][1], inputs[3], inputs[4]))
    assert run(warp, 50, inputs) == expected


@devices
@samplers
def test_other_environments_keep_their_cloud(device: str, sampler: str) -> None:
    numba, warp = backends(device, 6, [(16, 24)], 50, sampler)
    inputs = scene(6, [(16, 24)])
    inputs[6] = torch.tensor([True, False, True, False, False, True])
    output = run(warp, 50, on(device, inputs), fill=7.0)
    assert output == run(numba, 50, inputs, fill=7.0)
    assert (output.points[1] == 7).all()
    # The first environment may be one of them.
    inputs[6] = ~inputs[6]
    assert run(warp, 50, on(device, inputs), fill=7.0) == run(numba, 50, inputs, fill=7.0)


@devices
@samplers
@pytest.mark.parametrize("sizes", [[(64, 64)], [(128, 128)], [(84, 84), (48, 64)]])
def test_scratch_is_little_more_than_a_bit_a_pixel(device: str, sampler: str, sizes: Sizes) -> None:
    reference = operator(16, sizes, 256, sampler)
    # Warp asks for the number of the device.
    reference.device = torch.empty(0, device=device).device
    before = storages()
    backend = WarpBackend(reference)
    new = {address: size for address, size in storages().items() if address not in before}
    assert 0 < sum(new.values()) <= 0.13 * 16 * sum(height * width for height, width in sizes)
    del backend


@pytest.mark.gpu
@samplers
def test_a_call_on_cuda_allocates_nothing_and_is_captured(sampler: str) -> None:
    sizes = [(48, 64), (32, 32)]
    numba, warp = backends("cuda", 64, sizes, 256, sampler)
    inputs, others = scene(64, sizes), scene(64, sizes, seed=1)
    static = on("cuda", inputs)
    output = run(warp, 256, static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        before = torch.cuda.memory_allocated()
        warp(*static, *vars(output).values())
    assert torch.cuda.memory_allocated() == before
    # New images, poses and keys where the old ones were.
    for images, new_images in zip(static[:2], others[:2], strict=True):
        for image, new_image in zip(images, new_images, strict=True):
            image.copy_(new_image)
    for tensor, new in zip(static[2:], others[2:], strict=True):
        tensor.copy_(new)
    # The same operator outside of the graph, in between.
    run(warp, 256, on("cuda", inputs))
    graph.replay()
    torch.cuda.synchronize()
    assert output == run(numba, 256, others)


@pytest.mark.gpu
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_call_on_cuda_waits_for_the_gpu(sampler: str) -> None:
    make = operator(5, [(32, 32)], 64, sampler, voxel_size=0.1, device="cuda")
    inputs = poses(make, SOME)
    make(**inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        make(**inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
