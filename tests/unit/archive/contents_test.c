/*
 * contents_test.c - the bytes of a set exist as long as an entry names them or
 * a pin holds them, and no longer.
 */
#include "broker/archive/contents.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/archive/set_progress.h"
#include "tests/support/chores.h"
#include "tests/support/fold_dbs.h"
#include "tests/support/keeping.h"
#include "tests/support/kept.h"
#include "tests/support/model.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Retention: each file exists as long as an entry names it, and no longer,
 * through posts that fail, rotation and restarts. */
TEST(files_are_there_as_long_as_entries_tell_of_them)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);

    keeping_post_with(w, 0, 0);
    atomic_store(&keeping_demo(w)->retain_lists, 2);
    for (unsigned i = 0; i < 400; i++) {
        unsigned resource = model_random(&w->random) % KEEPING_RESOURCES;
        unsigned text = model_random(&w->random) % KEEPING_TEXTS;
        struct content_pin *c;

        switch (model_random(&w->random) % 12) {
        case 0:
            keeping_post(w, resource, 0, true);
            break;
        case 1:
            c = keeping_pin(w);
            keeping_place(w, c, text);
            contents_end(c, 0);
            break;
        case 2:
            sets_file_all(&w->sets);
            sets_retain(&w->sets);
            break;
        case 3:
        case 4:
            keeping_fold_all(w);
            break;
        case 5:
            if (i % 5 == 0) {
                keeping_end(w);
                keeping_begin(w);
                atomic_store(&keeping_demo(w)->retain_lists, 2);
            }
            break;
        default:
            keeping_post_with(w, resource, text);
        }
        if (i % 40 != 0)
            continue;
        keeping_fold_all(w);
        sets_file_all(&w->sets);
        sets_retain(&w->sets);
        keeping_fold_all(w);
        keeping_check(w);
    }
    assert_in_range(sets_head(&w->sets, "demo").earliest, 100, KEEPING_ENTRIES);
    assert_int_equal(content_at(keeping_content(w))->missing, 0);
    assert_int_equal(atomic_load(&keeping_demo(w)->content_counts.files),
                     content_at(keeping_content(w))->files);
    keeping_close(w);
}

/* Pined bytes stay, and unused bytes go in the end. */
TEST(what_is_pinned_stays)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct content_pin *a, *b;
    struct digest digest;
    uint64_t length;

    keeping_post_with(w, 0, 0);
    keeping_fold_all(w);
    a = keeping_pin(w);
    b = keeping_pin(w);
    keeping_place(w, a, 1);
    kept_digest(&digest, 1);
    assert_int_equal(contents_find(b, &digest, &length, NULL), STATUS_OK);
    assert_int_equal(length, kept_length(1));
    kept_digest(&digest, 2);
    assert_int_equal(contents_find(b, &digest, &length, NULL),
                     STATUS_NOT_FOUND);
    contents_end(a, 0);
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 1));
    contents_end(b, 0);
    keeping_fold_all(w);
    assert_false(kept_is_there(w->dir, 1));
    assert_true(kept_is_there(w->dir, 0));

    /* Committed, and not folded yet. */
    a = keeping_pin(w);
    keeping_place(w, a, 3);
    contents_end(a, w->last + 1);
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 3));
    keeping_post(w, 3, 3, false);
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 3));
    keeping_post(w, 3, 0, true);
    sets_rotate(&w->sets, "demo");
    sets_file_all(&w->sets);
    atomic_store(&keeping_demo(w)->retain_lists, 1);
    for (unsigned i = 0; i < 11; i++)
        keeping_post(w, 4, 0, false);
    sets_file_all(&w->sets);
    keeping_fold_all(w);
    a = keeping_pin(w);
    kept_digest(&digest, 3);
    assert_int_equal(contents_find(a, &digest, &length, NULL), STATUS_OK);
    sets_retain(&w->sets);
    keeping_fold_all(w);
    sets_retain(&w->sets);
    keeping_fold_all(w);
    assert_in_range(sets_head(&w->sets, "demo").earliest, 3, KEEPING_ENTRIES);
    assert_true(kept_is_there(w->dir, 3)); /* no row names it any more */
    contents_end(a, 0);
    keeping_fold_all(w);
    assert_false(kept_is_there(w->dir, 3));
    keeping_close(w);
}

/* The folder of the bytes is gone: an fsync of its names fails. */
static enum status
sync_without_disk(struct keeping *w, struct content_pin *pin)
{
    int fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status rc;

    assert_int_equal(renameat(fd, "content", fd, "aside"), 0);
    rc = contents_sync(pin, NULL);
    assert_int_equal(renameat(fd, "aside", fd, "content"), 0);
    close(fd);
    return rc;
}

/* an entry with bytes that another post has just placed is not
 * acknowledged before their name is on the disk, whether that post goes on or
 * fails; bytes that are durable already are not synced again. */
TEST(what_is_found_is_made_durable_unless_it_is)
{
    struct keeping *w = keeping_open(state, CONTENT_INLINE);
    struct content_pin *pins[5];
    struct problem why = {""};
    struct arriving arriving;
    struct digest digest;
    char text[KEPT_SIZE];
    uint64_t length;

    for (unsigned i = 0; i < 5; i++)
        pins[i] = keeping_pin(w);
    kept_text(text, 1);
    kept_digest(&digest, 1);
    if (arriving_begin(&arriving, w->contents->arriving, SLICE(""), LENGTH_NONE,
                       &why) ||
        arriving_add(&arriving, slice_of(text), &why) ||
        arriving_end(&arriving, &why) ||
        contents_place(pins[0], &arriving, &why))
        fail_msg("%s", why.text);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(contents_find(pins[i], &digest, &length, NULL),
                         STATUS_OK);
    assert_int_equal(sync_without_disk(w, pins[0]), STATUS_IO);
    contents_end(pins[0], 0);
    keeping_fold_all(w);
    assert_int_equal(sync_without_disk(w, pins[1]), STATUS_IO);
    assert_int_equal(contents_sync(pins[2], NULL), STATUS_OK);
    assert_int_equal(contents_find(pins[4], &digest, &length, NULL), STATUS_OK);
    assert_int_equal(sync_without_disk(w, pins[4]), STATUS_OK);
    for (unsigned i = 1; i < 5; i++)
        contents_end(pins[i], 0);
    keeping_close(w);
}

#define THREADS 3
#define TURNS   60

struct placer {
    pthread_t thread;
    struct keeping *w;
    struct set *set;
    uint64_t random;
    unsigned n_wrong;
    atomic_bool is_done;
};

/* Its pinned bytes stay until the end of the pin. */
static void *
place_again_and_again(void *user)
{
    struct placer *p = user;

    for (unsigned i = 0; i < TURNS; i++) {
        unsigned n = model_random(&p->random) % 4;
        struct content_pin *c;
        struct arriving a;
        char text[KEPT_SIZE];

        kept_text(text, n);
        if (contents_pin(p->w->contents, p->set, &c, NULL) ||
            arriving_begin(&a, p->w->contents->arriving, SLICE(""), LENGTH_NONE,
                           NULL) ||
            arriving_add(&a, slice_of(text), NULL) || arriving_end(&a, NULL) ||
            contents_place(c, &a, NULL) || contents_sync(c, NULL) ||
            !kept_is_there(p->w->dir, n))
            p->n_wrong++;
        sched_yield();
        p->n_wrong += !kept_is_there(p->w->dir, n);
        contents_end(c, 0);
    }
    atomic_store(&p->is_done, true);
    return NULL;
}

/* Files come and go on many threads at once. */
TEST(content_pins_are_made_while_files_are_taken_away)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct placer placers[THREADS] = {{0}};
    bool is_done = false;

    keeping_post_with(w, 0, 5);
    keeping_fold_all(w);
    for (unsigned i = 0; i < THREADS; i++) {
        placers[i].w = w;
        placers[i].set = keeping_demo(w);
        placers[i].random = i;
        assert_int_equal(pthread_create(&placers[i].thread, NULL,
                                        place_again_and_again, &placers[i]),
                         0);
    }
    while (!is_done) {
        is_done = true;
        for (unsigned i = 0; i < THREADS; i++)
            is_done &= atomic_load(&placers[i].is_done);
        keeping_fold_all(w);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(placers[i].thread, NULL);
        assert_int_equal(placers[i].n_wrong, 0);
    }
    keeping_fold_all(w);
    keeping_check(w);
    keeping_close(w);
}

/* A crash leaves files without an entry, and files whose entries are not folded
 * yet. */
TEST(orphans_of_a_crash_go_and_nothing_else)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct content_pin *c;

    keeping_post_with(w, 0, 0);
    keeping_fold_all(w);
    keeping_place(w, keeping_pin(w), 1);
    keeping_place(w, keeping_pin(w), 2);
    keeping_post(w, 2, 2, false);
    keeping_end(w);
    keeping_begin(w);
    assert_true(kept_is_there(w->dir, 1));
    c = keeping_pin(w);
    keeping_place(w, c, 2);
    contents_end(c, 0); /* before the entry of the life before is folded */
    chore_look(&w->contents->chore);
    while (chore_step(&w->contents->chore)) /* it is not: the state is behind */
        ;
    assert_true(kept_is_there(w->dir, 1));
    c = keeping_pin(w);
    keeping_place(w, c, 3);
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 3)); /* it is at work */
    contents_end(c, 0);
    keeping_fold_all(w);
    keeping_check(w);
    keeping_close(w);
}

/* Lost rows are folded again; files that only those rows named go. */
TEST(what_begins_anew_is_swept_again)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct content *content;

    keeping_post_with(w, 0, 0);
    keeping_post_with(w, 1, 1);
    keeping_fold_all(w);
    kept_place(w->dir, w->contents->arriving, 2);
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 2)); /* it was not looked for again */
    content = keeping_content(w);
    assert_int_equal(fold_db_begin(fold_db_of(content), 0, NULL), STATUS_OK);
    contents_note(keeping_demo(w), content);
    assert_int_equal(atomic_load(&keeping_demo(w)->content_counts.files), 0);
    keeping_fold_all(w);
    keeping_check(w);
    assert_int_equal(atomic_load(&keeping_demo(w)->content_counts.files), 2);
    keeping_close(w);
}

/* Contracts of dumps: the content is of no later position than the state, which
 * they hold. */
TEST(is_never_ahead_of_the_state)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);

    keeping_post_with(w, 0, 0);
    chore_look(&w->contents->chore);
    while (chore_step(&w->contents->chore))
        ;
    assert_int_equal(content_at(keeping_content(w))->seq, 0);
    keeping_fold_all(w);
    assert_int_equal(content_at(keeping_content(w))->seq, 1);
    w->folding.held = keeping_demo(w);
    keeping_post_with(w, 0, 1);
    keeping_fold_all(w);
    assert_int_equal(content_at(keeping_content(w))->seq, 1);
    w->folding.held = NULL;
    keeping_fold_all(w);
    assert_int_equal(content_at(keeping_content(w))->seq, 2);
    keeping_close(w);
}

/* */
TEST(retention_waits_for_it)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);

    for (unsigned i = 0; i < 35; i++)
        keeping_post(w, i % KEEPING_RESOURCES, i, false);
    keeping_demo(w)->progress->dump.list = 100; /* it waits for no dump */
    atomic_store(&keeping_demo(w)->retain_lists, 1);
    sets_file_all(&w->sets);
    for (unsigned i = 0; i < 3; i++) {
        chore_look(&w->folding.chore);
        while (chore_step(&w->folding.chore))
            ;
        sets_retain(&w->sets);
    }
    assert_int_equal(keeping_demo(w)->progress->fold.kept, 35);
    assert_int_equal(sets_head(&w->sets, "demo").earliest, 0);
    keeping_fold_all(w);
    sets_retain(&w->sets);
    assert_int_equal(sets_head(&w->sets, "demo").earliest, 20);
    keeping_close(w);
}
