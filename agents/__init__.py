# SPDX-License-Identifier: BSD-3-Clause
"""Networks and hyperparameters, and their translation for each learning library."""
