# SPDX-License-Identifier: BSD-3-Clause
"""What is installed is found out without importing it."""

import subprocess
import sys

from isaaclab_pc.utils.packages import installed_versions


def test_versions_are_those_of_what_is_installed():
    versions = installed_versions(["pytest", "no-such-distribution"])
    assert set(versions) == {"pytest"}
    assert versions["pytest"][0].isdigit()


def test_asking_imports_nothing():
    code = """
import sys
from isaaclab_pc.utils.packages import is_installed

print(is_installed("torch"), is_installed("no_such_module"), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]
