# SPDX-License-Identifier: BSD-3-Clause
"""What a session hands to Isaac Lab; no simulator is started."""

import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import session as sessions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import _named, open_env, open_session


@pytest.mark.parametrize(
    ("setting", "names", "headless"),
    [("null", None, True), ("newton_gl", ["newton_gl"], True), ("[newton_gl,kit]", ["newton_gl", "kit"], False)],
)
def test_visualizers_reach_isaac_labs_launcher(monkeypatch, setting, names, headless):
    import gymnasium
    import isaaclab.app

    given = []

    @contextmanager
    def launch(cfg, arguments):
        given.append(arguments)
        yield

    monkeypatch.setattr(isaaclab.app, "launch_simulation", launch)
    monkeypatch.setattr(gymnasium, "make", lambda task, cfg: SimpleNamespace(close=lambda: None))
    run = compose(["device=cpu", "physics=newton_mjwarp", f"visualizer={setting}"])
    with open_env(resolve(run, 8, "reach")):
        assert given == [{"device": "cpu", "headless": headless, "visualizer": names}]


def test_what_shows_a_task_of_this_package_in_a_browser_is_not_isaac_labs(monkeypatch):
    import gymnasium
    import isaaclab.app

    from isaaclab_pc.viewer import live_view

    given = []
    shown = []

    @contextmanager
    def launch(cfg, arguments):
        given.append(arguments["visualizer"])
        yield

    @contextmanager
    def show(env, host, title):
        shown.append(host)
        yield

    def make(task, cfg):
        assert cfg.drawn
        return SimpleNamespace(close=lambda: None, unwrapped=None)

    monkeypatch.setattr(isaaclab.app, "launch_simulation", launch)
    monkeypatch.setattr(gymnasium, "make", make)
    monkeypatch.setattr(live_view, "live_view", show)
    run = compose(["device=cpu", "physics=newton_mjwarp", "visualizer=[viser,newton_gl]"])
    with open_env(resolve(run, 8, "reach")):
        assert given == [["newton_gl"]]
        assert shown == ["127.0.0.1"]


@pytest.fixture
def simulation(monkeypatch):
    """Open sessions without a simulator."""

    @contextmanager
    def open_nothing(*_):
        yield SimpleNamespace(unwrapped=SimpleNamespace(single_observation_space=None))

    adapter = SimpleNamespace(make=lambda *_: None)
    config = {
        "env_cfg": {},
        "agent_cfg": {},
        "plan": "a plan",
        "replay_samples": 0,
        "overrides": (),
        "adapter": adapter,
    }
    resolved = SimpleNamespace(**config)
    monkeypatch.setattr(sessions, "resolve", lambda *_: resolved)
    monkeypatch.setattr(sessions, "open_env", open_nothing)


@pytest.mark.parametrize(("given", "plans"), [({"learns": True}, ["a plan"]), ({}, [])])
def test_only_who_learns_needs_memory_for_samples(simulation, monkeypatch, tmp_path, given, plans):
    checked = []
    monkeypatch.setattr(sessions, "check_run", lambda cfg, machine, **_: [])
    monkeypatch.setattr(sessions, "check_samples", lambda space, plan, *_, **__: checked.append(plan) or [])
    with open_session(RunSettings(device="cpu"), 4, "x", tmp_path, **given):
        assert checked == plans


def test_what_cannot_be_built_names_the_users_overrides(capsys):
    with pytest.raises(ConfigError) as refusal, _named("the agent", ["agent.a=1", "env.b=2"]):
        raise RuntimeError("mat1 and mat2\nhave other shapes")
    assert str(refusal.value).startswith(
        "agent.a=1, env.b=2: the agent cannot be built with that (RuntimeError: mat1 and mat2)."
    )
    assert "Traceback" in capsys.readouterr().err
    kept_traceback(refusal.value)


def kept_traceback(refusal: ConfigError) -> str:
    """Return the traceback that a message says the path of, and remove its file."""
    path = Path(re.search(r"the traceback is in (\S+)\.$", str(refusal))[1])  # pyright: ignore[reportOptionalSubscript]
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


def fail_and_fail_to_close(error: Exception):
    """Do as Isaac Lab does where a sensor cannot be built: closing it fails, too."""
    try:
        raise error
    except type(error):
        try:
            raise AttributeError("no _renderer")
        except AttributeError as second:
            raise RuntimeError("1 callback(s) failed") from second


def test_the_first_error_is_named_and_not_that_of_closing_alone():
    with pytest.raises(ConfigError) as refusal, _named("the environment", ["env.a=1"]):
        fail_and_fail_to_close(ValueError("no model"))
    assert "(ValueError: no model; then RuntimeError: 1 callback(s) failed)" in str(refusal.value)
    traceback = kept_traceback(refusal.value)
    assert traceback.index("no model") < traceback.index("no _renderer") < traceback.index("1 callback(s)")


@pytest.mark.parametrize("error", [ConfigError("env.a=2: expected 3"), MemoryError("too many")])
def test_an_error_that_closing_hides_is_raised(error):
    with pytest.raises(type(error)) as raised, _named("the environment", ["env.a=1"]):
        fail_and_fail_to_close(error)
    assert raised.value is error


def test_a_lack_of_memory_that_closing_hides_is_not_the_overrides():
    with pytest.raises(RuntimeError, match="callback"), _named("the environment", ["env.a=1"]):
        fail_and_fail_to_close(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"))


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ([], RuntimeError("it broke")),
        (["env.a=1"], MemoryError("too many")),
        (["env.a=1"], ConfigError("env.a=2: expected 3")),
        (["env.a=1"], RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")),
    ],
)
def test_an_error_that_is_not_the_overrides_is_left_alone(overrides, error):
    with pytest.raises(type(error)) as raised, _named("the environment", overrides):
        raise error
    assert raised.value is error
