# SPDX-License-Identifier: BSD-3-Clause
"""Wrong settings of every command: one line that names them, before anything starts and with nothing left behind."""

from importlib import import_module
from pathlib import Path

import pytest

from isaaclab_pc.commands import COMMANDS, demo, export, new_task, play, replay, scale, train, view

LONG = "x" * 3000
HUGE = "9" * 5000
LIFT = "task=lift device=cpu physics=newton_mjwarp"
STABILITY = "--stability task=lift device=cpu physics=ovphysx"
NODE = "nodes=2 node_rank=1 rendezvous=host device=cpu"
EXPERT = "resume=expert device=cpu"

EVERY_COMMAND = [import_module(f"isaaclab_pc.commands.{name}") for name in COMMANDS]
TAKING_A_PATH = ((demo, "file"), (play, "resume"), (replay, "dump"), (train, "resume"), (view, "policy"))

ALONE = [
    (train, "task=raech", "task=raech reach"),
    (train, "runner=rslrl", "runner=rslrl rsl_rl skrl"),
    (train, "resume=latest", "resume=latest logs/rsl_rl/reach"),
    (train, "scaling.min=9 scaling.max=3", "scaling.min=9 scaling.max=3"),
    (train, "-m seed=1,2 num_envs=8,0", "num_envs=0"),
    (train, "seed=4294967296", "seed=4294967296 4,294,967,295"),
    (train, "--run hydra.run.dir=/proc/nope", "hydra.run.dir=/proc/nope"),
    (train, "-m hydra.sweep.dir=/proc/nope seed=1,2", "hydra.sweep.dir=/proc/nope"),
    (train, "points.crop=[[100,101],[0,1],[0,1]]", "points.crop=[[100, 101], [[x0,x1],"),
    (train, f"resume={LONG}", "resume=xxx"),
    (train, "env.a=[1", "env.a=[1"),
    (train, f"task=lift teacher=train {NODE}", "teacher=train nodes=2 obs=state"),
    *((command, "seed = 16", "") for command in EVERY_COMMAND),
    *((command, "/tmp", f"{key}=/tmp") for command, key in TAKING_A_PATH),
    (play, f"resume={LONG}", "resume=xxx"),
    (play, f"{EXPERT} task=Isaac-Cartpole-Direct", "Isaac-Cartpole-Direct lift, open_drawer"),
    (play, f"{EXPERT} runner=skrl", "runner --help"),
    (play, f"{EXPERT} agent.x=3", "agent.x=3 --help"),
    (play, f"{EXPERT} num_envs=auto", "num_envs=auto"),
    (export, f"run={LONG}", "run=xxx"),
    (export, "run=/etc/passwd", "run=/etc/passwd"),
    (replay, "dump=/etc/passwd", "/etc/passwd"),
    (replay, "device=cpu", "dump=<path> <run>/dumps/dump_<number>.npz"),
    (demo, f"{LIFT} episodes={HUGE}", "episodes=999"),
    (demo, f"{LIFT} episodes=0", "episodes=0 10,000,000"),
    (demo, f"{LIFT} file={LONG}.hdf5", "xxx"),
    (demo, f"{LIFT} file=/proc/a.hdf5", "/proc"),
    (demo, f"{LIFT} file=demos.h5", "file=demos.h5 .hdf5"),
    (demo, f"{LIFT} agent.gamma=1", "agent.gamma"),
    (scale, "--stabiltiy", "--stabiltiy --stability"),
    (scale, "resume=latest", "resume"),
    (scale, "device=cuda:0,cuda:1", "device=cuda:0,cuda:1 gpus=2"),
    (scale, "gpus=64 device=cpu", "gpus=64 device=cpu"),
    (scale, "workers=2", "workers=2 cluster=ray"),
    (scale, "device=cpu teacher=train", "teacher=train obs=state"),
    (scale, "--stability device=cpu eval.episodes=0", "eval.episodes=0"),
    (scale, "--stability device=cpu visualizer=viser", "visualizer --stability"),
    (scale, f"{STABILITY} physics.preset=fast", "physics.preset=fast"),
    (scale, f"{STABILITY} guard.mode=disabled", "guard.mode=disabled"),
    (view, f"{LIFT} num_envs=65", "num_envs=65 force=true"),
    (view, f"{LIFT} record=out.txt", "record=out.txt .mp4"),
    (view, f"{LIFT} record=out.mp4 policy=keyboard", "policy=keyboard record"),
    (view, f"{LIFT} record=nowhere/out.mp4", "record=nowhere/out.mp4"),
    (view, f"{LIFT} policy=latest", "policy=latest logs/rsl_rl/lift"),
    (view, f"{LIFT} policy=expret", "policy=expret latest best"),
    (view, f"{LIFT} runner=sb3 policy=pretrained", "runner"),
    (new_task, "", "press_button"),
    (new_task, "lift", "lift"),
]
"""Command, its arguments, and words of its refusal."""

REACH = "task=IsaacPC-Reach-Franka-Direct"
GOES_ON = "resume=latest max_iterations=9"

WITH_A_RUN = [
    (train, "resume=latest", "resume=latest model_3.pt max_iterations"),
    (train, f"{GOES_ON} num_envs=16", "num_envs=16 num_envs=8"),
    (train, f"{GOES_ON} seed=1", "seed: max_iterations physics.substeps"),
    (train, f"{GOES_ON} physics.contacts=9", "physics.contacts: physics.substeps"),
    (train, f"{GOES_ON} env.x=1", "env.x=1: physics.substeps"),
    (train, f"{GOES_ON} physics.decimation=8", "physics.dt physics.decimation"),
    (train, "resume=latest task=lift", "resume=latest logs/rsl_rl/lift"),
    (train, "resume=RUN task=lift max_iterations=9", REACH),
    (train, "resume=RUN obs=state max_iterations=9", "obs=points state"),
    (play, "max_iterations=3", "max_iterations --help"),
    (play, "points.frame=env", "points.frame --help"),
    (play, "agent.x=3", "agent.x=3"),
    (play, "num_envs=auto", "num_envs=auto"),
    (play, "resume=RUN task=lift", REACH),
    (export, "run=nothing", "run=nothing latest best"),
    (export, "run=RUN task=lift", REACH),
    (export, "resume=best", "resume run=<run>"),
    (export, "num_envs=4", "num_envs --help"),
]


def content(folder: Path) -> dict[Path, bytes]:
    """Return the files below a folder but for locks."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def name(value: object) -> str | None:
    return value[:60] if isinstance(value, str) else getattr(value, "__name__", "").rpartition(".")[2]


@pytest.mark.parametrize(("command", "arguments", "words"), ALONE, ids=name)
def test_a_wrong_setting_leaves_nothing(folder, refused, command, arguments, words):
    refused(command, arguments.split(), words)
    assert content(folder) == {}


@pytest.mark.parametrize(("command", "arguments", "words"), WITH_A_RUN, ids=name)
def test_a_setting_that_does_not_fit_a_run_leaves_it_as_it_was(folder, run, refused, command, arguments, words):
    before = content(folder)
    refused(command, arguments.replace("RUN", str(run)).split(), words)
    assert content(folder) == before


@pytest.mark.parametrize(
    ("command", "missing", "arguments", "words"),
    [
        (view, "viser", LIFT, "viser isaaclab_pc[viz] record=<path>.mp4"),
        (view, "av", f"{LIFT} record=out.mp4", "record=out.mp4 av, isaaclab_pc[viz]"),
        (export, "onnxruntime", "", "onnxruntime isaaclab_pc[export]"),
    ],
    ids=name,
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(
    run, refused, monkeypatch, command, missing, arguments, words
):
    monkeypatch.setattr(command, "is_installed", lambda module: module != missing)
    refused(command, arguments.split(), words)
