# SPDX-License-Identifier: BSD-3-Clause
"""All settings of a run."""

from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from isaaclab_pc.assets.robots import DEFAULT_ROBOT, ROBOTS
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.learners import RUNNERS
from isaaclab_pc.settings.base import Expects, Setting, Settings, flatten, settings_of
from isaaclab_pc.settings.guard import GuardSettings
from isaaclab_pc.settings.physics import PhysicsSettings
from isaaclab_pc.settings.points import PointEncoder, PointsSettings, check_distinct
from isaaclab_pc.settings.scaling import NumEnvs, ScalingSettings
from isaaclab_pc.settings.supervise import SuperviseSettings
from isaaclab_pc.utils.files import write_text_atomically

CUDA_DEVICES = r"cuda:[0-9]{1,3}(,cuda:[0-9]{1,3})*"
"""One GPU or several: those of a run's processes on one machine."""

VisualizerName = Literal["kit", "newton_gl", "newton_rtx", "viser"]
VISUALIZER_NAMES: tuple[str, ...] = get_args(VisualizerName)
"""Visualizers, by Isaac Lab 3.0's names."""

if TYPE_CHECKING:  # type checkers want a Literal's names written out
    RunnerName = str
else:
    RunnerName = Literal[*RUNNERS]

Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""A seed of NumPy."""

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"\S"), Expects("a name of at most 200 letters")
]


Visualizers = Annotated[
    VisualizerName | Annotated[list[VisualizerName], Field(min_length=1)],
    AfterValidator(check_distinct),
    Expects(f"one of {', '.join(VISUALIZER_NAMES)}, or a list of them", VISUALIZER_NAMES),
]

Device = Annotated[
    str, StringConstraints(pattern=rf"^(auto|cpu|cuda|{CUDA_DEVICES})$"), Expects("auto, cpu, cuda or cuda:N")
]

_PATH = StringConstraints(min_length=1, max_length=4096, pattern=r"\S")
PathText = Annotated[str, _PATH, Expects("latest, best, or a run's folder or checkpoint")]
TeacherText = Annotated[str, _PATH, Expects("expert, train, latest, best, or a run's folder or checkpoint")]
DemosText = Annotated[str, _PATH, Expects("a path to an HDF5 file or a LeRobot dataset")]
InitText = Annotated[str, _PATH, Expects("pretrained, latest, best, or a run's folder or checkpoint")]

RobotText = Annotated[
    str, _PATH, Expects(f"one of {', '.join(ROBOTS)}, or the name or folder of an imported one", tuple(ROBOTS))
]

HostText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=260, pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(:[0-9]{1,5})?$"),
    Expects("a host, or host:port"),
]

AddressText = Annotated[
    str,
    AfterValidator(lambda text: str(IPv4Address(text))),
    Expects("an IPv4 address of this machine, such as 127.0.0.1 or 0.0.0.0"),
]


class EvalSettings(Settings):
    """The deterministic evaluations: at the end of training, by ``scripts/play.py``, and for the best checkpoint."""

    group = "eval"

    episodes: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    """Episodes at least; every environment contributes equally."""

    seed: Seed = 1000
    """Seed of the evaluation's resets, which training does not use."""

    best_episodes: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Episodes at least of the evaluations that choose the best checkpoint in training."""

    best_share: Annotated[float, Field(ge=0, le=0.9)] = 0.05
    """Largest share of a run's time that they take; 0: there are none, and the best checkpoint is the latest."""

    best_seed: Seed = 2000
    """Seed of their resets, which neither training nor the other evaluations use."""


class RunSettings(Settings):
    """Everything that a user sets for a run.

    A command composes it from its command line, completes it (the task's gym id, device, physics backend), and writes
    it as the one file that a child process reads.
    """

    task: Name = "reach"
    """Short name (scripts/list_tasks.py shows them) or any registered gym id."""

    runner: RunnerName = "rsl_rl"
    """Learning library."""

    algorithm: Literal["auto", "ppo", "distill"] = "auto"
    """ppo learns from rewards, distill by imitating a teacher (RSL-RL only). auto is distill where a teacher is given,
    or the task has an expert, runner is rsl_rl and obs is points or depth; else, or with init or recurrent, ppo."""

    teacher: TeacherText | None = None
    """Whom distill imitates: the task's expert, or a policy that sees the state: latest, best, or the folder or
    checkpoint of a run with obs=state; train: one that PPO trains first, in a run of its own. null: the expert."""

    demos: DemosText | None = None
    """Demonstrations in a file (scripts/demo.py, or robomimic's) or in the folder of a LeRobot dataset: distill
    imitates the successful ones alone, and the task's rollouts only show how well. null: the teacher is asked."""

    init: InitText | None = None
    """PPO goes on from a policy that distill has trained (RSL-RL only): pretrained, the task's own;
    latest, best, or the folder or checkpoint of a run. The critic is new, and learns alone at first."""

    agent: Literal["auto", "default", "large"] = "auto"
    """Size of the agent: networks and samples per update. auto is that of the policy in init, else large on a GPU and
    default on the CPU; for tasks of other packages, default."""

    obs: Literal["points", "depth", "state"] = "points"
    """Observations beside the robot's own joints; state is the simulator's own."""

    encoder: Literal["auto"] | PointEncoder = "auto"
    """How the policy reads its cloud, with every runner (docs/learning-libraries.md). auto is that of the policy in
    init, else as the agent says, which is pointnet."""

    recurrent: Literal["gru", "lstm"] | None = None
    """A memory of what the policy saw in the episode, behind its encoders (PPO of RSL-RL and
    RL-Games, docs/learning-libraries.md). null: it acts on the present observation alone."""

    reward: Literal["dense", "sparse"] | None = None
    """dense: the task's terms; sparse: 1 on success, else 0; null: the task's own, which is dense."""

    robot: RobotText = DEFAULT_ROBOT
    """franka and ur5e are made of primitives; others are imported by scripts/robot.py. ur5e and imported ones are for
    reach, push and lift."""

    sim2real: bool = False
    """Train for a real camera and robot: stands for points.realism=mixed, env.randomization=hard,
    env.history_length=3 and points.num_points=128, of which each may still be given another value."""

    seed: Seed = 42
    """Seed of resets, policy weights and exploration."""

    max_iterations: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Iterations of the whole run, each a rollout and an update; null: as the agent says."""

    resume: PathText | None = None
    """latest, best, or a run's folder or checkpoint: the same run in the same folder, to its end. With
    scripts/play.py also pretrained: the policy that comes with the task; and expert: the task's expert."""

    num_envs: Literal["auto"] | NumEnvs = "auto"
    """Environments in parallel; auto measures what this machine does best, and remembers it."""

    replay_samples: Annotated[int, Field(ge=1_000, le=100_000_000)] | None = None
    """Samples that distill keeps and learns from; null: as the agent says, or less where num_envs=auto finds
    that they need more memory than there is."""

    minibatch_size: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Samples of a minibatch, about; null: as the agent says, or less where num_envs=auto finds that updates need more
    memory than there is."""

    chunk: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Clouds or images of a minibatch that are processed at once, with the same gradients; null: as the agent says, or
    less where num_envs=auto finds that updates need more memory than there is."""

    device: Device = "auto"
    """auto is the first GPU where there is one, else the CPU."""

    gpus: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs of a machine that train together, in one process each: the first of those that CUDA_VISIBLE_DEVICES shows.
    Each has num_envs environments; an update has as many samples in all. With device=cpu: processes that share its
    cores, to try it out."""

    nodes: Annotated[int, Field(ge=1, le=1024)] = 1
    """Machines that train together, each with as many GPUs: the script is started on each, in a folder that they
    share."""

    node_rank: Annotated[int, Field(ge=0, le=1023)] | None = None
    """Which of the nodes this is; the first one, 0, leads. null: as SLURM says."""

    rendezvous: HostText | None = None
    """Host, or host:port, of the first node, where the nodes meet; port 29400 where none is given. null: the first one
    of SLURM's step, at a port of its own."""

    cluster: Literal["ray"] | None = None
    """ray: Ray Train starts the processes that train together, on the machines of the cluster that RAY_ADDRESS names,
    or on this one. null: they are gpus on each of nodes."""

    workers: Annotated[int, Field(ge=1, le=1024)] = 1
    """With cluster=ray: processes that train together, each with a GPU; with device=cpu, each with a core."""

    visualizer: Visualizers | None = None
    """Watch the run: viser (in a browser), newton_gl, newton_rtx or kit (a window), or a list, [viser,newton_gl].
    num_envs=auto is 4 then; a given num_envs is kept, in a browser up to 64."""

    logger: Literal["tensorboard", "wandb"] = "tensorboard"
    """Who gets the metrics. TensorBoard's events are always in the run's folder; wandb: Weights & Biases as well,
    offline, in the same folder and under its name (docs/reading-output.md)."""

    host: AddressText = "127.0.0.1"
    """Address that pages in a browser listen on: 127.0.0.1 is this machine alone, 0.0.0.0 all of its networks:
    other machines there can then look on and use the controls."""

    force: bool = False
    """Show more than 64 environments in a browser."""

    physics: PhysicsSettings = PhysicsSettings()
    points: PointsSettings = PointsSettings()
    guard: GuardSettings = GuardSettings()
    scaling: ScalingSettings = ScalingSettings()
    eval: EvalSettings = EvalSettings()
    supervise: SuperviseSettings = SuperviseSettings()

    env_overrides: list[str] = Field(default=[])
    """``env.<field>=value``, for the task's config."""

    agent_overrides: list[str] = Field(default=[])
    """``agent.<field>=value``, for the agent's config."""

    @model_validator(mode="after")
    def _check_seeds(self) -> Self:
        if self.eval.seed == self.seed:
            raise ConfigError(f"eval.seed={self.seed} is the seed of training too; evaluation needs unseen resets.")
        if self.eval.best_seed in (self.seed, self.eval.seed):
            other = "seed" if self.eval.best_seed == self.seed else "eval.seed"
            raise ConfigError(f"eval.best_seed={self.eval.best_seed} is {other} too; give it a value of its own.")
        return self

    @property
    def ranks(self) -> int:
        """Processes that train together, each with ``num_envs`` environments."""
        return self.workers if self.cluster is not None else self.gpus * self.nodes

    @property
    def learner(self) -> str:
        """The key of the task's agent: ``ppo``, ``distill``, or ``finetune`` where PPO goes on."""
        # Whoever does not train chose no algorithm; that of PPO is any task's.
        algorithm = "ppo" if self.algorithm == "auto" else self.algorithm
        return "finetune" if algorithm == "ppo" and self.init is not None else algorithm

    @property
    def agent_size(self) -> str:
        """Size of the agent: ``default`` where none was chosen."""
        return "default" if self.agent == "auto" else self.agent

    @property
    def visualizers(self) -> tuple[str, ...]:
        """Names of the visualizers that are on."""
        if self.visualizer is None:
            return ()
        return (self.visualizer,) if isinstance(self.visualizer, str) else tuple(self.visualizer)

    def save(self, path: Path) -> None:
        """Write the settings as YAML in the place of an older file; a reader sees all of them or none."""
        write_text_atomically(path, yaml.safe_dump(self.model_dump(), sort_keys=False))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read settings that :meth:`save` wrote.

        Raises:
            ConfigError: The file is missing, is not YAML, or a setting in it is missing, unknown or wrong.
        """
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
        return cls.from_plain(data, str(path))

    @classmethod
    def from_plain(cls, data: Any, source: str) -> Self:
        """Check plain values that claim to be all settings of a run; ``source`` names them in messages.

        Raises:
            ConfigError: A setting is missing, unknown or wrong.
        """
        if not isinstance(data, dict):
            raise ConfigError(f"{source} holds no settings.")
        # YAML has names that are numbers; only text can be looked up among the settings.
        named = _with_text_names({key: _with_text_names(value) for key, value in data.items()})
        try:
            settings = cls(**named)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None

        # A default that was filled in here would make it another run than the one that wrote the file.
        missing = sorted(settings.flat().keys() - flatten(named).keys())
        if missing:
            raise ConfigError(f"{source} lacks {', '.join(missing)}: it was written by another version.")
        return settings


def _with_text_names(value: Any) -> Any:
    return {str(name): part for name, part in value.items()} if isinstance(value, dict) else value


INTERNAL = frozenset({"env_overrides", "agent_overrides"})
"""Filled from ``env.*`` and ``agent.*``, not written by users."""

SETTINGS: dict[str, Setting] = {
    key: setting for key, setting in settings_of(RunSettings).items() if key not in INTERNAL
}
"""Every setting that a user may write, by dotted name."""
