# SPDX-License-Identifier: BSD-3-Clause
"""Compare a training with the search that found its number of environments, and correct the cache of answers."""

import statistics
from dataclasses import replace

from isaaclab_pc.num_envs.fit import contradicts
from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile, ProfileCache
from isaaclab_pc.num_envs.trial import Outcome
from isaaclab_pc.run.iteration_log import read_iterations
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.supervise.deaths import Death, DeathCause
from isaaclab_pc.terminal.screen import current

_LEAST_ITERATIONS = 5
"""Iterations after the first from which a speed is told."""
_LEAST_SECONDS = 20.0
"""Time that they take together [s]."""


def check_answer(record: RunRecord, death: Death | None) -> None:
    """Compare a run with the search that found its number of environments, and correct the cache where they differ.

    The answer is no longer used where the run ran out of memory with it, and is tried again where the speed was
    another. The record's ``answer`` gets a verdict, once. ``death`` tells why the run's last process ended, where none
    followed.
    """
    answer = record.data.answer
    if answer is None or answer.verdict:
        return

    cache = ProfileCache()
    profile = cache.get(answer.key)
    if profile is not None and profile.num_envs != answer.num_envs:
        profile = None  # another run has corrected it

    speed = _speed(record, answer)
    if _ran_out_of_memory(record, answer, death):
        verdict = f"it ran out of memory with num_envs={answer.num_envs}: the next search goes on below"
        _rule_out(cache, answer.key, profile)
    elif speed is None:
        return
    elif contradicts(speed, answer.frames_per_second):
        verdict = f"{speed:.0f} frames/s instead of {answer.frames_per_second:.0f}: the answer will be tried again"
        if profile is not None:
            cache.put(answer.key, replace(profile, doubt=Doubt.SPEED))
    else:
        record.update(answer=replace(answer, verdict=f"{speed:.0f} frames/s, as in its trial"))
        return

    record.update(answer=replace(answer, verdict=verdict))
    current().warn(f"note: the search found num_envs={answer.num_envs}; in the training, {verdict}")


def _speed(record: RunRecord, answer: Answer) -> float | None:
    """Return the run's median speed [1/s] as a trial measures it; None where it cannot be compared."""
    batch = record.data.batch
    if batch is None or answer.frames_per_second == 0.0:
        return None
    if record.data.num_envs != answer.num_envs or batch["minibatch_size"] != answer.minibatch_size:
        return None
    metrics = [entry.metrics for entry in read_iterations(record.folder)[1:]]
    seconds = [one["collect_s"] + one["learn_s"] for one in metrics if {"collect_s", "learn_s"} <= one.keys()]
    if len(seconds) < _LEAST_ITERATIONS or sum(seconds) < _LEAST_SECONDS:
        return None
    return batch["num_minibatches"] * batch["minibatch_size"] / statistics.median(seconds)


def _ran_out_of_memory(record: RunRecord, answer: Answer, death: Death | None) -> bool:
    """Tell whether a process of the run had too little memory for the answer, and no other program was the reason."""
    ends: list[tuple[str, object, int]] = [
        (entry.cause, entry.num_envs, entry.taken_by_others) for entry in record.data.restarts
    ]
    if death is not None:
        ends.append((death.cause, record.data.num_envs, death.taken_by_others))
    return (DeathCause.OUT_OF_MEMORY, answer.num_envs, 0) in ends


def _rule_out(cache: ProfileCache, key: str, profile: Profile | None) -> None:
    """Keep that the answer does not fit, and the largest other size that does until the search has gone on."""
    if profile is None:
        return
    trials = tuple(
        replace(trial, outcome=Outcome.OOM, frames_per_second=0.0, detail="a training ran out of memory")
        if trial.fits and trial.num_envs >= profile.num_envs
        else trial
        for trial in profile.trials
    )
    others = [trial for trial in trials if trial.fits]
    if not others:
        cache.put(key, None)
        return
    best = max(others, key=lambda trial: trial.num_envs)
    kept = replace(
        profile,
        num_envs=best.num_envs,
        frames_per_second=best.frames_per_second,
        host_bytes=best.host_bytes,
        device_bytes=best.device_bytes,
        overrides=best.overrides,
        trials=trials,
        doubt=Doubt.MEMORY,
    )
    cache.put(key, kept)
