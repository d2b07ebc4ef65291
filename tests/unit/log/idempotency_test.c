/*
 * idempotency_test.c - posts with a key, as the log thread takes them.
 */
#include "broker/log/idempotency.h"

#include "broker/base/client_limits.h"
#include "tests/test.h"
#include "tests/unit/log/rounds.h"

/* A post of `n` light entries with a key. */
static struct posted *
keyed(struct world *w, struct log_set *set, const char *key, unsigned n)
{
    struct posted *p = changes(w, set, n);

    give_key(p, key);
    return p;
}

/* Posts it, waits, and expects that status. */
static struct posted *
post_key(struct world *w, struct log_set *set, const char *key, unsigned n,
         enum status status)
{
    struct posted *p = submit(w, keyed(w, set, key, n));

    assert_int_equal(posts_wait(p), status);
    return p;
}

static void
assert_same_outcome(const struct posted *a, const struct posted *b)
{
    assert_int_equal(a->post.status, STATUS_OK);
    assert_int_equal(b->post.status, STATUS_OK);
    assert_int_equal(a->post.first, b->post.first);
    assert_int_equal(a->post.last, b->post.last);
    assert_int_equal(a->post.last_us, b->post.last_us);
    assert_string_equal(a->post.epoch, b->post.epoch);
}

FIXTURE(world_setup, world_teardown);

/* Design section 4: a repeat has the outcome of the first, and is not kept. */
TEST(a_repeat_has_the_outcome_of_the_first)
{
    struct world *w = *state;
    struct posted *first, *again;

    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    first = post_key(w, &w->a, "k", 3, STATUS_OK);
    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    again = post_key(w, &w->a, "k", 3, STATUS_OK);

    assert_same_outcome(first, again);
    assert_false(first->post.is_repeat);
    assert_true(again->post.is_repeat);
    assert_int_equal(again->post.first, 6);
    assert_int_equal(again->post.last, 8);
    assert_int_equal(head_of(&w->a).last, 13);
    assert_int_equal(w->fake.n_keys, 1);
}

/* The same key with other entries is another post: it is refused, and the
 * problem names the key. */
TEST(a_key_stands_for_its_entries_alone)
{
    struct world *w = *state;
    struct posted *first = post_key(w, &w->a, "k/17", 3, STATUS_OK);
    struct posted *other = post_key(w, &w->a, "k/17", 4, STATUS_INVALID);

    assert_non_null(strstr(other->post.why.text, "\"k/17\""));
    assert_same_outcome(first, post_key(w, &w->a, "k/17", 3, STATUS_OK));
    assert_int_equal(head_of(&w->a).last, 3);
}

/* Keys belong to a set: another set may have the same. */
TEST(a_key_belongs_to_its_set)
{
    struct world *w = *state;

    assert_int_equal(post(w, &w->b, 1, NULL), STATUS_OK);
    post_key(w, &w->a, "k", 3, STATUS_OK);
    post_key(w, &w->b, "k", 4, STATUS_OK);

    assert_int_equal(head_of(&w->a).last, 3);
    assert_int_equal(head_of(&w->b).last, 5);
    assert_int_equal(w->fake.n_keys, 2);
}

/* And to an owner, in the same round and in an earlier one; clients without a
 * token are one. */
TEST(a_key_belongs_to_its_owner)
{
    struct world *w = *state;
    static const char *const owners[] = {"", "press", "wire", "press\n"};
    struct posted *p[4], *held = hold(w, changes(w, &w->a, 1));

    for (int i = 0; i < 4; i++) {
        p[i] = keyed(w, &w->b, "k", 3);
        p[i]->post.key_owner = slice_of(owners[i]);
        submit(w, p[i]);
    }
    set_shut(w, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
    assert_kept(held, 1);
    assert_int_equal(head_of(&w->b).last, 12);
    for (int i = 0; i < 4; i++) {
        struct posted *again = keyed(w, &w->b, "k", 3);

        again->post.key_owner = slice_of(owners[i]);
        assert_int_equal(posts_wait(submit(w, again)), STATUS_OK);
        assert_same_outcome(p[i], again);
    }
    assert_int_equal(head_of(&w->b).last, 12);
    assert_int_equal(w->fake.n_keys, 4);
}

/* log.md, commit: looked up in the round. Two posts with the same key share a
 * commit, also if it begins the set: one is kept, both get its outcome, and no
 * poster gets it before it is on disk. */
TEST(repeats_in_one_round_are_kept_once)
{
    struct world *w = *state;
    struct posted *held = hold(w, changes(w, &w->a, 1)), *p[4];

    for (int i = 0; i < 4; i++)
        p[i] = submit(w, keyed(w, &w->b, "k", i == 2 ? 7 : 3));
    set_shut(w, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(posts_wait(p[i]), i == 2 ? STATUS_INVALID : STATUS_OK);
    assert_kept(held, 1);

    assert_same_outcome(p[0], p[1]);
    assert_same_outcome(p[0], p[3]);
    assert_int_equal(p[3]->post.last, 3);
    assert_int_equal(head_of(&w->b).last, 3);
    assert_int_equal(w->fake.n_keys, 1);
    assert_int_equal(w->fake.n_commits, 3); /* idle; held; all four */
}

/* Design rule 5: the log refuses a whole round, with its repeats and its bad
 * keys, and keeps none of its keys. */
TEST(a_refused_post_leaves_no_key)
{
    struct world *w = *state;
    struct posted *held, *p[3];

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->a, 1));
    refuse(w, 2);
    for (int i = 0; i < 3; i++)
        p[i] = submit(w, keyed(w, &w->a, "k", i == 2 ? 7 : 3));
    set_shut(w, false);
    for (int i = 0; i < 3; i++)
        assert_refused(p[i], STATUS_BUSY, "the disk is full");
    assert_int_equal(posts_wait(held), STATUS_BUSY);
    assert_int_equal(w->fake.n_keys, 0);

    assert_kept(submit(w, keyed(w, &w->a, "k", 5)), 2);
    assert_int_equal(w->fake.n_keys, 1);
}

/* Events: "a2 b1" are event a with two entries and event b with one, "a=b2" is
 * event a with the contents of "b2". The second of two alike is a twin. */
static struct posted *
events(struct world *w, const char *text)
{
    static struct post_event all[8][4];
    static size_t n_posts;
    struct post_event *e = all[n_posts++ % 8];
    unsigned n = 0;
    struct posted *p;

    for (; *text; text += strcspn(text, " "), text += *text == ' ', e++) {
        *e = (struct post_event){.n_fragments =
                                     (size_t)(strpbrk(text, "12")[0] - '0')};
        for (struct post_event *at = all[(n_posts - 1) % 8]; at < e; at++)
            e->is_twin |= !memcmp(at->key.bytes, text, 1);
        memset(&e->key, text[0], sizeof(e->key));
        memset(&e->entries, text[1] == '=' ? text[2] : text[0],
               sizeof(e->entries));
        n += (unsigned)e->n_fragments;
    }
    p = changes(w, &w->a, n);
    p->post.events = all[(n_posts - 1) % 8];
    p->post.n_events = (size_t)(e - p->post.events);
    return p;
}

/* Each event of a post is kept once, and all new ones are, or none: in an
 * earlier round, in the same round, and in the same post. */
TEST(keeps_each_event_once)
{
    static const struct {
        const char *events;
        enum status rc;
        unsigned first, last, n_known;
        bool is_repeat;
    } rows[] = {
        {"a2 b1", STATUS_OK, 1, 3, 0, false},
        {"b1", STATUS_OK, 3, 3, 1, true},
        {"a2 c1 b1 d2", STATUS_OK, 4, 6, 2, false},
        {"d2 a2", STATUS_OK, 1, 6, 2, true},
        {"e1 e1 f1", STATUS_OK, 7, 8, 1, false},
        {"g1 a=x2", STATUS_INVALID, 0, 0, 0, false},
        {"g1", STATUS_OK, 9, 9, 0, false},
    };
    struct world *w = *state;

    for (int is_together = 0; is_together < 2; is_together++) {
        struct posted *p[N_ELEMENTS(rows)], *held;

        if (is_together) {
            world_teardown(state);
            world_setup(state);
            w = *state;
        }
        held = is_together ? hold(w, changes(w, &w->b, 1)) : NULL;
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
            p[i] = submit(w, events(w, rows[i].events));
            if (!is_together)
                posts_wait(p[i]);
        }
        if (held) {
            set_shut(w, false);
            assert_kept(held, 1);
        }
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
            print_message("%s\n", rows[i].events);
            assert_int_equal(posts_wait(p[i]), rows[i].rc);
            if (rows[i].rc) {
                assert_int_equal(p[i]->post.why.entry, 2);
                continue;
            }
            assert_int_equal(p[i]->post.first, rows[i].first);
            assert_int_equal(p[i]->post.last, rows[i].last);
            assert_int_equal(p[i]->post.n_known, rows[i].n_known);
            assert_int_equal(p[i]->post.is_repeat, rows[i].is_repeat);
        }
        assert_int_equal(head_of(&w->a).last, 9);
        assert_int_equal(w->fake.n_keys, 7);
    }
}

/* A plain key is never that of an event, and a refused round keeps neither. */
TEST(events_and_keys_are_apart)
{
    struct world *w = *state;
    char key[DIGEST_SIZE + 1] = "";

    memset(key, 'a', DIGEST_SIZE);
    post_key(w, &w->a, key, 1, STATUS_OK);
    assert_kept(submit(w, events(w, "a1")), 2);
    refuse(w, 1);
    assert_refused(submit(w, events(w, "b1 a1")), STATUS_BUSY,
                   "the disk is full");
    assert_kept(submit(w, events(w, "b1 a1")), 3);
    assert_int_equal(head_of(&w->a).last, 3);
}

/* Posts without a key pay nothing: nobody looks for them. */
TEST(looks_nothing_up_for_posts_without_a_key)
{
    struct world *w = *state;

    post_key(w, &w->a, "k", 1, STATUS_OK);
    assert_int_equal(w->fake.n_finds, 0); /* the set did not exist */
    assert_int_equal(post(w, &w->a, 5, NULL), STATUS_OK);
    assert_int_equal(w->fake.n_finds, 0);
    post_key(w, &w->a, "k", 1, STATUS_OK);
    assert_int_equal(w->fake.n_finds, 1);
}

/* log.md, commit: a bounded count of keys, then posts with one are refused;
 * repeats and posts without a key are not. */
TEST(refuses_new_keys_when_there_is_no_room)
{
    struct world *w = *state;
    struct posted *first = post_key(w, &w->a, "k", 3, STATUS_OK), *other;

    w->fake.is_out_of_keys = true;
    post_key(w, &w->a, "l", 3, STATUS_BUSY);
    other = post_key(w, &w->b, "l", 3, STATUS_BUSY);
    assert_non_null(strstr(other->post.why.text, "Idempotency-Key"));
    assert_same_outcome(first, post_key(w, &w->a, "k", 3, STATUS_OK));
    assert_int_equal(post(w, &w->a, 2, NULL), STATUS_OK);

    assert_int_equal(head_of(&w->a).last, 5);
    assert_false(w->b.draft.exists);
}

/* A post is refused, alone, if its key cannot be looked up. */
TEST(refuses_a_post_whose_key_it_cannot_look_up)
{
    struct world *w = *state;

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    w->fake.is_blind = true;
    assert_refused(submit(w, keyed(w, &w->a, "k", 3)), STATUS_IO,
                   "the disk went away");
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);

    assert_int_equal(head_of(&w->a).last, 2);
    assert_int_equal(w->fake.n_keys, 0);
}

/* A key adds a page to a transaction (IDEMPOTENCY_COMMIT_BYTES): rounds stay
 * short. */
TEST(a_round_takes_a_bounded_number_of_keys)
{
    static char keys[600][8];
    struct world *w = *state;
    struct posted *held, *p[600];
    unsigned before;

    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    held = hold(w, changes(w, &w->a, 1));
    before = count(w, &w->fake.n_commits);
    for (int i = 0; i < 600; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i % 500);
        p[i] = submit(w, keyed(w, &w->a, keys[i], 1));
    }
    set_shut(w, false);
    for (int i = 0; i < 600; i++)
        assert_int_equal(posts_wait(p[i]), STATUS_OK);
    assert_kept(held, 2);
    assert_true(count(w, &w->fake.n_commits) >= before + 3); /* held, 2 more */
    assert_int_equal(head_of(&w->a).last, 502);
    assert_int_equal(w->fake.n_keys, 500);
}

/* Posts one entry with a key of `client`; expects that status. */
static struct posted *
post_of(struct world *w, struct client *client, const char *key,
        enum status status)
{
    struct posted *p = keyed(w, &w->a, key, 1);

    p->post.client = client;
    assert_int_equal(posts_wait(submit(w, p)), status);
    return p;
}

/* idempotency.h: one client brings as many keys as it may, and 20 others notice
 * nothing. A repeat needs no place, a post without a key neither, and a refused
 * commit gives it back. The count begins anew with the engine's. */
TEST(keys_have_a_limit_for_each_client)
{
    struct world *w = *state;
    struct clients clients;
    struct client *greedy, *other;
    struct posted *refused;

    clients_init(&clients, 25);
    clients_limit_each(&clients, CLIENT_KEYS, 2);
    greedy = client_of_owner(&clients, SLICE("greedy"));
    refuse(w, 1);
    post_of(w, greedy, "k0", STATUS_BUSY);
    assert_int_equal(client_held(greedy, CLIENT_KEYS), 0);
    post_of(w, greedy, "k1", STATUS_OK);
    post_of(w, greedy, "k2", STATUS_OK);
    refused = post_of(w, greedy, "k3", STATUS_LIMITED);
    assert_non_null(strstr(refused->post.why.text, "Idempotency-Keys"));
    post_of(w, greedy, "k2", STATUS_OK);
    post_of(w, NULL, "k4", STATUS_OK);
    assert_int_equal(post(w, &w->a, 1, NULL), STATUS_OK);
    for (unsigned i = 0; i < 20; i++) {
        char name[16];

        snprintf(name, sizeof(name), "other%u", i);
        other = client_of_owner(&clients, slice_of(name));
        post_of(w, other, name, STATUS_OK);
        client_unref(other);
    }
    assert_int_equal(clients_held(&clients, CLIENT_KEYS), 22);

    w->fake.keys_since_us = 1;
    post_of(w, greedy, "k3", STATUS_OK);
    assert_int_equal(clients_held(&clients, CLIENT_KEYS), 1);
    log_thread_stop(&w->log_thread);
    idempotency_fini(&w->log_thread.key_shares);
    client_unref(greedy);
    clients_fini(&clients);
}
