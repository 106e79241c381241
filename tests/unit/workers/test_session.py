# SPDX-License-Identifier: BSD-3-Clause
"""What a session hands to Isaac Lab; no simulator is started."""

from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from isaaclab_pc.cli.compose import compose
from isaaclab_pc.errors import ConfigError, error_chain
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.workers import session as sessions
from isaaclab_pc.workers.resolve import resolve
from isaaclab_pc.workers.session import _named, open_env, open_session


@pytest.fixture
def launched(monkeypatch):
    """Open environments without a simulator, and keep what the launcher and the maker were given."""
    import gymnasium
    import isaaclab.app

    given = SimpleNamespace(arguments=None, cfg=None)

    @contextmanager
    def launch(cfg, arguments):
        given.cfg, given.arguments = cfg, arguments
        yield

    env = SimpleNamespace(close=lambda: None, unwrapped=None)
    monkeypatch.setattr(isaaclab.app, "launch_simulation", launch)
    monkeypatch.setattr(gymnasium, "make", lambda task, cfg: env)
    return given


def reach(visualizer):
    return resolve(compose(["device=cpu", "physics=newton_mjwarp", f"visualizer={visualizer}"]), 8)


@pytest.mark.parametrize(
    ("setting", "names", "headless"),
    [("null", None, True), ("newton_gl", ["newton_gl"], True), ("[newton_gl,kit]", ["newton_gl", "kit"], False)],
)
def test_visualizers_reach_isaac_labs_launcher(launched, setting, names, headless):
    with open_env(reach(setting)):
        assert launched.arguments == {"device": "cpu", "headless": headless, "visualizer": names}


def test_what_shows_a_task_of_this_package_in_a_browser_is_not_isaac_labs(launched, monkeypatch):
    from isaaclab_pc.viewer import live_view

    shown = []
    monkeypatch.setattr(live_view, "live_view", lambda env, host, title: nullcontext(shown.append(host)))
    with open_env(reach("[viser,newton_gl]")):
        assert launched.cfg.drawn
        assert launched.arguments["visualizer"] == ["newton_gl"]
        assert shown == ["127.0.0.1"]


@pytest.mark.parametrize(("given", "plans"), [({"learns": True}, ["a plan"]), ({}, [])])
def test_only_who_learns_needs_memory_for_samples(monkeypatch, tmp_path, given, plans):
    adapter = SimpleNamespace(make=lambda *_: None)
    resolved = SimpleNamespace(env_cfg={}, agent_cfg={}, plan="a plan", replay_samples=0, overrides=(), adapter=adapter)
    env = SimpleNamespace(unwrapped=SimpleNamespace(single_observation_space=None))
    checked = []
    monkeypatch.setattr(sessions, "resolve", lambda *_: resolved)
    monkeypatch.setattr(sessions, "open_env", lambda *_: nullcontext(env))
    monkeypatch.setattr(sessions, "check_run", lambda cfg, machine, **_: [])
    monkeypatch.setattr(sessions, "check_samples", lambda space, plan, *_, **__: checked.append(plan) or [])
    with open_session(RunSettings(device="cpu"), 4, tmp_path, **given):
        assert checked == plans


def kept_traceback(refusal: ConfigError) -> str:
    """Return the traceback that a message says the path of, and remove its file."""
    path = Path(str(refusal).rstrip(".").split()[-1])
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


def fail_and_fail_to_close(error: Exception):
    """Do as Isaac Lab does where a sensor cannot be built: closing it fails, too."""
    try:
        raise error
    except type(error):
        try:
            raise AttributeError("_renderer")
        except AttributeError as second:
            raise RuntimeError("1 callback(s)") from second


def test_what_cannot_be_built_names_the_users_overrides(capsys):
    overrides = ["agent.a=1", "env.b=2"]
    with pytest.raises(ConfigError, match=r"^agent\.a=1, env\.b=2: ") as refusal, _named("the agent", overrides):
        raise RuntimeError("mat1\nhas another shape")
    assert "RuntimeError: mat1" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "Traceback" in capsys.readouterr().err
    assert "another shape" in kept_traceback(refusal.value)


def test_the_first_error_is_named_and_not_that_of_closing_alone():
    with pytest.raises(ConfigError, match=r"ValueError: .*RuntimeError: ") as refusal, _named("env", ["env.a=1"]):
        fail_and_fail_to_close(ValueError("model"))
    traceback = kept_traceback(refusal.value)
    assert traceback.index("model") < traceback.index("_renderer") < traceback.index("1 callback(s)")


OUT_OF_MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("error", [ConfigError("env.a=2: expected 3"), MemoryError("too many"), OUT_OF_MEMORY])
def test_an_error_that_is_not_the_overrides_is_left_alone_also_where_closing_hides_it(error):
    with pytest.raises(type(error)) as raised, _named("the environment", ["env.a=1"]):
        raise error
    assert raised.value is error
    with pytest.raises(type(error)) as raised, _named("the environment", ["env.a=1"]):
        fail_and_fail_to_close(error)
    assert error in error_chain(raised.value)
    assert not isinstance(raised.value, ConfigError) or raised.value is error


def test_without_overrides_an_error_is_nobodys():
    with pytest.raises(RuntimeError, match="it broke"), _named("the environment", []):
        raise RuntimeError("it broke")
