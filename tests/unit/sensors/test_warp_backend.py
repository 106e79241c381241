# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA backend takes the CPU's pixels or some of its candidates; without a GPU it runs on Warp's CPU device."""

import gc
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.cloud_checks import SAMPLERS
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


@devices
@samplers
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_operator_gives_the_same_cloud_from_poses(device: str, sampler: str, dtype: Any) -> None:
    sizes = [(24, 32), (17, 13)]
    depths, labels, removed, _, _, keys, _ = scene(5, sizes)
    intrinsics = torch.stack([torch.tensor([[40.0, 0, w / 2], [0, 35, h / 2], [0, 0, 1]]) for h, w in sizes])
    generator = torch.Generator().manual_seed(0)
    pos = torch.rand(5, 2, 3, generator=generator) - 0.5
    quat = torch.nn.functional.normalize(torch.randn(5, 2, 4, generator=generator), dim=-1)
    inputs = [depths, intrinsics.repeat(5, 1, 1, 1), pos, quat, keys]
    numba, warp = (
        operator(5, sizes, 64, sampler, voxel_size=0.1, dtype=dtype, device=where, backend=name)
        for where, name in (("cpu", "numba"), (device, "warp"))
    )
    # In the second call the environments that are left out keep their clouds.
    for mask in (None, torch.tensor([True, False, True, False, False])):
        inputs[4] = inputs[4] + 1
        expected, cloud = (
            backend(
                *on(str(backend.device), inputs),
                labels=[image.to(backend.device) for image in labels],
                removed=removed.to(backend.device),
                output_pos=pos[:, 0].to(backend.device),
                output_quat=quat[:, 0].to(backend.device),
                mask=None if mask is None else mask.to(backend.device),
            )
            for backend in (numba, warp)
        )
        assert cloud.points.dtype == expected.points.dtype == getattr(torch, dtype)
        assert torch.equal(expected.pixels, cloud.pixels.cpu())
        assert torch.equal(expected.points, cloud.points.cpu())


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
@pytest.mark.parametrize("sampler", ["voxel", "fps"])
def test_other_samplers_choose_from_random_pixels(device: str, sampler: str) -> None:
    sizes, num_points = [(20, 24), (16, 16)], 40
    _, warp = backends(device, 6, sizes, num_points, sampler)
    everything, _ = backends("cpu", 6, sizes, 20 * 24 + 16 * 16, "random")
    inputs = scene(6, sizes)
    inputs[6] = torch.tensor([True, True, True, True, False, True])
    output = run(warp, num_points, on(device, inputs), fill=7.0)
    valid = run(everything, 20 * 24 + 16 * 16, inputs)
    assert (output.points[4] == 7).all()
    for env in (0, 1, 2, 3, 5):
        total = int(valid.count[env])
        point_of = dict(zip(valid.pixels[env, :total].tolist(), valid.points[env, :total], strict=True))
        pixels = output.pixels[env].tolist()
        assert int(output.count[env]) == min(total, num_points) == len(set(pixels))
        expected = torch.stack([point_of[pixel] for pixel in pixels])
        torch.testing.assert_close(output.points[env].cpu().float(), expected.float(), atol=1e-5, rtol=0)


@devices
@samplers
@pytest.mark.parametrize("sizes", [[(64, 64)], [(128, 128)], [(84, 84), (48, 64)]])
def test_scratch_is_little_more_than_a_bit_a_pixel(device: str, sampler: str, sizes: Sizes) -> None:
    reference = operator(16, sizes, 256, sampler, voxel_size=0.1)
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
    _, warp = backends("cuda", 8, [(32, 32)], 64, sampler)
    inputs = on("cuda", scene(8, [(32, 32)]))
    run(warp, 64, inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(warp, 64, inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
