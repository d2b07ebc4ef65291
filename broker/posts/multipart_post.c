#include "broker/posts/multipart_post.h"

#include "base/array.h"
#include "broker/bucket/vault.h"
#include "broker/sets/set_change.h"
#include "proto/http/multipart.h"

/* Reserved in one go. */
#define RESERVE_STEP 65536

/* An entry that describes a representation. The list owns its texts. */
struct multipart_entry {
    uint64_t entry; /* of all entries, from 1 */
    struct slice loc;
    struct slice hash; /* as sent; normalised */
    uint64_t length;   /* as sent, or LENGTH_NONE; then the true one */
    struct slice type; /* of the part; empty: no type, or no part */
    struct digest digest;
    uint64_t part;  /* that brought its bytes; 0: none */
    size_t n_parts; /* at the first of a loc: parts of that loc */
    struct arriving arriving;
};

/* The entries, which the parts find by their locs. */
struct multipart_entries {
    struct arena arena;
    struct multipart_entry *all; /* in the order of the entries */
    size_t n, capacity;
    struct multipart_entry **by_loc; /* when the root part has ended */
};

struct multipart_post {
    struct posts *posts;
    struct contents *contents;
    char name[SET_NAME_MAX + 1];
    struct set *set; /* NULL: made at the end */
    struct multipart_type type;
    struct multipart multipart;
    uint64_t size;
    bool has_room;                          /* on the disk, checked */
    uint64_t announced;                     /* bytes still to arrive */
    char traceparent[TRACEPARENT_SIZE + 1]; /* "": none */
    struct key key;
    struct authority *authority; /* a reference; or NULL */
    struct holding *holding;     /* lent */
    size_t held;                 /* bytes in it */
    struct holding disk;

    /* The root part */
    const struct format *format;
    struct ingest *ingest;
    struct buf root;
    bool is_root; /* still reading it */
    uint64_t n_entries;

    struct multipart_entries list;
    struct multipart_entry *at; /* the entry of the current part */

    struct content_pin *pin;
    size_t n_filled; /* entries in the ingest */
    struct buf hash; /* of the next entry */
};

/* The entries */

static int
compare_entries(const void *p, const void *q)
{
    const struct multipart_entry *a = *(struct multipart_entry *const *)p;
    const struct multipart_entry *b = *(struct multipart_entry *const *)q;
    int order = slice_compare(a->loc, b->loc);

    return order ? order : (a->entry > b->entry) - (a->entry < b->entry);
}

/* Returns the entry that the next part of that loc belongs to, or NULL. */
static struct multipart_entry *
take_entry(struct multipart_entries *list, struct slice loc)
{
    size_t from = FIRST_FALSE(i, 0, list->n,
                              slice_compare(list->by_loc[i]->loc, loc) < 0);
    size_t at;

    if (from == list->n || !slice_equal(list->by_loc[from]->loc, loc))
        return NULL;
    at = from + list->by_loc[from]->n_parts++;
    if (at >= list->n || !slice_equal(list->by_loc[at]->loc, loc))
        return NULL;
    return list->by_loc[at];
}

static enum status
reserve_memory(struct multipart_post *c, struct problem *why)
{
    size_t held =
        sizeof(*c) + c->root.size + c->list.arena.used +
        c->list.capacity * (sizeof(*c->list.all) + sizeof(*c->list.by_loc));

    return holding_cover(c->holding, &c->held, held, RESERVE_STEP, why);
}

/* Reports a failure of one entry: names its part and loc. */
static enum status
refuse_entry(const struct multipart_entry *e, enum status rc,
             const struct problem *reason, struct problem *why)
{
    if (rc != STATUS_INVALID) {
        if (why)
            *why = *reason;
        return rc;
    }
    if (e->part > 0)
        problem_set(why, "part %" PRIu64 ", the content of \"%s\": %s", e->part,
                    problem_quote(e->loc).text, reason->text);
    else
        problem_set(why, "the content of \"%s\": %s",
                    problem_quote(e->loc).text, reason->text);
    if (why)
        why->entry = e->entry;
    return rc;
}

/* The root part */

static enum status
begin_root(struct multipart_post *c, const struct multipart_part *part,
           struct problem *why)
{
    struct slice stated = slice_of(c->type.type);
    struct slice type = part->type.size > 0 ? part->type : stated;
    enum status rc;

    if (c->type.start[0] && !slice_is(part->id, c->type.start))
        return problem(why, STATUS_INVALID,
                       "part 1 has the changes: its Content-ID is not the "
                       "start \"%s\" of the Content-Type",
                       problem_quote(slice_of(c->type.start)).text);
    rc = ingest_begin(&c->ingest, c->posts, slice_of(c->name), type, 0, why);
    if (!rc)
        rc = ingest_count_in(c->ingest, c->holding, why);
    if (!rc && c->traceparent[0])
        ingest_set_traceparent(c->ingest, slice_of(c->traceparent));
    if (!rc)
        rc = ingest_set_key(c->ingest, &c->key, why);
    c->format = format_of(type);
    if (!rc && stated.size > 0 && format_of(stated) != c->format)
        rc = problem(why, STATUS_MALFORMED,
                     "part 1 is \"%s\", but the Content-Type of the request "
                     "gives it the type \"%s\"",
                     problem_quote(type).text, problem_quote(stated).text);
    c->is_root = true;
    return rc;
}

/* An entry of the root part. */
static enum status
on_entry(const struct change *change, void *user, struct problem *why)
{
    struct multipart_post *c = user;
    struct multipart_entries *list = &c->list;
    struct multipart_entry *e;

    c->n_entries++;
    if (change->kind != CHANGE_DELETED) {
        if (!ONE_MORE(list->all, &list->capacity, list->n))
            return problem_memory(why);
        e = &list->all[list->n];
        *e = (struct multipart_entry){.entry = c->n_entries,
                                      .length = change->length};
        if (!arena_copy(&list->arena, change->loc, &e->loc) ||
            !arena_copy(&list->arena, change->hash, &e->hash))
            return problem_memory(why);
        list->n++;
    }
    return reserve_memory(c, why);
}

/* The parts as they come */

static enum status
on_begin(const struct multipart_part *part, void *user, struct problem *why)
{
    struct multipart_post *c = user;
    struct problem reason = {""};
    struct multipart_entry *e;
    enum status rc;

    if (part->number == 1)
        return begin_root(c, part, why);
    if (part->location.size == 0)
        return problem(
            why, STATUS_INVALID,
            "part %" PRIu64
            " has no Content-Location, which names the loc of its entry",
            part->number);
    e = take_entry(&c->list, part->location);
    if (!e)
        return problem(why, STATUS_INVALID,
                       "part %" PRIu64
                       ": fewer created or updated entries have the loc \"%s\"",
                       part->number, problem_quote(part->location).text);
    if (part->type.size > 0 && !is_media_type(part->type))
        return problem(why, STATUS_INVALID,
                       "part %" PRIu64 ": Content-Type is no media type: "
                       "\"%s\"",
                       part->number, problem_quote(part->type).text);
    rc = arena_copy(&c->list.arena, part->type, &e->type)
             ? reserve_memory(c, why)
             : problem_memory(why);
    if (rc)
        return rc;
    e->part = part->number;
    c->at = e;
    rc = arriving_begin(&e->arriving, c->contents->arriving, e->hash, e->length,
                        &reason);
    return rc ? refuse_entry(e, rc, &reason, why) : STATUS_OK;
}

static enum status
on_add(struct slice bytes, void *user, struct problem *why)
{
    struct multipart_post *c = user;
    struct problem reason = {""};
    enum status rc;

    if (c->is_root) {
        uint64_t max = c->posts->registry->config->max_body;

        if (bytes.size > max - c->root.size)
            return problem(
                why, STATUS_TOO_LARGE,
                "the changes of a post have at most %" PRIu64 " bytes", max);
        buf_add_slice(&c->root, bytes);
        return c->root.failed ? problem_memory(why) : reserve_memory(c, why);
    }
    rc = arriving_add(&c->at->arriving, bytes, &reason);
    return rc ? refuse_entry(c->at, rc, &reason, why) : STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct multipart_post *c = user;
    struct multipart_entries *list = &c->list;
    struct problem reason = {""};
    enum status rc;

    if (c->is_root) {
        struct parser_pool *pool = &c->posts->parsers;
        struct input_reader *reader =
            parser_pool_take(pool, c->format, on_entry, c);

        c->is_root = false;
        rc = input_reader_feed(reader, buf_slice(&c->root), why);
        if (!rc)
            rc = input_reader_end(reader, why);
        parser_pool_give(pool, reader);
        if (rc || list->n == 0)
            return rc;
        list->by_loc = memory_new(list->n, sizeof(*list->by_loc));
        if (!list->by_loc)
            return problem_memory(why);
        for (size_t i = 0; i < list->n; i++)
            list->by_loc[i] = &list->all[i];
        qsort(list->by_loc, list->n, sizeof(*list->by_loc), compare_entries);
        return STATUS_OK;
    }
    rc = arriving_end(&c->at->arriving, &reason);
    if (rc)
        return refuse_entry(c->at, rc, &reason, why);
    c->at->digest = c->at->arriving.digest;
    c->at->length = c->at->arriving.length;
    return STATUS_OK;
}

/* The beginning */

static enum status
refuse_set(struct slice name, struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "the set \"%.*s\" takes no content: its setting "
                   "\"content\" is not \"inline\"",
                   SLICE_ARG(name));
}

enum status
multipart_post_begin(struct multipart_post **post, struct posts *posts,
                     const struct multipart_plan *plan, struct problem *why)
{
    struct registry *registry = posts->registry;
    uint64_t max = registry->config->max_content;
    struct multipart_type type;
    struct multipart_post *c;
    enum status rc = name_check("set", plan->set_name, why);

    if (!rc)
        rc = multipart_read_type(plan->content_type, &type, why);
    if (rc)
        return rc;
    if (registry_content(registry, plan->set_name) != CONTENT_INLINE)
        return refuse_set(plan->set_name, why);
    if (plan->size > max)
        return problem(why, STATUS_TOO_LARGE,
                       "a post with its content has at most %" PRIu64
                       " bytes (--max-content), not %" PRIu64,
                       max, plan->size);
    c = memory_new(1, sizeof(*c));
    c->posts = posts;
    c->holding = plan->holding;
    c->authority = authority_ref(plan->authority);
    c->key = *plan->key;
    if (plan->traceparent.size > 0)
        memcpy(c->traceparent, plan->traceparent.data, TRACEPARENT_SIZE);
    holding_init(&c->disk, &registry->clients, plan->holding->client,
                 CLIENT_DISK);
    c->contents = plan->contents;
    c->set = registry_find(registry, plan->set_name, NULL);
    memcpy(c->name, plan->set_name.data, plan->set_name.size);
    c->type = type;
    c->size = plan->size;
    multipart_init(&c->multipart, &c->type,
                   &(struct multipart_sink){on_begin, on_add, on_end, c});
    buf_init(&c->root, (size_t)registry->config->max_body);
    buf_init(&c->hash, SIZE_MAX);
    arena_init(&c->list.arena,
               (size_t)registry->config->ingest_bytes + FRAGMENT_MAX);
    rc = reserve_memory(c, why);
    if (rc)
        multipart_post_discard(c);
    else
        *post = c;
    return rc;
}

static void
count_arrived(struct multipart_post *c, uint64_t bytes)
{
    if (bytes > c->announced)
        bytes = c->announced;
    c->announced -= bytes;
    subtract_relaxed(&c->contents->announced, bytes);
}

enum status
multipart_post_feed(struct multipart_post *c, struct slice bytes,
                    struct problem *why)
{
    struct log_health health;
    enum status rc = STATUS_OK;

    log_health(c->posts->registry->log, &health);
    if (!health.has_room)
        return problem(why, STATUS_BUSY, "the disk is nearly full");
    if (!c->has_room) {
        /* Checks that the disk has room for the whole body, beside the other
         * posts. The log may take that room while the body arrives; the log
         * checks its own room once a second. */
        c->announced = c->size;
        add_relaxed(&c->contents->announced, c->size);
        rc = contents_hold(c->contents, &c->disk, c->size, c->size, why);
        c->has_room = !rc;
        if (rc)
            count_arrived(c, c->size);
    }
    if (rc)
        return rc;
    if (c->ingest)
        ingest_heard(c->ingest);
    rc = multipart_feed(&c->multipart, bytes, why);
    count_arrived(c, bytes.size);
    return rc;
}

/* The end */

static enum status
refuse_missing(const struct multipart_entry *e, struct problem *why)
{
    problem_set(why,
                "the content of \"%s\" is missing: no part has that "
                "Content-Location, and %s",
                problem_quote(e->loc).text,
                e->hash.size > 0 ? "the set has no bytes with this sha-256"
                                 : "no sha-256 of bytes that the set has");
    if (why)
        why->entry = e->entry;
    return STATUS_INVALID;
}

/* Pins content that the set has already, for an entry without a part. */
static enum status
find_content(struct multipart_post *c, struct multipart_entry *e,
             struct problem *why)
{
    uint64_t length = 0;
    enum status rc = STATUS_NOT_FOUND;

    if (hash_find_sha256(e->hash, &e->digest))
        rc = contents_find(c->pin, &e->digest, &length, why);
    if (!rc && e->length != LENGTH_NONE && e->length != length)
        rc = problem(why, STATUS_INVALID,
                     "the content of \"%s\": bytes with that sha-256 are "
                     "there, but they are %" PRIu64 ", not %" PRIu64,
                     problem_quote(e->loc).text, length, e->length);
    else if (rc == STATUS_NOT_FOUND)
        rc = refuse_missing(e, why);
    if (rc == STATUS_INVALID && why)
        why->entry = e->entry;
    e->length = length;
    return rc;
}

/* Finds missing content before it places any file. Makes the set, if needed: a
 * set begins with its first post, but content needs its directory before. By
 * then the post has passed all checks. */
static enum status
place_content(struct multipart_post *c, struct problem *why)
{
    struct registry *registry = c->posts->registry;
    struct slice name = slice_of(c->name);
    enum status rc = STATUS_OK;

    if (!c->set) {
        for (size_t i = 0; i < c->list.n; i++)
            if (c->list.all[i].part == 0)
                return refuse_missing(&c->list.all[i], why);
        rc = set_change_make(registry, name, c->holding->client, &c->set, why);
        /* Another thread may have been first. */
        if (!rc && registry_content(registry, name) != CONTENT_INLINE)
            rc = refuse_set(name, why);
    }
    if (!rc)
        rc = contents_pin(c->contents, c->set, &c->pin, why);
    for (size_t i = 0; !rc && i < c->list.n; i++)
        if (c->list.all[i].part == 0)
            rc = find_content(c, &c->list.all[i], why);
    for (size_t i = 0; !rc && i < c->list.n; i++)
        if (c->list.all[i].part > 0)
            rc = contents_place(c->pin, &c->list.all[i].arriving, why);
    return rc ? rc : contents_sync(c->pin, why);
}

/* Completes an entry on its way into the ingest. */
static enum status
fill_entry(struct change *change, void *user, struct problem *why)
{
    struct multipart_post *c = user;
    const struct multipart_entry *e;
    struct digest stated;

    if (change->kind == CHANGE_DELETED)
        return STATUS_OK;
    e = &c->list.all[c->n_filled++];
    if (!hash_find_sha256(change->hash, &stated)) {
        buf_clear(&c->hash);
        buf_add_slice(&c->hash, change->hash);
        if (change->hash.size > 0)
            BUF_ADD(&c->hash, " ");
        buf_add_text(&c->hash, digest_text(&e->digest).text);
        if (c->hash.failed)
            return problem_memory(why);
        change->hash = buf_slice(&c->hash);
    }
    change->length = e->length;
    if (change->type.size == 0)
        change->type = e->type;
    return STATUS_OK;
}

enum status
multipart_post_end(struct multipart_post *c, struct problem *why)
{
    enum status rc = multipart_end(&c->multipart, why);

    if (!rc)
        rc = authority_check(c->authority, clock_now_us(), why);
    if (!rc && c->list.n > 0)
        rc = place_content(c, why);
    if (rc)
        return rc;
    ingest_set_authority(c->ingest, authority_ref(c->authority));
    c->ingest->fill = fill_entry;
    c->ingest->fill_user = c;
    if (c->pin)
        ingest_hold(c->ingest, c->set, c->pin, contents_end);
    c->pin = NULL;
    rc = ingest_feed(c->ingest, buf_slice(&c->root), why);
    if (!rc)
        rc = ingest_read_end(c->ingest, why);
    /* A thread of its own waits for the bucket, if content goes there. */
    return rc || vault_keeps_content() ? rc : ingest_carry(c->ingest, why);
}

struct ingest *
multipart_post_ingest(const struct multipart_post *c)
{
    return c->ingest;
}

void
multipart_post_give_back(struct multipart_post *c)
{
    if (c->ingest)
        ingest_give_back(c->ingest);
    holding_release(c->holding, c->held);
    c->held = 0;
    holding_end(&c->disk);
}

void
multipart_post_discard(struct multipart_post *c)
{
    if (!c)
        return;
    count_arrived(c, c->size);
    for (size_t i = 0; i < c->list.n; i++)
        arriving_abandon(&c->list.all[i].arriving);
    arena_fini(&c->list.arena);
    free(c->list.by_loc);
    free(c->list.all);
    ingest_free(c->ingest);
    authority_unref(c->authority);
    c->ingest = NULL;
    contents_end(c->pin, 0);
    multipart_fini(&c->multipart);
    multipart_post_give_back(c);
    buf_fini(&c->root);
    buf_fini(&c->hash);
    free(c);
}
