# SPDX-License-Identifier: BSD-3-Clause
"""What the instructions of PTX that compute do, on arrays with one element a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ptx.parser import UnknownPtxError

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

DTYPES = {
    **{
        f"{kind}{bits}": np.dtype(f"{name}{bits}")
        for kind, name in (("u", "uint"), ("b", "uint"), ("s", "int"))
        for bits in (8, 16, 32, 64)
    },
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "pred": np.dtype(bool),
}
"""The NumPy type of each type of PTX."""


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once, for float32."""
    # The product is exact in float64. The sum is rounded to odd, so that rounding it to float32 rounds as if only once
    # (Boldo and Melquiond 2008).
    product = a.astype(np.float64) * b
    addend = c.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    is_inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    odd = bits + np.where((error > 0) == (total > 0), 1, -1)
    return np.where(is_inexact, odd, bits).view(np.float64).astype(np.float32)


def _shift_left(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.where(b < bits, a << np.minimum(b, bits - 1).astype(a.dtype), a.dtype.type(0))


def _shift_right(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(b, bits - 1).astype(a.dtype)
    return shifted if a.dtype.kind == "i" else np.where(b < bits, shifted, a.dtype.type(0))


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    # Towards zero, as in C; NumPy's rounds down.
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        quotient += ((quotient < 0) & (quotient * b != a)).astype(a.dtype)
    return quotient


def _wide(a: Array) -> Array:
    return a.astype(np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}"))


def _insert_bits(source: Array, into: Array, position: Array, length: Array) -> Array:
    field = ((np.uint64(1) << length.astype(np.uint64)) - np.uint64(1)) << position.astype(np.uint64)
    moved = source.astype(np.uint64) << position.astype(np.uint64)
    return ((moved & field) | (into.astype(np.uint64) & ~field)).astype(source.dtype)


def _leading_zeros(a: Array) -> Array:
    # Exact: a number of 32 bits is one of float64.
    return (32 - np.frexp(a.astype(np.float64))[1]).astype(np.uint32)


_FUNCTIONS: dict[str, Function] = {
    "mov": lambda a: a,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mul.lo": np.multiply,
    "mul.wide": lambda a, b: _wide(a) * _wide(b),
    "mad.lo": lambda a, b, c: a * b + c,
    "fma": fma,
    "div": _divide,
    "rem": lambda a, b: a - _divide(a, b) * b,
    "min": np.fmin,
    "max": np.fmax,
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "shl": _shift_left,
    "shr": _shift_right,
    "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
    "clz": _leading_zeros,
    "bfi": _insert_bits,
    "selp": lambda a, b, chosen: np.where(chosen, a, b),
    # All of them in one window of addresses, see memory.py.
    "cvta": lambda a: a,
}

_COMPARISONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

_ROUNDINGS = {"rn", "ftz", "approx", "uni"}
"""Parts of an opcode that do not choose another function: results are rounded to the nearest even number anyway."""


def function_of(opcode: tuple[str, ...]) -> tuple[Function, list[np.dtype[Any]]]:
    """Return what an opcode computes and the types of its operands, of which the last one's holds for all further ones.

    Raises:
        UnknownPtxError: The opcode is not known.
    """
    name, *parts = opcode
    types = [DTYPES[part] for part in parts if part in DTYPES]
    words = [part for part in parts if part not in DTYPES and part not in _ROUNDINGS]
    if name == "cvt":
        return _conversion(opcode, types, words)
    if name == "setp" and len(words) == 1:
        return _comparison(words[0]), types
    if name == "cvta":
        return _FUNCTIONS[name], [np.dtype(np.uint64)]

    key = ".".join([name, *words])
    if key not in _FUNCTIONS or len(types) != 1 or (types[0] == np.float64) or (key == "clz" and types[0] != np.uint32):
        raise UnknownPtxError(".".join(opcode))
    if key == "selp":
        return _FUNCTIONS[key], [types[0], types[0], np.dtype(bool)]
    if key in ("shl", "shr"):
        return _FUNCTIONS[key], [types[0], np.dtype(np.uint32)]
    if key == "bfi":
        return _FUNCTIONS[key], [types[0], types[0], np.dtype(np.uint32)]
    return _FUNCTIONS[key], types


def _comparison(word: str) -> Function:
    if word in _COMPARISONS:
        # NumPy's are false for NaN, but for `ne`; in PTX this one is, too.
        return (lambda a, b: (a != b) & (a == a) & (b == b)) if word == "ne" else _COMPARISONS[word]
    if word[:-1] in _COMPARISONS and word.endswith("u"):
        return lambda a, b: _COMPARISONS[word[:-1]](a, b) | (a != a) | (b != b)
    raise UnknownPtxError(f"setp.{word}")


def _conversion(
    opcode: tuple[str, ...], types: list[np.dtype[Any]], words: list[str]
) -> tuple[Function, list[np.dtype[Any]]]:
    to, source = types
    if words == ["rni"] and to == source:
        return np.rint, [source]
    if words == ["rzi"] and (source.kind, to) == ("f", np.int32):
        return _truncated, [source]
    # Without a mode only integers are cut, and floats widened.
    if words or (source.kind == "f" and to.kind != "f"):
        raise UnknownPtxError(".".join(opcode))
    return lambda a: a.astype(to), [source]


def _truncated(a: Array) -> Array:
    clipped = np.clip(np.trunc(a.astype(np.float64)), -(2**31), 2**31 - 1)
    return np.where(np.isnan(a), 0, clipped).astype(np.int32)
