/*
 * memento_document.c - the versions of resources whose bytes a set keeps
 * (ResourceSync, section 14.6), after RFC 7089:
 *
 *   content/DIGEST       the bytes: a memento. Of several versions with these
 *                        bytes it is the first; ?seq=N names another
 *   timegate/URI         redirects to the version of Accept-Datetime
 *   timemap/link/URI     names the versions, as application/link-format
 *   timemap/json/URI     likewise, as JSON
 *   r/PATH               the bytes of the resource whose loc this is, as it is
 *                        now (client/harvest/copy.h)
 *
 * A deleted resource keeps its versions, and none is of the time without it:
 * then a TimeGate names the one before. Times of HTTP are whole seconds, so it
 * chooses the last version of the second.
 *
 * The versions are rows of content.db (content.h), and behind them, of a set
 * with CONTENT_INLINE, the entries that the archive thread has not folded yet.
 *
 * For workers: all of it may block.
 */
#include "base/array.h"
#include "broker/documents/documents.h"
#include "broker/net/response.h"
#include "broker/state/content.h"
#include "proto/number.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/json.h"

/* The most rows that a reader gets: the last ones. */
#define ROWS_MAX 10000

/* The most entries behind the rows that a reader looks at. The archive thread
 * folds each second. */
#define UNFOLDED_MAX 50000

/* Room for the links of a memento beside other lines of the head. */
#define LINKS_MAX (RESPONSE_HEADERS_MAX - 1024)

/* The longest TimeMap: all versions that a reader gets, with the longest
 * addresses. */
#define TIMEMAP_MAX ((size_t)16 << 20)

/* An entry whose bytes are kept. */
struct version {
    uint64_t seq;
    int64_t us; /* the event time */
    struct digest digest;
};

/* Versions of a resource, or the first one with certain bytes. */
struct reading {
    const struct document_wish *wish;
    struct link_text base; /* the address of the set */
    struct buf loc;        /* of the resource, as entries have it; empty: any */
    struct digest digest;  /* then: of these bytes */
    uint64_t seq;          /* and of that entry; 0: any */
    bool is_gone;          /* these bytes, or those of that entry */
    uint64_t after;        /* of entries behind that one */
    struct version *all;   /* in their order */
    size_t n, capacity;
    struct buf uri;  /* of the first one, terminated; or empty: an earlier
                        version of this program has folded the entry */
    struct buf type; /* likewise */
};

/* Reading */

static void
add_version(struct reading *r, const struct version *version, struct slice loc,
            struct slice type)
{
    if (r->n == 0) {
        xml_unescape(&r->type,
                     type.size > 0 ? type : SLICE("application/octet-stream"));
        buf_add(&r->type, "", 1);
    }
    if (r->uri.size == 0 && loc.size > 0) {
        xml_unescape(&r->uri, loc);
        buf_add(&r->uri, "", 1);
    }
    if (ONE_MORE(r->all, &r->capacity, r->n))
        r->all[r->n++] = *version;
    r->after = version->seq;
}

/* Reads the rows, unless they are of a removed set. They have the entries up to
 * *last. */
static enum status
read_rows(struct reading *r, struct db *db, uint64_t *last, struct problem *why)
{
    const char *epoch = r->wish->head.origin;
    struct slice loc, type;
    struct version v;
    struct db_rows rows;
    enum status rc = db_find(
        db, NULL, why, NULL,
        "SELECT seq, EXISTS(SELECT 1 FROM gone WHERE digest=?) OR"
        " EXISTS(SELECT 1 FROM entries WHERE seq=? AND loc IS NULL AND"
        " digest IS NULL) FROM state WHERE epoch=?",
        DB_VALUES(&r->digest, r->seq, epoch), DB_INTO(last, &r->is_gone));

    if (rc)
        return rc;
    rows = DB_SELECT(
        db, NULL, why,
        r->loc.size > 0
            ? "SELECT * FROM (SELECT seq, us, digest, loc, type FROM entries"
              " WHERE loc=?1 AND digest IS NOT NULL AND seq>?3"
              " AND (until IS NULL OR NOT ?6) AND ?4=(SELECT epoch FROM state)"
              " ORDER BY seq DESC LIMIT ?5) ORDER BY seq"
            : "SELECT seq, us, digest, loc, type FROM entries"
              " WHERE digest=?2 AND seq>?3 AND ?4=(SELECT epoch FROM state)"
              " ORDER BY seq LIMIT 1+0*?5*?6",
        buf_slice(&r->loc), &r->digest, r->after, epoch, ROWS_MAX,
        r->wish->memento == MEMENTO_PRESENT);
    while (DB_NEXT(&rows, &v.seq, &v.us, &v.digest, &loc, &type))
        add_version(r, &v, loc, type);
    return db_rows_end(&rows);
}

/* Adds the entry `seq` if it is asked for. */
static void
look_at_entry(struct reading *r, const struct batch *batch, uint64_t seq)
{
    struct slice fragment = batch_slice(batch, seq - 1, seq), hash, type, tags;
    uint32_t stamp = batch->entries[seq - batch->first].stamp;
    struct slice loc = fragment_loc(fragment);
    struct version v = {seq, fragment_time(fragment.data, stamp), {{0}}};
    uint64_t length;

    if (r->wish->memento == MEMENTO_PRESENT &&
        slice_equal(loc, buf_slice(&r->loc))) { /* the last one counts */
        r->n = 0;
        buf_clear(&r->type);
    }
    fragment_bytes(fragment, stamp, &hash, &length);
    fragment_labels(fragment, stamp, &type, &tags);
    if (hash_find_sha256(hash, &v.digest) &&
        (r->loc.size > 0 ? slice_equal(loc, buf_slice(&r->loc))
                         : digest_is_equal(&v.digest, &r->digest)))
        add_version(r, &v, loc, type);
}

static enum status
read_unfolded(struct reading *r, uint64_t at, struct problem *why)
{
    const struct document_wish *wish = r->wish;
    const uint64_t last = wish->head.last;
    struct batch *batch;
    enum status rc = STATUS_OK;

    if (last > at + UNFOLDED_MAX)
        return problem(why, STATUS_BUSY,
                       "the broker has not counted the last entries yet");
    while (!rc && at < last) {
        rc = log_read(wish->registry->log, wish->set->log, at, LOG_DISK, &batch,
                      why);
        while (!rc && at < batch->last && at < last)
            look_at_entry(r, batch, ++at);
        if (!rc)
            batch_unref(batch);
    }
    return rc == STATUS_GONE ? STATUS_BUSY : rc;
}

static enum status
read_versions(struct reading *r, struct problem *why)
{
    struct set *set = r->wish->set;
    bool is_new = load_relaxed(&set->content_counts.last) == 0;
    uint64_t last = r->wish->head.earliest;
    struct db db;
    enum status rc = STATUS_OK;

    r->base = set_link(set, LINK_SET);
    r->uri.max = r->type.max = FRAGMENT_MAX;
    if (set_content_mode(set) != CONTENT_NONE) {
        rc = db_open(&db, set_path(set, CONTENT_FILE).text, DB_READER, why);
        if (!rc)
            rc = read_rows(r, &db, &last, why);
        db_close(&db);
    }
    if (rc && is_new) { /* the archive thread may just be making the file */
        last = r->wish->head.earliest;
        rc = STATUS_OK;
    }
    /* A row may be of an entry that was folded behind the first look. */
    if (!rc && set_content_mode(set) == CONTENT_INLINE &&
        (r->loc.size > 0 || r->n == 0))
        rc = read_unfolded(r, last > r->after ? last : r->after, why);
    if (rc || r->n > 0)
        return rc;
    return problem(why, r->is_gone ? STATUS_GONE : STATUS_NOT_FOUND,
                   "the set %s keeps no such bytes%s", set->name,
                   r->is_gone ? " any more" : "");
}

static void
end_reading(struct reading *r)
{
    free(r->all);
    buf_fini(&r->type);
    buf_fini(&r->uri);
    buf_fini(&r->loc);
}

/* Links */

static struct link_text
address_of(const struct reading *r, size_t i)
{
    return link_format("%s/content/%s?seq=%" PRIu64, r->base.text,
                       strchr(digest_text(&r->all[i].digest).text, ':') + 1,
                       r->all[i].seq);
}

/* May the character not stand in a URI? One in a path has no fragment, and no
 * query without an end. */
static bool
is_foreign(const char *c, bool is_in_path)
{
    return *c >= 0x7f || *c < 0 || strchr("\"<>\\^`{|}", *c) ||
           (is_in_path && (strchr("#[]", *c) || !strcmp(c, "?")));
}

/* Appends the loc of the resource, or its address below that of the set
 * (`below`: "/timegate/"). A loc is a publisher's text, and may have characters
 * that end a link, a string of JSON or a line: they are encoded, and in an
 * address so are the escapes of such a loc, for timemap_open undoes all. */
static void
add_uri(struct buf *to, const struct reading *r, const char *below)
{
    bool is_encoded = false;

    if (below)
        buf_add_format(to, "%s%s", r->base.text, below);
    for (const char *c = r->uri.data; below && *c; c++)
        is_encoded |= is_foreign(c, true);
    for (const char *c = r->uri.data; *c; c++)
        if (is_foreign(c, below) || (is_encoded && *c == '%'))
            uri_add_escape(to, *c);
        else
            buf_add(to, c, 1);
}

/* The links of a resource; `rel` is that of its TimeMap. */
static void
add_resource(struct buf *to, const struct reading *r, const char *rel)
{
    BUF_ADD(to, "<");
    add_uri(to, r, NULL);
    BUF_ADD(to, ">; rel=\"original\", <");
    add_uri(to, r, "/timegate/");
    BUF_ADD(to, ">; rel=\"timegate\", <");
    add_uri(to, r, "/timemap/link/");
    buf_add_format(to, ">; rel=\"%s\"; type=\"application/link-format\"", rel);
}

/* The link to version `i` of a resource. Of very many the first ones may be
 * missing. */
static void
add_memento(struct buf *to, const struct reading *r, size_t i)
{
    char date[HTTPDATE_SIZE];

    httpdate_write(date, r->all[i].us / 1000000);
    buf_add_format(to, ", <%s>; rel=\"%s%smemento\"; datetime=\"%s\"",
                   address_of(r, i).text,
                   i == 0 && r->n < ROWS_MAX ? "first " : "",
                   i + 1 == r->n ? "last " : "", date);
}

/* Mementos */

enum status
content_open(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    struct reading r = {.wish = wish, .loc = {.max = FRAGMENT_MAX}};
    struct link_text base = set_link(wish->set, LINK_SET);
    struct slice query = wish->rest, hex = slice_take(&query, '?');
    bool is_present = wish->memento == MEMENTO_PRESENT;
    uint64_t length;
    int fd;
    enum status rc;

    if (is_present) { /* a loc below the set's URL */
        xml_escape(&r.loc, link_slice(&base));
        BUF_ADD(&r.loc, "/r/");
        xml_escape(&r.loc, wish->rest);
    } else if (!hex_read(hex, r.digest.bytes, DIGEST_SIZE) ||
               (slice_skip_start(&query, "seq=") &&
                !number_read(query, &r.seq)))
        return problem(why, STATUS_NOT_FOUND,
                       "the address ends with a SHA-256, or SHA-256?seq=N");
    r.after = r.seq > 0 ? r.seq - 1 : 0;
    rc = read_versions(&r, why);
    if (!rc && r.seq > 0 && r.all->seq != r.seq)
        rc = r.is_gone
                 ? problem(why, STATUS_GONE, "its bytes have gone")
                 : problem(why, STATUS_NOT_FOUND, "the entry had other bytes");
    if (!rc)
        rc = content_file_open(set_path(wish->set, "").text, &r.all->digest,
                               &fd, &length, why);
    if (!rc) {
        *document = (struct document){.body = body_of_file(fd, length),
                                      .tag = r.all->digest,
                                      .modified_us = is_present ? r.all->us
                                                                : DATETIME_NONE,
                                      .is_final = !is_present,
                                      .type = r.type,
                                      .links = {.max = LINKS_MAX}};
        r.type.data = NULL;
        if (r.uri.size > 0) {
            if (!is_present)
                httpdate_write(document->memento, r.all->us / 1000000);
            add_resource(&document->links, &r, "timemap");
        }
    }
    end_reading(&r);
    return rc;
}

/* Resources */

static void
write_gate(const struct reading *r, struct document *document)
{
    size_t chosen = r->n - 1;

    while (chosen > 0 && r->wish->at_us != DATETIME_NONE &&
           r->all[chosen].us / 1000000 > r->wish->at_us / 1000000)
        chosen--;
    *document = (struct document){.links = {.max = LINKS_MAX}};
    memcpy(document->lasting, address_of(r, chosen).text, LINK_URL_MAX);
    add_resource(&document->links, r, "timemap");
    for (size_t i = 0; i < r->n; i++)
        if (i == 0 || i == chosen || i + 1 == r->n)
            add_memento(&document->links, r, i);
}

/* As MemGator and other aggregators of archives write it. */
static void
write_json(struct buf *to, const struct reading *r)
{
    char date[DATETIME_SIZE];

    BUF_ADD(to, "{\"original_uri\":");
    json_text(to, slice_of(r->uri.data));
    BUF_ADD(to, ",\"timegate_uri\":\"");
    add_uri(to, r, "/timegate/");
    BUF_ADD(to, "\",\"timemap_uri\":{\"link_format\":\"");
    add_uri(to, r, "/timemap/link/");
    BUF_ADD(to, "\",\"json_format\":\"");
    add_uri(to, r, "/timemap/json/");
    BUF_ADD(to, "\"},\"mementos\":{\"list\":[");
    for (size_t i = 0; i < r->n; i++)
        buf_add_format(to, "%s{\"datetime\":\"%.*s\",\"uri\":\"%s\"}",
                       i ? ",\n" : "\n",
                       (int)datetime_write_short(date, r->all[i].us), date,
                       address_of(r, i).text);
    BUF_ADD(to, "]}}\n");
}

enum status
timemap_open(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    struct reading r = {.wish = wish};
    struct buf text = {.max = TIMEMAP_MAX};
    char *copy = slice_dup(wish->rest);
    long size = uri_decode(wish->rest, copy);
    struct slice uri = wish->rest, plain = {copy, size > 0 ? (size_t)size : 0};
    enum status rc = STATUS_NOT_FOUND;

    r.uri.max = r.loc.max = FRAGMENT_MAX;
    /* An IRI comes as RFC 3987 says; some clients encode all of the URI. */
    for (; rc == STATUS_NOT_FOUND && uri.size > 0;
         uri = plain, plain.size = 0) {
        buf_clear(&r.uri);
        buf_clear(&r.loc);
        buf_add_slice(&r.uri, uri);
        buf_add(&r.uri, "", 1);
        xml_escape(&r.loc, uri);
        rc = read_versions(&r, why);
    }
    free(copy);
    if (!rc && wish->memento == MEMENTO_GATE)
        write_gate(&r, document);
    else if (!rc && wish->memento == MEMENTO_JSON)
        write_json(&text, &r);
    else if (!rc)
        add_resource(&text, &r, "self");
    for (size_t i = 0; !rc && wish->memento == MEMENTO_LINKS && i < r.n; i++)
        add_memento(&text, &r, i);
    end_reading(&r);
    return wish->memento == MEMENTO_GATE
               ? rc
               : document_of_text(document, &text, rc, why);
}
