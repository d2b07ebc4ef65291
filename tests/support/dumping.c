#include "tests/support/dumping.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/posts/ingest.h"
#include "broker/sets/links.h"
#include "proto/datetime.h"
#include "proto/resourcesync/document_write.h"
#include "tests/clock.h"
#include "tests/support/bodies.h"
#include "tests/support/chores.h"
#include "tests/support/schema.h"
#include "tests/support/set_changes.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Content is placed here before, or left out on purpose. */
static enum status
accept_all(struct ingest *ingest, void *user, struct problem *why)
{
    struct dumping *d = user;

    (void)why;
    ingest_check_end(ingest, STATUS_OK, NULL);
    log_wake(d->sets.registry->log);
    return STATUS_OK;
}

void
dumping_begin(struct dumping *d)
{
    struct problem why = {""};

    sets_open(&d->sets);
    d->sets.posts.check = accept_all;
    d->sets.posts.check_user = d;
    state_fold_init(&d->folding, d->sets.registry);
    d->folding.rest_us = FOLD_AT_ONCE;
    if (contents_new(&d->contents, d->sets.registry, &why))
        fail_msg("%s", why.text);
    changedumps_init(&d->dumps, d->sets.registry, d->contents);
    build_schedule_init(&d->schedule, d->sets.registry, &d->folding,
                        d->contents, &d->thread);
}

void
dumping_end(struct dumping *d)
{
    chore_end(&d->schedule.chore);
    chore_end(&d->dumps.chore);
    chore_end(&d->contents->chore);
    chore_end(&d->folding.chore);
    sets_close(&d->sets);
    contents_free(d->contents);
}

void
dumping_open(struct dumping *d, void **state)
{
    memset(d, 0, sizeof(*d));
    pthread_mutex_init(&d->thread.mutex, NULL);
    pthread_cond_init(&d->thread.changed, NULL);
    d->kind = GENERATION_CHANGEDUMP;
    sets_configure(&d->sets, tempdir_path(state));
    d->sets.config.remove_grace_us = 0;
    d->sets.config.resource_list_every_us = 0;
    d->sets.config.resource_dump_every_us = 0;
    dumping_begin(d);
    set_changes_put(&d->sets, "demo", "{\"content\":\"inline\"}");
}

/* Posting */

/* `n` changes, from `number` on. */
static struct sets_outcome
post(struct dumping *d, unsigned number, unsigned n, const char *change,
     const char *text)
{
    char hash[200] = "", sha256[DIGEST_TEXT_SIZE + 1] = "";
    struct sets_outcome o;
    struct digest digest;
    struct buf json;

    if (text) {
        digest_sha256(&digest, slice_of(text));
        digest_write(sha256, &digest);
        snprintf(hash, sizeof(hash),
                 ",\"hash\":{\"sha-256\":\"%s\"},\"length\":%zu,"
                 "\"type\":\"text/plain\"",
                 sha256 + sizeof("sha-256:") - 1, strlen(text));
    }
    buf_init(&json, SIZE_MAX);
    for (unsigned i = 0; i < n; i++)
        buf_add_format(&json,
                       "%s{\"loc\":\"http://example.com/r/%u.txt\","
                       "\"change\":\"%s\"%s}",
                       i > 0 ? "," : "[", number + i, change, hash);
    BUF_ADD(&json, "]");
    o = sets_post_body(&d->sets, "demo", "application/json", buf_slice(&json),
                       0);
    buf_fini(&json);
    if (o.rc)
        fail_msg("%s", o.why.text);
    return o;
}

static struct content_pin *
place(struct dumping *d, const char *text)
{
    struct content_pin *pin = NULL;
    struct arriving arriving;
    struct problem why = {""};

    if (contents_pin(d->contents, sets_find(&d->sets, "demo"), &pin, &why) ||
        arriving_begin(&arriving, d->contents->arriving, SLICE(""), LENGTH_NONE,
                       &why) ||
        arriving_add(&arriving, slice_of(text), &why) ||
        arriving_end(&arriving, &why) || contents_place(pin, &arriving, &why) ||
        contents_sync(pin, &why))
        fail_msg("%s", why.text);
    return pin;
}

void
dumping_post(struct dumping *d, unsigned number, const char *change,
             const char *text)
{
    struct content_pin *pin = text ? place(d, text) : NULL;

    contents_end(pin, post(d, number, 1, change, text).last);
}

void
dumping_post_many(struct dumping *d, unsigned from, unsigned n,
                  const char *text)
{
    struct content_pin *pin = place(d, text);

    contents_end(pin, post(d, from, n, "updated", text).last);
}

void
dumping_promise(struct dumping *d, unsigned number, const char *text)
{
    post(d, number, 1, "updated", text);
}

static struct content *
open_content(struct dumping *d)
{
    struct content *content = NULL;
    struct problem why = {""};

    if (contents_open(d->contents, sets_find(&d->sets, "demo"), &content, &why))
        fail_msg("%s", why.text);
    return content;
}

void
dumping_keep(struct dumping *d, uint64_t seq, const char *text)
{
    struct content_pin *pin = place(d, text);
    struct content *content = open_content(d);
    struct problem why = {""};
    struct digest digest;

    digest_sha256(&digest, slice_of(text));
    if (content_note(content,
                     &(struct content_fact){
                         .seq = seq, .digest = digest, .length = strlen(text)},
                     &why))
        fail_msg("%s", why.text);
    contents_note(sets_find(&d->sets, "demo"), content);
    contents_end(pin, 0);
}

void
dumping_give_up(struct dumping *d, uint64_t seq)
{
    struct content *content = open_content(d);
    struct problem why = {""};

    if (content_note(
            content,
            &(struct content_fact){.seq = seq, .due_us = CONTENT_NEVER}, &why))
        fail_msg("%s", why.text);
    contents_note(sets_find(&d->sets, "demo"), content);
}

/* The archive thread */

void
dumping_look(struct dumping *d)
{
    clock_pass_us(1000000); /* times of entries run ahead of it */
    chore_look(&d->folding.chore);
    chore_look(&d->contents->chore);
    chore_look(&d->dumps.chore);
    chore_look(&d->schedule.chore);
}

bool
dumping_round(struct dumping *d)
{
    bool is_more = chore_step(&d->folding.chore);

    is_more |= chore_step(&d->contents->chore);
    is_more |= chore_step(&d->dumps.chore);
    is_more |= chore_step(&d->schedule.chore);
    return is_more;
}

/* Once to fold the log, once the content behind it, then the dumps. */
void
dumping_work(struct dumping *d)
{
    for (int i = 0; i < 3; i++) {
        dumping_look(d);
        while (dumping_round(d))
            ;
    }
}

static void
on_done(struct build_order *order)
{
    order->done = NULL;
}

const struct build_order *
dumping_order(struct dumping *d, enum generation_kind kind)
{
    static struct build_order order;

    order = (struct build_order){
        .set = sets_find(&d->sets, "demo"),
        .kind = kind,
        .wanted = sets_head(&d->sets, "demo").last,
        .until_us = INT64_MAX,
        .done = on_done,
    };
    list_init(&order.node);
    assert_int_equal(build_schedule_order(&d->schedule, &order, NULL),
                     STATUS_OK);
    while (order.done)
        dumping_work(d);
    return &order;
}

/* Reading */

struct generation
dumping_current(struct dumping *d)
{
    return sets_head(&d->sets, "demo").generations[d->kind].current;
}

uint64_t
dumping_n_archived(struct dumping *d)
{
    return sets_head(&d->sets, "demo").generations[d->kind].n_archived;
}

enum status
dumping_try(struct dumping *d, document_open_fn *open, uint64_t number,
            uint64_t last, struct document *document, struct problem *why)
{
    const struct document_wish wish = {
        .registry = d->sets.registry,
        .set = sets_find(&d->sets, "demo"),
        .head = sets_head(&d->sets, "demo"),
        .kind = d->kind,
        .number = number,
        .last = last,
        .patience = LOG_DISK,
    };

    return open(&wish, document, why);
}

static void
read_bytes(struct dumping *d, document_open_fn *open, uint64_t number,
           uint64_t last, struct buf *text)
{
    struct document document;
    struct problem why = {""};

    if (dumping_try(d, open, number, last, &document, &why))
        fail_msg("%s", why.text);
    buf_init(text, SIZE_MAX);
    bodies_read(document.body, text);
    document.body = NULL;
    document_close(&document);
}

void
dumping_text(struct dumping *d, document_open_fn *open, uint64_t number,
             uint64_t last, struct buf *text)
{
    read_bytes(d, open, number, last, text);
    if (open != dumps_package_open)
        assert_valid(buf_slice(text));
}

void
dumping_read(struct dumping *d, document_open_fn *open, uint64_t number,
             uint64_t last, struct xpath *x)
{
    struct buf text;

    dumping_text(d, open, number, last, &text);
    xpath_open(x, buf_slice(&text));
    buf_fini(&text);
}

void
dumping_unzip(struct dumping *d, uint64_t number, uint64_t part,
              struct unzipped *u)
{
    struct buf bytes;

    read_bytes(d, dumps_package_open, number, part, &bytes);
    unzipped_open(u, buf_slice(&bytes));
    unzipped_check(u);
    buf_fini(&bytes);
}

/* Checking */

/* The package is the one that its entry in the dump describes,
 * and its manifest the one that has an address. */
static void
check_package(struct dumping *d, struct xpath *dump, uint64_t number,
              uint64_t part)
{
    struct buf package, manifest;
    char text[200], sha256[DIGEST_TEXT_SIZE + 1] = "";
    struct unzipped u;
    struct digest digest;

    snprintf(text, sizeof(text),
             DUMPING_DEMO "%s/%012" PRIu64 "/%012" PRIu64 ".zip",
             links_kinds[d->kind].folder, number, part);
    assert_string_equal(xpath_of(dump, part, "s:loc"), text);
    snprintf(text, sizeof(text),
             DUMPING_DEMO "%s/%012" PRIu64 "/%012" PRIu64 "-manifest.xml",
             links_kinds[d->kind].folder, number, part);
    assert_string_equal(xpath_of(dump, part, "rs:ln[@rel='contents']/@href"),
                        text);

    read_bytes(d, dumps_package_open, number, part, &package);
    snprintf(text, sizeof(text), "%zu", package.size);
    assert_string_equal(xpath_of(dump, part, "rs:md/@length"), text);
    assert_string_equal(xpath_of(dump, part, "rs:md/@type"), "application/zip");
    digest_sha256(&digest, buf_slice(&package));
    digest_write(sha256, &digest);
    assert_string_equal(xpath_of(dump, part, "rs:md/@hash"), sha256);

    unzipped_open(&u, buf_slice(&package));
    unzipped_check(&u);
    dumping_text(d, dumps_generation_open, number, part, &manifest);
    assert_true(slice_equal(u.members[0].bytes, buf_slice(&manifest)));
    unzipped_close(&u);
    buf_fini(&manifest);
    buf_fini(&package);
}

/* the entries of a manifest are those
 * of the log behind *seq, and each but a deleted one has a path of its own. */
static void
check_entries(struct dumping *d, struct xpath *manifest, uint64_t *seq)
{
    size_t n = xpath_count(manifest, "/s:urlset/s:url");
    struct batch *batch = NULL;
    struct problem why = {""};

    for (size_t i = 1; i <= n; i++) {
        struct fragment_view view;
        const char *change = xpath_of(manifest, i, "rs:md/@change");
        char text[DATETIME_SIZE + 1] = "", loc[200];

        if (batch && batch->last == *seq) {
            batch_unref(batch);
            batch = NULL;
        }
        if (!batch &&
            log_read(d->sets.registry->log, sets_find(&d->sets, "demo")->log,
                     *seq, LOG_DISK, &batch, &why))
            fail_msg("%s", why.text);
        ++*seq;
        assert_int_equal(
            fragment_view(batch_slice(batch, *seq - 1, *seq), &view),
            STATUS_OK);
        snprintf(loc, sizeof(loc), "%.*s", (int)view.loc.size, view.loc.data);
        assert_string_equal(xpath_of(manifest, i, "s:loc"), loc);
        assert_string_equal(change, change_kind_names[view.kind]);
        datetime_write(text, view.us);
        assert_string_equal(xpath_of(manifest, i, "rs:md/@datetime"), text);
        assert_int_equal(
            strtoull(xpath_of(manifest, i, "rs:md/@td:seq"), NULL, 10), *seq);
        assert_int_equal(xpath_of(manifest, i, "rs:md/@path")[0] == '\0',
                         view.kind == CHANGE_DELETED);
    }
    if (batch)
        batch_unref(batch);
}

/* the manifest goes on where the one before it ended. */
static void
check_manifest(struct dumping *d, struct xpath *dump, uint64_t number,
               uint64_t part, uint64_t *seq)
{
    char after[24], last[24];
    struct xpath x;

    check_package(d, dump, number, part);
    dumping_read(d, dumps_generation_open, number, part, &x);
    assert_xpath_count(&x, "/*/rs:md[@capability='changedump-manifest']", 1);
    assert_xpath_text(&x, "/*/rs:ln[@rel='up']/@href",
                      DUMPING_DEMO "capabilitylist.xml");
    snprintf(after, sizeof(after), "%" PRIu64, *seq);
    check_entries(d, &x, seq);
    snprintf(last, sizeof(last), "%" PRIu64, *seq);
    assert_xpath_text(&x, "/*/rs:md/@td:after", after);
    assert_xpath_text(&x, "/*/rs:md/@td:last", last);
    assert_string_equal(xpath_of(dump, part, "rs:md/@from"),
                        xpath_get(&x, "string(/*/rs:md/@from)"));
    assert_string_equal(xpath_of(dump, part, "rs:md/@until"),
                        xpath_get(&x, "string(/*/rs:md/@until)"));
    assert_string_equal(xpath_get(&x, "string(/*/s:url[last()]/rs:md/"
                                      "@datetime)"),
                        xpath_get(&x, "string(/*/rs:md/@until)"));
    xpath_close(&x);
}

void
dumping_check(struct dumping *d, uint64_t number)
{
    struct head head = sets_head(&d->sets, "demo");
    struct xpath dump;
    uint64_t seq;
    size_t n;

    dumping_read(d, dumps_generation_open, number, 0, &dump);
    assert_xpath_count(&dump, "/s:urlset/rs:md[@capability='changedump']", 1);
    assert_xpath_text(&dump, "/*/rs:ln[@rel='up']/@href",
                      DUMPING_DEMO "capabilitylist.xml");
    assert_xpath_text(&dump, "/*/rs:ln[@rel='index']/@href",
                      DUMPING_DEMO "changedump.xml");
    assert_xpath_text(&dump, "/*/rs:ln[@rel='archives']/@href",
                      DUMPING_DEMO "changedump-archive.xml");
    assert_xpath_text(&dump, "/*/rs:md/@td:epoch", head.epoch);
    seq = strtoull(xpath_get(&dump, "string(/*/rs:md/@td:after)"), NULL, 10);
    n = xpath_count(&dump, "/s:urlset/s:url");
    assert_in_range(n, 1, 50000);
    assert_string_equal(xpath_get(&dump, "string(/*/rs:md/@from)"),
                        xpath_of(&dump, 1, "rs:md/@from"));
    assert_string_equal(xpath_get(&dump, "string(/*/rs:md/@until)"),
                        xpath_of(&dump, n, "rs:md/@until"));
    for (size_t part = 1; part <= n; part++) {
        if (part > 1) {
            char until[40];

            snprintf(until, sizeof(until), "%s",
                     xpath_of(&dump, part - 1, "rs:md/@until"));
            assert_string_equal(xpath_of(&dump, part, "rs:md/@from"), until);
        }
        check_manifest(d, &dump, number, part, &seq);
    }
    assert_int_equal(
        seq, strtoull(xpath_get(&dump, "string(/*/rs:md/@td:last)"), NULL, 10));
    xpath_close(&dump);
}

/* the entries of a manifest stand in that order in the list, too,
 * with the same bytes as far as the list states them. */
static void
check_resources(struct xpath *manifest, struct xpath *list, size_t *before)
{
    static const char *const same[] = {"s:loc", "s:lastmod", "rs:md/@td:seq",
                                       "rs:md/@type"};
    size_t n = xpath_count(manifest, "/s:urlset/s:url");

    for (size_t i = 1; i <= n; i++) {
        char text[400];

        ++*before;
        for (size_t k = 0; k < sizeof(same) / sizeof(*same); k++) {
            snprintf(text, sizeof(text), "%s",
                     xpath_of(list, *before, same[k]));
            assert_string_equal(xpath_of(manifest, i, same[k]), text);
        }
        assert_string_not_equal(xpath_of(manifest, i, "rs:md/@path"), "");
        assert_string_not_equal(xpath_of(manifest, i, "rs:md/@hash"), "");
        assert_string_not_equal(xpath_of(manifest, i, "rs:md/@length"), "");
        assert_string_equal(xpath_of(manifest, i, "rs:md/@change"), "");
    }
}

/* a root states its state: that of the
 * list. */
static void
check_root(struct xpath *x, struct xpath *list, const char *capability)
{
    static const char *const same[] = {
        "string(/*/rs:md/@at)", "string(/*/rs:md/@td:epoch)",
        "string(/*/rs:md/@td:last)", "string(/*/rs:ln[@rel='up']/@href)"};

    assert_xpath_text(x, "/s:urlset/rs:md/@capability", capability);
    for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
        char text[200];

        snprintf(text, sizeof(text), "%s", xpath_get(list, same[i]));
        assert_string_not_equal(text, "");
        assert_string_equal(xpath_get(x, same[i]), text);
    }
}

void
dumping_check_resources(struct dumping *d, uint64_t number)
{
    struct xpath list, dump;
    size_t n, before = 0;

    d->kind = GENERATION_RESOURCELIST;
    dumping_read(d, resourcelist_current_open, 0, 0, &list);
    d->kind = GENERATION_RESOURCEDUMP;
    dumping_read(d, dumps_generation_open, number, 0, &dump);
    check_root(&dump, &list, "resourcedump");
    n = xpath_count(&dump, "/s:urlset/s:url");
    for (size_t part = 1; part <= n; part++) {
        char text[40];
        struct xpath x;

        check_package(d, &dump, number, part);
        dumping_read(d, dumps_generation_open, number, part, &x);
        check_root(&x, &list, "resourcedump-manifest");
        check_resources(&x, &list, &before);
        snprintf(text, sizeof(text), "%s", xpath_of(&dump, part, "rs:md/@at"));
        assert_string_equal(xpath_get(&x, "string(/*/rs:md/@at)"), text);
        /* within the root's */
        snprintf(text, sizeof(text), "%s",
                 xpath_of(&dump, part, "rs:md/@completed"));
        assert_true(strcmp(text, xpath_of(&dump, part, "rs:md/@at")) >= 0);
        assert_true(strcmp(text, xpath_get(&dump, "string(/*/rs:md/@completed"
                                                  ")")) <= 0);
        xpath_close(&x);
    }
    assert_int_equal(before, xpath_count(&list, "/s:urlset/s:url"));
    xpath_close(&dump);
    xpath_close(&list);
}
