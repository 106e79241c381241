# SPDX-License-Identifier: BSD-3-Clause
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.learners.rsl_rl.replay import ReplayBuffer
from isaaclab_pc.tensors.tensor_bytes import tensor_bytes

SHAPES = {"policy": (2,), "points": (3, 3)}


def samples(first: int, count: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return samples that are all filled with their number."""
    number = torch.arange(first, first + count).float()
    obs = {name: number.view(-1, *[1] * len(shape)).expand(count, *shape) for name, shape in SHAPES.items()}
    return {**obs, "critic": number[:, None]}, number[:, None].expand(count, 4)


def filled(capacity: int, sizes: list[int]) -> ReplayBuffer:
    replay = ReplayBuffer(SHAPES, 4, capacity, "cpu")
    for index, size in enumerate(sizes):
        replay.add(*samples(sum(sizes[:index]), size))
    return replay


ADDED = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@given(capacity=st.integers(1, 20), sizes=ADDED)
def test_the_ring_holds_the_newest_samples(capacity: int, sizes: list[int]) -> None:
    replay = filled(capacity, sizes)
    added = sum(sizes)
    held = min(added, capacity)
    assert len(replay) == held

    # One pass over all of them shows each once.
    obs, labels = next(replay.minibatches(1, held))
    expected = torch.arange(added - held, added).float()
    assert torch.equal(labels[:, 0].sort().values, expected)
    for name in SHAPES:
        assert torch.equal(obs[name].flatten(1)[:, 0].float(), labels[:, 0])


@given(capacity=st.integers(1, 20), sizes=ADDED, share=st.floats(0, 1))
def test_the_newest_come_in_their_order(capacity: int, sizes: list[int], share: float) -> None:
    replay = filled(capacity, sizes)
    count = round(share * len(replay))
    newest = replay.newest(count, ["policy"])
    assert set(newest.keys()) == {"policy"}
    assert newest["policy"][:, 0].tolist() == list(range(sum(sizes) - count, sum(sizes)))


@given(capacity=st.integers(1, 20), sizes=ADDED, count=st.integers(1, 5), size=st.integers(1, 30))
def test_minibatches_are_of_held_samples_in_turn(capacity: int, sizes: list[int], count: int, size: int) -> None:
    replay = filled(capacity, sizes)
    batches = list(replay.minibatches(count, size))
    assert [labels.shape for _, labels in batches] == [(size, 4)] * count
    numbers = torch.cat([labels[:, 0] for _, labels in batches]).int().tolist()

    held = range(sum(sizes) - len(replay), sum(sizes))
    times = [numbers.count(number) for number in held]
    assert sum(times) == count * size
    assert max(times) - min(times) <= 1


def test_minibatches_are_shuffled() -> None:
    torch.manual_seed(0)
    replay = filled(1000, [1000])
    (_, first), (_, second) = replay.minibatches(2, 500)
    assert first[:, 0].mean() == pytest.approx(500, abs=60)
    assert second[:, 0].mean() == pytest.approx(500, abs=60)


def test_clouds_are_kept_as_half_the_bytes_and_vectors_whole() -> None:
    replay = filled(10, [4])
    obs, labels = next(replay.minibatches(1, 4))
    assert obs["points"].dtype == torch.float16
    assert obs["policy"].dtype == labels.dtype == torch.float32
    assert "critic" not in set(obs.keys())
    # The ring is as large from the start.
    assert tensor_bytes(replay) == tensor_bytes(ReplayBuffer(SHAPES, 4, 10, "cpu")) == 10 * (2 * 9 + 4 * 2 + 4 * 4)


def test_samples_of_an_inference_can_be_learned_from() -> None:
    replay = ReplayBuffer(SHAPES, 4, 8, "cpu")
    with torch.inference_mode():
        replay.add(*samples(0, 8))
    weight = torch.ones(4, requires_grad=True)
    _, labels = next(replay.minibatches(1, 8))
    (labels * weight).sum().backward()
    assert weight.grad is not None
