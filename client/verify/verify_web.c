/*
 * verify_web.c - fetches the lists of a set from its broker by their links.
 *
 *     Capability List --> Change List Archive --> [its parts] --> closed lists
 *                    \--> Change List Index ----> closed lists --> open list
 *                                                       \--next--> ...
 *
 * Both archive and index name the newest closed lists, and have to agree.
 * Retention may delete the first list before the walk asks for it, and overtake
 * the walk: then it begins anew, at the oldest one of now. Rotation may close
 * the open list: then its `next` leads on.
 */

#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "client/lib/fetch.h"
#include "client/lib/pause.h"
#include "client/source/document.h"
#include "client/source/set.h"
#include "client/verify/verify.h"

/* The lists that an archive or index names, in order */

/* A list that an archive or index names. */
struct named {
    char *loc;
    bool has_digest;
    struct digest digest;
    bool is_read;
};

struct list_index {
    struct named *each;
    size_t n;
    size_t capacity;
    size_t next; /* where a search begins */
};

static void
list_index_fini(struct list_index *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->each[i].loc);
    free(names->each);
}

/* Documents name the lists in the same order: begins at the next one. */
static struct named *
list_index_find(struct list_index *names, struct slice loc)
{
    for (size_t i = 0; i < names->n; i++) {
        size_t at = (names->next + i) % names->n;

        if (slice_is(loc, names->each[at].loc)) {
            names->next = at + 1;
            return &names->each[at];
        }
    }
    return NULL;
}

/* Attempts to get a document from an unreachable or busy server, and most
 * milliseconds between two. */
#define ATTEMPTS   5
#define PAUSE_LAST 5000

#define REDIRECTS 5

/* Most walks that retention may overtake. */
#define BEGINNINGS 10

struct walk {
    struct verify *v;
    struct list_index lists; /* all that were named so far, in order */
    char *archive;           /* URL or NULL */
    char *index;             /* the fixed address of the Change List or Index */
    struct list_index parts; /* of an archive that is an index */
    struct list_index *reading; /* takes the names of the current document */
    size_t n_known;             /* of these, named before */
    struct problem why;         /* the fault of the current document */
    bool is_overtaken;          /* the next list is gone (410) */
    bool has_failed;            /* no memory for the URLs */
};

/* One document */

struct get {
    struct walk *walk;
    const char *url;
    struct document *document; /* reads the names of lists */
    struct list_proof *proof;  /* or else a list */
    size_t n_before;           /* names before this document */
    enum status rc;            /* of the reading */
    unsigned status;
    unsigned retry_after_s; /* Retry-After; 0: none */
};

/* True if it is not an index, but the Change List itself. */
static bool
is_the_list(const struct document_head *head)
{
    return head->has_capability && head->capability == CAP_CHANGELIST &&
           !head->is_index;
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct walk *w = ((struct get *)user)->walk;
    struct list_index *names = w->reading;
    struct named *known;

    if (is_the_list(head))
        return STATUS_AGAIN;
    known = list_index_find(names, entry->change.loc);
    if (!known) {
        if (!ONE_MORE(names->each, &names->capacity, names->n))
            return STATUS_MEMORY;
        known = &names->each[names->n++];
        *known = (struct named){.loc = slice_dup(entry->change.loc),
                                .has_digest = entry->has_digest,
                                .digest = entry->digest};
        return known->loc ? STATUS_OK : STATUS_MEMORY;
    }
    w->n_known++;
    if (!known->has_digest && entry->has_digest) {
        known->has_digest = true; /* rotation closed it meanwhile */
        known->digest = entry->digest;
    }
    if (!entry->has_digest || digest_is_equal(&known->digest, &entry->digest))
        return STATUS_OK;
    return problem(&w->why, STATUS_INVALID,
                   "archive and index give different td:digest for %.200s",
                   known->loc);
}

/* Begins to read. False: no memory. */
static bool
begin_reading(struct get *get)
{
    static const struct document_events events = {.on_entry = on_entry};
    struct walk *w = get->walk;

    document_free(get->document);
    list_proof_free(get->proof);
    get->document = NULL;
    get->proof = NULL;
    get->rc = STATUS_OK;
    w->why.text[0] = '\0';
    if (!w->reading) {
        get->proof = list_proof_new(&w->v->chain, get->url, w->v->events, w->v);
        return get->proof;
    }
    while (w->reading->n > get->n_before)
        free(w->reading->each[--w->reading->n].loc);
    w->n_known = 0;
    get->document = document_new(get->url, &events, get);
    return get->document;
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct get *get = user;
    struct problem *why = &get->walk->why;

    if (answer->status != 200)
        return false;
    if (get->proof) {
        get->rc = list_proof_feed(get->proof, bytes, why);
        return !get->rc;
    }
    get->rc = document_feed(get->document, bytes, why);
    if (!get->rc && is_the_list(document_head(get->document)))
        get->rc = STATUS_AGAIN; /* the caller has to read it as a list */
    return !get->rc;
}

/* Makes one attempt. STATUS_OK: get->rc has the result of feed, or get->status
 * is not 200. */
static enum status
attempt_get(struct td_client *client, struct get *get)
{
    static const char *const headers[] = {"Accept: application/xml", NULL};
    const struct fetch_request request = {
        .url = get->url,
        .headers = headers,
        .max_bytes = DOCUMENT_BYTES_MAX,
        .skips_refusals = true,
        .redirects = REDIRECTS,
        .takes_gzip = true,
    };
    struct fetch_answer answer;
    enum status rc = fetch_run(client, &request, on_body, get, &answer);

    get->status = answer.status;
    get->retry_after_s = answer.retry_after_s;
    buf_fini(&answer.body);
    return rc == STATUS_STOPPED && answer.status ? STATUS_OK : rc;
}

/* Reads the document at get->url: its names into `to`, or, if that is NULL, as
 * a list. */
static enum status
get_document(struct get *get, struct list_index *to)
{
    struct td_client *client = get->walk->v->client;
    unsigned pause_ms = PAUSE_FIRST;
    int64_t begun_ms = clock_steady_ms();

    get->walk->reading = to;
    get->n_before = to ? to->n : 0;
    for (unsigned i = 1;; i++) {
        enum status rc;
        bool may_pass;
        unsigned ms;

        if (!begin_reading(get))
            return problem_memory(&client->problem);
        rc = attempt_get(client, get);
        may_pass = rc == STATUS_UNREACHABLE ||
                   (!rc && get->status != 200 &&
                    fetch_meaning(get->status) == STATUS_UNREACHABLE);
        ms = pause_asked(&pause_ms, PAUSE_LAST, get->retry_after_s);
        if (!may_pass || i == ATTEMPTS ||
            !pause_within(PATIENCE_DEFAULT, clock_steady_ms() - begun_ms,
                          get->retry_after_s, &ms)) {
            if (!rc && get->status != 200)
                return client_fail(client, fetch_meaning(get->status),
                                   "%.800s: %u", get->url, get->status);
            return rc;
        }
        if (client_wait(client, ms, NULL))
            return STATUS_STOPPED;
    }
}

/* Index and archive */

/* Reads the names of the document at `url`. *is_index: these are documents that
 * name lists. *is_list: it is a Change List itself, which names none. */
static enum status
read_names(struct walk *w, const char *url, struct list_index *to,
           bool *is_index, bool *is_list)
{
    struct get get = {.walk = w, .url = url};
    enum status rc = get_document(&get, to);

    if (!rc && !get.rc)
        get.rc = document_end(get.document, &w->why);
    *is_list = !rc && get.rc == STATUS_AGAIN;
    *is_index = !rc && document_head(get.document)->is_index;
    document_free(get.document);
    if (rc || !get.rc || *is_list)
        return rc;
    if (get.rc == STATUS_MEMORY)
        return problem_memory(&w->v->client->problem);
    return verify_breaks(w->v, url, w->v->chain.last, &w->why);
}

/* Lists */

/* Compares the list with archive and index, which have no digest of an open
 * list. */
static enum status
check_named(const struct walk *w, const struct named *named,
            struct problem *why)
{
    if (!named || !named->has_digest ||
        digest_is_equal(&named->digest, &w->v->chain.digest))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "the archive or index gives its td:digest as %s, it is %s",
                   digest_text(&named->digest).text,
                   digest_text(&w->v->chain.digest).text);
}

/* Reads the list at `url`, and extends the chain. */
static enum status
walk_list(struct walk *w, const char *url, struct named *named)
{
    struct verify *v = w->v;
    struct get get = {.walk = w, .url = url};
    struct list_chain before = v->chain;
    uint64_t at;
    enum status rc = get_document(&get, NULL);

    if (!rc && !get.rc)
        get.rc = list_proof_end(get.proof, &v->chain, &w->why);
    at = get.proof ? list_proof_reached(get.proof) : 0;
    if (!rc && !get.rc) {
        get.rc = check_named(w, named, &w->why);
        at = before.last; /* the altered entry is unknown */
    }
    list_proof_free(get.proof);
    if ((rc == STATUS_GONE || (rc == STATUS_REFUSED && get.status == 404)) &&
        before.epoch[0]) {
        /* A named list must be there; retention deletes only the oldest. */
        w->is_overtaken = rc == STATUS_GONE;
        problem_set(&w->why, "%s; the list before it names it, or an index",
                    td_problem(v->client));
        return verify_breaks(v, url, before.last, &w->why);
    }
    if (rc)
        return rc;
    if (get.rc == STATUS_MEMORY)
        return problem_memory(&v->client->problem);
    if (get.rc) {
        v->chain = before;
        return verify_breaks(v, url, at, &w->why);
    }
    if (named)
        named->is_read = true;
    verify_holds(v, url);
    return STATUS_OK;
}

/* Reads all named lists that were not read yet; the first may have gone. */
static enum status
walk_named(struct walk *w)
{
    struct verify *v = w->v;
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < w->lists.n && !rc; i++) {
        struct named *named = &w->lists.each[i];

        if (named->is_read)
            continue;
        rc = walk_list(w, named->loc, named);
        if (rc == STATUS_GONE && !v->chain.epoch[0]) {
            named->is_read = true;
            rc = STATUS_OK;
        }
    }
    return rc;
}

/* Follows the links `next`, to lists that were closed after the index was read,
 * or after the archive, and left the index. */
static enum status
walk_next(struct walk *w)
{
    struct list_chain *chain = &w->v->chain;
    char url[LIST_HREF_MAX + 1];
    enum status rc = STATUS_OK;

    while (!rc && chain->epoch[0] && !chain->is_open && chain->next[0]) {
        memcpy(url, chain->next, sizeof(url));
        rc = walk_list(w, url, list_index_find(&w->lists, slice_of(url)));
    }
    return rc;
}

static enum status
walk_archive(struct walk *w)
{
    bool is_index, is_list;
    enum status rc = read_names(w, w->archive, &w->lists, &is_index, &is_list);

    if (rc == STATUS_REFUSED && w->v->client->problem.http_status == 404)
        return STATUS_OK; /* no list is closed yet */
    if (rc || !is_index)
        return rc ? rc : walk_named(w);

    w->parts = w->lists;
    w->lists = (struct list_index){.n = 0};
    for (size_t i = 0; i < w->parts.n && !rc; i++) {
        rc =
            read_names(w, w->parts.each[i].loc, &w->lists, &is_index, &is_list);
        if (!rc)
            rc = walk_named(w);
        else if (rc == STATUS_GONE && !w->v->chain.epoch[0])
            rc = STATUS_OK; /* retention has deleted it */
        else if (rc == STATUS_GONE) {
            w->is_overtaken = true;
            problem_set(&w->why, "%s; the archive names it",
                        td_problem(w->v->client));
            rc = verify_breaks(w->v, w->parts.each[i].loc, w->v->chain.last,
                               &w->why);
        }
    }
    return rc;
}

/* The index has the address of the first list until rotation closes that, which
 * may happen between two requests. */
static enum status
walk_index(struct walk *w)
{
    struct td_proof *proof = w->v->proof;
    bool is_index, is_list;
    enum status rc = read_names(w, w->index, &w->lists, &is_index, &is_list);

    if (!rc && is_list) {
        rc = walk_list(w, w->index, NULL);
        if (rc != STATUS_DIFFERENT)
            return rc;
        rc = read_names(w, w->index, &w->lists, &is_index, &is_list);
        if (rc || is_list)
            return rc ? rc : walk_list(w, w->index, NULL);
        proof->broken_in[0] = '\0';
        proof->broken_at = 0;
    }
    if (!rc && w->n_known == 0)
        rc = walk_next(w);
    return rc ? rc : walk_named(w);
}

static void
on_offer(const struct td_offer *offer, void *user)
{
    struct walk *w = user;

    for (size_t i = 0; i < offer->n_items; i++) {
        const struct td_item *item = &offer->items[i];
        struct verify *v = w->v;
        char **to = !strcmp(item->rel, "changelist")           ? &w->index
                    : !strcmp(item->rel, "changelist-archive") ? &w->archive
                                                               : NULL;

        if (!strcmp(item->rel, "urn:tidings:1:checkpoint") &&
            slice_ends(slice_of(item->href), "/checkpoint"))
            slice_copy(v->checkpoint_url, sizeof(v->checkpoint_url),
                       slice_of(item->href));
        if (!to || *to)
            continue; /* the first one counts */
        *to = strdup(item->href);
        w->has_failed |= !*to;
    }
}

/* If a list in the middle is gone, the oldest must be gone, too: else it was
 * not retention that deleted it. */
static enum status
walk_lists(struct walk *w)
{
    uint64_t after = 0;

    for (unsigned n = 1;; n++) {
        enum status rc = w->archive ? walk_archive(w) : STATUS_OK;

        if (!rc)
            rc = walk_index(w);
        if (!rc)
            rc = walk_next(w);
        if (!rc && !w->v->proof->n_lists)
            rc = client_fail(w->v->client, STATUS_GONE,
                             "%.800s: all lists that it names are gone",
                             w->index);
        if (!w->is_overtaken || n == BEGINNINGS ||
            (n > 1 && w->v->chain.after <= after))
            return rc;
        after = w->v->chain.after;
        list_index_fini(&w->lists);
        list_index_fini(&w->parts);
        w->lists = w->parts = (struct list_index){.n = 0};
        w->is_overtaken = false;
        memset(&w->v->chain, 0, sizeof(w->v->chain));
        memset(w->v->proof, 0, sizeof(*w->v->proof));
    }
}

static enum status
verify_web(struct verify *v, const char *set_url)
{
    struct walk w = {.v = v};
    struct buf checkpoint = {.max = 0};
    enum status rc = offer_read(v->client, set_url, on_offer, &w);

    if (!rc && w.has_failed)
        rc = problem_memory(&v->client->problem);
    if (!rc && !w.index)
        rc = client_fail(v->client, STATUS_REFUSED,
                         "%.800s names no Change List", set_url);
    if (!rc && v->events && !v->checkpoint_url[0])
        rc = client_fail(v->client, STATUS_DIFFERENT,
                         "%.800s has no checkpoint that could be checked",
                         set_url);
    if (!rc && v->events)
        rc = verify_fetch_checkpoint(v, &checkpoint);
    if (!rc)
        rc = walk_lists(&w);
    if (!rc && v->events)
        rc = verify_signed(v, buf_slice(&checkpoint));
    buf_fini(&checkpoint);
    list_index_fini(&w.lists);
    list_index_fini(&w.parts);
    free(w.archive);
    free(w.index);
    return rc;
}

/* Proves a history as far as it is sound. */

enum td_status
td_verify(struct td_client *client, const char *where,
          void (*on_list)(const char *list, const struct td_proof *proof,
                          void *user),
          void *user, struct td_proof *proof)
{
    struct td_proof unwanted;
    struct verify v = {
        .client = client,
        .proof = proof ? proof : &unwanted,
        .on_list = on_list,
        .user = user,
        .leaves_fd = -1,
    };
    static const struct list_proof_events events = {.on_entry = verify_leaf};
    struct stat st;
    enum status rc;

    client_begin(client);
    client->checkpoint.origin[0] = '\0';
    if (client->trust)
        v.events = &events;
    memset(v.proof, 0, sizeof(*v.proof));
    if (!where || !where[0])
        rc = client_fail(client, STATUS_INVALID, "no set and no directory");
    else if (uri_is_web(where))
        rc = client_add_source(client, where) ? STATUS_MEMORY
                                              : verify_web(&v, where);
    else if (!stat(where, &st) && S_ISREG(st.st_mode))
        rc = verify_proof_file(&v, where);
    else
        rc = verify_files(&v, where);
    if (v.leaves_fd >= 0)
        close(v.leaves_fd);
    return client_end(client, rc);
}

enum td_status
td_prove(struct td_client *client, const char *set_url, uint64_t seq,
         void (*on_proof)(const char *proof, size_t size, void *user),
         void *user)
{
    struct td_proof unwanted = {.n_lists = 0};
    struct verify v = {.client = client, .proof = &unwanted, .leaves_fd = -1};
    struct walk w = {.v = &v};
    struct buf body = {.max = 0};
    enum status rc;

    client_begin(client);
    rc = client_add_source(client, set_url);
    if (!rc)
        rc = offer_read(client, set_url, on_offer, &w);
    if (!rc && !v.checkpoint_url[0])
        rc = client_fail(client, STATUS_REFUSED,
                         "%.800s has no checkpoint, and so no proofs", set_url);
    if (!rc)
        rc = verify_fetch_proof(&v, seq, &body);
    if (!rc)
        on_proof(body.data, body.size, user);
    buf_fini(&body);
    free(w.archive);
    free(w.index);
    return client_end(client, rc);
}
