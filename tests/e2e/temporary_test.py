"""Programs without room for temporary files: the folder that TMPDIR names is not there, or
full, in the test's own mount namespace. Where the system permits none, tests are skipped."""

import ctypes
import json
import os

import pytest

from tidings_test.layouts import Sitemap

CLONE_NEWNS = 0x20000
MS_PRIVATE_ALL = 0x44000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 0x20, 0x1000, 0x4000
MNT_DETACH = 2

OTHERS = ("/var/tmp", "/usr/tmp", "/tmp")  # where there is no TMPDIR


@pytest.fixture
def mount(tmp_path):
    """mount(folder): a file system of 64 KiB in its place; mount(folder, flags): the folder
    itself again, with these flags."""
    libc = ctypes.CDLL(None, use_errno=True)
    folders = []

    def mount(folder, flags=None):
        path = os.fsencode(folder)
        if not folders and (libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None)):
            pytest.skip("no mount namespace to be had (it takes root)")
        if flags is None:
            assert libc.mount(b"tidings-test", path, b"tmpfs", 0, b"size=64k") == 0, folder
        else:
            assert libc.mount(path, path, None, MS_BIND | MS_REC, None) == 0, folder
            assert libc.mount(None, path, None, MS_REMOUNT | MS_BIND | flags, None) == 0, folder
        folders.append(path)

    yield mount
    for path in reversed(folders):
        libc.umount2(path, MNT_DETACH)


def fill(folder):
    with open(folder / "ballast", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


N = 20000  # resources of a list: more than the cache of SQLite has room for

# What a program says; "": it needs no room. TMP is the folder that is full, or where there
# is none the last one that it tries.
FULL, MISSING = "No space left on device", "Read-only file system"
NO_ROOM = "TMP: the disk has 0 MiB free, and --min-free keeps 1024 MiB"
WITHIN = "with temporary files in TMP: the last list of the source"
ROWS = [
    ("get URL", "", ""),
    ("verify URL", "names no Change List", "names no Change List"),
    ("sync URL DIR --until-caught-up", NO_ROOM, NO_ROOM),
    ("sync URL DIR --until-caught-up --min-free none", "404", "404"),
    ("follow URL --from-start --until-caught-up", NO_ROOM, NO_ROOM),
    ("follow URL --from-start --until-caught-up --min-free none", WITHIN, WITHIN),
    ("harvest URL SET --once --state STATE", NO_ROOM, NO_ROOM),
    ("harvest URL SET --once --state STATE --min-free none", WITHIN, WITHIN),
    ("harvest URL SET --once --state STATE --dry-run", "TMP/tidings-harvest", "cannot make TMP/tidings-harvest"),
    ("audit MIRROR", NO_ROOM, NO_ROOM),
    ("audit MIRROR --min-free none", WITHIN, WITHIN),
    ("publish SET --full LIST", NO_ROOM, f"cannot make a temporary file in TMP: {MISSING}"),
    ("publish SET --full LIST --min-free none", f"cannot write a file in TMP: {FULL}",
     f"cannot make a temporary file in TMP: {MISSING}"),
    ("publish INLINE http://e.x/1 --change created --content LIST", f"cannot write a file in TMP: {FULL}",
     f"cannot make a temporary file in TMP: {MISSING}"),
]  # fmt: skip


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "missing"])
def test_programs_say_where_they_have_no_room(is_full, mount, site, broker, run, tmp_path):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a"})
    names = {"URL": source.url, "SET": broker.set().create().url, "INLINE": broker.set().create(content="inline").url}
    for name in ("DIR", "STATE", "MIRROR", "LIST", "TMP"):
        names[name] = str(tmp_path / name)
    run("tidings", "sync", source.url, names["MIRROR"], "--until-caught-up")
    locs = [site.link(f"/files/{i:060}") for i in range(N)]
    site.put(source.start, "".join(f"{loc}\n" for loc in locs), type="text/plain")
    (tmp_path / "LIST").write_text("".join(json.dumps({"loc": loc}) + "\n" for loc in locs))
    work, folder = tmp_path / "work", tmp_path / "TMP"
    work.mkdir()
    folder.mkdir()
    if is_full:
        mount(folder)
        fill(folder)
    else:
        folder.rmdir()
        names["TMP"] = "."
        mount(tmp_path, 0)  # it stays, and so does what may lie beside it: the programs
        mount(work)
        for other in (*filter(os.path.isdir, OTHERS), work):
            mount(other, MS_RDONLY)
    for words, full, missing in ROWS:
        given = [names.get(word, word) for word in words.split()]
        done = run("tidings", *given, status=None, env={"TMPDIR": str(folder)}, cwd=work)
        expected = (full if is_full else missing).replace("TMP", names["TMP"])
        assert expected in done.errors() and done.status == (1 if expected else 0), words
        left = [*work.iterdir(), *(folder.iterdir() if is_full else ())]
        assert left == [folder / "ballast"] * is_full, words
