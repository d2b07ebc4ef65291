#include "broker/archive/changedumps.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/builds/generation.h"
#include "tests/support/chores.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/archive/stage.h"

/* One list with one change and its bytes, closed. */
static void
list(unsigned number, const char *text)
{
    dumping_post(&d, number, "updated", text);
    sets_rotate(&d.sets, "demo");
}

/* Folds the log and its content, and builds nothing. */
static void
fold(void)
{
    chore_look(&d.folding.chore);
    while (chore_step(&d.folding.chore))
        ;
    chore_look(&d.contents->chore);
    while (chore_step(&d.contents->chore))
        ;
}

/* Works until a dump has been begun. */
static void
begin(void)
{
    for (int i = 0; i < 3 && !d.dumps.build; i++) {
        dumping_look(&d);
        while (!d.dumps.build && dumping_round(&d))
            ;
    }
    assert_non_null(d.dumps.build);
}

/* A list whose entry states a hash of missing bytes. */
static void
empty_list(unsigned number, const char *text)
{
    dumping_promise(&d, number, text);
    sets_rotate(&d.sets, "demo");
}

static void
assert_dumps(uint64_t number, uint64_t after, uint64_t seq)
{
    assert_int_equal(dumping_current(&d).number, number);
    assert_int_equal(dumping_current(&d).after, after);
    assert_int_equal(dumping_current(&d).seq, seq);
}

FIXTURE(stage_open_dumping, stage_end_dumping);

/* no dump covers a list with missing bytes; the lists behind it have a
 * dump again. */
TEST(a_list_whose_content_is_not_all_there_is_passed_over)
{
    list(1, "a");
    empty_list(2, "never seen");
    set_changes_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    dumping_post(&d, 3, "updated", NULL); /* and no hash is stated */
    set_changes_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    sets_rotate(&d.sets, "demo");
    list(4, "b");
    dumping_work(&d);
    assert_dumps(2, 3, 4);
    dumping_check(&d, 1);
    dumping_check(&d, 2);
}

/* A dump without changes would be a lie: without content, no dump. */
TEST(a_set_that_keeps_no_content_has_no_dumps)
{
    set_changes_put(&d.sets, "demo", "{\"content\":\"none\"}");
    dumping_post(&d, 1, "deleted", NULL);
    sets_rotate(&d.sets, "demo");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    set_changes_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    dumping_work(&d);
    assert_dumps(1, 0, 1);
}

/* A dump waits for bytes that may still be fetched, until they arrive or the
 * broker gives them up. */
TEST(content_that_may_still_come_is_waited_for)
{
    set_changes_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    empty_list(1, "a");
    empty_list(2, "b");
    empty_list(3, "c");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 3, "c");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 1, "a");
    dumping_work(&d);
    assert_dumps(1, 0, 1);
    dumping_give_up(&d, 2);
    dumping_work(&d);
    assert_dumps(2, 2, 3);
    dumping_check(&d, 2);
}

/* Nothing is built twice, and nothing left out, whenever the process ends. */
TEST(goes_on_behind_the_current_one_after_a_restart)
{
    list(1, "a");
    empty_list(2, "never seen");
    list(3, "b");
    dumping_work(&d);
    assert_dumps(2, 2, 3);
    empty_list(4, "never seen");
    dumping_work(&d);
    dumping_end(&d);

    dumping_begin(&d);
    list(5, "c");
    begin();
    dumping_end(&d); /* in the middle of it */

    dumping_begin(&d);
    dumping_work(&d);
    assert_dumps(3, 4, 5);
    for (unsigned i = 1; i <= 3; i++)
        dumping_check(&d, i);
}

/* Bytes that the disk has lost are no reason for the rest to wait. */
TEST(damaged_content_is_a_gap)
{
    struct digest digest;
    char path[200], text[DIGEST_TEXT_SIZE];
    const char *hex = text + sizeof("sha-256:") - 1;

    list(1, "a");
    list(2, "b");
    digest_sha256(&digest, SLICE("a"));
    digest_write(text, &digest);
    fold();
    snprintf(path, sizeof(path), "sets/demo/content/%.2s/%.64s", hex, hex);
    assert_int_equal(faccessat(tempdir_fd(state), path, F_OK, 0), 0);
    tempdir_write(tempdir_fd(state), path, "x");
    dumping_work(&d);
    assert_dumps(1, 1, 2);
    dumping_check(&d, 1);
}

static void
retain(void)
{
    struct log_health health;

    log_health(d.sets.registry->log, &health);
    assert_true(health.has_room); /* else nothing is folded, nor goes */
    sets_file_all(&d.sets);
    for (int i = 0; i < 3; i++) {
        sets_retain(&d.sets); /* says what it waits for */
        fold();
    }
}

static uint64_t
first_list(void)
{
    return sets_head(&d.sets, "demo").first_list;
}

/* a list stays until its dump is in the archive, which keeps the dump
 * for the configured time; but retention does not wait for bytes that are still
 * to be fetched. */
TEST(retention_waits_for_dumps_that_can_be_built)
{
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    for (unsigned i = 1; i <= 4; i++)
        list(i, "a");
    fold();
    retain();
    assert_int_equal(first_list(), 1);
    dumping_work(&d);
    assert_dumps(4, 3, 4);
    retain();
    assert_int_equal(first_list(), 4);
    assert_int_equal(dumping_n_archived(&d), 1);

    set_changes_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    empty_list(5, "never seen");
    list(6, "b");
    dumping_work(&d);
    retain();
    assert_int_equal(first_list(), 6);
    dumping_work(&d);
    assert_dumps(5, 5, 6);
}

/* also for a dump that had to wait for a fetch. */
TEST(retention_waits_for_a_dump_that_can_be_built_at_last)
{
    set_changes_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_promise(&d, 1, "a");
    empty_list(1, "b");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 1, "a");
    dumping_keep(&d, 2, "b");
    begin();
    list(2, "c");
    retain();
    assert_int_equal(first_list(), 1);
    dumping_work(&d);
    assert_dumps(2, 2, 3);
    dumping_check(&d, 1);
    dumping_check(&d, 2);
}

/* Dumps are made of the history, and do not make it grow without bound. */
TEST(too_many_lists_do_not_wait)
{
    set_changes_put(&d.sets, "demo",
                    "{\"content\":\"inline\",\"rotateEntries\":1}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_post_many(&d, 1, CHANGEDUMPS_WAITING + 1, "a");
    fold();
    retain();
    assert_int_equal(first_list(), 1);
    dumping_post(&d, 1, "updated", "b");
    fold();
    retain();
    assert_int_equal(first_list(), CHANGEDUMPS_WAITING + 2);
    dumping_work(&d);
    assert_dumps(1, CHANGEDUMPS_WAITING + 1, CHANGEDUMPS_WAITING + 2);
}

/* The list whose dump is being built goes in the middle of it: the next list
 * has a dump all the same. */
TEST(a_list_that_goes_meanwhile_leaves_no_other_out)
{
    struct list_info lists[2];
    struct problem why = {""};
    size_t n = 2;

    list(1, "a");
    list(2, "b");
    begin();
    sets_file_all(&d.sets);
    assert_int_equal(log_lists(d.sets.registry->log,
                               sets_find(&d.sets, "demo")->log, 1, lists, &n,
                               &why),
                     STATUS_OK);
    assert_int_equal(log_retire(d.sets.registry->log,
                                sets_find(&d.sets, "demo")->log, lists, 1, 0,
                                &why),
                     STATUS_OK);
    dumping_work(&d);
    assert_dumps(2, 1, 2);
    dumping_check(&d, 2);
}

/* The content of entries that retention has deleted is gone, too: that is no
 * damage, which an operator would look for. */
TEST(a_list_that_goes_with_its_content_is_no_damage)
{
    int file = openat(tempdir_fd(state), "stderr",
                      O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644);
    int real = dup(STDERR_FILENO);

    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_post(&d, 1, "updated", "a");
    list(1, "b");
    begin();
    for (unsigned i = 0; i <= CHANGEDUMPS_WAITING; i++)
        list(2, "c");
    dup2(file, STDERR_FILENO);
    retain();
    dumping_work(&d);
    dup2(real, STDERR_FILENO);
    assert_int_equal(first_list(), CHANGEDUMPS_WAITING + 2);
    assert_int_equal(dumping_current(&d).number, 1);
    assert_file(tempdir_fd(state), "stderr", "");
    dumping_end(&d);
    close(real);
    close(file);
}

/* Sets take turns; a removed one is released. */
TEST(a_set_that_is_removed_is_let_go_of)
{
    list(1, "a");
    begin();
    set_changes_remove(&d.sets, "demo");
    dumping_work(&d);
    assert_null(d.dumps.build);
    set_changes_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    list(1, "a");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).seq, 1);
    dumping_check(&d, dumping_current(&d).number);
}
