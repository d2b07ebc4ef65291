#include "client/harvest/oai.h"

#include "base/clock.h"
#include "client/lib/fetch.h"
#include "client/lib/pause.h"
#include "proto/fnv1a.h"
#include "proto/number.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/xml.h"
#include "proto/urlencoded.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define ATTEMPTS   5

/* Passes that begin anew because a token has expired. */
#define ANEW_MOST 3

/* Answers in a row without a new record: the list goes round. */
#define IDLE_MOST 20

/* Bytes that may be read again because an answer has records that are no XML:
 * each costs a reading of what follows it. */
#define AGAIN_MOST (8 * ANSWER_MAX)

/* Records may become visible after their stamp, which may be a day, or of
 * another zone. */
#define OVERLAP_US 86400000000

/*
 * A look, and an answer of its provider, as far as it counts:
 *
 *     <OAI-PMH><responseDate/>
 *       <error code=""/>
 *       <Identify> granularity, deletedRecord, earliestDatestamp </Identify>
 *       <ListRecords>
 *         <record><header status=""> identifier, datestamp </header>
 *                 <metadata> <dc/>, or anything </metadata></record>
 *         <resumptionToken completeListSize=""/>
 *
 * The child of metadata is what `--records` stores, as it stands in the answer.
 *
 * ListIdentifiers has the headers alone. What a provider names as its own
 * address does not count. Texts are without the white space around them, and
 * the first of each counts. "": there is none, or it is too long; title,
 * summary and author are cut, then.
 */
/* A record, or a header of ListIdentifiers, is a child of a child of the
 * root. */
#define RECORD_DEPTH  3
#define CONTENT_DEPTH (RECORD_DEPTH + 2)

/* Namespaces that are declared around a record, and by it. */
#define SPACES_MAX 64

struct look {
    struct td_client *client;
    struct harvest_feed *feed;
    struct problem *why;
    unsigned n_attempts; /* of a request */
    bool stores_records;
    struct fetch *fetch; /* NULL: it has ended */
    char from[DATETIME_SIZE + 1], token[8192];
    unsigned n_pages;
    bool is_persistent; /* deletions are tombstones alone */
    bool has_days;      /* its times are days */
    bool is_second;     /* it takes the records that waited */
    /* The list */
    char resume[DATETIME_SIZE + 1]; /* `from`, where it goes on without a token;
                                       "": it has not had to */
    int64_t last_us;                /* the latest stamp */
    bool is_disordered;             /* a later record had an earlier one */

    /* The answer */
    char date[64], granularity[64], deleted_record[64], earliest[64];
    char code[64], error[512], next[8192], list_size[64];
    /* Its record */
    char identifier[2048], datestamp[64], status[64];
    char url[8192]; /* dc:identifier that begins as a URL */
    char title[CHANGE_TITLE_MAX + 1], summary[CHANGE_SUMMARY_MAX + 1];
    char author[CHANGE_AUTHOR_MAX + 1];
    bool is_cut;          /* one of these */
    uint64_t digest;      /* FNV-1a of all that it says */
    unsigned n_contents;  /* children of metadata */
    struct slice content; /* the first of them, from tag to tag */
    /* The element that is read */
    struct buf path, text;
    unsigned depth;
    uint64_t n_taken; /* records */
    /* With --records: */
    struct slice raw;    /* what the parser has not come to */
    struct slice tag;    /* the last one */
    struct buf document; /* made of the content */
    struct xml_namespace spaces[SPACES_MAX]; /* declared down to the content */
    size_t marks[CONTENT_DEPTH +
                 2]; /* [depth]: how many of them are from above it */
};

/* Why the record cannot be stored; NULL: it can. */
static const char *
fault_of(const struct look *l)
{
    uint64_t max = l->feed->target->options->max_record_bytes;

    if (!l->stores_records || !strcmp(l->status, "deleted"))
        return NULL;
    if (l->n_contents != 1)
        return "metadata without a record";
    return max && l->document.size > max ? "a record longer than --max-file"
                                         : NULL;
}

/* Hands the record over, with its datestamp: it is read. */
static enum status
hand_over(struct look *l, struct change *c, uint64_t digest, struct slice bytes,
          const char *fault)
{
    struct slice identifier = slice_of(l->identifier);
    bool is_good;

    (void)!entry_lastmod(slice_of(l->datestamp), c, NULL);
    l->is_disordered |= c->lastmod_us < l->last_us;
    if (c->lastmod_us > l->last_us)
        l->last_us = c->lastmod_us;
    is_good = harvest_feed_record(l->feed, identifier, c, digest, bytes, fault);
    l->n_taken++;
    l->identifier[0] = l->datestamp[0] = '\0';
    return is_good ? STATUS_OK : STATUS_STOPPED;
}

/* Makes a change of the record. */
static enum status
take_record(struct look *l)
{
    struct slice id = slice_of(l->identifier), local = id;
    struct harvest_feed *f = l->feed;
    const char *loc = f->target->options->loc;
    const char *at = loc ? strchr(loc, '{') : NULL, *fault = fault_of(l);
    char place[10000], *room;
    struct buf to;
    struct change c;

    buf_init_fixed(&to, place, sizeof(place));
    if (!at) {
        buf_add_text(&to, l->url);
    } else {
        if (at[3] == '}' && slice_skip_start(&local, "oai:") &&
            slice_skip_past(&local, ":"))
            id = local;
        buf_add_slice(&to, slice_between(loc, at));
        room = buf_room(&to, 3 * id.size);
        to.size += room ? uri_encode(id, room) : 0;
        buf_add_text(&to, strchr(at, '}') + 1);
    }
    change_init(&c);
    if (!fault && !to.failed && !uri_check_loc(buf_slice(&to), NULL))
        c.loc = buf_slice(&to);
    c.kind = strcmp(l->status, "deleted") ? CHANGE_UPDATED : CHANGE_DELETED;
    c.title = slice_of(l->title);
    c.summary = slice_of(l->summary);
    c.author = slice_of(l->author);
    if (l->is_cut && !f->counts.mended++)
        snprintf(f->counts.mended_text, HARVEST_TEXT_SIZE,
                 "title, description or creator too long, cut: \"%s\"",
                 problem_quote(slice_of(l->identifier)).text);
    return hand_over(l, &c, fnv1a(l->digest, buf_slice(&l->document)),
                     buf_slice(&l->document), fault);
}

/* XML */

#define TO(member) \
    offsetof(struct look, member), sizeof(((struct look *)NULL)->member)

/* Elements and attributes with a text, by the end of their path. */
static const struct field {
    const char *path;
    size_t offset, size;
} fields[] = {
    {"/responseDate", TO(date)},
    {"/error", TO(error)},
    {"/error@code", TO(code)},
    {"/granularity", TO(granularity)},
    {"/deletedRecord", TO(deleted_record)},
    {"/earliestDatestamp", TO(earliest)},
    {"/resumptionToken", TO(next)},
    {"/resumptionToken@completeListSize", TO(list_size)},
    {"/header@status", TO(status)},
    {"/header/identifier", TO(identifier)},
    {"/header/datestamp", TO(datestamp)},
    {"/metadata/dc/identifier", TO(url)},
    {"/metadata/dc/title", TO(title)},
    {"/metadata/dc/description", TO(summary)},
    {"/metadata/dc/creator", TO(author)},
};

/* Keeps a text of what is at the path. A token that is lost would be the end of
 * the list. */
static enum status
keep_text(struct look *l, struct slice text, struct problem *why)
{
    for (size_t i = 0; i < N_ELEMENTS(fields); i++) {
        char *to = (char *)l + fields[i].offset;
        struct slice path = buf_slice(&l->path);

        if (to[0] || !slice_ends(path, fields[i].path) ||
            (to == l->url && !slice_starts_word(text, "http")))
            continue;
        /* What stands in the metadata counts there alone. */
        path.size -= strlen(fields[i].path);
        if (slice_find(path, "/record/"))
            continue;
        l->is_cut |= to >= l->title && text.size >= fields[i].size;
        if (to >= l->title)
            text = slice_cut(text, fields[i].size - 1);
        if (!slice_copy(to, fields[i].size, text) && to == l->next)
            return problem(why, STATUS_MALFORMED, "its token is too long");
    }
    return STATUS_OK;
}

/* Records as they stand */

/* Skips a comment or the like. False: there is none. */
static bool
skip_other(struct slice *rest)
{
    return (slice_starts(*rest, "<!--") && slice_skip_past(rest, "-->")) ||
           (slice_starts(*rest, "<![") && slice_skip_past(rest, "]]>")) ||
           (slice_starts(*rest, "<?") && slice_skip_past(rest, "?>"));
}

/* Takes the next tag of a well-formed text off its front. */
static struct slice
take_tag(struct slice *rest)
{
    struct slice tag;
    char end;

    do
        slice_take_until(rest, "<");
    while (skip_other(rest));
    tag = *rest;
    do { /* a value of an attribute may have a ">" */
        slice_take_until(rest, "'\">");
        end = rest->size > 0 ? rest->data[0] : '>';
        slice_skip(rest, rest->size > 0);
        if (end != '>')
            slice_take(rest, end);
    } while (end != '>');
    tag.size -= rest->size;
    return tag;
}

/* Notes where an element begins, and the namespaces that it declares. */
static void
begin_raw(struct look *l, const struct xml_element *e)
{
    size_t n = l->depth <= CONTENT_DEPTH ? l->marks[l->depth] : 0;

    l->tag = take_tag(&l->raw);
    if (l->depth > CONTENT_DEPTH)
        return;
    for (size_t i = 0; i < e->n_namespaces && n < SPACES_MAX; i++)
        l->spaces[n++] = e->namespaces[i];
    l->marks[l->depth + 1] = n;
    if (l->depth == CONTENT_DEPTH &&
        slice_find(buf_slice(&l->path), "/record/metadata/") &&
        !l->n_contents++)
        l->content = l->tag;
}

/* Makes the content a document of its own: adds the declarations around it of
 * the namespaces that it uses. */
static void
make_document(struct look *l)
{
    struct slice rest = l->content, name = slice_take_until(&rest, " \t\r\n/>");
    bool has_prefix = memchr(name.data, ':', name.size);

    buf_clear(&l->document);
    buf_add_slice(&l->document, name);
    for (size_t i = 0; i < l->marks[CONTENT_DEPTH]; i++) {
        const char *prefix = (const char *)l->spaces[i].prefix;
        char use[128];
        bool is_used = !has_prefix;

        snprintf(use, sizeof(use), "%s:", prefix ? prefix : "");
        if (prefix)
            is_used = slice_find(l->content, use);
        for (size_t k = i + 1; k < l->marks[CONTENT_DEPTH + 1]; k++)
            is_used &= l->spaces[k].prefix != l->spaces[i].prefix;
        if (!is_used)
            continue;
        buf_add_format(&l->document, " xmlns%s%s=\"", prefix ? ":" : "",
                       prefix ? prefix : "");
        for (xml_name c = l->spaces[i].uri; c && *c; c++)
            buf_add_format(&l->document, strchr("&<\"", *c) ? "&#%d;" : "%c",
                           *c);
        BUF_ADD(&l->document, "\"");
    }
    buf_add_slice(&l->document, rest);
}

static void
end_raw(struct look *l)
{
    bool is_empty = slice_ends(l->tag, "/>");

    if (!is_empty)
        l->tag = take_tag(&l->raw);
    if (l->depth == CONTENT_DEPTH && l->n_contents == 1 &&
        slice_find(buf_slice(&l->path), "/record/metadata/")) {
        l->content = slice_between(l->content.data, l->tag.data + l->tag.size);
        make_document(l);
    }
    if (is_empty)
        l->tag.size = 0;
}

static enum status
on_start(void *user, const struct xml_element *e, struct problem *why)
{
    struct look *l = user;
    enum status rc = STATUS_OK;

    buf_add_format(&l->path, "/%s", (const char *)e->name);
    buf_clear(&l->text);
    if (++l->depth == RECORD_DEPTH) {
        buf_clear(&l->document);
        memset(l->identifier, 0,
               offsetof(struct look, path) - offsetof(struct look, identifier));
    }
    if (l->stores_records)
        begin_raw(l, e);
    for (size_t i = 0; !rc && i < e->n_attributes; i++) {
        struct slice value = xml_value(&e->attributes[i]);
        size_t size = l->path.size;

        l->digest = fnv1a(l->digest, value);
        buf_add_format(&l->path, "@%s", (const char *)e->attributes[i].name);
        rc = keep_text(l, value, why);
        l->path.size = size;
    }
    return rc ? rc : problem_buf(why, &l->path, "the path of an element");
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct look *l = user;

    l->digest = fnv1a(l->digest, text);
    buf_add_slice(&l->text, text);
    return problem_buf(why, &l->text, "the text of an element");
}

static enum status
on_end(void *user, struct problem *why)
{
    struct look *l = user;
    struct slice path = buf_slice(&l->path);
    bool is_record = l->depth == RECORD_DEPTH && (slice_ends(path, "/record") ||
                                                  slice_ends(path, "/header"));
    enum status rc =
        keep_text(l, slice_without_spaces(buf_slice(&l->text)), why);

    if (l->stores_records)
        end_raw(l);
    if (!rc)
        rc = problem_buf(why, &l->document, "a record");
    l->depth--;
    while (l->path.data[--l->path.size] != '/')
        continue;
    buf_clear(&l->text);
    return rc || !is_record ? rc : take_record(l);
}

/* Answers */

/* Reads an answer from `rest` on, behind its head. Sets `bad` to the record at
 * which it fails, up to the next one. */
static enum status
read_records(struct look *l, struct slice head, struct slice rest,
             const char *mark, struct slice *bad)
{
    static const struct xml_events events = {on_start, on_end, on_text, NULL};
    struct xml *xml = xml_new(&events, l, NULL, NULL, 0);
    enum status rc = STATUS_OK;

    buf_clear(&l->path);
    buf_clear(&l->text);
    l->depth = 0;
    l->raw = head;
    rc = xml ? xml_feed(xml, head, l->why) : problem_memory(l->why);
    l->raw = rest;
    for (bad->size = 0; !rc && rest.size;) {
        struct slice piece = rest;
        uint64_t n = l->n_taken;
        const char *next;

        slice_skip(&rest, 1);
        next = slice_find(rest, mark);
        if (next)
            piece = slice_between(piece.data, next);
        rc = xml_feed(xml, piece, l->why);
        if (l->n_taken > n)
            bad->size = 0;
        if (!bad->size && (l->n_taken == n || (rc && next)))
            *bad = piece; /* its end may not come */
        slice_skip(&rest, piece.size - 1);
    }
    if (!rc)
        rc = xml_end(xml, l->why);
    xml_free(xml);
    return rc;
}

/* Counts the record that is no XML, and sets `rest` to what follows it. False:
 * that is not known. */
static bool
leave_record(struct look *l, struct slice bad, struct slice *rest)
{
    const char *next = bad.data + bad.size, *end = rest->data + rest->size;
    struct change c;

    if (next == end) { /* the last one, and the answer's end */
        next = slice_find(bad, "<resumptionToken");
        if (!next)
            next = slice_find(bad, "</List");
    }
    if (!bad.size || !next || next == bad.data)
        return false;
    *rest = slice_between(next, end);
    change_init(&c);
    c.kind = CHANGE_UPDATED;
    if (hand_over(l, &c, 0, SLICE(""), l->why->text))
        return false;
    problem_clear(l->why);
    return true;
}

/* Reads an answer, and goes round its records that are no XML. */
static void
read_answer(struct look *l, struct slice text)
{
    bool has_headers = strstr(l->feed->url, "verb=ListIdentifiers");
    const char *mark = has_headers ? "<header" : "<record";
    const char *first = slice_find(text, mark);
    struct slice rest = slice_between(first ? first : text.data + text.size,
                                      text.data + text.size);
    struct slice head = slice_between(text.data, rest.data), bad = SLICE("");
    size_t size = 0;

    l->path.max = l->text.max = l->document.max = ANSWER_MAX;
    do
        size += rest.size;
    while ((l->why->rc = read_records(l, head, rest, mark, &bad)) ==
               STATUS_MALFORMED &&
           size < AGAIN_MOST && leave_record(l, bad, &rest));
    if (!l->why->rc && !l->date[0])
        problem(l->why, STATUS_MALFORMED, "it is no answer of OAI-PMH");
    buf_fini(&l->path);
    buf_fini(&l->text);
    buf_fini(&l->document);
}

static void
on_answer(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct look *l = user;

    l->fetch = NULL;
    *l->why = *why;
    memset(l->date, 0, sizeof(*l) - offsetof(struct look, date));
    if (!why->rc && answer->status != 200)
        fetch_refused(l->why, answer);
    else if (!why->rc)
        read_answer(l,
                    answer->body.size ? buf_slice(&answer->body) : SLICE(""));
}

/* Asks until there is an answer. STATUS_STOPPED: it is over. */
static enum status
exchange(struct look *l, const char *url)
{
    struct fetch_request request = {
        .max_bytes = ANSWER_MAX, .redirects = 10, .takes_gzip = true};
    struct harvest_target *t = l->feed->target;
    unsigned pause_ms = PAUSE_FIRST;
    int64_t left_ms, end_ms;

    request.url = url;
    for (unsigned n = 1;; n++) {
        l->fetch = fetch_start(l->client, &request, NULL, on_answer, l);
        if (!l->fetch)
            return problem_memory(l->why);
        while (l->fetch)
            if (!harvest_target_turn(t, -1)) {
                fetch_free(l->fetch);
                return STATUS_STOPPED;
            }
        if (l->why->rc != STATUS_UNREACHABLE || n == l->n_attempts ||
            l->why->retry_after_s > PATIENCE_DEFAULT / 1000)
            return l->why->rc;
        left_ms = pause_asked(&pause_ms, PAUSE_LONGEST, l->why->retry_after_s);
        harvest_target_say(t, "%s: %s; again in %.1f s", url, l->why->text,
                           (double)left_ms / 1000);
        end_ms = clock_steady_ms() + left_ms;
        for (; left_ms > 0; left_ms = end_ms - clock_steady_ms())
            if (!harvest_target_turn(t, (int)left_ms))
                return STATUS_STOPPED;
    }
}

/* Writes the URL of a request, with what the user has given behind the verb.
 * `is_first`: it begins a list. */
static void
write_request(struct buf *to, const struct look *l, const char *verb,
              bool is_first)
{
    const char *url = l->feed->url, *own = strstr(url, "verb=");
    const char *given = own ? strchr(own, '&') : NULL;
    const char *from = l->resume[0] ? l->resume : l->from;
    bool is_other =
        strstr(url, "resumptionToken=") || strstr(url, "identifier=");

    buf_add(to, url, own ? (size_t)(own - url) : strlen(url));
    if (!own)
        buf_add_text(to, strchr(url, '?') ? "&" : "?");
    buf_add_format(to, "verb=%s%s", verb,
                   is_first && given && !is_other ? given : "");
    if (is_first && (is_other || !strstr(url, "metadataPrefix=")))
        BUF_ADD(to, "&metadataPrefix=oai_dc");
    if (is_first && from[0])
        urlencoded_add(to, "from", slice_of(from));
    if (l->token[0])
        urlencoded_add(to, "resumptionToken", slice_of(l->token));
    BUF_ADD(to, "\0");
}

/* Asks. STATUS_REFUSED: the provider answers with an error. */
static enum status
ask(struct look *l, const char *verb)
{
    bool is_first = !l->token[0] && strcmp(verb, "Identify") != 0;
    struct buf to = {.max = SIZE_MAX / 2};
    const char *code = l->code;
    enum status rc;

    write_request(&to, l, verb, is_first);
    rc = to.failed ? problem_memory(l->why) : exchange(l, to.data);
    buf_fini(&to);
    if (rc || !code[0] || (is_first && !strcmp(code, "noRecordsMatch")))
        return rc;
    return problem(l->why, STATUS_REFUSED, "%s: %s", code, l->error);
}

/* The list */

/* Writes a time as the provider takes it. */
static void
write_from(char to[DATETIME_SIZE + 1], const struct look *l, int64_t us)
{
    to[datetime_write_short(to, us / 1000000 * 1000000)] = '\0';
    if (l->has_days)
        to[DATETIME_DATE_SIZE] = '\0';
}

static uint64_t
count_records(const struct harvest_feed *f)
{
    uint64_t n = 0;

    for (size_t i = 0; i < RECORD_STATES; i++)
        n += f->n_records[i];
    return n;
}

/* A token does not hold, or an answer cannot be read: goes on from the last
 * stamp, unless that has led to nothing new. `n`: records when it last did. */
static bool
may_go_on(struct look *l, enum status rc, uint64_t *n)
{
    uint64_t sum = count_records(l->feed);

    if ((rc != STATUS_REFUSED && rc != STATUS_MALFORMED) || sum <= *n ||
        l->last_us <= 0 || strstr(l->feed->url, "from="))
        return false;
    *n = sum;
    l->token[0] = '\0';
    write_from(l->resume, l, l->last_us);
    harvest_target_say(l->feed->target, "%s: %s; going on from %s",
                       l->feed->url, l->why->text, l->resume);
    problem_clear(l->why);
    return true;
}

/* Ends a list, of which the provider counts `size` records; UINT64_MAX: it does
 * not. */
static enum status
end_list(struct look *l, const char *position, uint64_t size)
{
    struct harvest_feed *f = l->feed;
    const uint64_t *n = f->n_records;
    uint64_t sum = count_records(f);
    char counts[24] = "none";

    if (size != UINT64_MAX)
        snprintf(counts, sizeof(counts), "%" PRIu64, size);
    snprintf(f->counts.records, sizeof(f->counts.records),
             "%" PRIu64 " held + %" PRIu64 " deleted + %" PRIu64
             " could not be read = %" PRIu64 "%s%s; the provider counts %s",
             n[RECORD_HELD] + n[RECORD_WAITS], n[RECORD_GONE], n[RECORD_UNREAD],
             sum, l->from[0] ? " since " : "", l->from, counts);
    if (size != UINT64_MAX && size != sum)
        problem(l->why, STATUS_OK, "%s", f->counts.records);
    else if (size == UINT64_MAX && l->resume[0] && l->is_disordered)
        problem(l->why, STATUS_OK,
                "a token did not hold, and the list is in no order");
    if (!harvest_feed_end_pass(f, position, !l->why->text[0]))
        return STATUS_STOPPED;
    if (l->is_persistent && f->counts.held_back)
        harvest_target_say(f->target,
                           "%s: records are missing without a tombstone, which "
                           "the provider keeps of each deletion",
                           f->url);
    return STATUS_OK;
}

/* Reads all records, from l->from on. */
static enum status
read_list(struct look *l)
{
    struct harvest_feed *f = l->feed;
    const char *verb = strstr(f->url, "verb=ListIdentifiers")
                           ? "ListIdentifiers"
                           : "ListRecords";
    char position[DATETIME_SIZE + 1];
    uint64_t sum = 0, size = UINT64_MAX, n_broken = 0;
    unsigned n_idle = 0;
    int64_t us = DATETIME_NONE;

    l->token[0] = l->resume[0] = '\0';
    l->n_pages = 0;
    l->last_us = DATETIME_NONE;
    l->is_disordered = false;
    f->keeps_missing = l->is_persistent;
    if (!harvest_feed_begin_pass(f, !l->from[0]))
        return STATUS_STOPPED;
    do {
        enum status rc = ask(l, verb);

        while (rc && may_go_on(l, rc, &n_broken))
            rc = ask(l, verb);
        if (rc)
            return rc;
        if (!l->n_pages++) {
            (void)!datetime_read(slice_of(l->date), &us);
            us = datetime_earlier(us, clock_now_us()) / 1000000 * 1000000;
            position[datetime_write_short(position, us)] = '\0';
        }
        n_idle = count_records(f) > sum ? 0 : n_idle + 1;
        sum = count_records(f);
        if (n_idle > IDLE_MOST)
            return problem(l->why, STATUS_MALFORMED, "the list has no end");
        if (source_limits_check_resources(&l->client->room, sum, l->why))
            return l->why->rc;
        if (!l->resume[0]) /* else it is that of the rest */
            (void)number_read(slice_of(l->list_size), &size);
        strcpy(l->token, l->next);
    } while (l->token[0]);
    if (!f->n_records[RECORD_WAITS] || l->is_second)
        return end_list(l, position, size);
    harvest_target_say(f->target,
                       "%s: records with earlier stamps than before; reading "
                       "all once more",
                       f->url);
    l->is_second = true;
    return harvest_db_forget_stamps(f->db, f->part.id) ? read_list(l)
                                                       : STATUS_STOPPED;
}

static enum status
identify(struct look *l)
{
    enum status rc = client_add_source(l->client, l->feed->url);

    if (!rc)
        rc = ask(l, "Identify");
    if (rc == STATUS_MALFORMED)
        problem_prefix(l->why, rc, "no provider of OAI-PMH: ");
    return rc;
}

bool
oai_answers(struct td_client *client, struct harvest_feed *feed)
{
    struct problem why = {.text = ""};
    struct look l = {client, feed, &why, 1, .fetch = NULL};

    return !identify(&l);
}

enum td_status
oai_read(struct td_client *client, struct harvest_feed *feed, const char *after,
         struct problem *why)
{
    struct look l = {client, feed, why, ATTEMPTS,
                     .stores_records = feed->target->options->stores_records};
    unsigned n_anew = 0;
    int64_t us;
    enum status rc = identify(&l);

    l.is_persistent = !strcmp(l.deleted_record, "persistent");
    l.has_days = !strchr(l.granularity, 'T');
    /* A provider that begins later has begun anew since. */
    if ((l.is_persistent || !feed->target->options->is_once) &&
        !strstr(feed->url, "from=") && !strstr(feed->url, "until=") &&
        strcmp(l.earliest, after) <= 0 &&
        !datetime_read(slice_of(after), &us) && us > OVERLAP_US)
        write_from(l.from, &l, us - OVERLAP_US);
    /* A token may have expired, or the provider cannot do windows. */
    while (!rc && (rc = read_list(&l)) == STATUS_REFUSED &&
           ++n_anew < ANEW_MOST) {
        l.from[0] = why->text[0] = '\0';
        rc = STATUS_OK;
    }
    feed->is_unproven = rc || why->text[0] || (!l.is_persistent && l.from[0]);
    /* The set keeps the records that came before the failure. */
    if (rc && rc != STATUS_STOPPED && (l.n_pages || count_records(feed)))
        rc = harvest_feed_end_pass(feed, NULL, false) ? STATUS_OK
                                                      : STATUS_STOPPED;
    if (rc)
        problem_prefix(why, rc, "%.300s: ", feed->url);
    return td_status_of(rc);
}
