# SPDX-License-Identifier: BSD-3-Clause
"""Memory of a kernel: each access is checked, and shared memory is watched for races."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.ptx.arithmetic import Array

PARAM_BASE = 1 << 60
SHARED_BASE = 1 << 61
"""Where parameters and shared variables are: at addresses that no memory of the process has."""

SHARED_BYTES = 48 * 1024
"""Of a block, at most."""

MANY = -2
"""More than one thread; -1 is none."""


class AccessError(RuntimeError):
    """A thread reads or writes what it may not, or what another one writes at that time."""


class Region:
    """Bytes that a kernel may access, from ``start`` on."""

    def __init__(self, start: int, size: int, buffer: bytes | None = None) -> None:
        """Take memory of this process, or a copy of ``buffer`` that stands at ``start`` for the kernel."""
        self.start = start
        self.end = start + size
        # Whole words, so that it can be read as numbers of any type; the check is by byte.
        self._origin = start // 8 * 8
        size = -(-self.end // 8) * 8 - self._origin
        if buffer is None:
            self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self._origin))
        else:
            self._bytes = np.frombuffer(bytearray(buffer.ljust(size, b"\0")), np.uint8)

    def view(self, addresses: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return the region as numbers, and the indices of those at the addresses."""
        return self._bytes.view(dtype), (addresses - self._origin) // dtype.itemsize


class GlobalMemory:
    """Memory of this process that a kernel may access, and its parameters."""

    def __init__(self, extents: Iterable[tuple[int, int]], params: bytes) -> None:
        """Take extents (start, size) [bytes], which may overlap, and the parameters, from ``PARAM_BASE`` on."""
        merged: list[list[int]] = []
        for start, size in sorted(extents):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], start + size)
            elif size:
                merged.append([start, start + size])
        self._regions = [Region(start, end - start) for start, end in merged]
        self._regions.append(Region(PARAM_BASE, len(params), params))
        self._starts = np.array([region.start for region in self._regions])
        self._ends = np.array([region.end for region in self._regions])

    def find(self, addresses: Array, dtype: np.dtype[Any]) -> list[tuple[Array, Array, Array]]:
        """Return (positions, view, indices): the elements of ``addresses`` at these positions are those of a view.

        Raises:
            AccessError: An address is out of range or not a multiple of the number's size.
        """
        places = addresses.astype(np.int64)
        check_alignment(places, dtype)
        at = np.searchsorted(self._starts, places, side="right") - 1
        is_outside = (at < 0) | (places + dtype.itemsize > self._ends[at])
        if is_outside.any():
            raise AccessError(f"address {places[is_outside][0]:#x} is out of range")
        found = []
        for index in np.unique(at):
            positions = np.flatnonzero(at == index)
            found.append((positions, *self._regions[index].view(places[positions], dtype)))
        return found


class SharedMemory:
    """Shared memory of all blocks, which notices if threads of a block use a word with no barrier between them."""

    def __init__(self, num_blocks: int, size: int) -> None:
        """Fill it with a pattern: it may hold anything at the start."""
        self.size = -(-size // 16) * 16
        self._bytes = np.full(num_blocks * self.size, 0xA5, np.uint8)
        words = len(self._bytes) // 4
        self._writer = np.full(words, -1, np.int64)
        self._reader = np.full(words, -1, np.int64)
        self._words_of_block = self.size // 4

    def find(self, addresses: Array, blocks: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """Return the memory as numbers, and the indices of those at the addresses.

        Raises:
            AccessError: An address is out of range or not a multiple of the number's size.
        """
        places = addresses.astype(np.int64) - SHARED_BASE
        check_alignment(places, dtype)
        if ((places < 0) | (places + dtype.itemsize > self.size)).any():
            raise AccessError("an address of shared memory is out of range")
        return self._bytes.view(dtype), (blocks * self.size + places) // dtype.itemsize

    def note(
        self, indices: Array, threads: Array, dtype: np.dtype[Any], *, writes: bool, is_atomic: bool = False
    ) -> None:
        """Remember who reads or writes, until :meth:`pass_barrier`.

        Raises:
            AccessError: Another thread has written what is read, or read or written what is written.
        """
        for offset in range(0, dtype.itemsize, 4):
            words = (indices * dtype.itemsize + offset) // 4
            owner = np.full_like(threads, MANY) if is_atomic else threads
            is_race = (self._writer[words] != -1) & (self._writer[words] != owner)
            if writes:
                is_race |= (self._reader[words] != -1) & (self._reader[words] != owner)
                self._writer[words] = owner
                is_race |= self._writer[words] != owner
            else:
                is_shared = (self._reader[words] != -1) & (self._reader[words] != threads)
                self._reader[words] = threads
                is_shared |= self._reader[words] != threads
                self._reader[words[is_shared]] = MANY
            if is_race.any():
                thread = int(threads[is_race][0])
                raise AccessError(f"thread {thread} and another one use a word of shared memory, no barrier between")

    def pass_barrier(self, blocks: Array) -> None:
        """Forget who has read or written in these blocks."""
        for accessed in (self._writer, self._reader):
            accessed.reshape(-1, self._words_of_block)[blocks] = -1


def check_alignment(places: Array, dtype: np.dtype[Any]) -> None:
    """Raise ``AccessError`` if a place is not a multiple of the number's size."""
    if (places % dtype.itemsize).any():
        raise AccessError(f"an address is not a multiple of {dtype.itemsize} bytes")
