"""A directory at one moment, to prove that a program has written nothing.

    before = snapshot(broker.data)
    ...
    assert snapshot(broker.data) == before
"""


def snapshot(directory):
    """All files of a directory, with their bytes and times of change."""
    return {
        path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in [directory, *directory.rglob("*")]
    }
