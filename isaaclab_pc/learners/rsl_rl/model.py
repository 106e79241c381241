# SPDX-License-Identifier: BSD-3-Clause
"""The policy's network for RSL-RL: encoders for clouds and depth images in front of its perceptron."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.models import MLPModel
from rsl_rl.modules import RNN, HiddenState
from tensordict import TensorDict
from torch import Tensor, nn

from isaaclab_pc.agents.networks import ObservationEncoder, State, StatePredictor, initial_state, run_rnn
from isaaclab_pc.agents.ppo import EncoderSettings
from isaaclab_pc.errors import ConfigError


class PointCloudModel(MLPModel):
    """Perceptron over normalized vectors and encoded clouds or depth images.

    Observation groups of shape (B, D) are concatenated and normalized, (B, K, C) pass an encoder of points, and
    (B, 1, H, W) a convolutional one. Without groups of the latter kinds it is RSL-RL's own ``MLPModel``, or with a
    memory its ``RNNModel``.
    """

    def __init__(
        self,
        obs: TensorDict,
        obs_groups: dict[str, list[str]],
        obs_set: str,
        output_dim: int,
        *,
        encoder: Mapping[str, Any],
        aux_coef: float = 0.0,
        rnn_type: str | None = None,
        rnn_hidden_dim: int = 256,
        rnn_num_layers: int = 1,
        **mlp_kwargs: Any,
    ) -> None:
        """Create the model; see RSL-RL's ``MLPModel`` and ``PointCloudModelCfg`` for the arguments."""
        self.is_recurrent = rnn_type is not None
        self._memory_dim = rnn_hidden_dim
        shapes = {name: tuple(obs[name].shape[1:]) for name in obs_groups[obs_set]}
        observation_encoder = ObservationEncoder(shapes, EncoderSettings(**encoder))

        # The base class asks for the size of the latent, and modules can be assigned only after it is initialized.
        self.encoded_shapes = {name: shapes[name] for name in observation_encoder.groups}
        self.encoded_dim = observation_encoder.latent_dim
        super().__init__(obs, obs_groups, obs_set, output_dim, **mlp_kwargs)

        self.encoder = observation_encoder
        self.predictor: StatePredictor | None = None
        # A policy that reads vectors alone has no encoder to teach.
        if aux_coef > 0.0 and self.encoded_dim > 0:
            self.predictor = StatePredictor(self.obs_dim + self.encoded_dim, obs["critic"].shape[-1], aux_coef)

        self.memory: RNN | None = None
        if rnn_type is not None:
            self.memory = RNN(self.obs_dim + self.encoded_dim, rnn_hidden_dim, rnn_num_layers, rnn_type)

    def get_latent(
        self, obs: TensorDict, masks: Tensor | None = None, hidden_state: HiddenState = None
    ) -> torch.Tensor:
        """Compute the perceptron's input, (B, D), of observations by group, batch (B,); the model keeps the memory.

        In an update they are trajectories padded to one length, batch (T, R), and the input is (T, B, D). ``masks``
        tell which of their steps are not padding, (T, R), bool; ``hidden_state`` is the memory at their start.
        """
        if self.memory is None:
            return self._see(obs)
        if masks is None:
            return self.memory(self._see(obs)).squeeze(0)

        # A mask would be searched, and its search waited for, each time that it selects.
        steps = masks.nonzero(as_tuple=True)
        seen = self._see(obs[steps])
        padded = seen.new_zeros(*masks.shape, seen.shape[-1])
        padded[steps] = seen
        return self.memory(padded, masks, hidden_state)

    def reset(self, dones: Tensor | None = None, hidden_state: HiddenState = None) -> None:
        """Forget the memory of environments (B,), or of all, which then take ``hidden_state`` instead."""
        if self.memory is not None:
            self.memory.reset(dones, hidden_state)

    def get_hidden_state(self) -> HiddenState:
        """Return what the memory holds; None where there is none, or before the first step."""
        state: Any = None if self.memory is None else self.memory.hidden_state
        return state

    def detach_hidden_state(self, dones: Tensor | None = None) -> None:
        """Let no gradient pass back through the memory of environments (B,), or of all."""
        if self.memory is not None:
            self.memory.detach_hidden_state(dones)

    def initial_state(self, batch: int) -> State:
        """Return the memory before the first step of an episode, for a number of environments."""
        assert self.memory is not None
        return initial_state(self.memory.rnn, batch)

    def act_from(self, obs: Mapping[str, Tensor], state: State) -> tuple[Tensor, State]:
        """Return the deterministic actions (B, A) for a given memory, and the memory after; nothing is changed."""
        assert self.memory is not None
        remembered, after = run_rnn(self.memory.rnn, self._see(obs)[None], state)
        output = self.mlp(remembered[0])
        return output if self.distribution is None else self.distribution.deterministic_output(output), after

    def _see(self, obs: Any) -> Tensor:
        """Concatenate the normalized vectors and the encoded groups, (B, D)."""
        parts = self.encoder(obs)
        if self.obs_groups:
            parts = [super().get_latent(obs), *parts]
        latent = torch.cat(parts, dim=-1)

        if self.predictor is not None and torch.is_grad_enabled():
            latent = self.predictor(latent, obs["critic"])
        return latent

    def update_normalization(self, obs: TensorDict) -> None:
        """Add observations to the normalizers' statistics."""
        if self.obs_groups:
            super().update_normalization(obs)
        if self.predictor is not None:
            self.predictor.norm.add_samples(obs["critic"])
            self.predictor.norm.apply_samples()

    def as_jit(self) -> nn.Module:
        """Return the deterministic policy as TorchScript, which Isaac Lab's ``isaaclab play`` writes to a file.

        Its ``forward`` takes the concatenated vectors (B, D), then each encoded group (B, ...).

        Raises:
            ConfigError: The policy has a memory.
        """
        policy = _Exported(self)
        with torch.no_grad():
            return torch.jit.trace(policy, policy.get_dummy_inputs(), check_trace=False)  # type: ignore[return-value]

    def as_onnx(self, verbose: bool = False) -> nn.Module:
        """Return the deterministic policy as a module that RSL-RL's runner exports to ONNX; as for :meth:`as_jit`."""
        return _Exported(self)

    def _get_obs_dim(self, obs: TensorDict, obs_groups: dict[str, list[str]], obs_set: str) -> tuple[list[str], int]:
        """Return the groups that are vectors, and their joint size: the encoders read the others."""
        vectors = [name for name in obs_groups[obs_set] if name not in self.encoded_shapes]
        return super()._get_obs_dim(obs, {obs_set: vectors}, obs_set)

    def _get_latent_dim(self) -> int:
        return self._memory_dim if self.is_recurrent else self.obs_dim + self.encoded_dim


class _Exported(nn.Module):
    """A copy of the policy on the CPU, behind the interface that RSL-RL's export asks for."""

    output_names = ("actions",)

    def __init__(self, model: PointCloudModel) -> None:
        super().__init__()
        if model.memory is not None:
            raise ConfigError(
                "RSL-RL's own export writes no policy with a memory of this package's: use python scripts/export.py "
                "run=<run> instead."
            )
        source = copy.deepcopy(model).cpu().eval()
        self.input_names = ("obs", *source.encoded_shapes)
        self.shapes = ((source.obs_dim,), *source.encoded_shapes.values())
        self.obs_normalizer = source.obs_normalizer
        # TorchScript and ONNX cannot express chunks, nor the PointNet that training uses.
        encoders: Any = source.encoder.encoders.values()
        self.encoders = nn.ModuleList([encoder.dense() for encoder in encoders])
        self.mlp = source.mlp
        self.deterministic_output = (
            nn.Identity() if source.distribution is None else source.distribution.as_deterministic_output_module()
        )

    def forward(self, vectors: Tensor, *encoded: Tensor) -> Tensor:
        latents = [encoder(group) for encoder, group in zip(self.encoders, encoded, strict=True)]
        return self.deterministic_output(self.mlp(torch.cat([self.obs_normalizer(vectors), *latents], dim=-1)))

    def get_dummy_inputs(self) -> tuple[Tensor, ...]:
        return tuple(torch.zeros(1, *shape) for shape in self.shapes)
