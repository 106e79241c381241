# SPDX-License-Identifier: BSD-3-Clause
"""The predicted memory of a learner against that of the real one, on an environment without a simulation."""

from pathlib import Path

import pytest
import torch

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.runners import RUNNERS, Decision
from isaaclab_pc.scaling import BatchPlan
from isaaclab_pc.scaling.learner_memory import MemoryPeak, StandIn, learner_memory
from isaaclab_pc.scaling.trial import Spaces
from isaaclab_pc.tensor_bytes import tensor_bytes
from isaaclab_pc.workers.resolve import resolve

NUM_ENVS = 32
VECTORS = {"policy": ((24,), "float32"), "critic": ((30,), "float32")}
GROUPS = {"points": {"points": ((64, 3), "float16")}, "depth": {"depth": ((1, 36, 48), "float32")}, "state": {}}


def resolved(*settings: str, agent=()):
    return resolve(compose(["device=cpu", "physics=newton_mjwarp", *settings], [], agent), NUM_ENVS, "reach")


@pytest.mark.parametrize("obs", GROUPS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_it_is_what_the_real_learner_takes(tmp_path: Path, runner: str, obs: str) -> None:
    prefix, epochs = {
        "rsl_rl": ("agent", "agent.algorithm.num_learning_epochs=1"),
        "rl_games": ("agent.params.config", "agent.params.config.mini_epochs=1"),
        "skrl": ("agent", "agent.agent.learning_epochs=1"),
        "sb3": ("agent", "agent.n_epochs=1"),
    }[runner]
    agent = [f"{prefix}.samples_per_update=512", epochs]
    run = resolved(f"runner={runner}", f"obs={obs}", agent=agent)
    spaces = Spaces({**VECTORS, **GROUPS[obs]}, 3)
    predicted = learner_memory(run, spaces)

    real = run.adapter.make(StandIn(spaces, NUM_ENVS), run.agent_cfg, tmp_path, "cpu")
    real.train(1, lambda completed, metrics: Decision.STOP)
    sizes = {kind: tensor_bytes(holder) for kind, holder in real.holders().items()}
    assert predicted.weights == sizes["network weights"]
    assert predicted.optimizer == sizes["optimizer"]
    assert predicted.storage == pytest.approx(sizes["rollout storage"], rel=0.01)
    with MemoryPeak() as peak:
        real.train(2, lambda completed, metrics: Decision.STOP)
    # RL-Games makes its buffers anew when it is called again.
    anew = predicted.storage if runner == "rl_games" else 0
    assert predicted.activations == pytest.approx(peak.bytes - anew, rel=0.25)


def test_a_memory_is_part_of_weights_and_storage(tmp_path: Path) -> None:
    run = resolved("recurrent=lstm", agent=["agent.samples_per_update=512", "agent.actor.rnn_hidden_dim=32"])
    spaces = Spaces({**VECTORS, **GROUPS["points"]}, 3)
    predicted = learner_memory(run, spaces)

    real = run.adapter.make(StandIn(spaces, NUM_ENVS), run.agent_cfg, tmp_path, "cpu")
    real.train(1, lambda completed, metrics: Decision.STOP)
    sizes = {kind: tensor_bytes(holder) for kind, holder in real.holders().items()}
    assert predicted.weights == sizes["network weights"]
    assert predicted.storage == pytest.approx(sizes["rollout storage"], rel=0.01)
    without = learner_memory(resolved("algorithm=ppo", agent=["agent.samples_per_update=512"]), spaces)
    per_sample = 2 * 32 * 4
    assert predicted.storage - without.storage == pytest.approx(512 * per_sample, rel=0.05)
    assert predicted.activations is None


LEARNERS = {
    "distill": ("runner=rsl_rl", "agent.algorithm.num_learning_epochs=1"),
}


@pytest.mark.parametrize("obs", GROUPS)
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_replay_is_what_the_real_one_takes(tmp_path: Path, algorithm: str, obs: str) -> None:
    runner, epochs = LEARNERS[algorithm]
    agent = ["agent.samples_per_update=512", epochs]
    run = resolved(f"algorithm={algorithm}", runner, "replay_samples=3000", f"obs={obs}", agent=agent)
    spaces = Spaces({**VECTORS, **GROUPS[obs]}, 3)
    predicted = learner_memory(run, spaces)

    real = run.adapter.make(StandIn(spaces, NUM_ENVS), run.agent_cfg, tmp_path, "cpu")
    real.train(1, lambda completed, metrics: Decision.STOP)
    sizes = {kind: tensor_bytes(holder) for kind, holder in real.holders().items()}
    assert predicted.replay == sizes["replay"]
    assert predicted.storage == 0
    assert (predicted.weights, predicted.optimizer) == (sizes["network weights"], sizes["optimizer"])
    with MemoryPeak() as peak:
        real.train(2, lambda completed, metrics: Decision.STOP)
    assert predicted.activations == pytest.approx(peak.bytes, rel=0.25)


def test_encoders_that_recompute_hold_less_than_their_activations() -> None:
    spaces = Spaces({**VECTORS, **GROUPS["points"]}, 3)
    run = resolved()
    run.plan = BatchPlan(horizon=128, num_minibatches=1, minibatch_size=20_000)
    on_cpu = learner_memory(run, spaces).activations
    # Kept, the 32 features of 64 critical points of each sample would be this alone.
    assert on_cpu is not None
    assert on_cpu < 20_000 * 64 * 32 * 4


@pytest.mark.parametrize("clouds", [24_576, 40_000])
def test_the_large_agents_activations_on_a_gpu_follow_from_its_layers(clouds: int) -> None:
    spaces = Spaces({**VECTORS, "points": ((128, 3), "float16")}, 3)
    run = resolved("agent=large")
    run.plan = BatchPlan(horizon=24, num_minibatches=1, minibatch_size=clouds)
    run.device = "cuda:0"
    predicted = learner_memory(run, spaces).activations

    per_point = 4 * (3 + 64 + 128)
    critical_points = 256 * 4 * 128
    kept = clouds * (128 * per_point + critical_points)
    assert predicted is not None
    if clouds <= 2**23 // 256:
        # Beside it: a part's last layer for every point, and gradients.
        assert kept < predicted < 1.6 * kept
    else:
        assert predicted < 0.5 * kept


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_chunk_of_the_encoder_lowers_the_prediction(device: str) -> None:
    spaces = Spaces({**VECTORS, **GROUPS["points"]}, 3)

    def predicted(chunk: int | str) -> int:
        encoder = "agent.actor.encoder"
        run = resolved(agent=[f"{encoder}.point_encoder=dp3", f"{encoder}.chunk={chunk}"])
        run.plan = BatchPlan(horizon=4, num_minibatches=1, minibatch_size=32)
        run.device = device
        activations = learner_memory(run, spaces).activations
        assert activations is not None
        return activations

    assert predicted(8) < 0.5 * predicted("auto")


def test_bfloat16_lowers_the_prediction_for_a_cpu_alone() -> None:
    spaces = Spaces({**VECTORS, **GROUPS["points"]}, 3)

    def predicted(precision: str, device: str) -> int:
        run = resolved(agent=["agent.actor.encoder.point_encoder=dp3", f"agent.actor.encoder.precision={precision}"])
        run.plan = BatchPlan(horizon=4, num_minibatches=1, minibatch_size=64)
        run.device = device
        activations = learner_memory(run, spaces).activations
        assert activations is not None
        return activations

    assert predicted("bf16", "cpu") < 0.7 * predicted("float32", "cpu")
    assert predicted("bf16", "cuda:0") == predicted("float32", "cuda:0")


def test_only_what_is_held_at_once_counts() -> None:
    with MemoryPeak() as peak:
        for _ in range(3):
            tensor = torch.zeros(1 << 18)
            tensor.add_(1.0)
            view = tensor[:10]
        del tensor, view
    assert 1 << 20 <= peak.bytes <= 2 << 20
