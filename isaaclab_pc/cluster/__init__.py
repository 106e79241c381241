# SPDX-License-Identifier: BSD-3-Clause
"""Runs that do not die: who looks after a training process, and acts when it ends before its time. Loads no torch."""
