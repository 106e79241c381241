# SPDX-License-Identifier: BSD-3-Clause
"""Runs a kernel's PTX on NumPy arrays with one element for each thread of all blocks.

Threads go their own ways. Those that are farthest behind run first, so that they come together again; barriers and the
instructions of a warp wait for all threads that they name.
"""

from __future__ import annotations

import numpy as np

from tests.ptx.accesses import Accesses, Step
from tests.ptx.arithmetic import Array, function_of
from tests.ptx.memory import AccessError, GlobalMemory, SharedMemory
from tests.ptx.parser import Instruction, Module, UnknownPtxError
from tests.ptx.threads import Threads
from tests.ptx.warp_exchange import exchange

RUNS, WAITS_FOR_WARP, WAITS_FOR_BLOCK, HAS_EXITED = range(4)

ENDS = ("bra", "ret", "bar", "shfl", "vote")
"""Instructions after which threads may part or have met."""


class KernelError(RuntimeError):
    """A kernel does what a GPU would not survive, or what has no defined result."""


class Machine:
    """One launch of a kernel."""

    def __init__(
        self, module: Module, name: str, num_blocks: int, block_lanes: int, memory: GlobalMemory, dynamic_bytes: int = 0
    ) -> None:
        """Translate the instructions.

        Args:
            module: What the kernel stands in.
            name: The kernel's.
            num_blocks: Blocks of the grid.
            block_lanes: Threads of a block, whole warps.
            memory: Memory and parameters.
            dynamic_bytes: Shared memory of each block that the launch adds.

        Raises:
            UnknownPtxError: The interpreter does not know an instruction.
        """
        self._entry = module.entries[name]
        self._threads = Threads(module, self._entry, num_blocks, block_lanes, dynamic_bytes)
        self._shared = SharedMemory(num_blocks, self._threads.shared_bytes)
        self._accesses = Accesses(self._threads, memory, self._shared)
        self._pc = np.zeros(self._threads.count, np.int64)
        self._state = np.full(self._threads.count, RUNS)
        self._leaders = set(self._entry.labels.values())
        self._steps = [self._guarded(pc, instruction) for pc, instruction in enumerate(self._entry.instructions)]

    def run(self) -> None:
        """Run until all threads have exited.

        Raises:
            KernelError: A thread reads or writes what it may not, threads wait for each other for ever, or there is a
                race in shared memory; the message names the line.
        """
        with np.errstate(all="ignore"):
            while True:
                runs = self._state == RUNS
                if runs.any():
                    pc = int(self._pc[runs].min())
                    self._run_from(pc, np.flatnonzero(runs & (self._pc == pc)))
                elif not self._pass_barriers():
                    return

    def _run_from(self, pc: int, lanes: Array) -> None:
        while True:
            try:
                self._steps[pc](lanes)
            except AccessError as error:
                raise self._error(pc, str(error)) from error
            if self._entry.instructions[pc].opcode[0] in ENDS:
                return
            pc += 1
            if pc in self._leaders:
                self._pc[lanes] = pc
                return

    def _pass_barriers(self) -> bool:
        """Let the threads of blocks go on that all wait at a barrier; return whether any thread is left."""
        stuck = np.flatnonzero(self._state == WAITS_FOR_WARP)
        if len(stuck):
            raise self._error(int(self._pc[stuck[0]]), "waits for threads of the warp that never come")
        waiting = np.flatnonzero(self._state == WAITS_FOR_BLOCK)
        if not len(waiting):
            return False
        blocks = self._threads.block[waiting]
        first = self._pc[waiting[np.searchsorted(blocks, blocks)]]
        if (self._pc[waiting] != first).any():
            raise self._error(int(first[0]), "has threads of its block waiting at another barrier")
        self._shared.pass_barrier(np.unique(blocks))
        self._pc[waiting] += 1
        self._state[waiting] = RUNS
        return True

    def _error(self, pc: int, message: str) -> KernelError:
        instruction = self._entry.instructions[pc]
        return KernelError(f"{self._entry.name}, {instruction.line}: `{instruction.text}` {message}")

    def _guarded(self, pc: int, instruction: Instruction) -> Step:
        if instruction.opcode[0] == "bra":
            return self._branch(pc, instruction)
        step = self._step(pc, instruction)
        if instruction.guard is None:
            return step
        if instruction.opcode[0] in ENDS:
            raise UnknownPtxError(instruction.text)
        guard = self._threads.register(instruction.guard)

        def guarded(lanes: Array) -> None:
            chosen = lanes[guard[lanes] != instruction.guard_is_negated]
            if len(chosen):
                step(chosen)

        return guarded

    def _step(self, pc: int, instruction: Instruction) -> Step:
        match instruction.opcode:
            case ("ret",):
                return lambda lanes: self._state.__setitem__(lanes, HAS_EXITED)
            case ("bar", "sync") if instruction.operands == ("0",):
                return lambda lanes: self._wait(pc, lanes, WAITS_FOR_BLOCK)
            case ("shfl" | "vote", *_):
                return self._exchange(pc, instruction)
            case ("ld", *_):
                return self._accesses.load(instruction)
            case ("st", *_):
                return self._accesses.store(instruction)
            case ("atom", *_):
                return self._accesses.atomic(instruction)
            case ("mov", *_) if any(isinstance(part, tuple) for part in instruction.operands):
                return self._join_or_split(instruction)
        return self._compute(instruction)

    def _branch(self, pc: int, instruction: Instruction) -> Step:
        target = self._entry.labels[str(instruction.operands[0])]
        guard = None if instruction.guard is None else self._threads.register(instruction.guard)

        def step(lanes: Array) -> None:
            is_taken = True if guard is None else guard[lanes] != instruction.guard_is_negated
            self._pc[lanes] = np.where(is_taken, target, pc + 1)

        return step

    def _wait(self, pc: int, lanes: Array, state: int) -> None:
        self._pc[lanes] = pc
        self._state[lanes] = state

    def _exchange(self, pc: int, instruction: Instruction) -> Step:
        members, step = exchange(instruction, self._threads)

        def wait_and_step(lanes: Array) -> None:
            self._wait(pc, lanes, WAITS_FOR_WARP)
            arrived = (self._state == WAITS_FOR_WARP) & (self._pc == pc)
            lanes = np.flatnonzero(arrived)
            masks = np.broadcast_to(members(lanes), lanes.shape)
            if not self._threads.names_itself(lanes, masks).all():
                raise self._error(pc, "names threads, and not the one that runs it")
            awaited = self._threads.members(lanes, masks) & (self._state != HAS_EXITED)
            missing = np.isin(self._threads.warp, self._threads.warp[awaited & ~arrived])
            lanes = np.flatnonzero(arrived & ~missing)
            if len(lanes):
                step(lanes)
                self._pc[lanes] = pc + 1
                self._state[lanes] = RUNS

        return wait_and_step

    def _compute(self, instruction: Instruction) -> Step:
        function, types = function_of(instruction.opcode)
        to, *operands = instruction.operands
        readers = [self._threads.reader(part, types[min(i, len(types) - 1)]) for i, part in enumerate(operands)]
        write = self._threads.writer(to)
        return lambda lanes: write(lanes, function(*(read(lanes) for read in readers)))

    def _join_or_split(self, instruction: Instruction) -> Step:
        """Return what makes one number of 64 bits of two of 32, or two of one."""
        to, source = instruction.operands
        parts = to if isinstance(to, tuple) else source
        if instruction.opcode != ("mov", "b64") or not isinstance(parts, tuple):
            raise UnknownPtxError(instruction.text)
        half = np.uint64(32)
        if isinstance(source, tuple):
            read_low, read_high = (self._threads.reader(part, np.dtype(np.uint32)) for part in parts)
            write = self._threads.writer(to)
            return lambda lanes: write(lanes, read_high(lanes).astype(np.uint64) << half | read_low(lanes))

        read = self._threads.reader(source, np.dtype(np.uint64))
        write_low, write_high = map(self._threads.writer, parts)

        def step(lanes: Array) -> None:
            value = read(lanes)
            write_low(lanes, value.astype(np.uint32))
            write_high(lanes, (value >> half).astype(np.uint32))

        return step
