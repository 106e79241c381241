# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a plan: what configs tell, and what earlier trials add."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from isaaclab_pc.launch.compose import compose
from isaaclab_pc.scaling import Outcome, Trial, memory_plan
from isaaclab_pc.scaling.earlier_trials import EarlierTrials, RunKind, TrialsFile, find_earlier_trials
from isaaclab_pc.scaling.learner_memory import LearnerMemory
from isaaclab_pc.scaling.ledger import OVERHEAD, SIMULATION, TRAINING
from isaaclab_pc.scaling.memory_plan import find_spaces, missing_kinds, predict_memory
from isaaclab_pc.scaling.observation_size import cloud_shape, kept_bytes, observation_bytes
from isaaclab_pc.scaling.trial import MemoryReport, Spaces
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve

MIB = 1 << 20
SPACES = Spaces({"policy": ((24,), "float32"), "critic": ((30,), "float32")}, num_actions=3)
NOTHING = EarlierTrials()


def settings_of(*settings: str) -> RunSettings:
    return compose(["task=reach", "device=cpu", "physics=newton_mjwarp", *settings])


def trial(num_envs: int, outcome: Outcome = Outcome.FITS) -> Trial:
    memory = MemoryReport(before_env=1000 * MIB, after_env=(1200 + num_envs) * MIB, spaces=SPACES)
    return Trial(num_envs, outcome, host_bytes=(1230 + num_envs) * MIB, memory=memory)


def leave(folder: Path, time: str, settings: RunSettings, *trials: Trial) -> None:
    path = folder / "reach" / time
    path.mkdir(parents=True)
    TrialsFile(RunKind.of(settings), trials).write(path / "trials.json")


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> LearnerMemory:
    """A learner that need not be built."""
    memory = LearnerMemory(weights=1 * MIB, optimizer=2 * MIB, storage=3 * MIB, replay=0, activations=4 * MIB)
    monkeypatch.setattr(memory_plan, "learner_memory", lambda resolved, spaces: memory)
    return memory


def test_the_newest_trial_of_each_size_is_found(tmp_path: Path) -> None:
    leave(tmp_path, "2026-01-01", settings_of(), trial(32), trial(64))
    compiled = replace(trial(512), compiled=True)
    leave(tmp_path, "2026-01-02", settings_of("seed=7"), compiled, trial(64), trial(128, Outcome.OVER_BUDGET))
    leave(tmp_path, "2026-01-03", settings_of("obs=state"), trial(256))
    leave(tmp_path, "2026-01-04", settings_of())
    (tmp_path / "reach" / "2026-01-04" / "trials.json").write_text("[{", encoding="utf-8")
    earlier = find_earlier_trials(RunKind.of(settings_of()), tmp_path)
    assert sorted(trial.num_envs for trial in earlier.trials) == [32, 64]
    assert earlier.folder.endswith("2026-01-02")
    assert earlier.spaces == SPACES
    assert find_earlier_trials(RunKind.of(settings_of("runner=rl_games")), tmp_path) == NOTHING


def test_without_a_trial_the_plan_says_what_is_missing(learner: LearnerMemory) -> None:
    resolved = resolve(settings_of(), 64, "reach")
    parts = predict_memory(resolved, NOTHING)
    assert parts["network weights"][0] == learner.weights
    assert parts["rollout storage"][0] == learner.storage
    assert parts[TRAINING][0] == learner.activations
    assert parts["contact buffers"][1] > 60 * 100
    assert OVERHEAD not in parts
    assert missing_kinds(parts, resolved, NOTHING) == [OVERHEAD, SIMULATION, TRAINING]


def test_a_real_cameras_errors_are_planned_for(learner: LearnerMemory) -> None:
    plain = resolve(settings_of(), 64, "reach")
    real = resolve(settings_of("points.realism=stereo"), 64, "reach")
    camera, points = real.env_cfg.scene.camera, real.env_cfg.scene.points
    rows, channels, itemsize = cloud_shape(points)

    more = predict_memory(real, NOTHING)["clouds"][1] - predict_memory(plain, NOTHING)["clouds"][1]

    # The image with its errors, and the clouds, their counts and pixels of this frame and of the one before.
    least = 4 * camera.height * camera.width + 2 * (rows * channels * itemsize + 4 + 4 * rows)
    assert least < more < 1.1 * least


def test_what_the_renderer_holds_beside_the_images_is_planned_for(learner: LearnerMemory) -> None:
    plain = resolve(settings_of(), 64, "reach")
    camera = plain.env_cfg.scene.camera
    pixels = camera.height * camera.width
    plain.env_cfg.scene.points.remove = ()
    parts = predict_memory(plain, NOTHING)
    assert parts["camera buffers"][:2] == (0, 4 * pixels)
    # Origin and direction of each ray; a pose.
    assert parts["renderer buffers"][:2] == (24 * pixels, 28)

    plain.env_cfg.scene.points.features = ("segmentation", "rgb")
    parts = predict_memory(plain, NOTHING)
    # Depth, classes, and colours with their alpha; the shape of each pixel, from which the classes are looked up.
    assert parts["camera buffers"][:2] == (0, 12 * pixels)
    assert parts["renderer buffers"][:2] == (24 * pixels, 28 + 4 * pixels)
    plain.env_cfg.scene.camera.renderer_cfg.renderer_type = "isaac_rtx"
    assert "renderer buffers" not in predict_memory(plain, NOTHING)


def test_the_recorder_of_faults_is_planned_for(learner: LearnerMemory) -> None:
    resolved = resolve(settings_of(), 64, "reach")
    fixed, per_env, _ = predict_memory(resolved, NOTHING)["fault recorder"]
    # The roots of arm and goal, and 9 joints with their targets; with actions and a clock in each of 64 steps.
    state = 2 * 13 + 4 * 9
    assert per_env == 64 * 4 * (state + 3 + 2) + 4 * state
    assert fixed == pytest.approx(4 * per_env, rel=0.01)
    many = predict_memory(resolve(settings_of(), 1 << 16, "reach"), NOTHING)["fault recorder"]
    assert many[1] * (1 << 16) < 200 * MIB
    for off in ("guard.dump=0", "guard.mode=disabled"):
        assert "fault recorder" not in predict_memory(resolve(settings_of(off), 64, "reach"), NOTHING)


@pytest.mark.parametrize("obs", ["points", "depth"])
def test_earlier_frames_are_planned_for(learner: LearnerMemory, obs: str) -> None:
    given = ["task=reach", "device=cpu", "physics=newton_mjwarp", f"obs={obs}"]
    one = resolve(compose(given), 64, "reach")
    three = resolve(compose(given, ["env.history_length=3"]), 64, "reach")
    assert "observation history" not in predict_memory(one, NOTHING)

    points, camera = three.env_cfg.scene.points, three.env_cfg.scene.camera
    seen = 2 * 3 * points.num_points if obs == "points" else 4 * camera.height * camera.width
    assert predict_memory(three, NOTHING)["observation history"][:2] == (0, 3 * (seen + 4 * 24))
    assert observation_bytes(three.env_cfg) == 3 * observation_bytes(one.env_cfg) == 3 * seen
    assert kept_bytes(three.env_cfg) == 3 * kept_bytes(one.env_cfg)

    spaces = find_spaces(three.env_cfg, None)
    assert spaces is not None
    assert spaces.observations["policy"] == ((3 * 24,), "float32")
    # A trial's vectors are those of its own history.
    assert find_spaces(three.env_cfg, spaces) == spaces
    assert find_spaces(one.env_cfg, spaces) == find_spaces(one.env_cfg, None)


def test_the_points_that_show_the_goal_are_planned_for(learner: LearnerMemory) -> None:
    given = ["task=push", "device=cpu", "physics=newton_mjwarp"]
    plain = resolve(compose(given), 64, "push")
    shown = resolve(compose(given, ["env.goal_points=6"]), 64, "push")
    points = shown.env_cfg.scene.points
    assert cloud_shape(points) == (points.num_points + 6, 3, 2)
    assert observation_bytes(shown.env_cfg) - observation_bytes(plain.env_cfg) == 6 * 3 * 2

    spaces = find_spaces(shown.env_cfg, None)
    assert spaces is not None
    assert spaces.observations["points"] == ((points.num_points + 6, 3), "float16")
    more = predict_memory(shown, NOTHING)["clouds"][1] - predict_memory(plain, NOTHING)["clouds"][1]
    # Their coordinates, and their part of the mask.
    assert more == 6 * (3 * 2 + 1)


def test_a_replay_is_planned_for(learner: LearnerMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    with_replay = replace(learner, storage=0, replay=5 * MIB)
    monkeypatch.setattr(memory_plan, "learner_memory", lambda resolved, spaces: with_replay)
    resolved = resolve(settings_of("algorithm=distill", "replay_samples=5000"), 64, "reach")
    parts = predict_memory(resolved, NOTHING)
    assert parts["replay"][0] == 5 * MIB
    assert "5000 samples" in parts["replay"][2]
    assert "rollout storage" not in parts


def test_trials_tell_the_rest_and_its_growth(learner: LearnerMemory) -> None:
    resolved = resolve(settings_of(), 64, "reach")
    earlier = EarlierTrials((trial(32), trial(96)), "logs/scale/reach/2026-01-01")
    parts = predict_memory(resolved, earlier)
    assert parts[OVERHEAD][:2] == (1000 * MIB, 0)
    assert parts[SIMULATION][:2] == pytest.approx((200 * MIB, MIB))
    # 30 MiB beside the environment, of which the activations are a part.
    assert parts[TRAINING][0] == 30 * MIB
    assert "2026-01-01" in parts[TRAINING][2]
    assert missing_kinds(parts, resolved, earlier) == []


def test_one_trial_tells_no_growth_and_the_plan_says_so(learner: LearnerMemory) -> None:
    parts = predict_memory(resolve(settings_of(), 64, "reach"), EarlierTrials((trial(32),), "x"))
    assert parts[SIMULATION] == (232 * MIB, 0, "measured in x, at 32 environments only")


def test_sizes_are_those_of_a_trial_or_of_the_config() -> None:
    points = resolve(settings_of("points.num_points=20"), 8, "reach").env_cfg
    declared = find_spaces(points, None)
    assert declared is not None
    assert declared.observations["points"] == ((20, 3), "float16")
    assert (declared.observations["policy"][0], declared.num_actions) == ((24,), 3)
    state = find_spaces(resolve(settings_of("obs=state"), 8, "reach").env_cfg, None)
    assert state is not None
    assert state.observations == {"policy": ((30,), "float32"), "critic": ((30,), "float32")}
    spaces = Spaces({"policy": ((5,), "float32")}, num_actions=2)
    measured = find_spaces(points, spaces)
    assert measured is not None
    assert measured.observations == {"policy": ((5,), "float32"), "points": ((20, 3), "float16")}
    foreign = SimpleNamespace(observation_space=12, state_space=0, action_space=4)
    found = find_spaces(foreign, None)
    assert found is not None
    assert (found.observations, found.num_actions) == ({"policy": ((12,), "float32")}, 4)
    assert find_spaces(SimpleNamespace(), None) is None
