# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the depth camera depend on their keys alone; those of an episode are constant over it."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from isaaclab.utils.math import quat_apply_inverse, quat_conjugate, quat_mul

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.sensors.realism.cfg import (
    DepthRealismCfg,
    GaussianNoiseCfg,
    StereoNoiseCfg,
    StructuredLightNoiseCfg,
)
from isaaclab_pc.sensors.realism.depth_realism import DepthRealism
from tests.unit.sensors.realism_helpers import FX, everything, make, make_keys, pinhole, poses


def wrong(value: Any) -> Any:
    """Hide a value's type from the type checker."""
    return value


# Keys.


def run_all(realism: DepthRealism, keys: torch.Tensor, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Everything that an environment gets in its first four frames."""
    realism.redraw(torch.ones(len(keys), dtype=torch.bool), keys)
    outputs = list(realism.calibrate(0, inputs["intrinsics"], inputs["pos"], inputs["quat"]))
    for frame in range(4):
        outputs.append(realism.corrupt(0, inputs["depth"], inputs["intrinsics"], (keys + frame).int())[0].clone())
        outputs.extend(realism.delay(inputs["depth"][:, frame % inputs["depth"].shape[1]] + frame))
    return outputs


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31 - 1), num_envs=st.integers(1, 6), height=st.integers(1, 12), width=st.integers(1, 12))
def test_errors_belong_to_the_key_and_not_to_the_place_in_the_batch(
    seed: int, num_envs: int, height: int, width: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randint(0, 2**31 - 8, (num_envs,), generator=generator)
    inputs = {
        "depth": 0.2 + 2 * torch.rand(num_envs, height, width, generator=generator),
        "intrinsics": pinhole(num_envs, width),
        "pos": torch.randn(num_envs, 3, generator=generator),
        "quat": torch.nn.functional.normalize(torch.randn(num_envs, 4, generator=generator), dim=-1),
    }
    order = torch.randperm(num_envs, generator=generator)[: max(1, num_envs - 1)]
    whole = run_all(make(everything(), num_envs, height, width), keys, inputs)
    part = {name: value[order] for name, value in inputs.items()}
    some = run_all(make(everything(), len(order), height, width), keys[order], part)
    for all_envs, some_envs in zip(whole, some, strict=True):
        torch.testing.assert_close(some_envs, all_envs[order], rtol=0, atol=1e-6)


def test_pixels_environments_frames_and_cameras_are_independent() -> None:
    cfg = DepthRealismCfg(noise=GaussianNoiseCfg(std=1.0))
    num_envs, size = 16, 64
    depth = torch.full((num_envs, size, size), 100.0)
    realism = DepthRealism(cfg, [(size, size)] * 2, num_envs, "cpu")
    intrinsics = pinhole(num_envs, size)
    images = [
        realism.corrupt(camera, depth, intrinsics, make_keys(num_envs, frame))[0].clone() - 100.0
        for camera, frame in ((0, 0), (0, 1), (1, 0))
    ]
    # Neighbouring keys too: a user may simply count frames.
    images.append(realism.corrupt(0, depth, intrinsics, make_keys(num_envs) + 1)[0].clone() - 100.0)
    base = images[0]
    pairs = [(base, other) for other in images[1:]]
    pairs += [(base[1:], base[:-1]), (base[:, 1:], base[:, :-1]), (base[..., 1:], base[..., :-1])]
    for a, b in pairs:
        assert abs((a * b).mean()) < 5 / a.numel() ** 0.5


def test_each_environment_draws_from_its_bounds_and_keeps_the_draw_for_an_episode() -> None:
    num_envs = 400
    cfg = DepthRealismCfg(noise=GaussianNoiseCfg(std=(0.01, 0.03)), dropout=(0.0, 0.5))
    realism = make(cfg, num_envs, 32)
    depth, intrinsics = torch.ones(num_envs, 32, 32), pinhole(num_envs, 32)

    def measure(frame: int) -> tuple[torch.Tensor, torch.Tensor]:
        read = realism.corrupt(0, depth, intrinsics, make_keys(num_envs, frame))[0].double()
        hit = read > 0.0
        std = (((read - 1.0) ** 2 * hit).sum((1, 2)) / hit.sum((1, 2))).sqrt()
        return std, 1.0 - hit.double().mean((1, 2))

    realism.redraw(torch.ones(num_envs, dtype=torch.bool), torch.arange(num_envs) + 1000)
    std, dropout = measure(0)
    assert abs(std.mean() - 0.02) < 5 * 0.02 / (12 * num_envs) ** 0.5
    assert abs(std.std() - 0.02 / 12**0.5) < 0.001
    assert std.min() < 0.0115
    assert std.max() > 0.0285
    assert abs(dropout.mean() - 0.25) < 5 * 0.5 / (12 * num_envs) ** 0.5
    assert abs(torch.corrcoef(torch.stack([std, dropout]))[0, 1]) < 5 / num_envs**0.5

    again = measure(1)[0]
    assert torch.corrcoef(torch.stack([std, again]))[0, 1] > 0.97
    mask = torch.arange(num_envs) % 2 == 0
    realism.redraw(mask, torch.arange(num_envs) + 5000)
    redrawn = measure(2)[0]
    assert torch.corrcoef(torch.stack([std[~mask], redrawn[~mask]]))[0, 1] > 0.97
    assert abs(torch.corrcoef(torch.stack([std[mask], redrawn[mask]]))[0, 1]) < 5 / (num_envs / 2) ** 0.5


def test_of_several_cameras_each_environment_draws_one_and_errs_as_it() -> None:
    num_envs, size = 200, 12
    kinds = (
        replace(everything(), latency=1),
        DepthRealismCfg(noise=StereoNoiseCfg(disparity_step=0.25), edge_threshold=0.3, flying_pixels=0.5),
        DepthRealismCfg(quantization=0.3),
    )
    inputs = {
        "depth": 1.0 + torch.rand(num_envs, size, size),
        "intrinsics": pinhole(num_envs, size),
        **dict(zip(("pos", "quat"), poses(num_envs), strict=True)),
    }
    keys = torch.arange(num_envs) + 77
    alone = [run_all(make(kind, num_envs, size), keys, inputs) for kind in kinds]
    mixed = run_all(DepthRealism(kinds, [(size, size)], num_envs, "cpu"), keys, inputs)
    as_one = torch.stack(
        [
            torch.stack(
                [torch.isclose(a, b, atol=1e-6).flatten(1).all(dim=1) for a, b in zip(mixed, one, strict=True)]
            ).all(dim=0)
            for one in alone
        ]
    )
    assert (as_one.sum(dim=0) == 1).all()
    assert (as_one.sum(dim=1) > num_envs / 5).all()


def test_a_camera_with_errors_of_its_own_has_those_and_the_frames_age_of_the_others() -> None:
    num_envs, size = 20, 12
    shared, own = replace(everything(), latency=1), DepthRealismCfg(noise=StereoNoiseCfg(), rotation_jitter=0.1)
    sizes = [(size, size)] * 2
    depth, intrinsics, keys = 1.0 + torch.rand(num_envs, size, size), pinhole(num_envs, size), make_keys(num_envs)
    pos, quat = poses(num_envs)
    mixed = DepthRealism(shared, sizes, num_envs, "cpu", of_cameras={1: own})
    for camera, alone in enumerate(DepthRealism(cfg, sizes, num_envs, "cpu") for cfg in (shared, own)):
        assert torch.equal(
            mixed.corrupt(camera, depth, intrinsics, keys)[0], alone.corrupt(camera, depth, intrinsics, keys)[0]
        )
        believed = mixed.calibrate(camera, intrinsics, pos, quat), alone.calibrate(camera, intrinsics, pos, quat)
        assert all(torch.equal(a, b) for a, b in zip(*believed, strict=True))

    for frame in range(3):
        (delayed,) = mixed.delay(torch.full((num_envs,), float(frame)))
    assert torch.equal(delayed, torch.ones(num_envs))


def test_an_environment_that_draws_no_errors_has_none_in_any_camera() -> None:
    num_envs, size = 60, 12
    own = DepthRealismCfg(noise=GaussianNoiseCfg(std=0.01), rotation_jitter=0.1)
    kinds = (replace(everything(), latency=1), DepthRealismCfg())
    realism = DepthRealism(kinds, [(size, size)] * 2, num_envs, "cpu", of_cameras={1: own})
    depth, intrinsics, keys = 1.0 + torch.rand(num_envs, size, size), pinhole(num_envs, size), make_keys(num_envs)
    pos, quat = poses(num_envs)
    is_exact = []
    for camera in (0, 1):
        read = realism.corrupt(camera, depth, intrinsics, keys)[0]
        turned = realism.calibrate(camera, intrinsics, pos, quat)[2]
        is_exact += [(read == depth).flatten(1).all(dim=1), (turned - quat).abs().amax(dim=1) < 1e-6]
    for frame in range(3):
        (delayed,) = realism.delay(torch.full((num_envs,), float(frame)))
    is_exact.append(delayed == 2.0)
    assert num_envs / 4 < is_exact[0].sum() < num_envs * 3 / 4
    assert all(torch.equal(one, is_exact[0]) for one in is_exact)


def test_what_is_drawn_for_an_episode_is_independent() -> None:
    num_envs = 900
    cfg = DepthRealismCfg(noise=GaussianNoiseCfg(std=(0.0, 0.1)), position_jitter=0.1, latency=(1, 4))
    realism = make(cfg, num_envs, 16)
    depth, (pos, quat) = torch.ones(num_envs, 16, 16), poses(num_envs)
    std = (realism.corrupt(0, depth, pinhole(num_envs, 16), make_keys(num_envs))[0] - 1.0).std((1, 2))
    offset = quat_apply_inverse(quat, realism.calibrate(0, depth, pos, quat)[1] - pos)
    for frame in range(5):
        (delayed,) = realism.delay(torch.full((num_envs,), float(frame)))
    correlation = torch.corrcoef(torch.stack([std, delayed, *offset.T])) - torch.eye(5)
    assert correlation.abs().max() < 5 / num_envs**0.5


# Calibration.


def calibration_error(realism: DepthRealism, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Errors of intrinsics (factor and offset), position and rotation, in the camera's frame."""
    pos, quat = poses(realism.num_envs, seed)
    intrinsics = pinhole(realism.num_envs, 64)
    believed, believed_pos, believed_quat = realism.calibrate(0, intrinsics, pos, quat)
    torch.testing.assert_close(believed_quat.norm(dim=-1), torch.ones(realism.num_envs), rtol=0, atol=1e-6)
    turn = quat_mul(quat_conjugate(quat), believed_quat)
    turn = turn * turn[:, 3:].sign()
    return believed, quat_apply_inverse(quat, believed_pos - pos), 2.0 * turn[:, :3]


def test_calibration_errors_are_drawn_within_their_bounds() -> None:
    cfg = DepthRealismCfg(position_jitter=0.01, rotation_jitter=0.02, focal_jitter=0.1, principal_point_jitter=2.0)
    intrinsics, offset, turn = calibration_error(make(cfg, 2000, 64))
    factor = intrinsics[:, [0, 1], [0, 1]] / FX - 1.0
    assert torch.equal(factor[:, 0], factor[:, 1])
    assert torch.equal(intrinsics[:, [0, 1, 2, 2, 2], [1, 0, 0, 1, 2]], torch.tensor([0.0, 0, 0, 0, 1]).expand(2000, 5))
    shift = intrinsics[:, :2, 2] - 32.0
    for error, limit in ((offset, 0.01), (turn, 0.02), (factor[:, :1], 0.1), (shift, 2.0)):
        assert error.abs().max() < limit * 1.001
        # Uniform in [-limit, limit]: every column's mean and standard deviation.
        assert (error.mean(0).abs() < 5 * limit / 3**0.5 / 2000**0.5).all()
        assert ((error.std(0) / limit - 3**-0.5).abs() < 0.03).all()
    everything_drawn = torch.cat([offset, turn, factor[:, :1], shift], dim=1).T
    assert (torch.corrcoef(everything_drawn) - torch.eye(9)).abs().max() < 5 / 2000**0.5


def test_calibration_errors_are_constant_in_the_camera_frame_until_its_reset() -> None:
    realism = make(everything(), 50, 64)
    first = calibration_error(realism)
    # The camera moves, on a wrist, say.
    for before, after in zip(first, calibration_error(realism, seed=1), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=2e-6)
    mask = torch.arange(50) < 20
    realism.redraw(mask, torch.arange(50) + 77)
    for before, after in zip(first, calibration_error(realism), strict=True):
        torch.testing.assert_close(after[~mask], before[~mask], rtol=0, atol=2e-6)
        assert ((after - before).flatten(1)[mask].abs().amax(1) > 1e-4).all()


# Latency.


@settings(max_examples=40)
@given(
    lags=st.tuples(st.integers(0, 4), st.integers(0, 3)).map(lambda pair: (pair[0], max(1, sum(pair)))),
    seed=st.integers(0, 2**31 - 1),
    use_mask=st.booleans(),
)
def test_delay_against_a_list_of_frames(lags: tuple[int, int], seed: int, use_mask: bool) -> None:
    num_envs, generator = 5, torch.Generator().manual_seed(seed)
    realism = make(DepthRealismCfg(latency=lags), num_envs, 4)
    seen: list[list[float]] = [[] for _ in range(num_envs)]
    got: list[float] = [math.nan] * num_envs
    lag: list[int | None] = [None] * num_envs
    for frame in range(30):
        reset = torch.rand(num_envs, generator=generator) < 0.1
        realism.redraw(reset, torch.arange(num_envs) + 100 * frame)
        fresh = torch.rand(num_envs, generator=generator) < 0.7 if use_mask else torch.ones(num_envs).bool()
        points = (torch.arange(num_envs) * 100.0 + frame)[:, None, None].expand(-1, 3, 2)
        delayed, count = realism.delay(points.half(), points[:, 0, 0].int(), mask=fresh if use_mask else None)
        assert delayed.dtype == torch.float16
        assert count.dtype == torch.int32
        assert (delayed == count.half()[:, None, None]).all()
        for env in range(num_envs):
            if reset[env]:
                seen[env], lag[env] = [], None
            if fresh[env] or not seen[env]:
                seen[env].append(float(points[env, 0, 0]))
                got[env] = float(count[env])
            # The others get again what they got last.
            assert float(count[env]) == got[env]
            age = len(seen[env]) - 1 - seen[env].index(float(count[env]))
            if len(seen[env]) > lags[1]:
                # By now its age is the latency: within the bounds, and the same until the next reset.
                assert lags[0] <= age <= lags[1]
                assert lag[env] in (None, age)
                lag[env] = age
            elif len(seen[env]) <= lags[0]:
                assert age == len(seen[env]) - 1


def test_every_latency_of_the_bounds_is_drawn() -> None:
    realism = make(DepthRealismCfg(latency=(1, 3)), 900, 4)
    for frame in range(6):
        (delayed,) = realism.delay(torch.full((900,), float(frame)))
    share = torch.bincount(5 - delayed.long(), minlength=5) / 900
    assert share[[0, 4]].sum() == 0.0
    assert ((share[1:4] - 1 / 3).abs() < 5 * (1 / 3 * 2 / 3 / 900) ** 0.5).all()


def test_delayed_tensors_are_not_overwritten_by_the_next_frame() -> None:
    realism = make(DepthRealismCfg(latency=1), 3, 4)
    (first,) = realism.delay(torch.ones(3, 2))
    kept = first.clone()
    realism.delay(torch.zeros(3, 2))
    realism.delay(torch.zeros(3, 2))
    assert torch.equal(first, kept)


# Settings.


def test_nothing_asked_for_costs_nothing() -> None:
    realism = make(DepthRealismCfg(), 2, 8)
    depth, intrinsics, (pos, quat) = torch.ones(2, 8, 8), pinhole(2, 8), poses(2)
    assert realism.corrupt(0, depth, intrinsics, make_keys(2))[0] is depth
    assert all(
        a is b for a, b in zip(realism.calibrate(0, intrinsics, pos, quat), (intrinsics, pos, quat), strict=True)
    )
    assert realism.delay(depth, pos)[1] is pos
    assert not realism._images


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": GaussianNoiseCfg(std=-0.1)}, r"points\.realism\.noise\.std=-0\.1 must not be negative"),
        ({"noise": GaussianNoiseCfg(std=(0.2, 0.1))}, r"noise\.std=\(0\.2, 0\.1\).*swap"),
        ({"noise": StructuredLightNoiseCfg(focal_length=0.0)}, r"noise\.focal_length=0\.0 must be above 0"),
        ({"noise": StereoNoiseCfg(lateral_std=wrong((1.0,)))}, r"noise\.lateral_std=\(1\.0,\).*two"),
        ({"noise": "gaussian"}, r"points\.realism\.noise='gaussian'"),
        ({"flying_pixels": 1.5}, r"flying_pixels=1\.5 must be in \[0, 1\]"),
        ({"min_range": 2.0, "max_range": 2.0}, r"min_range=2\.0 m must be below points\.realism\.max_range=2\.0"),
        ({"max_range": 0.0}, r"max_range=0\.0 must be above 0"),
        ({"rotation_jitter": 4.0}, r"rotation_jitter=4\.0 must be in \[0, 3\.142\]"),
        ({"latency": 1.5}, r"latency=1\.5 must be whole frames"),
        ({"latency": (2, 1)}, r"latency=\(2, 1\)"),
    ],
)
def test_impossible_settings_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DepthRealismCfg(**changes).check("points.realism")


def test_bounds_may_be_lists_as_yaml_gives_them() -> None:
    cfg = DepthRealismCfg()
    cfg.dropout, cfg.latency = wrong([0.1, 0.2]), wrong([0, 1])
    cfg.check()
    rate = 1.0 - make(cfg, 8, 32).corrupt(0, torch.ones(8, 32, 32), pinhole(8, 32), make_keys(8))[0].mean((1, 2))
    assert ((rate > 0.05) & (rate < 0.25)).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("depth", torch.ones(2, 8, 9), r"depth is \(2, 8, 9\).*expected \(2, 8, 8\)"),
        ("depth", torch.ones(2, 8, 8).double(), r"depth is .*float64.*expected .*float32"),
        ("intrinsics", torch.ones(2, 3), r"intrinsics is \(2, 3\)"),
        ("keys", torch.zeros(2).long(), r"keys is .*int64.*int32"),
        ("mask", torch.zeros(3).bool(), r"mask is \(3,\)"),
        ("labels", torch.zeros(2, 8, 8).long(), r"labels is .*int64.*int32"),
    ],
)
def test_wrong_tensors_are_refused(name: str, value: torch.Tensor, message: str) -> None:
    realism = make(everything(), 2, 8)
    tensors = {"depth": torch.ones(2, 8, 8), "intrinsics": pinhole(2, 8), "keys": make_keys(2), name: value}
    with pytest.raises(ValueError, match=message):
        realism.corrupt(0, **tensors)
    with pytest.raises(ValueError, match="mask is"):
        realism.redraw(torch.tensor([0, 1]), torch.arange(2))
    realism.delay(torch.ones(2, 4), torch.ones(2))
    with pytest.raises(ValueError, match="same ones"):
        realism.delay(torch.ones(2, 4))


@pytest.mark.gpu
def test_a_graph_captured_on_cuda_gives_what_the_cpu_gives() -> None:
    num_envs, size = 8, 32
    cpu = make(everything(), num_envs, size)
    cuda = DepthRealism(everything(), [(size, size)], num_envs, "cuda")
    pos, quat = poses(num_envs)
    inputs = {
        "mask": torch.arange(num_envs) % 2 == 0,
        "keys": torch.arange(num_envs) + 9,
        "depth": torch.rand(num_envs, size, size, generator=torch.Generator().manual_seed(0)) + 0.5,
        "intrinsics": pinhole(num_envs, size),
        "pos": pos,
        "quat": quat,
    }

    def step(realism: DepthRealism, tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        realism.redraw(tensors["mask"], tensors["keys"])
        read, _ = realism.corrupt(0, tensors["depth"], tensors["intrinsics"], tensors["keys"].int())
        calibration = realism.calibrate(0, tensors["intrinsics"], tensors["pos"], tensors["quat"])
        return [read, *calibration, *realism.delay(tensors["depth"])]

    on_cuda = {name: value.cuda() for name, value in inputs.items()}
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(cuda, on_cuda)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(cuda, on_cuda)
    for _ in range(3):
        step(cpu, inputs)
    for _ in range(3):
        inputs["depth"] += 0.1
        on_cuda["depth"] += 0.1
        expected = step(cpu, inputs)
        graph.replay()
        for got, want in zip(captured, expected, strict=True):
            # A pixel with a shift or step at a rounding border may fall on either side.
            assert ((got.cpu() - want).abs() > 1e-4).float().mean() < 0.01
