#include "broker/sets/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

FIXTURE(stage_open, stage_close);

/* registry.h: a set exists from the commit of its first post on. */
TEST(finds_a_set_once_its_first_post_is_committed)
{
    struct set *set;
    struct head head;

    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    set = sets_unborn(&s, "demo");
    assert_ptr_equal(sets_unborn(&s, "demo"), set);
    assert_null(registry_find(s.registry, SLICE("demo"), &head));

    assert_ptr_equal(sets_post(&s, "demo", 1, 3), set);
    assert_ptr_equal(registry_find(s.registry, SLICE("demo"), &head), set);
    assert_int_equal(head.last, 3);
    assert_string_equal(set->name, "demo");
    assert_ptr_equal(set->registry, s.registry);
}

/* Part 18: what was signed for one request does for others, for a second; that
 * of a former epoch does for none. */
TEST(hands_on_a_checkpoint_of_the_same_second_and_epoch)
{
    struct set *set = sets_post(&s, "demo", 1, 3);
    struct head head = sets_head(&s, "demo"), other = head;
    char text[200];
    struct buf got;

    buf_init(&got, 1000);
    snprintf(text, sizeof(text), "localhost/sets/demo/%s\n3\n", head.epoch);
    assert_false(registry_signed(set, &head, &got));
    registry_set_signed(set, 3, slice_of(text));
    assert_true(registry_signed(set, &head, &got));
    assert_true(slice_is(buf_slice(&got), text));
    other.epoch[0] = other.epoch[0] == '0' ? '1' : '0';
    assert_false(registry_signed(set, &other, &got));
    head.last = 4;
    assert_false(registry_signed(set, &head, &got));
    for (int i = 1; i < 8; i++)
        registry_set_signed(set, 3, slice_of(text));
    assert_true(registry_signed(set, &head, &got));
    clock_pass_us(1000000);
    assert_false(registry_signed(set, &head, &got));
    buf_fini(&got);
}

/* sets are there again after a restart. */
TEST(finds_its_sets_again_after_a_restart)
{
    struct head before, after;

    sets_post(&s, "b", 1, 2);
    sets_post(&s, "a", 1, 5);
    before = sets_head(&s, "a");
    stage_restart();
    after = sets_head(&s, "a");
    assert_string_equal(after.epoch, before.epoch);
    assert_int_equal(after.last, 5);
    assert_int_equal(sets_head(&s, "b").last, 2);
    assert_null(registry_find(s.registry, SLICE("c"), NULL));
}

/* A name is found as a whole: neither a beginning of it nor a longer one. */
TEST(tells_similar_names_apart)
{
    static const char *const names[] = {"ab",  "a", "abc", "a-b",
                                        "a.b", "b", "a0"};
    unsigned n = sizeof(names) / sizeof(names[0]);

    for (unsigned i = 0; i < n; i++)
        sets_post(&s, names[i], 1, i + 1);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(sets_head(&s, names[i]).last, i + 1);
        assert_string_equal(sets_find(&s, names[i])->name, names[i]);
    }
    assert_null(registry_find(s.registry, SLICE("abcd"), NULL));
    assert_null(registry_find(s.registry, SLICE("a-"), NULL));
    assert_null(registry_find(s.registry, SLICE(""), NULL));
    assert_null(registry_find(s.registry, SLICE("A"), NULL));
}

struct walk {
    char names[128];
    unsigned left;
};

static bool
note(struct set *set, const struct head *head, void *user)
{
    struct walk *w = user;

    assert_true(head->exists);
    strcat(w->names, set->name);
    strcat(w->names, " ");
    return --w->left > 0;
}

/* Existing sets, in order of names, until the walk has enough. */
TEST(walks_existing_sets_in_order_of_names)
{
    struct walk all = {"", 100}, two = {"", 2};

    sets_post(&s, "c", 1, 1);
    sets_post(&s, "a.b", 1, 1);
    sets_post(&s, "a", 1, 1);
    sets_unborn(&s, "b");
    registry_each(s.registry, note, &all);
    assert_string_equal(all.names, "a a.b c ");
    registry_each(s.registry, note, &two);
    assert_string_equal(two.names, "a a.b ");
}

/* A name longer than any set's makes no set. */
TEST(makes_no_set_of_a_name_that_is_too_long)
{
    char name[SET_NAME_MAX + 2] = "";
    struct set *set = NULL;

    memset(name, 'n', SET_NAME_MAX + 1);
    assert_int_equal(
        registry_make(s.registry, slice_of(name), NULL, &set, NULL),
        STATUS_INVALID);
    assert_null(set);
    name[SET_NAME_MAX] = '\0';
    sets_unborn(&s, name);
}

/* Design rule 8: the limits of the options are those of all clients. */
TEST(limits_clients_as_the_options_say, stage_configure, stage_close)
{
    struct clients *clients = NULL;

    s.config.ingest_bytes = 1000;
    s.config.client_share = 10;
    s.config.client_streams = 7;
    s.config.client_sets = 8;
    s.config.client_keys = 9;
    sets_open(&s);
    clients = &s.registry->clients;
    assert_true(clients_have_room(clients, CLIENT_POSTS, 1000));
    assert_false(clients_have_room(clients, CLIENT_POSTS, 1001));
    assert_int_equal(clients_limit_of_each(clients, CLIENT_POSTS), 100);
    assert_int_equal(clients_limit_of_each(clients, CLIENT_STREAMS), 7);
    assert_int_equal(clients_limit_of_each(clients, CLIENT_SETS), 8);
    assert_int_equal(clients_limit_of_each(clients, CLIENT_KEYS), 9);
    assert_int_equal(clients_limit_of_each(clients, CLIENT_SET_NAMES),
                     SETS_MADE_MAX / 10);
}

static enum status
make_for(const char *owner, const char *name)
{
    struct client *client =
        client_of_owner(&s.registry->clients, slice_of(owner));
    struct set *set = NULL;
    enum status rc =
        registry_make(s.registry, slice_of(name), client, &set, NULL);

    client_unref(client);
    return rc;
}

static void
remove_set(const char *name)
{
    struct set *set = sets_find(&s, name);
    struct act removal = {.kind = ACT_REMOVAL};
    struct post post = {.kind = POST_ACT, .act = &removal, .set = set->log};

    assert_int_equal(log_post_and_wait(s.registry->log, &post, NULL),
                     STATUS_OK);
    registry_set_removed(set);
}

/* Issue: one owner exhausts the sets, and others notice nothing. The set's
 * creator is stored with the set, so a start changes nothing; a removed set
 * gives its place back. */
TEST(sets_count_for_their_creators, stage_configure, stage_close)
{
    s.config.client_sets = 2;
    sets_open(&s);
    assert_int_equal(make_for("greedy", "a"), STATUS_OK);
    assert_int_equal(make_for("greedy", "b"), STATUS_OK);
    assert_int_equal(make_for("greedy", "c"), STATUS_LIMITED);
    assert_int_equal(make_for("greedy", "a"), STATUS_OK);
    for (unsigned i = 0; i < 20; i++) {
        char name[16];

        snprintf(name, sizeof(name), "other%u", i);
        assert_int_equal(make_for(name, name), STATUS_OK);
    }
    sets_post(&s, "a", 1, 1);
    sets_post(&s, "b", 1, 1);

    sets_close(&s);
    sets_open(&s);
    assert_int_equal(make_for("greedy", "c"), STATUS_LIMITED);
    remove_set("a");
    assert_int_equal(make_for("greedy", "c"), STATUS_OK);
    assert_int_equal(make_for("greedy", "d"), STATUS_LIMITED);
}

static enum status
check_room(const char *owner, const char *name, uint64_t bytes,
           struct problem *why)
{
    struct client *client =
        client_of_owner(&s.registry->clients, slice_of(owner));
    enum status rc =
        registry_check_room(s.registry, slice_of(name), client, bytes, why);

    client_unref(client);
    return rc;
}

/* The head of a post says enough. */
TEST(a_post_without_room_is_refused_before_its_body, stage_configure,
     stage_close)
{
    struct problem why = {""};

    s.config.client_sets = 1;
    s.config.client_kept_bytes = 100000;
    sets_open(&s);
    assert_int_equal(check_room("greedy", "a", 100000, &why), STATUS_OK);
    assert_int_equal(check_room("greedy", "a", 100001, &why), STATUS_LIMITED);
    assert_string_equal(why.text,
                        "your token has created sets that keep as much as one "
                        "client may (--client-kept-bytes): 100000 bytes");
    assert_int_equal(make_for("greedy", "a"), STATUS_OK);
    assert_int_equal(check_room("greedy", "b", 0, &why), STATUS_LIMITED);
    assert_string_equal(why.text,
                        "your token has created as many sets as one client may "
                        "have (delete one to make room): 1");
    assert_int_equal(check_room("greedy", "a", 0, &why), STATUS_OK);
    assert_int_equal(check_room("other", "b", 0, &why), STATUS_OK);
}

/* A set counts for its creator, not for the clients that post to it, also after
 * a start. Lists that go make room, and so do removed sets. */
TEST(kept_bytes_count_for_the_creator, stage_configure, stage_close)
{
    struct problem why = {""};

    s.config.client_kept_bytes = 100000;
    sets_open(&s);
    assert_int_equal(make_for("greedy", "a"), STATUS_OK);
    sets_post_heavy(&s, "a", 1, 50, 2000); /* counted by the commit */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(check_room("greedy", "b", 0, &why), STATUS_LIMITED);
        assert_int_equal(check_room("other", "a", 0, &why), STATUS_LIMITED);
        assert_non_null(strstr(why.text, "the client that has created it"));
        assert_int_equal(check_room("other", "b", 0, &why), STATUS_OK);
        sets_close(&s);
        sets_open(&s);
        registry_count_kept(s.registry, UINT64_MAX / 2);
    }
    remove_set("a");
    registry_count_kept(s.registry, UINT64_MAX / 2);
    assert_int_equal(check_room("greedy", "b", 90000, &why), STATUS_OK);
}

/* Without a limit of its own, a client leaves one share of the disk. */
TEST(one_client_leaves_a_share_of_the_disk, stage_configure, stage_close)
{
    struct problem why = {""};

    sets_open(&s);
    registry_count_kept(s.registry, 1000000);
    assert_int_equal(check_room("greedy", "a", 750000, &why), STATUS_OK);
    assert_int_equal(check_room("greedy", "a", 750001, &why), STATUS_LIMITED);
}

/* The broker remembers the names of removed sets for ever, so a client that
 * makes and removes sets in turn has a limit, too. */
TEST(names_of_removed_sets_count_for_their_creators, stage_configure,
     stage_close)
{
    sets_open(&s);
    clients_limit_each(&s.registry->clients, CLIENT_SET_NAMES, 2);
    for (int round = 0; round < 2; round++) {
        const char *name = round ? "b" : "a";

        assert_int_equal(make_for("greedy", name), STATUS_OK);
        sets_post(&s, name, 1, 1);
        remove_set(name);
        sets_close(&s);
        sets_open(&s);
        clients_limit_each(&s.registry->clients, CLIENT_SET_NAMES, 2);
    }
    assert_int_equal(make_for("greedy", "c"), STATUS_LIMITED);
    assert_int_equal(make_for("modest", "c"), STATUS_OK);
}

#define THREADS 4
#define NAMES   40

struct maker {
    pthread_t id;
    struct registry *registry;
    struct set *made[NAMES];
};

static void *
make_all(void *user)
{
    struct maker *m = user;

    for (unsigned i = 0; i < NAMES; i++) {
        unsigned at = (i * 7) % NAMES;
        struct walk w = {"", 3};
        char name[16];

        snprintf(name, sizeof(name), "s%u", at);
        assert_int_equal(registry_make(m->registry, slice_of(name), NULL,
                                       &m->made[at], NULL),
                         STATUS_OK);
        registry_find(m->registry, slice_of(name), NULL);
        registry_each(m->registry, note, &w);
    }
    return NULL;
}

/* Any thread: one name is one set, whichever thread asks first. */
TEST(makes_each_set_once_for_all_threads)
{
    struct maker makers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        makers[i] = (struct maker){.registry = s.registry};
        assert_int_equal(
            pthread_create(&makers[i].id, NULL, make_all, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(makers[i].id, NULL);
    for (int i = 0; i < NAMES; i++)
        for (int k = 0; k < THREADS; k++) {
            assert_non_null(makers[k].made[i]);
            assert_ptr_equal(makers[k].made[i], makers[0].made[i]);
        }
}

/* Design section 4: the settings of the log are the configuration's. */
TEST(rotates_lists_as_it_is_configured, stage_configure, stage_close)
{
    s.config.rotate_entries = 4;
    sets_open(&s);
    sets_post(&s, "demo", 1, 9);
    assert_int_equal(sets_head(&s, "demo").list, 3);
    assert_ptr_equal(s.registry->config, &s.config);
    assert_string_equal(s.registry->options.public_url, SETS_URL);
}
