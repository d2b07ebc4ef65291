"""A data directory of an earlier version opens, and every document has the bytes that
the earlier broker served. TIDINGS_OLD names that program; without it nothing is tested.

    TIDINGS_OLD=/path/to/tidingsd ctest --test-dir build/dev -R crash/same_bytes
"""

import os
import re

import pytest

from tidings_test.broker import PROGRAMS
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

OLD = os.environ.get("TIDINGS_OLD")

OPTIONS = (
    "--rotate-entries",
    "50",
    "--retain-lists",
    "4",
    "--remove-grace",
    "0",
    "--index-lists",
    "2",
)
SETS = soak(8, 40)
POSTS = 40


def fill(broker):
    """Sets with closed lists, retired lists and builds; two of them removed, and one of
    these made again."""
    sets = [broker.set() for _ in range(SETS)]
    for i in range(POSTS):
        for one in sets:
            one.post(7, first=i)
    closed = {one: POSTS * 7 // 50 for one in sets}
    for one in sets[:3]:
        closed[one] = one.rotate()
        one.build("resourcelist")
        one.post(3)
    for one in sets:
        retired = one.list_path(closed[one] - 4)
        wait_for(f"{retired} to retire", lambda: one.get(retired).status == 410)
    sets[0].delete()
    sets[1].delete()
    sets[1].post(5)


def served(broker):
    """The bytes of all documents that lead on from the Source Description and from the
    description of the sets, by path and encoding."""
    found = {}
    paths = ["/.well-known/resourcesync", "/sets"]
    while paths:
        path = paths.pop()
        if (path, "gzip") in found:
            continue
        for encoding in ("identity", "gzip"):
            answer = broker.get(path, accept_encoding=encoding)
            found[path, encoding] = answer.status, answer.body
        plain = found[path, "identity"][1]
        link = re.escape(broker.url) + r"(/[^\"<& ]*)"
        paths += re.findall(link, plain.decode())
    return found


@pytest.mark.skipif(not OLD, reason="TIDINGS_OLD names no earlier program")
def test_an_earlier_data_directory_has_the_same_bytes(start_broker, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setitem(PROGRAMS, "tidingsd", OLD)
        broker = start_broker(*OPTIONS)
        fill(broker)
        before = served(broker)
        broker.stop()
    broker.restart()

    assert len(before) > 100
    assert served(broker) == before
