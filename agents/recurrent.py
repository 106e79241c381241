# SPDX-License-Identifier: BSD-3-Clause
"""The memory of recurrent policies as values that are passed in and out. Torch only."""

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["State", "initial_state", "run_rnn"]

State = tuple[Tensor, ...]
"""The hidden state and, of an LSTM, the cell state, each (M, B, H) with M layers."""


def initial_state(rnn: nn.RNNBase, batch: int) -> State:
    """Return the memory of a GRU or an LSTM before the first step of an episode, zeros, for B environments."""
    count = 2 if isinstance(rnn, nn.LSTM) else 1
    device = next(rnn.parameters()).device
    return tuple(torch.zeros(rnn.num_layers, batch, rnn.hidden_size, device=device) for _ in range(count))


def run_rnn(rnn: nn.RNNBase, seen: Tensor, state: State) -> tuple[Tensor, State]:
    """Pass sequences (T, B, D) through a memory.

    Returns:
        The output at each step, (T, B, H), and the memory after the last one.
    """
    before: Any = state if isinstance(rnn, nn.LSTM) else state[0]
    remembered, after = rnn(seen, before)
    return remembered, after if isinstance(after, tuple) else (after,)
