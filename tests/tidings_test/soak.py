"""Sizes of a test that has a long form, for tests/soak, and choices at random."""

import os
import random
import time


def soak(short, long):
    """The size for CI, or the one for tests/soak."""
    return long if os.environ.get("TIDINGS_SOAK") else short


def choices():
    """A random.Random: CI always makes the same choices, tests/soak makes others each
    time. A test that fails shows its seed, and TIDINGS_SEED=N repeats its choices (not
    the moments of the machine)."""
    seed = int(os.environ.get("TIDINGS_SEED", soak(1, int(time.time()))))
    print(f"TIDINGS_SEED={seed}")
    return random.Random(seed)
