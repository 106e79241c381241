# SPDX-License-Identifier: BSD-3-Clause
"""Workers around a fake session: real settings, record, checkpoints, progress, signals and exit codes."""

import contextlib
from types import SimpleNamespace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.learners import load_adapter
from isaaclab_pc.learners.common.batch import BatchPlan
from isaaclab_pc.run.record import RunRecord
from isaaclab_pc.tasks.reach.reach_env_cfg import ReachEnvCfg
from isaaclab_pc.workers import play, probe, train
from tests.unit.workers.fake_session import SETTINGS, FakeRunner, SessionEnv


@pytest.fixture
def run(tmp_path):
    """Make a run's folder as the parent does."""
    RunRecord.create(tmp_path, compose(SETTINGS))
    return tmp_path


@pytest.fixture
def fake_session(monkeypatch):
    """Put a session with fakes in the place of a simulator."""

    def install(during=None, error=None):
        session = SimpleNamespace(env=SessionEnv(), runner=FakeRunner(during), build_s=0.1, warnings=["num_threads"])

        @contextlib.contextmanager
        def open_session(settings, num_envs, run_dir, watch=None, *, learns=False):
            if error is not None:
                raise error
            session.resolved = SimpleNamespace(
                settings=settings,
                max_iterations=settings.max_iterations,
                adapter=load_adapter(settings.runner),
                env_cfg=ReachEnvCfg(),
                plan=BatchPlan(horizon=64, num_minibatches=4, minibatch_size=64),
                most_envs=32,
                replay_samples=0,
            )
            if watch is not None:
                watch.before_env()
                watch.start(session.resolved, num_envs)
                watch.after_env(session.env)
                watch.after_runner(session.runner)
            try:
                yield session
            finally:
                session.env.closed = True

        for module in (train, play, probe):
            monkeypatch.setattr(module, "open_session", open_session)
        return session

    return install
