# SPDX-License-Identifier: BSD-3-Clause
"""Failures of single environments: the recorder of their last steps, the dump's file, and the readings of a replay."""
