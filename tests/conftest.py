# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every test: nothing leaks, and what cannot run here is skipped with the reason."""

import functools
import gc
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import settings

# The machine may be busy: a slow example is no failure.
settings.register_profile("isaaclab_pc", deadline=None)
settings.load_profile("isaaclab_pc")

# Set by libraries when they are first imported or start a simulation, not by us.
LIBRARY_ENV = (
    "CRC32C_",
    "CUDA_",
    "KMP_",
    "OVSTAGE_",
    "PXR_",
    "PYGAME_",
    "PYTHONHASHSEED",
    "PYTEST_",
    "TORCHINDUCTOR_",
    "TRITON_",
    "_TORCHINDUCTOR_",
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
GRACE_S = 3.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-if-none-passed",
        action="store_true",
        help="fail a run in which every test of ovphysx, or every other one, was skipped",
    )


def pytest_configure() -> None:
    # A shell's background jobs inherit an ignored SIGINT, and Python then raises no KeyboardInterrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under nohup, tests of a terminal that closes would hear nothing.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


# First: then pytest reads the marks, and pytest-xdist the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each worker of pytest-xdist one physics backend, and whole files of the other tests."""
    for item in items:
        if item.get_closest_marker("slow_on_newton") and _backend(item) == "newton":
            item.add_marker("slow")

    if not _has_a_worker_for_each_backend(config):
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_backend(item) or item.location[0]))

    # Workers take groups in this order, so the first two, each on another worker, are the backends.
    items.sort(key=lambda item: ("newton", "physx", None).index(_backend(item)))


def pytest_collection_finish(session: pytest.Session) -> None:
    if _has_a_worker_for_each_backend(session.config):
        return
    if len({_backend(item) for item in session.items} - {None}) > 1:
        raise pytest.UsageError("one physics backend a process: add -m 'not physx' or -m physx, or use `make test`")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _cuda_is_available():
        pytest.skip("needs a CUDA device, and torch.cuda.is_available() is False")
    if item.get_closest_marker("physx") and importlib.util.find_spec("ovphysx") is None:
        pytest.skip("needs ovphysx: uv pip install -c constraints.txt -e '.[ovphysx]'")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not session.config.getoption("--fail-if-none-passed") or reporter is None:
        return
    passed = {"physx" in report.keywords for report in reporter.stats.get("passed", [])}
    skipped = {"physx" in report.keywords for report in reporter.stats.get("skipped", [])}
    if exitstatus == pytest.ExitCode.OK and (skipped - passed or not passed):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """For a test that is interrupted: Python drops a KeyboardInterrupt that comes in a callback of the collector."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def _environment_is_kept() -> Iterator[None]:
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    leaked = sorted(name for name in changed if not name.startswith(LIBRARY_ENV))
    for name in leaked:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    assert not leaked, f"the test changed environment variables: {leaked}"


@pytest.fixture(autouse=True)
def _signal_handlers_are_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    leaked = [number for number in SIGNALS if signal.getsignal(number) != before[number]]
    for number in leaked:
        signal.signal(number, before[number])
    assert not leaked, f"the test left signal handlers behind: {[number.name for number in leaked]}"


@pytest.fixture(autouse=True)
def _hydra_is_cleared() -> Iterator[None]:
    yield
    hydra = sys.modules.get("hydra.core.global_hydra")
    if hydra is None:
        return
    leaked = hydra.GlobalHydra.instance().is_initialized()
    if leaked:
        hydra.GlobalHydra.instance().clear()
    assert not leaked, "the test left Hydra initialized"


@pytest.fixture(autouse=True)
def _children_have_ended() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    children = [child for child in psutil.Process().children(recursive=True) if child not in before]
    _, alive = psutil.wait_procs([child for child in children if not _is_helper_process(child)], timeout=GRACE_S)
    names = [_describe(child) for child in alive]
    for child in alive:
        child.kill()
    assert not names, f"the test left processes behind: {names}"


@pytest.fixture(autouse=True)
def _threads_have_ended() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    # Daemon threads of libraries (progress monitors, log writers) live as long as the process; ours are joined.
    threads = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in threads:
        thread.join(GRACE_S)
    alive = [thread.name for thread in threads if thread.is_alive()]
    assert not alive, f"the test left threads behind: {alive}"


def _backend(item: pytest.Item) -> str | None:
    """Return the physics backend that a test starts."""
    if item.get_closest_marker("physx"):
        return "physx"
    return "newton" if item.get_closest_marker("sim") else None


def _has_a_worker_for_each_backend(config: pytest.Config) -> bool:
    """Whether this process is a worker of pytest-xdist with ``-n 2 --dist loadgroup``, or more workers."""
    worker = getattr(config, "workerinput", {"workercount": 0})
    return worker["workercount"] > 1 and config.option.loadgroup


@functools.cache
def _cuda_is_available() -> bool:
    # Late: most runs need no torch, and unit tests stay fast without it.
    import torch

    return torch.cuda.is_available()


def _is_helper_process(process: psutil.Process) -> bool:
    """Whether this is Python's own resource tracker, which lives as long as its parent."""
    return "resource_tracker" in _describe(process)


def _describe(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) or process.name()
    except psutil.NoSuchProcess:
        return f"process {process.pid}"
