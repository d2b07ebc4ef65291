#!/usr/bin/env python3
"""Keeps every change of a set in an SQLite database, exactly once: store.py SET-URL FILE

A transaction has the changes of a message, and its position. So the database never has
one without the other, and another run goes on where this one was killed.
"""

import sqlite3
import sys

import tidings


def keep(connection: sqlite3.Connection, message: tidings.Message) -> None:
    with connection:  # commits, or rolls back
        for change in message.changes:
            row = (change.seq, change.change, change.loc, change.text)
            connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", row)
        if message.position:
            tidings.save_position(connection, "set", message.position)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    connection = sqlite3.connect(sys.argv[2])
    connection.execute("CREATE TABLE IF NOT EXISTS changes (seq, change, loc, entry)")
    position = tidings.load_position(connection, "set") or "0"
    with tidings.follow(sys.argv[1], position=position) as follower:
        for message in follower.messages():
            keep(connection, message)
            print(message.last, flush=True)


try:
    main()
except KeyboardInterrupt:
    pass
