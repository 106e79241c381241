# SPDX-License-Identifier: BSD-3-Clause
"""A short film of a task's pretrained policy: the scene, and beside it the cloud that the policy sees.

Run ``python benchmarks/film.py lift push``: it writes ``docs/images/lift.gif`` and ``push.gif``. A task that comes
with no policy shows its expert. ``--sheet`` puts the films of all tasks into one, ``tasks.gif``. ``--held-out
lift_any`` shows objects at once that the policy was not trained on, in ``objects.gif``; cabinets and valves likewise.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from generalization import SETS
from PIL import Image, ImageDraw
from task_sheet import VIEWS, View

from isaaclab_pc.assets.articulated.cabinets import CABINETS
from isaaclab_pc.assets.articulated.valves import VALVES
from isaaclab_pc.assets.objects.sets import load_set
from isaaclab_pc.cli.compose import compose
from isaaclab_pc.envs.observation_history import newest_frame
from isaaclab_pc.run.platform import choose_platform
from isaaclab_pc.run.pretrained import find_pretrained, pretrained_tasks
from isaaclab_pc.viewer.film_recorder import points_in_world
from isaaclab_pc.viewer.scene_pictures import PictureView, add_picture_camera, draw_points, read_pictures
from isaaclab_pc.workers.resolve import Resolved, resolve
from isaaclab_pc.workers.session import open_env

WIDTH = 300
HEIGHT = 210
FOV_DEG = 48.0
SEED = 5
EVERY = 3
"""Control steps from one picture to the next."""
COLORS = 48
DOT = 4
"""Edge of a point in the picture [px]."""
HIGHEST = 0.4
"""Height from which all points have one colour [m]."""
SHEET_COLUMNS = 2
SHEET_WIDTH = 440
"""Of one film in the sheet [px]."""
SHEET_COLORS = 128
SHEET_S = 8.0
"""Length of the sheet's film [s]; shorter films begin again."""
OBJECT_WIDTH = 120
OBJECT_HEIGHT = 96
OBJECT_FOV_DEG = 30.0
OBJECT_COLUMNS = 6
SHOWN = {"lift_any": 24, "open_drawer": 12, "turn_valve": 12}
"""Environments in a film of a set."""
SHEET_EVERY = 2
"""Pictures of a film from one picture of the sheet to the next."""


def film_held_out(task: str) -> tuple[list[Image.Image], float]:
    """Play a task's pretrained policy in as many environments as its set ``held_out`` has members, and show some.

    Returns:
        The pictures, and the time between them [s].
    """
    members = {"lift_any": load_set, "open_drawer": CABINETS.get, "turn_valve": VALVES.get}[task]("held_out")
    assert members is not None
    num_envs = len(members)
    settings, checkpoint = find_pretrained(compose([f"task={task}"]))
    overrides = [*settings.env_overrides, f"{SETS[task]}=held_out"]
    changes = {"seed": SEED, "device": "cpu", "env_overrides": overrides}
    resolved = resolve(choose_platform(settings.with_values(changes)), num_envs)
    view = replace(picture_view(VIEWS[task]), width=OBJECT_WIDTH, height=OBJECT_HEIGHT, fov_deg=OBJECT_FOV_DEG)
    add_picture_camera(resolved.env_cfg, view)
    shown = np.linspace(0, num_envs - 1, SHOWN[task]).round().astype(int)
    grid = (SHOWN[task] // OBJECT_COLUMNS, OBJECT_COLUMNS, OBJECT_HEIGHT, OBJECT_WIDTH, 3)

    pictures = []
    with open_env(resolved) as env, tempfile.TemporaryDirectory() as scratch:
        base: Any = env.unwrapped
        act = actor(resolved, env, checkpoint, Path(scratch))
        observations, _ = env.reset(seed=SEED)
        for step in range(base.max_episode_length):
            if step % EVERY == 0:
                scenes = read_pictures(base)[shown].reshape(grid)
                pictures.append(Image.fromarray(np.concatenate(np.concatenate(scenes, axis=1), axis=1)))
            observations, *_ = env.step(act(observations))
    return pictures, EVERY * base.step_dt


def film(task: str, episodes: int) -> tuple[list[Image.Image], float]:
    """Play the pretrained policy, or the expert, in one environment.

    Returns:
        The pictures, and the time between them [s].
    """
    settings, checkpoint = compose([f"task={task}"]), None
    if task in pretrained_tasks():
        settings, checkpoint = find_pretrained(settings)
    settings = choose_platform(settings.with_values({"seed": SEED, "device": "cpu"}))
    resolved = resolve(settings, 1)
    view = picture_view(VIEWS[task])
    add_picture_camera(resolved.env_cfg, view)

    pictures = []
    with open_env(resolved) as env, tempfile.TemporaryDirectory() as scratch:
        base: Any = env.unwrapped
        act = actor(resolved, env, checkpoint, Path(scratch))
        observations, _ = env.reset(seed=SEED)
        for step in range(episodes * base.max_episode_length):
            if step % EVERY == 0:
                scene = read_pictures(base)[0]
                seen = newest_frame(observations, base.cfg.history_length)["points"]
                points = points_in_world(base, seen[:1, :, :3])[0] - base.scene.env_origins[0]
                pictures.append(Image.fromarray(np.hstack([scene, cloud_picture(points.cpu().numpy(), scene, view)])))
            observations, *_ = env.step(act(observations))
    return pictures, EVERY * base.step_dt


def actor(resolved: Resolved, env: Any, checkpoint: Path | None, scratch: Path) -> Callable[[Any], torch.Tensor]:
    """Return what acts on observations: the policy of a checkpoint, or without one the task's expert."""
    if checkpoint is None:
        expert = env.unwrapped.expert()
        return lambda observations: expert()

    runner = resolved.adapter.make(env, resolved.agent_cfg, scratch, resolved.settings.device)
    runner.load_policy(checkpoint, {"task": resolved.settings.task})
    return runner.act


def picture_view(view: View) -> PictureView:
    """Return a task's view in the films' size."""
    return PictureView(eye=view.eye, target=view.target, width=WIDTH, height=HEIGHT, fov_deg=FOV_DEG)


def cloud_picture(points: np.ndarray, scene: np.ndarray, view: PictureView) -> np.ndarray:
    """Draw points into a faded picture of the scene, coloured by height.

    Args:
        points: Points in the environment frame [m], shape (K, 3).
        scene: Picture of the scene, (HEIGHT, WIDTH, 3), uint8.
        view: From where it was taken.

    Returns:
        Picture, (HEIGHT, WIDTH, 3), uint8.
    """
    colors = (255 * mpl.colormaps["viridis"](points[:, 2] / HIGHEST)[:, :3]).astype(np.uint8)
    return draw_points(points, colors, scene, view, DOT)


def save(pictures: list[Image.Image], path: Path, interval: float, colors: int = COLORS) -> None:
    """Write a GIF that plays in real time, with one palette for all pictures."""
    palette = pictures[len(pictures) // 2].quantize(colors, Image.Quantize.MEDIANCUT)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    path.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=round(1000 * interval), loop=0, optimize=True
    )
    print(f"written: {path}, {len(frames)} pictures, {path.stat().st_size / 1e6:.2f} MB")


def sheet(folder: Path) -> tuple[list[Image.Image], float]:
    """Put the films of all tasks side by side, each with its name.

    Args:
        folder: Where they are.

    Returns:
        The pictures, and the time between them [s].
    """
    films = {task: Image.open(folder / f"{task}.gif") for task in sorted(VIEWS)}
    first = next(iter(films.values()))
    interval = SHEET_EVERY * first.info["duration"] / 1000.0
    width, height = SHEET_WIDTH, first.height * SHEET_WIDTH // first.width
    rows = math.ceil(len(films) / SHEET_COLUMNS)

    pictures = []
    for index in range(round(SHEET_S / interval)):
        picture = Image.new("RGB", (SHEET_COLUMNS * width, rows * height), "white")
        for place, (task, frames) in enumerate(films.items()):
            frames.seek(SHEET_EVERY * index % getattr(frames, "n_frames", 1))
            corner = (place % SHEET_COLUMNS * width, place // SHEET_COLUMNS * height)
            picture.paste(frames.convert("RGB").resize((width, height), Image.Resampling.LANCZOS), corner)
            ImageDraw.Draw(picture).text((corner[0] + 4, corner[1] + 2), task, fill="black", font_size=12)
        pictures.append(picture)
    return pictures, interval


def main() -> None:
    """Film the tasks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="*", choices=sorted(VIEWS))
    parser.add_argument("--sheet", action="store_true", help="put the films of all tasks into one")
    parser.add_argument("--held-out", nargs="*", default=[], choices=SETS, help="tasks to film with it")
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the films")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for task in args.task:
        pictures, interval = film(task, args.episodes)
        save(pictures, args.out / f"{task}.gif", interval)
    for task in args.held_out:
        pictures, interval = film_held_out(task)
        save(pictures, args.out / f"{SETS[task].removeprefix('env.')}.gif", interval)
    if args.sheet:
        pictures, interval = sheet(args.out)
        save(pictures, args.out / "tasks.gif", interval, SHEET_COLORS)


if __name__ == "__main__":
    main()
