#include "broker/posts/content_check.h"

#include "broker/posts/ingest.h"

/* Looks for the content of an entry. `pin` NULL: the set has nothing. */
static enum status
look_for(struct content_pin *pin, struct slice set_name,
         const struct digest *digest, struct slice loc, uint64_t entry,
         struct problem *why)
{
    uint64_t length;
    enum status rc =
        pin ? contents_find(pin, digest, &length, why) : STATUS_NOT_FOUND;

    if (rc != STATUS_NOT_FOUND)
        return rc;
    problem_set(
        why,
        "the set \"%.*s\" keeps content inline, and has no bytes with the %s "
        "of \"%s\": post them with a change, as multipart/related",
        SLICE_ARG(set_name), digest_text(digest).text, problem_quote(loc).text);
    if (why)
        why->entry = entry;
    return STATUS_INVALID;
}

/* Posts */

static enum status
check_post(struct content_check *c, struct ingest *ingest, struct problem *why)
{
    struct slice name = ingest->set_name;
    struct set *set = registry_find(c->posts->registry, name, NULL);
    struct content_pin *pin = NULL;
    const struct ingest_content *all = (const void *)ingest->contents.data;
    size_t n = ingest->contents.size / sizeof(*all);
    enum status rc = STATUS_OK;

    if (ingest->pin)
        return ingest_carry(ingest, why); /* it came with its content */
    if (n > 0 && set)
        rc = contents_pin(c->contents, set, &pin, why);
    if (rc && rc != STATUS_GONE)
        return rc;
    if (pin)
        ingest_hold(ingest, set, pin, contents_end);
    rc = STATUS_OK;
    for (size_t i = 0; !rc && i < n; i++)
        rc = look_for(pin, name, &all[i].digest,
                      fragment_loc(slice_from(buf_slice(&ingest->post.bytes),
                                              all[i].loc)),
                      all[i].entry, why);
    if (!rc && pin)
        rc = contents_sync(pin, why);
    return rc ? rc : ingest_carry(ingest, why);
}

/* Answers the waiting posts; they share a commit. */
static bool
answer_some(struct content_check *c)
{
    struct list list;
    struct ingest *ingest;
    bool is_any;

    list_init(&list);
    pthread_mutex_lock(&c->mutex);
    list_move(&list, &c->list);
    pthread_mutex_unlock(&c->mutex);
    is_any = !list_is_empty(&list);
    list_drain (ingest, &list, node) {
        struct problem why = {""};
        enum status rc = check_post(c, ingest, &why);

        ingest_check_end(ingest, rc, &why);
    }
    log_wake(c->posts->registry->log);
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
        list_append(&c->list, &ingest->node);
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
    posts->check = take_post;
    posts->check_user = c;
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

enum status
content_check_resources(struct registry *registry, struct contents *contents,
                        const struct content_block *block,
                        struct content_pin **pin, struct problem *why)
{
    const struct block *resources = block->resources;
    struct set *set = registry_find(registry, block->set_name, NULL);
    enum status rc = STATUS_OK;

    if (resources->n > 0 && !*pin && set)
        rc = contents_pin(contents, set, pin, why);
    if (rc && rc != STATUS_GONE)
        return rc;
    rc = STATUS_OK;
    for (size_t i = 0; !rc && i < resources->n; i++) {
        const struct staged_row *row = &resources->rows[i];
        struct slice rest = {resources->bytes.data + row->offset, row->size};

        rc = look_for(*pin, block->set_name, &block->digests[i],
                      fragment_loc(rest), block->first + i, why);
    }
    return rc;
}
