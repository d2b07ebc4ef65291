"""`tidings audit` finds each thing that can be wrong with a mirror, and mends it."""

import signal

import pytest

from tidings_test.broker import PROGRAMS
from tidings_test.mirrored import Mirrored
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")


def fill(mirrored):
    for path, text in (("/a.txt", "a"), ("/b.txt", "b"), ("/c.txt", "c")):
        mirrored.change(path, text)
    mirrored.change("/d/e.txt", "e")
    mirrored.sync()


@pytest.fixture
def mirrored(mirrored):
    fill(mirrored)
    return mirrored


def spoil(mirrored, path):
    """Write other bytes of the same length."""
    mirrored.write(mirrored.place(path), "x")


def check_found(mirrored, done, *findings):
    """The audit has said these findings, of a kind and a path each."""
    for kind, path in findings:
        at = f"{mirrored.site.link(path)} at {mirrored.place(path)}: "
        assert f"{kind:8}{at}" in done.output()


def check_counts(done, missing=0, stale=0, extra=0, corrupt=0, repaired=0):
    counts = f"missing={missing} stale={stale} extra={extra} corrupt={corrupt} "
    assert f"{counts}repaired={repaired}" in done.output()


def test_finds_nothing_where_all_is_well(mirrored):
    done = mirrored.audit()
    check_counts(done)
    assert "compared=4 missing=0 " in done.output()
    assert "left_out=0 by_digest=4 by_length=0 by_time=0 unchecked=0 position=" in (
        done.output()
    )
    assert "complete as of 20" in done.errors()
    mirrored.audit("--no-digests")
    assert '{"compared":4,"missing":0,' in mirrored.audit("--json").output()
    mirrored.check_same()


# A file is not corrupt because the program lacks the descriptor to read it.
def test_a_lack_of_descriptors_is_no_finding(mirrored, faults, start):
    unread = f"cannot read {mirrored.place('/a.txt')}: Too many open files"
    # With 64 it has all that it needs. It needs some more than 20: each step below 32.
    limits = iter((64, *range(32, 0, -1)))
    errors = ""
    while unread not in errors:
        faults.limit_files(next(limits))
        done = start("tidings", "audit", mirrored.directory, env=faults.env)
        done.give("")
        status, errors = done.wait(), done.errors()
        if status == 0:
            check_counts(done)
        else:
            assert status == 1 and not done.output(), done.output()


def test_reports_that_its_lines_could_not_be_written(mirrored, run):
    mirrored.file("/a.txt").unlink()
    line = f"exec {PROGRAMS['tidings']} audit {mirrored.directory} --json > /dev/full"
    assert run("/bin/sh", "-c", line, status=1).errors() == (
        "tidings: cannot write to standard output: No space left on device"
    )


# Each kind is found, left alone, and mended.
def test_finds_and_mends_each_kind_of_fault(mirrored):
    stray = mirrored.place("/d/stray.txt")
    mirrored.file("/a.txt").unlink()
    mirrored.change("/new.txt", "new")
    mirrored.change("/b.txt", "B")
    mirrored.change("/d/e.txt", None)
    spoil(mirrored, "/c.txt")
    mirrored.write(stray, "mine")

    done = mirrored.audit(status=1)
    check_found(mirrored, done, ("missing", "/a.txt"), ("missing", "/new.txt"))
    check_found(mirrored, done, ("stale", "/b.txt"), ("corrupt", "/c.txt"))
    check_found(mirrored, done, ("extra", "/d/e.txt"))
    assert "/d/stray.txt: no resource of the mirror is there" in done.output()
    check_counts(done, missing=2, stale=1, extra=2, corrupt=1)
    assert mirrored.text(mirrored.place("/c.txt")) == "x"
    assert mirrored.text(stray) == "mine"

    done = mirrored.audit("--repair")
    check_counts(done, missing=2, stale=1, extra=2, corrupt=1, repaired=6)
    mirrored.check_same()
    assert mirrored.text(".tidings/found/1/stray.txt") == "mine"
    mirrored.audit()

    # And a sync goes on from there.
    mirrored.change("/a.txt", "after")
    mirrored.sync()


# The audit reports a file that it cannot mend, and mends the others.
def test_reports_a_file_that_it_cannot_mend(mirrored, site):
    mirrored.file("/a.txt").unlink()
    mirrored.file("/b.txt").unlink()
    site.status("/a.txt", 404)
    check_counts(mirrored.audit("--repair", status=1), missing=2, repaired=1)
    assert mirrored.text(mirrored.place("/b.txt")) == "b"
    site.status("/a.txt", None)
    mirrored.audit("--repair")
    mirrored.check_same()


# A link or a directory in place of a file; a file with another time.
def test_finds_links_and_directories_in_place_of_files(mirrored):
    mirrored.file("/a.txt").unlink()
    mirrored.file("/a.txt").symlink_to("b.txt")
    mirrored.file("/b.txt").unlink()
    mirrored.file("/b.txt").mkdir()
    done = mirrored.audit(status=1)
    check_found(mirrored, done, ("corrupt", "/a.txt"), ("corrupt", "/b.txt"))
    mirrored.audit("--repair")
    mirrored.check_same()

    # Without digests, its time shows that a file of the same length is another one.
    spoil(mirrored, "/c.txt")
    done = mirrored.audit("--no-digests", status=1)
    check_found(mirrored, done, ("corrupt", "/c.txt"))


# a repair holds deletions back that are too many, and does all else.
def test_holds_too_many_deletions_back(mirrored):
    mirrored.change_many(1, 196, "text")
    mirrored.sync()
    mirrored.change_many(1, 150, None)
    for consent in ((), ("--accept-deletions", "149")):
        spoil(mirrored, "/r/160.txt")
        held = mirrored.audit("--repair", *consent, status=1)
        assert "held back: 150 of 200 resources would be deleted" in held.errors()
        assert "complete as of" not in held.errors()
        assert mirrored.file("/r/1.txt").exists()
        assert mirrored.text(mirrored.place("/r/160.txt")) == "text 160"
    mirrored.audit("--repair", "--accept-deletions", "150")
    mirrored.check_same()


# all that others have replaced, at each repair.
def test_holds_back_all_at_each_repair(mirrored):
    for path in ("/a.txt", "/b.txt", "/c.txt", "/d/e.txt"):
        mirrored.change(path, None)
    mirrored.change_many(1, 8, "text")
    for _ in range(2):
        held = mirrored.audit("--repair", status=1)
        assert "held back: 4 of 4 resources would be deleted" in held.errors()
        assert mirrored.file("/a.txt").exists() and mirrored.file("/r/8.txt").exists()
    mirrored.audit("--repair", "--accept-deletions", "4")
    mirrored.check_same()


# The audit waits for a source that is away, and says so.
def test_reports_that_the_source_is_away(start_broker, site, tmp_path, run, start):
    mirrored = Mirrored(start_broker().set(), site, tmp_path, run, start)
    fill(mirrored)
    mirrored.broker.stop()
    auditing = start("tidings", "audit", mirrored.directory)
    auditing.err.find(lambda line: "connect to server; it is tried again" in line)
    auditing.signal(signal.SIGTERM)
    assert auditing.wait() == 1
    assert auditing.output() == ""
    assert "stopped before all was" in auditing.errors()


LONG = f"{'long' * 40}/{'long' * 40}"


def stop_at_first_finding(mirrored, start):
    """Begin to mend the mirror, and stop that by SIGTERM when the audit has printed its
    first finding. It has more findings than the pipe takes, so it has not printed all.
    Returns how many it has printed."""
    arguments = ("audit", "--repair", mirrored.directory)
    auditing = start("tidings", *arguments, reads_output=False)
    said = auditing.popen.stdout
    assert said.readline()
    auditing.signal(signal.SIGTERM)
    n = 1 + len(said.readlines())
    assert auditing.wait() == 1
    assert "stopped before all was" in auditing.errors()
    return n


# Before the audit has compared everything it mends nothing.
def test_is_stopped_while_it_compares(mirrored, start):
    paths = [f"/{LONG}/{i}.txt" for i in range(200)]
    for path in paths:
        mirrored.change(path, "right")
    mirrored.sync()
    stray = mirrored.place("/d/stray.txt")
    mirrored.write(stray, "mine")
    for path in paths:
        mirrored.write(mirrored.place(path), "wrong")

    assert stop_at_first_finding(mirrored, start) < 200
    assert mirrored.text(stray) == "mine"
    assert all(mirrored.text(mirrored.place(path)) == "wrong" for path in paths)
    check_counts(mirrored.audit(status=1), extra=1, corrupt=200)


# Nor does it move the user's files if it is stopped during that search.
def test_is_stopped_while_it_looks_for_stray_files(mirrored, start):
    names = [f"{LONG}/{i}" for i in range(400)]
    for name in names:
        mirrored.write(name, "mine")
    assert stop_at_first_finding(mirrored, start) < 400
    assert all(mirrored.text(name) == "mine" for name in names)


# The history was cut, and the set has no Resource List: the source no longer names all
# resources. The mirror knows them, as it has followed.
def test_audits_by_its_own_state_where_the_history_was_cut(mirrored):
    news = mirrored.set
    mirrored.change("/a.txt", "A")
    mirrored.change("/b.txt", None)
    mirrored.sync()
    assert news.change(discard=True, retain_lists=1, rotate_entries=1).status == 200
    mirrored.change("/f.txt", "f")
    mirrored.post()
    wait_for("the first list to go", lambda: news.get("changes?after=0").status == 410)

    spoil(mirrored, "/c.txt")
    for how, part in ((), "compared at "), (("--full",), "compared with the earlier list"):
        done = mirrored.audit(*how, status=1)
        assert part in done.errors()
        check_found(mirrored, done, ("corrupt", "/c.txt"), ("missing", "/f.txt"))
        check_counts(done, missing=1, corrupt=1)
    mirrored.audit("--repair")
    mirrored.check_same()
    mirrored.audit()

    # A mirror that was never filled has nothing to compare with.
    mirrored.directory = mirrored.home / "other"
    mirrored.sync(status=3)
    mirrored.audit(status=3)


def test_needs_a_mirror(mirrored):
    mirrored.directory = mirrored.home / "other"
    mirrored.audit(status=1)
    mirrored.directory.mkdir()
    assert "is no mirror" in mirrored.audit(status=1).errors()
