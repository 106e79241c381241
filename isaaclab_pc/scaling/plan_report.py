# SPDX-License-Identifier: BSD-3-Clause
"""What a child reports that has read a run's configs and simulated nothing. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isaaclab_pc.json_record import JsonRecord
from isaaclab_pc.scaling.batch import BatchPlan
from isaaclab_pc.scaling.ledger import Part

__all__ = ["PlanReport"]


@dataclass(frozen=True)
class PlanReport(JsonRecord):
    """Memory, batches and problems of a run, as its configs tell them."""

    parts: Mapping[str, Part]
    """Predicted memory by kind, for :func:`~isaaclab_pc.scaling.ledger.predicted_ledger`."""
    missing: tuple[str, ...]
    """Kinds of memory that only a trial tells."""
    batch: BatchPlan
    """Horizon and minibatches."""
    findings: tuple[str, ...]
    """Problems that the preflight found, for people."""
