#include "proto/input/list_proof.h"

#include "proto/number.h"
#include "proto/resourcesync/document_write.h"
#include "proto/swar.h"
#include "proto/utf8.h"

/* The broker's are shorter than DOCUMENT_FRAME_MAX. */
#define HEAD_MAX 65536

struct list_proof {
    struct list_chain chain; /* this list's copy of the chain */
    char name[LIST_NAME_MAX + 1];
    const struct list_proof_events *events;
    void *user;
    struct problem *why; /* of the call under way */

    enum { AT_HEAD, AT_ENTRIES, AT_END } at;
    enum status rc; /* the fault that ended it */
    uint64_t line;  /* under way, from 1; 0: none is to blame */
    uint64_t bytes; /* before it */
    struct buf text;
    struct buf part; /* of a line without its end */
    bool has_head, is_another;
    struct list_head head;
    bool is_altered; /* its digest is not that of its entries */
    uint64_t expected_seq;
    struct digest expected;
    const char *expected_by; /* NULL: nothing is expected */
};

struct slice
list_name(const char *where)
{
    size_t end = uri_is_web(where) ? strcspn(where, "?#") : strlen(where);
    size_t begin = end;
    struct slice name;

    while (begin > 0 && where[begin - 1] != '/')
        begin--;
    name = slice_between(where + begin, where + end);
    if (name.size > 3 && slice_ends(name, ".gz"))
        name.size -= 3;
    return name;
}

bool
list_name_is_numbered(struct slice name)
{
    struct slice number = slice_take(&name, '.');

    return number.size >= 12 && slice_is_of(number, "0123456789") &&
           slice_is(name, "xml");
}

struct list_proof *
list_proof_new(const struct list_chain *chain, const char *where,
               const struct list_proof_events *events, void *user)
{
    struct list_proof *p = memory_new(1, sizeof(*p));

    if (!p)
        return NULL;
    p->chain = *chain;
    snprintf(p->name, sizeof(p->name), "%.*s", SLICE_ARG(list_name(where)));
    p->events = events;
    p->user = user;
    p->line = 1;
    buf_init(&p->text, HEAD_MAX);
    buf_init(&p->part, FRAGMENT_MAX);
    return p;
}

void
list_proof_free(struct list_proof *proof)
{
    if (!proof)
        return;
    buf_fini(&proof->text);
    buf_fini(&proof->part);
    free(proof);
}

void
list_proof_expect(struct list_proof *proof, uint64_t seq,
                  const struct digest *digest, const char *who)
{
    proof->expected_seq = seq;
    proof->expected = *digest;
    proof->expected_by = who;
}

uint64_t
list_proof_reached(const struct list_proof *proof)
{
    return proof->is_altered ? proof->head.covers.after : proof->chain.last;
}

const struct list_head *
list_proof_head(const struct list_proof *proof)
{
    return proof->has_head ? &proof->head : NULL;
}

bool
list_proof_is_another(const struct list_proof *proof)
{
    return proof->is_another;
}

/* Reading the head. A value counts if it is written as document_write.h writes
 * it: then every byte of the head counts, but for those of links. */

static enum status
fail_form(const struct list_proof *p, struct slice expected, struct slice found)
{
    return problem(p->why, STATUS_UNSUPPORTED, "expected \"%s\", found \"%s\"",
                   problem_quote(expected).text, problem_quote(found).text);
}

static enum status
fail_value(const struct list_proof *p, const char *name, struct slice value)
{
    return problem(p->why, STATUS_UNSUPPORTED, "%s is \"%s\"", name,
                   problem_quote(value).text);
}

/* Takes `start`, which ends with a quote, and the value behind it; empty: the
 * line goes on with something else. */
static struct slice
take_value(struct slice *line, const char *start)
{
    return slice_skip_start(line, start) ? slice_take(line, '"')
                                         : (struct slice){NULL, 0};
}

static enum status
take_time(const struct list_proof *p, struct slice *line, const char *start,
          int64_t *us)
{
    struct slice value = take_value(line, start);

    *us = DATETIME_NONE;
    if (value.size == 0 ||
        (!datetime_read(value, us) && slice_is(value, datetime_text(*us).text)))
        return STATUS_OK;
    return fail_value(p, "a time", value);
}

static bool
is_digest(struct slice value, struct digest *digest)
{
    return !digest_read(value, digest) &&
           slice_is(value, digest_text(digest).text);
}

static enum status
take_link(struct list_proof *p, struct slice line)
{
    struct list_head *head = &p->head;
    struct slice rel = take_value(&line, "<rs:ln rel=\"");
    struct slice href = take_value(&line, " href=\""), digest;
    bool is_prev = slice_is(rel, "prev");
    char *to = is_prev                 ? head->prev
               : slice_is(rel, "next") ? head->next
               : slice_is(rel, "up")   ? head->up
                                       : NULL;
    struct buf plain = {.data = to, .capacity = LIST_HREF_MAX};

    take_value(&line, " type=\"");
    digest = take_value(&line, " td:digest=\"");
    if (!slice_is(line, "/>"))
        return fail_form(p, SLICE("/>"), line);
    if (!to)
        return STATUS_OK;
    if (to[0] || href.size == 0)
        return problem(p->why, STATUS_MALFORMED,
                       "two links %.*s, or an empty one", SLICE_ARG(rel));
    if (href.size > LIST_HREF_MAX)
        return problem(p->why, STATUS_UNSUPPORTED,
                       "a link is longer than %d bytes", LIST_HREF_MAX);
    xml_unescape(&plain, href); /* no longer than it was */
    head->has_before |= is_prev && digest.size > 0;
    return is_prev && digest.size > 0 && !is_digest(digest, &head->before)
               ? fail_value(p, "td:digest", digest)
               : STATUS_OK;
}

static enum status
take_md(struct list_proof *p, struct slice line)
{
    static const char start[] = "<rs:md capability=\"";
    struct coverage *covers = &p->head.covers;
    struct slice found = line, capability = take_value(&line, start);
    struct slice epoch, follows, after, last, digest;
    enum capability another;
    enum status rc;

    if (!capability.data)
        return fail_form(p, slice_of(start), found);
    if (!slice_is(capability, capability_names[CAP_CHANGELIST])) {
        p->is_another = !capability_of(capability, &another);
        return problem(p->why, STATUS_UNSUPPORTED, "it is no Change List");
    }
    rc = take_time(p, &line, " from=\"", &covers->from_us);
    if (!rc && covers->from_us == DATETIME_NONE)
        rc = problem(p->why, STATUS_UNSUPPORTED, "it has no from");
    if (!rc)
        rc = take_time(p, &line, " until=\"", &covers->until_us);
    if (rc)
        return rc;
    epoch = take_value(&line, " td:epoch=\"");
    follows = take_value(&line, " td:follows=\"");
    after = take_value(&line, " td:after=\"");
    last = take_value(&line, " td:last=\"");
    digest = take_value(&line, " td:digest=\"");
    if (epoch.size == 0 || after.size == 0 || last.size == 0 ||
        digest.size == 0)
        return problem(p->why, STATUS_UNSUPPORTED,
                       "td:epoch, td:after, td:last or "
                       "td:digest is missing: it is no Change List of Tidings");
    if (!epoch_is_valid(epoch))
        return fail_value(p, "td:epoch", epoch);
    memcpy(covers->epoch, epoch.data, EPOCH_SIZE);
    if (follows.size > 0 && !epoch_is_valid(follows))
        return fail_value(p, "td:follows", follows);
    slice_copy(covers->follows, sizeof(covers->follows), follows);
    if (!number_read_plain(after, &covers->after))
        return fail_value(p, "td:after", after);
    if (!number_read_plain(last, &covers->last))
        return fail_value(p, "td:last", last);
    if (!is_digest(digest, &covers->digest))
        return fail_value(p, "td:digest", digest);
    covers->has_digest = true;
    return slice_is(line, "/>") ? STATUS_OK : fail_form(p, SLICE("/>"), line);
}

/* Reads the lines before the first entry. */
static enum status
read_head(struct list_proof *p)
{
    struct slice open = document_open_of(DOCUMENT_URLSET);
    struct slice rest = buf_slice(&p->text), line;
    enum status rc;

    p->head.text = rest;
    for (p->line = 1; open.size > 0; p->line++) {
        struct slice expected = slice_take(&open, '\n');

        line = slice_take(&rest, '\n');
        if (slice_equal(line, expected))
            continue;
        p->is_another = slice_starts(line, "<sitemapindex ");
        return fail_form(p, expected, line);
    }
    for (;; p->line++) {
        line = slice_take(&rest, '\n');
        if (!slice_starts(line, "<rs:ln "))
            break;
        rc = take_link(p, line);
        if (rc)
            return rc;
    }
    rc = take_md(p, line);
    if (!rc && rest.size > 0) {
        p->line++;
        rc = fail_form(p, SLICE("<url>"), slice_take(&rest, '\n'));
    }
    p->has_head = !rc;
    return rc;
}

/* The place of the list */

/* Checks that the list begins where the chain ends. */
static enum status
check_place(const struct list_proof *p)
{
    const struct list_chain *chain = &p->chain;
    const struct coverage *covers = &p->head.covers;
    struct slice prev = list_name(p->head.prev);
    struct slice next = list_name(chain->next);
    const char *epoch = covers->follows[0] ? covers->follows : covers->epoch;

    if (covers->last < covers->after ||
        covers->last - covers->after > DOCUMENT_ENTRIES_MAX)
        return problem(p->why, STATUS_MALFORMED,
                       "it says that it has the entries after %" PRIu64
                       " up to %" PRIu64,
                       covers->after, covers->last);
    if (!chain->epoch[0])
        return STATUS_OK;
    if (strcmp(chain->epoch, epoch) != 0)
        return problem(p->why, STATUS_MALFORMED,
                       "it is of another history: expected epoch %s, found %s",
                       chain->epoch, epoch);
    if (covers->after > chain->last)
        return problem(p->why, STATUS_MALFORMED,
                       "entries %" PRIu64 " to %" PRIu64
                       " are missing: what comes next begins after entry "
                       "%" PRIu64,
                       chain->last + 1, covers->after, covers->after);
    if (covers->after < chain->last)
        return problem(p->why, STATUS_MALFORMED,
                       "expected what comes after entry %" PRIu64
                       ", found a list that begins after entry %" PRIu64,
                       chain->last, covers->after);
    if (chain->is_open)
        return problem(p->why, STATUS_MALFORMED,
                       "the list before it, %s, is not closed: it has no until",
                       chain->name);
    if (covers->from_us != chain->last_us)
        return problem(p->why, STATUS_MALFORMED,
                       "expected from=\"%s\", the list before ends there; "
                       "found %s",
                       datetime_text(chain->last_us).text,
                       datetime_text(covers->from_us).text);
    /* The links of two neighbours name each other. Names alone: documents keep
     * the public URL of the day when they were closed. */
    if (list_name_is_numbered(slice_of(chain->name)) &&
        !slice_is(prev, chain->name))
        return problem(p->why, STATUS_MALFORMED,
                       "its link prev is %s, the list before it is %s",
                       problem_quote(prev).text, chain->name);
    if (next.size > 0 && list_name_is_numbered(slice_of(p->name)) &&
        !slice_is(next, p->name))
        return problem(p->why, STATUS_MALFORMED,
                       "the link next of the list before it, %s, is %s",
                       chain->name, problem_quote(next).text);
    return STATUS_OK;
}

static enum status
check_expected(const struct list_proof *p)
{
    const struct list_chain *chain = &p->chain;

    if (!p->expected_by || chain->last != p->expected_seq ||
        digest_is_equal(&chain->digest, &p->expected))
        return STATUS_OK;
    return problem(p->why, STATUS_DIFFERENT,
                   "it is of another history: %s has other entries up to "
                   "%" PRIu64 ": its digest of that is %s, here it is %s",
                   p->expected_by, p->expected_seq,
                   digest_text(&p->expected).text,
                   digest_text(&chain->digest).text);
}

/* Sets the digest that the entries continue. */
static enum status
check_digest(struct list_proof *p)
{
    struct list_chain *chain = &p->chain;
    const struct list_head *head = &p->head;
    uint64_t after = head->covers.after;
    struct digest start;

    if (after > 0 && !head->has_before)
        return problem(p->why, STATUS_UNSUPPORTED,
                       "it has no link prev with a td:digest, but begins after "
                       "entry %" PRIu64,
                       after);
    if (after == 0 && head->prev[0])
        return problem(p->why, STATUS_MALFORMED,
                       "it has a link prev, but begins with the first entry");
    digest_sha256(&start, slice_of(head->covers.epoch));
    if (chain->epoch[0])
        start = chain->digest;
    else if (after > 0)
        start = head->before; /* the first list's own word */
    if (after > 0 && !digest_is_equal(&start, &head->before))
        return problem(p->why, STATUS_MALFORMED,
                       "the td:digest of its link prev: expected %s, found %s",
                       digest_text(&start).text,
                       digest_text(&head->before).text);
    if (!chain->epoch[0]) {
        chain->after = chain->last = after;
        chain->from_us = chain->last_us = head->covers.from_us;
    }
    memcpy(chain->epoch, head->covers.epoch, sizeof(chain->epoch));
    chain->digest = start;
    return check_expected(p);
}

/* Entries */

static inline uint64_t
is_control(uint64_t v)
{
    return swar_below(v, 0x20);
}

static inline uint64_t
is_odd(uint64_t v)
{
    return (v & SWAR_HIGHS) | is_control(v);
}

enum status
list_chain_add(struct list_chain *chain, struct slice text,
               struct fragment_view *view, struct problem *why)
{
    struct slice plain;

    if (fragment_view(text, view))
        return problem(why, STATUS_UNSUPPORTED,
                       "what follows entry %" PRIu64
                       " is no entry as Tidings write them",
                       chain->last);
    /* Characters of XML alone; those of control are escaped by a broker. */
    plain = (struct slice){text.data, view->size - 1};
    if (!swar_none(plain, is_odd, ' ') &&
        (!swar_none(plain, is_control, ' ') || !utf8_is_xml_text(plain)))
        return problem(why, STATUS_UNSUPPORTED,
                       "entry %" PRIu64 " is no plain text", view->seq);
    if (view->seq != chain->last + 1)
        return problem(why, STATUS_MALFORMED,
                       "expected entry %" PRIu64 ", found entry %" PRIu64,
                       chain->last + 1, view->seq);
    if (view->us <= chain->last_us)
        return problem(why, STATUS_MALFORMED,
                       "the time of entry %" PRIu64
                       ": expected one after %s, found %s",
                       view->seq, datetime_text(chain->last_us).text,
                       datetime_text(view->us).text);
    digest_add(&chain->digest, (struct slice){text.data, view->size});
    chain->last = view->seq;
    chain->last_us = view->us;
    return STATUS_OK;
}

static enum status
add_entry(struct list_proof *p, struct slice line)
{
    struct list_chain *chain = &p->chain;
    struct fragment_view view;
    enum status rc;

    if (chain->last == p->head.covers.last)
        return problem(p->why, STATUS_MALFORMED,
                       "entry %" PRIu64
                       ", but it says that its last one is %" PRIu64,
                       chain->last + 1, chain->last);
    rc = list_chain_add(chain, line, &view, p->why);
    if (!rc)
        rc = check_expected(p);
    if (!rc && p->events && p->events->on_entry) {
        const struct list_entry entry = {line, p->bytes, &view, &chain->digest};

        rc = p->events->on_entry(&entry, p->user, p->why);
    }
    return rc;
}

/* Adds one line with its end. */
static enum status
add_line(struct list_proof *p, struct slice line)
{
    bool is_entry = slice_starts(line, "<url>");
    bool is_end = slice_equal(line, document_footer_of(DOCUMENT_URLSET));
    uint64_t number = p->line;
    enum status rc = STATUS_OK;

    if (p->at == AT_HEAD && !is_entry && !is_end &&
        !slice_starts(line, "<sitemap>")) {
        buf_add_slice(&p->text, line);
        return p->text.is_starved ? problem_memory(p->why)
               : p->text.failed
                   ? problem(p->why, STATUS_UNSUPPORTED,
                             "no entry within the first %d bytes", HEAD_MAX)
                   : STATUS_OK;
    }
    if (p->at == AT_HEAD) { /* it ends here */
        rc = read_head(p);
        p->at = AT_ENTRIES;
        if (!rc)
            p->line = 0;
        if (!rc && p->events && p->events->on_head)
            rc = p->events->on_head(&p->head, p->user, p->why);
        if (!rc)
            rc = check_place(p);
        if (!rc)
            rc = check_digest(p);
        if (rc)
            return rc;
        p->line = number;
    }
    if (is_entry && p->at == AT_ENTRIES)
        return add_entry(p, line);
    if (!is_end || p->at != AT_ENTRIES)
        return problem(
            p->why, STATUS_MALFORMED, "neither an entry nor the end: \"%s\"",
            problem_quote((struct slice){line.data, line.size - 1}).text);
    p->at = AT_END;
    return STATUS_OK;
}

enum status
list_proof_feed(struct list_proof *p, struct slice bytes, struct problem *why)
{
    if (p->rc)
        return p->rc;
    p->why = why;
    while (bytes.size > 0) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end ? (size_t)(end - bytes.data) + 1 : bytes.size;
        struct slice line = {bytes.data, size};

        slice_skip(&bytes, size);
        if (!end || p->part.size > 0) {
            buf_add_slice(&p->part, line);
            if (p->part.is_starved)
                p->rc = problem_memory(why);
            else if (p->part.failed)
                p->rc = problem(why, STATUS_UNSUPPORTED,
                                "it is longer than %d bytes", FRAGMENT_MAX);
            line = buf_slice(&p->part);
        }
        if (!end || p->rc)
            break;
        p->rc = add_line(p, line);
        if (p->rc)
            break;
        p->bytes += line.size;
        p->line++;
        buf_clear(&p->part);
    }
    return p->rc && p->rc != STATUS_MEMORY && p->line > 0
               ? problem_prefix(why, p->rc, "line %" PRIu64 ": ", p->line)
               : p->rc;
}

/* Checks the list as a whole. */
static enum status
check_end(struct list_proof *p)
{
    const struct coverage *covers = &p->head.covers;
    const struct list_chain *chain = &p->chain;

    if (p->at != AT_END || p->part.size > 0)
        return problem(p->why, STATUS_MALFORMED,
                       "line %" PRIu64 ": it ends here, but not with </urlset>",
                       p->line);
    if (chain->last != covers->last)
        return problem(p->why, STATUS_MALFORMED,
                       "it says that its last entry is %" PRIu64
                       ", but ends with entry %" PRIu64,
                       covers->last, chain->last);
    p->is_altered = !digest_is_equal(&chain->digest, &covers->digest);
    if (p->is_altered)
        return problem(p->why, STATUS_MALFORMED,
                       "an entry from %" PRIu64 " to %" PRIu64
                       " was altered: expected td:digest %s, the entries make "
                       "%s",
                       covers->after + 1, covers->last,
                       digest_text(&covers->digest).text,
                       digest_text(&chain->digest).text);
    if (covers->until_us == DATETIME_NONE)
        return STATUS_OK;
    if (covers->last == covers->after)
        return problem(p->why, STATUS_MALFORMED,
                       "it is closed, but has no entries");
    if (covers->until_us != chain->last_us)
        return problem(p->why, STATUS_MALFORMED,
                       "expected until=\"%s\", the time of its last entry; "
                       "found %s",
                       datetime_text(chain->last_us).text,
                       datetime_text(covers->until_us).text);
    return STATUS_OK;
}

enum status
list_proof_end(struct list_proof *p, struct list_chain *chain,
               struct problem *why)
{
    p->why = why;
    if (!p->rc)
        p->rc = check_end(p);
    if (p->rc)
        return p->rc;
    *chain = p->chain;
    chain->is_open = p->head.covers.until_us == DATETIME_NONE;
    memcpy(chain->next, p->head.next, sizeof(chain->next));
    memcpy(chain->name, p->name, sizeof(chain->name));
    return STATUS_OK;
}
