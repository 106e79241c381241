# SPDX-License-Identifier: BSD-3-Clause
"""The instructions by which the threads of a warp exchange values."""

from __future__ import annotations

import numpy as np

from tests.ptx.accesses import Step
from tests.ptx.arithmetic import Array
from tests.ptx.memory import PATTERN
from tests.ptx.parser import Instruction, UnknownPtxError
from tests.ptx.threads import WARP_LANES, Reader, Threads

UINT32 = np.dtype(np.uint32)


def exchange(instruction: Instruction, threads: Threads) -> tuple[Reader, Step]:
    """Return what reads the mask of the threads that must take part, and what they do together.

    Raises:
        UnknownPtxError: It is another instruction than ``shfl.sync`` or ``vote.sync.ballot``.
    """
    match instruction.opcode:
        case ("shfl", "sync", mode, "b32"):
            return _shuffle(instruction, mode, threads)
        case ("vote", "sync", "ballot", "b32"):
            return _ballot(instruction, threads)
    raise UnknownPtxError(instruction.text)


def _shuffle(instruction: Instruction, mode: str, threads: Threads) -> tuple[Reader, Step]:
    to, value, *others, mask = instruction.operands
    destinations = to if isinstance(to, tuple) else (to,)
    writers = [threads.writer(part) for part in destinations]
    read, read_distance, read_bounds = (threads.reader(part, UINT32) for part in (value, *others))

    def step(lanes: Array) -> None:
        own = lanes % WARP_LANES
        bounds = read_bounds(lanes).astype(np.int64)
        segment = bounds >> 8 & 31
        distance = read_distance(lanes).astype(np.int64) & 31
        last = own & segment | bounds & 31 & ~segment
        source, is_within = {
            "up": (own - distance, own - distance >= last),
            "down": (own + distance, own + distance <= last),
            "bfly": (own ^ distance, (own ^ distance) <= last),
            "idx": (own & segment | distance & ~segment, (own & segment | distance & ~segment) <= last),
        }[mode]
        # What a thread that takes no part would give is not defined.
        given = np.full(threads.count * 4, PATTERN, np.uint8).view(UINT32)
        given[lanes] = read(lanes)
        writers[0](lanes, given[lanes - own + np.where(is_within, source, own)])
        for write in writers[1:]:
            write(lanes, is_within)

    return threads.reader(mask, UINT32), step


def _ballot(instruction: Instruction, threads: Threads) -> tuple[Reader, Step]:
    to, vote, mask = instruction.operands
    write = threads.writer(to)
    read = threads.reader(vote, np.dtype(bool))

    def step(lanes: Array) -> None:
        votes = np.zeros(threads.count, bool)
        votes[lanes] = read(lanes)
        bits = np.left_shift(votes, np.arange(threads.count) % WARP_LANES, dtype=np.int64)
        of_warp = bits.reshape(-1, WARP_LANES).sum(axis=1).astype(UINT32)
        write(lanes, of_warp[threads.warp[lanes]])

    return threads.reader(mask, UINT32), step
