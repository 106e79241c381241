# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers keyed by (seed, environment, episode, stream)."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from isaaclab_pc.keyed_random import keyed_hash, keyed_uniform


def draw(seed: int, envs: torch.Tensor, episode: int = 0, stream: int = 0, columns: int = 3) -> torch.Tensor:
    return keyed_uniform(seed, envs, torch.full_like(envs, episode), stream, columns)


@given(seed=st.integers(0, 2**31 - 1), env=st.integers(0, 100_000), episode=st.integers(0, 10**6))
def test_a_draw_depends_on_its_key_alone(seed: int, env: int, episode: int) -> None:
    together = draw(seed, torch.arange(env, env + 5), episode)
    alone = draw(seed, torch.tensor([env + 3]), episode)
    assert torch.equal(together[3], alone[0])
    assert ((together >= 0) & (together < 1)).all()


def test_every_part_of_the_key_matters() -> None:
    envs = torch.arange(1000)
    base = draw(1, envs)
    for other in (draw(2, envs), draw(1, envs + 1), draw(1, envs, episode=1), draw(1, envs, stream=1)):
        assert (other == base).float().mean() < 0.01


def test_draws_are_uniform_and_uncorrelated() -> None:
    values = draw(7, torch.arange(50_000), columns=4)
    histogram = torch.histc(values, bins=20, min=0, max=1) / values.numel()
    # Five standard errors of a bin's share.
    assert (histogram - 0.05).abs().max() < 5 * (0.05 * 0.95 / values.numel()) ** 0.5
    correlation = torch.corrcoef(values.T) - torch.eye(4)
    assert correlation.abs().max() < 5 / 50_000**0.5


def test_hashes_rarely_collide() -> None:
    hashes = [keyed_hash(seed, torch.arange(300)[:, None], torch.arange(300)) for seed in range(3)]
    assert len(torch.stack(hashes).unique()) == 3 * 300 * 300
