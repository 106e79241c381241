# SPDX-License-Identifier: BSD-3-Clause
"""``num_envs=auto`` for a run: search, and show the user the trials. Loads no torch.

All processes of a run on several GPUs have the same number of environments, so the GPU with the least room decides.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs.answer_parts import answer_parts
from isaaclab_pc.num_envs.fit import FitResult, ProbeError, fit
from isaaclab_pc.num_envs.gpu import Gpu
from isaaclab_pc.num_envs.retry import apply_overrides, retry_overrides
from isaaclab_pc.num_envs.search_settings import SearchSettings
from isaaclab_pc.num_envs.trial import Overrides, Trial, format_size
from isaaclab_pc.report.at_end import report_later
from isaaclab_pc.run.folder import SETTINGS_NAME
from isaaclab_pc.run.jobs import ProbeJob, worker_command
from isaaclab_pc.run.platform import gpu_count
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Screen, current

FIRST_GPU_RESERVE = 512 << 20
"""Memory that each further process is taken to need on the first process's GPU [bytes]: about a CUDA context, which
libraries open on the default GPU. An assumption, not measured."""


def find_for_run(settings: RunSettings, record: RunRecord) -> RunSettings | None:
    """Find the number of environments of a new run, and write settings and trials into its folder.

    Returns:
        The settings to train with; None where a trial failed, which closes the record.

    Raises:
        ConfigError: As :func:`num_envs_per_process`.
    """
    try:
        result = num_envs_per_process(settings, record.add_trial)
    except ProbeError as error:
        record.finish("failed", error.trial.detail)
        current().fail(str(error))
        report_later(record.folder)
        return None

    settings = apply_overrides(settings, {"num_envs": result.num_envs, **result.overrides})
    settings.save(record.folder / SETTINGS_NAME)
    for trial in result.earlier_trials:
        record.add_trial(trial)
    record.update(num_envs=settings.num_envs, earlier_search=result.earlier_date or None, answer=result.answer)
    return settings


def num_envs_per_process(run: RunSettings, on_trial: Callable[[Trial], None]) -> FitResult:
    """Find the number of environments that each process of a run can have, and print the answer.

    Device and algorithm of the run are chosen; ``on_trial`` gets each trial.

    Raises:
        ConfigError: GPUs cannot be read or differ, no size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    processes = run.gpus
    if run.cluster is not None:
        # This machine stands for all of them.
        processes = run.workers if run.device == "cpu" else min(run.workers, gpu_count())
    if processes == 1 or run.device == "cpu":
        return find_num_envs(run, on_trial, processes=processes)

    device, reserve = fullest_gpu(processes)
    devices = ", ".join(f"cuda:{index}" for index in range(processes))
    reserved = f", {format_size(reserve)} of it kept for the other processes" if reserve else ""
    current().say(f"{device}{reserved}, for {devices}:")
    result = find_num_envs(
        run.with_values({"device": device}),
        lambda trial: on_trial(replace(trial, device=device)),
        processes=processes,
        reserve=reserve,
    )
    current().decide(f"num_envs={result.num_envs} on each of {devices}")
    return result


def fullest_gpu(count: int) -> tuple[str, int]:
    """Return which of the first GPUs, all of one model, has the least room, and what it keeps for others [bytes].

    Raises:
        ConfigError: A GPU cannot be read, or they are of several models.
    """
    gpus = [Gpu(f"cuda:{index}") for index in range(count)]
    if len({gpu.model for gpu in gpus}) > 1:
        raise ConfigError(
            f"num_envs=auto: the first {count} GPUs are of several models or sizes, and one is measured for all. Give "
            "num_envs, or choose equal ones with CUDA_VISIBLE_DEVICES."
        )
    reserves = [FIRST_GPU_RESERVE * (count - 1), *(0 for _ in gpus[1:])]
    room = [gpu.free() - reserve for gpu, reserve in zip(gpus, reserves, strict=True)]
    fullest = room.index(min(room))
    return f"cuda:{fullest}", reserves[fullest]


def find_num_envs(
    run: RunSettings, on_trial: Callable[[Trial], None], *, processes: int = 1, reserve: int = 0
) -> FitResult:
    """Find the number of environments on one device, showing each trial; print its reason.

    Device and physics backend of the run are chosen; ``on_trial`` gets each trial; ``processes`` and ``reserve`` are
    those of :func:`~isaaclab_pc.num_envs.fit`.

    Raises:
        ConfigError: No size fits, or the config is refused by the first child.
        ProbeError: A trial failed for another reason than its size.
    """
    search = SearchSettings.of(run)
    screen = current()
    screen.begin("search", "num_envs=auto: trying sizes (real rollouts and updates in child processes)")

    def command(num_envs: int, result_path: Path, overrides: Overrides) -> list[str]:
        job = ProbeJob(apply_overrides(run, overrides), num_envs, result_path)
        return worker_command(job, result_path.with_suffix(".job.json"))

    def show(trial: Trial) -> None:
        if trial.config_error:
            # The error itself follows, without the trial's numbers.
            return
        on_trial(trial)
        screen.say(f"  {trial}")
        for line, count in trial.repeated_lines:
            screen.say(f"    native code printed {count} lines such as: {line}")

    try:
        result = fit(
            command,
            search,
            answer_parts(run),
            show,
            retry=functools.partial(retry_overrides, smallest=search.sizes.lo),
            processes=processes,
            reserve=reserve,
        )
    except ProbeError as error:
        if error.trial.config_error:
            raise ConfigError(error.trial.detail) from None
        raise
    finally:
        screen.end_phase()

    _show(result, search, screen)
    return result


def _show(result: FitResult, search: SearchSettings, screen: Screen) -> None:
    screen.decide(result.reason, num_envs=result.num_envs, **result.overrides)
    most = next((trial.most_envs for trial in result.trials if trial.most_envs is not None), None)
    if most is not None and result.num_envs + search.sizes.granule > most:
        screen.say(
            f"note: more than {most} environments would exceed the agent's samples_per_update; "
            "scaling.objective=memory or scaling.min takes more"
        )
    if result.overrides:
        given = " ".join(f"{name}={value}" for name, value in result.overrides.items())
        screen.decide(f"with {given}, as its trial", **result.overrides)
