/*
 * Two logs, each with its own engine, and one journal.
 */
#include "broker/log/journal.h"

#include "base/clock.h"
#include "broker/log/record.h"
#include "tests/clock.h"
#include "tests/support/shared_journal.h"
#include "tests/unit/log/rounds.h"

struct pair {
    struct shared_journal all;
    struct seat seats[2];
    struct world *w[2];
};

static struct log_set *
on_foreign(const struct act *act, void *user)
{
    struct world *w = user;

    return !strcmp(act->name, "a") ? &w->a : &w->b;
}

static int
pair_setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    shared_journal_init(&p->all);
    for (int i = 0; i < 2; i++) {
        p->w[i] = world_open(0);
        p->w[i]->options.journal = seat_take(&p->seats[i], &p->all);
        p->w[i]->options.on_foreign = on_foreign;
    }
    *state = p;
    return 0;
}

static int
pair_teardown(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 2; i++) {
        void *world = p->w[i];

        world_teardown(&world);
    }
    shared_journal_fini(&p->all);
    free(p);
    return 0;
}

FIXTURE(pair_setup, pair_teardown);

static void
keep(struct world *w, struct log_set *set, unsigned n, uint64_t first)
{
    uint64_t got;

    assert_int_equal(post(w, set, n, &got), STATUS_OK);
    assert_int_equal(got, first);
}

/* Both engines keep the same batches, and both sets have the same head. */
static void
assert_equal_copies(const struct pair *p)
{
    const struct fake *one = &p->w[0]->fake, *two = &p->w[1]->fake;
    struct head a = head_of(&p->w[0]->a), b = head_of(&p->w[1]->a);

    assert_int_equal(one->n_batches, two->n_batches);
    for (unsigned i = 0; i < one->n_batches; i++) {
        const struct batch *x = one->batches[i], *y = two->batches[i];

        assert_int_equal(one->sets[i], two->sets[i]);
        assert_int_equal(x->first, y->first);
        assert_int_equal(x->list, y->list);
        assert_int_equal(x->list_bytes, y->list_bytes);
        assert_true(slice_equal(batch_slice(x, x->first - 1, x->last),
                                batch_slice(y, y->first - 1, y->last)));
        assert_true(digest_is_equal(&x->digest, &y->digest));
    }
    assert_int_equal(one->n_ends, two->n_ends);
    for (unsigned i = 0; i < one->n_ends; i++)
        assert_string_equal(one->headers[i], two->headers[i]);
    assert_int_equal(one->place, two->place);
    assert_string_equal(a.epoch, b.epoch);
    assert_int_equal(a.created_us, b.created_us);
    assert_int_equal(a.last, b.last);
    assert_int_equal(a.last_us, b.last_us);
    assert_int_equal(a.list, b.list);
    assert_int_equal(a.list_bytes, b.list_bytes);
    assert_int_equal(a.list_first_us, b.list_first_us);
    assert_int_equal(a.commit_after, b.commit_after);
    assert_true(digest_is_equal(&a.digest, &b.digest));
}

/* The other log follows all that is in the journal. */
static void
catch_up(struct pair *p, int i)
{
    for (size_t n = 0; n < p->all.n; n++) {
        struct posted record;

        posts_begin(&record, POST_RECORD, NULL);
        record.post.record = buf_slice(&p->all.records[n].bytes);
        record.post.place = p->all.records[n].place;
        submit(p->w[i], &record);
        assert_int_equal(posts_wait(&record), STATUS_OK);
        posts_end(&record);
    }
}

/* Issue, 2: posts of many brokers have one order, with times of one clock. */
TEST(puts_posts_of_two_brokers_in_one_order)
{
    struct pair *p = *state;

    keep(p->w[0], &p->w[0]->a, 2, 1);
    keep(p->w[1], &p->w[1]->a, 3, 3);
    keep(p->w[1], &p->w[1]->b, 1, 1);
    keep(p->w[0], &p->w[0]->b, 1, 2);
    keep(p->w[0], &p->w[0]->a, 1, 6);
    catch_up(p, 1);
    assert_equal_copies(p);
    assert_int_equal(p->all.n, 5);
    assert_int_equal(head_of(&p->w[1]->a).last_us, p->all.now_us);
}

/* Readers of a broker that takes no posts hear of those of others. */
TEST(follows_records_without_a_turn)
{
    struct pair *p = *state;

    keep(p->w[0], &p->w[0]->a, 2, 1);
    p->seats[1].is_cut = true;
    catch_up(p, 1);
    catch_up(p, 1); /* a record that is known is no fault */
    assert_equal_copies(p);
}

/* A record that comes before its time is asked for again. */
TEST(leaves_no_record_out)
{
    struct pair *p = *state;
    struct posted record;

    keep(p->w[0], &p->w[0]->a, 2, 1);
    keep(p->w[0], &p->w[0]->a, 2, 3);
    posts_begin(&record, POST_RECORD, NULL);
    record.post.record = buf_slice(&p->all.records[1].bytes);
    record.post.place = p->all.records[1].place;
    submit(p->w[1], &record);
    assert_int_equal(posts_wait(&record), STATUS_AGAIN);
    posts_end(&record);
    assert_int_equal(head_of(&p->w[1]->a).last, 0);
    keep(p->w[1], &p->w[1]->a, 1, 5);
}

/* lists end after the same entry everywhere, whoever ends them. */
TEST(ends_lists_at_the_same_place)
{
    struct pair *p = *state;
    struct posted *close;

    p->w[0]->options.limits.entries = p->w[1]->options.limits.entries = 3;
    keep(p->w[0], &p->w[0]->a, 2, 1);
    keep(p->w[1], &p->w[1]->a, 2, 3);
    close = submit(p->w[0], make_post(p->w[0], POST_CLOSE, &p->w[0]->a));
    assert_int_equal(posts_wait(close), STATUS_OK);
    assert_int_equal(close->post.ended, 2);
    catch_up(p, 1);
    assert_int_equal(p->w[1]->fake.n_ends, 2);
    assert_int_equal(atomic_load(&p->w[1]->n_closed), 2);
    assert_equal_copies(p);
}

/* Issue, 2: a key that one broker took is known to all. */
TEST(knows_keys_of_other_brokers)
{
    struct pair *p = *state;
    struct posted *first = changes(p->w[0], &p->w[0]->a, 2);
    struct posted *again = changes(p->w[1], &p->w[1]->a, 2);

    give_key(first, "one");
    give_key(again, "one");
    assert_kept(submit(p->w[0], first), 1);
    assert_kept(submit(p->w[1], again), 1);
    assert_true(again->post.is_repeat);
    assert_int_equal(p->all.n, 1);
    assert_equal_copies(p);
}

/* Issue, 7: without the journal posts are refused and local acts go on. */
TEST(refuses_posts_without_a_turn)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *filed;

    keep(w, &w->a, 1, 1);
    p->seats[0].is_cut = true;
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "the journal is away");
    filed = make_act(w, ACT_FILED, &w->a);
    filed->act.filed.list = 1;
    assert_int_equal(posts_wait(submit(w, filed)), STATUS_OK);
    assert_int_equal(w->fake.filed, 1);
    assert_int_equal(p->all.n, 1);

    p->seats[0].is_cut = false;
    keep(w, &w->a, 1, 2);
}

/* Local acts need no journal, and it gets none. */
TEST(keeps_local_acts_to_itself)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *filed = make_act(w, ACT_FILED, &w->a);

    keep(w, &w->a, 1, 1);
    assert_int_equal(posts_wait(submit(w, filed)), STATUS_OK);
    assert_int_equal(p->all.n, 1);
    assert_int_equal(w->fake.place, 1);
}

#define UNKNOWN                                                           \
    "nobody knows yet whether the journal has kept this: repeat it with " \
    "the same Idempotency-Key (the journal went away)"

/* What an append comes to is what the journal says afterwards. */
TEST(believes_the_journal_after_an_unknown_outcome)
{
    static const struct {
        enum seat_outcome outcome;
        uint64_t next;
        const char *why;
    } cases[] = {
        {SEAT_LOST, 2, "the journal went away"},
        {SEAT_UNKNOWN_LOST, 2, UNKNOWN},
        {SEAT_UNKNOWN_KEPT, 3, UNKNOWN},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair *p;
        struct world *w;
        void *own;

        pair_setup(&own);
        p = own;
        w = p->w[0];
        keep(w, &w->a, 1, 1);
        p->seats[0].outcome = cases[i].outcome;
        assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                       cases[i].why);
        /* The log looks by itself for what the journal has kept. */
        assert_true(head_of(&w->a).last < cases[i].next);
        p->seats[0].outcome = SEAT_KEPT;
        keep(w, &w->a, 1, cases[i].next);
        catch_up(p, 1);
        assert_equal_copies(p);
        pair_teardown(&own);
    }
}

static void
look_ahead(void *user)
{
    struct world *w = user;

    assert_int_equal(count(w, &w->fake.n_ahead), 1);
    assert_int_equal(count(w, &w->fake.n_batches), 0);
    assert_int_equal(head_of(&w->a).last, 0);
}

/* The engine writes while the journal keeps the record. Nothing of it counts
 * before the commit, which comes only when the journal has the record: fake
 * engines check that it is the same one. */
TEST(writes_ahead_while_the_journal_keeps_a_record)
{
    struct pair *p = *state;
    struct world *w = p->w[0];

    p->seats[0].before_outcome = look_ahead;
    p->seats[0].user = w;
    keep(w, &w->a, 1, 1);
    assert_int_equal(count(w, &w->fake.n_ahead_kept), 1);
    p->seats[0].outcome = SEAT_LOST;
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "the journal went away");
    p->seats[0].outcome = SEAT_UNKNOWN_KEPT;
    assert_refused(submit(w, changes(w, &w->a, 2)), STATUS_BUSY, UNKNOWN);
    assert_int_equal(count(w, &w->fake.n_ahead), 3);
    assert_int_equal(count(w, &w->fake.n_ahead_kept), 1);
    catch_up(p, 0); /* without a look ahead */
    assert_int_equal(head_of(&w->a).last, 3);
    assert_int_equal(count(w, &w->fake.n_ahead), 3);
    assert_int_equal(count(w, &w->fake.n_ahead_kept), 1);
    catch_up(p, 1);
    assert_equal_copies(p);
}

static void
post_at_the_other(void *user)
{
    struct pair *p = user;

    keep(p->w[1], &p->w[1]->a, 2, 1);
}

/* A journal without turns: the round that comes too late is stamped again, with
 * its keys and its births. */
TEST(stamps_again_what_came_too_late)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *late = changes(w, &w->a, 2);

    p->all.has_no_turns = true;
    give_key(late, "late");
    p->seats[0].before_append = post_at_the_other;
    p->seats[0].user = p;
    assert_kept(submit(w, late), 3);
    assert_false(late->post.is_birth);
    assert_int_equal(p->all.n_conflicts, 1);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* A broker that was alone does not wait for its turn. When it was not alone
 * after all, it does. */
TEST(presumes_a_turn_until_another_broker_posts)
{
    struct pair *p = *state;
    struct seat *seat = &p->seats[0];
    struct world *w = p->w[0];

    keep(w, &w->a, 2, 1);
    seat->is_presumed = true;
    keep(w, &w->a, 1, 3);
    keep(w, &w->a, 1, 4);
    assert_int_equal(seat->n_turns, 1);
    assert_int_equal(head_of(&w->a).last_us, p->all.now_us);
    keep(p->w[1], &p->w[1]->a, 2, 5);
    keep(w, &w->a, 1, 7);
    assert_int_equal(seat->n_turns, 2);
    assert_int_equal(p->all.n_conflicts, 1);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* A list that is to end, whichever is open, is the one that is open then. */
TEST(ends_the_list_that_another_broker_has_begun)
{
    struct pair *p = *state;
    struct world *w[] = {p->w[0], p->w[1]};
    struct posted *close[2];

    keep(w[0], &w[0]->a, 1, 1);
    close[1] = submit(w[1], make_post(w[1], POST_CLOSE, &w[1]->a));
    assert_int_equal(posts_wait(close[1]), STATUS_OK);
    keep(w[1], &w[1]->a, 1, 2);
    p->seats[0].is_presumed = true;
    close[0] = submit(w[0], make_post(w[0], POST_CLOSE, &w[0]->a));
    assert_int_equal(posts_wait(close[0]), STATUS_OK);
    assert_int_equal(p->all.n_conflicts, 1);
    assert_int_equal(close[1]->post.ended, 1);
    assert_int_equal(close[0]->post.ended, 2);
}

static enum status
want_two_entries(struct post *post)
{
    if (post->set->draft.last == 2)
        return STATUS_OK;
    return problem(&post->why, STATUS_INVALID, "not two entries");
}

/* Another broker may have added the entries that a post needs. The post before
 * it keeps its place. */
TEST(refuses_nothing_without_the_turn)
{
    struct pair *p = *state;
    struct seat *seat = &p->seats[0];
    struct world *w = p->w[0];
    struct posted *held = hold(w, changes(w, &w->b, 1));
    struct posted *before = submit(w, changes(w, &w->b, 1));
    struct posted *picky = changes(w, &w->a, 1);

    keep(p->w[1], &p->w[1]->a, 2, 1);
    picky->post.prepare = want_two_entries;
    submit(w, picky);
    seat->is_presumed = true;
    set_shut(w, false);
    assert_kept(held, 1);
    assert_kept(before, 2);
    assert_kept(picky, 3);
    assert_int_equal(seat->n_turns, 2);
    assert_int_equal(p->all.n_conflicts, 0);
    assert_int_equal(p->all.n, 3);

    /* And with it, it does. */
    picky = changes(w, &w->a, 1);
    picky->post.prepare = want_two_entries;
    seat->is_presumed = true;
    assert_refused(submit(w, picky), STATUS_INVALID, "not two entries");
    assert_int_equal(seat->n_turns, 3);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* Posts for a log that waits for its turn. */
struct late {
    struct world *w;
    struct posted record, *changes;
};

static void
submit_late(void *user)
{
    struct late *late = user;

    submit(late->w, &late->record);
    submit(late->w, late->changes);
}

/* Deflated, they are large. */
#define LARGE_POST 40000

static void
submit_one(void *user)
{
    struct late *late = user;

    submit(late->w, late->changes);
}

/* Most of a large record that another broker overtakes is at the journal before
 * the turn: of the same posts; later ones wait. */
TEST(sends_a_large_record_before_the_turn)
{
    struct pair *p = *state;
    struct seat *seat = &p->seats[0];
    struct world *w = p->w[0];
    struct late late = {.w = w, .changes = changes(w, &w->a, 1)};
    struct posted *large = make_post(w, POST_CHANGES, &w->a);

    for (unsigned i = 0; i < LARGE_POST; i++)
        posts_add(large, i * 2654435761u, 0);
    keep(w, &w->a, 1, 1);
    keep(p->w[1], &p->w[1]->a, 2, 2);
    seat->is_presumed = true;
    seat->before_turn = submit_one;
    seat->user = &late;
    submit(w, large);
    assert_kept(large, 4);
    assert_kept(late.changes, LARGE_POST + 4);
    assert_int_equal(p->all.n_conflicts, 1);
    assert_int_equal(p->all.n, 4);
    assert_true(seat->n_bulk > RECORD_LARGE);
    assert_int_equal(p->all.records[2].bytes.data[0], 6); /* in two parts */
    keep(w, &w->a, 1, LARGE_POST + 5);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* A turn may be long in coming. A record that came with it ends no round. */
TEST(takes_posts_that_came_while_it_waited_for_its_turn)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *first = changes(w, &w->a, 1);
    struct late late = {.w = w, .changes = changes(w, &w->a, 1)};

    keep(p->w[1], &p->w[1]->a, 2, 1);
    posts_begin(&late.record, POST_RECORD, NULL);
    late.record.post.record = buf_slice(&p->all.records[0].bytes);
    late.record.post.place = p->all.records[0].place;
    p->seats[0].before_turn = submit_late;
    p->seats[0].user = &late;
    assert_kept(submit(w, first), 3);
    assert_kept(late.changes, 4);
    assert_int_equal(posts_wait(&late.record), STATUS_OK);
    posts_end(&late.record);
    assert_int_equal(p->all.n, 2);
    catch_up(p, 1);
    assert_equal_copies(p);
}

static void
take_8_ms(void *user)
{
    (void)user;
    clock_pass_us(8000);
}

static void
take_8_s(void *user)
{
    (void)user;
    clock_pass_us(8000000);
}

/* Publishers that were answered together post again within a moment. */
TEST(waits_for_as_many_posts_as_the_last_round_had)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *held = hold(w, changes(w, &w->a, 1));
    struct posted *one = submit(w, changes(w, &w->a, 1));
    struct posted *two = submit(w, changes(w, &w->a, 1));

    p->seats[0].before_append = take_8_ms;
    set_shut(w, false);
    assert_kept(held, 1);
    assert_kept(one, 2);
    assert_kept(two, 3);
    assert_int_equal(p->all.n, 2);

    one = submit(w, changes(w, &w->a, 1));
    clock_await_us(1000);
    p->seats[0].before_append = take_8_s;
    two = submit(w, changes(w, &w->a, 1));
    assert_kept(one, 4);
    assert_kept(two, 5);
    assert_int_equal(p->all.n, 3);

    catch_up(p, 0); /* no record waits */
    one = submit(w, changes(w, &w->a, 1));
    clock_await_us(5000);
    clock_pass_us(5000);
    assert_kept(one, 6);
    assert_int_equal(p->all.n, 4);
}

/* Issue, 7: a journal with another history is not followed; this copy stays as
 * it is. */
TEST(stops_before_another_history)
{
    struct pair *p = *state;
    struct world *w = p->w[1];

    keep(p->w[0], &p->w[0]->a, 1, 1);
    keep(w, &w->a, 1, 2);
    p->all.records[1].place.chain.bytes[0] ^= 1;
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "another history");
    assert_int_equal(head_of(&w->a).last, 2);
}

/* The acts fit the journal, and not this copy. */
TEST(stops_before_a_record_that_does_not_follow)
{
    struct pair *p = *state;
    struct world *w = p->w[1];
    struct posted record;
    struct journal_place place = {.n = 0};

    keep(p->w[0], &p->w[0]->a, 1, 1);
    keep(p->w[0], &p->w[0]->a, 1, 2);
    posts_begin(&record, POST_RECORD, NULL);
    record.post.record = buf_slice(&p->all.records[1].bytes);
    journal_place_next(&place, record.post.record);
    record.post.place = place;
    submit(w, &record);
    assert_int_equal(posts_wait(&record), STATUS_DIFFERENT);
    posts_end(&record);
    assert_int_equal(w->fake.n_batches, 0);
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "this broker and the journal do not agree");
}

#define KEPT_ELSEWHERE                                                       \
    "the journal has kept this, and this broker cannot yet: repeat it with " \
    "the same Idempotency-Key (the disk is full)"

/* Issue, 7: what the journal has and this disk refused comes with the next
 * turn. A client that was refused, and repeats its post, gets the first answer.
 */
TEST(comes_back_to_what_its_disk_refused)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct posted *refused = changes(w, &w->a, 2);
    struct posted *again = changes(w, &w->a, 2);

    keep(w, &w->a, 1, 1);
    give_key(refused, "one");
    give_key(again, "one");
    refuse_after(w, 0, 2);
    assert_refused(submit(w, refused), STATUS_BUSY, KEPT_ELSEWHERE);
    assert_int_equal(p->all.n, 2);
    assert_int_equal(head_of(&w->a).last, 1);
    /* the disk is still full */
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "the disk is full");
    assert_int_equal(p->all.n, 2);
    assert_kept(submit(w, again), 2);
    assert_true(again->post.is_repeat);
    assert_int_equal(head_of(&w->a).last, 3);
    keep(w, &w->a, 1, 4);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* Readers need no post: the follower brings it, too. */
TEST(follows_what_its_disk_refused)
{
    struct pair *p = *state;
    struct world *w = p->w[0];

    refuse_after(w, 0, 1);
    assert_refused(submit(w, changes(w, &w->a, 2)), STATUS_BUSY,
                   KEPT_ELSEWHERE);
    catch_up(p, 0);
    catch_up(p, 1);
    assert_int_equal(head_of(&w->a).last, 2);
    assert_equal_copies(p);
}

static struct engine_ops full_ops;
static atomic_bool is_full;

static uint64_t
no_room(struct engine *engine)
{
    (void)engine;
    return atomic_load(&is_full) ? 0 : UINT64_MAX;
}

/* A copy on a full disk stays behind, and leaves room for what frees some. */
TEST(follows_no_entries_without_room)
{
    struct pair *p = *state;
    struct world *w = p->w[1];
    struct posted *filed = make_act(w, ACT_FILED, &w->a);
    struct posted record;

    full_ops = *w->fake.engine.ops;
    full_ops.room = no_room;
    w->fake.engine.ops = &full_ops;
    keep(p->w[0], &p->w[0]->a, 2, 1);
    atomic_store(&is_full, true);
    posts_begin(&record, POST_RECORD, NULL);
    record.post.record = buf_slice(&p->all.records[0].bytes);
    record.post.place = p->all.records[0].place;
    submit(w, &record);
    assert_int_equal(posts_wait(&record), STATUS_BUSY);
    assert_string_equal(record.post.why.text, "the disk is nearly full");
    posts_end(&record);
    assert_int_equal(head_of(&w->a).last, 0);
    assert_int_equal(posts_wait(submit(w, filed)), STATUS_OK);
    atomic_store(&is_full, false);
    catch_up(p, 1);
    assert_equal_copies(p);
}

/* `words` NULL: it is not cut off. */
static void
assert_cut_off(struct order *order, const char *words)
{
    struct log_copy copy;

    order_copy(order, 0, &copy);
    assert_int_equal(copy.is_cut_off, words != NULL);
    if (words)
        assert_string_equal(copy.why.text, words);
}

/* Issue, 7: what a broker knows of its copy. */
TEST(knows_how_far_its_copy_is)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct order *order = &w->log_thread.order;
    int64_t before_us = clock_steady_us();

    assert_cut_off(order, "the journal has not answered yet");
    assert_false(order_is_certain(order, before_us));
    keep(w, &w->a, 1, 1);
    assert_cut_off(order, NULL);
    assert_true(order_is_certain(order, before_us));
    assert_int_equal(order->end, 1);

    clock_pass_us(1);
    assert_false(order_is_certain(order, clock_steady_us()));
    p->seats[0].is_cut = true;
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "the journal is away");
    assert_cut_off(order, "the journal is away");
    assert_false(order_is_certain(order, clock_steady_us()));
    assert_true(order_is_certain(order, before_us));
    p->seats[0].is_cut = false;
    keep(w, &w->a, 1, 2);
    assert_cut_off(order, NULL);
    assert_true(order_is_certain(order, clock_steady_us()));
}

/* A checkpoint's time is past by the journal's clock. */
TEST(knows_that_later_entries_have_later_times)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct order *order = &w->log_thread.order;
    struct log_copy copy;
    int64_t past_us;

    order_copy(order, 0, &copy);
    assert_int_equal(copy.past_us, 0);
    keep(w, &w->a, 1, 1);
    order_copy(order, 0, &copy);
    assert_int_equal(copy.past_us, p->all.now_us - 1);
    past_us = copy.past_us;
    clock_pass_us(60000000); /* this broker's */
    order_copy(order, 0, &copy);
    assert_int_equal(copy.past_us, past_us);
    order_note(order, clock_steady_us(), past_us + 7);
    order_copy(order, 0, &copy);
    assert_int_equal(copy.past_us, past_us + 7);
    order_note(order, clock_steady_us(), 0); /* somebody has the turn */
    catch_up(p, 1);
    order_copy(&p->w[1]->log_thread.order, 0, &copy);
    assert_int_equal(copy.past_us, past_us);
}

static unsigned
turns_of(struct seat *seat)
{
    unsigned n;

    pthread_mutex_lock(&seat->all->mutex);
    n = seat->n_turns;
    pthread_mutex_unlock(&seat->all->mutex);
    return n;
}

/* Records that come do not hide that there are no turns. The log thread asks
 * for one without a post. */
TEST(finds_out_alone_that_there_are_turns_again)
{
    struct pair *p = *state;
    struct world *w = p->w[0];
    struct order *order = &w->log_thread.order;
    unsigned n;

    keep(w, &w->a, 1, 1);
    p->seats[0].is_cut = true;
    assert_refused(submit(w, changes(w, &w->a, 1)), STATUS_BUSY,
                   "the journal is away");
    order_note(order, clock_steady_us(), 0); /* a follower's look */
    assert_cut_off(order, "the journal is away");

    p->seats[0].is_cut = false;
    n = turns_of(&p->seats[0]);
    do
        clock_pass_us(1000000);
    while (atomic_load(&order->cuts[CUT_TURNS].is));
    assert_int_equal(turns_of(&p->seats[0]), n + 1);
    assert_cut_off(order, NULL);
    keep(w, &w->a, 1, 2);
}

/* Whether a broker can work for its cluster, after each thing that the follower
 * or the log thread has learnt. */
TEST(knows_whether_it_can_work)
{
    enum { LOOK, END, TURN, RIGHT, PASS };

    static const struct {
        int what;
        enum status rc; /* of a look, a turn or the rights; or seconds */
        enum copy_state state;
    } rows[] = {
        {LOOK, STATUS_UNREACHABLE, COPY_CUT_OFF},
        {LOOK, STATUS_REFUSED, COPY_REFUSED},
        {END, STATUS_OK, COPY_CATCHING_UP},
        {RIGHT, STATUS_FORBIDDEN, COPY_NO_RIGHT},
        {RIGHT, STATUS_OK, COPY_CATCHING_UP},
        {LOOK, STATUS_OK, COPY_CERTAIN},
        /* What passes soon moves no work. */
        {LOOK, STATUS_UNREACHABLE, COPY_CERTAIN},
        {TURN, STATUS_UNREACHABLE, COPY_CERTAIN},
        {PASS, 9, COPY_CERTAIN},
        {TURN, STATUS_UNREACHABLE, COPY_CERTAIN},
        {PASS, 1, COPY_CUT_OFF},
        {END, STATUS_OK, COPY_BEHIND},
        {LOOK, STATUS_UNSUPPORTED, COPY_BEHIND},
        {LOOK, STATUS_BUSY, COPY_BEHIND},
        {LOOK, STATUS_CONFLICT, COPY_REFUSED},
        {LOOK, STATUS_OK, COPY_NO_TURNS},
        {TURN, STATUS_OK, COPY_CERTAIN},
        /* What does not pass by itself counts at once, and stays until it is
         * over. */
        {RIGHT, STATUS_FORBIDDEN, COPY_NO_RIGHT},
        {LOOK, STATUS_NOT_FOUND, COPY_AHEAD},
        {LOOK, STATUS_OK, COPY_NO_RIGHT},
        {LOOK, STATUS_DIFFERENT, COPY_DIFFERENT},
        {LOOK, STATUS_UNREACHABLE, COPY_DIFFERENT},
        {LOOK, STATUS_GONE, COPY_FORGOTTEN},
        {RIGHT, STATUS_OK, COPY_FORGOTTEN},
        {LOOK, STATUS_OK, COPY_CERTAIN},
    };
    const struct problem why = {"the reason"};
    struct pair *p = *state;
    struct order fresh = {0}, *order = &fresh; /* no thread asks for turns */
    struct log_copy copy;

    order_init(order, p->w[0]->log_thread.order.options);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        enum status rc = rows[i].rc;

        if (rows[i].what == PASS)
            clock_pass_us((int64_t)rc * 1000000);
        else if (rows[i].what == END)
            order_note_end(order, 1);
        else if (rows[i].what == LOOK)
            order_note_look(order, rc);
        if (rows[i].what == LOOK && !rc)
            order_note(order, clock_steady_us(), 0);
        else if (rows[i].what != PASS && rows[i].what != END)
            order_cut_off(order,
                          rows[i].what == LOOK   ? CUT_RECORDS
                          : rows[i].what == TURN ? CUT_TURNS
                                                 : CUT_RIGHTS,
                          rc ? &why : NULL);
        order_copy(order, 0, &copy);
        if (copy.state != rows[i].state)
            fail_msg("row %zu: %s", i, copy_state_names[copy.state]);
        assert_true(!copy.state || copy.why.text[0]);
    }
}
