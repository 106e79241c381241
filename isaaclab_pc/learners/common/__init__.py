# SPDX-License-Identifier: BSD-3-Clause
"""Base classes and helpers of all learning libraries."""
