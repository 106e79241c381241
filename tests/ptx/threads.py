# SPDX-License-Identifier: BSD-3-Clause
"""Threads of a launch: their registers, and what the operands of an instruction mean for each of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ptx.arithmetic import DTYPES, Array
from tests.ptx.memory import PARAM_BASE, PATTERN, SHARED_BASE
from tests.ptx.parser import Address, Entry, Module, Operand, UnknownPtxError

WARP_LANES = 32

Reader = Callable[[Array], Array]
"""Returns an operand's value for threads of the given numbers; a single element holds for all."""

Writer = Callable[[Array, Array], None]


class Threads:
    """All threads of all blocks, numbered through."""

    def __init__(self, module: Module, entry: Entry, num_blocks: int, block_lanes: int, dynamic_bytes: int) -> None:
        """Give registers their types and symbols their addresses; ``dynamic_bytes`` is shared memory of the launch."""
        self.count = num_blocks * block_lanes
        self.block = np.arange(self.count) // block_lanes
        self.warp = np.arange(self.count) // WARP_LANES
        self._entry = entry
        self._registers: dict[str, Array] = {}
        self._special = {
            "%tid.x": np.arange(self.count) % block_lanes,
            "%ctaid.x": self.block,
            "%laneid": np.arange(self.count) % WARP_LANES,
        }
        self._constants = {"%ntid.x": block_lanes, "%nctaid.x": num_blocks}
        for axis in "yz":
            self._constants |= {f"%tid.{axis}": 0, f"%ctaid.{axis}": 0, f"%ntid.{axis}": 1, f"%nctaid.{axis}": 1}

        address = PARAM_BASE
        for index, size in enumerate(entry.param_bytes):
            self._constants[f"{entry.name}_param_{index}"] = address
            address += param_stride(size)
        address = SHARED_BASE
        # What the launch gives a size comes last.
        variables = sorted((module.shared | entry.shared).items(), key=lambda item: item[1][1] == 0)
        for name, (alignment, size) in variables:
            address = -(-address // alignment) * alignment
            self._constants[name] = address
            address += size
        self.shared_bytes = address + dynamic_bytes - SHARED_BASE

    def register(self, name: str) -> Array:
        """Return a register of all threads."""
        if name not in self._registers:
            dtype = DTYPES[self._entry.registers[name.rstrip("0123456789")]]
            pattern = np.full(self.count * dtype.itemsize, PATTERN, np.uint8)
            self._registers[name] = np.zeros(self.count, bool) if dtype.kind == "b" else pattern.view(dtype)
        return self._registers[name]

    def reader(self, operand: Operand | Address, dtype: np.dtype[Any]) -> Reader:
        """Return what reads an operand as numbers of a type.

        Raises:
            UnknownPtxError: The operand is a vector, or a symbol that has no address here.
        """
        if not isinstance(operand, str):
            raise UnknownPtxError(str(operand))
        if operand in self._special:
            special = self._special[operand].astype(dtype)
            return lambda lanes: special[lanes]
        if operand in self._constants or not operand.startswith("%"):
            constant = number(str(self._constants.get(operand, operand)), dtype)
            return lambda lanes: constant
        values = self.register(operand)
        return lambda lanes: _as_type(values[lanes], dtype)

    def addresses(self, operand: Operand | Address) -> Reader:
        """Return what reads the address of an access."""
        if not isinstance(operand, Address):
            raise UnknownPtxError(str(operand))
        base = self.reader(operand.base, np.dtype(np.uint64))
        offset = np.array([operand.offset]).astype(np.uint64)
        return lambda lanes: np.broadcast_to(base(lanes) + offset, lanes.shape)

    def members(self, lanes: Array, masks: Array) -> Array:
        """Return which of all threads the masks of some threads name, shape (threads,)."""
        of_warp = np.zeros(self.count // WARP_LANES, np.uint32)
        np.bitwise_or.at(of_warp, self.warp[lanes], masks)
        return self.names_itself(np.arange(self.count), of_warp[self.warp])

    def names_itself(self, lanes: Array, masks: Array) -> Array:
        """Return for each of some threads whether its own bit is set in its mask."""
        return (masks >> (lanes % WARP_LANES).astype(np.uint32) & np.uint32(1)) != 0

    def writer(self, operand: Operand | Address) -> Writer:
        """Return what writes a register; a narrower number is widened by its own type, as a load does."""
        if not isinstance(operand, str):
            raise UnknownPtxError(str(operand))
        values = self.register(operand)

        def write(lanes: Array, value: Array) -> None:
            values[lanes] = _as_type(value, values.dtype)

        return write


def param_stride(size: int) -> int:
    """Return the bytes that a parameter takes among the others."""
    return -(-size // 16) * 16


def number(text: str, dtype: np.dtype[Any]) -> Array:
    """Return a number written in PTX, as an array with one element.

    Raises:
        UnknownPtxError: It is none: a symbol without an address.
    """
    if text.startswith("0f"):
        bits = struct.pack("<I", int(text[2:], 16))
        return _as_type(np.frombuffer(bits, np.float32), dtype)
    try:
        return np.array([int(text, 0)]).astype(dtype)
    except ValueError:
        raise UnknownPtxError(text) from None


def _as_type(value: Array, dtype: np.dtype[Any]) -> Array:
    if value.dtype == dtype:
        return value
    is_cut = value.dtype.itemsize != dtype.itemsize
    if bool in (value.dtype, dtype) or (is_cut and "f" in (value.dtype.kind, dtype.kind)):
        raise UnknownPtxError(f"{value.dtype} as {dtype}")
    if is_cut:
        # A load widens by its own type; a store writes the lower bits of its register.
        value = value.astype(np.dtype(f"{value.dtype.kind}{dtype.itemsize}"))
    return value.view(dtype)
