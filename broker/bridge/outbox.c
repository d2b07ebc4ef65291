#include "broker/bridge/outbox.h"

#include "base/thread.h"
#include "broker/base/metrics.h"
#include "broker/bridge/inbox.h"
#include "broker/journal/pg_connection.h"

/* For a connection, and for an answer: the end of the broker waits so long. */
#define PATIENCE_US 3000000

/* After a failure; and how long a batch is offered to the log at once. */
#define AGAIN_US 1000000

/* The functions of broker/commands/outbox.sql. */
#define NEXT    "SELECT * FROM tidings_outbox_next($1, $2)"
#define DONE    "SELECT tidings_outbox_done($1, $2, $3)"
#define REFUSE  "SELECT tidings_outbox_refuse($1, $2, $3, $4, $5)"
#define REFUSED "SELECT tidings_outbox_refused()"

struct outbox {
    struct bridge_config config; /* the name, and the token */
    struct bridge_rights rights;
    struct inbox inbox;
    struct pg_connection connection;
    char instance[PG_INSTANCE_SIZE + 1];
    struct thread thread;

    /* The batch at hand. */
    struct bridge_input input; /* its set; "": there is none */
    uint64_t number, id;       /* where it ends */
    char key[KEY_SIZE_MAX + 1];
    struct buf lines;

    pthread_mutex_t mutex;
    struct problem why; /* under the mutex: the reason for a wait; "": none */
};

/* Posting */

/* The log refuses the batch: an operator corrects the entry, or deletes it. */
static enum status
refuse_batch(struct outbox *o, const struct problem *reason,
             struct problem *why)
{
    const struct pg_statement refuse = {
        REFUSE,
        DB_VALUES(o->input.set, o->number, o->id, reason->line, reason->text)};

    metrics_add(METRIC_OUTBOX_REFUSED, 1);
    return pg_run(&o->connection, &refuse, 1, why);
}

static enum status
end_batch(struct outbox *o, struct problem *why)
{
    const struct pg_statement done = {
        DONE, DB_VALUES(o->input.set, o->number, o->id), .is_frequent = true};

    return pg_run(&o->connection, &done, 1, why);
}

/* Posts the batch, and ends it. One without entries is one whose entries
 * somebody has deleted. */
static enum status
post_batch(struct outbox *o, struct problem *why)
{
    const struct mqtt_received message = {
        .topic = "outbox",
        .payload = buf_slice(&o->lines),
        .content_type = SLICE("application/x-ndjson"),
        .key = slice_of(o->key),
    };
    struct inbox_message *h;
    enum status rc = STATUS_OK;

    if (o->lines.size == 0)
        return end_batch(o, why);
    h = inbox_message_new(&message, &o->input,
                          o->rights.registry->config->max_body);
    if (!h)
        return problem_memory(why);
    snprintf(h->key.owner, sizeof(h->key.owner), "%s", o->config.as);
    inbox_add(&o->inbox, h);
    inbox_begin(&o->inbox, AGAIN_US);
    while (inbox_pass(&o->inbox, why) == 0 && inbox_pause(&o->inbox))
        ;
    h = inbox_take(&o->inbox);
    if (!h) /* for a reason that passes, or the broker ends */
        rc = STATUS_BUSY;
    else if (h->rc)
        rc = refuse_batch(o, &h->why, why);
    else
        rc = end_batch(o, why);
    if (h && !h->rc)
        metrics_add(METRIC_OUTBOX_POSTED, (int64_t)(h->ingest->post.last -
                                                    h->ingest->post.first + 1));
    if (h)
        inbox_message_free(h);
    inbox_forget(&o->inbox);
    return rc;
}

/* Posts a batch of each set. A refused one leaves the other sets alone. */
static enum status
drain(struct outbox *o, bool *has_more, struct problem *why)
{
    char set[sizeof(o->input.set)] = "", refused[sizeof(why->text)] = "";
    const struct pg_statement look = {REFUSED, .into = DB_INTO(&refused),
                                      .is_frequent = true};
    enum status rc = pg_connect(&o->connection, why);

    *has_more = false;
    while (!rc) {
        const struct pg_statement next = {
            NEXT, DB_VALUES(o->instance, set),
            .into =
                DB_INTO(&o->input.set, &o->number, &o->id, &o->key, &o->lines),
            .is_frequent = true};

        o->input.set[0] = '\0';
        buf_clear(&o->lines);
        rc = pg_run(&o->connection, &next, 1, why);
        if (rc || !o->input.set[0])
            break;
        memcpy(set, o->input.set, sizeof(set));
        *has_more = true;
        rc = post_batch(o, why);
    }
    if (!rc)
        rc = pg_run(&o->connection, &look, 1, why);
    return !rc && refused[0] ? problem(why, STATUS_REFUSED, "set %s", refused)
                             : rc;
}

static void
note_outcome(struct outbox *o, enum status rc, const struct problem *why)
{
    pthread_mutex_lock(&o->mutex);
    if (rc && strcmp(o->why.text, why->text) != 0)
        DIAG(DIAG_WARNING, "outbox", "entries of the outbox wait",
             diag_text("why", why->text));
    if (!rc && o->why.text[0])
        diag(DIAG_INFO, "outbox", "entries of the outbox are posted again");
    o->why = rc ? *why : (struct problem){""};
    pthread_mutex_unlock(&o->mutex);
}

static void
run_outbox(struct thread *t)
{
    struct outbox *o = t->user;
    int64_t wait_us = 0;

    while (thread_wait(t, wait_us)) {
        struct problem why = {""};
        bool has_more;
        enum status rc = drain(o, &has_more, &why);

        note_outcome(o, rc, &why);
        wait_us = rc && rc != STATUS_REFUSED ? AGAIN_US
                  : has_more                 ? 0
                                             : OUTBOX_LOOK_US;
    }
    pg_close(&o->connection);
}

/* From the start to the end */

enum status
outbox_open(struct outbox **outbox, struct posts *posts, struct problem *why)
{
    const struct config *config = posts->registry->config;
    struct outbox *o;
    enum status rc;

    *outbox = NULL;
    if (!config->postgresql[0] || config->cluster_read_only)
        return STATUS_OK;
    rc = pg_check_address(config->postgresql, why);
    if (rc)
        return problem_prefix(why, rc, "--postgresql: ");
    o = memory_new(1, sizeof(*o));
    snprintf(o->config.name, sizeof(o->config.name), "outbox");
    snprintf(o->config.as, sizeof(o->config.as), "%s", config->postgresql_as);
    buf_init(&o->lines, SIZE_MAX);
    pthread_mutex_init(&o->mutex, NULL);
    bridge_rights_init(&o->rights, posts->registry, &o->config, "in");
    inbox_init(&o->inbox, posts, &o->rights);
    rc = pg_make_instance(o->instance, why);
    o->connection.options = (struct pg_options){.address = config->postgresql,
                                                .durable_by = DURABLE_UNCHECKED,
                                                .patience_us = PATIENCE_US};
    if (!rc)
        rc = thread_start(&o->thread, "outbox", run_outbox, o, why);
    *outbox = o;
    return rc;
}

void
outbox_stop(struct outbox *o)
{
    if (!o)
        return;
    inbox_end(&o->inbox);
    thread_stop(&o->thread);
}

void
outbox_close(struct outbox *o)
{
    if (!o)
        return;
    outbox_stop(o);
    inbox_fini(&o->inbox);
    bridge_rights_fini(&o->rights);
    buf_fini(&o->lines);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}

void
outbox_warn(struct outbox *o, struct buf *to)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->mutex);
    if (o->why.text[0])
        buf_add_format(to, "warning: outbox: %s\n", o->why.text);
    pthread_mutex_unlock(&o->mutex);
}
