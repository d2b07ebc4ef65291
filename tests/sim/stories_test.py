"""Stories of a simulated world, in which broker, publishers and followers meet accidents: world.h."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim import run, story

SEEDS = 50
AT_ONCE = 10  # one test of all would be long for a watchdog


@pytest.fixture(scope="module")
def place():
    with run.place() as found:
        yield found


@pytest.mark.parametrize("seed", (8, 12, 31, 40))  # with each kind of party
def test_a_seed_tells_the_same_story_twice(place, seed, tmp_path, monkeypatch):
    once = run.tell(place, seed)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))  # Python finds none of its modules compiled
    assert run.tell(place, seed) == once


def test_a_seed_tells_the_same_story_elsewhere(place):
    with run.place() as another:
        assert run.tell(another, 40) == run.tell(place, 40)


def test_a_broker_that_dies_at_any_step_of_a_handshake(place):
    """A follower that asks for the page of the set and for a WebSocket does so within these steps."""
    for steps in range(100, 260):
        folder = place.folder / f"dies{steps}"
        with story.Story(folder, place.library, place.programs, place.template, 1) as one:
            one.start_broker()
            one.world.run(steps=1000)
            one.start_follower(0)
            one.world.run(steps=steps)
            one.world.kill(one.broker)
            one.world.run(seconds=1)
            one.watch()


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_bridge_publishes_what_came_right_before_a_loss_of_power(place, seed):
    """Of a set that is older than the bridge: its first look says where it begins, and no later one."""
    with story.Story(place.folder / f"bridge{seed}", place.library, place.programs, place.template, seed) as one:
        one.has_mqtt = True
        one.start_mqtt()
        one.start_broker()
        one.world.run(seconds=5)
        one.act("post", 1, 1, 1)
        party = one.posts[1][0]
        one.wait(60, lambda: party.is_over, "the post is not answered")
        one.world.lose_power("broker")
        one.start_broker()
        one.check_mqtt(one.log())


@pytest.mark.parametrize("first", range(1, SEEDS, AT_ONCE))
def test_stories(first):
    program = [sys.executable, Path(run.__file__), "--seeds", str(AT_ONCE), "--first", str(first)]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{AT_ONCE} stories, "), done.stdout


def test_the_plan_of_a_seed_has_each_kind_of_act():
    kinds = {act[0] for seed in range(1, SEEDS + 1) for act in story.plan(seed)}
    assert kinds == {
        "backup", "clock", "crash", "cut", "drift", "end", "failing", "file", "follow", "full", "harvest", "lie", "mirror", "post", "power",
        "revoke", "rotate", "silence", "suspend", "token", "verify", "wait",
    }  # fmt: skip
