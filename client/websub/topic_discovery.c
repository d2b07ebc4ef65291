#include "client/websub/topic_discovery.h"

#include "client/lib/fetch.h"
#include "proto/http/websub.h"
#include "proto/input/page_links.h"
#include "proto/uri.h"

#define REDIRECTS_MAX 10

/* Of a whole discovery: a server that answers in trickles counts as away. */
#define PATIENCE_MS 60000

struct topic_search {
    struct fetch *fetch;
    struct timer late;
    topic_end_fn *on_end;
    void *user;

    struct topic topic;
    bool is_over;    /* hubs and self are final, from headers or body */
    bool has_looked; /* at the headers */
    bool has_hubs;   /* the headers name hubs: the body's do not count */
    bool is_memory;  /* no memory */
    char *url;       /* of the answer, after redirects */
    char *type;
    struct buf body;
};

/* Copies a usable URL; NULL: it is not one, or there is no memory. */
static char *
is_usable(struct topic_search *search, struct slice url)
{
    char *copy;

    if (websub_check_url(url, "link", NULL))
        return NULL;
    copy = slice_dup(url);
    search->is_memory = search->is_memory || !copy;
    return copy;
}

static bool
is_https(const char *url)
{
    return !strncasecmp(url, "https:", 6);
}

/* Appends a hub; one over https goes before the others. */
static void
on_link(const struct pagelink *link, void *user)
{
    struct topic_search *search = user;
    struct topic *t = &search->topic;
    size_t at = t->n_hubs;
    char *hub;

    if (!t->self && slice_has_word(link->rel, "self"))
        t->self = is_usable(search, link->href);
    if (search->has_hubs || !slice_has_word(link->rel, "hub") ||
        t->n_hubs == TOPIC_HUBS_MAX)
        return;
    for (size_t i = 0; i < t->n_hubs; i++)
        if (slice_is(link->href, t->hubs[i]))
            return;
    hub = is_usable(search, link->href);
    if (!hub)
        return;
    for (; is_https(hub) && at > 0 && !is_https(t->hubs[at - 1]); at--)
        t->hubs[at] = t->hubs[at - 1];
    t->hubs[at] = hub;
    t->n_hubs++;
}

/* Reads the headers of the answer. */
static void
look_at_answer(struct topic_search *search, const struct fetch_answer *answer)
{
    if (search->has_looked)
        return;
    search->has_looked = true;
    search->url = strdup(answer->url);
    search->type = strdup(answer->type);
    search->is_memory |= !search->url || !search->type;
    if (search->is_memory || answer->status / 100 != 2)
        return;
    search->is_memory |= !pagelinks_of_header(
        slice_of(answer->link), slice_of(answer->url), on_link, search);
    search->has_hubs = search->topic.n_hubs > 0;
    search->is_over = search->has_hubs && search->topic.self;
}

static bool
on_body(const struct fetch_answer *answer, struct slice bytes, void *user)
{
    struct topic_search *search = user;

    look_at_answer(search, answer);
    if (search->is_over || search->is_memory)
        return false;
    if (bytes.size > TOPIC_BYTES_MAX - search->body.size)
        bytes.size = TOPIC_BYTES_MAX - search->body.size;
    buf_add_slice(&search->body, bytes);
    return !search->body.failed && search->body.size < TOPIC_BYTES_MAX;
}

/* Sets the result, after all of the answer has come. */
static enum status
judge_links(struct topic_search *search, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (!search->is_over && !search->is_memory)
        rc = pagelinks_read(buf_slice(&search->body), slice_of(search->type),
                            slice_of(search->url), on_link, search, why);
    if (search->is_memory || search->body.failed || rc == STATUS_MEMORY)
        return problem_memory(why);
    if (rc && search->topic.n_hubs == 0)
        return problem_prefix(why, STATUS_REFUSED,
                              "%s: no hub in its headers, and its body cannot "
                              "be searched: ",
                              search->url);
    if (search->topic.n_hubs == 0)
        return problem(why, STATUS_REFUSED, "%s names no hub", search->url);
    if (rc || !search->topic.self)
        return problem(why, STATUS_REFUSED,
                       "%s names a hub, but not itself (rel=self)",
                       search->url);
    return STATUS_OK;
}

static void
on_end(struct fetch_answer *answer, const struct problem *end, void *user)
{
    struct topic_search *search = user;
    struct problem why = *end;

    bool is_answered =
        !why.rc || why.rc == STATUS_STOPPED; /* by on_body: enough */

    search->fetch = NULL;
    if (!why.rc)
        look_at_answer(search, answer);
    if (is_answered && why.http_status / 100 != 2) {
        problem(&why, fetch_meaning(why.http_status), "%s: status %u",
                answer->url, why.http_status);
    } else if (is_answered) {
        problem_clear(&why);
        judge_links(search, &why);
    }
    search->on_end(&why, &search->topic, search->user);
    topic_search_free(search);
}

static void
on_late(void *user)
{
    struct topic_search *search = user;
    struct problem why = {""};

    problem(&why, STATUS_UNREACHABLE,
            "the topic's page does not come to an "
            "end");
    search->on_end(&why, &search->topic, search->user);
    topic_search_free(search);
}

struct topic_search *
topic_find(struct td_client *client, const char *url, topic_end_fn *on_found,
           void *user)
{
    const char *const headers[] = {
        "Accept: text/html, application/xml;q=0.9, */*;q=0.8", NULL};
    const struct fetch_request request = {
        .url = url,
        .headers = headers,
        .redirects = REDIRECTS_MAX,
        .skips_refusals = true,
        .takes_gzip = true,
        .silence_s = 60,
    };
    struct topic_search *search = calloc(1, sizeof(*search));

    if (!search)
        return NULL;
    search->on_end = on_found;
    search->user = user;
    buf_init(&search->body, TOPIC_BYTES_MAX);
    timer_init(&search->late, client->loop, on_late, search);
    search->fetch = fetch_start(client, &request, on_body, on_end, search);
    if (!search->fetch) {
        topic_search_free(search);
        return NULL;
    }
    timer_start(&search->late, PATIENCE_MS);
    return search;
}

void
topic_search_free(struct topic_search *search)
{
    if (!search)
        return;
    fetch_free(search->fetch);
    timer_stop(&search->late);
    free(search->topic.self);
    for (size_t i = 0; i < search->topic.n_hubs; i++)
        free(search->topic.hubs[i]);
    buf_fini(&search->body);
    free(search->url);
    free(search->type);
    free(search);
}
