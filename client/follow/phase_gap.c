/*
 * phase_gap.c - fetches the entries that are missing before a message.
 *
 *     change memory, page by page --+--> no gap is left: the message
 *          | 404, 5xx, unreadable   |
 *          v                        |
 *     Change Lists -----------------+
 *          | gone
 *          v
 *     a baseline, if wanted (phase_baseline.c)
 *
 * The message waits in `kept`, and the connection is held back; if it ends
 * meanwhile, the follower handles that afterwards. If neither source of entries
 * works for now, the follower drops message and connection: the next one begins
 * at its place.
 *
 * The link "next" of a page names its last entry, which is the follower's place
 * after it; so the client builds that URL itself.
 */
#include "client/follow/follower.h"
#include "proto/resourcesync/vocab.h"

static bool continue_gap(struct td_follower *f);

/* Neither the change memory nor the lists fill the gap. */
static bool
end_stuck(struct td_follower *f, const struct problem *why)
{
    if (why->rc == STATUS_UNREACHABLE || f->gap.why.rc == STATUS_UNREACHABLE)
        return follower_trouble(f, why->rc == STATUS_UNREACHABLE ? why
                                                                 : &f->gap.why);
    if (why->rc == STATUS_GONE)
        return follower_lost_place(f, why);
    return follower_end(f, why);
}

/* The change memory fails with `why`: tries the Change Lists. */
static bool
page_failed(struct td_follower *f, const struct problem *why)
{
    f->gap.why = *why;
    if (why->rc == STATUS_GONE || why->rc == STATUS_MEMORY ||
        !f->offered.change_list || f->client->checks)
        return end_stuck(f, why); /* with checkpoints: R-450 */
    return poll_lists(f);
}

static bool
take_page(struct td_follower *f)
{
    struct problem why = {.rc = STATUS_OK};
    enum status rc;
    bool is_stuck;

    f->gap.has_page = false;
    rc = broker_message_read(&f->delivery.message, buf_slice(&f->gap.body),
                             &why);
    if (rc == STATUS_MEMORY)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    if (rc) {
        problem_prefix(&why, STATUS_MALFORMED,
                       "the change memory cannot be read: ");
        return page_failed(f, &why);
    }
    if (!deliver_page(f, &is_stuck))
        return false;
    if (is_stuck) {
        problem(&why, STATUS_MALFORMED,
                "a gap after %" PRIu64 " that cannot be filled",
                f->place.order.at.seq);
        return page_failed(f, &why);
    }
    buf_fini(&f->gap.body);
    return continue_gap(f);
}

static void
on_page(struct td_follower *f, struct fetch_answer *answer,
        const struct problem *why)
{
    if (why->rc) {
        page_failed(f, why);
        return;
    }
    if (!follower_compare_digest(f, answer->after_digest))
        return;
    f->gap.body = answer->body;
    buf_init(&answer->body, 0);
    f->gap.has_page = true;
    continue_gap(f);
}

static void
free_page(void *page)
{
    fetch_free(page);
}

static void
hold_page(void *page, bool is_held)
{
    fetch_hold(page, is_held);
}

static void
on_answer(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct td_follower *f = user;
    struct problem copy = *why;

    f->reading.what = NULL;
    if (!copy.rc && answer->status != 200)
        fetch_refused(&copy, answer);
    f->phases[f->state]->on_page(f, answer, &copy);
}

bool
follower_ask_page(struct td_follower *f)
{
    const char *headers[] = {"Accept: application/xml", NULL};
    struct fetch_request request = {.headers = headers,
                                    .max_bytes = DOCUMENT_BYTES_MAX,
                                    .silence_s = f->options.silence_s,
                                    .takes_gzip = true};
    char position[POSITION_MAX];
    struct fetch *page;
    char *url;

    position_write(position, f->place.order.at.epoch, f->place.order.at.seq);
    if (asprintf(&url, "%s%cafter=%s%s", f->offered.memory,
                 strchr(f->offered.memory, '?') ? '&' : '?', position,
                 f->options.filters) < 0)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    request.url = url;
    page = fetch_start(f->client, &request, NULL, on_answer, f);
    free(url);
    return follower_reads(f, page, free_page, hold_page);
}

static bool
continue_gap(struct td_follower *f)
{
    struct problem why;
    struct buf kept;
    bool goes_on;

    if (f->is_paused)
        return true;
    if (f->gap.has_page)
        return take_page(f);
    if (f->lists.has_end) {
        if (f->delivery.has_batch)
            return deliver_batch(f) && continue_gap(f);
        f->lists.has_end = false;
        why = f->lists.end;
        if (poll_is_behind(f)) /* the kept message proves that entries exist */
            why.rc = STATUS_UNREACHABLE;
        if (why.rc)
            return end_stuck(f, &why);
        if (f->place.order.at.seq >= f->gap.upto)
            return continue_gap(f);
        /* Lists are never behind messages (design section 5, rule 2), but a
         * proxy may have kept an older list. */
        problem(&why, STATUS_UNREACHABLE,
                "a gap after %" PRIu64 " that the Change Lists do not fill yet",
                f->place.order.at.seq);
        return end_stuck(f, &why);
    }
    if (f->place.order.at.seq < f->gap.upto)
        return follower_ask_page(f);
    /* The gap is filled: delivers the message, then handles the end of the
     * connection, if it has ended. */
    kept = f->gap.kept; /* a copy: `f` may be freed */
    buf_init(&f->gap.kept, LIVE_MESSAGE_MAX);
    follower_enter(f, FOLLOWER_LIVE);
    goes_on = deliver_bytes(f, kept.data, kept.size);
    buf_fini(&kept);
    /* In FOLLOWER_FILLING again, the message is kept again. */
    if (goes_on && f->state == FOLLOWER_LIVE)
        return f->phases[f->state]->go_on(f);
    return goes_on;
}

static bool
begin_gap(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_FILLING);
    follower_hold(f); /* the live connection */
    problem_clear(&f->gap.why);
    if (f->offered.memory)
        return follower_ask_page(f);
    if (f->offered.change_list && !f->client->checks)
        return poll_lists(f);
    return follower_fail(f, STATUS_MALFORMED,
                         "a gap after %" PRIu64 " that cannot be filled",
                         f->place.order.at.seq);
}

const struct phase phase_gap = {
    .begin = begin_gap, .go_on = continue_gap, .on_page = on_page};
