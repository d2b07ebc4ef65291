"""tidings watch: real files, a real broker."""

import os

import pytest

from tidings_test.watched import Watched


@pytest.fixture
def watched(broker, tmp_path, start):
    return Watched(broker.set(), tmp_path, start)


# an entry's facts about a file.
def test_posts_type_length_and_time_of_a_file(watched):
    fold = watched.fold
    watching = watched.start()
    watched.write("a.html", "<p>hello</p>")
    entry = fold.wait_change("a.html", "created")
    assert (entry["type"], entry["length"]) == ("text/html", 12)
    watched.wait_same()

    # Outside: the watch could post it before it has its time.
    watched.write("../a.html", "<p>hello again</p>")
    os.utime(watched.path("../a.html"), ns=(1775067000 * 10**9, 1775067000125 * 10**6))
    watched.move("../a.html", "a.html")
    entry = fold.wait_change("a.html", "updated")
    assert (entry["length"], entry["lastmod"]) == (18, "2026-04-01T18:10:00.125Z")
    watched.wait_same()

    watched.unlink("a.html")
    fold.wait_change("a.html", "deleted")
    watched.write("a.html", "<p>once more</p>")
    fold.wait_change("a.html", "created")
    watching.stop()


# A rename is deleted and created; also of a folder.
def test_posts_renames_as_deletion_and_creation(watched):
    fold = watched.fold
    watched.path("old/deep").mkdir(parents=True)
    watched.write("old/deep/a", "a")
    watched.write("old/b", "b")
    watching = watched.start()
    watched.wait_same()

    watched.move("old/b", "old/c")
    fold.wait_change("old/c", "created")
    watched.move("old", "new")
    fold.wait_change("new/deep/a", "created")
    watched.wait_same()
    assert fold.of("old/b")["change"] == "deleted"

    # The watch follows it to its new place.
    watched.write("new/deep/a", "another a")
    fold.wait_change("new/deep/a", "updated")
    watched.move("new", "old")
    watched.write("old/deep/a", "a third a")
    watched.wait_same()
    watching.stop()


# Folders that come with content, and go with it.
def test_follows_folders_that_come_and_go(watched):
    fold = watched.fold
    watching = watched.start()
    watched.path("../outside/deep").mkdir(parents=True)
    watched.write("../outside/deep/a", "a")
    watched.write("../outside/b", "b")

    watched.move("../outside", "inside")
    fold.wait_change("inside/deep/a", "created")
    watched.wait_same()
    watched.write("inside/deep/a", "changed inside")
    fold.wait_change("inside/deep/a", "updated")

    watched.move("inside", "../outside")
    fold.wait_change("inside/deep/a", "deleted")
    watched.wait_same()

    # And it is not watched any more.
    watched.write("../outside/b", "changed outside")
    watched.mark()
    watched.wait_same()
    watching.stop()


# Files that are written into a folder before the watch sees it are posted, once.
def test_misses_nothing_in_new_folders(watched):
    watching = watched.start()
    paths = [f"n{i}/b/c/file" for i in range(60)]
    for path in paths:
        watched.path(path).parent.mkdir(parents=True)
        watched.write(path, path)
    watched.wait_same()
    assert {watched.fold.count(path) for path in paths} == {1}
    watching.stop()


# A half-written file is posted once, when it is closed; also one that was begun before
# the watch, and one in a new folder.
def test_posts_a_half_written_file_once(watched):
    fold = watched.fold

    def begin(path):
        file = open(watched.path(path), "w")
        file.write("half")
        file.flush()
        return file

    files = {"before": begin("before")}
    watching = watched.start()
    watched.mkdir("new")
    files.update({path: begin(path) for path in ("after", "new/inside")})
    watched.mark()
    assert [fold.count(path) for path in files] == [0, 0, 0]

    for path, file in files.items():
        file.write(" and whole")
        file.close()
        assert fold.wait_change(path, "created")["length"] == 14
        assert fold.count(path) == 1
    watched.wait_same()
    watching.stop()


# At the start the watch compares the directory with what it posted before.
def test_posts_changes_that_were_made_between_two_runs(watched):
    fold = watched.fold
    watched.mkdir("folder")
    for name in ("kept", "changed", "deleted"):
        watched.write(f"folder/{name}", name)
    watched.write("folder.txt", "sorts between a folder and what is in it")
    watching = watched.start()
    watched.wait_same()
    watching.stop()

    watched.write("folder/changed", "CHANGED")  # as long, as young perhaps
    watched.unlink("folder/deleted")
    watched.write("folder/new", "new")
    watching = watched.start()
    watched.wait_same()
    assert (fold.count("folder/kept"), fold.count("folder/changed")) == (1, 2)
    watching.stop()

    # A folder in place of a file, and a file in place of a folder.
    watched.unlink("folder.txt")
    watched.mkdir("folder.txt")
    watched.write("folder.txt/inside", "inside")
    watched.move("folder", "../folder")
    watched.write("folder", "a file")
    watched.run("--once")
    watched.wait_same()


# A file that was only touched is the same.
def test_posts_no_file_that_was_only_touched(watched):
    watched.write("a", "a")
    watching = watched.start()
    watched.fold.wait_change("a", "created")
    os.utime(watched.path("a"))
    watched.write("a", "a")
    watched.path("a").chmod(0o600)
    watched.mark()
    watching.stop()
    watched.run("--once")
    watched.fold.read()
    assert watched.fold.count("a") == 1


# Symbolic links and special files are no files; every other name is one, whatever its
# bytes.
def test_posts_every_file_and_nothing_else(watched):
    fold = watched.fold
    odd = os.fsdecode(b"a b\xc3\xa9\xff%?#&\"'<\n")
    watched.mkdir("../outside")
    watched.write("../outside/secret", "secret")
    watched.write(odd, "any bytes")
    watched.write(".hidden", "hidden")
    watched.write("empty", "")
    watched.path("folder-link").symlink_to("../outside")
    watched.path("file-link").symlink_to(".hidden")
    os.mkfifo(watched.path("fifo"))
    watching = watched.start()
    watched.wait_same()
    assert fold.count(odd) == 1

    watched.path("late-link").symlink_to("../outside/secret")
    os.mkfifo(watched.path("late-fifo"))
    watched.unlink(".hidden")
    watched.path(".hidden").symlink_to("empty")
    watched.mark()
    fold.wait_change(".hidden", "deleted")
    watched.wait_same()

    # A folder that becomes a link: its files are gone.
    watched.mkdir("folder")
    watched.write("folder/secret", "mine")
    fold.wait_change("folder/secret", "created")
    watched.move("folder", "../mine")
    watched.path("folder").symlink_to("../outside")
    fold.wait_change("folder/secret", "deleted")
    watching.stop()
    watched.run("--once")
    watched.wait_same()


# --exclude, and the state, are never published.
def test_leaves_out_excluded_paths_and_its_state(watched):
    fold = watched.fold
    state = ("--state", watched.directory / "own-state")
    watched.mkdir("build")
    watched.path("sub/.tidings").mkdir(parents=True)
    watched.write("sub/.tidings/other", "of another watch")
    watched.write("build/a.o", "o")
    watched.write("a.tmp", "tmp")
    watched.write("sub/b.tmp", "tmp")
    watched.write("sub/c.txt", "c")
    watching = watched.start("--exclude", "*.tmp", "--exclude", "build", *state)
    fold.wait_change("sub/c.txt", "created")
    watched.write("sub/d.tmp", "tmp")
    watched.write("build/e", "e")
    watched.mkdir("sub/build")
    watched.write("sub/build/f", "f")
    watched.write("sub/.tidings/g", "g")
    watched.mark()
    watching.stop()
    assert fold.read() == 2

    # Without the option they are published; with it again, they are deleted.
    watched.run("--once", *state)
    assert fold.read() == 2 + 6
    assert fold.count("own-state/watch.db") == 0
    watched.run("--once", *state, "--exclude", "sub/b*")
    fold.wait_change("sub/b.tmp", "deleted")
    fold.wait_change("sub/build/f", "deleted")
    assert fold.last == 2 + 6 + 2
