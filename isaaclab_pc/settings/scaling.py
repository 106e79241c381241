# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the search for the number of environments."""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import Expects, Settings, Unit

MAX_NUM_ENVS = 65_536
"""More environments than the largest GPU of today holds; a larger number is a slip of the keyboard."""

NumEnvs = Annotated[int, Field(ge=1, le=MAX_NUM_ENVS)]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:(%)|([kmgt]?)(i?)(b?))\s*", re.IGNORECASE)


def parse_budget(value: float | str) -> float | int:
    """Read a memory budget as the user writes it; returns a float for a fraction, an int for a size [bytes].

    Args:
        value: A fraction of what is free in (0, 1], "80%", or a size such as "20GiB", "512 MB" or a number of bytes.

    Raises:
        ConfigError: It is neither.
    """
    refusal = ConfigError(
        f"scaling.budget={value} must be a fraction in (0, 1] of what is free, such as 0.8, or a size, such as 20GiB"
    )
    match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value))
    if match is None:
        raise refusal

    number = float(match[1])
    if match[2]:
        number /= 100
    prefix = (match[3] or "").upper()
    binary = match[4]
    byte = match[5]
    if not (prefix or byte) and 0 < number <= 1:
        return number

    # "GB" is decimal; "GiB" is binary, and so are "Gi" (Kubernetes) and "G" (SLURM).
    size = number * (1000 if byte and not binary else 1024) ** " KMGT".index(prefix or " ")
    if match[2] or not 2 <= size < math.inf:
        raise refusal
    return int(size)


def _check_budget(value: Any) -> Any:
    try:
        parse_budget(value)
    except ConfigError:
        # The schema says what it takes; a ConfigError would be taken for one that says it all.
        raise ValueError("not a budget") from None
    return value


Budget = Annotated[
    float | str,
    BeforeValidator(_check_budget),
    Expects("a fraction in (0, 1] of what is free, such as 0.8, or a size such as 20GiB"),
]


class ScalingSettings(Settings):
    """How ``num_envs=auto`` is found: trials in child processes that run real rollouts and updates."""

    group = "scaling"

    budget: Budget | None = None
    """Memory that a run may take: a fraction of what is free, such as 0.8, or a size, such as 12GB. On a GPU it is the
    GPU's memory, otherwise the host's. null: 0.9 of the GPU's, 0.8 of the host's."""

    objective: Literal["auto", "memory", "throughput"] = "auto"
    """throughput (auto): the smallest number within 5 % of the best frames per second, on a GPU at most as many as an
    update of the agent has samples for; memory: the most that fits."""

    min: NumEnvs | None = None
    """Smallest number to try; null: 32 on the CPU, 64 on a GPU, or fewer where not even those fit."""

    max: NumEnvs | None = None
    """Largest number to try; null: 256 on the CPU (1024 with objective=memory), 65536 on a GPU."""

    max_seconds: Annotated[float, Field(gt=0, le=604_800), Unit("s")] = 180.0
    """Longest time for a search, from when its first environment is built; kernels may be compiled before."""

    cache: Literal["use", "refresh", "ignore"] = "use"
    """Answers of earlier searches on this machine: use takes one that is there, refresh searches again and keeps the
    answer, ignore neither reads nor writes."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ConfigError(f"scaling.min={self.min} is above scaling.max={self.max}.")
        return self
