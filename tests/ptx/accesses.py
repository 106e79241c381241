# SPDX-License-Identifier: BSD-3-Clause
"""The instructions of PTX that read and write memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ptx.arithmetic import DTYPES, Array
from tests.ptx.memory import SHARED_BASE, Bytes, GlobalMemory, SharedMemory
from tests.ptx.parser import Instruction, UnknownPtxError
from tests.ptx.threads import Threads

Step = Callable[[Array], None]
"""Runs one instruction for the threads of the given numbers, in ascending order."""

_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "or": lambda old, value: old | value,
    "min": min,
    "max": max,
    "cas": lambda old, expected, value: value if old == expected else old,
}


class Accesses:
    """Translates accesses to the memory of a launch."""

    def __init__(self, threads: Threads, memory: GlobalMemory, shared: SharedMemory) -> None:
        """Take the registers and the memory."""
        self._threads = threads
        self._memory = memory
        self._shared = shared
        # Threads come to an atomic instruction in any order.
        self._order = np.random.default_rng(0)

    def load(self, instruction: Instruction) -> Step:
        """Return what reads one number, or a vector of them."""
        dtype = self._dtype(instruction)
        to, source = instruction.operands
        addresses = self._threads.addresses(source)
        writers = [self._threads.writer(part) for part in (to if isinstance(to, tuple) else (to,))]

        def step(lanes: Array) -> None:
            starts = addresses(lanes)
            for index, write in enumerate(writers):
                values = np.empty(len(lanes), dtype)
                for positions, memory, places in self._find(starts + np.uint64(index * dtype.itemsize), lanes, dtype):
                    values[positions] = memory.load(places, dtype, lanes[positions])
                write(lanes, values)

        return step

    def store(self, instruction: Instruction) -> Step:
        """Return what writes one number."""
        dtype = self._dtype(instruction)
        to, source = instruction.operands
        addresses = self._threads.addresses(to)
        read = self._threads.reader(source, dtype)

        def step(lanes: Array) -> None:
            values = np.broadcast_to(read(lanes), lanes.shape)
            for positions, memory, places in self._find(addresses(lanes), lanes, dtype):
                memory.store(places, values[positions], lanes[positions])

        return step

    def atomic(self, instruction: Instruction) -> Step:
        """Return what reads, changes and writes a number, thread by thread."""
        dtype = self._dtype(instruction)
        function = _ATOMICS[instruction.opcode[2]]
        to, place, *operands = instruction.operands
        addresses = self._threads.addresses(place)
        readers = [self._threads.reader(operand, dtype) for operand in operands]
        write = self._threads.writer(to)

        def step(lanes: Array) -> None:
            lanes = self._order.permutation(lanes)
            values = [np.broadcast_to(read(lanes), lanes.shape) for read in readers]
            old = np.empty(len(lanes), dtype)
            for positions, memory, places in self._find(addresses(lanes), lanes, dtype):
                operands = [value[positions] for value in values]
                old[positions] = memory.update(places, lanes[positions], function, operands)
            write(lanes, old)

        return step

    def _dtype(self, instruction: Instruction) -> np.dtype[Any]:
        *words, kind = instruction.opcode
        known = {"ld", "st", "atom", "global", "shared", "param", "v2", "v4", *_ATOMICS}
        if not known.issuperset(words) or kind not in DTYPES:
            raise UnknownPtxError(instruction.text)
        return DTYPES[kind]

    def _find(self, addresses: Array, lanes: Array, dtype: np.dtype[Any]) -> Iterator[tuple[Array, Bytes, Array]]:
        """Yield what :meth:`GlobalMemory.find` does, whatever memory the addresses are of."""
        is_shared = addresses >= np.uint64(SHARED_BASE)
        if is_shared.any():
            positions = np.flatnonzero(is_shared)
            yield positions, *self._shared.find(addresses[positions], self._threads.block[lanes[positions]], dtype)
        if not is_shared.all():
            others = np.flatnonzero(~is_shared)
            for positions, memory, places in self._memory.find(addresses[others], dtype):
                yield others[positions], memory, places
