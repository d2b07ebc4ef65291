"""Publish changes to a broker, follow any ResourceSync source, mirror its resources.

    import tidings

    tidings.publish(url, {"loc": "https://example.com/a", "change": "updated"})

    for change in tidings.follow(url, position="0"):
        print(change.change, change.loc)

Everything is done by libtidings, which repeats, reconnects and pulls what was missed;
failures that remain are exceptions, tidings.Error. doc/python.md is the manual.

__version__ is the version of this package, library_version that of libtidings.

Threads: each call opens a handle of its own, so any thread may call any function. One
thread at a time uses a Follower; stop() may be called from all. A Publisher is for all
threads.
"""

from tidings._checkpoint import Checkpoint, CheckpointError
from tidings._errors import IO, Broken, Different, Error, Gone, Invalid, Memory, Refused
from tidings._errors import Rewound, Stopped, Unreachable
from tidings._follow import AsyncFollower, Change, Follower, Kind, Link, Message
from tidings._follow import afollow, follow, load_position, load_positions
from tidings._follow import save_position
from tidings._handle import Access, Limits
from tidings._libtidings import ffi as _ffi, lib as _lib
from tidings._mirror import File, Synced, What, async_sync, sync
from tidings._publish import Publisher, Receipt, apublish, publish
from tidings._source import AsyncSourceFollower, SourceFollower
from tidings._source import afollow_source, follow_source
from tidings._verify import Proof, sets, verify

__all__ = [
    "IO",
    "Access",
    "AsyncFollower",
    "AsyncSourceFollower",
    "Broken",
    "Change",
    "Checkpoint",
    "CheckpointError",
    "Different",
    "Error",
    "File",
    "Follower",
    "Gone",
    "Invalid",
    "Kind",
    "Limits",
    "Link",
    "Memory",
    "Message",
    "Proof",
    "Publisher",
    "Receipt",
    "Refused",
    "Rewound",
    "SourceFollower",
    "Stopped",
    "Synced",
    "Unreachable",
    "What",
    "afollow",
    "afollow_source",
    "apublish",
    "async_sync",
    "follow",
    "follow_source",
    "load_position",
    "load_positions",
    "publish",
    "save_position",
    "sets",
    "sync",
    "verify",
]

__version__: str = _ffi.string(_lib.PACKAGE_VERSION).decode()

_n = _lib.td_version()
library_version: str = f"{_n // 10000}.{_n // 100 % 100}.{_n % 100}"

for _name in __all__:  # tracebacks name tidings.Gone, not the module inside
    globals()[_name].__module__ = __name__
