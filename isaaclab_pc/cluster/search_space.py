# SPDX-License-Identifier: BSD-3-Clause
"""Hydra's sweeps as search spaces of Ray Tune. Loads Ray only to draw."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import IntervalSweep

from isaaclab_pc.cli.command_line import parse_override, single_values
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings.base import shown


@dataclass(frozen=True)
class SearchSpace:
    """The values of one setting that are searched over, as texts of a command line."""

    key: str
    """Dotted name."""
    values: tuple[str, ...]
    """All choices, or the two ends of an interval."""
    kind: str
    """Ray Tune's name: ``choice``, or an interval, ``uniform``, ``loguniform``, ``randint`` or ``lograndint``."""

    @property
    def highest(self) -> str:
        """The largest number, or the first value where they are no numbers."""
        with contextlib.suppress(ValueError):
            return max(self.values, key=float)
        return self.values[0]

    def sample(self, generator: Any) -> str:
        """Draw a value with a ``numpy.random.Generator``."""
        from ray import tune

        domain = getattr(tune, self.kind)
        if self.kind == "choice":
            return domain(list(self.values)).sample(random_state=generator)
        low, high = map(float, self.values)
        if self.kind.endswith("randint"):
            # Tune leaves the upper end out.
            return str(int(domain(int(low), int(high) + 1).sample(random_state=generator)))
        # Rounding to four digits may pass the ends.
        value = float(f"{domain(low, high).sample(random_state=generator):.4g}")
        return repr(min(max(value, low), high))


def read_space(text: str) -> SearchSpace | None:
    """Read ``key=value`` in Hydra's grammar; return None where it has one value.

    Raises:
        ConfigError: The text cannot be read, or the values are none to draw from.
    """
    override = parse_override(text)
    if not override.is_sweep_override():
        return None
    sweep: Any = override.value()
    tags = getattr(sweep, "tags", set())
    if tags - {"log"} or (tags and not isinstance(sweep, IntervalSweep)):
        raise ConfigError(f"{shown(text)}: the only tag is log, of an interval, as in tag(log,interval(1e-5,1e-3)).")

    if not isinstance(sweep, IntervalSweep):
        values = tuple(single.partition("=")[2] for single in single_values(override, multirun=True))
        if not values:
            raise ConfigError(f"{shown(text)} has no value: give one or more, or an interval.")
        return SearchSpace(override.key_or_group, values, "choice")

    start: Any = sweep.start
    end: Any = sweep.end
    if not start < end or (tags and start <= 0):
        raise ConfigError(f"{shown(text)}: an interval is from a lower to a higher number, above 0 if logarithmic.")
    kind = "randint" if isinstance(start, int) and isinstance(end, int) else "uniform"
    return SearchSpace(override.key_or_group, (repr(start), repr(end)), "log" + kind if tags else kind)


def draw(spaces: Sequence[SearchSpace], samples: int, seed: int) -> list[Mapping[str, str]]:
    """Draw combinations of values, all of them different; fewer where there are no more."""
    import numpy as np

    generator = np.random.default_rng(seed)
    found: dict[tuple[str, ...], Mapping[str, str]] = {}
    # After so many draws, all combinations of a few choices count as drawn.
    for _ in range(100 * samples):
        values = {space.key: space.sample(generator) for space in spaces}
        found.setdefault(tuple(values.values()), values)
        if len(found) == samples:
            break
    return list(found.values())
