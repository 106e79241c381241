# SPDX-License-Identifier: BSD-3-Clause
"""Record waves of an expert's episodes to a file of demonstrations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from isaaclab.utils.datasets import EpisodeData

from isaaclab_pc.demo_file import DemoFile
from isaaclab_pc.guards.step_hooks import StepHook, add_step_hook
from isaaclab_pc.launch.child_process import ExitCode, SignalFlag
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Screen
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

__all__ = ["Wave", "demo", "record", "record_wave"]

FLOAT16_GROUPS = ("points", "depth")
"""Observation groups that are stored in float16; they take nearly all of a file."""

GIVE_UP_AFTER = 64
"""Episodes without a success after which the recording ends with an error."""


@dataclass(frozen=True)
class Wave:
    """One episode of every environment, all from one seed."""

    episodes: dict[int, EpisodeData]
    """The episodes by the index of their environment, without those in which the guard found a fault."""

    successes: int
    """How many of these succeeded."""


def record_wave(
    env: Any, policy: Callable[[], torch.Tensor], seed: int, stopped: Callable[[], bool] = lambda: False
) -> Wave | None:
    """Run every environment to the end of one episode.

    An environment that is done early waits for the others: otherwise short episodes would be recorded more often than
    long ones.

    Args:
        env: The unwrapped :class:`~isaaclab_pc.envs.PointCloudEnv`; all of it is reset.
        policy: Returns the actions for the current state, shape (N, A).
        seed: Seed of the resets.
        stopped: Asked at every step whether to give up.

    Returns:
        The wave, or None if it was stopped.
    """
    observations, _ = env.reset(seed=seed)
    episodes = _new_episodes(env, seed)
    running = dict(episodes)
    faulty: list[int] = []

    state = _StateAfterPhysics(env.scene)
    remove_hook = add_step_hook(env, state)
    try:
        while running:
            if stopped():
                return None

            before = {name: _as_stored(name, value) for name, value in observations.items()}
            actions = policy().clamp(-1.0, 1.0)
            observations, reward, terminated, truncated, _ = env.step(actions)
            done = terminated | truncated

            step = {"actions": actions, "obs": before, "rewards": reward, "dones": done.byte(), "states": state.value}
            _add_step(running, step)
            faulty += _finish_episodes(env, running, done)
    finally:
        remove_hook()

    for index in faulty:
        del episodes[index]
    for episode in episodes.values():
        episode.pre_export()
    return Wave(episodes, sum(bool(episode.success) for episode in episodes.values()))


class _StateAfterPhysics(StepHook):
    """Keeps the scene's state after a step's physics, before the reset of environments that are done."""

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        self.value: Mapping[str, Any] = {}

    def after_physics(self) -> None:
        self.value = self._scene.get_state(is_relative=True)


def _new_episodes(env: Any, seed: int) -> dict[int, EpisodeData]:
    """Return an episode for each environment, with the state that it starts in."""
    initial = _on_cpu(env.scene.get_state(is_relative=True))
    episodes = {}
    for index in range(env.num_envs):
        episodes[index] = EpisodeData()
        episodes[index].seed = seed
        episodes[index].add("initial_state", _select_env(initial, index))
    return episodes


def _add_step(running: Mapping[int, EpisodeData], step: Mapping[str, Any]) -> None:
    """Add the data of a step, a tree of tensors (N, ...), to the episodes that are still running."""
    # One copy per tensor is faster than one per tensor and environment.
    on_cpu = _on_cpu(step)
    for index, episode in running.items():
        for key, value in on_cpu.items():
            episode.add(key, _select_env(value, index))


def _finish_episodes(env: Any, running: dict[int, EpisodeData], done: torch.Tensor) -> list[int]:
    """Take the episodes that ended in this step out of ``running``; return those in which the guard found a fault."""
    faulty = []
    faults = env.guard.causes != 0
    for index in done.nonzero().squeeze(-1).tolist():
        episode = running.pop(index, None)
        # An environment that waits for the others goes on with episodes that are not recorded.
        if episode is None:
            continue

        episode.success = bool(env.episode_success[index])
        if faults[index] or env.guard.benched[index]:
            faulty.append(index)
    return faulty


def _as_stored(group: str, value: torch.Tensor) -> torch.Tensor:
    return value.half() if group in FLOAT16_GROUPS else value


def _on_cpu(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _on_cpu(value) for key, value in tree.items()}
    return tree.cpu()


def _select_env(tree: Any, index: int) -> Any:
    """Return one environment's part of a tree of tensors (N, ...)."""
    if isinstance(tree, Mapping):
        return {key: _select_env(value, index) for key, value in tree.items()}
    return tree[index]


def record(
    env: Any,
    settings: RunSettings,
    file: DemoFile,
    episodes: int,
    *,
    keep: str = "success",
    say: Callable[[str], object] = print,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Add waves to a file until it has enough episodes, or until stopped.

    Args:
        env: The unwrapped environment of a task with an expert.
        settings: The run's settings.
        file: The file, checked and locked.
        episodes: Number of episodes to reach, those that are in the file already included.
        keep: ``success``, or ``all``.
        say: Called with a line for every wave.
        stopped: Asked at every step whether to give up the wave.

    Raises:
        RuntimeError: The policy solves no episode.
    """
    policy = env.expert()
    progress = file.progress()
    first_seed = settings.seed if progress.next_seed is None else progress.next_seed
    # An evaluation must not see the same resets as the demonstrations.
    evaluated = {settings.eval.seed, settings.eval.best_seed}
    seeds = (seed for seed in count(first_seed) if seed not in evaluated)

    start = time.monotonic()
    episodes_before = progress.episodes
    while progress.episodes < episodes:
        seed = next(seeds)
        wave = record_wave(env, policy, seed, stopped)
        if wave is None:
            return

        kept = ((index, episode) for index, episode in wave.episodes.items() if keep == "all" or episode.success)
        chosen = dict(islice(kept, episodes - progress.episodes))
        file.add_wave(settings, seed, env.num_envs, wave.successes, chosen)
        progress = progress.plus(len(chosen), env.num_envs, wave.successes, seed)

        episodes_per_s = (progress.episodes - episodes_before) / (time.monotonic() - start)
        missing = episodes - progress.episodes
        time_left = f", {missing / episodes_per_s:.0f} s left" if episodes_per_s > 0.0 else ""
        say(f"{progress.episodes}/{episodes} episodes, {progress.rate}{time_left}")

        if keep == "success" and progress.attempts >= GIVE_UP_AFTER and progress.successes == 0:
            raise RuntimeError(f"the expert solved none of {progress.attempts} episodes under these settings")


def demo(settings_path: Path, file: Path, episodes: int, keep: str, screen: Screen) -> int:
    """Add waves to a file until it has enough episodes.

    Args:
        settings_path: The run's settings.
        file: The file, checked and locked by the parent.
        episodes: Number of episodes to reach, those that are in the file already included.
        keep: ``success``, or ``all``.
        screen: What the user sees.

    Returns:
        The exit code.
    """
    settings = RunSettings.load(settings_path)
    assert settings.num_envs != "auto"
    with open_env(resolve(settings, settings.num_envs, "demo")) as env, SignalFlag() as flag:
        screen.begin("record")
        record(
            env.unwrapped,
            settings,
            DemoFile(file),
            episodes,
            keep=keep,
            say=screen.say,
            stopped=lambda: bool(flag.received),
        )
        if flag.exit_code:
            # Kit ends the process with the code of what leaves this block, or 0.
            raise SystemExit(flag.exit_code)
    return ExitCode.OK
