# SPDX-License-Identifier: BSD-3-Clause
"""Events that a script reports: ``--json`` prints them, and a child hands them to the script that started it."""

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from isaaclab_pc.utils.json_record import Count, JsonRecord, NonNegative

PhaseName = Literal["search", "build", "train", "tune", "measure", "evaluate", "record", "replay"]


@dataclass(frozen=True, kw_only=True)
class Phase(JsonRecord):
    """Something that takes a while begins, goes on, or has ended."""

    kind: Literal["phase"] = "phase"

    phase: PhaseName
    """``search``: for the number of environments; ``build``: simulator, environments and agent; ``train``;
    ``tune``: the trials of a search for settings; ``measure``: what physics a task bears; ``evaluate``;
    ``record``: demonstrations; ``replay``: a dump."""

    state: Literal["begin", "running", "end"] = "begin"
    """``running`` comes where nothing else did for half a minute."""

    what: str = ""
    """Description for people; empty where the iterations tell."""

    elapsed_s: NonNegative = 0.0
    """Time since it began [s]."""

    step: Count = 0
    """Environment steps of an evaluation so far, or iterations of all trials."""

    steps: Count = 0
    """Those that it has at most; 0: it tells no steps."""


@dataclass(frozen=True, kw_only=True)
class Iterated(JsonRecord):
    """An iteration is completed: a rollout and its update."""

    kind: Literal["iteration"] = "iteration"

    iteration: Count
    """Iterations completed, 1 after the first."""

    max_iterations: Count
    """The run's last iteration."""

    eta_s: NonNegative
    """Time that the rest takes at the pace so far [s]."""

    metrics: dict[str, float] = field(default_factory=dict)
    """As in ``iterations.jsonl``; those that are not finite are left out."""

    guard: dict[str, int] = field(default_factory=dict)
    """Environments that the guard ended since the run began, by cause; causes without one are left out."""

    restarts: Count = 0
    """Training processes of the run that died and were replaced."""


@dataclass(frozen=True, kw_only=True)
class Decided(JsonRecord):
    """Something was chosen that the user did not say."""

    kind: Literal["decision"] = "decision"

    text: str
    """The choice and its reason, for people."""

    values: dict[str, Any] = field(default_factory=dict)
    """The settings that were chosen, by name."""


@dataclass(frozen=True, kw_only=True)
class Evaluated(JsonRecord):
    """A policy was evaluated."""

    kind: Literal["evaluation"] = "evaluation"

    text: str
    """The result for people."""

    iteration: Count | None = None
    """Iterations of the checkpoint; None: the policy at the end, or the one that is played."""

    result: dict[str, Any] = field(default_factory=dict)
    """The result as in ``run.json``."""


@dataclass(frozen=True, kw_only=True)
class Warned(JsonRecord):
    """Something is not as it should be, and the script goes on."""

    kind: Literal["warning"] = "warning"

    text: str
    """What, and what to do about it, for people."""


@dataclass(frozen=True, kw_only=True)
class End(JsonRecord):
    """The script ends; always the last event."""

    kind: Literal["end"] = "end"

    exit_code: int
    """As ``--help`` lists them."""

    error: str | None = None
    """The error, for people."""

    files: dict[str, list[str]] = field(default_factory=dict)
    """Paths of the files that were made, by kind, such as ``run`` and ``report``."""


Event = Phase | Iterated | Decided | Evaluated | Warned | End


@functools.cache
def _adapter() -> TypeAdapter[Event]:
    return TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def read_event(text: str | bytes) -> Event:
    """Read an event from a line of JSON, or raise ValueError."""
    return _adapter().validate_json(text)


def to_line(event: Event) -> str:
    """Return an event as one line of JSON, without a line feed."""
    return json.dumps(event.to_dict())


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that are finite, as plain numbers."""
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}
