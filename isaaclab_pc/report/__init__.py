# SPDX-License-Identifier: BSD-3-Clause
"""A run as one page of HTML: what ran, what came of it, at what cost, and how to go on. Loads no torch."""
