# SPDX-License-Identifier: BSD-3-Clause
"""The command line of every script: settings, tasks' names, help, sweeps, output and exit codes. Loads no torch."""
