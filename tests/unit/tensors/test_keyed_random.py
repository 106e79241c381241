# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers keyed by (seed, environment, episode, stream)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.tensors.keyed_random import keyed_hash, keyed_uniform
from tests.ptx.launches import interpreted

int64s = st.integers(-(2**63), 2**63 - 1)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def split_mix(*key: int) -> int:
    """Return the hash of a key by the published formula, in Python's integers."""
    value = 0
    for part in key:
        value = (value + part + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        value ^= value >> 31
    return value


@devices
@given(seed=int64s, stream=int64s, parts=st.lists(st.tuples(int64s, int64s, int64s), min_size=1, max_size=5))
def test_hashes_are_those_of_split_mix(device: str, seed: int, stream: int, parts: list[tuple[int, int, int]]) -> None:
    env_ids, first, second = torch.tensor(parts, device=device).unbind(1)
    for more in ((), (first,), (first, second)):
        hashes = keyed_hash(seed, env_ids, stream, *more).tolist()
        expected = [split_mix(seed, env, stream, *others[: len(more)]) for env, *others in parts]
        assert [value % 2**64 for value in hashes] == expected


@devices
@given(seed=int64s, stream=int64s, parts=st.lists(st.tuples(int64s, int64s), max_size=5), columns=st.integers(0, 20))
def test_numbers_are_the_highest_bits_of_hashes(
    device: str, seed: int, stream: int, parts: list[tuple[int, int]], columns: int
) -> None:
    env_ids, episode = torch.tensor(parts, dtype=torch.int64, device=device).reshape(-1, 2).unbind(1)
    numbers = keyed_uniform(seed, env_ids, episode, stream, columns)
    expected = [[(split_mix(seed, *part, stream, c) >> 40) / 2**24 for c in range(columns)] for part in parts]
    assert numbers.shape == (len(parts), columns)
    assert numbers.tolist() == expected


def test_blocks_of_threads_draw_the_same() -> None:
    # More than a block has threads, in what the GPU's compiler makes of the kernels.
    env_ids, episode = torch.arange(300), torch.arange(300) % 7
    hashes, numbers = keyed_hash(-5, env_ids, 3, episode), keyed_uniform(-5, env_ids, episode, 2**62, 4)
    with interpreted() as interpreter:
        assert torch.equal(keyed_hash(-5, env_ids.int(), 3, episode), hashes)
        assert torch.equal(keyed_uniform(-5, env_ids, episode.int(), 2**62, 4), numbers)
    assert interpreter.launched == ["hash_keys", "draw_uniform"]


def test_draws_of_a_seed_stay_what_they_are() -> None:
    # By the torch code that this one replaced: runs with the same seed must stay the same.
    assert keyed_hash(7, torch.arange(2), 3, torch.tensor([5, 5])).tolist() == [
        -7273831081573894867,
        1556244849957547667,
    ]
    assert keyed_uniform(7, torch.tensor([4]), torch.tensor([2]), 3, 2).tolist() == [
        [0.8265861868858337, 0.9786282777786255]
    ]


@pytest.mark.parametrize("episode", [torch.zeros(2, dtype=torch.int64), torch.zeros(3, 1, dtype=torch.int64)])
def test_parts_of_other_shapes_are_refused(episode: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="one shape"):
        keyed_uniform(0, torch.arange(3), episode, 0, 2)
    with pytest.raises(ValueError, match="one shape"):
        keyed_hash(0, torch.arange(3), 0, episode)


@pytest.mark.gpu
def test_a_draw_on_cuda_waits_for_nothing_and_is_captured() -> None:
    envs, episode = torch.arange(8, device="cuda"), torch.zeros(8, dtype=torch.int64, device="cuda")
    keyed_uniform(1, envs, episode, 0, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        numbers = keyed_uniform(1, envs, episode, 0, 3)
    episode += 1
    graph.replay()
    assert torch.equal(numbers.cpu(), keyed_uniform(1, torch.arange(8), torch.ones(8, dtype=torch.int64), 0, 3))
