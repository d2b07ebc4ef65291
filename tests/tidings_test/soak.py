"""Sizes of a test that has a long form, for tests/soak."""

import os


def soak(short, long):
    """The size for CI, or the one for tests/soak."""
    return long if os.environ.get("TIDINGS_SOAK") else short
