# SPDX-License-Identifier: BSD-3-Clause
"""Whose memory the number of environments is found in."""

import pytest

from isaaclab_pc.commands import find_for_ranks as module
from isaaclab_pc.settings import RunSettings


@pytest.mark.parametrize(
    ("given", "gpus_here", "searched"),
    [
        ({"device": "cpu"}, 0, ("cpu", 1)),
        ({"device": "cpu", "gpus": 2}, 0, ("cpu", 2)),
        ({"device": "cuda:0"}, 4, ("cuda:0", 1)),
        ({"device": "cuda:0", "gpus": 2}, 4, "cuda:0,cuda:1"),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 1, ("cuda:0", 1)),
        ({"device": "cuda:0", "cluster": "ray", "workers": 8}, 2, "cuda:0,cuda:1"),
        ({"device": "cpu", "cluster": "ray", "workers": 8}, 1, ("cpu", 8)),
    ],
)
def test_processes_on_one_machine_share_it(monkeypatch, given, gpus_here, searched):
    monkeypatch.setattr(module, "gpu_count", lambda: gpus_here)
    monkeypatch.setattr(module, "find_num_envs", lambda run, *_, processes: (run.device, processes))
    monkeypatch.setattr(module, "find_num_envs_for_gpus", lambda run, *_: run.device)
    settings = RunSettings(num_envs="auto").with_values({**given, "physics.backend": "newton_mjwarp"})
    assert module.find_for_ranks(settings, lambda trial: None) == searched
