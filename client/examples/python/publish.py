#!/usr/bin/env python3
"""Publishes changes, one a line of standard input: publish.py SET-URL SPOOL

A line is a JSON object, {"loc": "https://...", "change": "updated"}. What was read is in
the file SPOOL until the broker has it on its disk: another run posts what this one could
not.
"""

import json
import sys

import tidings

if len(sys.argv) != 3:
    sys.exit(__doc__)


def refused(number: int, change: str, why: str) -> None:
    print(f"publish: {change}: {why}", file=sys.stderr)


with tidings.Publisher(
    sys.argv[1], spool=sys.argv[2], on_refused=refused
) as publisher:
    for line in sys.stdin:
        publisher.add(json.loads(line))
print("all are durable or refused")
