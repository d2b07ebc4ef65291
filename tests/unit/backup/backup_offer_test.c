/*
 * backup_offer_test.c - how long a backup waits for a client. The rest is in
 * tests/e2e/backup_http_test.py.
 */
#include "broker/backup/backup_offer.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/store/store.h"
#include "tests/clock.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static void
make_data(const char *dir)
{
    struct engine *engine;
    atomic_size_t forms;
    struct problem why = {""};

    atomic_init(&forms, 0);
    if (store_open(&engine, dir, &forms, &why))
        fail_msg("%s", why.text);
    engine->ops->close(engine);
}

/* Returns when the folder is deleted. */
static void
await_cleared(const char *dir)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/" OFFER_FOLDER, dir);
    while (!access(path, F_OK))
        sched_yield();
}

/* Makes a backup, and returns when it is there. */
static void
make(struct backup_offer *offer)
{
    struct problem why = {""};

    if (backup_offer_make(offer, NULL, &why))
        fail_msg("%s", why.text);
    clock_await_us(OFFER_US);
}

TEST(a_backup_that_nobody_fetches_is_deleted)
{
    struct tempdir dir;
    struct backup_offer *offer;
    struct body *body, *other;

    tempdir_open(&dir);
    make_data(dir.path);
    assert_int_equal(backup_offer_open(&offer, dir.path, NULL), STATUS_OK);
    make(offer);
    clock_pass_us(OFFER_US - 1);
    assert_int_equal(backup_offer_take(offer, &body, NULL), STATUS_OK);
    clock_pass_us(2 * OFFER_US); /* not while it is sent */
    assert_int_equal(backup_offer_take(offer, &other, NULL), STATUS_RUNNING);
    body->free(body); /* broken off: it waits again */
    clock_await_us(OFFER_US);
    clock_pass_us(OFFER_US);
    await_cleared(dir.path);
    assert_int_equal(backup_offer_take(offer, &body, NULL), STATUS_NOT_FOUND);
    make(offer);
    assert_int_equal(backup_offer_take(offer, &body, NULL), STATUS_OK);
    body->free(body);
    backup_offer_close(offer);
    tempdir_close(&dir);
}
