# SPDX-License-Identifier: BSD-3-Clause
"""The scaling settings: refused early when wrong, completed for the device when open."""

import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.search import Objective
from isaaclab_pc.num_envs.search_settings import SearchSettings, Sizes


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"min": 64, "max": 32}, r"scaling\.min=64 is above scaling\.max=32"),
        ({"min": 17, "max": 31, "granule": 16}, r"scaling\.granule=16.*scaling\.min=17.*scaling\.max=31"),
        ({"max_seconds": float("nan")}, r"scaling\.max_seconds=nan"),
        ({"device": "tpu"}, r"device=tpu"),
    ],
)
def test_bad_setting_is_refused_by_name(settings: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SearchSettings(**settings)


def test_objective_is_speed_unless_it_is_set() -> None:
    assert SearchSettings(device="cpu").resolved_objective is Objective.THROUGHPUT
    assert SearchSettings(device="cuda:1").resolved_objective is Objective.THROUGHPUT
    assert SearchSettings(device="cpu", objective="memory").resolved_objective is Objective.MEMORY


def test_only_a_search_for_speed_on_a_gpu_keeps_to_the_samples_of_the_agent() -> None:
    assert SearchSettings(device="cuda:1").keeps_to_agent
    assert not SearchSettings(device="cpu").keeps_to_agent
    assert not SearchSettings(device="cuda:1", objective="memory").keeps_to_agent


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({}, Sizes(lo=32, hi=256, granule=16, start=256, floor=1, finest=1)),
        ({"objective": "memory"}, Sizes(lo=32, hi=1024, granule=16, start=32, floor=1, finest=1)),
        ({"device": "cuda"}, Sizes(lo=64, hi=65536, granule=64, start=4096, floor=1, finest=1)),
        ({"device": "cuda", "objective": "memory"}, Sizes(lo=64, hi=65536, granule=64, start=256, floor=1, finest=1)),
        ({"max": 1000}, Sizes(lo=32, hi=1000, granule=16, start=256, floor=1, finest=1)),
        ({"min": 2048}, Sizes(lo=2048, hi=2048, granule=16, start=2048, floor=2048, finest=1)),
        ({"max": 10}, Sizes(lo=10, hi=10, granule=10, start=10, floor=1, finest=1)),
        ({"device": "cuda", "max": 512}, Sizes(lo=64, hi=512, granule=64, start=512, floor=1, finest=1)),
        ({"granule": 1, "min": 1}, Sizes(lo=1, hi=256, granule=1, start=256, floor=1, finest=1)),
        ({"granule": 512}, Sizes(lo=32, hi=512, granule=512, start=256, floor=512, finest=512)),
        ({"device": "cuda", "granule": 7, "max": 40}, Sizes(lo=35, hi=40, granule=7, start=40, floor=7, finest=7)),
        ({"granule": 24}, Sizes(lo=32, hi=256, granule=24, start=256, floor=24, finest=24)),
        ({"max": 20}, Sizes(lo=20, hi=20, granule=4, start=20, floor=1, finest=1)),
        ({"min": 300}, Sizes(lo=300, hi=300, granule=4, start=300, floor=300, finest=1)),
        ({"min": 40, "max": 47}, Sizes(lo=40, hi=47, granule=8, start=47, floor=40, finest=1)),
        ({"min": 5}, Sizes(lo=5, hi=256, granule=16, start=256, floor=5, finest=1)),
        ({"min": 5, "granule": 4}, Sizes(lo=5, hi=256, granule=4, start=256, floor=8, finest=4)),
    ],
)
def test_what_is_left_open_gives_way_to_what_is_set(settings: dict, sizes: Sizes) -> None:
    assert SearchSettings(**settings).sizes == sizes
