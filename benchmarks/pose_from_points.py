# SPDX-License-Identifier: BSD-3-Clause
"""How precisely a task's clouds show what the hand has to meet: the question to ask before a student is trained.

A network like the student's learns, from clouds on the expert's way with noise on its actions, where in the gripper's
axes the cube is from the tool (``lift``), the place to put it from the cube that is held (``stack``), or the hole from
the peg's head (``peg_insert``). Errors are medians, over environments that it has not seen and over those that it
learned from. An error above the precision that the task needs means that another camera is needed, or other points; no
learner mends it.

    python benchmarks/pose_from_points.py task=peg_insert
    python benchmarks/pose_from_points.py task=peg_insert 'points.features=[normals]' points.num_points=512 --steps 2000

Arguments like those of ``scripts/train.py`` choose what the clouds are. Prints a row of a table in Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from isaaclab.utils.math import quat_apply, quat_apply_inverse
from torch import Tensor, nn

from isaaclab_pc.agents.distill import DEFAULT
from isaaclab_pc.agents.networks import make_mlp
from isaaclab_pc.agents.point_encoders import make_point_encoder
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.cli.task_names import our_tasks
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

UNIT_M = 0.05
"""Positions are learned in this unit."""
MINIBATCH = 256
NEAR_M = 0.15
"""Distance from which the precision counts."""
HELD_OUT = 4
"""One environment in so many is not learned from."""
EVERY = 4
"""Control steps from one sample to the next: neighbours look alike."""
ACTION_STD = 0.2
"""Noise on the expert's actions."""


Find = Callable[[Any], tuple[Tensor, Tensor, Tensor]]
"""Tells of environments what is to be found, what has to meet it, both in the environment's frame, (N, 3), and where
that is the question now, (N,), bool."""


class Samples(NamedTuple):
    """What was seen on the way."""

    clouds: Tensor
    """Clouds, (B, K, C)."""

    targets: Tensor
    """The way to the target, in the gripper's axes, (B, 3), in units of ``UNIT_M``: the network is to tell it."""

    near: Tensor
    """Whether that is within ``NEAR_M`` of what has to meet it, (B,), bool."""

    held_out: Tensor
    """Whether they are of an environment that is not learned from, (B,), bool."""


def main() -> None:
    """Collect, learn, and print a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+", metavar="key=value", help="as for scripts/train.py; task is needed")
    parser.add_argument("--envs", type=int, default=64, help="environments to collect in (default: 64)")
    parser.add_argument("--samples", type=int, default=8_000, help="clouds to collect (default: 8000)")
    parser.add_argument(
        "--steps", type=int, default=1_000, help=f"gradient steps on {MINIBATCH} clouds (default: 1000)"
    )
    args = parser.parse_args()
    if args.envs < 2 * HELD_OUT:
        parser.error(f"--envs: {2 * HELD_OUT} at least, one in {HELD_OUT} is not learned from")

    env = [text for text in args.settings if text.startswith("env.")]
    others = [text for text in args.settings if text not in env]
    settings = choose_platform(compose([*others, "obs=points"], env))
    names = {gym_id: name for name, gym_id in our_tasks().items()}
    name = names.get(settings.task, settings.task)
    if name not in TARGETS:
        sys.exit(f"task={name}: choose one of {', '.join(TARGETS)}")
    torch.manual_seed(0)
    samples = collect(settings, TARGETS[name], args.envs, args.samples)
    model = learn(samples, args.steps)

    print("| clouds | learned from | seen anew [mm] | within 15 cm [mm] | learned from, again [mm] |")
    print("|---|---:|---:|---:|---:|")
    numbers = [
        median_error(model, samples, which)
        for which in (samples.held_out, samples.held_out & samples.near, ~samples.held_out)
    ]
    cells = " | ".join(f"{number:.1f}" for number in numbers)
    print(f"| `{' '.join(args.settings)}` | {int((~samples.held_out).sum())} | {cells} |")


def collect(settings: RunSettings, find: Find, num_envs: int, count: int) -> Samples:
    """Let the expert act, with noise, and keep clouds with what they are to tell."""
    settings = settings.with_values({"num_envs": num_envs, "device": "cpu"})
    resolved = resolve(settings, num_envs)
    held_out = torch.arange(num_envs) % HELD_OUT == 0

    parts: list[Samples] = []
    with open_env(resolved) as env, torch.no_grad():
        base = env.unwrapped
        expert = base.expert()
        obs, _ = env.reset(seed=0)
        # Episodes that begin together would show all environments at the same stage.
        base.episode_length_buf[:] = torch.randint(base.max_episode_length, (num_envs,))
        while sum(len(part.clouds) for part in parts) < count:
            for _ in range(EVERY):
                actions = expert()
                noisy = actions + ACTION_STD * torch.randn_like(actions)
                noisy[:, -1] = actions[:, -1]  # the gripper's side is the expert's
                obs, *_ = env.step(noisy.clamp(-1.0, 1.0))
            target, met_by, counts = find(base)
            near = torch.linalg.vector_norm(target - met_by, dim=1) < NEAR_M
            seen = quat_apply_inverse(base.tool_quat, target - met_by) / UNIT_M
            part = (obs["points"].clone(), seen, near, held_out)
            parts.append(Samples(*(values[counts] for values in part)))
    return Samples(*(torch.cat(values) for values in zip(*parts, strict=True)))


def learn(samples: Samples, steps: int) -> nn.Module:
    """Train the student's encoder with a head of the student's size."""
    cfg = DEFAULT.encoder
    encoder = make_point_encoder(
        "pointnet",
        samples.clouds.shape[-1],
        cfg.point_channels,
        scale=cfg.point_scale,
        frequencies=cfg.point_frequencies,
    )
    model = nn.Sequential(encoder, make_mlp(cfg.point_channels[-1], DEFAULT.hidden, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    learned = (~samples.held_out).nonzero()[:, 0]
    for _ in range(steps):
        batch = learned[torch.randint(len(learned), (MINIBATCH,))]
        loss = nn.functional.l1_loss(model(samples.clouds[batch]), samples.targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def median_error(model: nn.Module, samples: Samples, which: Tensor) -> float:
    """Return the median distance of what the network tells from the truth [mm]."""
    found = torch.cat([model(clouds) for clouds in samples.clouds[which].split(MINIBATCH)])
    errors = torch.linalg.vector_norm(found - samples.targets[which], dim=1)
    return 1e3 * UNIT_M * statistics.median(errors.tolist())


def _cube(env: Any) -> tuple[Tensor, Tensor, Tensor]:
    return env.cube_pos, env.tool_pos, torch.ones_like(env.grasped)


def _place(env: Any) -> tuple[Tensor, Tensor, Tensor]:
    return env.stack_pos, env.cube_a_pos, env.grasped


def _hole(env: Any) -> tuple[Tensor, Tensor, Tensor]:
    head = env.hole_pos + quat_apply(env.box_quat, env.head_in_hole)
    return env.hole_pos, head, env.grasped & (env.head_in_hole[:, 0] < -env.half_length)


TARGETS: dict[str, Find] = {"lift": _cube, "peg_insert": _hole, "stack": _place}


if __name__ == "__main__":
    main()
