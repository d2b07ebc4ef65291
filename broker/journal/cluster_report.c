#include "broker/journal/cluster_report.h"

#include "broker/log/log.h"
#include "proto/resourcesync/json.h"

const struct json_shape cluster_shape = {
    "Cluster", "What a broker knows of its cluster",
    "cluster flag (false: a single broker; all else is missing), name? string "
    "(of the broker that answers), state? 'connected'|'cut-off' (to the "
    "journal), since? time (of this state), why? string (it is cut off), "
    "as_of? time (it has all changes until then), record? count (the last one "
    "that it has), brokers? [ClusterBroker] (all, as PostgreSQL had them "
    "then), "
    "seen? time (then), last? count (the last record of the journal then), "
    "warnings? [string]"};

const struct json_shape cluster_broker_shape = {
    "ClusterBroker", "A broker of the cluster",
    "name string, state 'runs'|'catching-up'|'behind'|'no-turns'|'cut-off'|"
    "'refused'|'no-right'|'no-room'|'needs-backup'|'other-history'|'ahead'|"
    "'stands-still'|'away' (ahead: it has records that the journal has lost), "
    "why? string (it cannot work, as it reports), reads_only flag, record "
    "count "
    "(the last one that it has), behind count (records), heard time (of its "
    "last report), clock? seconds (ahead of the clock of PostgreSQL)"};

static void
add_broker(const struct pg_broker *b, void *user)
{
    struct buf *to = user;
    const char *why;
    const char *state = pg_broker_judge(b, &why)->name;

    json_separate(to, ",");
    BUF_ADD(to, "{\"name\":");
    json_text(to, b->name);
    json_text_member(to, "state", slice_of(state));
    if (*why)
        json_text_member(to, "why", slice_of(why));
    json_flag_member(to, "reads_only", b->is_reader);
    json_number_member(to, "record", b->n);
    json_number_member(to, "behind", b->behind);
    json_time_member(to, "heard", clock_now_us() - b->silent_us);
    if (b->has_clock)
        buf_add_format(to, ",\"clock\":%.3f", (double)b->clock_us / 1e6);
    BUF_ADD(to, "}");
}

enum status
cluster_report_read(struct cluster_report *r, struct pg_connection *c,
                    struct problem *why)
{
    struct pg_cluster all = {.first = r->first};
    const struct pg_cluster *cluster = &all;
    struct buf text = {.max = SIZE_MAX}, *to = &text;
    enum status rc;

    BUF_ADD(to, ",\"brokers\":[");
    rc = pg_cluster_read(c, &all, add_broker, to, why);
    r->first = rc ? 0 : cluster->first;
    if (rc) {
        buf_fini(to);
        return rc;
    }
    BUF_ADD(to, "]");
    json_time_member(to, "seen", clock_now_us());
    json_number_member(to, "last", cluster->end.n);
    BUF_ADD(to, ",\"warnings\":[");
    if (pg_cluster_lacks_standby(cluster, c->options.durable_by))
        BUF_ADD(to, "\"no synchronous standby of PostgreSQL has the commits\"");
    if (cluster->has_other_keeps) {
        json_separate(to, ",");
        buf_add_format(to,
                       "\"--cluster-keep of brokers differs: the largest one "
                       "counts, %" PRIu64 " bytes\"",
                       cluster->keep_bytes);
    }
    BUF_ADD(to, "]");
    pthread_mutex_lock(&r->mutex);
    buf_fini(&r->text);
    r->text = *to;
    pthread_mutex_unlock(&r->mutex);
    return STATUS_OK;
}

void
cluster_report_write(struct cluster_report *r, const char *name,
                     const struct log_copy *copy, struct buf *to)
{
    buf_add_format(to, "{\"cluster\":true,\"name\":\"%s\",\"state\":\"%s\"",
                   name, copy->is_cut_off ? "cut-off" : "connected");
    json_time_member(to, "since", copy->since_us);
    if (copy->is_cut_off)
        json_text_member(to, "why", slice_of(copy->why.text));
    json_time_member(to, "as_of", copy->as_of_us);
    json_number_member(to, "record", copy->place);
    pthread_mutex_lock(&r->mutex);
    buf_add_slice(to, buf_slice(&r->text));
    pthread_mutex_unlock(&r->mutex);
    BUF_ADD(to, "}\n");
}
