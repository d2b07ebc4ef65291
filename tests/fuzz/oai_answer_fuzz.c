/*
 * oai_answer_fuzz.c - what a provider of OAI-PMH answers to the requests of one
 * look. The answers stand one behind the other, with a byte 0xff between them;
 * "\xfe" and a byte n stand for 64 n letters. The first byte of all says
 * whether each record is stored, too. Behind the last answer the look is over.
 *
 * The exchange of HTTP and the feed are doubles.
 */
#include "client/harvest/oai.h"
#include "client/lib/fetch.h"
#include "proto/resourcesync/xml.h"
#include "proto/uri.h"
#include "tests/fuzz/fuzz.h"

#define BYTES_MAX ((size_t)300000)

static struct slice answers;
static fetch_end_fn *on_end; /* of the exchange under way; NULL: none */
static void *user;
static unsigned n_asked;

/* Doubles */

struct fetch *
fetch_start(struct td_client *client, const struct fetch_request *request,
            fetch_body_fn *on_body, fetch_end_fn *end, void *of)
{
    FUZZ_ASSERT(client && !on_body && !on_end && ++n_asked < 1000);
    for (const char *c = request->url; *c; c++)
        FUZZ_ASSERT(*c > ' ' && *c <= '~');
    on_end = end;
    user = of;
    return (struct fetch *)&answers;
}

void
fetch_free(struct fetch *fetch)
{
    FUZZ_ASSERT(fetch);
    on_end = NULL;
}

enum status
fetch_refused(struct problem *why, const struct fetch_answer *answer)
{
    return problem(why, STATUS_REFUSED, "%u", answer->status);
}

bool
harvest_target_turn(struct harvest_target *t, int wait_ms)
{
    fetch_end_fn *end = on_end;
    struct fetch_answer answer = {.status = 200};
    const struct problem why = {.text = ""};
    struct slice one;

    (void)t;
    (void)wait_ms;
    if (!end || answers.size == 0)
        return false;
    one = slice_take(&answers, '\xff');
    answer.body.max = BYTES_MAX + 8192;
    fuzz_inflate(one, BYTES_MAX, &answer.body);
    on_end = NULL;
    end(&answer, &why, user);
    buf_fini(&answer.body);
    return true;
}

void
harvest_target_say(const struct harvest_target *t, const char *format, ...)
{
    (void)t;
    FUZZ_ASSERT(format);
}

bool
harvest_feed_begin_pass(struct harvest_feed *feed, bool is_full)
{
    (void)is_full;
    memset(feed->n_records, 0, sizeof(feed->n_records));
    return true;
}

bool
harvest_feed_end_pass(struct harvest_feed *feed, const char *position,
                      bool is_complete)
{
    int64_t us;

    (void)feed;
    (void)is_complete;
    FUZZ_ASSERT(!position || !position[0] ||
                !datetime_read(slice_of(position), &us));
    return true;
}

bool
harvest_db_forget_stamps(struct harvest_db *db, int64_t part)
{
    (void)db;
    (void)part;
    return true;
}

static enum status
on_start(void *of, const struct xml_element *e, struct problem *why)
{
    (void)of;
    (void)e;
    (void)why;
    return STATUS_OK;
}

static enum status
on_end_tag(void *of, struct problem *why)
{
    return on_start(of, NULL, why);
}

static enum status
on_text(void *of, struct slice text, struct problem *why)
{
    (void)text;
    return on_start(of, NULL, why);
}

/* A stored record is a document of its own. */
static void
check_document(struct slice bytes)
{
    static const struct xml_events events = {on_start, on_end_tag, on_text,
                                             NULL};
    struct problem why = {""};
    struct xml *xml = xml_new(&events, NULL, NULL, NULL, 0);

    FUZZ_ASSERT(!xml_feed(xml, bytes, &why) && !xml_end(xml, &why));
    xml_free(xml);
}

bool
harvest_feed_record(struct harvest_feed *feed, struct slice identifier,
                    const struct change *c, uint64_t digest, struct slice bytes,
                    const char *fault)
{
    (void)digest;
    FUZZ_ASSERT(fuzz_is_utf8(identifier));
    FUZZ_ASSERT(c->loc.size == 0 || !uri_check_loc(c->loc, NULL));
    FUZZ_ASSERT(fuzz_is_utf8(c->title) && fuzz_is_utf8(c->summary) &&
                fuzz_is_utf8(c->author));
    FUZZ_ASSERT(c->title.size <= CHANGE_TITLE_MAX &&
                c->summary.size <= CHANGE_SUMMARY_MAX &&
                c->author.size <= CHANGE_AUTHOR_MAX);
    if (bytes.size > 0 && !fault && c->kind != CHANGE_DELETED)
        check_document(bytes);
    feed->n_records[c->kind == CHANGE_DELETED ? RECORD_GONE
                    : c->loc.size > 0         ? RECORD_HELD
                                              : RECORD_UNREAD]++;
    return true;
}

/* A look ends, and says why if it was none; each record that it hands over is
 * text of XML. */
FUZZ_TARGET(oai_answer, bytes)
{
    static struct td_client *client;
    struct harvest_options options = {.is_once = true,
                                      .loc = "http://example.org/{id}"};
    struct harvest_target target = {.options = &options};
    struct harvest_feed feed = {.target = &target,
                                .url = "http://example.org/oai"};
    struct problem why = {""};
    struct slice flags = fuzz_take(&bytes, 1);

    if (flags.size == 0)
        return;
    if (!client)
        client = td_open();
    FUZZ_ASSERT(client);
    options.stores_records = flags.data[0] & 1;
    options.loc = flags.data[0] & 2 ? NULL : options.loc;
    answers = bytes;
    on_end = NULL;
    n_asked = 0;
    if (oai_read(client, &feed, flags.data[0] & 4 ? "2026-01-01T00:00:00Z" : "",
                 &why) != TD_OK &&
        why.text[0])
        fuzz_check_problem(&why);
    if (why.text[0])
        fuzz_check_problem(&why);
}
