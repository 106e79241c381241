# SPDX-License-Identifier: BSD-3-Clause
"""The child process that holds the simulator: ``python -m isaaclab_pc.workers MODE SETTINGS [options]``.

It reads one settings file and nothing else, and ends with one of :class:`~isaaclab_pc.launch.child_process.ExitCode`.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from isaaclab_pc.launch.child_process import exit_code_of
from isaaclab_pc.launch.run_folder import LOG_NAME
from isaaclab_pc.output_filter import divert_output
from isaaclab_pc.physics.idle_threads import limit_spinning
from isaaclab_pc.settings import RunSettings
from isaaclab_pc.terminal.screen import Screen, Wire, use
from isaaclab_pc.workers.ranks import Ranks

__all__ = ["MODES", "main"]


def _train(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.train import train

    return train(args.settings, args.checkpoint, screen)


def _play(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.play import play

    return play(args.settings, args.checkpoint, screen)


def _export(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.export import export

    return export(args.settings, args.checkpoint, screen)


def _probe(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.probe import probe

    return probe(args.settings, args.num_envs, args.result)


def _plan(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.plan import plan

    return plan(args.settings, args.num_envs, args.result)


def _check(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.check import check

    return check(args.settings.parent, args.result)


def _demo(args: argparse.Namespace, screen: Screen) -> int:
    # Isaac Lab's writer leaves locking to HDF5, which asks for this once, when it is loaded. DemoFile has a lock of its
    # own, and says what to do where the file system has none.
    os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
    from isaaclab_pc.workers.demo import demo

    return demo(args.settings, args.file, args.episodes, args.keep, screen)


def _replay(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.replay import replay_dump

    return replay_dump(args.settings, args.dump, args.position, args.result)


def _stability(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.stability import measure

    return measure(RunSettings.load(args.settings), args.values, args.result)


def _view(args: argparse.Namespace, screen: Screen) -> int:
    from isaaclab_pc.workers.view import ViewOptions, view

    options = ViewOptions(args.policy, args.checkpoint, args.record, args.steps, args.port, args.color)
    return view(args.settings, options, screen)


MODES: dict[str, Callable[[argparse.Namespace, Screen], int]] = {
    "train": _train,
    "play": _play,
    "export": _export,
    "probe": _probe,
    "plan": _plan,
    "check": _check,
    "demo": _demo,
    "replay": _replay,
    "stability": _stability,
    "view": _view,
}
"""What a worker does, by name. Each imports its module, so that bad arguments are refused without waiting for torch."""


def main(argv: Sequence[str]) -> int:
    """Run one mode.

    Args:
        argv: Arguments without the program's name.

    Returns:
        The exit code.
    """
    args = _parser().parse_args(argv)
    stream = _user_stream(args)
    screen = Wire(stream)
    # Where a crash or a hang was: a supervisor ends a process that hangs with SIGABRT, for its stacks.
    faulthandler.enable()

    try:
        with use(screen):
            return exit_code_of(lambda: MODES[args.mode](args, screen), screen.fail)
    finally:
        stream.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m isaaclab_pc.workers", description="Internal: the scripts start it."
    )
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("settings", type=Path, help="the settings file of the run; check: one of those in its folder")
    parser.add_argument("--checkpoint", type=Path, help="train: where to go on; play, view, export: the policy")
    parser.add_argument("--num-envs", type=int, help="probe, plan: environments to try")
    parser.add_argument("--result", type=Path, help="probe, plan, check, replay, stability: where the result goes")
    parser.add_argument("--file", type=Path, help="demo: where the episodes go")
    parser.add_argument("--episodes", type=int, help="demo: how many the file shall have")
    parser.add_argument("--keep", choices=("success", "all"), help="demo: which episodes are kept")
    parser.add_argument("--dump", type=Path, help="replay: the dump")
    parser.add_argument("--position", type=int, help="replay: which of the dump's environments")
    parser.add_argument("--values", type=json.loads, help="stability: fields of physics that differ from the settings")
    parser.add_argument("--policy", help="view: who acts without a checkpoint")
    parser.add_argument("--record", type=Path, help="view: the recording")
    parser.add_argument("--steps", type=int, help="view: steps after which it ends")
    parser.add_argument("--port", type=int, help="view: port of the page")
    parser.add_argument("--color", help="view: what colours the points")
    parser.add_argument("--log", type=Path, help="stability: the log")
    return parser


def _user_stream(args: argparse.Namespace) -> IO[str]:
    """Send what is printed to a log, and return a stream that the user sees."""
    if args.mode == "probe":
        # The parent keeps and filters a probe's output.
        return sys.stdout
    if args.mode == "stability":
        # Standard output is in the middle of the parent's line.
        return divert_output(args.log, user=2)
    stream = divert_output(args.settings.parent / LOG_NAME)
    # Of several processes that train together, one speaks; what the others have to say is in the log.
    return stream if Ranks().is_first else sys.stdout


if __name__ == "__main__":
    limit_spinning(os.environ)
    code = main(sys.argv[1:])
    for log in (sys.stdout, sys.stderr):
        # On a full disk, what is left in the buffer would raise the error a second time.
        with contextlib.suppress(OSError):
            log.flush()
    # Simulators' own threads and exit handlers can hang or crash here, with everything written and closed.
    os._exit(code)
