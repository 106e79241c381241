# SPDX-License-Identifier: BSD-3-Clause
"""Threads part, meet and wait as on a GPU, and what has no defined result is an error that names its line."""

from typing import Any

import numpy as np
import pytest

from tests.ptx.machine import KernelError, Machine
from tests.ptx.memory import GlobalMemory
from tests.ptx.parser import UnknownPtxError, parse

KERNEL = """
.version 8.8
.target sm_90
.visible .entry work(
	.param .u64 work_param_0
)
{{
	.reg .pred %p<9>;
	.reg .b16 %rs<9>;
	.reg .f32 %f<9>;
	.reg .b32 %r<99>;
	.reg .b64 %rd<9>;
	.shared .align 4 .b8 box[256];
	.loc 1 7 0
	ld.param.u64 %rd1, [work_param_0];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mad.lo.s32 %r4, %r2, %r3, %r1;
	mul.wide.u32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	mul.wide.u32 %rd4, %r1, 4;
	mov.u64 %rd5, box;
	add.s64 %rd6, %rd5, %rd4;
	{code}
	st.global.u32 [%rd3], %r9;
	ret;
}}
	.file 1 "/somewhere/of_a_test.py"
"""
"""Each thread writes %r9 to a place of its own. %r1 is its number in the block, %rd6 a word of shared memory."""


def run(code: str, num_blocks: int = 2, block_lanes: int = 64, size: int | None = None) -> np.ndarray:
    """Return what the threads wrote, shape (blocks, threads)."""
    numbers = np.full(num_blocks * block_lanes, 7, np.uint32)
    extent = (numbers.ctypes.data, numbers.nbytes if size is None else size)
    memory = GlobalMemory([extent], numbers.ctypes.data.to_bytes(8, "little"))
    module = parse(KERNEL.format(code=code.replace(";", ";\n").replace(":", ":\n")))
    Machine(module, "work", num_blocks, block_lanes, memory).run()
    return numbers.reshape(num_blocks, block_lanes)


LANES = np.arange(64) % 32


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %r9, %r4;", np.arange(128).reshape(2, 64)),
        ("mov.u32 %r9, %laneid;", LANES),
        # A guard holds back threads.
        ("mov.u32 %r9, 1; setp.lt.u32 %p1, %r1, 5; @!%p1 mov.u32 %r9, 2;", [1] * 5 + [2] * 59),
        # Each thread has the number of another one of its warp, 3 further.
        ("shfl.sync.down.b32 %r9|%p1, %laneid, 3, 31, -1;", np.where(LANES + 3 < 32, LANES + 3, LANES)),
        ("shfl.sync.up.b32 %r9|%p1, %laneid, 3, 0, -1;", np.where(LANES >= 3, LANES - 3, LANES)),
        ("shfl.sync.bfly.b32 %r9, %laneid, 3, 31, -1;", LANES ^ 3),
        ("shfl.sync.idx.b32 %r9, %laneid, 3, 31, -1;", np.full(64, 3)),
        # A barrier shows what others wrote.
        ("st.shared.u32 [%rd6], %r4; bar.sync 0; ld.shared.u32 %r9, [box+252];", [[63] * 64, [127] * 64]),
    ],
)
def test_each_thread_computes_its_own(code: str, expected: Any) -> None:
    assert (run(code) == expected).all()


def test_threads_part_and_meet_again() -> None:
    # Each thread loops as often as its number says; all are back for the ballot.
    code = """
        mov.u32 %r9, 0; mov.u32 %r10, %r1; mov.u32 %r12, -1;
        $L_1:
        setp.eq.s32 %p1, %r10, 0; @%p1 bra $L_2; add.s32 %r9, %r9, 2; add.s32 %r10, %r10, -1; bra.uni $L_1;
        $L_2:
        setp.gt.u32 %p2, %r9, 61; vote.sync.ballot.b32 %r11, %p2, %r12; add.s32 %r9, %r9, %r11;
    """
    threads = np.arange(64)
    of_warp = np.where(threads < 32, 1 << 31, 2**32 - 1)
    assert (run(code) == (2 * threads + of_warp) % 2**32).all()


def test_a_barrier_does_not_wait_for_threads_that_have_exited() -> None:
    out = run(
        "setp.gt.u32 %p1, %r1, 40; @%p1 bra $L_1; bar.sync 0; mov.u32 %r9, 1; st.global.u32 [%rd3], %r9; $L_1: ret;"
    )
    assert (out == [1] * 41 + [7] * 23).all()


def test_atomics_count_every_thread() -> None:
    code = """
        mov.u32 %r9, 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra $L_1; st.shared.u32 [box], %r9;
        $L_1: bar.sync 0; atom.shared.add.u32 %r8, [box], 2; bar.sync 0; ld.shared.u32 %r9, [box];
    """
    assert (run(code) == 128).all()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("st.global.u32 [%rd1], %r1;", "no barrier between"),
        ("ld.global.u32 %r9, [%rd1]; add.s32 %r9, %r9, 1;", "no barrier between"),
        ("st.shared.u32 [%rd6], %r1; ld.shared.u32 %r9, [box];", "no barrier between"),
        ("ld.shared.u32 %r9, [box]; st.shared.u32 [box+0], %r1;", "no barrier between"),
        ("ld.shared.u32 %r9, [%rd6+252];", "shared memory is out of range"),
        ("ld.global.u32 %r9, [%rd3+512];", "is out of range"),
        ("ld.global.u32 %r9, [%rd3+2];", "not a multiple of 4 bytes"),
        (
            "setp.lt.u32 %p1, %r1, 9; @%p1 bra $L_1; bar.sync 0; bra.uni $L_2; $L_1: bar.sync 0; $L_2:",
            "another barrier",
        ),
        ("setp.lt.u32 %p1, %r1, 9; vote.sync.ballot.b32 %r9, %p1, 1;", "not the one that runs it"),
        (
            "setp.lt.u32 %p1, %r1, 9; @%p1 bra $L_1; vote.sync.ballot.b32 %r9, %p1, -1; $L_1: bar.sync 0;",
            "never come",
        ),
    ],
)
def test_what_a_gpu_would_not_survive_is_an_error_with_its_line(code: str, message: str) -> None:
    with pytest.raises(KernelError, match=f"of_a_test.py:7: .*{message}"):
        run(code)


def test_the_last_byte_counts() -> None:
    run("mov.u32 %r9, 1;", size=512)
    with pytest.raises(KernelError, match="range"):
        run("mov.u32 %r9, 1;", size=511)


def test_an_unknown_instruction_is_named() -> None:
    with pytest.raises(UnknownPtxError, match=r"sin\.approx\.f32"):
        run("sin.approx.f32 %f1, %f2;")
