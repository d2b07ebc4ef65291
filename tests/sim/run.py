"""run.py - tells stories of a simulated world, one for each seed, and makes a failing one short.

    tests/sim/run --seeds N [--first SEED] [--minutes M] [--jobs N]
    tests/sim/run --seed SEED [--trace N] [--shorten]
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from sim import story, world
from tidings_test import fork_server

STEPS_SHOWN = 200


@contextlib.contextmanager
def place():
    """A folder for worlds, where the programs are, and a data directory to begin with."""
    found = argparse.Namespace(library=Path(os.environ["TIDINGS_WORLD_LIBRARY"]), programs=Path(os.environ["TIDINGS_BIN"]))
    world.prepare(found.library)
    found.folder = Path(tempfile.mkdtemp(prefix="tidings-world-"))
    try:
        found.template = story.make_template(found.folder, found.library, found.programs)
        yield found
    finally:
        shutil.rmtree(found.folder, ignore_errors=True)


def tell(options, seed, acts=None, trace=0):
    """Returns (what is broken or "", hash of all steps, steps, the last steps in words)."""
    folder = options.folder / f"seed{seed}-{os.getpid()}"
    with story.Story(folder, options.library, options.programs, options.template, seed) as one:
        broken = ""
        try:
            one.tell(story.plan(seed) if acts is None else acts)
        except story.Broken as problem:
            broken = str(problem)
        return broken, one.world.shared.hash, one.world.shared.steps, one.world.trace(trace) if trace else []


def shorten(options, seed, acts, broken):
    """Leaves out acts as long as the same kind of thing is broken."""
    kind = broken[:24]
    size = max(1, len(acts) // 2)
    while size:
        at = 0
        while at < len(acts):
            fewer = acts[:at] + acts[at + size :]
            if tell(options, seed, fewer)[0].startswith(kind):
                acts = fewer
            else:
                at += size
        size //= 2
    return acts


def begin_worker(cores):
    """Gives each process of the pool a core of its own: one thread of its world runs at a time, and goes on faster where the last was."""
    fork_server.forget()
    with cores.get_lock():
        core = cores.value
        cores.value += 1
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {mine[core % len(mine)]})


def tell_for_pool(job):
    options, seed = job
    return seed, *tell(options, seed)[:3]


def run_many(options):
    seeds = range(options.first, options.first + options.seeds)
    give_up = time.monotonic() + options.minutes * 60
    n = n_steps = n_failed = 0
    longest = (0, 0)  # steps, seed
    with multiprocessing.Pool(options.jobs, begin_worker, (multiprocessing.Value("i", 0),)) as pool:
        for seed, broken, _, steps in pool.imap_unordered(tell_for_pool, [(options, seed) for seed in seeds]):
            n += 1
            n_steps += steps
            longest = max(longest, (steps, seed))
            if broken:
                n_failed += 1
                print(f"seed {seed}: {broken}", flush=True)
            if time.monotonic() > give_up:
                pool.terminate()
                break
    late = f"; {len(seeds) - n} not told: no time" if n < len(seeds) else ""
    print(f"{n} stories, {n_steps} steps, {n_failed} failed{late}; the longest is {longest[1]}, of {longest[0]} steps")
    return 1 if n_failed or n < len(seeds) else 0


def run_one(options):
    acts = story.plan(options.seed)
    broken, digest, steps, lines = tell(options, options.seed, acts, options.trace or STEPS_SHOWN)
    if broken and options.shorten:
        acts = shorten(options, options.seed, acts, broken)
        broken, digest, steps, lines = tell(options, options.seed, acts, options.trace or STEPS_SHOWN)
    if broken or options.trace:
        print("\n".join(lines))
    for act in acts:
        print("act", *act)
    print(f"seed {options.seed}: {steps} steps, hash {digest:016x}: {broken or 'all holds'}")
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser(prog="tests/sim/run", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=50, help="how many stories")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first")
    parser.add_argument("--minutes", type=float, default=10, help="stop after that")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, help="tell this one alone, and print its last steps if it fails")
    parser.add_argument("--trace", type=int, default=0, metavar="N", help="with --seed: print the last N steps in any case")
    parser.add_argument("--shorten", action="store_true", help="with --seed: leave out acts while it still fails")
    options = parser.parse_args()
    with place() as found:
        for name, value in vars(found).items():
            setattr(options, name, value)
        return run_one(options) if options.seed is not None else run_many(options)


if __name__ == "__main__":
    sys.exit(main())
