# SPDX-License-Identifier: BSD-3-Clause
"""`num_envs=auto`: the answer from the cache, or from a search with child processes."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.scaling.gpu import Gpu
from isaaclab_pc.scaling.memory import free_host_memory, parse_budget, resolve_budget
from isaaclab_pc.scaling.profile import CacheMode, Profile, ProfileCache, profile_key
from isaaclab_pc.scaling.search import Objective, SearchResult, Stop, holds, search
from isaaclab_pc.scaling.settings import ScalingSettings
from isaaclab_pc.scaling.trial import Outcome, Trial, format_size
from isaaclab_pc.scaling.trial_runner import Budgets, run_probe

__all__ = ["Adapt", "Changes", "Command", "FitResult", "ProbeError", "ScalingSettings", "fit"]

Changes = Mapping[str, Any]
"""Settings of the run that differ from what the user gave."""
Command = Callable[[int, Path, Changes], list[str]]
"""Gives the arguments of a child that tries a size: ``command(num_envs, result_path, changes)``. The child builds the
real environment and agent with the changes, trains a little, and writes a `Trial` to the path before it closes."""
Adapt = Callable[[Trial, Changes], Changes | None]
"""Tells with which changes a size should be tried once more, given its last trial and the changes that had; None: it is
as good, or as bad, as it gets."""

_HOST_FRACTION = 0.8
_DEVICE_FRACTION = 0.9
_MARGIN = 1.05
"""A cached answer is trusted when the budget is at least this many times the peak it was measured with."""
_ATTEMPTS = 4
"""Most trials of one size, each with other changes."""
_SHOWN = 100_000
"""How much of a failed child's output an error shows [characters]."""


@dataclass(frozen=True)
class FitResult:
    """The number of environments to use, and why."""

    num_envs: int
    """The answer: a size that ran and fitted, now or when it was cached."""
    trials: tuple[Trial, ...]
    """Every trial that ran now; empty for a cached answer that needed none."""
    cached: bool
    """Whether the answer comes from the cache."""
    reason: str
    """One sentence for the terminal."""
    changes: Changes = field(default_factory=dict)
    """What the winner was tried with besides the user's settings, and has to be run with."""


class ProbeError(RuntimeError):
    """The environment or the agent failed by itself in a trial: no size would help. The message shows its output."""

    def __init__(self, trial: Trial) -> None:
        """Describe a trial.

        Args:
            trial: The failed trial; its log still exists.
        """
        output = Path(trial.log).read_text(encoding="utf-8", errors="replace")
        shown = output if len(output) <= _SHOWN else f"[...]\n{output[-_SHOWN:]}"
        super().__init__(
            f"num_envs={trial.num_envs} failed while looking for the number of environments: {trial.detail}\n"
            f"{shown.rstrip()}\n(all output: {trial.log})"
        )
        self.trial = trial


def fit(
    command: Command,
    settings: ScalingSettings,
    key: Mapping[str, str],
    report: Callable[[Trial], None],
    *,
    adapt: Adapt = lambda trial, changes: None,
    label: str = "",
    processes: int = 1,
    reserve: int = 0,
) -> FitResult:
    """Find the number of environments for this machine and budget.

    Args:
        command: Starts a child that tries a size.
        settings: Budget, objective and bounds.
        key: What the answer depends on besides the settings and this machine: task, config hashes, versions.
        report: Called after each trial.
        adapt: Asked after each trial whether the size should be tried again with other settings. Changes stay for the
            sizes tried after it.
        label: What the answer is for, kept beside it for people.
        processes: Processes of the run, each with a GPU and so many environments; they share the host's memory.
        reserve: GPU memory that something else of the run will need beside the environments [bytes].

    Returns:
        The answer.

    Raises:
        ConfigError: No size fits, or the GPU cannot be read.
        ProbeError: A trial failed for another reason than its size.
    """
    gpu = Gpu(settings.device) if settings.on_gpu else None
    budgets = _budgets(settings, gpu, processes, reserve)
    mode = CacheMode(settings.cache)
    cache = ProfileCache()
    share = {"processes": processes, "reserve": reserve}
    digest = profile_key({**key, **_machine(gpu), **share, "settings": _search_settings(settings)})
    profile = cache.get(digest) if mode is CacheMode.USE else None
    if profile is not None and _holds(profile, budgets):
        return FitResult(profile.num_envs, (), True, _cached_reason(profile, cache.path), profile.changes)
    folder = Path(tempfile.mkdtemp(prefix="isaaclab_pc-scaling-"))
    prober = _Prober(command, settings, budgets, gpu, report, folder, adapt, profile)
    try:
        # Less memory is free than when the answer was found: one trial tells whether it is still good.
        again = None if profile is None else prober.probe(profile.num_envs)
        if again is not None and holds(again):
            result = SearchResult(again, (again,), Stop.COMPLETE)
        else:
            result = _search(prober, settings, again)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # What has failed is worth reading: its folder stays.
    if result.stop is Stop.ERROR:
        raise ProbeError(result.trials[-1])
    if result.best is None:
        raise ConfigError(_nothing_fits(result.trials, settings))
    shutil.rmtree(folder, ignore_errors=True)
    best = result.best
    confirmed = profile is not None and best is again and len(result.trials) == 1
    stop = profile.stop if profile is not None and confirmed else result.stop
    if mode is not CacheMode.IGNORE:
        measured = time.strftime("%Y-%m-%d %H:%M")
        speed, host, gpu_bytes = best.frames_per_second, best.host_bytes, best.device_bytes
        changes = best.extra["changes"]
        cache.put(digest, Profile(best.num_envs, speed, host, gpu_bytes, stop, label, measured, changes))
    trials = tuple(replace(trial, log="") for trial in result.trials)
    reason = _confirmed_reason(best, cache.path) if confirmed else _searched_reason(result, settings)
    return FitResult(best.num_envs, trials, confirmed, reason, best.extra["changes"])


def _budgets(settings: ScalingSettings, gpu: Gpu | None, processes: int, reserve: int) -> Budgets:
    """Turn the budget setting into bytes of host and device memory for one of the run's processes."""
    wanted = None if settings.budget is None else parse_budget(settings.budget)
    free = free_host_memory().size
    if gpu is None:
        return Budgets(resolve_budget(_HOST_FRACTION if wanted is None else wanted, free))
    device = resolve_budget(_DEVICE_FRACTION if wanted is None else wanted, gpu.free())
    return Budgets(resolve_budget(_HOST_FRACTION, free) // processes, max(device - reserve, 0))


class _Prober:
    """Tries sizes in child processes, all inside the time for the search."""

    def __init__(
        self,
        command: Command,
        settings: ScalingSettings,
        budgets: Budgets,
        gpu: Gpu | None,
        report: Callable[[Trial], None],
        folder: Path,
        adapt: Adapt,
        profile: Profile | None,
    ) -> None:
        self._command, self._budgets, self._gpu, self._report, self._folder = command, budgets, gpu, report, folder
        self._adapt: Adapt = adapt
        self._changes: Changes = {} if profile is None else profile.changes
        self._cold = profile is None
        self._deadline = time.monotonic() + settings.max_seconds

    def seconds_left(self) -> float:
        """Return the time left for the search [s]."""
        return max(self._deadline - time.monotonic(), 0.0)

    def probe(self, num_envs: int) -> Trial:
        """Try a size, again with other settings where those may help."""
        trial = self._probe_once(num_envs)
        if self._cold and trial.outcome in (Outcome.OVER_BUDGET, Outcome.OOM):
            # Compiling kernels takes memory that no later process needs: they are kept on disk.
            trial = self._probe_once(num_envs)
        self._cold = False
        for _ in range(_ATTEMPTS - 1):
            changes = self._adapt(trial, self._changes)
            if changes is None or self.seconds_left() == 0.0:
                break
            self._changes = changes
            trial = self._probe_once(num_envs)
        return trial

    def _probe_once(self, num_envs: int) -> Trial:
        limits = replace(self._budgets, seconds=self.seconds_left())
        result_path, log_path = self._folder / f"{num_envs}.json", self._folder / f"{num_envs}.log"
        argv = self._command(num_envs, result_path, self._changes)
        trial = run_probe(argv, num_envs, result_path, log_path, limits, self._gpu)
        trial = replace(trial, extra={**trial.extra, "changes": dict(self._changes)})
        self._report(trial)
        return trial


def _search(prober: _Prober, settings: ScalingSettings, known: Trial | None) -> SearchResult:
    """Search with child processes, from a trial that has run already or else from the usual size."""
    sizes = settings.sizes

    def probe(num_envs: int) -> Trial:
        return known if known is not None and num_envs == known.num_envs else prober.probe(num_envs)

    return search(
        probe,
        lo=sizes.lo,
        hi=sizes.hi,
        granule=sizes.granule,
        start=sizes.start if known is None else known.num_envs,
        objective=settings.resolved_objective,
        max_trials=settings.max_trials,
        max_seconds=prober.seconds_left(),
    )


def _holds(profile: Profile, budgets: Budgets) -> bool:
    """Whether a cached answer still fits, with a margin, so that it need not be tried again."""
    if budgets.host < _MARGIN * profile.host_bytes:
        return False
    return budgets.device is None or budgets.device >= _MARGIN * (profile.device_bytes or 0)


def _machine(gpu: Gpu | None) -> dict[str, str]:
    """Return what an answer depends on in this machine."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")),
        platform.machine(),
    )
    return {
        "cpu": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "gpu": "" if gpu is None else gpu.name,
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _search_settings(settings: ScalingSettings) -> dict[str, object]:
    """Return the settings that the answer depends on: not the cache mode, nor which of several equal GPUs it is."""
    return {**asdict(settings), "cache": None, "device": settings.device.partition(":")[0]}


def _cached_reason(profile: Profile, path: Path) -> str:
    cut = "" if profile.stop == Stop.COMPLETE else f", in a search cut short by scaling.{profile.stop}"
    return (
        f"num_envs={profile.num_envs} from an earlier search ({profile.frames_per_second:.0f} frames/s, "
        f"{format_size(profile.device_bytes or profile.host_bytes)}{cut}; {path}); scaling.cache=refresh searches again"
    )


def _confirmed_reason(trial: Trial, path: Path) -> str:
    return (
        f"num_envs={trial.num_envs} from an earlier search still fits the memory that is free now: tried again, "
        f"{trial.frames_per_second:.0f} frames/s, {format_size(trial.device_bytes or trial.host_bytes)} ({path}); "
        "scaling.cache=refresh searches again"
    )


def _searched_reason(result: SearchResult, settings: ScalingSettings) -> str:
    best = result.best
    assert best is not None
    if settings.resolved_objective is Objective.MEMORY:
        what = "the largest that fits"
    else:
        what = "the fewest environments within 5 % of the best frames per second"
    cut = "" if result.stop is Stop.COMPLETE else f"; cut short by scaling.{result.stop}"
    return (
        f"num_envs={best.num_envs}: {what}, {len(result.trials)} tried ({best.frames_per_second:.0f} frames/s, "
        f"{format_size(best.device_bytes or best.host_bytes)}{cut})"
    )


def _nothing_fits(trials: tuple[Trial, ...], settings: ScalingSettings) -> str:
    """Say what to change when even the smallest size failed."""
    smallest = min(trials, key=lambda trial: trial.num_envs)
    if smallest.outcome is Outcome.TIMEOUT:
        advice = f"raise scaling.max_seconds (now {settings.max_seconds:g})"
    elif smallest.outcome is Outcome.CRASH:
        advice = "read its output"
    else:
        advice = f"raise scaling.budget (now {settings.budget or 'automatic'}), end other programs"
    return (
        f"num_envs=auto: no size fits, not even {smallest}.{_need(smallest)} To go on, {advice}, lower scaling.min "
        f"(now {settings.sizes.lo}), or set num_envs yourself. Output of the trial: {smallest.log}"
    )


def _need(smallest: Trial) -> str:
    """Say what is known of the memory that the task needs: a trial that was ended shows only that it is more."""
    if smallest.outcome is not Outcome.OVER_BUDGET:
        return ""
    on_gpu = smallest.device_budget is not None and (smallest.device_bytes or 0) > smallest.device_budget
    budget = smallest.device_budget if on_gpu else smallest.host_budget
    if budget is None:
        return ""
    return (
        f" The task needs more than {format_size(budget)} of {'GPU' if on_gpu else 'host'} memory for its first "
        f"{smallest.num_envs} environments; how much before the first one is not known, as nothing smaller was tried."
    )
