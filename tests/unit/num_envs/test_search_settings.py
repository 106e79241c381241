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
        ({"max_seconds": float("nan")}, r"scaling\.max_seconds=nan"),
        ({"device": "tpu"}, r"device=tpu"),
    ],
)
def test_bad_setting_is_refused_by_name(settings: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SearchSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "objective", "keeps_to_agent"),
    [
        ({"device": "cpu"}, Objective.THROUGHPUT, False),
        ({"device": "cpu", "objective": "memory"}, Objective.MEMORY, False),
        ({"device": "cuda:1"}, Objective.THROUGHPUT, True),
        ({"device": "cuda:1", "objective": "memory"}, Objective.MEMORY, False),
    ],
)
def test_objective(settings: dict, objective: Objective, keeps_to_agent: bool) -> None:
    found = SearchSettings(**settings)
    assert (found.resolved_objective, found.keeps_to_agent) == (objective, keeps_to_agent)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({}, Sizes(lo=32, hi=256, granule=16, start=256, floor=1)),
        ({"objective": "memory"}, Sizes(lo=32, hi=1024, granule=16, start=32, floor=1)),
        ({"device": "cuda"}, Sizes(lo=64, hi=65536, granule=64, start=4096, floor=1)),
        ({"device": "cuda", "objective": "memory"}, Sizes(lo=64, hi=65536, granule=64, start=256, floor=1)),
        ({"max": 1000}, Sizes(lo=32, hi=1000, granule=16, start=256, floor=1)),
        ({"min": 2048}, Sizes(lo=2048, hi=2048, granule=16, start=2048, floor=2048)),
        ({"max": 10}, Sizes(lo=10, hi=10, granule=10, start=10, floor=1)),
        ({"device": "cuda", "max": 512}, Sizes(lo=64, hi=512, granule=64, start=512, floor=1)),
        ({"max": 20}, Sizes(lo=20, hi=20, granule=4, start=20, floor=1)),
        ({"min": 300}, Sizes(lo=300, hi=300, granule=4, start=300, floor=300)),
        ({"min": 40, "max": 47}, Sizes(lo=40, hi=47, granule=8, start=47, floor=40)),
        ({"min": 5}, Sizes(lo=16, hi=256, granule=16, start=256, floor=5)),
        ({"min": 24, "max": 24}, Sizes(lo=24, hi=24, granule=8, start=24, floor=24)),
    ],
)
def test_what_is_left_open_gives_way_to_what_is_set(settings: dict, sizes: Sizes) -> None:
    assert SearchSettings(**settings).sizes == sizes
