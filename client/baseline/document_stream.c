/*
 * document_stream.c - one document of a source, an entry at a time.
 *
 *     fetch --+-----------> held --> document --> entries --> on_entry
 *             +-> spool ----^
 *
 * All callbacks come from a turn of the loop of its own: so they may free
 * anything, since neither fetch nor document is in a call then.
 */
#include "client/baseline/document_stream.h"

#include <unistd.h>

#include "client/lib/fetch.h"
#include "client/lib/temporary_file.h"
#include "client/source/entry_copy.h"

/* The server waits when more bytes than this are unread; a fetch hands over at
 * most 128 KiB at once. */
#define HELD_MOST (64 * 1024)
#define HELD_MAX  (1024 * 1024)

/* Bytes fed at once: in gzip they may be a thousand times as many. */
#define STEP_SIZE 2048

/* Most entries in one turn of the loop, for the sake of its other users. */
#define TURN_ENTRIES 500

struct document_stream {
    struct retired retired; /* the first */
    struct td_client *client;
    const struct document_stream_calls *calls;
    void *user;
    const char *url;
    struct fetch *fetch; /* NULL: it is over, with `why` */
    struct document *document;
    struct timer turn;
    struct buf held;
    size_t n_read;               /* bytes of `held` that were fed */
    struct digest_check *digest; /* of all bytes */
    char known_digest[DIGEST_TEXT_SIZE +
                      1]; /* ""; else `spool` gets the bytes */
    FILE *spool;          /* or NULL */
    struct entry_queue entries;
    struct document_stream_end end;
    bool has_known;     /* the request has conditions */
    bool is_paused;     /* by the caller */
    bool is_web_paused; /* by on_body */
    bool is_read;       /* the document has ended */
    struct problem why;
};

/* The document */

static enum status
on_link(const struct link *link, void *user)
{
    struct document_stream *r = user;

    r->calls->on_link(&(struct pagelink){link->rel, link->href}, r->user);
    return STATUS_OK;
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct document_stream *r = user;

    (void)head;
    return entry_queue_add(&r->entries, entry);
}

static const struct document_events events = {
    .on_link = on_link,
    .on_entry = on_entry,
};

/* Feeds some of `held` to the document, or the end. */
static void
read_some(struct document_stream *r)
{
    struct slice piece = {r->held.data ? r->held.data + r->n_read : NULL,
                          r->held.size - r->n_read};
    enum status rc;

    if (piece.size > STEP_SIZE)
        piece.size = STEP_SIZE;
    if (piece.size > 0) {
        rc = document_feed(r->document, piece, &r->why);
        r->n_read += piece.size;
    } else {
        rc = document_end(r->document, &r->why);
        r->is_read = true;
    }
    if (r->n_read == r->held.size) {
        buf_clear(&r->held);
        r->n_read = 0;
    }
    if (rc) {
        document_unreadable(&r->why, rc, r->url);
        fetch_free(r->fetch);
        r->fetch = NULL;
    }
}

/* The exchange */

static void
take_head(struct document_stream *r, const struct fetch_answer *answer)
{
    struct survey_version *v = &r->end.version;
    int64_t modified, now, made;

    if (r->document)
        return;
    modified = httpdate_read(slice_of(answer->last_modified));
    now = made = httpdate_read(slice_of(answer->date));
    /* The older of both times: a file made "later" than the server's clock says
     * has a wrong one. A time before 1970 is none. */
    if (made < 0 || (modified >= 0 && modified < made))
        made = modified;
    r->end.made_us = made < 0 ? DATETIME_NONE : made * 1000000;
    /* Not a Last-Modified of the current second: two versions may share it (RFC
     * 9110 section 8.8.2.2). */
    if (strlen(answer->etag) < sizeof(v->etag))
        strcpy(v->etag, answer->etag);
    if (modified != DATETIME_NONE && modified < now &&
        strlen(answer->last_modified) < sizeof(v->modified))
        strcpy(v->modified, answer->last_modified);
    r->document = document_new_moved(r->url, answer->url, DOCUMENT_UNPACKED_MAX,
                                     &events, r);
    if (!pagelinks_of_header(slice_of(answer->link), slice_of(answer->url),
                             r->calls->on_link, r->user))
        r->held.failed = true;
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct document_stream *r = user;

    if (answer->status != 200)
        return false;
    take_head(r, answer);
    if (digest_check_add(r->digest, bytes, NULL))
        r->held.failed = true;
    if (r->known_digest[0]) { /* the bytes wait until their digest is known */
        int fd = r->spool ? -1 : temporary_file_open(&r->why);

        if (fd >= 0 && !(r->spool = fdopen(fd, "w+")))
            close(fd);
        if (digest_check_size(r->digest) > DOCUMENT_UNPACKED_MAX)
            problem(&r->why, STATUS_MALFORMED, "%.300s has more than %u bytes",
                    r->url, DOCUMENT_UNPACKED_MAX);
        else if (r->spool &&
                 !source_limits_look_at(&r->client->room, temporary_directory(),
                                        bytes.size, &r->why) &&
                 fwrite(bytes.data, 1, bytes.size, r->spool) != bytes.size)
            problem_errno(&r->why, "cannot write into", temporary_directory());
        else if (!r->spool && !r->why.rc)
            problem_memory(&r->why);
        return !r->why.rc;
    }
    buf_add_slice(&r->held, bytes);
    if (!r->document || r->held.failed)
        return !problem_memory(&r->why);
    if (r->held.size > HELD_MOST) {
        fetch_hold(r->fetch, true);
        r->is_web_paused = true;
    }
    timer_start(&r->turn, 0);
    return true;
}

static void
on_answer(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct document_stream *r = user;
    struct digest digest;

    r->fetch = NULL;
    timer_start(&r->turn, 0);
    if (r->why.rc)
        return;
    r->why = *why;
    if (why->rc && why->rc != STATUS_STOPPED) {
        if (why->rc != STATUS_MEMORY)
            problem_prefix(&r->why, why->rc, "%.300s: ", r->url);
        return;
    }
    if (answer->status == 200) {
        take_head(r, answer);
        if (!r->document || r->held.failed || digest_check_end(r->digest, NULL))
            problem_memory(&r->why);
        if (r->why.rc)
            return;
        /* All bytes have come: are they those of the known version? */
        digest_check_sha256(r->digest, &digest);
        digest_write(r->end.version.digest, &digest);
        if (!r->spool)
            return;
        r->end.is_same = !strcmp(r->end.version.digest, r->known_digest);
        r->is_read = r->end.is_same;
        if (fseek(r->spool, 0, SEEK_SET))
            problem_errno(&r->why, "cannot read from", temporary_directory());
        return;
    }
    if (answer->status == 304 && r->has_known) {
        r->end.is_same = r->is_read = true;
        return;
    }
    fetch_refused(&r->why, answer);
    problem_prefix(&r->why, answer->status < 400 ? STATUS_MALFORMED : r->why.rc,
                   "%.300s: ", r->url);
}

/* Handing over */

void
document_stream_free(struct document_stream *r)
{
    if (!r)
        return;
    fetch_free(r->fetch);
    timer_stop(&r->turn);
    document_free(r->document);
    digest_check_free(r->digest);
    if (r->spool)
        fclose(r->spool);
    entry_queue_fini(&r->entries);
    buf_fini(&r->held);
    handle_loop_retire(r->client->loop, &r->retired, NULL);
}

static void
on_turn(void *user)
{
    struct document_stream *r = user;
    unsigned n = 0;

    while (!r->is_paused) {
        struct document_entry *copy = entry_queue_take(&r->entries);

        if (copy) {
            r->calls->on_entry(copy, document_head(r->document), r->user);
            free(copy);
            if (r->retired.is_over)
                return;
            if (++n < TURN_ENTRIES)
                continue;
            timer_start(&r->turn, 0);
            return;
        }
        if (!r->fetch && (r->why.rc || r->is_read)) {
            r->end.head = r->document ? document_head(r->document) : NULL;
            r->calls->on_end(&r->why, &r->end, r->user);
            document_stream_free(r);
            return;
        }
        if (!r->fetch && r->spool && r->held.size == 0) {
            char *to = buf_room(&r->held, HELD_MOST);
            size_t size = to ? fread(to, 1, HELD_MOST, r->spool) : 0;

            r->held.size += size;
            if (!to)
                problem_memory(&r->why);
            else if (ferror(r->spool))
                problem_errno(&r->why, "cannot read from",
                              temporary_directory());
            if (size == 0) {
                fclose(r->spool);
                r->spool = NULL;
            }
            continue;
        }
        if ((r->held.size > 0 && r->document) || !r->fetch) {
            read_some(r);
            continue;
        }
        if (r->is_web_paused) {
            r->is_web_paused = false;
            fetch_hold(r->fetch, false);
        }
        return;
    }
}

static const char *
add_condition(char to[300], const char *name, const char *value)
{
    snprintf(to, 300, "%s: %s", name, value);
    return to;
}

struct document_stream *
document_stream_start(struct td_client *client, const char *url,
                      const struct survey_version *known,
                      const struct document_stream_calls *calls, void *user)
{
    static const struct survey_version nothing = {.etag = ""};
    char conditions[2][300];
    const char *headers[4] = {
        "Accept: application/xml, text/xml;q=0.9, */*;q=0.5"};
    struct document_stream *r = calloc(1, sizeof(*r));
    struct fetch_request request = {
        .url = url,
        .headers = headers,
        .redirects = FETCH_REDIRECTS,
        .takes_gzip = true,
    };

    if (!r)
        return NULL;
    r->client = client;
    r->calls = calls;
    r->user = user;
    r->end.made_us = DATETIME_NONE;
    known = known ? known : &nothing;
    if (known->etag[0])
        headers[1] = add_condition(conditions[0], "If-None-Match", known->etag);
    if (known->modified[0])
        headers[1 + (headers[1] != NULL)] =
            add_condition(conditions[1], "If-Modified-Since", known->modified);
    r->has_known = headers[1] != NULL;
    strcpy(r->known_digest, known->digest);
    r->digest = digest_check_new(SLICE(""), LENGTH_NONE, true);
    entry_queue_init(&r->entries);
    buf_init(&r->held, HELD_MAX);
    r->url = url;
    timer_init(&r->turn, client->loop, on_turn, r);
    if (r->digest)
        r->fetch = fetch_start(client, &request, on_body, on_answer, r);
    if (!r->fetch) {
        document_stream_free(r);
        return NULL;
    }
    return r;
}

void
document_stream_hold(struct document_stream *reading, bool is_held)
{
    reading->is_paused = is_held;
    if (!is_held)
        timer_start(&reading->turn, 0);
}
