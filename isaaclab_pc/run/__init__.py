# SPDX-License-Identifier: BSD-3-Clause
"""What a run is: its folder, record, checkpoints, jobs, device and algorithm. Loads no torch."""
