#include "tests/support/keeping.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/chores.h"
#include "tests/support/kept.h"
#include "tests/support/set_changes.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

void
keeping_begin(struct keeping *w)
{
    struct problem why = {""};

    sets_open(&w->sets);
    state_fold_init(&w->folding, w->sets.registry);
    w->folding.rest_us = FOLD_AT_ONCE;
    if (contents_new(&w->contents, w->sets.registry, &why))
        fail_msg("%s", why.text);
    changedumps_init(&w->dumps, w->sets.registry, w->contents);
}

void
keeping_end(struct keeping *w)
{
    chore_end(&w->dumps.chore);
    chore_end(&w->folding.chore);
    contents_free(w->contents);
    sets_close(&w->sets);
}

struct keeping *
keeping_open(void **state, enum content_mode mode)
{
    struct keeping *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    sets_configure(&w->sets, tempdir_path(state));
    w->sets.config.rotate_entries = 10;
    w->sets.config.remove_grace_us = 0;
    w->sets.config.content = mode;
    snprintf(w->dir, sizeof(w->dir), "%s/sets/demo", tempdir_path(state));
    w->random = 5;
    keeping_begin(w);
    return w;
}

void
keeping_close(struct keeping *w)
{
    keeping_end(w);
    free(w);
}

void
keeping_fold_all(struct keeping *w)
{
    chore_look(&w->folding.chore);
    while (chore_step(&w->folding.chore))
        ;
    chore_look(&w->contents->chore);
    while (chore_step(&w->contents->chore))
        ;
    chore_look(&w->dumps.chore);
    while (chore_step(&w->dumps.chore))
        ;
}

uint64_t
keeping_post(struct keeping *w, unsigned resource, unsigned text,
             bool is_deleted)
{
    char hash[DIGEST_TEXT_SIZE + 1], json[400];
    struct sets_outcome o;

    kept_hash(hash, text);
    snprintf(json, sizeof(json),
             is_deleted
                 ? "[{\"loc\":\"http://example.com/%u\",\"change\":\"%s\"}]"
                 : "[{\"loc\":\"http://example.com/%u\",\"change\":\"%s\","
                   "\"hash\":{\"sha-256\":\"%s\"}}]",
             resource, is_deleted ? "deleted" : "updated",
             hash + strlen("sha-256:"));
    o = sets_post_body(&w->sets, "demo", "application/json", slice_of(json), 0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    assert_in_range(o.last, 1, KEEPING_ENTRIES);
    w->last = o.last;
    w->told[o.last] = (struct keeping_told){resource, text, is_deleted};
    return o.last;
}

struct set *
keeping_demo(struct keeping *w)
{
    return sets_find(&w->sets, "demo");
}

struct content *
keeping_content(struct keeping *w)
{
    struct content *content;

    assert_int_equal(
        contents_open(w->contents, keeping_demo(w), &content, NULL), STATUS_OK);
    return content;
}

struct content_pin *
keeping_pin(struct keeping *w)
{
    struct content_pin *made;
    struct problem why = {""};

    if (!registry_find(w->sets.registry, SLICE("demo"), NULL))
        set_changes_put(&w->sets, "demo", "{}");
    if (contents_pin(w->contents, keeping_demo(w), &made, &why))
        fail_msg("%s", why.text);
    return made;
}

void
keeping_place(struct keeping *w, struct content_pin *pin, unsigned n)
{
    struct problem why = {""};
    struct arriving a;
    char text[KEPT_SIZE];

    kept_text(text, n);
    if (arriving_begin(&a, w->contents->arriving, SLICE(""), LENGTH_NONE,
                       &why) ||
        arriving_add(&a, slice_of(text), &why) || arriving_end(&a, &why) ||
        contents_place(pin, &a, &why) || contents_sync(pin, &why))
        fail_msg("%s", why.text);
    arriving_abandon(&a);
}

void
keeping_post_with(struct keeping *w, unsigned resource, unsigned text)
{
    struct content_pin *c = keeping_pin(w);

    keeping_place(w, c, text);
    contents_end(c, keeping_post(w, resource, text, false));
}

void
keeping_check(struct keeping *w)
{
    uint64_t earliest = sets_head(&w->sets, "demo").earliest;
    bool should[KEEPING_TEXTS] = {false},
         is_overtaken[KEEPING_RESOURCES] = {false};

    for (uint64_t seq = w->last; seq > 0; seq--) {
        const struct keeping_told *t = &w->told[seq];

        if (!t->is_deleted && (seq > earliest || !is_overtaken[t->resource]))
            should[t->text] = true;
        is_overtaken[t->resource] = true;
    }
    for (unsigned i = 0; i < KEEPING_TEXTS; i++)
        if (kept_is_there(w->dir, i) != should[i])
            fail_msg("text %u is %s, behind %lu of %lu", i,
                     should[i] ? "missing" : "left", (unsigned long)earliest,
                     (unsigned long)w->last);
}
