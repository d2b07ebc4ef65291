#include "broker/archive/fetch_schedule.h"

#include "base/random.h"
#include "broker/archive/set_progress.h"
#include "broker/base/metrics.h"
#include "proto/fnv1a.h"
#include "proto/http/websub.h"

/* Fetches started per connection: those without one wait in the fetcher, which
 * then need not wait for the archive thread. */
#define AHEAD 4

/* Each byte of a character of a loc may become an escape. */
#define URL_SIZE_MAX ((size_t)12 * URI_CHARACTERS_MAX)

/* Missing files settled in one go; and rows looked at. */
#define SETTLED_AT_ONCE 16
#define ROWS_AT_ONCE    200

/* The pause after a lack of room or memory here. */
#define REST_US 5000000

/* A host rests after so many failures in a row. */
#define FAILURES_OF_HOST 5

static int64_t
pause_after(struct fetch_schedule *f, unsigned failures)
{
    return backoff_pause(&f->registry->config->fetch_retry, failures,
                         random_u32());
}

static unsigned
most_at_once(const struct fetch_schedule *f)
{
    return AHEAD * (unsigned)f->registry->config->fetch_connections;
}

/* Hosts */

/* FNV-1a from a secret seed. */
static uint32_t
host_of(const struct fetch_schedule *f, const struct set *set, struct slice url)
{
    uint64_t hash = FNV1A_BEGIN ^ f->seed ^ (uintptr_t)set_creator(set) >> 4;
    struct buf key = {.max = WEBSUB_URL_MAX};

    websub_authority(&key, url);
    hash = fnv1a(hash, buf_slice(&key));
    buf_fini(&key);
    return (uint32_t)((hash ^ hash >> 32) % FETCH_SCHEDULE_HOSTS);
}

/* Fetches that were under way together and fail count as one failure. */
static void
note_host(struct fetch_schedule *f, const struct fetch *fetch)
{
    struct fetch_host *host = &f->hosts[fetch->host];
    int64_t now_us = clock_steady_us();
    bool is_resting = now_us < host->rest_us;
    int64_t pause_us = fetch->retry_after_us;

    host->n--;
    if (host->n <= AHEAD * f->registry->config->fetch_host_connections / 2)
        host->is_full = false;
    if (fetch->outcome == FETCH_WHOLE || fetch->outcome == FETCH_HOPELESS) {
        call_history_add(&host->calls, false, 0, 1);
        host->failures = 0;
    }
    if (fetch->outcome != FETCH_FAILED)
        return;
    call_history_add(&host->calls, true, 0, 1);
    if (!is_resting)
        host->failures++;
    if (!fetch->is_of_host && host->failures < FAILURES_OF_HOST)
        return;
    if (!is_resting && pause_us < pause_after(f, host->failures))
        pause_us = pause_after(f, host->failures);
    if (host->rest_us < now_us + pause_us)
        host->rest_us = now_us + pause_us;
    if (!is_resting && host->failures == 1)
        DIAG(DIAG_WARNING, "archive",
             "no content is fetched from a host for a while",
             diag_text("loc", fetch->url), diag_text("error", fetch->why.text));
}

/* Outcomes */

static void
note_failure(const struct fetch *fetch)
{
    metrics_add_label(METRIC_FETCHES_FAILED, fetch->reason, 1);
    DIAG(DIAG_DEBUG, "archive", "the content of an entry was not fetched",
         diag_text("set", fetch->set->name), diag_number("seq", fetch->seq),
         diag_text("loc", fetch->url), diag_text("error", fetch->why.text));
}

/* Brings the outcome of a fetch into the rows: of a broker that is alone, at
 * once; of a cluster, by a record into those of all brokers. */
static enum status
settle_content(struct fetch_schedule *f, struct set *set,
               const struct content_fact *fact, struct problem *why)
{
    const struct act act = {.kind = ACT_CONTENT, .content = *fact};
    bool is_alone = !log_is_shared(f->registry->log);
    struct content *content;
    enum status rc = is_alone
                         ? STATUS_OK
                         : log_act(f->registry->log, set->log, &act, 0, why);

    if (!rc)
        rc = contents_open(f->contents, set, &content, why);
    if (!rc && is_alone)
        rc = content_note(content, fact, why);
    if (!rc)
        contents_note(set, content);
    return rc;
}

/* Gives the bytes their name, and the entry its row. */
static enum status
keep_content(struct fetch_schedule *f, struct fetch *fetch, struct problem *why)
{
    struct content_fact fact = {.seq = fetch->seq,
                                .due_us = CONTENT_KEPT,
                                .digest = fetch->arriving.digest,
                                .length = fetch->arriving.length,
                                .is_here = true};
    struct content_pin *pin = NULL;
    struct buf bytes = {.max = CONTENT_POST_MAX};
    enum status rc = contents_pin(f->contents, fetch->set, &pin, why);

    if (!rc)
        rc = contents_place(pin, &fetch->arriving, why);
    if (!rc)
        rc = contents_sync(pin, why);
    if (!rc && log_is_shared(f->registry->log))
        rc = contents_share(fetch->set, &fact, &bytes, why);
    fact.bytes = buf_slice(&bytes);
    if (!rc)
        rc = settle_content(f, fetch->set, &fact, why);
    contents_end(pin, 0); /* a row names the file now */
    buf_fini(&bytes);
    if (rc)
        return rc;
    metrics_add(METRIC_FETCHED, 1);
    metrics_add(METRIC_FETCHED_BYTES, (int64_t)fact.length);
    return STATUS_OK;
}

static enum status
postpone_fetch(struct fetch_schedule *f, struct fetch *fetch,
               struct problem *why)
{
    int64_t pause_us = pause_after(f, fetch->tries + 1);
    bool is_later = /* a later version, which is no failure */
        fetch->outcome == FETCH_HOPELESS && fetch->reason == FETCH_DIFFERS;
    bool is_last = fetch->outcome == FETCH_HOPELESS ||
                   fetch->tries + 1 >= f->registry->config->fetch_tries;
    struct content_fact fact = {.seq = fetch->seq, .due_us = CONTENT_NEVER};
    enum status rc;

    note_failure(fetch);
    if (pause_us < fetch->retry_after_us)
        pause_us = fetch->retry_after_us;
    if (!is_last)
        fact.due_us = clock_now_us() + pause_us;
    rc = settle_content(f, fetch->set, &fact, why);
    if (rc || !is_last)
        return rc;
    metrics_add(METRIC_FETCHES_GIVEN_UP, 1);
    DIAG(is_later ? DIAG_INFO : DIAG_WARNING, "archive",
         "the content of an entry is given up",
         diag_text("set", fetch->set->name), diag_number("seq", fetch->seq),
         diag_text("loc", fetch->url), diag_text("error", fetch->why.text));
    return STATUS_OK;
}

/* True for real trouble: otherwise the set was removed, or no longer keeps
 * content, or another entry has brought the same bytes, or the process ends. */
static bool
is_trouble(enum status rc)
{
    return rc && rc != STATUS_NOT_FOUND && rc != STATUS_GONE &&
           rc != STATUS_STOPPED;
}

static void
be_in_trouble(struct fetch_schedule *f, const char *what, const char *error)
{
    DIAG(DIAG_WARNING, "archive", "content is not fetched for a while",
         diag_text("what", what), diag_text("error", error));
    f->rest_us = clock_steady_us() + REST_US;
}

static void
settle_fetch(struct fetch_schedule *f, struct fetch *fetch)
{
    struct problem why = {""};
    enum status rc = STATUS_OK;

    f->n--;
    metrics_add(METRIC_FETCHES, -1);
    note_host(f, fetch);
    /* Before the failure is counted: then its file is gone. */
    if (fetch->outcome != FETCH_WHOLE)
        arriving_abandon(&fetch->arriving);
    switch (fetch->outcome) {
    case FETCH_WHOLE:
        rc = keep_content(f, fetch, &why);
        if (rc != STATUS_TOO_LARGE)
            break;
        fetch->outcome = FETCH_HOPELESS;
        fetch->reason = FETCH_TOO_LARGE;
        fetch->why = why;
        /* fallthrough */
    case FETCH_FAILED:
    case FETCH_HOPELESS:
        rc = postpone_fetch(f, fetch, &why);
        break;
    case FETCH_NO_ROOM:
        note_failure(fetch);
        be_in_trouble(f, "the fetch", fetch->why.text);
        break;
    case FETCH_DROPPED:
    case FETCH_OUTCOMES:
        break;
    }
    if (is_trouble(rc))
        be_in_trouble(f, "what came of a fetch", why.text);
    fetch_free(fetch);
}

/* Starting */

/* True if one more fetch of the set may start: a set has at most half of the
 * places, and its owner leaves room for others. */
static bool
has_place(const struct fetch_schedule *f, const struct set *set)
{
    unsigned most = most_at_once(f), n = 0, own = 0;
    struct fetch *fetch;

    list_walk (fetch, &f->under_way, node) {
        n += fetch->set == set;
        own += fetch->owner == set_creator(set);
    }
    return f->n < most && n < most / 2 &&
           client_leaves_room(own, most - f->n - 1);
}

/* Gives up content that needs no attempt. */
static enum status
give_up(struct fetch_schedule *f, struct set *set,
        const struct content_missing *missing, enum fetch_reason reason,
        struct problem *why)
{
    struct fetch fetch = {.set = set,
                          .seq = missing->seq,
                          .url = slice_dup(missing->loc),
                          .outcome = FETCH_HOPELESS,
                          .reason = reason,
                          .why = *why};
    enum status rc = postpone_fetch(f, &fetch, why);

    free(fetch.url);
    return rc;
}

/* Starts the fetch of missing content, if its host accepts one now. */
static enum status
consider_content(struct fetch_schedule *f, struct set *set,
                 const struct content_missing *missing, struct problem *why)
{
    const struct config *config = f->registry->config;
    struct client *owner = set_creator(set);
    struct slice loc = missing->loc;
    const char *fragment;
    struct fetch *fetch;
    struct fetch_host *host;
    struct buf url = {.max = URL_SIZE_MAX};
    uint32_t number;
    enum status rc = STATUS_OK;

    list_walk (fetch, &f->under_way, node) {
        if (fetch->set == set && fetch->seq == missing->seq)
            return STATUS_OK;
    }
    fragment = memchr(loc.data, '#', loc.size);
    if (fragment)
        loc.size = (size_t)(fragment - loc.data);
    uri_add_sendable(&url, loc); /* it may be an IRI */
    if (websub_check_url(buf_slice(&url), "its loc", why)) {
        rc = give_up(f, set, missing, FETCH_REFUSED, why);
        goto out;
    }
    if (missing->length != LENGTH_NONE &&
        missing->length > config->max_content) {
        problem_set(why, "it has %" PRIu64 " bytes: more than --max-content",
                    missing->length);
        rc = give_up(f, set, missing, FETCH_TOO_LARGE, why);
        goto out;
    }
    number = host_of(f, set, buf_slice(&url));
    host = &f->hosts[number];
    host->is_full |= host->n >= AHEAD * config->fetch_host_connections;
    if (host->is_full || clock_steady_us() < host->rest_us)
        goto out;
    fetch = fetch_new(buf_slice(&url), missing->hash, missing->length);
    fetch->set = set;
    fetch->seq = missing->seq;
    fetch->tries = missing->tries;
    fetch->host = number;
    fetch->owner = owner;
    fetch->is_suspect = host->failures > 0 || call_history_is_bad(&host->calls);
    list_append(&f->under_way, &fetch->node);
    host->n++;
    f->n++;
    metrics_add(METRIC_FETCHES, 1);
    content_download_start(f->fetcher, fetch);

out:
    buf_fini(&url);
    return rc;
}

/* Starts some fetches of a set. Goes on where it stopped, and passes over the
 * hosts that rest. */
static enum status
start_some(struct fetch_schedule *f, struct set *set, struct problem *why)
{
    unsigned n_settled = 0;
    struct fetch_progress *looked = &set->progress->fetch;
    struct content_missing missing = {.due_us = looked->us, .seq = looked->seq};
    int64_t now_us = clock_now_us();
    struct content *content;
    enum status rc = contents_open(f->contents, set, &content, why);

    for (int i = 0; !rc && i < ROWS_AT_ONCE && n_settled < SETTLED_AT_ONCE &&
                    has_place(f, set);
         i++) {
        rc = content_missing(content, now_us, &missing, why);
        if (rc)
            break;
        *looked = (struct fetch_progress){missing.due_us, missing.seq};
        n_settled += missing.is_settled;
        if (!missing.is_settled)
            rc = consider_content(f, set, &missing, why);
    }
    if (!rc && n_settled > 0)
        turn_add(&f->turn, set);
    if (rc == STATUS_NOT_FOUND) /* end of the rows: again from the first */
        *looked = (struct fetch_progress){0};
    if (!rc || rc == STATUS_NOT_FOUND)
        contents_note(set, content);
    return rc;
}

static bool
is_fetching(const struct set *set)
{
    return set_content_mode(set) == CONTENT_FETCH;
}

/* True if a fetch may be due, and start. */
static bool
wants_fetch(struct set *set, const struct head *head, void *user)
{
    (void)head;
    return is_fetching(set) && contents_is_due(set, clock_now_us()) &&
           !registry_check_room(set->registry, slice_of(set->name), NULL, 0,
                                NULL) &&
           has_place(user, set);
}

static bool
fetching_some(struct chore *chore)
{
    struct fetch_schedule *f = list_entry(chore, struct fetch_schedule, chore);
    struct problem why = {""};
    bool is_more = true;
    struct fetch *fetch;
    struct set *set;
    enum status rc;

    for (int i = 0; is_more && i < SETTLED_AT_ONCE; i++) {
        struct fetch_host *host;
        bool was_full;

        fetch = content_download_next(f->fetcher);
        is_more = fetch;
        if (!fetch)
            break;
        host = &f->hosts[fetch->host];
        was_full = host->is_full;
        settle_fetch(f, fetch);
        /* Not after each fetch: the look for due ones takes longer than to
         * settle one. */
        f->turn.is_due |=
            (was_full && !host->is_full) || f->n % (most_at_once(f) / 4) == 0;
    }
    if (!atomic_load(&f->registry->owns) || !chore_has_room(f->registry) ||
        f->n >= most_at_once(f) || clock_steady_us() < f->rest_us)
        return is_more;
    set = turn_next(&f->turn);
    if (!set)
        return is_more;
    rc = start_some(f, set, &why);
    if (is_trouble(rc))
        be_in_trouble(f, set->name, why.text);
    return true;
}

static void
fetching_look(struct chore *chore)
{
    struct fetch_schedule *f = list_entry(chore, struct fetch_schedule, chore);
    struct fetch *fetch;

    list_walk (fetch, &f->under_way, node) {
        struct head head;

        if (!is_fetching(fetch->set) || !log_head(fetch->set->log, &head))
            store_relaxed(&fetch->is_unwanted, true);
    }
}

/* Life */

/* Fetch thread; the archive thread outlives the fetcher. */
static void
on_over(void *user)
{
    struct fetch_schedule *f = user;

    thread_wake(f->thread);
}

/* Cuts the fetches under way. */
static void
fetching_end(struct chore *chore)
{
    content_download_close(
        list_entry(chore, struct fetch_schedule, chore)->fetcher);
}

enum status
fetch_schedule_open(struct fetch_schedule *f, struct registry *registry,
                    struct contents *contents, const struct networks *allowed,
                    struct thread *thread, struct problem *why)
{
    f->chore = (struct chore){.look = fetching_look,
                              .turn = &f->turn,
                              .step = fetching_some,
                              .end = fetching_end};
    f->registry = registry;
    f->contents = contents;
    f->thread = thread;
    list_init(&f->under_way);
    turn_init(&f->turn, TURN_FETCH, registry, wants_fetch, f);
    f->seed = random_u32();
    return content_download_open(&f->fetcher, registry->config, allowed,
                                 contents->arriving, on_over, f, why);
}
