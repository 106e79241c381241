# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a kernel: each access is checked, and threads that get into each other's way are noticed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tests.ptx.arithmetic import Array

PARAM_BASE = 1 << 60
SHARED_BASE = 1 << 61
"""Where parameters and shared variables are: at addresses that no memory of the process has."""

PATTERN = 0xA5
"""Bytes of registers and shared memory that were not written: any value may stand there."""

NOBODY, MANY = -1, -2


class AccessError(RuntimeError):
    """A thread reads or writes what it may not, or what another one writes at that time."""


class Bytes:
    """Some memory, with the thread that has read and the one that has written each byte of it."""

    def __init__(self, content: Array) -> None:
        """Take the bytes, a multiple of 8."""
        self._content = content
        self._reader = np.full(len(content), NOBODY, np.int32)
        self._writer = np.full(len(content), NOBODY, np.int32)

    def load(self, places: Array, dtype: np.dtype[Any], threads: Array) -> Array:
        """Return the numbers at some bytes.

        Raises:
            AccessError: Another thread has written one of them.
        """
        at, users = _bytes_of(places, dtype, threads)
        self._refuse((self._writer[at] != NOBODY) & (self._writer[at] != users), users)
        is_used = (self._reader[at] != NOBODY) & (self._reader[at] != users)
        self._reader[at] = users
        self._reader[at[is_used | (self._reader[at] != users)]] = MANY
        return self._content.view(dtype)[places // dtype.itemsize]

    def store(self, places: Array, values: Array, threads: Array) -> None:
        """Write numbers.

        Raises:
            AccessError: Another thread has read one of them, or written another value there.
        """
        # As bits: NaN is not equal to itself.
        values = values.view(np.dtype(f"u{values.dtype.itemsize}"))
        numbers, indices = self._content.view(values.dtype), places // values.dtype.itemsize
        changes = np.repeat(numbers[indices] != values, values.dtype.itemsize)
        numbers[indices] = values
        is_lost = np.repeat(numbers[indices] != values, values.dtype.itemsize)

        at, users = _bytes_of(places, values.dtype, threads)
        is_used = (self._writer[at] != NOBODY) & (self._writer[at] != users)
        is_used |= (self._reader[at] != NOBODY) & (self._reader[at] != users)
        self._refuse((is_used & changes) | is_lost, users)
        self._writer[at] = users

    def update(self, places: Array, threads: Array, function: Callable[..., Any], operands: list[Array]) -> Array:
        """Replace numbers by a function of them and of operands, atomically, and return what they were.

        Raises:
            AccessError: A thread has read or written one of them with an instruction that is not atomic.
        """
        dtype = operands[0].dtype
        at, users = _bytes_of(places, dtype, threads)
        is_used = (self._writer[at] != NOBODY) & (self._writer[at] != users) & (self._writer[at] != MANY)
        self._refuse(is_used | (self._reader[at] != NOBODY) & (self._reader[at] != users), users)
        self._writer[at] = MANY

        numbers = self._content.view(dtype)
        old = np.empty(len(places), dtype)
        for i, index in enumerate(places // dtype.itemsize):
            old[i] = numbers[index]
            numbers[index] = function(numbers[index], *(operand[i] for operand in operands))
        return old

    def forget(self, first: int, end: int) -> None:
        """Forget who has used these bytes, as after a barrier."""
        self._reader[first:end] = NOBODY
        self._writer[first:end] = NOBODY

    @staticmethod
    def _refuse(is_race: Array, users: Array) -> None:
        if is_race.any():
            raise AccessError(f"races: thread {users[is_race][0]} and another one use a number, no barrier between")


class GlobalMemory:
    """Memory of this process that a kernel may access, and its parameters.

    No thread may read what another one of the launch has written: a barrier holds for a block only.
    """

    def __init__(self, extents: Iterable[tuple[int, int]], params: bytes) -> None:
        """Take extents (start, size) [bytes], which may overlap, and the parameters, from ``PARAM_BASE`` on."""
        merged: list[list[int]] = []
        for start, size in sorted(extents):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], start + size)
            elif size:
                merged.append([start, start + size])

        # From multiples of 8 on, so that numbers of any type can be read; checks are by byte.
        self._origins = np.array([start // 8 * 8 for start, _ in merged] + [PARAM_BASE])
        self._starts = np.array([start for start, _ in merged] + [PARAM_BASE])
        self._ends = np.array([end for _, end in merged] + [PARAM_BASE + len(params)])
        sizes = [-(-int(end - origin) // 8) * 8 for end, origin in zip(self._ends, self._origins, strict=True)]
        contents = [
            np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(origin)))
            for origin, size in zip(self._origins[:-1], sizes, strict=False)
        ]
        contents.append(np.frombuffer(bytearray(params.ljust(sizes[-1], b"\0")), np.uint8))
        self._regions = [Bytes(content) for content in contents]

    def find(self, addresses: Array, dtype: np.dtype[Any]) -> Iterator[tuple[Array, Bytes, Array]]:
        """Yield (positions, memory, places): the ``addresses`` at these positions are these bytes of a memory.

        Raises:
            AccessError: An address is out of range or not a multiple of the number's size.
        """
        addresses = addresses.astype(np.int64)
        _check_alignment(addresses, dtype)
        at = np.searchsorted(self._starts, addresses, side="right") - 1
        is_outside = (at < 0) | (addresses + dtype.itemsize > self._ends[at])
        if is_outside.any():
            raise AccessError(f"address {addresses[is_outside][0]:#x} is out of range")
        for index in np.unique(at):
            positions = np.flatnonzero(at == index)
            yield positions, self._regions[index], addresses[positions] - self._origins[index]


class SharedMemory:
    """Shared memory of all blocks."""

    def __init__(self, num_blocks: int, size: int) -> None:
        """Allocate so many bytes for each block."""
        self._size = -(-size // 16) * 16
        self._memory = Bytes(np.full(num_blocks * self._size, PATTERN, np.uint8))

    def find(self, addresses: Array, blocks: Array, dtype: np.dtype[Any]) -> tuple[Bytes, Array]:
        """Return the memory, and which bytes of it the addresses of threads of some blocks are.

        Raises:
            AccessError: An address is out of range or not a multiple of the number's size.
        """
        places = addresses.astype(np.int64) - SHARED_BASE
        _check_alignment(places, dtype)
        if ((places < 0) | (places + dtype.itemsize > self._size)).any():
            raise AccessError("an address of shared memory is out of range")
        return self._memory, blocks * self._size + places

    def pass_barrier(self, blocks: Array) -> None:
        """Let the threads of these blocks see what the others have written."""
        for block in blocks:
            self._memory.forget(block * self._size, (block + 1) * self._size)


def _bytes_of(places: Array, dtype: np.dtype[Any], threads: Array) -> tuple[Array, Array]:
    """Return all bytes of numbers that begin at some places, and the thread that uses each."""
    at = places[:, None] + np.arange(dtype.itemsize)
    return at.reshape(-1), np.repeat(threads.astype(np.int32), dtype.itemsize)


def _check_alignment(places: Array, dtype: np.dtype[Any]) -> None:
    if (places % dtype.itemsize).any():
        raise AccessError(f"an address is not a multiple of {dtype.itemsize} bytes")
