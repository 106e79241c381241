# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of a child process, beside the simulator: session, training, evaluation, probe, demo, replay."""
