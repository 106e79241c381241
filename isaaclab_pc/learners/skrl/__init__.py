# SPDX-License-Identifier: BSD-3-Clause
"""skrl: adapter, configuration and model."""
