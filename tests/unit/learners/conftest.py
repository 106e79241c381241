# SPDX-License-Identifier: BSD-3-Clause
"""A fixture for the tests of all libraries."""

import pytest

from isaaclab_pc.learners import RUNNERS


@pytest.fixture(params=RUNNERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param
