"""A directory tree with its content: real files and a sparse one of 2 GB, on somebody
else's web server, watched, fetched, and packed into dumps that others open."""

import hashlib
import pathlib
import re
import shutil
import zipfile

import pytest

from tidings_test.broker import ROOT
from tidings_test.documents import Document
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# A package, so that there are several beside that of the large file.
pytestmark = pytest.mark.broker(
    *("--content", "fetch", "--allow-callbacks", "127.0.0.0/8"),
    *("--package-bytes", "65536"),
)


class Tree:
    """Documents of this project, names that need escapes, empty and large files; and
    Python's own server of them: a peer that knows nothing of us."""

    def __init__(self, news, directory, start, run, megabytes):
        self.set = news
        self.directory = directory
        self.run = run
        self.files = directory / "files"
        self.files.mkdir()
        shutil.copytree(ROOT / "tests/spec", self.files / "spec")
        (self.files / "empty").touch()
        (self.files / "a b&c.txt").write_text("a")
        (self.files / "grün.csv").write_text("b")
        with open(self.files / "large.bin", "wb") as large:
            large.truncate(megabytes << 20)
            large.seek(-100, 2)
            large.write(b"near the end")
        server = start(
            *("/usr/bin/python3", "-u", "-m", "http.server", "0"),
            *("--bind", "127.0.0.1", "--directory", self.files),
        )
        line = server.out.wait(1)
        port = re.match(r"Serving HTTP on 127\.0\.0\.1 port (\d+)", line)[1]
        self.base = f"http://127.0.0.1:{port}/"

    def tell(self):
        """Post the changes of the directory, by one run of tidings watch."""
        self.run(
            *("tidings", "watch", self.files, self.set.url, "--base-uri", self.base),
            *("--once", "--state", self.directory / "watch"),
        )

    def wait_content(self):
        """Wait until the bytes of all entries are there."""

        def is_there():
            state = self.set.state()
            content = state["content"]
            return content["missing"] == 0 and content["last"] == state["last"]

        wait_for("the content of all files", is_there)

    def check_packages(self, folder):
        """Every package on the disk, as unzip and Python see it: whole, and with the
        members that its manifest names."""
        packages = sorted((self.set.folder / folder).glob("*/*.zip"))
        assert len(packages) > 3
        for package in packages:
            self.run("/usr/bin/unzip", "-tq", package)
            check_package(package)


def check_package(path):
    with zipfile.ZipFile(path) as package:
        assert package.testzip() is None
        manifest = Document(package.read("manifest.xml"))
        named = {md.get("path")[1:]: md for md in manifest.all("//s:url/rs:md[@path]")}
        assert set(named) == set(package.namelist()) - {"manifest.xml"}
        for name, md in named.items():
            assert package.getinfo(name).file_size == int(md.get("length"))
            with package.open(name) as member:
                sum_ = hashlib.file_digest(member, "sha256").hexdigest()
            assert f"sha-256:{sum_}" in md.get("hash")


@pytest.fixture
def start_tree(news, tmp_path, start, run):
    return lambda megabytes: Tree(news, tmp_path, start, run, megabytes)


def sums(*directories):
    """The SHA-256 of all files below them."""
    found = []
    for directory in directories:
        for path in pathlib.Path(directory).rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return sorted(found)


# a Resource Dump of the tree is what the tree
# is, for unzip, for Python, and for a mirror that takes it.
def test_a_tree_of_files_becomes_a_dump_that_others_open(start_tree, run):
    tree = start_tree(soak(32, 2048))
    tree.tell()
    tree.wait_content()
    tree.set.build("resourcedump")
    tree.check_packages("resourcedump")
    mirror = tree.directory / "mirror"
    run("tidings", "sync", tree.set.url, mirror, "--until-caught-up")
    # Names are made safe there; the bytes are the same.
    assert sums(*mirror.glob("127*")) == sums(tree.files)


# each change with
# the bytes that the file had then.
def test_changes_of_a_tree_become_dumps_that_others_open(start_tree):
    tree = start_tree(1)
    tree.tell()
    tree.wait_content()
    for i in range(3):
        (tree.files / "empty").write_text(str(i))
        tree.tell()
        tree.wait_content()
    (tree.files / "large.bin").unlink()
    tree.tell()
    tree.set.rotate()
    dump = "changedump.xml"
    wait_for("the Change Dump", lambda: tree.set.get(dump).status == 200)
    tree.check_packages("changedump")
