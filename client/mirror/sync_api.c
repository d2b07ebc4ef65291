/*
 * sync_api.c - td_sync.
 */
#include <inttypes.h>
#include <string.h>

#include "client/mirror/sync_run.h"

static enum status
is_url(const char *url, struct problem *why)
{
    if (url && (!strncmp(url, "http://", 7) || !strncmp(url, "https://", 8)))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "\"%s\" is no URL of http or https: give that of a set "
                   "or of a source",
                   url ? url : "");
}

/* The result of a run that did not fail: STATUS_DIFFERENT if it gave any up. */
static enum status
judge_mirror(const struct mirror *m, struct problem *why)
{
    const struct mirror_db_counts *c = mirror_db_counts(m->db);

    if (why->rc || !c->n_left)
        return why->rc;
    return problem(
        why, STATUS_DIFFERENT,
        "%" PRIu64
        " resources could not be fetched; the next run tries them again",
        c->n_left);
}

enum td_status
td_sync(struct td_client *client, const char *url, const char *dir,
        const struct td_sync_options *options)
{
    struct td_sync_options filled;
    struct mirror m = {.client = client};
    struct problem why = {.text = ""};
    enum status rc;

    client_begin(client);
    problem_clear(&why);
    mirror_defaults(&filled, options);
    if (is_url(url, &why))
        goto out;
    if (!dir || !dir[0]) {
        problem(&why, STATUS_INVALID, "no directory for the mirror was given");
        goto out;
    }
    if (!mirror_init(&m, client, &filled)) {
        why = m.why;
        goto out;
    }
    m.dir = mirror_dir_open(dir, true, &why);
    if (!m.dir)
        goto out;
    m.db = mirror_db_open(mirror_dir_state(m.dir), "mirror.db", &why);
    if (!m.db)
        goto out;
    sync_run_source(&m, url, filled.until_caught_up, &why);
    judge_mirror(&m, &why);
out:
    mirror_db_close(m.db);
    mirror_dir_close(m.dir);
    mirror_fini(&m);
    rc = why.rc;
    if (rc)
        client_told(client, &why);
    return client_end(client, rc);
}
