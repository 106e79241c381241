# SPDX-License-Identifier: BSD-3-Clause
"""Observation encoders and the small modules that every learning library's network is built from. Torch only."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isaaclab_pc.agents.chunks import ChunkedEncoder
from isaaclab_pc.agents.observation_groups import split_history
from isaaclab_pc.agents.point_encoders import PointNet, make_point_encoder
from isaaclab_pc.agents.ppo import EncoderSettings
from isaaclab_pc.agents.precision import autocast, in_dtype_of_autocast
from isaaclab_pc.tensors.distributed import average, world_size

_DEPTH_FREQUENCIES = (1.0, 4.0, 16.0)
"""Spatial frequencies of the sines and cosines of depth [1/m]."""
_ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


def make_mlp(in_features: int, hidden: Sequence[int], out_features: int, activation: str = "elu") -> nn.Sequential:
    """Build a perceptron, (..., in_features) to (..., out_features), with a linear last layer.

    ``activation``, after each hidden layer, is elu, relu, tanh or silu.
    """
    sizes = [in_features, *hidden]
    layers: list[nn.Module] = []
    for size_in, size_out in itertools.pairwise(sizes):
        layers += [nn.Linear(size_in, size_out), _ACTIVATIONS[activation]()]

    return nn.Sequential(*layers, nn.Linear(sizes[-1], out_features))


class DepthEncoder(nn.Module):
    """Small convolutional encoder of depth images.

    A cube on a table is a few centimetres in a metre of depth, which a convolution of bare depth takes long to see. So
    sines and cosines of the depth join it, as those of positions in
    :class:`~isaaclab_pc.agents.point_encoders.PointEmbedding`.
    """

    angular_frequencies: Tensor

    def __init__(self, height: int, width: int, channels: Sequence[int], latent_dim: int) -> None:
        """Create the layers for images of at least 16 rows and columns.

        Each of the ``channels`` is a convolution that halves the resolution; the first one quarters it.
        """
        super().__init__()
        angular = 2.0 * math.pi * torch.tensor(_DEPTH_FREQUENCIES).view(-1, 1, 1)
        self.register_buffer("angular_frequencies", angular, persistent=False)

        self.latent_dim = latent_dim
        layers: list[nn.Module] = []
        size_in = 1 + 2 * len(_DEPTH_FREQUENCIES)
        for index, size_out in enumerate(channels):
            # The first layer reduces the resolution most: a wide kernel with a large stride.
            kernel = 5 if index == 0 else 3
            stride = 4 if index == 0 else 2
            layers += [nn.Conv2d(size_in, size_out, kernel, stride, padding=kernel // 2), nn.ReLU(inplace=True)]
            height = math.ceil(height / stride)
            width = math.ceil(width / stride)
            size_in = size_out

        layers += [nn.Flatten(), nn.Linear(size_in * height * width, latent_dim), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def rows(self, depth: Tensor) -> int:
        """Return the rows of activations of an image: the pixels that the first layer leaves."""
        return max(1, depth[0].numel() // 16)

    def forward(self, depth: Tensor) -> Tensor:
        """Encode distances to the image plane [m], (B, 1, H, W), any float dtype, to latents (B, L), float32."""
        depth = depth.float()
        angles = depth * self.angular_frequencies
        # bfloat16 rounds the depth to millimetres, and the waves to less than a tenth of one.
        features = [in_dtype_of_autocast(each) for each in (depth, angles.sin(), angles.cos())]
        return self.layers(torch.cat(features, dim=1))


class FrameEncoder(nn.Module):
    """Encodes several frames of clouds or images with one encoder, as 3D Diffusion Policy does (Ze et al. 2024).

    The latents stand side by side, the oldest frame first. In one cloud of all frames, only one of them could set each
    feature of the maximum.
    """

    def __init__(self, encoder: Any, frames: int) -> None:
        """Wrap an encoder of frames (B, ...) to latents (B, L), for T frames in each observation."""
        super().__init__()
        self.encoder = encoder
        self.frames = frames

    def dense(self) -> nn.Module:
        """Return the encoder in a form that TorchScript and ONNX can express."""
        return FrameEncoder(self.encoder.dense(), self.frames)

    def at_once(self, batch: Tensor) -> int:
        """Return how many samples of a batch (B, T, ...) have their activations held at once."""
        return max(1, self.encoder.at_once(batch.flatten(0, 1)) // self.frames)

    def forward(self, batch: Tensor) -> Tensor:
        """Encode samples (B, T, ...) of any float dtype to latents (B, T * L)."""
        return self.encoder(batch.flatten(0, 1)).unflatten(0, (-1, self.frames)).flatten(1)


class ObservationEncoder(nn.Module):
    """One encoder for each observation group that is not a vector.

    A group is points (K, C), a depth image (1, H, W), or several frames of either, (T, K, C) or (T, 1, H, W).
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], settings: EncoderSettings) -> None:
        """Create the encoders for the shape of one observation of each group, without the batch dimension.

        Raises:
            ValueError: There is no encoder for a group's shape, or no such kind of encoder or precision.
        """
        super().__init__()
        if settings.precision not in ("float32", "bf16"):
            raise ValueError(f"precision={settings.precision!r}: there are float32 and bf16")
        self.precision = settings.precision
        self._shapes = {name: tuple(shape) for name, shape in shapes.items() if len(shape) > 1}
        self.encoders = nn.ModuleDict()
        self.latent_dim = 0
        for name, full_shape in self._shapes.items():
            frames, shape = split_history(full_shape)
            encoder = _frame_encoder(name, shape, settings)
            self.encoders[name] = encoder if frames == 1 else FrameEncoder(encoder, frames)
            self.latent_dim += frames * encoder.latent_dim

    @property
    def groups(self) -> list[str]:
        """Names of the groups that are encoded, in the order of their latents."""
        return list(self.encoders)

    def samples_at_once(self) -> int:
        """Return how many samples of a minibatch have their activations held at once; 0 without an encoder."""
        counts = []
        for name, shape in self._shapes.items():
            encoder: Any = self.encoders[name]
            device = next(encoder.parameters()).device
            counts.append(encoder.at_once(torch.empty(1, *shape, device=device)))
        return min(counts, default=0)

    def forward(self, obs: Mapping[str, Tensor]) -> list[Tensor]:
        """Encode each of :attr:`groups` to latents (B, L), float32, in their order; further groups are ignored."""
        latents = []
        for name, encoder in self.encoders.items():
            with autocast(obs[name].device.type, self.precision):
                latents.append(encoder(obs[name]).float())
        return latents


def _frame_encoder(group: str, shape: Sequence[int], settings: EncoderSettings) -> PointNet | ChunkedEncoder:
    chunk = None if settings.chunk == "auto" else settings.chunk
    if len(shape) == 2:
        return make_point_encoder(
            settings.point_encoder,
            shape[1],
            settings.point_channels,
            scale=settings.point_scale,
            frequencies=settings.point_frequencies,
            chunk=chunk,
        )
    if len(shape) == 3 and shape[0] == 1:
        images = DepthEncoder(shape[1], shape[2], settings.depth_channels, settings.depth_latent)
        return ChunkedEncoder(images, chunk)
    raise ValueError(
        f"observation group '{group}' has frames of shape {tuple(shape)}: there are encoders for points (K, C) and "
        "depth images (1, H, W), one or several, only"
    )


class RunningNorm(nn.Module):
    """Whitens vectors with the mean and standard deviation of all samples so far.

    Added samples count once :meth:`apply_samples` is called, at the start of a rollout: within an update, the
    normalization must stay that of the policy that acted.
    """

    mean: Tensor
    std: Tensor
    seen_count: Tensor
    seen_mean: Tensor
    seen_var: Tensor

    def __init__(self, features: int, eps: float = 1e-2) -> None:
        """Create the statistics of vectors (S,); ``eps`` is added to the standard deviation."""
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.register_buffer("seen_count", torch.zeros(()))
        self.register_buffer("seen_mean", torch.zeros(features))
        self.register_buffer("seen_var", torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        """Whiten vectors, shape (B, S)."""
        return (x - self.mean) / (self.std + self.eps)

    def with_all_samples(self, x: Tensor) -> Tensor:
        """Whiten vectors, shape (B, S), as after :meth:`apply_samples`."""
        return (x - self.seen_mean) / (self.seen_var.sqrt() + self.eps)

    @torch.no_grad()
    def add_samples(self, x: Tensor) -> None:
        """Add vectors (B, S) to the statistics, with the parallel update of mean and variance by Chan et al. (1979).

        Of several processes that train together, each adds as many of its own.
        """
        own_mean = x.mean(dim=0)
        mean = average(own_mean)
        var = average(x.var(dim=0, unbiased=False) + (own_mean - mean).square())

        count = x.shape[0] * world_size()
        self.seen_count += count
        rate = count / self.seen_count
        delta = mean - self.seen_mean
        self.seen_var += rate * (var - self.seen_var + (1.0 - rate) * delta.square())
        self.seen_mean += rate * delta

    @torch.no_grad()
    def apply_samples(self) -> None:
        """Whiten with all samples that were added so far."""
        self.mean.copy_(self.seen_mean)
        self.std.copy_(self.seen_var.sqrt())


class _AttachLoss(torch.autograd.Function):
    """Returns a tensor unchanged; its backward pass also sends a gradient of one into a loss."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, loss: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor]:
        return grads[0], torch.ones((), dtype=grads[0].dtype, device=grads[0].device)


class StatePredictor(nn.Module):
    """Auxiliary loss: the latent must predict the privileged state, which the simulator knows and the camera only sees.

    The loss joins the backward pass of the latent, so no learning library needs to know about it.
    """

    scale_loss: Callable[[Tensor], Tensor]
    """Scales the loss under mixed precision; a runner sets it."""

    def __init__(self, latent_dim: int, state_dim: int, coef: float) -> None:
        """Create the head; ``coef`` is the weight of the mean squared error of the whitened state (B, S)."""
        super().__init__()
        self.head = nn.Linear(latent_dim, state_dim)
        self.norm = RunningNorm(state_dim)
        self.coef = coef
        self.scale_loss = lambda loss: loss

    def forward(self, latent: Tensor, state: Tensor) -> Tensor:
        """Attach the loss for privileged states (B, S) to latents (B, L), which are returned unchanged."""
        error = self.head(latent) - self.norm(state)
        loss = self.scale_loss(self.coef * error.square().mean())
        return _AttachLoss.apply(latent, loss)  # type: ignore[no-any-return]


State = tuple[Tensor, ...]
"""The hidden state and, of an LSTM, the cell state, each (M, B, H) with M layers."""


def initial_state(rnn: nn.RNNBase, batch: int) -> State:
    """Return the memory of a GRU or an LSTM before the first step of an episode, zeros, for B environments."""
    count = 2 if isinstance(rnn, nn.LSTM) else 1
    device = next(rnn.parameters()).device
    return tuple(torch.zeros(rnn.num_layers, batch, rnn.hidden_size, device=device) for _ in range(count))


def forget(state: State | None, dones: Tensor | None) -> State | None:
    """Return a memory that holds nothing of environments (B,), bool; None, which stands for the first one: of all."""
    if state is None or dones is None:
        return None
    return tuple(torch.where(dones[:, None], 0.0, part) for part in state)


def run_rnn(rnn: nn.RNNBase, seen: Tensor, state: State) -> tuple[Tensor, State]:
    """Pass sequences (T, B, D) through a memory; return its output, (T, B, H), and the memory after the last step."""
    before: Any = state if isinstance(rnn, nn.LSTM) else state[0]
    remembered, after = rnn(seen, before)
    return remembered, after if isinstance(after, tuple) else (after,)
