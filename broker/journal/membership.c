#include "broker/journal/membership.h"

#include <unistd.h>

#include "broker/log/log.h"

/* For a connection, and for an answer: a post that gets no turn is refused
 * within two seconds. */
#define PATIENCE_US 1500000

/* The longest name of a broker. */
#define NAME_MAX_SIZE 63

enum status
membership_check(const struct config *config, struct problem *why)
{
    size_t size =
        strspn(config->cluster_name, "abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    if (pg_check_address(config->cluster, why))
        return problem_prefix(why, STATUS_INVALID, "--cluster: ");
    if (size == 0 || size > NAME_MAX_SIZE || config->cluster_name[size])
        return problem(why, STATUS_INVALID,
                       "--cluster-name: \"%s\" is not 1 to %d of a-z A-Z 0-9 "
                       ". _ -",
                       problem_quote(slice_of(config->cluster_name)).text,
                       NAME_MAX_SIZE);
    if (!config->public_url[0])
        return problem(why, STATUS_INVALID,
                       "--cluster needs --public-url: all brokers of a cluster "
                       "have the same");
    return STATUS_OK;
}

/* The journal */

enum status
membership_open(struct membership **membership, const struct config *config,
                struct problem *why)
{
    struct membership *c = memory_new(1, sizeof(*c));
    enum status rc;

    c->config = config;
    c->options = (struct pg_options){
        .address = config->cluster,
        .broker = config->cluster_name,
        .public_url = config->public_url,
        .instance = c->instance,
        .is_reader = config->cluster_read_only,
        .waits_for_all = config->cluster_wait_for_all,
        .durable_by = config->cluster_durable_by,
        .clock_us = config->cluster_clock_us,
        .patience_us = PATIENCE_US,
    };
    rc = pg_make_instance(c->instance, why);
    if (!rc)
        rc = pg_journal_open(&c->journal, &c->options, config->data,
                             config->cluster_keep, why);
    if (rc) {
        free(c);
        return rc;
    }
    if (config->cluster_durable_by == DURABLE_DISK)
        diag(DIAG_WARNING, "journal",
             "--cluster-durable-by disk: changes that were acknowledged are "
             "lost with the disk of PostgreSQL");
    *membership = c;
    return STATUS_OK;
}

enum status
membership_check_copy(struct membership *c, struct log *log,
                      struct problem *why)
{
    struct problem reason = {""};
    struct journal_place place;
    enum status rc;

    log_place(log, &place);
    rc = pg_journal_check(c->journal, &place, &reason);
    if (place.n == 0 && (rc == STATUS_GONE || rc == STATUS_DIFFERENT))
        return problem(why, rc,
                       "--cluster: %s has no copy of this cluster, whose "
                       "journal does not have all records any more, or began "
                       "with sets: tidingsd cluster join makes one there",
                       c->config->data);
    if (rc == STATUS_INVALID || rc == STATUS_CONFLICT)
        return problem(why, rc, "--cluster: %s", reason.text);
    if (rc)
        DIAG(DIAG_WARNING, "journal", "posts are refused",
             diag_text("error", reason.text));
    return STATUS_OK;
}

void
membership_close(struct membership *c)
{
    if (!c)
        return;
    c->journal->ops->close(c->journal);
    free(c);
}
