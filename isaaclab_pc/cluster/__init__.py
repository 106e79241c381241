# SPDX-License-Identifier: BSD-3-Clause
"""Several processes, machines or runs: ranks, nodes, SLURM and Ray."""
