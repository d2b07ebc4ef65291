"""The Python package of the build, and programs in Python that use it.

    from tidings_test.python import tidings      the package, in the test's own process
    run(*python(example("store.py"), url, file))
"""

import gc
import os
import sys

from tidings_test.broker import BIN, ROOT
from tidings_test.servers import Server
from tidings_test.waiting import Arrivals

PACKAGES = BIN.parent / "python"
ENV = {"PYTHONPATH": str(PACKAGES)}

sys.path.insert(0, str(PACKAGES))
import tidings  # noqa: E402, F401


def example(name):
    return ROOT / "client/examples/python" / name


def python(program, *arguments):
    """The command that runs a program, to be started with ENV; text is code."""
    return ("/usr/bin/python3", *(["-c"] * isinstance(program, str)), program, *arguments)


def descriptors():
    """How many descriptors this process has open, without those of garbage."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class Silent(Server):
    """Takes requests, and answers none. `requests` have come; of `ended`, the client
    has closed the connection."""

    def __init__(self):
        self.requests = Arrivals("requests")
        self.ended = Arrivals("ended connections")
        super().__init__()

    async def serve(self, peer):
        self.requests.add(await peer.head())
        await peer.gone()
        self.ended.add(peer.number)
