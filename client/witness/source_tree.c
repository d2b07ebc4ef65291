#include "client/witness/source_tree.h"

#include "base/clock.h"
#include "client/lib/fetch.h"

/* The address of the first list: the lists of a set are numbered. And of the
 * last one. */
#define FIRST_LIST  "/changes/000000000001.xml"
#define LATEST_LIST "/changes/latest.xml"

/* Silence of a source. */
#define SILENCE_S 5

/* A list under way. */
struct reading {
    struct list_proof *proof;
    struct tree_edge edge;
    char found[EPOCH_SIZE + 1]; /* epoch of the last list */
    uint64_t size;              /* ends there */
    int64_t until_ms;
    enum status rc;
    struct problem why;
};

static enum status
on_head(const struct list_head *head, void *user, struct problem *why)
{
    struct reading *r = user;

    slice_copy(r->found, sizeof(r->found), slice_of(head->covers.epoch));
    return r->edge.size == 0 && head->covers.after > 0
               ? problem(why, STATUS_GONE, "the first entries are not there")
               : STATUS_OK;
}

static enum status
on_entry(const struct list_entry *entry, void *user, struct problem *why)
{
    struct reading *r = user;
    struct digest leaf;

    (void)why;
    tree_leaf(&leaf, entry->digest);
    tree_edge_add(&r->edge, &leaf);
    return r->edge.size == r->size ? STATUS_STOPPED : STATUS_OK;
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct reading *r = user;

    if (answer->status == 200)
        r->rc = list_proof_feed(r->proof, bytes, &r->why);
    if (!r->rc && clock_steady_ms() > r->until_ms)
        r->rc = problem(&r->why, STATUS_BUSY, "reading takes too long");
    return answer->status == 200 && !r->rc;
}

/* Reads a list. STATUS_STOPPED: up to r->size, which is inside of it. */
static enum status
read_list(struct td_client *client, const char *url, struct source_tree *tree,
          struct reading *r)
{
    static const struct list_proof_events events = {on_head, on_entry};
    static const char *const headers[] = {"Accept: application/xml", NULL};
    const struct fetch_request request = {.url = url,
                                          .headers = headers,
                                          .skips_refusals = true,
                                          .takes_gzip = true,
                                          .silence_s = SILENCE_S};
    struct list_chain chain = tree->chain;
    struct fetch_answer answer;
    enum status rc;

    r->edge = tree->edge;
    r->rc = STATUS_OK;
    r->proof = list_proof_new(&chain, url, &events, r);
    if (!r->proof)
        return problem_memory(&client->problem);
    rc = fetch_run(client, &request, on_body, r, &answer);
    buf_fini(&answer.body);
    if (!rc && answer.status != 200)
        rc = client_fail(client, fetch_meaning(answer.status), "%.800s: %u",
                         url, answer.status);
    else if (!rc && !r->rc)
        r->rc = list_proof_end(r->proof, &chain, &r->why);
    list_proof_free(r->proof);
    if (r->rc == STATUS_STOPPED)
        return r->rc;
    if (r->rc)
        return client_fail(client, r->rc, "%.400s: %s", url, r->why.text);
    if (!rc && !chain.is_open)
        *tree = (struct source_tree){chain, r->edge};
    return rc ? rc
           : chain.is_open
               ? client_fail(client, STATUS_NOT_FOUND,
                             "%.800s has fewer entries than the checkpoint",
                             url)
               : STATUS_OK;
}

enum status
source_tree_read(struct td_client *client, const char *set_url,
                 const char *epoch, struct source_tree *tree, uint64_t size,
                 struct tree_edge *at, int64_t until_ms)
{
    struct reading r = {.size = size, .until_ms = until_ms};
    struct source_tree other = {.edge.size = 0};
    char url[LIST_HREF_MAX + sizeof(FIRST_LIST)];
    enum status rc = STATUS_OK;

    if (tree->chain.last > size) /* an earlier checkpoint: all over again */
        tree = &other;
    while (!rc && tree->chain.last < size) {
        snprintf(url, sizeof(url), "%s%s",
                 tree->chain.epoch[0] ? tree->chain.next : set_url,
                 tree->chain.epoch[0] ? "" : FIRST_LIST);
        rc = read_list(client, url, tree, &r);
    }
    /* Earlier lists may be of epochs that it follows, perhaps all that have
     * entries: the latest list is of the present one. */
    if ((!rc || rc == STATUS_STOPPED || rc == STATUS_NOT_FOUND) && r.found[0] &&
        strcmp(r.found, epoch) != 0) {
        struct reading latest = {.size = size, .until_ms = until_ms};
        struct source_tree none = {.edge.size = 0};
        enum status found;

        snprintf(url, sizeof(url), "%s" LATEST_LIST, set_url);
        found = read_list(client, url, &none, &latest);
        if (!latest.found[0])
            return found ? found : STATUS_NOT_FOUND;
        if (strcmp(latest.found, epoch) != 0)
            return client_fail(client, STATUS_CONFLICT,
                               "the set has another epoch now");
    }
    *at = r.rc == STATUS_STOPPED ? r.edge : tree->edge;
    return r.rc == STATUS_STOPPED ? STATUS_OK : rc;
}
