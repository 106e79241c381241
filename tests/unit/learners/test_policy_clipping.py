# SPDX-License-Identifier: BSD-3-Clause
"""A policy that is evaluated, played or exported clips what the training clips, in Isaac Lab's wrappers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isaaclab_pc.learners import Runner
from isaaclab_pc.learners.common.policy_protocols import ActsFromState
from tests.unit.learners.bench import CONFIGS, NUM_ENVS, SETTINGS, check_exports, go_on, make_runner
from tests.unit.learners.fake_env import FakeEnv, FakeGymEnv

LARGEST = {"action": 0.01, "observation": 0.15}


def make(name: str, env: FakeEnv, folder: Path, obs: str = "points", recurrent: bool = False) -> Runner:
    cfg = CONFIGS[name](SETTINGS, "x")
    if name == "rsl_rl":
        cfg.clip_actions = LARGEST["action"]
    else:
        cfg["params"]["env"] |= {"clip_actions": LARGEST["action"], "clip_observations": LARGEST["observation"]}
    network = vars(cfg.actor) if name == "rsl_rl" else cfg["params"]["network"]
    network.update(rnn_type="gru" if recurrent else None, rnn_hidden_dim=8)
    return make_runner(name, cfg, FakeGymEnv(env), folder, obs=obs)


@pytest.mark.parametrize("recurrent", [False, True], ids=["", "recurrent"])
@pytest.mark.parametrize("name", ["rsl_rl", "rl_games"])
def test_actions_and_observations_are_clipped_as_in_training(name: str, recurrent: bool, tmp_path: Path) -> None:
    env = FakeEnv(NUM_ENVS)
    taken: list[torch.Tensor] = []
    own_step = env.step
    env.step = lambda actions: (taken.append(actions), own_step(actions))[1]  # type: ignore[method-assign]
    runner = make(name, env, tmp_path, recurrent=recurrent)
    runner.train(1, go_on)
    assert torch.stack(taken).abs().max() == pytest.approx(LARGEST["action"])

    env.reset()
    obs = env.observe()
    seen = {key: value.clamp(-LARGEST["observation"], LARGEST["observation"]) for key, value in obs.items()}
    assert any((seen[key] != obs[key]).any() for key in ("policy", "points"))
    free: Any = runner.policy()
    for kind in ("model", "a2c_network"):
        free = getattr(free, kind, free)
    with torch.no_grad():
        free.reset()
        unclipped = (free.policy if name == "rl_games" else free)(seen if name == "rl_games" else obs)
        free.reset()
    assert unclipped.abs().max() > LARGEST["action"]
    expected = unclipped.clamp(-LARGEST["action"], LARGEST["action"])
    torch.testing.assert_close(runner.act(obs), expected)

    policy = runner.policy()
    if recurrent:
        assert isinstance(policy, ActsFromState)
        with torch.no_grad():
            torch.testing.assert_close(policy.act_from(obs, policy.initial_state(NUM_ENVS))[0], expected)


@pytest.mark.parametrize("name", ["rsl_rl", "rl_games"])
def test_an_exported_policy_clips(name: str, tmp_path: Path) -> None:
    check_exports(lambda env, folder: make(name, env, folder, "state"), tmp_path)
