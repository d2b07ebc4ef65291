"""tidings watch while things go wrong: it loses nothing, posts nothing twice, and
reports no deletion of files that are only away.

A test that kills the watch shows its seed where it fails, and TIDINGS_SEED=N repeats
its choices.
"""

import contextlib
import pathlib
import shutil

import pytest

from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for
from tidings_test.watched import BASE, Watched


@pytest.fixture
def watched(start_broker, tmp_path, start):
    return Watched(start_broker().set("files"), tmp_path, start)


def check_ends(watched, watching, words, n):
    """The watch ends by itself, with status 1 and these words, and posted nothing more
    than `n` entries."""
    assert watching.wait() == 1
    assert words in watching.errors()
    assert watched.fold.read() == n


def wait_for_retry(watching):
    """The watch has met no broker, and waits."""
    watching.err.find(lambda line: "again in" in line, "a pause")


# While the broker is away, changes wait; the last state of each file is posted, once,
# when it is back.
def test_waits_for_a_broker_that_is_away(watched):
    broker, fold = watched.broker, watched.fold
    watched.write("a", "a")
    watched.write("b", "b")
    watching = watched.start()
    watched.wait_same()

    broker.stop()
    watched.write("a", "a changed")
    watched.write("c", "c")
    watched.unlink("b")
    watched.mkdir("folder")
    watched.write("folder/d", "d")
    wait_for_retry(watching)
    broker.restart()
    watched.wait_same()
    assert fold.count("c") == 1
    watching.stop()

    # And SIGTERM ends it while it waits.
    broker.stop()
    watching = watched.start()
    watched.write("e", "e")
    wait_for_retry(watching)
    watching.stop()
    watched.run("--once", status=1)
    broker.restart()
    watched.run("--once")
    watched.wait_same()
    assert fold.count("e") == 1


class Churn:
    """Random changes of a tree; most of them fail where there is nothing to change,
    which is fine."""

    def __init__(self, directory, choices):
        self.directory = directory
        self.choices = choices

    def _file(self, folder):
        return folder / f"f{self.choices.randrange(40)}"

    def once(self):
        folder = self.directory / f"d{self.choices.randrange(4)}"
        other = self.directory / f"d{self.choices.randrange(4)}"
        what = self.choices.randrange(12)
        with contextlib.suppress(OSError):
            if what == 0:
                self._file(folder).unlink()
            elif what == 1:
                self._file(folder).rename(self._file(other))
            elif what == 2:
                # Not deeper and deeper: a round would have no end.
                if not (folder / "moved/moved/moved").exists():
                    folder.rename(other / "moved")
            elif what == 3:
                (folder / "moved").rename(other)
            else:
                folder.mkdir(exist_ok=True)
                self._file(folder).write_text(str(self.choices.random()))


# SIGKILL at any moment, while files change: in the end the set says what the directory
# holds.
def test_loses_nothing_when_it_is_killed(watched):
    chosen = choices()
    churn = Churn(watched.directory, chosen)
    for i in range(soak(6, 16)):
        before = watched.fold.read()  # what the round before has posted
        watching = watched.begin()
        if i % 2:
            # It has not got the answer to its post yet, or not written it down.
            def look(before=before):
                churn.once()
                return watched.fold.read() > before

            wait_for("another entry", look)
        else:
            for _ in range(chosen.randrange(300)):
                churn.once()
        watching.kill()
    watching = watched.start()
    watched.wait_same()
    watching.stop()


# A queue that runs over means looking at everything.
def test_looks_at_everything_when_the_queue_ran_over(watched):
    events = pathlib.Path("/proc/sys/fs/inotify/max_queued_events")
    n = int(events.read_text())
    if n > 100000:
        pytest.skip(f"it takes {n} events")
    watched.mkdir("gone")
    watched.write("gone/a", "a")
    watching = watched.start()
    watched.wait_same()

    watching.halt()
    watched.write("here", "full")
    for _ in range(n // 2 + 1):  # two news each, never merged
        watched.move("here", "there")
        watched.move("there", "here")
    watched.mkdir("new")
    watched.write("new/b", "b")
    watched.move("gone", "../gone")
    watched.write("late", "late")
    watching.go_on()
    watched.wait_same()
    assert watched.fold.of("gone/a")["change"] == "deleted"

    # And new folders are watched.
    watched.write("new/b", "changed")
    watched.fold.wait_change("new/b", "updated")
    watching.stop()


# A missing directory says nothing of its files: moved away, removed with all files, or
# another one in its place.
def test_ends_when_the_directory_is_gone(watched):
    gone = "was removed, moved or unmounted"
    directory, moved = watched.directory, watched.home / "moved"
    watched.mkdir("folder")
    watched.write("folder/a", "a")
    watched.write("b", "b")
    watching = watched.start()
    watched.wait_same()
    directory.rename(moved)
    check_ends(watched, watching, gone, 2)

    # Moved while it did not listen, with another one in its place.
    moved.rename(directory)
    watching = watched.start()
    watching.halt()
    directory.rename(moved)
    directory.mkdir()
    watched.write("b", "another b")
    watching.go_on()
    check_ends(watched, watching, gone, 2)

    shutil.rmtree(directory)
    moved.rename(directory)
    watching = watched.start()
    watching.halt()
    shutil.rmtree(directory)
    watching.go_on()
    check_ends(watched, watching, gone, 2)

    check_ends(watched, watched.begin("--once"), "No such file or directory", 2)


# An empty directory where files were posted is refused: a file system may not be
# mounted.
def test_does_not_believe_an_empty_directory(watched):
    state = ("--state", watched.home / "state")
    watched.write("a", "a")
    watched.run("--once", *state)
    watched.unlink("a")
    watched.mkdir("lost+found")

    for options in (("--once", *state), state):
        check_ends(watched, watched.begin(*options), "--allow-empty", 1)
    watched.run("--once", "--allow-empty", *state)
    watched.fold.wait_change("a", "deleted")


# Unmounted while it is watched, and not mounted at the next start.
def test_does_not_believe_a_mount_point(watched, start, run):
    state = ("--state", watched.home / "state")
    mount = f"mount -t tmpfs -o size=1m tmpfs '{watched.directory}' && echo on && cat"
    mounting = start("/usr/bin/unshare", "--mount", "/bin/sh", "-c", mount)
    try:
        mounting.out.wait(1)
    except AssertionError:
        pytest.skip("nothing may be mounted here")
    there = ("/usr/bin/nsenter", "--target", mounting.pid, "--mount")
    watched.root = pathlib.Path(f"/proc/{mounting.pid}/root{watched.directory}")
    watched.write("a", "a")
    watching = watched.start(*state, within=there)
    watched.fold.wait_change("a", "created")
    watched.mark()
    watched.wait_same()

    def unmount():  # busy while a file is being read
        done = run(*there, "/usr/bin/umount", watched.directory, status=None)
        return done.status == 0

    wait_for("the directory to be unmounted", unmount)
    check_ends(watched, watching, "unmounted", 2)
    watching = watched.begin(*state, within=there)
    check_ends(watched, watching, "is a file system not mounted?", 2)


# No more watches: which setting, and how much it is.
def test_names_the_limit_of_watches(watched):
    for i in range(10):
        watched.mkdir(f"d{i}")
    few = "echo 3 > /proc/sys/user/max_inotify_watches || exit 77; exec \"$@\""
    shell = ("/bin/sh", "-c", few, "sh")
    watching = watched.begin(
        within=("/usr/bin/unshare", "--user", "--map-root-user", *shell)
    )
    status = watching.wait()
    if status == 77 or "unshare" in watching.errors():
        pytest.skip("no user namespace may be made here")
    assert status == 1
    assert "fs.inotify.max_user_watches" in watching.errors()
    assert watching.output() == ""


# One watch per state; and a state belongs to one set.
def test_keeps_its_state_to_itself(watched):
    watched.write("a", "a")
    watching = watched.start()
    watched.wait_same()
    said = watched.run(status=1).errors()
    assert said.startswith("tidings: the state of this watch: ")
    assert f"in use by process {watching.pid}" in said
    watching.stop()
    second = watched.run(base="http://example.com/elsewhere/", status=1)
    assert "choose another --state" in second.errors()

    # Without its state it would post everything again some day.
    watching = watched.start()
    shutil.rmtree(watched.path(".tidings"))
    check_ends(watched, watching, "was removed", 1)


# A set that was made anew knows nothing of earlier posts.
def test_posts_everything_to_a_set_that_is_new(watched):
    watched.write("a", "a")
    watched.write("b", "b")
    watched.run("--once")
    watched.wait_same()

    watched.broker.stop()
    shutil.rmtree(watched.broker.data)
    watched.broker.restart()
    watched.fold.forget()
    watched.write("c", "c")
    watching = watched.start()
    watched.wait_same()
    watching.stop()
    assert "made anew" in watching.errors()


# The same while it watches: the set is removed behind its back. Its next change begins
# the new set, which then gets all files.
def test_posts_everything_to_a_set_that_was_removed(watched):
    news = watched.set
    watched.write("a", "a")
    watched.write("b", "b")
    watching = watched.start()
    watched.wait_same()
    for i in range(3):
        assert news.delete().status == 204
        watched.fold.forget()
        watched.write(f"c{i}", "c")
        wait_for("the set to be there again", lambda: news.get().status != 410)
        watched.wait_same()
    watching.stop()
    assert "made anew" in watching.errors()


# A file that no loc can name is skipped and reported; names and folders as long as locs
# allow are posted. In a loc, "%" takes three bytes.
def test_passes_over_what_is_too_long_for_a_loc(watched):
    room = 2048 - len(BASE) - 2 * (3 * 255 + 1)
    folders = pathlib.Path("%" * 255, "%" * 255)
    watched.path(folders).mkdir(parents=True)
    watched.write(folders / ("%" * (room // 3) + "a" * (room % 3)), "just fits")
    too_long = "%" * (room // 3) + "a" * (room % 3 + 1)
    watched.write(folders / too_long, "is a byte too long")
    watched.write("short", "s")
    watching = watched.run("--once")
    assert "first=1 last=2 " in watching.output()
    assert "is not published: its URI" in watching.errors()
    assert watched.run("--once").output() == ""


# Each is a name that went and one that came; most are gone again before the watch looks
# at them.
def test_keeps_up_with_many_renames(watched):
    for i in range(100):
        watched.write(f"d{i}", f"d{i}")
    watched.write("f0", "f")
    watching = watched.start()
    watched.wait_same()
    renames = soak(3000, 10000)
    for i in range(1, renames + 1):
        watched.move(f"f{i - 1}", f"f{i}")
        if i % 100 == 0:  # names go round among those that stay
            name = f"d{i // 100 % 100}"
            watched.move(name, f"d{(i // 100 + 1) % 100}")
            watched.write(name, "new")
    watched.wait_same()
    assert watched.fold.count(f"f{renames}") == 1
    watching.stop()
