# SPDX-License-Identifier: BSD-3-Clause
"""Output of the scripts: phases, iterations, decisions and warnings, on a terminal, in a pipe, or as JSON."""
