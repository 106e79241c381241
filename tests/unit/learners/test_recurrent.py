# SPDX-License-Identifier: BSD-3-Clause
"""Policies with a memory, trained by PPO of RSL-RL and of RL-Games on a fake task."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

from isaaclab_pc.learners import Runner
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.learners.rl_games.network import PointCloudNetwork
from isaaclab_pc.learners.rsl_rl.model import PointCloudModel
from tests.unit.learners.bench import CONFIGS, NUM_ENVS, SETTINGS, go_on, make_runner
from tests.unit.learners.fake_env import EPISODE, FakeEnv

PLAN = BatchPlan(horizon=EPISODE + 2, num_minibatches=2, minibatch_size=2 * (EPISODE + 2))
"""Episodes end within a rollout, and the rest of it is the beginning of others."""


class Policy(NamedTuple):
    """A library and a kind of memory."""

    library: str
    kind: str


@pytest.fixture(
    params=[Policy(library, kind) for library in ("rsl_rl", "rl_games") for kind in ("gru", "lstm")], ids=str
)
def policy(request: pytest.FixtureRequest) -> Policy:
    return request.param


def make(policy: Policy, folder: Path, rnn_num_layers: int = 1, **settings: Any) -> tuple[FakeEnv, Runner]:
    cfg = CONFIGS[policy.library](replace(SETTINGS, **settings), "x")
    network = vars(cfg.actor) if policy.library == "rsl_rl" else cfg["params"]["network"]
    network.update(rnn_type=policy.kind, rnn_hidden_dim=8, rnn_num_layers=rnn_num_layers)
    env = FakeEnv(NUM_ENVS)
    return env, make_runner(policy.library, cfg, env, folder, plan=PLAN)


def test_an_update_sees_each_episode_as_the_rollout_did(policy: Policy, tmp_path: Path) -> None:
    _, runner = make(policy, tmp_path, num_epochs=1, learning_rate=0.0, schedule="fixed")
    rollout: list[Tensor] = []
    update: list[Tensor] = []

    def note(module: Any, args: Any, output: Any) -> None:
        if isinstance(module, PointCloudModel):
            assert args[0]["points"].dtype == torch.float16
            mean = module.output_mean.detach().clone()
            if mean.dim() == 2:
                rollout.append(mean)
            else:
                update.extend(mean.unbind(dim=1))
        elif isinstance(module, PointCloudNetwork):
            mean = output[0].detach().clone()
            if args[0]["is_train"]:
                update.extend(mean.view(-1, PLAN.horizon, mean.shape[1]))
            else:
                rollout.append(mean)

    hook = register_module_forward_hook(note)
    try:
        # The second rollout begins in the middle of episodes, with what the first one left in the memory.
        runner.train(2, go_on)
    finally:
        hook.remove()

    # RL-Games asks once more after a rollout, for the value of its end.
    acted = torch.stack(rollout).unflatten(0, (2, -1))[:, : PLAN.horizon].transpose(1, 2)
    learned = torch.stack(update).unflatten(0, (2, NUM_ENVS))
    # An environment's whole rollout is its name: RL-Games shuffles them.
    order = torch.stack(
        [torch.cdist(a.flatten(1), b.flatten(1)).argmin(dim=1) for a, b in zip(acted, learned, strict=True)]
    )
    assert order.sort(dim=1).values.tolist() == 2 * [list(range(NUM_ENVS))]
    found = torch.stack([part[rows] for part, rows in zip(learned, order, strict=True)])
    torch.testing.assert_close(found, acted, rtol=1e-5, atol=1e-6)


def test_a_policy_acts_on_what_it_saw_and_forgets_it_with_the_episode(policy: Policy, tmp_path: Path) -> None:
    env, runner = make(policy, tmp_path)
    obs = env.observe()
    fresh = runner.act(obs)
    torch.testing.assert_close(runner.act(obs), fresh)

    env.episode_length_buf[:] = torch.tensor([1, 0, 1, 0])
    later = runner.act(obs)
    torch.testing.assert_close(later[[1, 3]], fresh[[1, 3]])
    assert ((later - fresh)[[0, 2]].abs() > 1e-6).any(dim=1).all()

    # As after an observation that was bad: the episode has ended, and the reset is to come.
    env.reset_buf[:] = torch.tensor([True, False, False, False])
    later = runner.act(obs)
    torch.testing.assert_close(later[[0, 1, 3]], fresh[[0, 1, 3]])

    env.reset()
    torch.testing.assert_close(runner.act(obs), fresh)


def test_training_goes_on_from_a_checkpoint_and_after_an_evaluation(policy: Policy, tmp_path: Path) -> None:
    env, runner = make(policy, tmp_path / "a")
    before = {name: value.clone() for name, value in runner.policy().state_dict().items() if "memory" in name}
    runner.train(2, go_on)
    after = runner.policy().state_dict()
    assert before
    assert all(not torch.equal(after[name], value) for name, value in before.items()), "the memory is learned"
    runner.save(tmp_path / "2.pt", {})
    env.reset()
    acted = [runner.act(env.observe())]
    env.step(acted[0])
    acted.append(runner.act(env.observe()))
    runner.train(3, go_on)

    env, resumed = make(policy, tmp_path / "b")
    assert resumed.load(tmp_path / "2.pt")["iteration"] == 2
    env.reset()
    for action in acted:
        torch.testing.assert_close(resumed.act(env.observe()), action)
        env.step(action)
    resumed.train(3, go_on)
    assert resumed.completed_iterations == 3
