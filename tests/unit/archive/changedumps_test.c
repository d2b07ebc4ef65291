#include "broker/archive/changedumps.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/archive/generation.h"
#include "broker/archive/retain.h"
#include "tests/support/alterations.h"
#include "tests/support/dumping.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* One list with one change and its bytes, closed. */
static void
list(struct dumping *d, unsigned number, const char *text)
{
    dumping_post(d, number, "updated", text);
    sets_rotate(&d->sets, "demo");
}

/* Folds the log and its content, and builds nothing. */
static void
fold(struct dumping *d)
{
    folding_look(&d->folding);
    while (folding_some(&d->folding))
        ;
    contents_look(d->contents);
    while (contents_some(d->contents))
        ;
}

/* Works until a dump has been begun. */
static void
begin(struct dumping *d)
{
    for (int i = 0; i < 3 && !d->dumps.build; i++) {
        dumping_look(d);
        while (!d->dumps.build && dumping_round(d))
            ;
    }
    assert_non_null(d->dumps.build);
}

/* One whose entry tells of bytes that are not there. */
static void
empty_list(struct dumping *d, unsigned number, const char *text)
{
    dumping_promise(d, number, text);
    sets_rotate(&d->sets, "demo");
}

static void
assert_dumps(struct dumping *d, uint64_t number, uint64_t after, uint64_t seq)
{
    assert_int_equal(dumping_current(d).number, number);
    assert_int_equal(dumping_current(d).after, after);
    assert_int_equal(dumping_current(d).seq, seq);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* of what is not all there nothing is told as if it were; what comes
 * behind it has a dump again. */
TEST(a_list_whose_content_is_not_all_there_is_passed_over)
{
    struct dumping d;

    dumping_open(&d, state);
    list(&d, 1, "a");
    empty_list(&d, 2, "never seen");
    alterations_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    dumping_post(&d, 3, "updated", NULL); /* nor told */
    alterations_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    sets_rotate(&d.sets, "demo");
    list(&d, 4, "b");
    dumping_work(&d);
    assert_dumps(&d, 2, 3, 4);
    dumping_check(&d, 1);
    dumping_check(&d, 2);
    dumping_end(&d);
}

/* Nobody is to be told that nothing changed: without content, no dump. */
TEST(a_set_that_keeps_no_content_has_no_dumps)
{
    struct dumping d;

    dumping_open(&d, state);
    alterations_put(&d.sets, "demo", "{\"content\":\"none\"}");
    dumping_post(&d, 1, "deleted", NULL);
    sets_rotate(&d.sets, "demo");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    alterations_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    dumping_work(&d);
    assert_dumps(&d, 1, 0, 1);
    dumping_end(&d);
}

/* What is still to be fetched is waited for, until it is there or given up. */
TEST(content_that_may_still_come_is_waited_for)
{
    struct dumping d;

    dumping_open(&d, state);
    alterations_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    empty_list(&d, 1, "a");
    empty_list(&d, 2, "b");
    empty_list(&d, 3, "c");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 3, "c");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 1, "a");
    dumping_work(&d);
    assert_dumps(&d, 1, 0, 1);
    dumping_give_up(&d, 2);
    dumping_work(&d);
    assert_dumps(&d, 2, 2, 3);
    dumping_check(&d, 2);
    dumping_end(&d);
}

/* Nothing is built twice, and nothing left out, whenever the process ends. */
TEST(goes_on_behind_the_current_one_after_a_restart)
{
    struct dumping d;

    dumping_open(&d, state);
    list(&d, 1, "a");
    empty_list(&d, 2, "never seen");
    list(&d, 3, "b");
    dumping_work(&d);
    assert_dumps(&d, 2, 2, 3);
    empty_list(&d, 4, "never seen");
    dumping_work(&d);
    dumping_end(&d);

    dumping_begin(&d);
    list(&d, 5, "c");
    begin(&d);
    dumping_end(&d); /* in the middle of it */

    dumping_begin(&d);
    dumping_work(&d);
    assert_dumps(&d, 3, 4, 5);
    for (unsigned i = 1; i <= 3; i++)
        dumping_check(&d, i);
    dumping_end(&d);
}

/* Bytes that the disk has lost are no reason for the rest to wait. */
TEST(damaged_content_is_a_gap)
{
    struct digest digest;
    struct dumping d;
    char path[200], text[DIGEST_TEXT_SIZE];
    const char *hex = text + sizeof("sha-256:") - 1;

    dumping_open(&d, state);
    list(&d, 1, "a");
    list(&d, 2, "b");
    digest_sha256(&digest, SLICE("a"));
    digest_write(text, &digest);
    fold(&d);
    snprintf(path, sizeof(path), "sets/demo/content/%.2s/%.64s", hex, hex);
    assert_int_equal(faccessat(tempdir_fd(state), path, F_OK, 0), 0);
    tempdir_write(tempdir_fd(state), path, "x");
    dumping_work(&d);
    assert_dumps(&d, 1, 1, 2);
    dumping_check(&d, 1);
    dumping_end(&d);
}

static void
retain(struct dumping *d)
{
    struct log_health health;

    log_health(registry_log(d->sets.registry), &health);
    assert_true(health.has_room); /* else nothing is folded, nor goes */
    sets_file_all(&d->sets);
    for (int i = 0; i < 3; i++) {
        retain_all(d->sets.registry); /* says what it waits for */
        fold(d);
    }
}

static uint64_t
first_list(struct dumping *d)
{
    return sets_head(&d->sets, "demo").first_list;
}

/* a list stays until its dump is there, which is in the archive then,
 * and stays there for as long as is said; but nobody waits for what is still to
 * be fetched. */
TEST(retention_waits_for_dumps_that_can_be_built)
{
    struct dumping d;

    dumping_open(&d, state);
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    for (unsigned i = 1; i <= 4; i++)
        list(&d, i, "a");
    fold(&d);
    retain(&d);
    assert_int_equal(first_list(&d), 1);
    dumping_work(&d);
    assert_dumps(&d, 4, 3, 4);
    retain(&d);
    assert_int_equal(first_list(&d), 4);
    assert_int_equal(dumping_n_archived(&d), 1);

    alterations_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    empty_list(&d, 5, "never seen");
    list(&d, 6, "b");
    dumping_work(&d);
    retain(&d);
    assert_int_equal(first_list(&d), 6);
    dumping_work(&d);
    assert_dumps(&d, 5, 5, 6);
    dumping_end(&d);
}

/* also for one that had to wait for what was to be fetched. */
TEST(retention_waits_for_a_dump_that_can_be_built_at_last)
{
    struct dumping d;

    dumping_open(&d, state);
    alterations_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_promise(&d, 1, "a");
    empty_list(&d, 1, "b");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0);
    dumping_keep(&d, 1, "a");
    dumping_keep(&d, 2, "b");
    begin(&d);
    list(&d, 2, "c");
    retain(&d);
    assert_int_equal(first_list(&d), 1);
    dumping_work(&d);
    assert_dumps(&d, 2, 2, 3);
    dumping_check(&d, 1);
    dumping_check(&d, 2);
    dumping_end(&d);
}

/* Dumps are made of the history, and do not make it grow without bound. */
TEST(too_many_lists_do_not_wait)
{
    struct dumping d;

    dumping_open(&d, state);
    alterations_put(&d.sets, "demo",
                    "{\"content\":\"inline\",\"rotateEntries\":1}");
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_post_many(&d, 1, RETAIN_WAITING + 1, "a");
    fold(&d);
    retain(&d);
    assert_int_equal(first_list(&d), 1);
    dumping_post(&d, 1, "updated", "b");
    fold(&d);
    retain(&d);
    assert_int_equal(first_list(&d), RETAIN_WAITING + 2);
    dumping_work(&d);
    assert_dumps(&d, 1, RETAIN_WAITING + 1, RETAIN_WAITING + 2);
    dumping_end(&d);
}

/* The list whose dump is being built goes in the middle of it: that is no
 * reason for the next one to have none. */
TEST(a_list_that_goes_meanwhile_leaves_no_other_out)
{
    struct list_info lists[2];
    struct problem why = {""};
    struct dumping d;
    size_t n = 2;

    dumping_open(&d, state);
    list(&d, 1, "a");
    list(&d, 2, "b");
    begin(&d);
    sets_file_all(&d.sets);
    assert_int_equal(log_lists(registry_log(d.sets.registry),
                               sets_find(&d.sets, "demo")->log, 1, lists, &n,
                               &why),
                     STATUS_OK);
    assert_int_equal(log_retire(registry_log(d.sets.registry),
                                sets_find(&d.sets, "demo")->log, lists, 1, 0,
                                &why),
                     STATUS_OK);
    dumping_work(&d);
    assert_dumps(&d, 2, 1, 2);
    dumping_check(&d, 2);
    dumping_end(&d);
}

/* The content of entries that retention has let go of is not there any more:
 * that is no damage, which an operator would look for. */
TEST(a_list_that_goes_with_its_content_is_no_damage)
{
    int file = openat(tempdir_fd(state), "stderr",
                      O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644);
    int real = dup(STDERR_FILENO);
    struct dumping d;

    dumping_open(&d, state);
    atomic_store(&sets_find(&d.sets, "demo")->retain_lists, 1);
    dumping_post(&d, 1, "updated", "a");
    list(&d, 1, "b");
    begin(&d);
    for (unsigned i = 0; i <= RETAIN_WAITING; i++)
        list(&d, 2, "c");
    dup2(file, STDERR_FILENO);
    retain(&d);
    dumping_work(&d);
    dup2(real, STDERR_FILENO);
    assert_int_equal(first_list(&d), RETAIN_WAITING + 2);
    assert_int_equal(dumping_current(&d).number, 1);
    assert_file(tempdir_fd(state), "stderr", "");
    dumping_end(&d);
    close(real);
    close(file);
}

/* Sets take turns, and one that is removed is let go of. */
TEST(a_set_that_is_removed_is_let_go_of)
{
    struct dumping d;

    dumping_open(&d, state);
    list(&d, 1, "a");
    begin(&d);
    alterations_remove(&d.sets, "demo");
    dumping_work(&d);
    assert_null(d.dumps.build);
    alterations_put(&d.sets, "demo", "{\"content\":\"inline\"}");
    list(&d, 1, "a");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).seq, 1);
    dumping_check(&d, dumping_current(&d).number);
    dumping_end(&d);
}
