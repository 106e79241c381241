# SPDX-License-Identifier: BSD-3-Clause
"""What runs in a child process, beside the simulator: session, training, evaluation, probe, demo, replay."""
