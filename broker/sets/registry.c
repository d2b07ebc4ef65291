#include "broker/sets/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sets/header.h"
#include "proto/vocab.h"

/* Pages of change memory held for clients that read slowly: a hundred or so of
 * the largest. Who comes then is asked to come again. */
#define ANSWERS_BYTES ((size_t)128 << 20)

/* Readers kept, of all formats: more posts than this are seldom read at once.
 */
#define READERS_KEPT 64

struct kept_reader {
    const struct format *format;
    struct reader *reader;
};

struct registry {
    struct registry_options options;
    struct log *log;

    /* Guards the table. Searched by every request, changed by a new set only.
     */
    pthread_rwlock_t lock;
    struct set **sets; /* ordered by name */
    size_t n_sets, capacity;

    pthread_mutex_t readers_mutex;
    struct kept_reader readers[READERS_KEPT];
    size_t n_readers;

    struct running running;

    /* Relaxed: sums; they order nothing. */
    atomic_size_t reserved[BUDGETS];
    size_t limits[BUDGETS];
};

/* Where `name` stands, or belongs: the first set that is not before it. */
static size_t
place_of(const struct registry *r, struct slice name)
{
    size_t low = 0, high = r->n_sets;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *other = r->sets[middle]->name;
        size_t size = strlen(other);
        int order =
            memcmp(other, name.data, size < name.size ? size : name.size);

        if (order < 0 || (order == 0 && size < name.size))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct set *
set_at(const struct registry *r, size_t place, struct slice name)
{
    if (place < r->n_sets && slice_is(name, r->sets[place]->name))
        return r->sets[place];
    return NULL;
}

/* Adds a set at its place; the lock is held for writing, or nobody else is
 * there yet. */
static struct set *
insert(struct registry *r, size_t place, struct log_set *log)
{
    struct set *set = calloc(1, sizeof(*set));

    if (set && r->n_sets == r->capacity) {
        size_t n = r->capacity ? r->capacity * 2 : 64;
        struct set **sets = realloc(r->sets, n * sizeof(*sets));

        if (!sets) {
            free(set);
            return NULL;
        }
        r->sets = sets;
        r->capacity = n;
    }
    if (!set)
        return NULL;
    set->registry = r;
    set->log = log;
    if (log)
        set->name = log_set_name(log);
    memmove(&r->sets[place + 1], &r->sets[place],
            (r->n_sets - place) * sizeof(*r->sets));
    r->sets[place] = set;
    r->n_sets++;
    return set;
}

static void *
on_set(struct log_set *log, void *user)
{
    struct registry *r = user;

    return insert(r, place_of(r, slice_of(log_set_name(log))), log);
}

static void
on_header(struct log_set *set, const char *epoch, const struct list_info *info,
          struct buf *header, void *user)
{
    struct registry *r = user;

    header_write(header, r->options.public_url, log_set_name(set), epoch, info);
}

static void
on_closed(void *user)
{
    struct registry *r = user;

    if (r->options.on_closed)
        r->options.on_closed(r->options.user);
}

enum status
registry_open(struct registry **registry,
              const struct registry_options *options, struct problem *why)
{
    const struct config *config = options->config;
    struct registry *r = calloc(1, sizeof(*r));
    struct log_options log_options = {
        .dir = config->data,
        .limits = {config->rotate_entries, config->rotate_bytes},
        .tail_bytes = config->tail_bytes,
        .linger_us = config->linger_us,
        .on_set = on_set,
        .on_header = on_header,
        .on_closed = on_closed,
        .user = r,
    };
    enum status rc;

    if (!r)
        return problem(why, STATUS_MEMORY, "no memory for the sets");
    r->options = *options;
    pthread_rwlock_init(&r->lock, NULL);
    pthread_mutex_init(&r->readers_mutex, NULL);
    running_init(&r->running);
    r->limits[BUDGET_POSTS] = (size_t)config->ingest_bytes;
    r->limits[BUDGET_ANSWERS] = ANSWERS_BYTES;
    for (int i = 0; i < BUDGETS; i++)
        atomic_init(&r->reserved[i], 0);
    rc = log_open(&r->log, &log_options, why);
    if (rc) {
        registry_close(r);
        return rc;
    }
    *registry = r;
    return STATUS_OK;
}

void
registry_stop(struct registry *r)
{
    log_stop(r->log);
}

void
registry_close(struct registry *r)
{
    if (!r)
        return;
    log_close(r->log);
    for (size_t i = 0; i < r->n_sets; i++)
        free(r->sets[i]);
    for (size_t i = 0; i < r->n_readers; i++)
        reader_free(r->readers[i].reader);
    free(r->sets);
    pthread_mutex_destroy(&r->readers_mutex);
    running_fini(&r->running);
    pthread_rwlock_destroy(&r->lock);
    free(r);
}

struct log *
registry_log(struct registry *r)
{
    return r->log;
}

const struct config *
registry_config(const struct registry *r)
{
    return r->options.config;
}

const char *
registry_public_url(const struct registry *r)
{
    return r->options.public_url;
}

struct running *
registry_running(struct registry *r)
{
    return &r->running;
}

struct link_text
registry_described_by(const struct set *set)
{
    struct link_text link = {.size = 0};

    (void)set; /* sets have no settings of their own yet */
    return link;
}

struct set *
registry_find(struct registry *r, struct slice name, struct head *head)
{
    struct head unwanted;
    struct set *set;

    pthread_rwlock_rdlock(&r->lock);
    set = set_at(r, place_of(r, name), name);
    pthread_rwlock_unlock(&r->lock);
    if (set && log_head(set->log, head ? head : &unwanted))
        return set;
    return NULL;
}

struct set *
registry_make(struct registry *r, struct slice name)
{
    char text[SET_NAME_MAX + 1] = "";
    struct set *set;
    size_t place;

    if (name.size > SET_NAME_MAX)
        return NULL;
    memcpy(text, name.data, name.size);
    pthread_rwlock_wrlock(&r->lock);
    place = place_of(r, name);
    set = set_at(r, place, name);
    if (!set && r->n_sets < SETS_MAX) {
        struct log_set *log = log_set_new(r->log, text, NULL);

        if (log)
            set = insert(r, place, log);
    }
    pthread_rwlock_unlock(&r->lock);
    return set;
}

void
registry_each(struct registry *r,
              bool (*fn)(struct set *set, const struct head *head, void *user),
              void *user)
{
    size_t n;
    struct set **sets;

    pthread_rwlock_rdlock(&r->lock);
    n = r->n_sets;
    sets = malloc((n ? n : 1) * sizeof(*sets));
    if (sets && n > 0)
        memcpy(sets, r->sets, n * sizeof(*sets));
    pthread_rwlock_unlock(&r->lock);
    for (size_t i = 0; sets && i < n; i++) {
        struct head head;

        if (log_head(sets[i]->log, &head) && !fn(sets[i], &head, user))
            break;
    }
    free(sets);
}

struct reader *
registry_take_reader(struct registry *r, const struct format *format,
                     change_fn *on_change, void *user)
{
    struct reader *reader = NULL;

    pthread_mutex_lock(&r->readers_mutex);
    for (size_t i = r->n_readers; i-- > 0 && !reader;) {
        if (r->readers[i].format != format)
            continue;
        reader = r->readers[i].reader;
        r->readers[i] = r->readers[--r->n_readers];
    }
    pthread_mutex_unlock(&r->readers_mutex);
    if (!reader)
        return reader_new(format, READER_POST, format_entries_max(format),
                          on_change, user);
    reader_reset(reader, on_change, user);
    return reader;
}

void
registry_give_reader(struct registry *r, const struct format *format,
                     struct reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&r->readers_mutex);
    if (r->n_readers < READERS_KEPT) {
        r->readers[r->n_readers++] = (struct kept_reader){format, reader};
        reader = NULL;
    }
    pthread_mutex_unlock(&r->readers_mutex);
    reader_free(reader);
}

bool
registry_reserve(struct registry *r, enum budget budget, size_t bytes)
{
    size_t sum = atomic_fetch_add_explicit(&r->reserved[budget], bytes,
                                           memory_order_relaxed);

    if (sum + bytes <= r->limits[budget])
        return true;
    registry_release(r, budget, bytes);
    return false;
}

void
registry_release(struct registry *r, enum budget budget, size_t bytes)
{
    atomic_fetch_sub_explicit(&r->reserved[budget], bytes,
                              memory_order_relaxed);
}
