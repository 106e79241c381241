# SPDX-License-Identifier: BSD-3-Clause
"""Settings with which a size is tried again before the search goes to fewer environments."""

import math

from isaaclab_pc.num_envs.trial import Outcome, Overrides, Progress, TrainingPhase, Trial
from isaaclab_pc.physics import HEADROOM, grown
from isaaclab_pc.settings import RunSettings

SMALLEST_REPLAY = 20_000
"""No replay is made smaller than that [samples]: the student would lose samples that it has yet to learn from."""
SMALLEST_CHUNK = 64
"""No encoder's chunk is made smaller than that [samples]: it holds little then, and is slow."""
SMALLEST_MINIBATCH = 64
"""No minibatch is made smaller than that [samples]: its gradient would be too noisy."""


def retry_overrides(trial: Trial, overrides: Overrides, smallest: int = 0) -> Overrides | None:
    """Return all overrides with which a size is tried again, ``overrides`` included; None where no setting helps.

    Contact buffers that overflowed, or have little room left, are enlarged from their high-water marks: a trained
    policy makes more contacts than a fresh one. Where memory ran out in an update, the encoders' chunk is lowered once,
    which changes no gradient, and then minibatches are halved; up to ``smallest`` environments, the replay first.
    """
    new: dict[str, int] = {}
    if trial.outcome in (Outcome.FITS, Outcome.OVERFLOW):
        new = _larger_contact_buffers(trial)
    elif trial.outcome in (Outcome.OOM, Outcome.OVER_BUDGET) and trial.progress is not None:
        new = _less_memory(trial.progress, overrides, may_halve_replay=trial.num_envs <= smallest)
    return {**overrides, **new} if new else None


def _larger_contact_buffers(trial: Trial) -> dict[str, int]:
    """Return the settings that give the contacts of a trial room; empty where there is enough."""
    if trial.contacts is not None:
        return {f"physics.{name}": capacity for name, capacity in grown(trial.contacts).items()}
    # Where PhysX named no size there is nothing to multiply.
    return {f"env.sim.physics.{name}": math.ceil(HEADROOM * size) for name, size in trial.physx_buffers.items() if size}


def _less_memory(progress: Progress, overrides: Overrides, *, may_halve_replay: bool) -> dict[str, int]:
    """Return the first setting that saves memory where it ran out; empty where none does."""
    half_replay = progress.replay_samples // 2
    if may_halve_replay and half_replay >= SMALLEST_REPLAY:
        return {"replay_samples": half_replay}
    if progress.phase is not TrainingPhase.UPDATE:
        return {}

    chunk = None if "chunk" in overrides else smaller_chunk(progress)
    if chunk is not None:
        return {"chunk": chunk}
    half_minibatch = progress.minibatch_size // 2
    return {"minibatch_size": half_minibatch} if half_minibatch >= SMALLEST_MINIBATCH else {}


def smaller_chunk(progress: Progress) -> int | None:
    """Return a lower ``chunk``; None where no update ran out of memory, or the encoders hold little."""
    at_once = min(progress.chunk, progress.minibatch_size)
    chunk = max(at_once // 8, SMALLEST_CHUNK)
    return chunk if progress.phase is TrainingPhase.UPDATE and chunk < at_once else None


def apply_overrides(run: RunSettings, overrides: Overrides) -> RunSettings:
    """Return the settings of a run with overrides, each by dotted setting or ``env.*`` field."""
    env = [f"{name}={value}" for name, value in overrides.items() if name.startswith("env.")]
    values = {name: value for name, value in overrides.items() if not name.startswith("env.")}
    return run.with_values({**values, "env_overrides": [*run.env_overrides, *env]})
