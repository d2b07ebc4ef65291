#include "tests/support/telling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/state/content_files.h"
#include "proto/resourcesync/fragment.h"
#include "tests/support/fold_dbs.h"
#include "tests/support/kept.h"
#include "tests/support/model.h"
#include "tests/test.h"

void
telling_begin(struct telling *w)
{
    struct problem why = {""};

    if (content_open(&w->content, w->dir, TELLING_EPOCH, &why))
        fail_msg("%s", why.text);
}

void
telling_end(struct telling *w)
{
    if (w->content)
        fold_db_close(fold_db_of(w->content));
    w->content = NULL;
}

void
telling_reopen(struct telling *w)
{
    telling_end(w);
    telling_begin(w);
}

int
telling_setup(void **state)
{
    struct telling *w = calloc(1, sizeof(*w));
    struct digest digest;

    assert_non_null(w);
    tempdir_open(&w->tempdir);
    w->dir = w->tempdir.path;
    w->random = 11;
    snprintf(w->arriving, sizeof(w->arriving), "%s/arriving", w->dir);
    assert_int_equal(arriving_clear(w->arriving, NULL), STATUS_OK);
    digest_sha256(&digest, SLICE(TELLING_EPOCH));
    w->batch = batch_new(0, MODEL_TIME(0), &digest, NULL);
    assert_non_null(w->batch);
    telling_begin(w);
    *state = w;
    return 0;
}

int
telling_teardown(void **state)
{
    struct telling *w = *state;

    telling_end(w);
    batch_unref(w->batch);
    tempdir_close(&w->tempdir);
    free(w);
    return 0;
}

void
telling_begin_anew(struct telling *w)
{
    assert_int_equal(content_at(w->content)->seq, 0);
    w->folded = 0;
}

void
telling_add_change(struct telling *w, unsigned resource, enum change_kind kind,
                   const char *hash, uint64_t length)
{
    struct change change;
    struct fragment f;
    struct buf b;
    char loc[64];

    snprintf(loc, sizeof(loc), "http://example.com/r/?a=1&n=%u", resource);
    change_init(&change);
    change.loc = slice_of(loc);
    change.kind = kind;
    change.length = length;
    if (hash)
        change.hash = slice_of(hash);
    buf_init(&b, FRAGMENT_MAX);
    assert_int_equal(fragment_write(&b, &change, &f, NULL), STATUS_OK);
    assert_int_equal(batch_reserve(w->batch, f.size + FRAGMENT_STAMP_MAX, 1),
                     STATUS_OK);
    batch_add(w->batch, b.data, &f,
              MODEL_TIME(w->batch->last + 1) + w->later_us);
    buf_fini(&b);
}

void
telling_tell(struct telling *w, unsigned resource, bool is_deleted,
             bool has_sha256, unsigned text)
{
    char hash[DIGEST_TEXT_SIZE + 1];
    uint64_t seq = w->batch->last + 1;

    assert_true(seq <= TELLING_ENTRIES);
    kept_hash(hash, text);
    telling_add_change(w, resource,
                       is_deleted ? CHANGE_DELETED : CHANGE_UPDATED,
                       !is_deleted && has_sha256 ? hash : NULL,
                       is_deleted ? LENGTH_NONE : kept_length(text));
    w->told[seq] = (struct telling_entry){.resource = resource,
                                          .is_deleted = is_deleted,
                                          .has_sha256 = has_sha256,
                                          .text = text};
    for (uint64_t i = seq - 1; i > 0; i--)
        if (w->told[i].resource == resource) {
            w->told[i].until = seq;
            break;
        }
}

void
telling_place(struct telling *w, unsigned text)
{
    kept_place(w->dir, w->arriving, text);
    w->is_placed[text] = true;
}

void
telling_fold_to(struct telling *w, uint64_t last)
{
    struct problem why = {""};

    if (fold_db_add(fold_db_of(w->content), w->batch, last, &why) ||
        fold_db_commit(fold_db_of(w->content), &why))
        fail_msg("%s", why.text);
    for (uint64_t seq = w->folded + 1; seq <= last; seq++) {
        struct telling_entry *t = &w->told[seq];

        t->is_there = !t->is_deleted && t->has_sha256 && w->is_placed[t->text];
    }
    w->folded = last;
}

static bool
is_overtaken(const struct telling *w, const struct telling_entry *t)
{
    return t->until > 0 && t->until <= w->folded;
}

void
telling_keep(struct telling *w, uint64_t seq)
{
    struct telling_entry *t = &w->told[seq];
    struct problem why = {""};
    struct digest digest;
    bool is_missing =
        seq <= w->folded && !t->is_deleted && !t->is_there && !t->is_forgotten;

    kept_digest(&digest, t->text);
    telling_place(w, t->text);
    assert_int_equal(
        content_note(w->content,
                     &(struct content_fact){.seq = seq,
                                            .digest = digest,
                                            .length = kept_length(t->text)},
                     &why),
        is_missing ? STATUS_OK : STATUS_NOT_FOUND);
    if (is_missing)
        t->is_there = true;
}

void
telling_forget(struct telling *w, uint64_t earliest)
{
    bool is_more = true;

    w->earliest = earliest;
    while (is_more)
        assert_int_equal(content_forget(w->content, earliest, &is_more, NULL),
                         STATUS_OK);
    for (uint64_t seq = 1; seq <= earliest; seq++)
        if (is_overtaken(w, &w->told[seq]))
            w->told[seq].is_forgotten = true;
}

void
telling_check(struct telling *w)
{
    const struct content_at *at = content_at(w->content);
    struct content_at should = {.seq = w->folded, .from = w->earliest};
    bool is_told[TELLING_TEXTS] = {false}, is;

    for (uint64_t seq = 1; seq <= w->folded; seq++) {
        const struct telling_entry *t = &w->told[seq];
        struct content_bytes bytes;
        enum status rc = content_find(w->content, seq, &bytes, NULL);

        if (t->is_deleted || t->is_forgotten) {
            assert_int_equal(rc, STATUS_NOT_FOUND);
            continue;
        }
        assert_int_equal(rc, STATUS_OK);
        assert_int_equal(bytes.is_there, t->is_there);
        should.rows++;
        should.missing += !t->is_there && !t->is_thinned;
        should.current += !is_overtaken(w, t);
        should.current_missing += !t->is_there && !is_overtaken(w, t);
        if (!t->is_there)
            continue;
        assert_int_equal(bytes.length, kept_length(t->text));
        should.files += !is_told[t->text];
        should.bytes += is_told[t->text] ? 0 : bytes.length;
        is_told[t->text] = true;
    }
    for (unsigned i = 0; i < TELLING_TEXTS; i++) {
        struct digest digest;

        kept_digest(&digest, i);
        assert_int_equal(content_refers_to(w->content, &digest, &is, NULL),
                         STATUS_OK);
        assert_int_equal(is, is_told[i]);
    }
    assert_int_equal(at->seq, should.seq);
    assert_int_equal(at->from, should.from);
    assert_int_equal(at->rows, should.rows);
    assert_int_equal(at->missing, should.missing);
    assert_int_equal(at->current, should.current);
    assert_int_equal(at->current_missing, should.current_missing);
    assert_int_equal(at->files, should.files);
    assert_int_equal(at->bytes, should.bytes);
}
