# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts print: phases, iterations, decisions and warnings, on a terminal, in a pipe, or as JSON."""
