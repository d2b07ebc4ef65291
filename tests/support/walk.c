#include "tests/support/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/vocab.h"
#include "tests/test.h"

void
walk_open(struct walk *w, const struct broker *b, const char *set)
{
    memset(w, 0, sizeof(*w));
    http_open(&w->http, b->url);
    walk_allow(w, b->url);
    snprintf(w->capabilitylist, sizeof(w->capabilitylist),
             "/sets/%s/capabilitylist.xml", set);
    w->lists = calloc(WALK_LISTS_MAX, sizeof(*w->lists));
    assert_non_null(w->lists);
    trace_init(&w->trace);
}

void
walk_close(struct walk *w)
{
    http_close(&w->http);
    free(w->lists);
    trace_fini(&w->trace);
}

void
walk_allow(struct walk *w, const char *public_url)
{
    size_t n = 0;

    while (w->urls[n])
        n++;
    assert_in_range(n, 0, WALK_URLS_MAX - 1);
    w->urls[n] = public_url;
}

struct digest
walk_sum(struct slice bytes)
{
    struct digest sum;

    digest_start(&sum, bytes); /* SHA-256 of a text */
    return sum;
}

/* Documents */

/* What stands behind a public URL. */
static const char *
path_of(const struct walk *w, const char *url)
{
    for (size_t i = 0; w->urls[i]; i++) {
        size_t size = strlen(w->urls[i]);

        if (!strncmp(url, w->urls[i], size) && url[size] == '/')
            return url + size;
    }
    fail_msg("\"%s\" is no address of this broker", url);
    return NULL;
}

struct slice
walk_get(struct walk *w, const char *url)
{
    const char *type;

    if (http_get(&w->http, path_of(w, url)) != 200)
        fail_msg("%s was answered with %ld: %s", url, w->http.status,
                 w->http.status ? "" : w->http.error);
    type = http_header(&w->http, "Content-Type");
    assert_non_null(type);
    assert_string_equal(type, "application/xml"); /* */
    return buf_slice(&w->http.body);
}

static void
read_document(struct xmldoc *d, struct slice text, const char *capability)
{
    struct problem why = {""};

    if (!xmldoc_read(d, text, &why))
        fail_msg("%s: %s", capability, why.text);
    assert_string_equal(d->capability, capability);
    assert_in_range(text.size, 1, DOCUMENT_BYTES_MAX);      /* */
    assert_in_range(d->n_entries, 0, DOCUMENT_ENTRIES_MAX); /* */
}

/* The root has a link to `path`, on whatever public URL; NULL: has none. */
static void
assert_link(const struct walk *w, const struct xmldoc *d, const char *rel,
            const char *path)
{
    const struct xmldoc_link *link = xmldoc_link(d, rel);

    if (!path && link)
        fail_msg("there is a link \"%s\" to %s", rel, link->href);
    if (!path)
        return;
    if (!link)
        fail_msg("there is no link \"%s\"", rel);
    assert_string_equal(path_of(w, link->href), path);
}

/* The Capability List and what is above it. `changelist` and
 * `archive` (or "") become paths. */
static void
read_capabilities(struct walk *w, char changelist[200], char archive[200])
{
    struct xmldoc d, up;
    char url[300];

    snprintf(url, sizeof(url), "%s%s", w->urls[0], w->capabilitylist);
    changelist[0] = archive[0] = '\0';
    read_document(&d, walk_get(w, url), "capabilitylist");
    for (size_t i = 0; i < d.n_entries; i++) {
        const struct xmldoc_entry *e = &d.entries[i];

        if (!strcmp(e->capability, "changelist"))
            snprintf(changelist, 200, "%s", path_of(w, e->loc));
        if (!strcmp(e->capability, "changelist-archive"))
            snprintf(archive, 200, "%s", path_of(w, e->loc));
    }
    assert_string_not_equal(changelist, "");
    assert_link(w, &d, "up", "/.well-known/resourcesync");
    snprintf(url, sizeof(url), "%s", xmldoc_link(&d, "up")->href);
    xmldoc_free(&d);
    read_document(&up, walk_get(w, url), "description");
    xmldoc_free(&up);
}

/* The order of the lists */

static void
take_list(struct walk *w, size_t i, const struct xmldoc_entry *e)
{
    struct walk_list *list = &w->lists[i];

    assert_in_range(i, 0, WALK_LISTS_MAX - 1);
    if (list->is_walked) {
        assert_string_equal(path_of(w, e->loc), path_of(w, list->url));
        assert_string_equal(e->until, list->until);
        assert_string_equal(e->digest, list->digest);
    } else {
        assert_in_range(strlen(e->loc), 12, sizeof(list->url) - 1);
        assert_int_equal(strlen(e->from), DATETIME_SIZE);
        assert_in_range(strlen(e->digest), 0, DIGEST_TEXT_SIZE);
        strcpy(list->url, e->loc);
        snprintf(list->until, sizeof(list->until), "%s", e->until);
        strcpy(list->digest, e->digest);
        snprintf(list->from, sizeof(list->from), "%s", e->from);
    }
    assert_string_equal(e->from, list->from);
    /* the next one begins where the one before ends. */
    if (i > 0)
        assert_string_equal(list->from, w->lists[i - 1].until);
}

/* The lists of an archive, or of the part of one that index `path` names. */
static void
take_archive(struct walk *w, const struct xmldoc *d, const char *path)
{
    assert_false(d->is_index);
    assert_link(w, d, "up", w->capabilitylist);
    assert_link(w, d, "index", path);
    for (size_t i = 0; i < d->n_entries; i++) {
        assert_string_not_equal(d->entries[i].until, "");
        take_list(w, w->n_lists++, &d->entries[i]);
    }
}

/* all closed lists, in order. */
static void
read_archive(struct walk *w, const char *path)
{
    struct xmldoc d;
    char url[300];

    snprintf(url, sizeof(url), "%s%s", w->urls[0], path);
    read_document(&d, walk_get(w, url), "changelist-archive");
    if (!d.is_index)
        take_archive(w, &d, NULL);
    for (size_t i = 0; d.is_index && i < d.n_entries; i++) {
        const struct xmldoc_entry *e = &d.entries[i];
        size_t first = w->n_lists;
        struct xmldoc part;

        assert_link(w, &d, "up", w->capabilitylist);
        snprintf(url, sizeof(url), "%s", e->loc);
        read_document(&part, walk_get(w, url), "changelist-archive");
        take_archive(w, &part, path);
        assert_string_equal(w->lists[first].from, e->from);
        if (i + 1 < d.n_entries || e->until[0]) {
            assert_string_equal(w->lists[w->n_lists - 1].until, e->until);
            assert_string_equal(w->lists[w->n_lists - 1].digest, e->digest);
        }
        xmldoc_free(&part);
    }
    xmldoc_free(&d);
}

/* the latest closed lists, each in the archive as well, and the
 * open one at the end. */
static void
read_index(struct walk *w, const struct xmldoc *d, const char *archive)
{
    assert_link(w, d, "up", w->capabilitylist);
    assert_link(w, d, "archives", archive);
    assert_in_range(d->n_entries, 2, w->n_lists + 1);
    assert_string_equal(d->from, d->entries[0].from);
    assert_string_equal(d->until, "");
    w->n_indexed = d->n_entries;
    for (size_t i = 0; i < d->n_entries; i++) {
        const struct xmldoc_entry *e = &d->entries[i];
        bool is_open = i + 1 == d->n_entries;
        size_t at = w->n_lists + 1 - d->n_entries + i;

        assert_int_equal(*e->until == '\0', is_open);
        if (is_open) {
            take_list(w, at, e);
        } else {
            assert_string_equal(path_of(w, e->loc),
                                path_of(w, w->lists[at].url));
            assert_string_equal(e->from, w->lists[at].from);
            assert_string_equal(e->until, w->lists[at].until);
            assert_string_equal(e->digest, w->lists[at].digest);
        }
    }
    w->n_lists++;
}

/* The lists */

static void
check_list(struct walk *w, size_t i, const struct xmldoc *d,
           const char *changelist)
{
    struct walk_list *list = &w->lists[i];
    const struct walk_list *prev = i > 0 ? list - 1 : NULL;
    bool is_closed = list->until[0] != '\0';
    struct problem why = {""};

    /* */
    assert_string_equal(d->from, list->from);
    assert_string_equal(d->until, list->until);
    if (is_closed)
        assert_string_equal(d->digest, list->digest);

    /* */
    assert_link(w, d, "up", w->capabilitylist);
    assert_link(w, d, "index", w->n_lists > 1 ? changelist : NULL);
    assert_link(w, d, "prev", prev ? path_of(w, prev->url) : NULL);
    assert_link(w, d, "next", is_closed ? path_of(w, list[1].url) : NULL);
    assert_non_null(xmldoc_link(d, "last"));
    assert_non_null(
        strstr(xmldoc_link(d, "last")->href, "/changes/latest.xml"));
    if (prev)
        assert_string_equal(xmldoc_link(d, "prev")->digest, prev->digest);

    assert_true(d->has_coverage);
    assert_int_equal(d->after, prev ? prev->last : 0);
    /* R-137, an entry at the boundary belonging to the earlier list; times
     * within grow, which the trace checks. */
    if (d->n_entries > 0)
        assert_true(strcmp(d->entries[0].datetime, d->from) > 0);
    if (is_closed)
        assert_string_equal(d->entries[d->n_entries - 1].datetime, d->until);
    if (!trace_document(&w->trace, d, &why))
        fail_msg("%s: %s", list->url, why.text);
    list->after = d->after;
    list->last = d->last;
}

static void
read_list(struct walk *w, size_t i, const char *changelist)
{
    struct walk_list *list = &w->lists[i];
    struct slice text = walk_get(w, list->url);
    struct digest bytes = walk_sum(text);
    struct xmldoc d;

    if (list->is_walked) {
        if (memcmp(&bytes, &list->bytes, sizeof(bytes)) != 0)
            fail_msg("closed list %s has changed", list->url);
        return;
    }
    read_document(&d, text, "changelist");
    assert_false(d.is_index);
    check_list(w, i, &d, changelist);
    list->size = text.size;
    list->bytes = bytes;
    list->is_walked = list->until[0] != '\0';
    xmldoc_free(&d);
}

void
walk_all(struct walk *w)
{
    char changelist[200], archive[200], url[300];
    struct xmldoc d;

    read_capabilities(w, changelist, archive);
    w->n_lists = w->n_indexed = 0;
    if (archive[0])
        read_archive(w, archive);

    /* one address, for the list and then for the index. */
    snprintf(url, sizeof(url), "%s%s", w->urls[0], changelist);
    read_document(&d, walk_get(w, url), "changelist");
    assert_int_equal(d.is_index, archive[0] != '\0');
    if (d.is_index) {
        read_index(w, &d, archive);
    } else {
        struct xmldoc_entry only = {url, "", "", d.from, "", "", "", 0, {0}};

        take_list(w, 0, &only);
        w->n_lists = 1;
    }
    xmldoc_free(&d);
    for (size_t i = 0; i < w->n_lists; i++)
        read_list(w, i, changelist);
}
