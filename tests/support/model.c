#include "tests/support/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/fragment.h"
#include "tests/test.h"

#define LOC "http://example.com/r/"

void
model_init(struct model *m)
{
    memset(m, 0, sizeof(*m));
    m->us = DATETIME_NONE;
}

void
model_fini(struct model *m)
{
    for (unsigned i = 0; i < m->n_told; i++)
        free(m->resources[i].entry);
}

/* Takes ` NAME="..."` out of a text. */
static void
cut_attribute(char *text, const char *name)
{
    char *from = strstr(text, name), *to;

    if (!from)
        return;
    to = strchr(from + strlen(name), '"');
    assert_non_null(to);
    memmove(from, to + 1, strlen(to));
}

static void
fold_fragment(struct model *m, struct slice fragment, uint64_t seq)
{
    char *text = malloc(fragment.size + 1);
    bool is_deleted;
    unsigned n;

    assert_non_null(text);
    memcpy(text, fragment.data, fragment.size);
    text[fragment.size] = '\0';
    assert_int_equal(sscanf(text, "<url><loc>" LOC "%u<", &n), 1);
    assert_in_range(n, 0, MODEL_MAX - 1);
    if (m->n_told <= n)
        m->n_told = n + 1;
    is_deleted = strstr(text, " change=\"deleted\"") != NULL;
    cut_attribute(text, " change=\"");
    cut_attribute(text, " datetime=\"");
    cut_attribute(text, " td:datetime=\"");
    free(m->resources[n].entry);
    m->resources[n].entry = is_deleted ? NULL : text;
    m->resources[n].seq = seq;
    if (is_deleted)
        free(text);
}

void
model_fold(struct model *m, const struct batch *batch, uint64_t last)
{
    while (m->seq < last) {
        fold_fragment(m, batch_slice(batch, m->seq, m->seq + 1), m->seq + 1);
        m->seq++;
    }
    m->us = batch_time(batch, last);
}

void
model_fold_log(struct model *m, struct log *log, struct log_set *set,
               uint64_t last)
{
    while (m->seq < last) {
        struct problem why = {""};
        struct batch *batch;

        if (log_read(log, set, m->seq, LOG_DISK, &batch, &why))
            fail_msg("%s", why.text);
        assert_non_null(batch);
        model_fold(m, batch, batch->last < last ? batch->last : last);
        batch_unref(batch);
    }
}

/* The walk returns each resource once: as many as there are, no two alike. */
static void
check_walked(const struct model *m, struct resources *r, uint64_t n)
{
    struct resources_entry e = {0};
    bool *is_walked = calloc(MODEL_MAX, 1);
    int64_t id = 0;
    unsigned at;

    assert_non_null(is_walked);
    while (!resources_next(r, id, &e, NULL)) {
        char text[64];

        assert_true(e.id > id);
        id = e.id;
        snprintf(text, sizeof(text), "%.*s", SLICE_ARG(e.entry));
        assert_int_equal(sscanf(text, "<url><loc>" LOC "%u<", &at), 1);
        assert_in_range(at, 0, MODEL_MAX - 1);
        assert_false(is_walked[at]);
        is_walked[at] = true;
        assert_non_null(m->resources[at].entry);
        assert_true(slice_is(e.entry, m->resources[at].entry));
        assert_int_equal(e.seq, m->resources[at].seq);
        n--;
    }
    assert_int_equal(n, 0);
    free(is_walked);
}

/* The sum of the ids is that of the entries. */
static void
check_ids(const struct model *m, const struct resources *r)
{
    struct id_sum sum = {.n = 0}, kept;
    struct digest id;

    for (unsigned i = 0; i < m->n_told; i++)
        if (m->resources[i].entry) {
            fragment_id(&id, slice_of(m->resources[i].entry));
            id_sum_add(&sum, &id);
        }
    resources_sum(r, &kept);
    assert_string_equal(id_sum_text(&kept).text, id_sum_text(&sum).text);
}

void
model_check(const struct model *m, struct resources *r)
{
    const struct resources_at *at = resources_at(r);
    uint64_t n = 0, bytes = 0;

    for (unsigned i = 0; i < m->n_told; i++)
        if (m->resources[i].entry) {
            n++;
            bytes += strlen(m->resources[i].entry);
        }
    assert_int_equal(at->seq, m->seq);
    assert_int_equal(at->us, m->us);
    assert_int_equal(at->n, n);
    assert_int_equal(at->bytes, bytes);
    assert_true(at->is_whole);
    check_walked(m, r, n);
    if (at->has_ids)
        check_ids(m, r);
}

/* Changes */

uint32_t
model_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* Deleting is a quarter, and creating what is there, or updating what is not,
 * is as good as anything: sources err. */
static enum change_kind
random_kind(uint64_t *random)
{
    static const enum change_kind kinds[] = {CHANGE_CREATED, CHANGE_UPDATED,
                                             CHANGE_UPDATED, CHANGE_DELETED};

    return kinds[model_random(random) % 4];
}

void
model_changes(struct buf *json, uint64_t *random, unsigned n,
              unsigned n_resources)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned number = (unsigned)(model_random(random) % n_resources);
        enum change_kind kind = random_kind(random);

        buf_add_format(json, "%s{\"loc\":\"" LOC "%u\",\"change\":\"%s\"",
                       i > 0 ? "," : "[", number, change_kind_names[kind]);
        if (kind != CHANGE_DELETED)
            buf_add_format(json,
                           ",\"hash\":{\"md5\":\"%032" PRIx64
                           "\"},\"length\":%u,\"datetime\":"
                           "\"2020-01-01T00:00:00Z\"",
                           (uint64_t)model_random(random),
                           (unsigned)(model_random(random) % 1000000));
        buf_add_text(json, "}");
    }
    BUF_ADD(json, "]");
    assert_false(json->failed);
}

static void
add_change(struct batch *b, uint64_t *random, unsigned n_resources)
{
    struct change change;
    struct fragment fragment;
    struct buf bytes;
    char loc[64], hash[64];

    buf_init(&bytes, FRAGMENT_MAX);
    change_init(&change);
    snprintf(loc, sizeof(loc), LOC "%u",
             (unsigned)(model_random(random) % n_resources));
    change.loc = slice_of(loc);
    change.kind = random_kind(random);
    if (change.kind != CHANGE_DELETED) {
        snprintf(hash, sizeof(hash), "md5:%032" PRIx64,
                 (uint64_t)model_random(random));
        change.hash = slice_of(hash);
        change.length = model_random(random) % 1000000;
        change.datetime_us = INT64_C(1577836800000000);
    }
    assert_int_equal(fragment_write(&bytes, &change, &fragment, NULL), 0);
    assert_int_equal(batch_reserve(b, bytes.size + FRAGMENT_STAMP_MAX, 1), 0);
    batch_add(b, bytes.data, &fragment, MODEL_TIME(b->last + 1));
    buf_fini(&bytes);
}

struct batch *
model_batch(uint64_t *after, struct digest *digest, uint64_t *random,
            unsigned n, unsigned n_resources)
{
    struct batch *b = batch_new(*after, MODEL_TIME(*after), digest, NULL);

    assert_non_null(b);
    for (unsigned i = 0; i < n; i++)
        add_change(b, random, n_resources);
    *after = b->last;
    *digest = b->digest;
    return b;
}
