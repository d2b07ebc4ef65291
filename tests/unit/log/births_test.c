/*
 * births_test.c - sets that begin with a list that is full at once, while other
 * lists are being filed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker/log/log.h"
#include "tests/support/logs.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"

#define SETS 300

struct filer {
    pthread_t id;
    struct log *log;
    atomic_bool is_over; /* orders nothing: a late look costs a round */
    bool is_wrong;
};

/* Files all the time, as fast as it can. */
static void *
file_all_the_time(void *user)
{
    struct filer *f = user;

    while (!atomic_load(&f->is_over) && !f->is_wrong) {
        struct problem why = {""};
        bool is_done;

        f->is_wrong = log_file_list(f->log, &is_done, &why) != STATUS_OK;
        if (f->is_wrong)
            print_error("%s\n", why.text);
    }
    return NULL;
}

/* Design rule 4: a set is there for the archive's thread from the commit on
 * that begins it, also when that commit closes its first list. */
static void
sets_begin_with_a_full_list_while_lists_are_filed(void **state)
{
    static struct posted posts[SETS];
    struct log_set *sets[SETS];
    struct filer filer = {.is_wrong = false};
    struct logs l;

    logs_open(&l, tempdir_path(state), 1);
    filer.log = l.log;
    atomic_init(&filer.is_over, false);
    assert_int_equal(pthread_create(&filer.id, NULL, file_all_the_time, &filer),
                     0);
    for (int i = 0; i < SETS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%d", i);
        sets[i] = log_set_new(l.log, name, &l);
        assert_non_null(sets[i]);
        posts_begin(&posts[i], POST_CHANGES, sets[i]);
        posts_add_many(&posts[i], 1, 1);
        assert_int_equal(log_submit(l.log, &posts[i].post), STATUS_OK);
        if (i % 10 == 9) /* so that there are many commits */
            assert_int_equal(posts_wait(&posts[i]), STATUS_OK);
    }
    for (int i = 0; i < SETS; i++) {
        assert_int_equal(posts_wait(&posts[i]), STATUS_OK);
        posts_end(&posts[i]);
    }
    atomic_store(&filer.is_over, true);
    pthread_join(filer.id, NULL);
    assert_false(filer.is_wrong);

    logs_file_all(&l);
    for (int i = 0; i < SETS; i++) {
        struct list_info info[2];
        size_t n = 2;

        assert_int_equal(log_lists(l.log, sets[i], 1, info, &n, NULL),
                         STATUS_OK);
        assert_int_equal(n, 1);
        assert_true(info[0].is_filed);
        assert_int_equal(info[0].last, 1);
    }
    logs_close(&l);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            sets_begin_with_a_full_list_while_lists_are_filed, tempdir_setup,
            tempdir_teardown),
    };

    return cmocka_run_group_tests_name("births", tests, NULL, NULL);
}
