# SPDX-License-Identifier: BSD-3-Clause
"""How many environments fit: search, trials in child processes, memory meters, and a cache of answers.

Loads neither torch nor a simulator by itself.
"""
