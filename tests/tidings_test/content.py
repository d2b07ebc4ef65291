"""Changes that are posted with their bytes, and the packages of dumps, in which these
come back.

    body, type = multipart([change(loc)], [(loc, "text/plain", b"some text")])
    assert news.send(body, type).status == 200
    check_kept(news, 1, b"some text")
    package = Package(answer.body)
    package.check()
    package.members["resources/000000000001.txt"]
"""

import hashlib
import io
import zipfile

from tidings_test.documents import Document
from tidings_test.http import JSON, as_bytes

MULTIPART = "multipart/related; boundary=b-0"


def multipart(changes, parts, type=JSON):
    """A body of multipart/related and its type: changes, of that type, and the content
    of those with these locs: (loc, type or None, bytes)."""
    body = b"--b-0\r\nContent-Type: %b\r\n\r\n" % type.encode() + as_bytes(changes)
    for loc, type, content in parts:
        body += f"\r\n--b-0\r\nContent-Location: {loc}\r\n".encode()
        if type:
            body += f"Content-Type: {type}\r\n".encode()
        body += b"\r\n" + content
    return body + b"\r\n--b-0--\r\n", MULTIPART


def digest(content):
    return f"sha-256:{hashlib.sha256(content).hexdigest()}"


def hashes(content):
    """The SHA-256 of the content, as members of a change."""
    return {"hash": {"sha-256": hashlib.sha256(content).hexdigest()}}


def kept(of_set):
    """The files of contents that the set keeps, without the stubs of those in a bucket."""
    files = (of_set.folder / "content").glob("*/*")
    return [path for path in files if path.suffix != ".bucket"]


def held(of_set):
    """The digests of the contents that the set keeps: here, or in a bucket. A stub that
    a killed broker was writing (.new) is none; its thread removes it after an hour."""
    files = (of_set.folder / "content").glob("??/*")
    return {path.name[:64] for path in files if path.suffix != ".new"}


def arriving(broker):
    """The files of contents that are on their way."""
    return list((broker.data / "arriving").iterdir())


def contents(of_set):
    """The contents that the set keeps, each of which has to be under its name; while
    none is taken away."""
    files = {path: path.read_bytes() for path in kept(of_set)}
    for path, content in files.items():
        name = hashlib.sha256(content).hexdigest()
        assert (path.parent.name, path.name) == (name[:2], name)
    return set(files.values())


def check_kept(of_set, last, *expected):
    """The set ends with entry `last`, keeps exactly these contents, each once, and
    nothing is on its way."""
    assert of_set.last() == last
    assert contents(of_set) == set(expected)
    assert not arriving(of_set.broker)


class Package:
    """A ZIP package. `members` are their bytes by their names, `manifest` the
    document."""

    def __init__(self, data):
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            self.names = package.namelist()
            self.members = {name: package.read(name) for name in self.names}
        assert self.names[0] == "manifest.xml"
        self.manifest = Document(self.members["manifest.xml"])

    def at(self, path):
        """The bytes of the member at a path of the manifest."""
        assert path.startswith("/") and not path.endswith("/")
        return self.members[path[1:]]

    def check(self):
        """R-110, R-113, R-114, R-117, R-190, R-201: the manifest is at the top level.
        Exactly one of its entries names each other member, with a safe name, and states
        its length and SHA-256; the manifest names nothing else."""
        assert len({name.lower() for name in self.names}) == len(self.names)
        for name in self.names:
            assert name and ".." not in name and not name.startswith("/")
            assert "\\" not in name and ":" not in name
        named = self.manifest.all("/s:urlset/s:url/rs:md[@path]")
        paths = [md.get("path") for md in named]
        assert sorted(paths) == sorted(f"/{name}" for name in self.names[1:])
        for md in named:
            content = self.at(md.get("path"))
            assert int(md.get("length")) == len(content)
            assert digest(content) in md.get("hash")
