# SPDX-License-Identifier: BSD-3-Clause
"""Pixels are drawn from images of any size and layout, on CUDA the same ones as on the CPU."""

import gc
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors import DepthToCloud
from isaaclab_pc.sensors.cloud_checks import SAMPLERS
from isaaclab_pc.sensors.pixel_sampler import PixelSampler
from isaaclab_pc.sensors.point_sampler import CANDIDATES
from tests.unit.sensors.sampler_helpers import Sizes, lens_tables, on, operator, pixel_sampler, run, scene

EXACT = ("random", "grid")
samplers = pytest.mark.parametrize("sampler", EXACT)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def storages() -> dict[int, int]:
    """Return the address and the bytes of what all tensors of this process hold."""
    tensors = [thing for thing in gc.get_objects() if type(thing) is torch.Tensor]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


@samplers
def test_the_middle_of_each_pixel_is_what_there_is_without_a_lens(sampler: str) -> None:
    sizes = [(17, 13), (24, 32)]
    draw, inputs = pixel_sampler("cpu", 5, sizes, 64, sampler), scene(5, sizes)
    expected = run(draw, 64, inputs)
    assert run(draw, 64, inputs, centers=lens_tables(sizes)) != expected
    middles = [torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1) + 0.5 for h, w in sizes]
    assert run(draw, 64, inputs, centers=tuple(middles)) == expected


@samplers
def test_a_lens_bends_the_ray_of_each_pixel(sampler: str) -> None:
    sizes = [(17, 13), (24, 32)]
    inputs, centers = scene(5, sizes, moved=False), lens_tables(sizes)
    output = run(pixel_sampler("cpu", 5, sizes, 64, sampler), 64, inputs, centers=centers)
    first_pixel = sizes[0][0] * sizes[0][1]
    for env in range(5):
        for pixel, point in zip(output.pixels[env].tolist(), output.points[env], strict=True):
            camera = int(pixel >= first_pixel)
            at = pixel - camera * first_pixel
            depth, center = inputs[0][camera][env].view(-1)[at], centers[camera].view(-1, 2)[at]
            matrix = inputs[3][env, camera]
            expected = depth * (matrix[:, :2] @ center + matrix[:, 2]) + matrix[:, 3]
            torch.testing.assert_close(point, expected, atol=1e-5, rtol=0)


@pytest.mark.gpu
@samplers
def test_cuda_gives_the_same_cloud_through_lenses(sampler: str) -> None:
    sizes = [(17, 13), (24, 32)]
    cpu, cuda = (pixel_sampler(device, 5, sizes, 64, sampler) for device in ("cpu", "cuda"))
    inputs, centers = scene(5, sizes), lens_tables(sizes)
    expected = run(cpu, 64, inputs, centers=centers)
    assert run(cuda, 64, on("cuda", inputs), centers=on("cuda", [centers])[0]) == expected


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


@pytest.mark.gpu
@samplers
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cuda_gives_the_same_cloud_from_poses(sampler: str, dtype: Any) -> None:
    cpu, cuda = (
        operator(5, [(24, 32), (17, 13)], 64, sampler, dtype=dtype, device=device) for device in ("cpu", "cuda")
    )
    # In the second call the environments that are left out keep their clouds.
    for mask in (ALL, SOME):
        expected, cloud = (make(**poses(make, mask)) for make in (cpu, cuda))
        for name in ("points", "pixels", "count"):
            assert torch.equal(getattr(expected, name), getattr(cloud, name).cpu())
        assert cloud.points.dtype == expected.points.dtype == getattr(torch, dtype)


@devices
@pytest.mark.parametrize("sampler", ["voxel", "fps"])
def test_other_samplers_choose_from_random_pixels(device: str, sampler: str) -> None:
    sizes, num_points = [(20, 24), (16, 16)], 40
    make_given = operator(5, sizes, CANDIDATES * num_points, "random", dtype="float32")
    make = operator(5, sizes, num_points, sampler, voxel_size=0.1, dtype="float32", device=device)
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


@pytest.mark.gpu
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
def test_images_of_any_size_give_the_same_cloud_on_cuda(
    num_envs: int, sizes: Sizes, share: float, sampler: str, labelled: bool, moved: bool, seed: int
) -> None:
    num_points = max(1, int(share * sum(height * width for height, width in sizes)))
    cpu, cuda = (pixel_sampler(device, num_envs, sizes, num_points, sampler) for device in ("cpu", "cuda"))
    inputs = scene(num_envs, sizes, seed, labelled=labelled, moved=moved)
    assert run(cuda, num_points, on("cuda", inputs)) == run(cpu, num_points, inputs)


@pytest.mark.parametrize("size", [(2**15 + 1, 1), (1, 2**16 + 1)])
def test_an_image_too_large_to_number_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="at most 32768 x 65536"):
        operator(1, [size], 1, "random")


@pytest.mark.parametrize("size", [(2**15, 1), (1, 2**16)])
def test_the_largest_images_can_be_numbered(size: tuple[int, int]) -> None:
    inputs = scene(1, [size], labelled=False)
    inputs[3][..., :2] /= 1000
    output = run(pixel_sampler("cpu", 1, [size], 100, "grid"), 100, inputs)
    assert output.pixels.max() > 2**14
    depth = inputs[0][0].view(-1)[output.pixels[0].long()]
    assert ((depth > 0.1) & (depth < 1.35)).all()


@devices
@samplers
def test_inputs_may_be_views(device: str, sampler: str) -> None:
    draw = pixel_sampler(device, 4, [(16, 24)] * 2, 50, sampler)
    inputs = on(device, scene(4, [(16, 24)] * 2))
    expected = run(draw, 50, inputs)
    inputs[0], inputs[1] = torch.stack(inputs[0], dim=1).unbind(1), torch.stack(inputs[1], dim=1).unbind(1)
    inputs[3], inputs[4] = inputs[3].mT.contiguous().mT, inputs[4].mT.contiguous().mT
    assert not any(tensor.is_contiguous() for tensor in (inputs[0][0], inputs[1][1], inputs[3], inputs[4]))
    assert run(draw, 50, inputs) == expected


@devices
@samplers
def test_other_environments_keep_their_cloud(device: str, sampler: str) -> None:
    draw = pixel_sampler(device, 6, [(16, 24)], 50, sampler)
    inputs = on(device, scene(6, [(16, 24)]))
    everything = run(draw, 50, inputs)
    mask = torch.tensor([True, False, True, False, False, True])
    # The first environment may be one of them.
    for drawn in (mask, ~mask):
        inputs[6] = drawn.to(device)
        output = run(draw, 50, inputs, fill=7.0)
        for name in ("kept", "points", "pixels", "count"):
            assert torch.equal(getattr(output, name)[drawn], getattr(everything, name)[drawn])
        assert (output.points[~drawn] == 7).all()


@devices
@samplers
@pytest.mark.parametrize("sizes", [[(64, 64)], [(128, 128)], [(84, 84), (48, 64)]])
def test_scratch_is_little_more_than_a_bit_a_pixel(device: str, sampler: str, sizes: Sizes) -> None:
    reference = operator(16, sizes, 256, sampler, device=device)
    before = storages()
    draw = PixelSampler(reference)
    new = {address: size for address, size in storages().items() if address not in before}
    assert 0 < sum(new.values()) <= 0.13 * 16 * sum(height * width for height, width in sizes)
    del draw


@pytest.mark.gpu
@samplers
def test_a_call_on_cuda_allocates_nothing_and_is_captured(sampler: str) -> None:
    sizes = [(48, 64), (32, 32)]
    cpu, cuda = (pixel_sampler(device, 64, sizes, 256, sampler) for device in ("cpu", "cuda"))
    inputs, others = scene(64, sizes), scene(64, sizes, seed=1)
    static = on("cuda", inputs)
    output = run(cuda, 256, static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        before = torch.cuda.memory_allocated()
        cuda(*static, *vars(output).values())
    assert torch.cuda.memory_allocated() == before
    # New images, poses and keys where the old ones were.
    for images, new_images in zip(static[:2], others[:2], strict=True):
        for image, new_image in zip(images, new_images, strict=True):
            image.copy_(new_image)
    for tensor, new in zip(static[2:], others[2:], strict=True):
        tensor.copy_(new)
    # The same operator outside of the graph, in between.
    run(cuda, 256, on("cuda", inputs))
    graph.replay()
    torch.cuda.synchronize()
    assert output == run(cpu, 256, others)


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
