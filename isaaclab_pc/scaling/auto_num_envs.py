# SPDX-License-Identifier: BSD-3-Clause
"""``num_envs=auto`` for a config: what the scaler needs to know of a run, and what the user sees of the search."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.physics import HEADROOM, grown
from isaaclab_pc.scaling.fit import ChildCommand, FitResult, ProbeError, fit
from isaaclab_pc.scaling.search_settings import SearchSettings
from isaaclab_pc.scaling.trial import Outcome, Overrides, Phase, Progress, Trial
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import current

__all__ = ["KeyParts", "apply_overrides", "find_num_envs", "retry_overrides", "smaller_chunk"]

KeyParts = Callable[[RunSettings], Mapping[str, str]]
"""Tells what the answer for a run depends on, beside the machine and the search: text by name."""

SMALLEST_REPLAY = 20_000
"""Samples below which a replay is not halved to save memory: it would forget what the student has yet to learn."""

SMALLEST_CHUNK = 64
"""Samples below which an encoder's chunk is not lowered to save memory: it holds little then, and is slow."""

SMALLEST_MINIBATCH = 64
"""Samples below which a minibatch is not halved to save memory: its gradient would be too noisy."""


def find_num_envs(
    run: RunSettings,
    command: ChildCommand,
    settings: SearchSettings,
    key_parts: KeyParts,
    on_trial: Callable[[Trial], None],
    *,
    processes: int = 1,
    reserve: int = 0,
) -> FitResult:
    """Find the number of environments, showing each trial.

    Args:
        run: The run's settings, device and physics backend chosen.
        command: Gives the arguments of a child that tries a size of this run; see
            :data:`~isaaclab_pc.scaling.fit.ChildCommand`.
        settings: How to search.
        key_parts: Tells what the answer depends on.
        on_trial: Called with each trial.
        processes: As for :func:`~isaaclab_pc.scaling.fit`.
        reserve: Likewise.

    Returns:
        The answer; its reason has been printed.

    Raises:
        ConfigError: No size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    screen = current()
    screen.begin("search", "num_envs=auto: trying sizes (real rollouts and updates in child processes)")

    def show(trial: Trial) -> None:
        if trial.config_error:
            return  # the error itself follows, without the trial's numbers
        on_trial(trial)
        screen.say(f"  {trial}")
        for line, count in trial.repeated_lines:
            screen.say(f"    native code printed {count} lines such as: {line}")

    try:
        result = fit(
            command,
            settings,
            key_parts(run),
            show,
            retry=functools.partial(retry_overrides, smallest=settings.usual_smallest),
            label=_label(run, settings),
            processes=processes,
            reserve=reserve,
        )
    except ProbeError as error:
        if error.trial.config_error:
            raise ConfigError(error.trial.detail) from None
        raise
    finally:
        screen.end_phase()

    screen.decide(result.reason, num_envs=result.num_envs, **result.overrides)
    most = next((trial.most_envs for trial in result.trials if trial.most_envs is not None), None)
    if most is not None and result.num_envs + settings.sizes.granule > most:
        screen.say(
            f"note: more than {most} environments would learn from more samples at once than the agent asks for; "
            "scaling.objective=memory or scaling.min takes more"
        )
    if result.overrides:
        given = " ".join(f"{name}={value}" for name, value in result.overrides.items())
        screen.decide(f"with {given}, as its trial", **result.overrides)
    return result


def retry_overrides(trial: Trial, overrides: Overrides, smallest: int = 0) -> Overrides | None:
    """Tell with which settings a size should be tried again.

    Contact buffers that overflowed, or have little room left, are enlarged from their high-water marks: a trained
    policy makes more contacts than a fresh one. Where memory ran out in an update, not in a rollout, the encoders'
    chunk is lowered once, which changes no gradient, and then minibatches are halved, before the search goes to fewer
    environments. At its smallest usual size, and below it, the replay is halved first: it takes more than those few
    environments.

    Args:
        trial: A size that was tried.
        overrides: The settings that it was tried with in place of the user's.
        smallest: Fewest environments that the search tries while one size fits.

    Returns:
        All overrides for the next trial of this size; None where no setting helps.
    """
    if trial.outcome in (Outcome.FITS, Outcome.OVERFLOW):
        new = _larger_contact_buffers(trial)
    elif trial.outcome in (Outcome.OOM, Outcome.OVER_BUDGET):
        new = _smaller_replay(trial) if trial.num_envs <= smallest else {}
        new = new or _smaller_chunk(trial, overrides) or _smaller_minibatch(trial)
    else:
        new = {}
    return {**overrides, **new} if new else None


def _larger_contact_buffers(trial: Trial) -> dict[str, int]:
    """Return the settings that give the contacts of a trial room, with headroom; empty where there is enough."""
    if trial.contacts is not None:
        return {f"physics.{name}": capacity for name, capacity in grown(trial.contacts).items()}
    # Where PhysX named no size there is nothing to multiply.
    return {f"env.sim.physics.{name}": math.ceil(HEADROOM * size) for name, size in trial.physx_buffers.items() if size}


def smaller_chunk(progress: Progress) -> int | None:
    """Return an eighth of the samples that an encoder holds at once.

    Args:
        progress: Where memory ran out.

    Returns:
        The value of ``chunk``; None where it was no update that ran out of memory, or the encoders hold little.
    """
    at_once = min(progress.chunk, progress.minibatch_size)
    chunk = max(at_once // 8, SMALLEST_CHUNK)
    return chunk if progress.phase is Phase.UPDATE and chunk < at_once else None


def _smaller_chunk(trial: Trial, overrides: Overrides) -> dict[str, int]:
    """Return the setting that leaves an encoder an eighth of what it holds, once, where an update ran out of memory."""
    if trial.progress is None or "chunk" in overrides:
        return {}
    chunk = smaller_chunk(trial.progress)
    return {} if chunk is None else {"chunk": chunk}


def _smaller_minibatch(trial: Trial) -> dict[str, int]:
    """Return the setting that halves the minibatches, where memory ran out in an update."""
    if trial.progress is None or trial.progress.phase is not Phase.UPDATE:
        return {}
    half = trial.progress.minibatch_size // 2
    return {"minibatch_size": half} if half >= SMALLEST_MINIBATCH else {}


def _smaller_replay(trial: Trial) -> dict[str, int]:
    """Return the setting that halves the replay; empty where there is none, or a small one."""
    half = trial.progress.replay_samples // 2 if trial.progress is not None else 0
    return {"replay_samples": half} if half >= SMALLEST_REPLAY else {}


def apply_overrides(run: RunSettings, overrides: Overrides) -> RunSettings:
    """Return the settings of a run with overrides.

    Args:
        run: The run's settings.
        overrides: Values by dotted setting, or by ``env.*`` field.
    """
    env = [f"{name}={value}" for name, value in overrides.items() if name.startswith("env.")]
    values = {name: value for name, value in overrides.items() if not name.startswith("env.")}
    return run.with_values({**values, "env_overrides": [*run.env_overrides, *env]})


def _label(run: RunSettings, settings: SearchSettings) -> str:
    """Return what a search is for, in words for a list of searches."""
    budget = [] if settings.budget is None else [f"scaling.budget={settings.budget}"]
    given = [*budget, *run.env_overrides, *run.agent_overrides]
    where = f"obs={run.obs}, {run.runner}, {run.algorithm}, {run.physics.backend}, {settings.device}"
    return " ".join([f"{run.task} ({where}, {settings.resolved_objective})", *given])
