"""`tidings sync` against a real broker and a web site: the mirror equals the source, in
spite of faults in between."""

import time

import pytest

from tidings_test.mirrored import Mirrored
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

ONE = "/r/1.txt"
TWO = "/r/2.txt"


# the state of the source, then the changes since.
def test_mirrors_the_state_and_then_the_changes(mirrored):
    asked = mirrored.site.asked
    mirrored.change_many(1, 5, "first")
    said = mirrored.sync().output()
    assert "done=5 failed=0" in said and "position=" in said

    mirrored.change_many(2, 3, "second")
    mirrored.change_many(4, 4, None)
    mirrored.change_many(6, 6, "new")
    mirrored.sync()

    # Each was fetched when it had changed, and at no other time.
    assert (len(asked(ONE)), len(asked(TWO))) == (1, 2)
    mirrored.sync()
    assert len(asked(TWO)) == 2

    # Deleted, and there again.
    mirrored.change_many(1, 6, None)
    mirrored.sync()
    mirrored.change_many(1, 1, "again")
    mirrored.sync()


# The mirror has a change as soon as it is posted.
def test_follows_each_change(mirrored):
    mirrored.change_many(1, 1, "one")
    syncing = mirrored.start()
    mirrored.wait("written", ONE)
    mirrored.wait("caught-up", '-1"')
    mirrored.check_same()

    mirrored.change_many(1, 1, "two")
    mirrored.change_many(2, 2, "new")
    mirrored.post()
    mirrored.wait("caught-up", '-3"')
    mirrored.check_same()
    mirrored.change_many(1, 1, None)
    mirrored.post()
    mirrored.wait("deleted", ONE)
    mirrored.check_same()
    syncing.stop()


# Files are fetched also where changes never stop.
def test_keeps_up_with_a_source_that_never_rests(mirrored):
    mirrored.change_many(1, 1, "one")
    mirrored.start()
    n = 0

    def look():
        nonlocal n
        n += 1
        mirrored.change_many(2, 2, n)
        mirrored.post()
        return len(mirrored.site.asked(ONE))

    wait_for("a request for the file", look)
    mirrored.wait("caught-up", f'-{1 + n}"')  # not before the last one
    mirrored.check_same()


# A file that changes during its fetch is fetched again.
def test_fetches_a_file_again_that_changes_meanwhile(mirrored):
    mirrored.change_many(1, 1, "one")
    mirrored.site.hold(ONE)
    mirrored.start()
    mirrored.site.asked(ONE).wait(1)
    mirrored.change_many(1, 1, "newer than one")
    mirrored.change_many(2, 2, "another")
    mirrored.post()
    mirrored.wait("written", TWO)
    mirrored.site.release(ONE)
    mirrored.wait("written", ONE)
    mirrored.wait("caught-up", '-3"')
    mirrored.check_same()


# the sync is killed again and again; it does not fetch finished files twice.
def test_goes_on_where_it_was_killed(mirrored):
    n, kills, new = soak((200, 4, 40), (400, 8, 40))
    mirrored.change_many(1, n, "first")
    mirrored.post()
    mirrored.change_many(1, n // 4, None)
    mirrored.change_many(n // 2, n, "second")
    for i in range(kills):
        # A text that no file had before: the sync would find it in the mirror.
        mirrored.change_many(n // 2 + 1, n // 2 + new, f"round {i}")
        syncing = mirrored.start()
        for _ in range(5 + 4 * i):
            mirrored.wait("written")
        syncing.kill()
    mirrored.sync()
    # After a kill it fetches its unfinished files again.
    least = 3 * n // 4
    total = len(mirrored.site.requests)
    assert least <= total <= least + kills * (new + 64)


# The mirror has a resource of two sets as long as one of them has it.
def test_keeps_a_file_that_another_set_has(mirrored, broker):
    other = broker.set()

    def sync(from_set):
        mirrored.url = from_set.url
        mirrored.sync()

    mirrored.change("/shared.txt", "shared")
    mirrored.change("/mine.txt", "mine")
    mirrored.post()
    mirrored.tell("/shared.txt")
    mirrored.post(other)
    sync(mirrored.set)
    sync(other)

    mirrored.tell("/shared.txt", is_deleted=True)
    sync(mirrored.set)

    mirrored.change("/shared.txt", None)
    mirrored.post(other)
    sync(other)


# A faulty source does not empty the mirror.
#
def test_holds_too_many_deletions_back(start_broker, site, tmp_path, run, start, faults):
    # In the middle of the next hour: the hour does not end during the test.
    faults.set_clock(5400 - time.time() % 3600)
    broker = start_broker("--heartbeat", "0.2", env=faults.env)
    mirrored = Mirrored(broker.set(), site, tmp_path, run, start)
    mirrored.change_many(1, 300, "all")
    mirrored.sync()

    mirrored.change_many(1, 99, None)  # fewer than 100 are never too many
    mirrored.sync()

    mirrored.change_many(100, 110, None)  # in the same hour
    mirrored.change_many(301, 302, "new")
    for consent in ((), ("--max-delete", "30"), ("--accept-deletions", "10")):
        held = mirrored.sync(*consent, status=1).errors()
        assert "held back: 11 of 203 resources would be deleted" in held
        assert all(mirrored.file(f"/r/{n}.txt").exists() for n in range(100, 111))
    assert mirrored.file("/r/301.txt").exists()
    held = run("tidings", "status", mirrored.directory).output()
    assert "held back: 11 of 203" in held
    assert "not known to be complete: 11 deletions are held back (since 20" in held
    assert "\ncomplete as of" not in held

    mirrored.sync("--accept-deletions", "11")
    settled = run("tidings", "status", mirrored.directory).output()
    assert "held back" not in settled and "\ncomplete as of" in settled
    assert not mirrored.file("/r/100.txt").exists()
    mirrored.change_many(111, 300, None)
    mirrored.sync("--max-delete", "none")


# Files of the user: a correct one becomes part of the mirror, others are moved.
def test_adopts_or_moves_files_of_the_user(mirrored):
    mirrored.change_many(1, 4, "text")
    mirrored.write(mirrored.place(ONE), "text 1")
    mirrored.write(mirrored.place(TWO), "mine")
    mirrored.write(mirrored.place("/r/3.txt/below"), "mine, too")
    assert "/r/2.txt was in the way" in mirrored.sync().errors()
    assert len(mirrored.site.asked(ONE)) == 0
    assert mirrored.text(".tidings/found/1/2.txt") == "mine"
    assert mirrored.text(".tidings/found/2/3.txt/below") == "mine, too"


# The sync follows no symbolic link in the mirror.
def test_follows_no_symbolic_link(mirrored):
    mirrored.change_many(1, 2, "ours")
    mirrored.write("../out/1.txt", "theirs")
    out = mirrored.home / "out"
    folder = mirrored.file("/r")
    folder.parent.mkdir(parents=True)
    folder.symlink_to(out)
    mirrored.sync()
    assert mirrored.text("../out/1.txt") == "theirs"

    # The user puts one between two syncs in place of a deleted file.
    mirrored.file(ONE).unlink()
    mirrored.file(ONE).symlink_to(out / "1.txt")
    mirrored.change_many(1, 1, None)
    mirrored.sync(is_same=False)
    assert mirrored.text("../out/1.txt") == "theirs"


# The sync reports a file that it cannot fetch, and the next run tries again.
def test_the_next_run_tries_a_failed_file_again(mirrored):
    mirrored.change_many(1, 3, "text")
    mirrored.site.status(TWO, 404)
    done = mirrored.sync(status=1)
    assert "/r/2.txt: given up: " in done.errors()
    assert "done=2 failed=1" in done.output()
    assert mirrored.file(ONE).exists()

    mirrored.site.status(TWO, None)
    mirrored.sync()


# Bytes with another digest than the source's never appear in the mirror.
def test_keeps_the_old_file_when_the_new_one_is_wrong(mirrored):
    mirrored.change_many(1, 1, "right")
    mirrored.sync()
    mirrored.change_many(1, 1, "newer")
    mirrored.site.put(ONE, "wrong 1")
    mirrored.sync(status=1)
    assert mirrored.text(mirrored.place(ONE)) == "right 1"


# With the option the user sees why a sync waits; without it the sync prints nothing of
# that.
def test_reports_each_attempt_if_asked_to(mirrored, start):
    mirrored.change_many(1, 2, "one")
    mirrored.post()
    mirrored.site.status(ONE, 503, "Retry-After: 1", times=3)

    def sync(name, *more):
        place = mirrored.home / name
        return start("tidings", "sync", mirrored.url, place, "--until-caught-up", *more)

    each = [sync("1", "--verbose"), sync("2", "--json"), sync("3")]
    assert [syncing.wait() for syncing in each] == [0, 0, 0]
    verbose, json, plain = each
    assert "; it is tried again\n" in verbose.errors()
    assert "tidings: written: " in verbose.errors()
    assert "tidings: caught up at " in verbose.errors()
    assert '{"event":"failed","loc":"http://' in json.output()
    assert plain.errors() == ""


# The reader of its lines goes away, as behind `| head`.
def test_ends_quietly_when_nobody_reads(mirrored, start):
    arguments = (mirrored.url, mirrored.directory, "--json")
    mirrored.change_many(1, 1, "one")
    mirrored.post()
    syncing = start("tidings", "sync", *arguments, reads_output=False)
    for line in syncing.popen.stdout:
        if line.startswith(b'{"event":"caught-up"'):
            break
    syncing.popen.stdout.close()
    mirrored.change_many(1, 1, "two")
    mirrored.post()
    assert syncing.wait() == 1
    assert syncing.errors() == ""


# --header goes to the server of the URL, and to no other.
def test_sends_its_header_to_the_source_alone(mirrored):
    header = ("--header", "X-Key: secret")
    mirrored.change_many(1, 1, "one")
    mirrored.sync(*header)
    assert mirrored.site.asked(ONE)[0]["X-Key"] is None
    mirrored.audit(*header, status=2)
    mirrored.audit(mirrored.url, *header)


# Two syncs of one directory; a directory that cannot be made; bad numbers.
def test_reports_a_directory_that_it_cannot_use(mirrored):
    mirrored.change_many(1, 1, "one")
    syncing = mirrored.start()
    mirrored.wait("caught-up")
    assert "another process" in mirrored.sync(status=1).errors()
    syncing.stop()

    mirrored.directory = "/proc/nowhere"
    assert "/proc/nowhere" in mirrored.sync(status=1).errors()
    mirrored.sync("--max-delete", "0", status=2)
    mirrored.sync("--per-host", "many", status=2)
