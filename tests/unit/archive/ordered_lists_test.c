/* Resource Lists of a cluster: ordered in the log, and built by each broker
 * from its own state. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "broker/builds/generation.h"
#include "broker/sets/set_links.h"
#include "tests/clock.h"
#include "tests/support/build_orders.h"
#include "tests/support/chores.h"
#include "tests/support/model.h"
#include "tests/support/set_changes.h"
#include "tests/support/shared_journal.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* True while fstatvfs reports a full disk, also to log threads. */
static atomic_bool is_full;

/* In the C library's place. */
int
fstatvfs(int fd, struct statvfs *disk)
{
    struct statfs is;

    if (fstatfs(fd, &is))
        return -1;
    memset(disk, 0, sizeof(*disk));
    disk->f_frsize = (unsigned long)is.f_bsize;
    disk->f_bavail = atomic_load(&is_full) ? 0 : is.f_bavail;
    return 0;
}

struct pair {
    struct shared_journal all;
    struct seat seats[2];
    struct tempdir dirs[2];
    struct build_orders w[2];
};

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    shared_journal_init(&p->all);
    for (int i = 0; i < 2; i++) {
        tempdir_open(&p->dirs[i]);
        build_orders_configure(&p->w[i], p->dirs[i].path);
        p->w[i].sets.config.rotate_entries = 20;
        p->w[i].sets.config.resource_list_every_us = 0;
        p->w[i].random = 5 + (unsigned)i;
        p->w[i].sets.journal = seat_take(&p->seats[i], &p->all);
        build_orders_begin(&p->w[i]);
    }
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 2; i++) {
        build_orders_end(&p->w[i]);
        tempdir_close(&p->dirs[i]);
    }
    shared_journal_fini(&p->all);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

/* Broker `i` follows all records. */
static void
follow(struct pair *p, int i)
{
    shared_journal_follow(&p->all, p->w[i].sets.registry->log);
}

/* `n` random changes, at broker `i`. */
static void
post(struct pair *p, int i, unsigned n)
{
    struct sets_outcome o;
    struct buf json;

    buf_init(&json, 1 << 24);
    model_changes(&json, &p->w[i].random, n, 60);
    o = sets_post_body(&p->w[i].sets, "demo", "application/json",
                       buf_slice(&json), 0);
    assert_int_equal(o.rc, STATUS_OK);
    buf_fini(&json);
}

static void
fold(struct build_orders *w)
{
    chore_look(&w->folding.chore);
    while (chore_step(&w->folding.chore))
        ;
}

static void
restart(struct pair *p, int i)
{
    build_orders_end(&p->w[i]);
    build_orders_begin(&p->w[i]);
    seat_follow(&p->seats[i], p->w[i].sets.registry->log);
}

static struct generations
lists(struct build_orders *w)
{
    return sets_head(&w->sets, "demo").generations[GENERATION_RESOURCELIST];
}

/* Both brokers serve the same document. */
static void
assert_equal_document(struct pair *p, document_open_fn *open, uint64_t number,
                      uint64_t part)
{
    struct buf texts[2];

    for (int i = 0; i < 2; i++)
        build_orders_text(&p->w[i], open, number, part, &texts[i]);
    assert_int_equal(texts[0].size, texts[1].size);
    assert_memory_equal(texts[0].data, texts[1].data, texts[0].size);
    for (int i = 0; i < 2; i++)
        buf_fini(&texts[i]);
}

/* Both brokers serve the same documents of list `number`. */
static void
assert_equal_documents(struct pair *p, uint64_t number)
{
    struct generation g = build_orders_current(&p->w[0]);

    assert_int_equal(g.number, number);
    build_orders_check(&p->w[0]);
    assert_equal_document(p, resourcelist_current_open, 0, 0);
    for (uint64_t part = 1; part <= g.parts; part++)
        assert_equal_document(p, resourcelist_generation_open, number, part);
}

/* An order that somebody gives at a broker. */
static void
on_done(struct build_order *order)
{
    order->until_us = 0;
}

static bool
is_done(const struct build_order *order)
{
    return order->until_us == 0;
}

/* Broker `i` orders a list at the end of its log, and builds nothing. */
static void
order(struct pair *p, int i, struct build_order *order)
{
    struct build_orders *w = &p->w[i];
    uint64_t before = lists(w).last;

    *order = (struct build_order){
        .set = sets_find(&w->sets, "demo"),
        .wanted = sets_head(&w->sets, "demo").last,
        .until_us = INT64_MAX,
        .done = on_done,
    };
    assert_int_equal(build_schedule_order(&w->schedule, order, NULL),
                     STATUS_OK);
    chore_step(&w->schedule.chore);
    assert_int_equal(lists(w).ordered.number, before + 1);
    assert_int_equal(lists(w).ordered.seq, order->wanted);
}

/* Both have folded otherwise, and get more entries before they build. */
TEST(are_the_same_at_all_brokers)
{
    struct pair *p = *state;

    for (unsigned n = 1; n <= 4; n++) {
        struct build_order one;
        uint64_t seq;
        int first = (int)n % 2, second = 1 - first;

        post(p, first, 90);
        follow(p, second);
        fold(&p->w[second]);
        post(p, second, 30);
        follow(p, first);
        order(p, first, &one);
        seq = one.wanted;
        post(p, first, 30);
        build_orders_work(&p->w[first]);
        assert_true(is_done(&one));
        assert_int_equal(one.status, STATUS_OK);
        assert_int_equal(one.generation.number, n);
        assert_int_equal(build_orders_current(&p->w[first]).seq, seq);
        assert_int_equal(lists(&p->w[first]).ordered.number, 0);
        follow(p, second);
        assert_int_equal(build_orders_current(&p->w[second]).number, n);
        build_orders_work(&p->w[second]);
        assert_equal_documents(p, n);
        build_orders_work(&p->w[second]); /* its state goes on */
        assert_int_equal(state_fold_seq(sets_find(&p->w[second].sets, "demo")),
                         seq + 30);
    }
}

/* A broker without the current list serves the former one, also after a
 * restart. The sweep leaves that list on the disk. */
TEST(are_served_as_far_as_they_are_built)
{
    struct pair *p = *state;
    struct document document;
    struct build_orders *late = &p->w[1];

    for (unsigned n = 1; n <= 3; n++) {
        struct build_order one;

        post(p, 0, 30);
        order(p, 0, &one);
        build_orders_work(&p->w[0]);
        follow(p, 1);
        restart(p, 1);
        while (generation_sweep_one(late->sets.registry))
            ;
        if (n == 1) {
            assert_int_equal(build_orders_try(late, resourcelist_current_open,
                                              0, 0, &document),
                             STATUS_BUSY);
            assert_int_equal(build_orders_try(late,
                                              resourcelist_generation_open, 1,
                                              0, &document),
                             STATUS_BUSY);
        } else {
            assert_int_equal(build_orders_try(late, resourcelist_current_open,
                                              0, 0, &document),
                             STATUS_OK);
            assert_string_equal(
                document.lasting,
                set_link_generation(sets_find(&late->sets, "demo"),
                                    GENERATION_RESOURCELIST, n - 1)
                    .text);
            document_close(&document);
        }
        build_orders_work(late);
        assert_equal_documents(p, n);
        while (generation_sweep_one(late->sets.registry))
            ;
        assert_true(n == 1 ||
                    !generation_is_here(sets_find(&late->sets, "demo"),
                                        GENERATION_RESOURCELIST, n - 1));
    }
}

/* A broker that ends within a build begins that build anew. */
TEST(are_built_after_a_restart)
{
    struct pair *p = *state;
    struct build_orders *w = &p->w[0];
    struct build_order one;

    post(p, 0, 50);
    order(p, 0, &one);
    post(p, 0, 10);
    restart(p, 0);
    assert_true(is_done(&one));
    assert_int_equal(one.status, STATUS_STOPPED);
    build_orders_look(w);
    for (unsigned i = 0; i < 3; i++)
        build_orders_round(w); /* some parts are written */
    assert_int_equal(lists(w).ordered.number, 1);
    restart(p, 0);
    build_orders_work(w);
    assert_int_equal(build_orders_current(w).seq, 50);
    follow(p, 1);
    build_orders_work(&p->w[1]);
    assert_equal_documents(p, 1);
}

/* Both brokers build the list; the second one does not commit it again. */
TEST(become_current_once)
{
    struct pair *p = *state;
    struct build_order one, other;
    struct generation g;

    post(p, 0, 50);
    follow(p, 1);
    order(p, 0, &one);
    follow(p, 1);
    other = (struct build_order){
        .set = sets_find(&p->w[1].sets, "demo"),
        .wanted = 50,
        .until_us = INT64_MAX,
        .done = on_done,
    };
    assert_int_equal(build_schedule_order(&p->w[1].schedule, &other, NULL),
                     STATUS_OK);
    build_orders_work(&p->w[0]);
    g = build_orders_current(&p->w[0]);
    build_orders_work(&p->w[1]); /* its turn in the journal shows that */
    assert_true(is_done(&one));
    assert_true(is_done(&other));
    assert_int_equal(other.status, STATUS_OK);
    assert_int_equal(build_orders_current(&p->w[1]).completed_us,
                     g.completed_us);
    assert_int_equal(lists(&p->w[1]).last, 1);
    assert_equal_documents(p, 1);
}

/* A broker that has missed some lists builds only the current one. */
TEST(are_passed_over_if_a_later_one_is_current)
{
    struct pair *p = *state;
    struct build_order one;

    for (unsigned n = 1; n <= 3; n++) {
        post(p, 0, 30);
        order(p, 0, &one);
        build_orders_work(&p->w[0]);
    }
    follow(p, 1);
    build_orders_work(&p->w[1]);
    assert_equal_documents(p, 3);
    assert_false(generation_is_here(sets_find(&p->w[1].sets, "demo"),
                                    GENERATION_RESOURCELIST, 2));
}

/* A broker builds list 1 while the others make list 2 current. The broker gives
 * up list 1, builds list 2 at once, and answers its orders with list 2. */
TEST(are_given_up_when_a_later_one_is_current)
{
    struct pair *p = *state;
    struct build_orders *late = &p->w[1];
    struct build_order one, later, other;

    post(p, 0, 50);
    order(p, 0, &one);
    follow(p, 1);
    other = one;
    other.set = sets_find(&late->sets, "demo");
    assert_int_equal(build_schedule_order(&late->schedule, &other, NULL),
                     STATUS_OK);
    build_orders_look(late);
    while (!late->schedule.build)
        build_orders_round(late);
    build_orders_work(&p->w[0]);
    post(p, 0, 30);
    order(p, 0, &later);
    build_orders_work(&p->w[0]);
    assert_true(is_done(&later));
    follow(p, 1);
    assert_non_null(late->schedule.build);
    build_orders_work(late);
    assert_true(is_done(&other));
    assert_int_equal(other.status, STATUS_OK);
    assert_int_equal(other.generation.number, 2);
    assert_equal_documents(p, 2);
    assert_false(generation_is_here(sets_find(&late->sets, "demo"),
                                    GENERATION_RESOURCELIST, 1));
}

/* A broker that only reads does not build what it cannot make current. */
TEST(are_built_by_a_reader_when_they_are_current)
{
    struct pair *p = *state;
    struct build_orders *reader = &p->w[1];
    struct build_order one;

    reader->sets.config.cluster_read_only = true;
    post(p, 0, 50);
    order(p, 0, &one);
    post(p, 0, 10);
    follow(p, 1);
    build_orders_work(reader);
    build_orders_work(reader);
    assert_int_equal(lists(reader).ordered.number, 1);
    assert_false(generation_is_here(sets_find(&reader->sets, "demo"),
                                    GENERATION_RESOURCELIST, 1));
    build_orders_work(&p->w[0]);
    follow(p, 1);
    build_orders_work(reader);
    assert_equal_documents(p, 1);
}

/* Archives */

/* Every `nth` list of the set is archived. */
static void
keep(struct pair *p, const char *nth)
{
    char settings[64];

    snprintf(settings, sizeof(settings), "{\"resourceListKeep\":%s}", nth);
    set_changes_put(&p->w[0].sets, "demo", settings);
    follow(p, 1);
}

/* Broker `i` posts, orders a list and builds it. */
static void
build_list(struct pair *p, int i)
{
    struct build_order one;

    post(p, i, 30);
    order(p, i, &one);
    build_orders_work(&p->w[i]);
    assert_true(is_done(&one));
}

static enum status
try_list(struct build_orders *w, uint64_t number)
{
    struct document document;
    enum status rc =
        build_orders_try(w, resourcelist_generation_open, number, 0, &document);

    if (!rc)
        document_close(&document);
    return rc;
}

static void
assert_equal_archives(struct pair *p, uint64_t n)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(lists(&p->w[i]).n_archived, n);
    assert_equal_document(p, generation_archive_open, 0, 0);
}

/* A broker was away while others built five lists, 2 and 4 for the archive. It
 * builds 2, restarts, and builds 4 and 5, each from its state at the position
 * of that list. */
TEST(are_built_for_the_archive_by_a_broker_that_was_away)
{
    struct pair *p = *state;
    struct build_orders *late = &p->w[1];

    keep(p, "2");
    for (unsigned n = 1; n <= 5; n++)
        build_list(p, 0);
    post(p, 0, 30);
    follow(p, 1);
    assert_int_equal(try_list(late, 1), STATUS_GONE);
    for (uint64_t n = 2; n <= 5; n++)
        assert_int_equal(try_list(late, n), n == 3 ? STATUS_GONE : STATUS_BUSY);
    assert_equal_archives(p, 2);
    for (unsigned i = 0; try_list(late, 2); i++) {
        assert_in_range(i, 0, 1000);
        if (!build_orders_round(late))
            build_orders_look(late);
    }
    restart(p, 1);
    assert_int_equal(try_list(late, 4), STATUS_BUSY);
    build_orders_work(&p->w[1]);
    for (uint64_t n = 1; n <= 5; n++)
        assert_int_equal(try_list(late, n),
                         n % 2 && n < 5 ? STATUS_GONE : STATUS_OK);
    assert_equal_documents(p, 5);
    for (uint64_t n = 2; n <= 4; n += 2)
        assert_equal_document(p, resourcelist_generation_open, n, 1);
    assert_int_equal(state_fold_seq(sets_find(&late->sets, "demo")), 180);
}

/* An order for the archive is no part of the archive, also after a restart. The
 * list enters the archive when a broker has built it. */
TEST(are_in_the_archive_when_they_are_current)
{
    struct pair *p = *state;
    struct build_order one;

    keep(p, "1");
    build_list(p, 0);
    post(p, 0, 30);
    order(p, 0, &one);
    follow(p, 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(lists(&p->w[1]).ordered.is_archived);
        assert_equal_archives(p, 1);
        restart(p, 1);
    }
    build_orders_work(&p->w[0]);
    follow(p, 1);
    assert_equal_archives(p, 2);
    build_orders_work(&p->w[1]);
    assert_equal_documents(p, 2);
}

/* A broker orders a list for the archive while another one has another number
 * ordered, and built. */
TEST(are_ordered_only_behind_the_list_that_was_seen)
{
    struct pair *p = *state;
    struct set *set;
    struct head head;
    struct act act = {.kind = ACT_GENERATION,
                      .generation.build = {.kind = GENERATION_RESOURCELIST,
                                           .is_archived = true}};

    keep(p, "\"none\"");
    post(p, 1, 30);
    follow(p, 0);
    build_list(p, 0);
    set = sets_find(&p->w[1].sets, "demo");
    assert_int_equal(
        log_act(p->w[1].sets.registry->log, set->log, &act, 0, NULL),
        STATUS_OK);
    assert_true(log_head(set->log, &head));
    assert_int_equal(head.generations[GENERATION_RESOURCELIST].last, 1);
    assert_int_equal(head.generations[GENERATION_RESOURCELIST].ordered.number,
                     0);
}

/* Two brokers let go of the same lists: the second one finds them gone. */
TEST(leave_the_archive_once)
{
    struct pair *p = *state;

    keep(p, "1");
    for (unsigned n = 1; n <= 4; n++)
        build_list(p, 0);
    follow(p, 1);
    for (int i = 0; i < 2; i++)
        atomic_store(&sets_find(&p->w[i].sets, "demo")->retain_lists, 2);
    sets_retain(&p->w[0].sets);
    sets_retain(&p->w[1].sets); /* its head is older */
    follow(p, 0);
    assert_int_equal(lists(&p->w[1]).first_archived, 3);
    assert_equal_archives(p, 2);
    build_orders_work(&p->w[1]);
    assert_int_equal(try_list(&p->w[1], 2), STATUS_GONE);
    assert_int_equal(try_list(&p->w[1], 3), STATUS_OK);
    assert_equal_documents(p, 4);
}

/* A broker begins list 1 of the archive while others let go of it. */
TEST(are_given_up_when_the_archive_has_lost_them)
{
    struct pair *p = *state;
    struct build_orders *late = &p->w[1];

    keep(p, "1");
    for (unsigned n = 1; n <= 3; n++)
        build_list(p, 0);
    follow(p, 1);
    for (unsigned i = 0; !late->schedule.build; i++) {
        assert_in_range(i, 0, 1000);
        if (!build_orders_round(late))
            build_orders_look(late);
    }
    atomic_store(&sets_find(&p->w[0].sets, "demo")->retain_lists, 2);
    sets_retain(&p->w[0].sets);
    follow(p, 1);
    build_orders_work(&p->w[1]);
    assert_int_equal(try_list(late, 1), STATUS_GONE);
    assert_int_equal(try_list(late, 2), STATUS_OK);
    assert_equal_documents(p, 3);
    assert_equal_archives(p, 2);
}

/* Lost orders */

/* Broker 0 orders a list, and its state passes the position, for it was not
 * whole then. */
static void
pass_order(struct pair *p, struct build_order *one)
{
    struct build_orders *w = &p->w[0];
    struct problem why = {""};
    struct resources *r;
    struct set *set;

    post(p, 0, 50);
    order(p, 0, one);
    post(p, 0, 10);
    set = sets_find(&w->sets, "demo");
    assert_int_equal(state_fold_open(&w->folding, set, &r, &why), STATUS_OK);
    assert_int_equal(fold_db_begin((struct fold_db *)r, 20, &why), STATUS_OK);
    assert_int_equal(state_fold_open(&w->folding, set, &r, &why), STATUS_OK);
    fold(w);
    assert_int_equal(resources_at(r)->seq, 60);
    assert_int_equal(lists(w).ordered.seq, 50);
    assert_int_equal(resources_heal(r, 20, 60, &why), STATUS_OK);
    assert_int_equal(state_fold_open(&w->folding, set, &r, &why), STATUS_OK);
}

/* After a while another order replaces it. */
TEST(are_ordered_again_when_nobody_can_build_them)
{
    struct pair *p = *state;
    struct build_orders *w = &p->w[0];
    struct build_order one;

    pass_order(p, &one);
    build_orders_work(w);
    assert_int_equal(lists(w).current.number, 2);
    assert_int_equal(lists(w).current.seq, 60);
    assert_int_equal(lists(w).ordered.number, 0);
    assert_true(is_done(&one));
    assert_true(generation_sweep_one(w->sets.registry)); /* the former order */
    assert_false(generation_sweep_one(w->sets.registry));
    follow(p, 1);
    assert_int_equal(lists(&p->w[1]).current.number, 2);
}

/* The number of an order that was never built, too. */
TEST(have_numbers_that_no_restart_repeats)
{
    struct pair *p = *state;
    struct build_orders *w = &p->w[0];
    static struct build_order one, other;

    pass_order(p, &one);
    restart(p, 0);
    fold(w);
    order(p, 0, &other);
    assert_int_equal(lists(w).ordered.number, 2);
    build_orders_work(w);
    assert_int_equal(lists(w).current.number, 2);
}

/* A list of a removed set is never served as one of the next set of that
 * name. */
TEST(of_a_removed_set_are_not_served)
{
    struct pair *p = *state;
    struct document document;
    struct build_order one;

    for (unsigned i = 0; i < 2; i++) {
        post(p, 0, 30);
        order(p, 0, &one);
        build_orders_work(&p->w[0]);
        follow(p, 1);
        if (i == 0) {
            build_orders_work(&p->w[1]);
            set_changes_remove(&p->w[0].sets, "demo");
        }
    }
    assert_true(generation_is_here(sets_find(&p->w[1].sets, "demo"),
                                   GENERATION_RESOURCELIST, 1));
    assert_int_equal(
        build_orders_try(&p->w[1], resourcelist_current_open, 0, 0, &document),
        STATUS_BUSY);
}

/* The disk is full, or has room again; the log of broker `i` knows. */
static void
set_full(struct pair *p, int i, bool is)
{
    struct log_health health;

    atomic_store(&is_full, is);
    clock_pass_us(1000000); /* the log looks again */
    follow(p, i);
    log_health(p->w[i].sets.registry->log, &health);
    assert_int_equal(health.has_room, !is);
}

/* Broker `i` retires all its closed lists but one, without grace. */
static void
retire(struct pair *p, int i)
{
    struct sets *s = &p->w[i].sets;
    struct log *log = s->registry->log;
    struct set *set = sets_find(s, "demo");
    struct problem why = {""};
    struct list_info some[8];
    size_t n = 8;

    sets_file_all(s);
    assert_int_equal(log_lists(log, set->log, 1, some, &n, &why), STATUS_OK);
    assert_int_equal(log_retire(log, set->log, some, n - 1, 0, &why),
                     STATUS_OK);
}

/* A list that this broker has no room for does not hold up the deletion of old
 * lists, which makes room. It serves its former list until the next one. */
TEST(without_room_are_passed_over_for_the_deletion_of_old_lists)
{
    struct pair *p = *state;
    struct build_orders *late = &p->w[1];
    struct build_order one;
    struct document document;
    struct problem why = {""};
    struct list_info list;
    struct set *set;

    post(p, 0, 30);
    order(p, 0, &one);
    build_orders_work(&p->w[0]);
    follow(p, 1);
    build_orders_work(late);
    set = sets_find(&late->sets, "demo");
    post(p, 0, 30);
    order(p, 0, &one);
    post(p, 0, 60);
    build_orders_work(&p->w[0]);
    retire(p, 0);
    follow(p, 1);
    set_full(p, 1, true);
    build_orders_work(late);
    assert_int_equal(state_fold_seq(set), 30); /* nothing is in need of it */
    for (int i = 0; i < 5; i++) { /* it asks for one list after the other */
        sets_purge(&late->sets);
        build_orders_work(late);
    }
    assert_int_equal(
        log_list(late->sets.registry->log, set->log, 4, &list, NULL, &why),
        STATUS_NOT_FOUND);
    while (generation_sweep_one(late->sets.registry))
        ;
    assert_int_equal(
        build_orders_try(late, resourcelist_current_open, 0, 0, &document),
        STATUS_OK);
    assert_string_equal(document.lasting,
                        set_link_generation(sets_find(&late->sets, "demo"),
                                            GENERATION_RESOURCELIST, 1)
                            .text);
    document_close(&document);

    /* It has ordered the next one, for the log begins behind the current. */
    set_full(p, 1, false);
    clock_pass_us(60000000);
    build_orders_work(late);
    assert_int_equal(build_orders_current(late).seq, 120);
    follow(p, 0);
    build_orders_work(&p->w[0]);
    assert_equal_documents(p, 3);
}
