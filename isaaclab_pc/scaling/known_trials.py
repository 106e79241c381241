# SPDX-License-Identifier: BSD-3-Clause
"""Trials of a search that was not finished, from which the next one goes on."""

from dataclasses import replace

from isaaclab_pc.scaling.profile import Doubt, Profile
from isaaclab_pc.scaling.search import StopReason
from isaaclab_pc.scaling.trial import Outcome, Trial
from isaaclab_pc.scaling.trial_runner import Budgets

__all__ = ["is_unfinished", "still_known"]


def is_unfinished(profile: Profile, max_trials: int | None) -> bool:
    """Tell whether the search of an answer is to go on.

    Args:
        profile: The answer.
        max_trials: Most trials that are allowed now; None: any number.
    """
    if profile.stop is StopReason.TRIALS:
        return max_trials is None or max_trials > len(profile.trials)
    return profile.stop is StopReason.TIME or profile.doubt is Doubt.MEMORY


def still_known(profile: Profile, budgets: Budgets) -> dict[int, Trial]:
    """Return what the trials of an answer tell under other budgets.

    Args:
        profile: The answer.
        budgets: What a child may use now.

    Returns:
        The last trial of each size, with these budgets, where it would end no differently.
    """
    known = {trial.num_envs: _under(trial, budgets) for trial in profile.trials}
    return {size: trial for size, trial in known.items() if trial is not None}


def _under(trial: Trial, budgets: Budgets) -> Trial | None:
    """Return a trial as it would be under these budgets; None where that is not known."""
    if trial.outcome is Outcome.TIMEOUT or trial.taken_by_others:
        return None
    fits_host = trial.host_bytes <= budgets.host
    fits_device = budgets.device is None or (trial.device_bytes or 0) <= budgets.device
    if trial.fits != (fits_host and fits_device) and (trial.fits or trial.outcome is Outcome.OVER_BUDGET):
        return None
    return replace(trial, host_budget=budgets.host, device_budget=budgets.device)
