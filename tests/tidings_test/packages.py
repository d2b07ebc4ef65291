"""A package index of Debian, as real resources to publish.

    for name, (sha256, size) in packages():
        loc = f"http://deb.example.org/debian/{name}"
"""

import re
import subprocess

from tidings_test.soak import soak


def packages():
    """The path, SHA-256 and size of each package with a file that apt's lists know; if
    they are empty, of the installed ones. At least 5,000, in the order of their paths;
    not more, unless in the long form."""
    done = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=False)
    found = {}
    for stanza in done.stdout.decode().split("\n\n"):
        values = dict(re.findall(r"^(Filename|SHA256|Size): (.*)$", stanza, re.M))
        if len(values) == 3:
            found[values["Filename"]] = values["SHA256"], int(values["Size"])
    if not found:
        with open("/var/lib/dpkg/status", encoding="utf-8") as status:
            names = re.findall(r"^Package: (.*)$", status.read(), re.M)
        for i in range(soak(5000, 65000)):
            name = f"pool/{i // len(names)}/{names[i % len(names)]}.deb"
            found[name] = f"{i:064x}", i
    assert len(found) >= 5000
    return sorted(found.items())[: soak(5000, None)]
