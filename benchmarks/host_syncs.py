# SPDX-License-Identifier: BSD-3-Clause
"""Counts, on the CPU, what a GPU's host would wait for in a step of an environment, and what it would launch.

Run ``python benchmarks/host_syncs.py --task lift``. Waits are reads of the device (``item``, ``nonzero``, boolean
masks, ``.cpu()``), checks that read it (``torch.inverse``), and tensors made of Python data, whose copy to a GPU waits
until it is there. Launches are torch's operations that would start a kernel or a copy, whoever calls them, and Warp's
kernels; each takes 5 to 10 us of the host. Where our code takes another way on CUDA, that way is taken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import gymnasium as gym
import torch
import warp as wp
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import load_cfg_from_registry
from rich.console import Console
from rich.table import Table
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import isaaclab_pc.tasks  # noqa: F401
from isaaclab_pc.cli.task_names import resolve_task
from isaaclab_pc.faults.recorder import Recorder
from isaaclab_pc.physics import apply_physics
from isaaclab_pc.sensors.appended_points_cfg import BodyPointsCfg
from isaaclab_pc.sensors.realism.cfg import DepthRealismCfg, StructuredLightNoiseCfg
from isaaclab_pc.settings import PhysicsSettings
from isaaclab_pc.settings.physics import Backend

REPOSITORY = Path(__file__).resolve().parents[1]
OURS = ("isaaclab_pc", "tasks", "agents")
THEIRS = ("isaaclab", "newton", "mujoco_warp", "rsl_rl", "rl_games", "skrl", "stable_baselines3")
"""How the names of the packages begin that we look at."""


class EventOfCpu:
    """Stands in for an event of CUDA, so that waits for it are counted."""

    def record(self) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""


_READS = {
    "_local_scalar_dense": "a number is read",
    "_linalg_check_errors": "a factorization is checked",
    "bincount": "bincount",
    "equal": "equal",
    "masked_select": "masked_select",
    "nonzero": "nonzero",
    "_unique2": "unique",
    "unique_consecutive": "unique",
    "unique_dim": "unique",
}
"""Operations whose result, or its size, the host must know."""

_STARTS_NOTHING = ("_unsafe_view", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""Operations of which torch does not say that they return a view, and which start nothing on a GPU."""

_WAITING_METHODS = ("cpu", "numpy", "tolist")

_WAITING_CALLS = (
    (wp, "synchronize"),
    (wp, "synchronize_device"),
    (wp, "synchronize_event"),
    (wp, "synchronize_stream"),
    (wp.array, "list"),
    (wp.array, "numpy"),
    (torch.cuda, "synchronize"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda.Stream, "synchronize"),
    (EventOfCpu, "synchronize"),
)


class Sync(NamedTuple):
    """A place where host and GPU would wait for each other, or where a kernel would be launched."""

    what: str
    """What waits there, or what is launched."""

    where: str
    """``file:function:line`` that calls it, in our code or in that of a package."""

    is_ours: bool
    """Whether that is our own code."""

    caller: str
    """The place in our code that called the package; empty if there is none, or the place itself is ours."""

    @property
    def function(self) -> str:
        """:attr:`where` without the line."""
        return self.where.rpartition(":")[0]


_PASSED_ON = ("isaaclab_pc/tensors/warp_stream.py", "isaaclab_pc/tensors/poses.py")
"""Modules of ours that launch for others, whose places are shown."""


class Places:
    """Counts by the place in the code, ours or that of a package."""

    def __init__(self, ours: Sequence[str]) -> None:
        """Start with no count; the argument is that of :class:`HostSyncs`."""
        self._ours = tuple(ours)
        self.counts: Counter[Sync] = Counter()

    def add(self, what: str) -> None:
        """Count once where the caller was called from; code that is not looked at is passed over."""
        places = [place for place in map(self._place, _frames()) if place is not None]
        if places:
            where, is_ours = places[0]
            caller = next((place for place, in_ours in places if in_ours and not is_ours), "")
            self.counts[Sync(what, where, is_ours, caller)] += 1

    def _place(self, frame: FrameType) -> tuple[str, bool] | None:
        """Return ``file:function:line`` of a frame and whether it is ours; None for code that is not looked at."""
        path = Path(frame.f_code.co_filename)
        is_ours = "site-packages" not in path.parts
        if is_ours and not path.is_relative_to(REPOSITORY):
            return None

        parts = path.relative_to(REPOSITORY).parts if is_ours else path.parts[path.parts.index("site-packages") + 1 :]
        file = "/".join(parts)
        if file in _PASSED_ON or not (parts[0] in self._ours if is_ours else parts[0].startswith(THEIRS)):
            return None
        return f"{file}:{frame.f_code.co_name}:{frame.f_lineno}", is_ours


class HostSyncs(TorchFunctionMode):
    """Counts, while it is entered, what would wait on CUDA.

    A boolean mask counts where it selects, not where a number is written through it: PyTorch fills then. A number that
    is written through integer indices counts, because its copy to the GPU waits.
    """

    def __init__(self, ours: Sequence[str] = OURS) -> None:
        """Start with no count.

        Args:
            ours: Folders of the repository that hold our code.
        """
        super().__init__()
        self._places = Places(ours)
        self._add = self._places.add
        self.counts = self._places.counts
        """How often each place would have waited."""

        self._stack = ExitStack()
        # Whether a tensor is being made for which no device is named, and a number written by ``tensor[index] = it``.
        self._is_host_tensor = self._written_number = False
        # How many of torch's functions that Python called are running, one inside the other.
        self._calls = 0

    def __enter__(self) -> HostSyncs:
        """Count from now on."""
        super().__enter__()
        self._stack.enter_context(_Operations(self._operation))
        for owner, name in _WAITING_CALLS:
            self._stack.enter_context(mock.patch.object(owner, name, self._counted(getattr(owner, name), name)))
        self._stack.enter_context(mock.patch.object(wp.array, "__init__", self._counted_copy(wp.array.__init__)))
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop counting."""
        self._stack.close()
        super().__exit__(*error)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what only Python's side of torch shows."""
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in _WAITING_METHODS:
            self._add(f"{name}()")
        elif name == "to" and any(isinstance(arg, (str, torch.device)) for arg in (*args, kwargs.get("device"))):
            self._add("to(device)")

        is_host_tensor = name in ("as_tensor", "tensor") and kwargs.get("device") is None
        self._is_host_tensor = is_host_tensor
        self._written_number = name == "__setitem__" and isinstance(args[2], (bool, int, float))
        self._calls += 1
        try:
            return function(*args, **kwargs)
        finally:
            self._calls -= 1
            self._is_host_tensor = self._written_number = False

    def _operation(self, function: Any, args: Any, kwargs: Any) -> None:
        name = function._schema.name.removeprefix("aten::")
        if name in _READS:
            self._add(_READS[name])
        elif name == "repeat_interleave" and isinstance(args[0], torch.Tensor) and function._overloadname != "self_int":
            self._add("repeat_interleave")
        elif name == "lift_fresh":
            # CUDA takes a number of the host as it is. One that is written is copied or not, depending on the index.
            stays = args[0].dim() == 0 and (self._is_host_tensor or self._written_number)
            if not stays and not _is_view_of_warp():
                self._add("host data becomes a tensor")
        elif name == "empty" and self._calls == 0 and "layout" in kwargs:
            # What a list becomes in TorchScript, before its numbers are written into it and go to the device.
            self._add("host data becomes a tensor")
        elif name in ("index", "index_put_", "index_put"):
            self._index(args[1])

    def _index(self, indices: Sequence[torch.Tensor | None]) -> None:
        masks = [index.dtype == torch.bool for index in indices if index is not None]
        if self._written_number and not all(masks):
            self._add("a number is written by indices")
        elif any(masks) and not self._written_number:
            self._add("a boolean mask selects")

    def _counted(self, function: Callable, name: str) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._add(f"{name}()")
            return function(*args, **kwargs)

        return call

    def _counted_copy(self, init: Callable) -> Callable:
        def call(array: Any, data: Any = None, *args: Any, **kwargs: Any) -> None:
            if data is not None and not isinstance(data, wp.array):
                self._add("host data becomes a Warp array")
            init(array, data, *args, **kwargs)

        return call


class _Operations(TorchDispatchMode):
    """Passes on each operation that is run, including those inside of compiled functions."""

    def __init__(self, before: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self._before = before

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._before(function, args, kwargs)
        return function(*args, **kwargs)


class Launches(TorchDispatchMode):
    """Counts, while it is entered, what would be launched on CUDA.

    An operation of torch counts as one, whoever calls it, unless it returns a view, only allocates, or all that it
    returns has no elements. So does a launch of a Warp kernel. An operation that runs several kernels counts as one.
    """

    def __init__(self, ours: Sequence[str] = OURS) -> None:
        """Start with no count; the argument is that of :class:`HostSyncs`."""
        super().__init__()
        self._operations = Places(ours)
        self._kernels = Places(ours)
        self._stack = ExitStack()

    @property
    def counts(self) -> Counter[Sync]:
        """How often each place launched: operations of torch anywhere, and our own Warp kernels."""
        own = {place: count for place, count in self._kernels.counts.items() if place.is_ours}
        return self._operations.counts + Counter(own)

    @property
    def foreign_kernels(self) -> int:
        """Warp kernels that packages launched: physics, renderer, and what reads their state."""
        return sum(count for place, count in self._kernels.counts.items() if not place.is_ours)

    def __enter__(self) -> Launches:
        """Count from now on."""
        super().__enter__()
        for owner, name in ((wp, "launch"), (wp.Launch, "launch")):
            self._stack.enter_context(mock.patch.object(owner, name, self._counted(getattr(owner, name))))
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop counting."""
        self._stack.close()
        super().__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation."""
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        returned = function._schema.returns
        is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in returned)
        tensors = [value for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]
        is_empty = bool(tensors) and not any(tensor.numel() for tensor in tensors) and name not in _READS
        if not is_view and not is_empty and name not in _STARTS_NOTHING:
            self._operations.add(name)
        return result

    def _counted(self, function: Callable) -> Callable:
        def call(kernel: Any, *args: Any, record_cmd: bool = False, **kwargs: Any) -> Any:
            # A command that was recorded is launched by its own method.
            if record_cmd:
                return function(kernel, *args, record_cmd=True, **kwargs)
            self._kernels.add(getattr(kernel, "kernel", kernel).key)
            return function(kernel, *args, **kwargs)

        return call


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_view_of_warp() -> bool:
    """Tell whether a tensor is made by Warp's ``to_torch``, which goes through NumPy on the CPU, and copies nothing."""
    return any(frame.f_code.co_name == "to_torch" for frame in _frames())


@contextmanager
def ways_of_cuda() -> Iterator[None]:
    """Let what is built and run inside take the ways that it takes on CUDA.

    The guard is told by :func:`guard_as_on_cuda`.
    """
    with (
        mock.patch.object(torch.cuda, "current_stream", return_value=None),
        mock.patch.object(wp, "stream_from_torch", return_value=None),
    ):
        yield


def guard_as_on_cuda(guard: Any) -> None:
    """Let a guard of the CPU act as on CUDA, where it knows of no fault without asking the device."""
    guard._on_cpu = False
    guard._total_view = None
    guard._copied = EventOfCpu()


def turn_everything_on(cfg: Any) -> None:
    """Configure a task with an object ``cube`` to use all that a step may use beside its defaults."""
    cfg.action = "tool_pose"
    cfg.randomization = "hard"
    cfg.goal_points = 4
    points = cfg.scene.points
    points.features = ("normals", "segmentation", "one_hot", "camera")
    points.classes = ("table", "cube")
    points.append = [BodyPointsCfg(num_points=8), BodyPointsCfg(num_points=8, bodies="panda_hand")]
    points.realism = DepthRealismCfg(
        noise=StructuredLightNoiseCfg(scale=(0.5, 2.0)),
        dropout=(0.0, 0.2),
        position_jitter=0.02,
        rotation_jitter=0.1,
        focal_jitter=0.05,
        latency=(0, 2),
    )


@contextmanager
def open_env(
    task: str, device: str, physics: Backend = "newton_mjwarp", adjust: Callable[[Any], None] = lambda cfg: None
) -> Iterator[Any]:
    """Build a task's environment, unwrapped, with 4 environments; ``adjust`` may change its config."""
    task = resolve_task(task)
    cfg: Any = load_cfg_from_registry(task, "env_cfg_entry_point")
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = 4, device, 0
    # What a GPU does unless it is asked for rays.
    cfg.scene.points.source = "image"
    apply_physics(cfg, PhysicsSettings(backend=physics))
    adjust(cfg)

    with launch_simulation(cfg, {"device": device, "headless": True}):
        env: Any = gym.make(task, cfg=cfg).unwrapped
        try:
            yield env
        finally:
            env.close()


def count_syncs(env: Any, steps: int) -> HostSyncs:
    """Count over some steps of an environment; in each of them one or two episodes end.

    Args:
        env: An unwrapped :class:`~isaaclab_pc.envs.PointCloudEnv` on the CPU.
        steps: Number of steps, after four that are not counted.
    """
    guard_as_on_cuda(env.guard)
    env.reset(seed=0)
    syncs = HostSyncs()
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder.attach(env, Path(folder), {})
        for step in range(-4, steps):
            actions = torch.rand(env.num_envs, env.cfg.action_space) * 2 - 1
            env.episode_length_buf[: 1 + step % 2] = env.max_episode_length
            with syncs if step >= 0 else nullcontext():
                env.step(actions)
        recorder.close()
    return syncs


def count_launches(env: Any) -> Launches:
    """Count in one step of an environment in which no episode ends.

    Args:
        env: As for :func:`count_syncs`.
    """
    guard_as_on_cuda(env.guard)
    env.reset(seed=0)
    action = torch.rand(env.num_envs, env.cfg.action_space) * 2 - 1
    launches = Launches()
    # The first ones make constants, and end an episode.
    for step in range(4):
        env.episode_length_buf[0] = env.max_episode_length if step == 1 else 0
        with launches if step == 3 else nullcontext():
            env.step(action)
    assert not env.reset_buf.any(), "an episode ended in the step that was counted"
    return launches


def print_table(counts: Counter[Sync], steps: int, title: str) -> None:
    """Print what would wait or be launched, our code first."""
    table = Table(title=title)
    table.add_column("a step", justify="right")
    for column in ("what", "where", "called by"):
        table.add_column(column)

    for sync, count in sorted(counts.items(), key=lambda item: (not item[0].is_ours, item[0].where)):
        table.add_row(f"{count / steps:g}", sync.what, sync.where, sync.caller)
    ours = sum(count for sync, count in counts.items() if sync.is_ours)
    table.caption = f"{ours / steps:g} a step in our code, {counts.total() / steps:g} in all"
    Console(width=220).print(table)


def main() -> None:
    """Print what would wait and what would be launched, in our code and in Isaac Lab's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="lift")
    parser.add_argument("--physics", default="newton_mjwarp", help="ovphysx or newton_mjwarp")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--everything", action="store_true", help="all features, realism and randomization; for lift")
    parser.add_argument("--action", help="env.action, if not the task's own")
    parser.add_argument("--obs", help="env.obs, if not the task's own")
    args = parser.parse_args()

    def adjust(cfg: Any) -> None:
        if args.everything:
            turn_everything_on(cfg)
        cfg.action = args.action or cfg.action
        cfg.obs = args.obs or cfg.obs

    with ways_of_cuda(), open_env(args.task, "cpu", args.physics, adjust) as env:
        launches = count_launches(env)
        syncs = count_syncs(env, args.steps)
    what = f"{args.task} with {'everything on' if args.everything else 'its defaults'}, {args.physics}"
    print_table(syncs.counts, args.steps, f"What would wait in a step with resets: {what}")
    print_table(launches.counts, 1, f"What would be launched in a step without resets: {what}")
    print(f"Beside these, packages launch {launches.foreign_kernels} Warp kernels.")


if __name__ == "__main__":
    main()
