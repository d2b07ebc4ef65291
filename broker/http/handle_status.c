/*
 * handle_status.c - the state of the broker, for operators: whether the process
 * answers, whether it takes posts, its last hour and its disk, its metrics for
 * Prometheus, its options, its bridges to MQTT brokers, and its cluster; and
 * its backup, for a client to fetch.
 */
#include <sys/statvfs.h>

#include "broker/backup/backup_offer.h"
#include "broker/base/metrics.h"
#include "broker/bucket/vault.h"
#include "broker/config/config.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/origins.h"
#include "broker/http/routes.h"
#include "broker/journal/membership.h"
#include "broker/net/response.h"
#include "broker/sets/harvest.h"
#include "broker/sets/rates.h"
#include "proto/resourcesync/json.h"

/* Health */

enum status
handle_health_get(const struct route_call *call)
{
    struct response r;

    response_init(&r, 200, "text/plain", NULL);
    r.text = SLICE("ok\n");
    request_answer(call->rq, &r);
    return STATUS_OK;
}

/* The broker tries a list once a second: after so many failures the problem is
 * not a passing one. */
#define FILES_FAILED_MAX 3

/* The clock may rightly be a little behind the log: event times differ by at
 * least a microsecond each, and NTP slews. */
#define AHEAD_MAX_US 1000000

#define REASONS_MAX 5

/* True if other brokers have newer changes, and this one could. Without its
 * PostgreSQL all brokers may be old: then reads go on. */
static bool
is_stale(struct http *http, const struct log_copy *copy)
{
    int64_t limit_us = http->registry->config->cluster_stale_us;

    return limit_us > 0 && copy->is_answering && copy->age_us > limit_us;
}

/* Lists why posts are refused, or will be soon. `is_for_reads`: not that they
 * are never taken here. */
static size_t
reasons_of(struct http *http, const struct log_health *health,
           const struct log_copy *copy, bool is_for_reads,
           struct problem reasons[REASONS_MAX])
{
    unsigned n_failed = load_relaxed(&http->archiver->rotation.n_failures);
    size_t n = 0;

    if (http->registry->config->cluster_read_only && !is_for_reads)
        problem_set(&reasons[n++], CLUSTER_READ_ONLY);
    if (!health->has_room)
        problem_set(&reasons[n++],
                    "the disk is nearly full: posts are refused");
    else if (copy->is_cut_off || copy->state)
        problem_set(&reasons[n++], "this broker %s its cluster: %s",
                    copy->is_cut_off ? "is cut off from" : "cannot work for",
                    copy->why.text);
    if (is_stale(http, copy))
        problem_set(&reasons[n++],
                    "this broker is %" PRId64 " s behind its cluster",
                    copy->age_us / 1000000);
    if (n_failed >= FILES_FAILED_MAX)
        problem_set(&reasons[n++],
                    "closed Change Lists cannot be written to their files (%u "
                    "attempts): the log only grows",
                    n_failed);
    return n;
}

/* A line for the clock, one for each reason, and for each bridge two of a
 * problem's size. */
#define READY_MAX ((size_t)1 << 16)

/* Answers 200 "ready", with a warning line for each problem that does not
 * hinder posts: event times stay in order whatever the clock says, and
 * a bridge resumes where it was. For reads the reasons to refuse posts are
 * warnings, too; what hinders them is a copy of another history, or one that is
 * too old. Who uses a name that is not the broker's
 * learns nothing else. While the broker starts and ends, the caller
 * answers 503 before this. */
enum status
handle_ready_get(const struct route_call *call)
{
    struct http *http = call->http;
    struct problem reasons[REASONS_MAX];
    struct log_health health;
    struct log_copy copy;
    struct buf text;
    bool is_known = origins_may_call(http, call->rq, call->principal, NULL);
    struct slice client;
    bool is_for_reads = request_parameter(call->rq, "for", &client) &&
                        slice_is(client, "reads");
    size_t n;

    log_health(http->registry->log, &health);
    log_copy(http->registry->log, &copy);
    n = reasons_of(http, &health, &copy, is_for_reads, reasons);
    if (n > 0 &&
        (!is_for_reads || log_copy_is_wrong(&copy) || is_stale(http, &copy))) {
        /* 503, to a stranger without a reason: the detail has all reasons, the
         * member `reasons` each separately. */
        struct problem all = {"not ready"};

        buf_init(&text, 4096);
        BUF_ADD(&text, ",\"reasons\":[");
        for (size_t i = 0; is_known && i < n; i++) {
            struct problem before = all;

            problem_set(&all, "%s%s %s", before.text, i ? ";" : ":",
                        reasons[i].text);
            json_separate(&text, ",");
            json_text(&text, slice_of(reasons[i].text));
        }
        buf_add(&text, "]", 2); /* terminated */
        request_answer_problem_with(call->rq, 503, &all, NULL,
                                    text.failed ? NULL : text.data);
        buf_fini(&text);
        return STATUS_OK;
    }
    buf_init(&text, READY_MAX);
    BUF_ADD(&text, "ready\n");
    for (size_t i = 0; is_known && i < n; i++)
        buf_add_format(&text, "warning: %s\n", reasons[i].text);
    if (is_known && health.ahead_us > AHEAD_MAX_US)
        buf_add_format(&text,
                       "warning: the last event time is %" PRId64
                       " s ahead of the clock; was it set back?\n",
                       health.ahead_us / 1000000);
    if (is_known)
        vault_warn(&text);
    if (is_known)
        bridges_warn(http->bridges, &text);
    answers_buf(call->rq, 200, "text/plain", "no-store", &text);
    return STATUS_OK;
}

/* Status and settings */

#define STATUS_TEXT_MAX 4096

/* {"version":"1.0.0","sets":3,"disk":{"free":1000,"total":2000},"minutes":60,
 *  "entries":[0,...,17],"lags":[0,...,250]}. On a worker: asks the disk. */
static void
write_status(struct deferral *d, struct buf *to)
{
    struct statvfs disk;
    struct rate rate;

    buf_add_format(to, "{\"version\":\"%s\",\"sets\":%zu,", TIDINGS_VERSION,
                   registry_count(d->http->registry));
    if (!statvfs(d->http->registry->config->data, &disk))
        buf_add_format(to,
                       "\"disk\":{\"free\":%" PRIu64 ",\"total\":%" PRIu64 "},",
                       (uint64_t)disk.f_bavail * disk.f_frsize,
                       (uint64_t)disk.f_blocks * disk.f_frsize);
    rates_read(d->http->registry->rates, NULL, &rate);
    rates_write(to, &rate);
    BUF_ADD(to, "}\n");
}

static void
write_config(struct deferral *d, struct buf *to)
{
    config_report_copy(d->http->config_report, to);
}

/* Metrics */

/* Some 60 KB; 1.2 MB if every route had answered with statuses of each class,
 * see metrics.h. */
#define METRICS_TEXT_MAX ((size_t)2 << 20)

/* How the sets stand to the sources that they are kept equal to
 * (broker/sets/harvest.h). There may be many sets, so each family names the ten
 * that are worst:
 *
 *     tidings_harvest_complete_timestamp_seconds{set="news"} 1775067000
 *     tidings_held_back_deletions{set="news"} 120
 */
enum family {
    FAMILY_COMPLETE,
    FAMILY_LOOK,
    FAMILY_LEFT_OUT,
    FAMILY_HELD_BACK,
    FAMILIES
};

/* Of times the earliest are the worst, of other numbers the greatest. */
static const struct row {
    const char *name, *help;
    bool is_time;
} rows[FAMILIES] = {
    [FAMILY_COMPLETE] =
        {"tidings_harvest_complete_timestamp_seconds",
         "When a harvested set was last known to be complete, 0: never; of the "
         "ten sets for which that is longest ago",
         true},
    [FAMILY_LOOK] =
        {"tidings_harvest_look_timestamp_seconds",
         "When the harvester of a set last looked at its source; of the ten "
         "sets for which that is longest ago",
         true},
    [FAMILY_LEFT_OUT] =
        {"tidings_harvest_left_out_rows",
         "Rows of the source of a set that cannot be used, of the ten sets "
         "with most",
         false},
    [FAMILY_HELD_BACK] =
        {"tidings_held_back_deletions",
         "Deletions of a set that wait for consent, of the ten sets with most",
         false},
};

#define WORST 10

/* The worst sets of each family, the worst one first. */
struct worst {
    const struct principal *principal;

    struct worst_set {
        const char *name;
        int64_t value;
    } places[FAMILIES][WORST];

    size_t n[FAMILIES];
};

static void
consider(struct worst *w, enum family family, const struct set *set,
         int64_t value)
{
    struct worst_set *places = w->places[family];
    size_t *n = &w->n[family], at = *n;

    while (at > 0 && (rows[family].is_time ? value < places[at - 1].value
                                           : value > places[at - 1].value))
        at--;
    if (at == WORST)
        return;
    if (*n < WORST)
        ++*n;
    memmove(&places[at + 1], &places[at], (*n - 1 - at) * sizeof(*places));
    places[at] = (struct worst_set){set->name, value};
}

static int64_t
seconds_of(int64_t us)
{
    return us == DATETIME_NONE ? 0 : us / 1000000;
}

static bool
consider_set(struct set *set, const struct head *head, void *user)
{
    struct worst *w = user;
    struct harvest *harvest;
    uint64_t held_back = load_relaxed(&set->held_back);

    (void)head;
    if (!set_is_visible(set, w->principal))
        return true;
    harvest = registry_harvest(set);
    if (harvest) {
        consider(w, FAMILY_COMPLETE, set,
                 seconds_of(harvest->complete_as_of_us));
        consider(w, FAMILY_LOOK, set, seconds_of(harvest->last_look_us));
        if (harvest->left_out)
            consider(w, FAMILY_LEFT_OUT, set, (int64_t)harvest->left_out);
        if (harvest->held_back > held_back)
            held_back = harvest->held_back;
        harvest_unref(harvest);
    }
    if (held_back)
        consider(w, FAMILY_HELD_BACK, set, (int64_t)held_back);
    return true;
}

/* process_measure reads /proc. */
static void
write_metrics(struct deferral *d, struct buf *to)
{
    static const char *const readers[RATE_READERS] = {
        [RATE_SUBSCRIBERS] = "subscribers",
        [RATE_HUB] = "hub",
        [RATE_BRIDGES] = "bridges",
    };
    struct lagging_set found[RATE_LAGGING];
    struct worst worst = {.principal = d->principal};
    struct statvfs disk;

    metrics_set(METRIC_BUILD_INFO, 1);
    registry_measure(d->http->registry);
    push_measure(d->http->push);
    bridges_measure(d->http->bridges);
    if (!statvfs(d->http->registry->config->data, &disk)) {
        metrics_set(METRIC_DISK_FREE, (int64_t)(disk.f_bavail * disk.f_frsize));
        metrics_set(METRIC_DISK_SIZE, (int64_t)(disk.f_blocks * disk.f_frsize));
    }
    process_measure();
    metrics_write(to);
    /* tidings_set_lag_entries{readers="hub",set="news"} 250
     *
     * Without the sets that the reader of the metrics may not see. */
    metrics_write_head(to, "tidings_set_lag_entries", "gauge",
                       "Entries that the last reader of a set is behind, of "
                       "the ten sets that lag most, by kind of reader");
    for (enum rate_reader kind = 0; kind < RATE_READERS; kind++) {
        size_t n = rates_lagging(d->http->registry->rates, kind, found);

        for (size_t i = 0; i < n; i++)
            if (set_is_visible(found[i].set, d->principal))
                buf_add_format(to,
                               "tidings_set_lag_entries{readers=\"%s\",set="
                               "\"%s\"} %" PRIu64 "\n",
                               readers[kind], found[i].set->name, found[i].lag);
    }
    registry_each(d->http->registry, consider_set, &worst);
    for (size_t family = 0; family < FAMILIES; family++) {
        const struct row *row = &rows[family];

        metrics_write_head(to, row->name, "gauge", row->help);
        for (size_t i = 0; i < worst.n[family]; i++)
            buf_add_format(to, "%s{set=\"%s\"} %" PRId64 "\n", row->name,
                           worst.places[family][i].name,
                           worst.places[family][i].value);
    }
}

/* Bridges */

/* BRIDGES_MAX of them, each with two reasons that are all escapes. */
#define BRIDGES_TEXT_MAX ((size_t)1 << 18)

/* On a worker, because each bridge looks at the heads of all its sets. */
static void
write_bridges(struct deferral *d, struct buf *to)
{
    bridges_write(d->http->bridges, d->principal, to);
}

/* The cluster */

static void
write_cluster(struct deferral *d, struct buf *to)
{
    const struct membership *m = d->http->membership;
    struct log_copy copy;

    if (!m) {
        BUF_ADD(to, "{\"cluster\":false}\n");
        return;
    }
    log_copy(d->http->registry->log, &copy);
    cluster_report_write(pg_journal_report(m->journal), m->options.broker,
                         &copy, to);
}

/* Reports, which no cache keeps */

/* `write` runs on a worker, because it looks at every set, reads the disk, or
 * waits for a lock. */
static const struct report_kind {
    const char *content_type;
    size_t max;
    void (*write)(struct deferral *d, struct buf *to);
} reports[] = {
    [REPORT_STATUS] = {"application/json", STATUS_TEXT_MAX, write_status},
    [REPORT_CONFIG] = {"application/json", CONFIG_REPORT_MAX, write_config},
    [REPORT_METRICS] = {METRICS_TYPE, METRICS_TEXT_MAX, write_metrics},
    [REPORT_BRIDGES] = {"application/json", BRIDGES_TEXT_MAX, write_bridges},
    [REPORT_CLUSTER] = {"application/json", CLUSTER_TEXT_MAX, write_cluster},
};

struct reporting {
    struct deferral deferral;
    const struct report_kind *kind;
};

static enum status
write_report(struct deferral *d, struct problem *why)
{
    struct reporting *r = list_entry(d, struct reporting, deferral);

    r->kind->write(d, &d->text);
    return d->text.failed ? problem_memory(why) : STATUS_OK;
}

static void
answer_report(struct deferral *d, struct request *rq)
{
    struct reporting *r = list_entry(d, struct reporting, deferral);

    answers_buf(rq, 200, r->kind->content_type, "no-store", &d->text);
}

enum status
handle_report_get(const struct route_call *call)
{
    static const struct deferral_kind kind = {.work = write_report,
                                              .answer = answer_report};
    struct reporting *r = deferral_new(call, &kind, sizeof(*r));

    r->kind = &reports[call->act];
    buf_init(&r->deferral.text, r->kind->max);
    deferral_begin(&r->deferral, call->rq);
    return STATUS_OK;
}

/* Backup: POST begins to make one, and GET answers 202 until it is there
 * (backup_offer.h). */

/* {"backup":"making"} */
static void
answer_making(struct request *rq)
{
    struct response r;

    response_init(&r, 202, "application/json", "no-store");
    response_header(&r, "Retry-After", "1");
    r.text = SLICE("{\"backup\":\"making\"}\n");
    request_answer(rq, &r);
}

enum status
handle_backup_post(const struct route_call *call)
{
    enum status rc = backup_offer_make(call->http->backup,
                                       request_authority(call->rq), call->why);

    if (!rc)
        answer_making(call->rq);
    return rc;
}

enum status
handle_backup_get(const struct route_call *call)
{
    struct response r;
    struct body *body;
    enum status rc = backup_offer_take(call->http->backup, &body, call->why);

    if (rc == STATUS_AGAIN) {
        answer_making(call->rq);
        return STATUS_OK;
    }
    if (rc)
        return rc;
    response_init(&r, 200, "application/x-tar", "no-store");
    response_header(&r, "Content-Disposition",
                    "attachment; filename=\"tidings-backup.tar\"");
    r.body = body;
    request_answer(call->rq, &r);
    return STATUS_OK;
}
