# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a training run going: watches its process, and starts another where it dies. Loads no torch."""
