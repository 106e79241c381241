# SPDX-License-Identifier: BSD-3-Clause
"""Messages on the answer of a search, and advice where it has none."""

from pathlib import Path

from isaaclab_pc.num_envs.profile import Profile
from isaaclab_pc.num_envs.search import Objective, SearchResult, StopReason
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trial import FIRST_BUILD_SECONDS, Outcome, Trial, format_size


def cached_reason(profile: Profile, path: Path) -> str:
    """Say where an answer comes from that needed no trial."""
    cut = "" if profile.stop is StopReason.COMPLETE else f", in a search cut short by scaling.{profile.stop}"
    return (
        f"num_envs={profile.num_envs} from an earlier search ({profile.frames_per_second:.0f} frames/s, "
        f"{_memory(profile)}{cut}; {path}); scaling.cache=refresh searches again"
    )


def confirmed_reason(trial: Trial, path: Path) -> str:
    """Say that a cached answer was tried once more and holds."""
    return (
        f"num_envs={trial.num_envs} from an earlier search still fits the memory that is free now: tried again, "
        f"{trial.frames_per_second:.0f} frames/s, {_memory(trial)} ({path}); scaling.cache=refresh searches again"
    )


def searched_reason(result: SearchResult, best: Trial, objective: Objective) -> str:
    """Say why a size won."""
    fewest = "the fewest environments within 5 % of the best frames per second"
    kind = "the largest that fits" if objective is Objective.MEMORY else fewest
    cut = "" if result.stop is StopReason.COMPLETE else f"; cut short by scaling.{result.stop}"
    return (
        f"num_envs={best.num_envs}: {kind}, {len(result.trials)} tried ({result.frames_per_second:.0f} frames/s, "
        f"{_memory(best)}{cut})"
    )


def _memory(answer: Trial | Profile) -> str:
    return format_size(answer.device_bytes or answer.host_bytes)


def nothing_built(result: SearchResult) -> str:
    """Advise where no environment was built in time, as where kernels are compiled for the first time."""
    return (
        f"num_envs=auto: no environment was built in {FIRST_BUILD_SECONDS / 60:g} min, so nothing is known of what "
        "fits. If kernels were being compiled, run the command again: those that are done are kept. Otherwise read its "
        f"output: {result.trials[-1].log}"
    )


def nothing_fits(result: SearchResult, settings: SearchSettings) -> str:
    """Advise where no size that was tried fits."""
    smallest = min(result.trials, key=lambda trial: trial.num_envs)
    timed_out = smallest.outcome is Outcome.TIMEOUT
    if timed_out:
        what = f"{smallest}: that says nothing of what fits."
    elif result.stop is StopReason.COMPLETE:
        what = f"no size fits, not even {smallest}."
    else:
        what = f"no size that was tried fits, down to {smallest}; scaling.max_seconds ended the search there."

    only_one = settings.min is not None and settings.min == settings.max
    ways = []
    if timed_out or result.stop is not StopReason.COMPLETE:
        ways.append(f"raise scaling.max_seconds (now {settings.max_seconds:g})")
    if smallest.outcome is Outcome.CRASH:
        ways.append("read its output")
    elif smallest.outcome is Outcome.OVERFLOW:
        ways.append("raise physics.contacts, of which the solver dropped some")
    elif not timed_out:
        ways += [f"raise scaling.budget (now {settings.budget or 'automatic'})", "end other programs"]
    if only_one:
        ways.append("give a smaller num_envs")
    elif settings.min is not None and smallest.num_envs > 1:
        ways.append(f"lower scaling.min (now {settings.min})")
    asked = f"num_envs={settings.min}" if only_one else "num_envs=auto"
    if not only_one:
        ways.append("set num_envs yourself")
    *others, last = ways
    advice = f"{', '.join(others)}, or {last}" if others else last
    return f"{asked}: {what} To go on, {advice}. Output of the trial: {smallest.log}"
