# SPDX-License-Identifier: BSD-3-Clause
import gymnasium  # noqa: F401 (its first import sets an environment variable, which no single test shall be blamed for)
