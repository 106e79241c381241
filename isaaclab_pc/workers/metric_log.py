# SPDX-License-Identifier: BSD-3-Clause
"""Hands the metrics of a run on to a tracker: one place for all learning libraries, with TensorBoard's tags."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from isaaclab_pc.learners.common.iteration_metrics import tagged_metrics
from isaaclab_pc.run.evaluation import Evaluation
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.settings import RunSettings


class MetricLog:
    """Reports metrics to a tracker. A tracker that fails is left alone from then on: the training goes on."""

    def __init__(self, log: Callable[[dict[str, float], int], Any] | None, warn: Callable[[str], object]) -> None:
        """Begin; ``log`` takes values by tag and the iteration (None: nobody wants them), ``warn`` is called once."""
        self._log = log
        self._warn = warn

    def iteration(self, completed: int, metrics: Mapping[str, float]) -> None:
        """Report the metrics of a completed iteration, 1 for the first."""
        self._report(tagged_metrics(metrics), completed)

    def evaluation(self, completed: int, result: Evaluation) -> None:
        """Report the evaluation of a policy after so many iterations."""
        values = {"success_rate": result.success_rate, "mean_return": result.mean_return}
        known = {f"Evaluation/{name}": value for name, value in values.items() if value is not None}
        self._report(known, completed)

    def _report(self, values: dict[str, float], step: int) -> None:
        if self._log is None:
            return
        try:
            self._log(values, step)
        except Exception as error:
            self._log = None
            self._warn(f"warning: logger: nothing is reported from here on ({type(error).__name__}: {error})")


@contextmanager
def open_metric_log(settings: RunSettings, record: RunRecord, warn: Callable[[str], object]) -> Iterator[MetricLog]:
    """Open the log of ``logger``, and close it whatever happens; TensorBoard's is written by the learning libraries.

    Where the tracker cannot be used, ``warn`` is called and the training goes on without.
    """
    run = None
    if settings.logger == "wandb":
        try:
            run = _wandb_run(settings, record)
        except Exception as error:
            warn(f"warning: logger=wandb: it cannot be started ({type(error).__name__}: {error}); training without it")
    if run is None:
        yield MetricLog(None, warn)
        return

    try:
        yield MetricLog(lambda values, step: run.log(values, step=step), warn)
    finally:
        # Whatever becomes of its files, the training is done.
        with suppress(Exception):
            run.finish()


def _wandb_run(settings: RunSettings, record: RunRecord) -> Any:
    """Start a run of Weights & Biases in the run's folder, under its name; offline unless ``WANDB_MODE`` says more."""
    import wandb

    name = record.folder.name
    return wandb.init(
        project=record.data.experiment,
        name=name,
        # The same when the run goes on.
        id=re.sub(r"[^A-Za-z0-9_-]", "-", f"{record.folder.parent.name}-{name}")[:128],
        resume="allow" if os.environ.get("WANDB_MODE") == "online" else None,
        dir=str(record.folder),
        mode=os.environ.get("WANDB_MODE", "offline"),  # pyright: ignore[reportArgumentType]
        config=settings.flat(),
        settings=wandb.Settings(
            # The run has a log of its own.
            console="off",
            silent=True,
            disable_git=True,
            save_code=False,
        ),
    )
