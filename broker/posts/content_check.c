#include "broker/posts/content_check.h"

#include "broker/posts/ingest.h"

static enum status
refuse_content(struct slice set_name, const struct digest *digest,
               struct slice loc, uint64_t entry, struct problem *why)
{
    char text[DIGEST_TEXT_SIZE];

    digest_write(text, digest);
    problem_set(
        why,
        "the set \"%.*s\" keeps content inline, and has no bytes with the %.*s "
        "of \"%s\": post them with a change, as multipart/related",
        SLICE_ARG(set_name), DIGEST_TEXT_SIZE, text, problem_quote(loc).text);
    if (why)
        why->entry = entry;
    return STATUS_INVALID;
}

/* Posts */

static enum status
refuse_post(const struct ingest *ingest, const struct ingest_told *told,
            struct problem *why)
{
    return refuse_content(ingest_set_name(ingest), &told->digest,
                          ingest_told_loc(ingest, told), told->entry, why);
}

static enum status
check_post(struct content_check *c, struct ingest *ingest, struct problem *why)
{
    size_t n;
    const struct ingest_told *told = ingest_told(ingest, &n);
    struct set *set =
        registry_find(c->posts->registry, ingest_set_name(ingest), NULL);
    struct content_pin *pin = NULL;
    enum status rc = STATUS_OK;

    if (n == 0)
        return STATUS_OK;
    if (!set) /* it has nothing */
        return refuse_post(ingest, told, why);
    rc = contents_pin(c->contents, set, &pin, why);
    if (rc == STATUS_GONE)
        return refuse_post(ingest, told, why);
    if (rc)
        return rc;
    ingest_hold(ingest, set, pin, contents_end);
    for (size_t i = 0; !rc && i < n; i++) {
        uint64_t length;

        rc = contents_find(pin, &told[i].digest, &length, why);
        if (rc == STATUS_NOT_FOUND)
            rc = refuse_post(ingest, &told[i], why);
    }
    return rc ? rc : contents_sync(pin, why);
}

/* Answers the waiting posts; they share a commit. */
static bool
answer_some(struct content_check *c)
{
    struct list list, *node;
    bool is_any;

    list_init(&list);
    pthread_mutex_lock(&c->mutex);
    list_move(&list, &c->list);
    pthread_mutex_unlock(&c->mutex);
    is_any = !list_is_empty(&list);
    while ((node = list_take(&list, 0))) {
        struct problem why = {""};
        enum status rc = check_post(c, ingest_of(node), &why);

        ingest_check_end(ingest_of(node), rc, &why);
    }
    log_wake(registry_log(c->posts->registry));
    return is_any;
}

static void
run_checks(struct thread *t)
{
    while (thread_wait(t, -1))
        while (answer_some(t->user))
            ;
}

/* Any thread. */
static enum status
take_post(struct ingest *ingest, void *user, struct problem *why)
{
    struct content_check *c = user;
    bool is_ending;

    pthread_mutex_lock(&c->mutex);
    is_ending = c->is_ending;
    if (!is_ending) {
        list_append(&c->list, ingest_node(ingest));
        thread_wake(&c->thread);
    }
    pthread_mutex_unlock(&c->mutex);
    return is_ending ? problem(why, STATUS_STOPPED, "the broker is ending")
                     : STATUS_OK;
}

enum status
content_check_init(struct content_check *c, struct posts *posts,
                   struct contents *contents, struct problem *why)
{
    c->posts = posts;
    c->contents = contents;
    list_init(&c->list);
    pthread_mutex_init(&c->mutex, NULL);
    if (thread_start(&c->thread, "checking", run_checks, c, why)) {
        pthread_mutex_destroy(&c->mutex);
        c->posts = NULL;
        return STATUS_IO;
    }
    posts_set_checker(posts, take_post, c);
    return STATUS_OK;
}

void
content_check_stop(struct content_check *c)
{
    if (!c->posts)
        return;
    pthread_mutex_lock(&c->mutex);
    c->is_ending = true;
    pthread_mutex_unlock(&c->mutex);
    thread_stop(&c->thread);
    while (answer_some(c))
        ;
}

void
content_check_fini(struct content_check *c)
{
    content_check_stop(c);
    if (c->posts)
        pthread_mutex_destroy(&c->mutex);
    c->posts = NULL;
}

/* Resources */

enum status
content_check_digest(struct slice set_name, const struct change *change,
                     struct digest *digest, struct problem *why)
{
    if (hash_find_sha256(change->hash, digest))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "the set \"%.*s\" keeps content inline: give the sha-256 of "
                   "\"%s\" if the set has the bytes, or post them with a "
                   "change, as multipart/related",
                   SLICE_ARG(set_name), problem_quote(change->loc).text);
}

static struct slice
loc_of(const struct block *block, size_t i)
{
    struct slice rest = {block->bytes.data + block->rows[i].offset,
                         block->rows[i].size};

    return fragment_loc(rest);
}

enum status
content_check_resources(struct registry *registry, struct contents *contents,
                        const struct content_block *block,
                        struct content_pin **pin, struct problem *why)
{
    const struct block *resources = block->resources;
    struct set *set = registry_find(registry, block->set_name, NULL);
    enum status rc = STATUS_OK;

    if (resources->n == 0)
        return STATUS_OK;
    if (!*pin)
        rc = set ? contents_pin(contents, set, pin, why) : STATUS_GONE;
    if (rc == STATUS_GONE)
        return refuse_content(block->set_name, block->digests,
                              loc_of(resources, 0), block->first, why);
    for (size_t i = 0; !rc && i < resources->n; i++) {
        uint64_t length;

        rc = contents_find(*pin, &block->digests[i], &length, why);
        if (rc == STATUS_NOT_FOUND)
            rc = refuse_content(block->set_name, &block->digests[i],
                                loc_of(resources, i), block->first + i, why);
    }
    return rc;
}
