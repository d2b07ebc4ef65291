/*
 * rotation_test.c - when lists close, and what readers see of it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "proto/document.h"
#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/test.h"

/* Asks for a rotation; the number of the list that was closed, 0: none was. */
static unsigned
rotate(struct lists *l)
{
    struct jsonpath j;
    unsigned closed = 0;

    assert_int_equal(http_post(&l->http, "/sets/" LISTS_SET "/rotate",
                               "text/plain", SLICE("")),
                     200);
    jsonpath_open(&j, buf_slice(&l->http.body));
    assert_string_equal(jsonpath_text(&j, "set"), LISTS_SET);
    assert_true(jsonpath_has(&j, "closed"));
    if (jsonpath_digits(&j, "closed")) {
        const char *list = jsonpath_text(&j, "list");

        closed = (unsigned)jsonpath_number(&j, "closed");
        assert_non_null(list);
        assert_memory_equal(list, l->broker.url, strlen(l->broker.url));
        assert_string_equal(list + strlen(l->broker.url),
                            lists_path(l, closed));
    }
    jsonpath_close(&j);
    return closed;
}

/* When lists close */

/* a list ends with the entry that fills it, also in the
 * middle of a post; the fixed address becomes the index. */
TEST(a_list_closes_when_it_has_its_number_of_entries, lists_setup,
     lists_teardown)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "3");

    source_post(&l->http, LISTS_SET, 1, 2, 0);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 1);

    source_post(&l->http, LISTS_SET, 3, 1, 0);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 2);
    assert_int_equal(l->walk.lists[0].last, 3);
    assert_int_equal(l->walk.lists[1].last, 3); /* empty */

    source_post(&l->http, LISTS_SET, 4, 7, 0);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 4);
    assert_int_equal(l->walk.lists[1].last, 6);
    assert_int_equal(l->walk.lists[2].last, 9);
    assert_int_equal(l->walk.lists[3].last, 10);
}

/* index, archive and lists, full, open and empty ones. */
TEST(what_rotation_makes_is_valid_by_the_schemas, lists_setup, lists_teardown)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "2");
    source_post(&l->http, LISTS_SET, 1, 4, 0);

    assert_int_equal(http_get(&l->http, "/sets/" LISTS_SET "/changelist.xml"),
                     200);
    assert_valid(buf_slice(&l->http.body));
    assert_int_equal(
        http_get(&l->http, "/sets/" LISTS_SET "/changelist-archive.xml"), 200);
    assert_valid(buf_slice(&l->http.body));
    for (unsigned number = 1; number <= 3; number++) {
        assert_int_equal(http_get(&l->http, lists_path(l, number)), 200);
        assert_valid(buf_slice(&l->http.body));
    }
}

/* as full as it may be, and not a byte more. */
TEST(a_list_closes_before_it_has_too_many_bytes, lists_setup, lists_teardown)
{
    const size_t limit = 600000;
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-bytes", "600000");
    for (unsigned i = 0; i < 20; i++)
        source_post(&l->http, LISTS_SET, i * 100, 7 + i % 3, 9000 + i * 100);

    walk_all(&l->walk);
    assert_in_range(l->walk.n_lists, 3, 4);
    for (size_t i = 0; i + 1 < l->walk.n_lists; i++) {
        struct problem why = {""};
        struct xmldoc next;

        assert_in_range(l->walk.lists[i].size, 1, limit);
        assert_true(xmldoc_read(
            &next, walk_get(&l->walk, l->walk.lists[i + 1].url), &why));
        /* The next one's first entry had no room in it any more. */
        assert_true(l->walk.lists[i].size + next.entries[0].line.size +
                        DOCUMENT_FRAME_MAX >
                    limit);
        xmldoc_free(&next);
    }
}

/* age counts from the first entry; a list without entries does not
 * age. */
TEST(a_list_closes_when_it_is_old, lists_setup, lists_teardown)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-age", "0.3");

    source_post(&l->http, LISTS_SET, 1, 2, 0);
    lists_await_closed(l, 1);
    assert_int_equal(l->walk.lists[0].last, 2);
    source_post(&l->http, LISTS_SET, 3, 1, 0);
    lists_await_closed(l, 2);
    assert_int_equal(l->walk.lists[1].after, 2);
    assert_int_equal(l->walk.lists[1].last, 3);
}

/* also one that was filled before a restart. */
TEST(a_list_grows_old_across_a_restart, lists_setup, lists_teardown)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-age", "0.3");

    source_post(&l->http, LISTS_SET, 1, 2, 0);
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    lists_await_closed(l, 1);
    assert_int_equal(l->walk.lists[0].last, 2);
}

/* R-148; an empty list is not closed. */
TEST(a_list_closes_on_demand_unless_it_is_empty, lists_setup, lists_teardown)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-age", "0");

    source_post(&l->http, LISTS_SET, 1, 2, 0);
    assert_int_equal(rotate(l), 1);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 2);
    assert_int_equal(l->walk.lists[0].last, 2);

    assert_int_equal(rotate(l), 0);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 2);

    source_post(&l->http, LISTS_SET, 3, 1, 0);
    assert_int_equal(rotate(l), 2);
    assert_int_equal(
        http_post(&l->http, "/sets/unknown/rotate", "text/plain", SLICE("")),
        404);
}

/* the entries so far are the beginning of those to come. */
TEST(an_open_list_grows_at_its_end_only, lists_setup, lists_teardown)
{
    struct lists *l = *state;
    struct problem why = {""};
    struct xmldoc before, after;
    struct buf text;

    LISTS_OPEN(l, "--rotate-entries", "100");
    source_post(&l->http, LISTS_SET, 1, 40, 0);
    for (unsigned from = 41; from < 141; from += 7) {
        unsigned list = from <= 101 ? 1 : 2;
        const char *old, *new;
        size_t size;

        text = lists_copy(l, list);
        assert_true(xmldoc_read(&before, buf_slice(&text), &why));
        source_post(&l->http, LISTS_SET, from, 7, 0);
        assert_int_equal(http_get(&l->http, lists_path(l, list)), 200);
        assert_true(xmldoc_read(&after, buf_slice(&l->http.body), &why));

        assert_true(after.n_entries > before.n_entries);
        assert_string_equal(after.from, before.from);
        if (before.n_entries > 0) {
            const struct xmldoc_entry *last =
                &before.entries[before.n_entries - 1];

            old = before.entries[0].line.data;
            new = after.entries[0].line.data;
            size = (size_t)(last->line.data + last->line.size - old);
            assert_memory_equal(new, old, size);
        }
        xmldoc_free(&before);
        xmldoc_free(&after);
        buf_fini(&text);
    }
}

/* While rotations run */

#define LISTS_RUN 400

/* Static, because the thread may outlive a test that failed. */
static struct runner {
    pthread_t thread;
    bool is_running;
    const char *url;
    atomic_bool has_ended;
    long status; /* of the last answer */
} runner;

/* Posts 3 entries at a time, where a list has 5, and asks for a rotation now
 * and then. Nothing here may end the test: it is a thread. */
static void *
keep_rotating(void *user)
{
    struct runner *r = user;
    struct http h;
    struct buf body;

    http_open(&h, r->url);
    buf_init(&body, 65536);
    r->status = 200;
    for (unsigned i = 0; i < LISTS_RUN && r->status == 200; i++) {
        buf_clear(&body);
        BUF_ADD(&body, "[");
        for (unsigned k = 0; k < 5; k++)
            buf_add_format(&body,
                           "%s{\"change\":\"created\","
                           "\"loc\":\"http://example.com/%u/%u\"}",
                           k ? "," : "", i, k);
        BUF_ADD(&body, "]");
        http_post(&h, "/sets/" LISTS_SET "/changes", "application/json",
                  buf_slice(&body));
        r->status = h.status;
        if (r->status == 200 && i % 4 == 0) {
            http_post(&h, "/sets/" LISTS_SET "/rotate", "text/plain",
                      SLICE(""));
            r->status = h.status;
        }
    }
    buf_fini(&body);
    http_close(&h);
    atomic_store(&r->has_ended, true);
    return NULL;
}

static void
start_runner(struct lists *l)
{
    runner.url = l->broker.url;
    assert_int_equal(
        pthread_create(&runner.thread, NULL, keep_rotating, &runner), 0);
    runner.is_running = true;
}

static void
join_runner(void)
{
    if (runner.is_running)
        pthread_join(runner.thread, NULL);
    runner.is_running = false;
}

static int
close_after_runner(void **state)
{
    join_runner();
    return lists_teardown(state);
}

static void
get(struct lists *l, struct xmldoc *d, const char *path)
{
    struct problem why = {""};

    assert_int_equal(http_get(&l->http, path), 200);
    if (!xmldoc_read(d, buf_slice(&l->http.body), &why))
        fail_msg("%s: %s", path, why.text);
}

/* The archive in one, whether it has parts or not. */
struct archive {
    struct xmldoc whole;
    struct xmldoc *parts;
    struct xmldoc_entry *entries; /* the documents' */
    size_t n_parts, n_entries;
};

static void
add_entries(struct archive *a, const struct xmldoc *d)
{
    size_t n = a->n_entries + d->n_entries;

    a->entries = realloc(a->entries, n * sizeof(*a->entries));
    assert_non_null(a->entries);
    memcpy(a->entries + a->n_entries, d->entries,
           d->n_entries * sizeof(*a->entries));
    a->n_entries = n;
}

static void
archive_get(struct lists *l, struct archive *a)
{
    *a = (struct archive){.n_parts = 0};
    get(l, &a->whole, "/sets/" LISTS_SET "/changelist-archive.xml");
    if (!a->whole.is_index) {
        add_entries(a, &a->whole);
        return;
    }
    a->parts = calloc(a->whole.n_entries, sizeof(*a->parts));
    assert_non_null(a->parts);
    for (; a->n_parts < a->whole.n_entries; a->n_parts++) {
        get(l, &a->parts[a->n_parts],
            a->whole.entries[a->n_parts].loc + strlen(l->broker.url));
        add_entries(a, &a->parts[a->n_parts]);
    }
}

static void
archive_free(struct archive *a)
{
    for (size_t i = 0; i < a->n_parts; i++)
        xmldoc_free(&a->parts[i]);
    xmldoc_free(&a->whole);
    free(a->parts);
    free(a->entries);
}

/* of one moment, whatever is closed meanwhile. */
static void
check_index(const struct xmldoc *index)
{
    for (size_t i = 0; i < index->n_entries; i++) {
        bool is_last = i + 1 == index->n_entries;

        assert_int_equal(index->entries[i].until[0] == '\0', is_last);
        if (!is_last)
            assert_string_equal(index->entries[i].until,
                                index->entries[i + 1].from);
    }
}

/* Each list of an index a moment ago is what the index said, or has closed
 * since, with the same beginning. */
static void
check_lists(struct lists *l, const struct xmldoc *index)
{
    for (size_t i = 0; i < index->n_entries; i++) {
        const struct xmldoc_entry *e = &index->entries[i];
        struct xmldoc list;

        get(l, &list, e->loc + strlen(l->broker.url));
        assert_string_equal(list.from, e->from);
        if (e->until[0])
            assert_string_equal(list.until, e->until);
        if (list.until[0]) {
            assert_int_not_equal(list.n_entries, 0);
            assert_string_equal(list.entries[list.n_entries - 1].datetime,
                                list.until);
        }
        xmldoc_free(&list);
    }
}

/* The archive of a moment later goes back without a hole to the first list, and
 * has every closed list of the index. */
static void
check_archive(const struct archive *archive, const struct xmldoc *index)
{
    size_t n_closed = index->n_entries - 1, at = 0;

    assert_int_not_equal(archive->n_entries, 0);
    for (size_t i = 0; i < archive->n_entries; i++) {
        assert_string_not_equal(archive->entries[i].until, "");
        if (i > 0)
            assert_string_equal(archive->entries[i].from,
                                archive->entries[i - 1].until);
    }
    assert_non_null(strstr(archive->entries[0].loc, "/000000000001.xml"));
    while (at < archive->n_entries &&
           strcmp(archive->entries[at].loc, index->entries[0].loc) != 0)
        at++;
    assert_in_range(at + n_closed, 1, archive->n_entries);
    for (size_t i = 0; i < n_closed; i++) {
        assert_string_equal(archive->entries[at + i].loc,
                            index->entries[i].loc);
        assert_string_equal(archive->entries[at + i].until,
                            index->entries[i].until);
    }
}

/* never two open lists, no list in neither place. */
TEST(no_reader_sees_a_rotation_half_done, lists_setup, close_after_runner)
{
    struct lists *l = *state;
    struct archive archive;
    struct xmldoc index;

    LISTS_OPEN(l, "--rotate-entries", "3", "--index-lists", "4");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    start_runner(l);
    while (!atomic_load(&runner.has_ended)) {
        struct buf kept;

        get(l, &index, "/sets/" LISTS_SET "/changelist.xml");
        kept = l->http.body; /* the document lends from it: keep the bytes */
        buf_init(&l->http.body, kept.max);
        assert_true(index.is_index);
        assert_in_range(index.n_entries, 2, 5);
        check_index(&index);
        archive_get(l, &archive);
        check_archive(&archive, &index);
        archive_free(&archive);
        check_lists(l, &index);
        xmldoc_free(&index);
        buf_fini(&kept);
    }
    join_runner();

    assert_int_equal(runner.status, 200);
    walk_all(&l->walk);
    assert_int_equal(l->walk.trace.last, 3 + 5 * LISTS_RUN);
}
