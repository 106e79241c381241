# SPDX-License-Identifier: BSD-3-Clause
"""Imitation of a teacher by aggregation (DAgger), behind RSL-RL's runner."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rsl_rl.algorithms import Distillation
from rsl_rl.env import VecEnv
from rsl_rl.models import MLPModel
from rsl_rl.utils import resolve_class, resolve_obs_groups
from tensordict import TensorDict
from torch import Tensor, nn
from torch.nn import functional

from isaaclab_pc.agents.distill import ImitationCfg
from isaaclab_pc.learners.common.checkpoint_file import acting_weights, check_weights, load_checkpoint
from isaaclab_pc.learners.rsl_rl.replay import ReplayBuffer, add_demos

_LAST_RATE = 0.05
"""Learning rate at the end of a run, relative to that at its start."""


class Teacher(nn.Module, ABC):
    """Gives the right action for the state in which each environment is."""

    def prepare(self) -> None:
        """Get ready to teach. Called when a training begins, not where a trained student is only used."""

    def reset(self, dones: Tensor | None = None) -> None:
        """Do nothing: a teacher has no memory."""

    @abstractmethod
    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the actions, (N, A), in [-1, 1], for the observation groups of the present state."""


class ExpertTeacher(Teacher):
    """The task's own expert, which reads the simulator."""

    def __init__(self, env: Any) -> None:
        """Remember the unwrapped environment; its ``expert()`` returns a function that gives actions (N, A)."""
        super().__init__()
        self._env = env
        self._expert: Callable[[], Tensor] | None = None

    def prepare(self) -> None:
        """Make the expert."""
        if self._expert is None:
            self._expert = self._env.expert()

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the expert's actions, (N, A); it reads the environment and not ``obs``."""
        assert self._expert is not None
        # RSL-RL's rollout runs in inference mode, and nothing of the environment may be made in it.
        with torch.inference_mode(False), torch.no_grad():
            return self._expert()


class PolicyTeacher(Teacher):
    """A trained policy, which sees the simulator's state."""

    def __init__(self, model: MLPModel, checkpoint: Path) -> None:
        """Take the policy's network; its weights come from the checkpoint with :meth:`prepare`."""
        super().__init__()
        self.model = model
        self._checkpoint = checkpoint
        self._is_ready = False

    def prepare(self) -> None:
        """Load the weights.

        Raises:
            ConfigError: It is no checkpoint, or one of another network.
        """
        # A training prepares after each evaluation again, when the run that made the file may have removed it.
        if self._is_ready:
            return

        device = next(self.model.parameters()).device
        state, _ = load_checkpoint(self._checkpoint, str(device), ("algorithm",))
        weights = next(iter(acting_weights(state["algorithm"]).values()), {})

        check_weights(self._checkpoint, {"teacher": self.model.state_dict()}, {"teacher": weights})
        self.model.load_state_dict(weights)
        self.model.requires_grad_(False)
        self._is_ready = True

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the means of the policy's actions, as the environment clips them, (N, A)."""
        with torch.no_grad():
            return self.model(obs).clamp(-1.0, 1.0)


class ReplayDistillation(Distillation):
    """RSL-RL's distillation with a replay, after DAgger (Ross, Gordon and Bagnell, AISTATS 2011).

    Teacher and student take turns in each environment, so the teacher also acts in states that the student reached.
    Each sample is labelled with the teacher's action. All samples are kept, up to the replay's capacity: a student that
    learned from the newest alone would forget the states that it no longer visits. With ``demos`` the samples are those
    of a file, and the student acts by itself.

    RSL-RL's rollout storage is not used.
    """

    def __init__(
        self,
        student: MLPModel,
        teacher: Teacher,
        settings: ImitationCfg,
        env: VecEnv,
        shapes: Mapping[str, tuple[int, ...]],
        *,
        horizon: int,
        max_iterations: int,
        device: str,
        multi_gpu_cfg: dict | None = None,
    ) -> None:
        """Prepare for training in N environments; the replay is made when it begins.

        ``shapes`` are those of one observation of each group that the student reads, ``horizon`` the steps of each
        environment per iteration. The learning rate decays over ``max_iterations``, those of the whole run.
        ``multi_gpu_cfg`` are RSL-RL's ranks; None: there is one process.
        """
        # The base class asks a storage only through how many steps its gradient may flow back.
        storage: Any = SimpleNamespace(num_transitions_per_env=1)
        base: Any = super().__init__
        base(
            student,
            teacher,
            storage,
            gradient_length=1,
            num_learning_epochs=settings.num_learning_epochs,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_grad_norm,
            device=device,
            multi_gpu_cfg=multi_gpu_cfg,
        )
        self.replay: ReplayBuffer | None = None
        """The samples; None before the training."""
        self.samples = 0
        """Samples that were collected since the start of the run by all ranks, those before a resume included."""

        self.demos: Path | None = Path(settings.demos) if settings.demos is not None else None
        """File that the student learns from alone; None: it asks the teacher."""

        self._settings = settings
        self._shapes = shapes
        self._num_actions = env.num_actions
        self._max_iterations = max_iterations
        self._prepare_teacher = teacher.prepare
        self._new_samples = env.num_envs * horizon
        self._needed_samples = 0
        self._owed_steps = 0
        self._teacher_acts = torch.ones(env.num_envs, dtype=torch.bool, device=device)

        has_gripper = getattr(env.cfg, "gripper", False)
        is_binary = has_gripper and getattr(env.cfg, "gripper_action", "") == "binary"
        self._gripper_gain = settings.gripper_gain if is_binary else None
        # Tasks of other packages have neither.
        base_env = getattr(env, "unwrapped", env)
        can_shorten = hasattr(base_env, "is_fulfilled")
        self._shortening = Shortening(base_env, settings.fulfilled_steps) if can_shorten else None
        self._benched: Tensor | None = getattr(getattr(base_env, "guard", None), "benched", None)

    @property
    def expert_share(self) -> float:
        """Share of the environments in which the teacher takes the next turn: 1 at first, falling in a line."""
        progress = min(self.samples / self._settings.expert_share_samples, 1.0)
        return 1.0 + (self._settings.last_expert_share - 1.0) * progress

    def train_mode(self) -> None:
        """Make the replay and prepare the teacher: RSL-RL calls this when a training begins."""
        super().train_mode()
        if self.demos is None:
            self._prepare_teacher()
        if self._shortening is not None:
            self._shortening.forget()
        if self.replay is None:
            self.replay = ReplayBuffer(self._shapes, self._num_actions, self._settings.replay_samples, self.device)
            if self.demos is not None:
                add_demos(self.replay, self.demos)
                self._update_normalization(len(self.replay))

    def act(self, obs: TensorDict) -> Tensor:
        """Keep the observations with the teacher's actions, and return actions (N, A) of teacher or student."""
        assert self.replay is not None
        student = self.student(obs, stochastic_output=True)
        if self.demos is not None:
            # What it does here is not learned from: without noise it shows how well it does.
            return self.student.output_mean
        labels = self.teacher(obs).to(self.device)
        # A state that the guard is about to reset can have no right action; the student learns nothing from its own.
        labels = torch.where(labels.isfinite(), labels, student).clamp(-1.0, 1.0)
        self._keep(obs, labels)

        draws = torch.rand(2, self._teacher_acts.shape[0], device=self._teacher_acts.device)
        ends = draws[0] < 1.0 / self._settings.turn_steps
        # While the share is 1, the student has no turn that would have to end first.
        self._teacher_acts.copy_(torch.where(ends, draws[1] < self.expert_share, self._teacher_acts))
        return torch.where(self._teacher_acts[:, None], labels, student)

    def _keep(self, obs: TensorDict, labels: Tensor) -> None:
        assert self.replay is not None
        if self._benched is not None:
            # A benched environment observes zeros. Another one's sample takes the place of its own: to leave it out,
            # the host would have to wait for the number of them.
            shown = ~self._benched.to(labels.device)
            rows = torch.where(shown, torch.arange(len(shown), device=labels.device), shown.int().argmax())
            obs, labels = obs.select(*self._shapes)[rows], labels[rows]
        self.replay.add(obs, labels)

    def process_env_step(self, obs: TensorDict, rewards: Tensor, dones: Tensor, extras: dict[str, Tensor]) -> None:
        """Count a step's samples, and end episodes in which there is no more to see; rewards are not learned from."""
        if self.demos is None:
            self.samples += dones.shape[0] * self.gpu_world_size
        if self._shortening is not None:
            self._shortening.after_step(dones)

    def update(self) -> dict[str, float]:
        """Learn from minibatches of the whole replay.

        Returns:
            The mean of each loss, and the teacher's share; no losses while the replay is refilled after a resume.
            These updates are made up for later, so a run has as many however often it was interrupted.
        """
        assert self.replay is not None
        self.num_updates += 1
        progress = (self.num_updates - 1) / self._max_iterations
        self.learning_rate = self._settings.learning_rate * decay(progress, self._settings.constant_share)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate

        share = {"expert_share": self.expert_share} if self.demos is None else {}
        steps = self.num_learning_epochs * self._settings.num_mini_batches
        if len(self.replay) < self._needed_samples:
            self._owed_steps += steps
            return share

        is_last = self.num_updates >= self._max_iterations
        made_up = self._owed_steps if is_last else min(self._owed_steps, steps)
        self._owed_steps -= made_up
        steps += made_up

        if self.demos is None:
            self._update_normalization(min(self._new_samples, len(self.replay)))

        size = max(1, self._new_samples // self._settings.num_mini_batches)
        total = torch.zeros(2, device=self.device)
        for obs, labels in self.replay.minibatches(steps, size):
            losses = imitation_loss(self.student(obs), labels, self._settings, self._gripper_gain)
            self.optimizer.zero_grad()
            losses.sum().backward()
            if self.is_multi_gpu:
                self.reduce_parameters()
            nn.utils.clip_grad_norm_(self.student.parameters(), self.max_grad_norm or math.inf)
            self.optimizer.step()
            total += losses.detach()

        motion, gripper = (total / steps).tolist()
        return {"motion": motion, **({} if self._gripper_gain is None else {"gripper": gripper}), **share}

    def _update_normalization(self, newest: int) -> None:
        assert self.replay is not None
        vectors = [name for name, shape in self._shapes.items() if len(shape) == 1]
        if vectors:
            self.student.update_normalization(self.replay.newest(newest, vectors))

    def save(self) -> dict[str, Any]:
        """Return the student, the optimizer and the progress. The replay is left out: it is collected anew."""
        return {
            "student_state_dict": self._raw_student.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "progress": {
                "samples": torch.tensor(self.samples),
                "iterations": torch.tensor(self.num_updates),
                "owed_steps": torch.tensor(self._owed_steps),
            },
        }

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Restore a result of :meth:`save`; return True: the iteration is restored, too.

        The student learns again once the replay has some variety, at the latest after half of the remaining iterations:
        from the samples of a few iterations alone it would forget the others.
        """
        self._raw_student.load_state_dict(loaded_dict["student_state_dict"], strict=strict)
        self.optimizer.load_state_dict(loaded_dict["optimizer_state_dict"])
        self.samples = int(loaded_dict["progress"]["samples"])
        self.num_updates = int(loaded_dict["progress"]["iterations"])
        self._owed_steps = int(loaded_dict["progress"]["owed_steps"])
        needed = min(self.samples, self._settings.refill_samples) // self.gpu_world_size
        # At most half of what is left: each iteration that learns nothing leaves one that makes up for it.
        iterations_left = self._max_iterations - self.num_updates
        self._needed_samples = min(needed, self._settings.replay_samples, iterations_left // 2 * self._new_samples)
        # With new episodes, all turns begin anew.
        self._teacher_acts.copy_(torch.rand(self._teacher_acts.shape, device=self.device) < self.expert_share)
        return True

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> "ReplayDistillation":
        """Build student, teacher and algorithm, as RSL-RL's runner asks for them."""
        alg_class, alg_cfg = resolve_class(cfg["algorithm"])
        student_class, student_cfg = resolve_class(cfg["student"])
        cfg["obs_groups"] = resolve_obs_groups(obs, cfg["obs_groups"], ["student"])

        student = student_class(obs, cfg["obs_groups"], "student", env.num_actions, **student_cfg)
        teacher: Teacher = ExpertTeacher(getattr(env, "unwrapped", env))
        if cfg["teacher_checkpoint"]:
            model_class, model_cfg = resolve_class(cfg["teacher"])
            model = model_class(obs, cfg["obs_groups"], "teacher", env.num_actions, **model_cfg)
            teacher = PolicyTeacher(model, Path(cfg["teacher_checkpoint"]))

        return alg_class(
            student,
            teacher,
            ImitationCfg(**alg_cfg),
            env,
            {name: tuple(obs[name].shape[1:]) for name in cfg["obs_groups"]["student"]},
            horizon=cfg["num_steps_per_env"],
            max_iterations=cfg["max_iterations"],
            device=device,
            multi_gpu_cfg=cfg["multi_gpu"],
        )


class Shortening:
    """Ends an episode once its task has been fulfilled for a number of steps.

    The rest of them would show how to stand still, and a student that learns mostly from such samples stands still
    elsewhere, too.
    """

    def __init__(self, env: Any, fulfilled_steps: int) -> None:
        """Start counting the steps in which the task is fulfilled, whether in a row or not.

        ``env`` is the unwrapped environment, with ``is_fulfilled()``, ``episode_length_buf`` and
        ``max_episode_length``.
        """
        self._env = env
        self._fulfilled_steps = fulfilled_steps
        self._steps = torch.zeros(env.num_envs, dtype=torch.long, device=env.device)

    def forget(self) -> None:
        """Start counting again: other episodes were run since the last step."""
        self._steps.zero_()

    def after_step(self, dones: Tensor) -> None:
        """Make the next step end episodes that were fulfilled long enough; ``dones``, (N,), ended with this one."""
        # RSL-RL's rollout runs in inference mode, and the environment's own tensors cannot be written in it.
        with torch.inference_mode(False), torch.no_grad():
            self._steps = (self._steps + self._env.is_fulfilled()) * (dones.to(self._steps.device) == 0)
            ends = self._steps >= self._fulfilled_steps
            self._env.episode_length_buf.masked_fill_(ends, self._env.max_episode_length - 1)


def decay(progress: float, constant_share: float) -> float:
    """Return the learning rate after a share of a run, relative to the first.

    It stays for ``constant_share`` of the run, then falls along half a cosine, to a twentieth: a student that begins to
    act by itself has to learn as fast from that as from the teacher.
    """
    progress = min(progress, 1.0)
    if progress <= constant_share:
        return 1.0
    fallen = (progress - constant_share) / (1.0 - constant_share)
    return _LAST_RATE + (1.0 - _LAST_RATE) * (1.0 + math.cos(math.pi * fallen)) / 2.0


def imitation_loss(means: Tensor, labels: Tensor, settings: ImitationCfg, gripper_gain: float | None) -> Tensor:
    """Return the losses of arm and gripper, shape (2,): the student's means against the teacher's actions, (B, A).

    The arm's part is a Huber loss, squared below ``small_error``. It is nearly an absolute error: where the student
    cannot tell two cases apart it follows the more frequent one, and does not halt between them, as with a squared
    error. With ``long_motion_discount`` errors are relative to the motion: those of long motions, which are large and
    matter least, would hide those of short ones. The environment clips actions to [-1, 1], so a mean beyond a bound
    counts as the bound; its gradient still leads back inside where the label is there.

    A gripper that is either open (1) or closed (-1) has a logistic loss with the logit ``gripper_gain`` where the mean
    is 1. A regression would give the mean of both where the student cannot tell them apart, and that means open. None:
    the last action is no such gripper, and its loss is 0.
    """
    # The value is the clipped one, the gradient that of the mean.
    clipped = means - (means - means.clamp(-1.0, 1.0)).detach()
    arm = slice(None) if gripper_gain is None else slice(-1)
    errors = functional.smooth_l1_loss(clipped[:, arm], labels[:, arm], beta=settings.small_error, reduction="none")
    lengths = torch.linalg.vector_norm(labels[:, arm], dim=1, keepdim=True)
    weights = 1.0 / (1.0 + settings.long_motion_discount * lengths)
    motion = (errors * weights).mean() / weights.mean()
    if gripper_gain is None:
        return torch.stack([motion, torch.zeros_like(motion)])

    sides = torch.where(labels[:, -1] > 0.0, 1.0, -1.0)
    gripper = functional.softplus(-sides * gripper_gain * means[:, -1]).mean()
    return torch.stack([motion, gripper])
