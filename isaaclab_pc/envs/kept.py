# SPDX-License-Identifier: BSD-3-Clause
"""Quantities that several parts of a step ask for, computed once while nothing in the simulation moves."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class StandingState:
    """Keeps the values of :func:`kept` properties, but only while an environment's state is known to stand still.

    At any other time they are computed whenever they are read, so nobody who moves or resets something has to say so.
    """

    def __init__(self) -> None:
        """Keep nothing."""
        self._values: dict[Any, Any] | None = None

    def begin(self) -> None:
        """Keep values from now on until :meth:`end`: nothing moves."""
        self._values = {}

    def end(self) -> None:
        """Forget all values: something may move."""
        self._values = None

    @contextmanager
    def still(self) -> Iterator[None]:
        """Keep values inside of a block, in which nothing moves."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def read[Value](self, function: Callable[[Any], Value], env: Any) -> Value:
        """Return ``function(env)``, computed now or, while the state stands still, earlier."""
        if self._values is None:
            return function(env)
        if function not in self._values:
            self._values[function] = function(env)
        return self._values[function]


def kept[Value](function: Callable[[Any], Value]) -> Value:
    """Make a property of an environment that is computed once while its state stands still; do not write its value."""
    read = functools.wraps(function)(lambda env: env.standing_state.read(function, env))
    return property(read)  # pyright: ignore[reportReturnType]  # its type is that of what it gives
