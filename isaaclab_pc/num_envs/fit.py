# SPDX-License-Identifier: BSD-3-Clause
"""`num_envs=auto`: the answer from the cache, or from a search with child processes."""

import contextlib
import functools
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.fit_messages import (
    cached_reason,
    confirmed_reason,
    nothing_built,
    nothing_fits,
    searched_reason,
)
from isaaclab_pc.num_envs.gpu import Gpu
from isaaclab_pc.num_envs.memory import free_host_memory, resolve_budget, usable_cores
from isaaclab_pc.num_envs.profile import Answer, Doubt, Profile, ProfileCache, cache_key
from isaaclab_pc.num_envs.search import SearchResult, StopReason, search
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.size_trials import ChildCommand, RetryPolicy, SearchClock, SizeTrials
from isaaclab_pc.num_envs.trends import fits_with_margin
from isaaclab_pc.num_envs.trial import Outcome, Overrides, Trial
from isaaclab_pc.num_envs.trial_runner import Budgets
from isaaclab_pc.settings.scaling import parse_budget

HOST_FRACTION = 0.8
"""Share of the free host memory that runs may take, unless a budget says otherwise."""
DEVICE_FRACTION = 0.9
"""The same of a GPU's."""
SPEED_OFF = 1.3
"""Factor by which two speeds of one size contradict each other."""
_HEADROOM = 1.05
"""A cached answer is trusted when the budget is at least this many times the peak it was measured with."""
_MAX_OUTPUT = 100_000
"""How much of a failed child's output an error shows [characters]."""


@dataclass(frozen=True)
class FitResult:
    """The number of environments to use, and why."""

    num_envs: int
    """The answer: a size that ran and fitted, now or when it was cached."""
    trials: tuple[Trial, ...]
    """Every trial that ran now; empty for a cached answer that needed none."""
    reason: str
    """One sentence for the terminal."""
    overrides: Overrides = field(default_factory=dict)
    """Settings that the winner has to be run with in place of the user's."""
    earlier_trials: tuple[Trial, ...] = ()
    """Of a cached answer, the trials of the search that found it, without that of a size that was tried again now."""
    earlier_date: str = ""
    """When that search was; empty where the answer is not from the cache."""
    answer: Answer | None = None
    """Kept by the run, so that it can correct the cache; None where the cache is ignored."""


class ProbeError(RuntimeError):
    """The environment or the agent failed by itself in a trial: no size would help. The message shows its output."""

    def __init__(self, trial: Trial) -> None:
        """Describe a failed trial; its log still exists."""
        output = Path(trial.log).read_text(encoding="utf-8", errors="replace")
        shown = output if len(output) <= _MAX_OUTPUT else f"[...]\n{output[-_MAX_OUTPUT:]}"
        super().__init__(
            f"num_envs={trial.num_envs} failed while looking for the number of environments: {trial.detail}\n"
            f"{shown.rstrip()}\n(all output: {trial.log})"
        )
        self.trial = trial


def fit(
    command: ChildCommand,
    settings: SearchSettings,
    key: Mapping[str, str],
    on_trial: Callable[[Trial], None],
    *,
    retry: RetryPolicy = lambda trial, overrides: None,
    processes: int = 1,
    reserve: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> FitResult:
    """Find the number of environments for this machine and budget.

    A cached answer is taken as it is where the free memory has room to spare for it. Otherwise, or where a training was
    much faster or slower, it is tried once more. A search goes on from its trials where it was cut short, and where its
    answer ran out of memory in a training. Where there is no answer, or it no longer holds, sizes are searched.

    Args:
        command: Gives the arguments of a child that tries a size.
        settings: Budget, objective and bounds.
        key: Everything the answer depends on besides the settings and this machine: task, config hashes, versions.
        on_trial: Called after each trial.
        retry: Asked after each trial for other settings; they stay for the sizes tried after it.
        processes: Processes of the run, each with a GPU and so many environments; they share the host's memory.
        reserve: GPU memory that something else of the run will need beside the environments [bytes].
        clock: Monotonic clock of the search [s]; that of a child is the real one.

    Raises:
        ConfigError: No size fits, the first environment is not built in time, or the GPU cannot be read.
        ProbeError: A trial failed for another reason than its size.
    """
    gpu = Gpu(settings.device) if settings.on_gpu else None
    read_budgets = functools.partial(_budgets, settings, gpu, processes, reserve)
    sharing = {"processes": processes, "reserve": reserve}
    # Not when to stop: a search that was cut short goes on. Nor which of several equal GPUs it is.
    given = settings.model_dump(include={"budget", "objective", "min", "max"})
    given["device"] = settings.device.partition(":")[0]
    digest = cache_key({**key, **_machine(gpu), **sharing, "settings": given})

    cache = ProfileCache()
    kept_as = None if settings.cache == "ignore" else digest
    profile = cache.get(digest) if settings.cache == "use" else None
    # Trials of another speed than today's are no beginning.
    goes_on = profile is not None and profile.doubt is not Doubt.SPEED and profile.is_unfinished
    budgets = read_budgets()
    if profile is not None and profile.doubt is None and not goes_on and _has_headroom(profile, budgets):
        return _result(profile, cached_reason(profile, cache.folder), (), profile, settings, kept_as)

    known = _still_known(profile.trials, budgets) if profile is not None and goes_on else {}
    with _output_folder() as folder:
        sizes = SizeTrials(
            command=command,
            retry=retry,
            budgets=budgets,
            read_budgets=read_budgets,
            gpu=gpu,
            folder=folder,
            on_trial=on_trial,
            clock=SearchClock(settings.max_seconds, clock),
            overrides={} if profile is None else profile.overrides,
            # Where there is a cached answer, its search has compiled them.
            may_compile_kernels=profile is None,
        )
        if profile is None or goes_on:
            result, is_confirmed = _search(sizes, settings, known), False
        else:
            result, is_confirmed = _confirm_or_search(sizes, settings, profile)
        best = _winner(result, settings, sizes.clock)

    tried = tuple(replace(trial, log="") for trial in result.trials)
    found = Profile(
        num_envs=best.num_envs,
        frames_per_second=result.frames_per_second,
        host_bytes=best.host_bytes,
        device_bytes=best.device_bytes,
        stop=result.stop,
        trials=tried,
        date=time.strftime("%Y-%m-%d %H:%M"),
        overrides=best.overrides,
    )
    reason = searched_reason(result, best, settings.resolved_objective)
    earlier = None
    if profile is not None and is_confirmed:
        # It is still the answer of that search, which stays cut short where it was.
        others = tuple(trial for trial in profile.trials if trial.num_envs != best.num_envs or not trial.fits)
        earlier = replace(profile, trials=others)
        found = replace(found, stop=profile.stop, trials=(*others, *tried), date=profile.date)
        reason = confirmed_reason(best, cache.folder)
    elif profile is not None and goes_on:
        earlier = replace(profile, trials=tuple(trial for trial in tried if trial in known.values()))
    if kept_as is not None:
        cache.put(kept_as, found)
    trials = tuple(trial for trial in tried if trial not in known.values())
    return _result(found, reason, trials, earlier, settings, kept_as)


def _result(
    profile: Profile,
    reason: str,
    trials: tuple[Trial, ...],
    earlier: Profile | None,
    settings: SearchSettings,
    kept_as: str | None,
) -> FitResult:
    return FitResult(
        num_envs=profile.num_envs,
        trials=trials,
        reason=reason,
        overrides=profile.overrides,
        earlier_trials=() if earlier is None else earlier.trials,
        earlier_date="" if earlier is None else earlier.date,
        answer=None if kept_as is None else profile.as_answer(kept_as, settings.resolved_objective),
    )


@contextlib.contextmanager
def _output_folder() -> Iterator[Path]:
    """Yield a folder for the files of children. It stays where a message names the output of one."""
    folder = Path(tempfile.mkdtemp(prefix="isaaclab_pc-scaling-"))
    is_named = False
    try:
        yield folder
    except ProbeError as error:
        # The message says it all.
        is_named = not error.trial.config_error
        raise
    except ConfigError:
        is_named = True
        raise
    finally:
        if not is_named:
            shutil.rmtree(folder, ignore_errors=True)


def _budgets(settings: SearchSettings, gpu: Gpu | None, processes: int, reserve: int) -> Budgets:
    """Turn the budget setting into bytes of host and device memory for one of the run's processes."""
    budget = None if settings.budget is None else parse_budget(settings.budget)
    free_host = free_host_memory()
    if gpu is None:
        return Budgets(resolve_budget(HOST_FRACTION if budget is None else budget, free_host) // processes)

    device = resolve_budget(DEVICE_FRACTION if budget is None else budget, gpu.free())
    return Budgets(resolve_budget(HOST_FRACTION, free_host) // processes, max(device - reserve, 0))


def _confirm_or_search(sizes: SizeTrials, settings: SearchSettings, profile: Profile) -> tuple[SearchResult, bool]:
    """Try a cached answer once more, and search where it no longer holds; also return whether it held."""
    trial = sizes.run(profile.num_envs)
    is_doubted = profile.doubt is Doubt.SPEED
    is_another = is_doubted and contradicts(trial.frames_per_second, profile.frames_per_second)
    if fits_with_margin(trial) and not is_another:
        return SearchResult(trial, (trial,), StopReason.COMPLETE, trial.frames_per_second), True
    # Where only memory is short, the best size is below.
    result = _search(sizes, settings, {trial.num_envs: trial}, start=None if is_doubted else trial.num_envs)
    return result, result.best is trial and len(result.trials) == 1


def contradicts(speed: float, other: float) -> bool:
    """Whether two speeds of one size contradict each other."""
    return max(speed, other) > SPEED_OFF * min(speed, other)


def _search(
    sizes: SizeTrials, settings: SearchSettings, known: Mapping[int, Trial], start: int | None = None
) -> SearchResult:
    """Search with child processes; a trial that is known stands in for a child once."""
    bounds = settings.sizes if start is None else settings.sizes._replace(start=start)
    unused = dict(known)

    def try_size(num_envs: int) -> Trial:
        trial = unused.pop(num_envs, None)
        return sizes.run(num_envs) if trial is None else trial

    return search(
        try_size,
        **bounds._asdict(),
        objective=settings.resolved_objective,
        max_seconds=sizes.clock.left(),
        clock=sizes.clock.spent,
    )


def _winner(result: SearchResult, settings: SearchSettings, clock: SearchClock) -> Trial:
    """Return the best trial; raise where a trial failed by itself, or where nothing fits or was ever built."""
    if result.stop is StopReason.ERROR:
        raise ProbeError(result.trials[-1])
    if result.trials[-1].outcome is Outcome.TIMEOUT and not clock.is_built:
        raise ConfigError(nothing_built(result))
    if result.best is None:
        raise ConfigError(nothing_fits(result, settings))
    return result.best


def _still_known(trials: tuple[Trial, ...], budgets: Budgets) -> dict[int, Trial]:
    """Return the last trial of each size, with these budgets, where it would end no differently."""
    known = {trial.num_envs: _under(trial, budgets) for trial in trials}
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


def _has_headroom(profile: Profile, budgets: Budgets) -> bool:
    """Whether a cached answer fits with so much room to spare that it need not be tried again."""
    if budgets.host < _HEADROOM * profile.host_bytes:
        return False
    return budgets.device is None or budgets.device >= _HEADROOM * (profile.device_bytes or 0)


def _machine(gpu: Gpu | None) -> dict[str, str]:
    """Return the properties of this machine that an answer depends on."""
    cpuinfo = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    models = (line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name"))
    return {
        "cpu": f"{next(models, platform.machine())}, {usable_cores()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "gpu": "" if gpu is None else gpu.name,
    }
