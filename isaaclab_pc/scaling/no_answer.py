# SPDX-License-Identifier: BSD-3-Clause
"""What the user is told where a search has no answer."""

from __future__ import annotations

from isaaclab_pc.scaling.search import SearchResult, StopReason
from isaaclab_pc.scaling.search_clock import FIRST_BUILD_SECONDS
from isaaclab_pc.scaling.search_settings import SearchSettings
from isaaclab_pc.scaling.trial import Outcome, Trial, format_size

__all__ = ["nothing_built", "nothing_fits"]


def nothing_built(result: SearchResult) -> str:
    """Tell what to do where no environment was built in time, as where kernels are compiled for the first time.

    Args:
        result: The search; its last trial was ended while it built.
    """
    return (
        f"num_envs=auto: no environment was built in {FIRST_BUILD_SECONDS / 60:g} min, so nothing is known of what "
        "fits. If kernels were being compiled, run the command again: those that are done are kept. Otherwise read its "
        f"output: {result.trials[-1].log}"
    )


def nothing_fits(result: SearchResult, settings: SearchSettings) -> str:
    """Tell what to change when no size that was tried fits.

    Args:
        result: The search.
        settings: How it was done.
    """
    smallest = min(result.trials, key=lambda trial: trial.num_envs)
    timed_out = smallest.outcome is Outcome.TIMEOUT
    limit = "max_seconds" if timed_out else str(result.stop)
    if timed_out:
        what = f"{smallest}: that says nothing of what fits."
    elif result.stop is StopReason.COMPLETE:
        what = f"no size fits, not even {smallest}.{_memory_needed(smallest)}"
    else:
        what = f"no size that was tried fits, down to {smallest}; scaling.{limit} ended the search there."

    only_one = settings.min is not None and settings.min == settings.max
    ways = []
    if timed_out or result.stop is not StopReason.COMPLETE:
        ways.append(f"raise scaling.{limit} (now {getattr(settings, limit):g})")
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


def _memory_needed(smallest: Trial) -> str:
    """Tell what is known of the memory that the task needs: a trial that was ended shows only that it is more."""
    if smallest.outcome is not Outcome.OVER_BUDGET:
        return ""
    on_gpu = smallest.device_budget is not None and (smallest.device_bytes or 0) > smallest.device_budget
    budget = smallest.device_budget if on_gpu else smallest.host_budget
    if budget is None:
        return ""

    needed = f" The task needs more than {format_size(budget)} of {'GPU' if on_gpu else 'host'} memory for "
    if smallest.num_envs == 1:
        return f"{needed}one environment."
    return (
        f"{needed}its first {smallest.num_envs} environments; how much before the first one is not known, as nothing "
        "smaller was tried."
    )
