# SPDX-License-Identifier: BSD-3-Clause
"""Instructions compute what the manual of PTX says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.ptx.arithmetic import fma, function_of
from tests.ptx.parser import UnknownPtxError

floats = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**40), max_value=2.0**40)


def compute(opcode: str, *values: float) -> float | int | bool:
    function, types = function_of(tuple(opcode.split(".")))
    kinds = [types[min(i, len(types) - 1)] for i in range(len(values))]
    with np.errstate(all="ignore"):
        return function(*(np.array([v]).astype(kind) for v, kind in zip(values, kinds, strict=True)))[0]


# Just above the middle of two numbers of float32: float64 has no room for what is above.
@example(1 + 2**-12, 1 + 2**-12, 2.0**-60)
@given(floats, floats, floats)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    got = Fraction(float(fma(*(np.array([x], np.float32) for x in (a, b, c)))[0]))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    nearest = np.float32(got)
    neighbours = (np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf)))
    assert all(abs(exact - got) <= abs(exact - Fraction(float(other))) for other in neighbours)


@pytest.mark.parametrize(
    ("opcode", "values", "expected"),
    [
        ("add.s32", (2**31 - 1, 1), -(2**31)),
        ("mul.wide.s32", (-(2**31), 2), -(2**32)),
        ("mul.lo.s64", (2**40, 2**30), 0),
        ("mad.lo.s32", (3, -5, 4), -11),
        ("div.s32", (-7, 2), -3),
        ("div.s32", (7, -2), -3),
        ("rem.s32", (-7, 2), -1),
        ("div.u64", (2**63, 3), 2**63 // 3),
        ("shl.b32", (1, 32), 0),
        ("shl.b32", (3, 31), 2**31),
        ("shr.u32", (2**31, 40), 0),
        ("shr.s32", (-8, 1), -4),
        ("shr.s32", (-8, 40), -1),
        ("popc.b32", (0xF0F0,), 8),
        ("clz.b32", (1,), 31),
        ("clz.b32", (0,), 32),
        ("clz.b32", (2**32 - 1,), 0),
        ("bfi.b64", (0xABCD, 2**64 - 1, 32, 16), 0xFFFFABCDFFFFFFFF),
        ("setp.ne.f32", (np.nan, 1), False),
        ("setp.neu.f32", (np.nan, 1), True),
        ("setp.le.f32", (np.nan, 1), False),
        ("setp.gtu.f32", (1, np.nan), True),
        ("min.f32", (np.nan, 1), 1),
        ("max.u64", (2**63, 1), 2**63),
        ("selp.b32", (1, 2, False), 2),
        ("cvt.s64.s32", (-1,), -1),
        ("cvt.u64.u32", (2**32 - 1,), 2**32 - 1),
        ("cvt.u16.u32", (0x12345,), 0x2345),
        ("cvt.rn.f32.s32", (2**24 + 1,), 2**24),
        ("cvt.rzi.s32.f32", (-1.75,), -1),
        ("cvt.rzi.s32.f32", (1e20,), 2**31 - 1),
        ("cvt.rzi.s32.f32", (np.nan,), 0),
        ("cvt.rni.f32.f32", (2.5,), 2),
        ("cvt.rn.f16.f32", (65520,), np.inf),
        ("cvt.rn.f16.f32", (1 + 2**-11,), 1),
        ("not.b32", (0,), 2**32 - 1),
    ],
)
def test_results(opcode: str, values: tuple[float, ...], expected: float) -> None:
    assert compute(opcode, *values) == expected


@pytest.mark.parametrize(
    "opcode", ["add.rz.f32", "mul.hi.u32", "sin.approx.f32", "add.f64", "cvt.rzi.s64.f32", "setp.num.f32"]
)
def test_what_is_not_known_is_refused(opcode: str) -> None:
    with pytest.raises(UnknownPtxError):
        function_of(tuple(opcode.split(".")))
