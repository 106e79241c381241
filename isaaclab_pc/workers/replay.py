# SPDX-License-Identifier: BSD-3-Clause
"""Run the last steps of a failed environment again, and find the first value that breaks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.fault_dump import FaultDump
from isaaclab_pc.files import write_text_atomically
from isaaclab_pc.guards import GuardCfg
from isaaclab_pc.guards.scene_state import joint_bounds
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import open_env

__all__ = ["History", "Watch", "look", "replay", "replay_dump", "watches"]

TRACE = 8
"""Physics steps before the fault of which the first offender's value is told."""
BREAK = 1.0
"""Time between two replays for somebody who watches [s]."""
_MOST_OFFENDERS = 8


@dataclass(frozen=True)
class Watch:
    """One quantity of one asset, and what it may be."""

    asset: str
    """Name in the scene."""
    quantity: str
    """What is watched, with its unit."""
    names: Sequence[str]
    """Joint or body of each row."""
    read: Callable[[], torch.Tensor]
    """Returns the values, shape (len(names), components)."""
    low: torch.Tensor | float
    """Smallest value that is no fault; a number, or shape (len(names), 1)."""
    high: torch.Tensor | float
    """Largest value that is no fault, likewise."""
    follows: bool = False
    """Whether the joints decide it, as for the links of an arm: named where a joint fails, no fault by itself."""


def watches(env: Any) -> list[Watch]:
    """Return what is watched in an environment, with the guard's bounds: joints, free bodies, and links.

    Args:
        env: The unwrapped environment with one environment.
    """
    cfg = _guard_cfg(env)
    origin = env.scene.env_origins[0]
    found = []
    for name, asset in _assets(env).items():
        data, bodies, is_articulation = asset.data, list(asset.body_names), name in env.scene.articulations
        if is_articulation:
            names, limits = list(asset.joint_names), joint_bounds(cfg, name, asset)
            low, high, fastest = (bound[:, None] for bound in (limits.lower, limits.upper, limits.fastest))
            found.append(Watch(name, "joint position [rad or m]", names, _reader(data, "joint_pos"), low, high))
            speeds = _reader(data, "joint_vel")
            found.append(Watch(name, "joint velocity [rad/s or m/s]", names, speeds, -fastest, fastest))
        follows = is_articulation and asset.is_fixed_base
        linear, angular = (min(v, cfg.max_abs) for v in (cfg.linear_velocity, cfg.angular_velocity))
        for quantity, field, bounds, offset in (
            ("position [m]", "body_pos_w", cfg.bounds("position"), origin),
            ("velocity [m/s]", "body_lin_vel_w", (-linear, linear), 0.0),
            ("angular velocity [rad/s]", "body_ang_vel_w", (-angular, angular), 0.0),
        ):
            found.append(Watch(name, quantity, bodies, _reader(data, field, offset), *bounds, follows=follows))
    return found


def _guard_cfg(env: Any) -> GuardCfg:
    guard = getattr(env, "guard", None)
    return guard.cfg if guard is not None else GuardCfg()


def _reader(data: Any, field: str, origin: torch.Tensor | float = 0.0) -> Callable[[], torch.Tensor]:
    def read() -> torch.Tensor:
        value = getattr(data, field).torch[0] - origin
        return value.view(len(value), -1)

    return read


def look(watched: Sequence[Watch]) -> list[dict[str, Any]]:
    """Read every watched quantity.

    Returns:
        For every joint or body: ``asset``, ``name``, ``quantity``, the ``value`` and the ``bound`` of its worst
        component, ``follows``, and ``excess``: the distance from the middle of the allowed interval in halves of its
        width, so that faults are above 1; infinite where the value is not finite.
    """
    found = []
    for watch in watched:
        values = watch.read()
        low, high = (torch.as_tensor(bound).expand_as(values) for bound in (watch.low, watch.high))
        excess = (values - (low + high) / 2).abs() / ((high - low) / 2)
        excess, worst = torch.where(excess.isfinite(), excess, torch.inf).max(dim=1, keepdim=True)
        value, low, high = (tensor.gather(1, worst).squeeze(1) for tensor in (values, low, high))
        bound = torch.where(value < (low + high) / 2, low, high)
        rows = zip(watch.names, value.tolist(), bound.tolist(), excess.squeeze(1).tolist(), strict=True)
        found += [
            {
                "asset": watch.asset,
                "name": name,
                "quantity": watch.quantity,
                "value": v,
                "bound": b,
                "excess": e,
                "follows": watch.follows,
            }
            for name, v, b, e in rows
        ]
    return found


class History:
    """The recorded steps of one environment, as a simulation of one environment takes them."""

    def __init__(self, env: Any, dump: FaultDump, position: int) -> None:
        """Match a dump's assets with an environment's.

        Args:
            env: The unwrapped environment.
            dump: What was recorded.
            position: Which of its environments.

        Raises:
            ConfigError: The environment has other assets, joints or actions than the one that was recorded.
        """
        self._env = env
        self.steps = int(dump.arrays["length"][position])
        self.episode_step = dump.arrays["episode_step"][position].tolist()
        rows = {name: value[position] for name, value in dump.arrays.items() if value.ndim > 1}
        self.actions = torch.tensor(rows["action"][: self.steps], device=env.device)
        self._joints = _match(env, dump, self.actions.shape[1])
        # What the environments of the run shared was not recorded.
        self._assets = {name: asset for name, asset in _assets(env).items() if name in dump.about["assets"]}
        self._state = {
            name.removeprefix("before."): torch.tensor(value[: self.steps], device=env.device)
            for name, value in rows.items()
            if name.startswith("before.")
        }

    def write(self, step: int) -> None:
        """Put the simulation into the recorded state of a step, targets included."""
        env = self._env
        ids = torch.zeros(1, dtype=torch.int32, device=env.device)
        for name, asset in self._assets.items():
            state = {key.removeprefix(f"{name}."): v[step : step + 1] for key, v in self._of(name).items()}
            pose = state["root_pose"].clone()
            pose[:, :3] += env.scene.env_origins
            asset.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids)
            if not getattr(asset, "is_fixed_base", False):
                asset.write_root_velocity_to_sim_index(root_velocity=state["root_velocity"], env_ids=ids)
            if name in self._joints:
                order = self._joints[name]
                asset.write_joint_position_to_sim_index(position=state["joint_pos"][:, order], env_ids=ids)
                asset.write_joint_velocity_to_sim_index(velocity=state["joint_vel"][:, order], env_ids=ids)
                command = asset.actuators.target_command
                command.set_position_index(value=state["joint_pos_target"][:, order], env_ids=ids)
                command.set_velocity_index(value=state["joint_vel_target"][:, order], env_ids=ids)
        env.scene.write_data_to_sim()
        env.sim.forward()

    def difference(self, step: int) -> float:
        """Return how far the simulation is from the recorded state of a step.

        Returns:
            Largest difference of a joint position or of a coordinate of a root [rad, m]; NaN where one is not finite.
        """
        env, largest = self._env, torch.zeros((), device=self._env.device)
        for name, asset in self._assets.items():
            position = asset.data.root_pos_w.torch[0] - env.scene.env_origins[0]
            found = [position - self._state[f"{name}.root_pose"][step, :3]]
            if name in self._joints:
                recorded = self._state[f"{name}.joint_pos"][step, self._joints[name]]
                found.append(asset.data.joint_pos.torch[0] - recorded)
            largest = torch.maximum(largest, torch.cat(found).abs().max())
        return float(largest)

    def _of(self, asset: str) -> dict[str, torch.Tensor]:
        return {key: value for key, value in self._state.items() if key.startswith(f"{asset}.")}


def _assets(env: Any) -> dict[str, Any]:
    return {**env.scene.articulations, **env.scene.rigid_objects}


def _match(env: Any, dump: FaultDump, actions: int) -> dict[str, torch.Tensor]:
    """Return, for every articulation, where in the dump its joints are: backends order them differently."""
    task = dump.about["task"]
    here = {name: sorted(getattr(asset, "joint_names", [])) for name, asset in _assets(env).items()}
    there = {name: sorted(asset["joints"]) for name, asset in dump.about["assets"].items()}
    differing = sorted(name for name in there if here.get(name) != there[name])
    if differing:
        raise ConfigError(
            f"The dump is of another scene than {task} has now: {', '.join(differing)} differs. Replay it with the "
            "version of the task that it was made with."
        )
    width = env.single_action_space.shape[0]
    if width != actions:
        raise ConfigError(f"The dump has {actions} actions per step, {task} has {width} now.")
    order = {}
    for name in there.keys() & env.scene.articulations.keys():
        asset = env.scene.articulations[name]
        recorded = dump.about["assets"][name]["joints"]
        order[name] = torch.tensor([recorded.index(joint) for joint in asset.joint_names], device=env.device)
    return order


def replay(
    env: Any, history: History, watched: Sequence[Watch], from_each_step: bool, pause: float = 0.0
) -> dict[str, Any]:
    """Run the recorded actions and stop at the first value that is not finite or out of its bound.

    Args:
        env: The unwrapped environment.
        history: What was recorded of it.
        watched: What is checked after every physics step.
        from_each_step: Start every step from its recorded state, not from where the replay is.
        pause: Time to wait after each physics step, for somebody who watches [s].

    Returns:
        ``found``, ``step`` (of the history) and ``substep`` (0: the action itself, else the physics step, from 1),
        ``offenders`` (the worst first), ``num_offenders``, ``trace`` (the first offender's values in the physics steps
        before) and ``differences`` (distance from the recorded state at the start of each step [rad, m]).
    """
    result: dict[str, Any] = {"found": False, "from_each_step": from_each_step, "differences": [], "trace": []}
    env.reset()
    # One physics step a call, also where the backend would run all of an action's in one.
    env.sim.physics_manager.set_decimation(1)
    for step in range(history.steps):
        if step > 0:
            result["differences"].append(history.difference(step))
        if step == 0 or from_each_step:
            history.write(step)
        env.episode_length_buf[:] = history.episode_step[step]
        action = history.actions[step : step + 1]
        values = look([_watch_action(env, action)])
        if hasattr(env, "action_manager"):
            env.action_manager.process_action(action)
        else:
            env._pre_physics_step(action)
        for substep in range(env.cfg.decimation + 1):
            if substep > 0:
                _physics_step(env)
                values = look(watched)
                time.sleep(pause)
            if any(value["excess"] > 1.0 and not value["follows"] for value in values):
                return result | _finding(step, substep, values, result["trace"])
            if substep > 0:
                result["trace"].append({"step": step, "substep": substep, "values": values})
                del result["trace"][:-TRACE]
    return result | {"trace": []}


def _watch_action(env: Any, action: torch.Tensor) -> Watch:
    names = [f"component {index}" for index in range(action.shape[1])]
    return Watch("", "action", names, lambda: action.view(-1, 1), *_guard_cfg(env).bounds("action"))


def _physics_step(env: Any) -> None:
    if hasattr(env, "action_manager"):
        env.action_manager.apply_action()
    else:
        env._apply_action()
    env.scene.write_data_to_sim()
    env.sim.step(render=False)
    if env.sim.is_rendering:
        env.sim.render()
    env.scene.update(dt=env.physics_dt)


def _finding(step: int, substep: int, values: list[dict[str, Any]], trace: list[dict[str, Any]]) -> dict[str, Any]:
    def course(value: dict[str, Any]) -> list[dict[str, Any]]:
        same = [next((v for v in entry["values"] if _key(v) == _key(value)), None) for entry in trace]
        return [
            {"step": entry["step"], "substep": entry["substep"], **v}
            for entry, v in zip(trace, same, strict=True)
            if v is not None
        ]

    def growth(value: dict[str, Any]) -> float:
        last = [entry["excess"] for entry in course(value)[-2:]]
        return last[1] - last[0] if len(last) == 2 else 0.0

    offenders = [value for value in values if value["excess"] > 1.0]
    # Where several fail in the same physics step, the one that was on its way to the bound before is named first.
    offenders.sort(key=lambda value: (not value["follows"], value["excess"], growth(value)), reverse=True)
    return {
        "found": True,
        "step": step,
        "substep": substep,
        "offenders": offenders[:_MOST_OFFENDERS],
        "num_offenders": len(offenders),
        "trace": [{key: entry[key] for key in ("step", "substep", "value")} for entry in course(offenders[0])],
    }


def _key(value: dict[str, Any]) -> tuple[str, str, str]:
    return value["asset"], value["name"], value["quantity"]


def replay_dump(settings_path: Path, dump_path: Path, position: int, result_path: Path) -> int:
    """Replay one environment of a dump, and again and again where somebody watches.

    Args:
        settings_path: The run's settings, of one environment.
        dump_path: The dump.
        position: Which of its environments.
        result_path: Where the finding goes, as JSON.

    Returns:
        The exit code.

    Raises:
        ConfigError: The dump does not fit the task.
    """
    dump = FaultDump.load(dump_path)
    resolved = resolve(RunSettings.load(settings_path), 1, "replay")
    with open_env(resolved) as made:
        env = made.unwrapped
        history = History(env, dump, position)
        watched = watches(env)

        result = replay(env, history, watched, from_each_step=False)
        if not result["found"]:
            again = replay(env, history, watched, from_each_step=True)
            again["differences"] = result["differences"]
            result = again

        result |= {"dt": env.physics_dt, "decimation": env.cfg.decimation, "backend": resolved.backend}
        result |= {"steps": history.steps, "episode_step": history.episode_step}
        write_text_atomically(result_path, json.dumps(result, indent=1) + "\n")

        while resolved.visualizers and env.sim.is_running():
            replay(env, history, watched, result["from_each_step"], pause=env.physics_dt)
            time.sleep(BREAK)
    return 0
