#include "broker/archive/claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/archive/contents.h"
#include "proto/memory.h"

struct claimed {
    struct map_node node;
    const struct set *set;
    struct digest digest;
    unsigned n;
    bool is_new; /* placed; the name may not be durable yet */
};

void
claims_init(struct claims *c)
{
    memset(c, 0, sizeof(*c));
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    list_init(&c->all);
}

void
claims_fini(struct claims *c)
{
    struct list *next;
    struct content_claim *claim;

    list_each (claim, next, &c->all, node) {
        list_remove(&claim->node);
        claims_drop(claim);
    }
    map_fini(&c->files);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
}

/* Files; the mutex is held. */

/* A digest is spread as evenly as a hash, and a client that wanted to choose
 * its bits would have to find bytes that have them. */
static uint64_t
hash_of(const struct digest *digest)
{
    uint64_t hash;

    memcpy(&hash, digest->bytes, sizeof(hash));
    return hash;
}

/* NULL: nobody claims the file. */
static struct claimed *
find_file(const struct claims *c, const struct set *set,
          const struct digest *digest)
{
    struct claimed *file;

    map_each_same (file, &c->files, hash_of(digest), node) {
        if (file->set == set && !memcmp(&file->digest, digest, sizeof(*digest)))
            return file;
    }
    return NULL;
}

static bool
is_going(const struct claims *c, const struct set *set,
         const struct digest *digest)
{
    return c->going_set == set && !memcmp(&c->going, digest, sizeof(*digest));
}

/* Adds a claim to that file. */
static struct claimed *
take_claim(struct claims *c, const struct set *set, const struct digest *digest)
{
    struct claimed *file;

    while (is_going(c, set, digest))
        pthread_cond_wait(&c->changed, &c->mutex);
    file = find_file(c, set, digest);
    if (!file) {
        file = memory_new(1, sizeof(*file));
        file->set = set;
        file->digest = *digest;
        map_add(&c->files, &file->node, hash_of(digest));
    }
    file->n++;
    return file;
}

static void
give_back(struct claims *c, struct claimed *file)
{
    if (--file->n > 0)
        return;
    map_remove(&c->files, &file->node);
    free(file);
}

/* Claims */

enum status
claims_begin(struct claims *c, struct set *set, struct content_claim **claim,
             struct problem *why)
{
    struct content_claim *made = memory_new(1, sizeof(*made));
    struct head head;
    enum status rc = STATUS_OK;

    made->claims = c;
    made->set = set;
    pthread_mutex_lock(&c->mutex);
    while (c->is_shut)
        pthread_cond_wait(&c->changed, &c->mutex);
    /* Under the mutex: a thread that clears folders of removed sets from now on
     * sees the claim. */
    if (log_head(set->log, &head))
        list_append(&c->all, &made->node);
    else
        rc = problem(why, STATUS_GONE, "there is no set %s", set->name);
    pthread_mutex_unlock(&c->mutex);
    if (rc) {
        free(made);
        return rc;
    }
    *claim = made;
    return STATUS_OK;
}

/* Adds a file to the claim; its release frees it. */
static enum status
add_digest(struct content_claim *claim, const struct digest *digest,
           bool is_new, struct problem *why)
{
    struct claims *c = claim->claims;
    struct claimed *file;

    if (!ONE_MORE(claim->files, &claim->capacity, claim->n_files))
        return problem_memory(why);
    pthread_mutex_lock(&c->mutex);
    file = take_claim(c, claim->set, digest);
    file->is_new |= is_new;
    pthread_mutex_unlock(&c->mutex);
    claim->files[claim->n_files++] = file;
    return STATUS_OK;
}

enum status
contents_place(struct content_claim *claim, struct arriving *arriving,
               struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc = add_digest(claim, &arriving->digest, true, why);

    content_touch(&claim->touched, &arriving->digest);
    set_dir(claim->set, dir);
    if (!rc)
        rc = content_file_place(dir, arriving, why);
    return rc;
}

/* Makes this claim sync the name, too: the claim that placed the file may not
 * have done so yet, or have failed. */
static void
touch_if_new(struct content_claim *claim, const struct claimed *file)
{
    pthread_mutex_lock(&claim->claims->mutex);
    if (file->is_new)
        content_touch(&claim->touched, &file->digest);
    pthread_mutex_unlock(&claim->claims->mutex);
}

enum status
contents_find(struct content_claim *claim, const struct digest *digest,
              uint64_t *length, struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc = add_digest(claim, digest, false, why);

    set_dir(claim->set, dir);
    if (!rc)
        rc = content_file_look(dir, digest, length, why);
    if (!rc)
        touch_if_new(claim, claim->files[claim->n_files - 1]);
    return rc;
}

/* A file that a claim places again meanwhile already had that name on the
 * disk. */
enum status
contents_sync(struct content_claim *claim, struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc;

    set_dir(claim->set, dir);
    rc = content_files_sync(dir, &claim->touched, why);
    if (rc)
        return rc;
    pthread_mutex_lock(&claim->claims->mutex);
    for (size_t i = 0; i < claim->n_files; i++)
        claim->files[i]->is_new = false;
    pthread_mutex_unlock(&claim->claims->mutex);
    return STATUS_OK;
}

void
contents_end(struct content_claim *claim, uint64_t last)
{
    if (!claim)
        return;
    pthread_mutex_lock(&claim->claims->mutex);
    claim->has_ended = true;
    claim->last = last;
    pthread_mutex_unlock(&claim->claims->mutex);
}

/* Archive thread */

struct content_claim *
claims_ended(struct claims *c,
             bool (*may_end)(const struct content_claim *claim))
{
    struct content_claim *found = NULL;
    struct list *next;
    struct content_claim *claim;

    pthread_mutex_lock(&c->mutex);
    list_each (claim, next, &c->all, node) {
        if (claim->has_ended && may_end(claim)) {
            list_remove(&claim->node);
            found = claim;
            break;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void
claims_keep(struct content_claim *claim)
{
    struct claims *c = claim->claims;

    pthread_mutex_lock(&c->mutex);
    list_append(&c->all, &claim->node);
    pthread_mutex_unlock(&c->mutex);
}

bool
claims_release(struct content_claim *claim, struct digest *digest)
{
    struct claims *c = claim->claims;

    if (claim->n_files == 0) {
        free(claim->files);
        free(claim);
        return false;
    }
    *digest = claim->files[--claim->n_files]->digest;
    pthread_mutex_lock(&c->mutex);
    give_back(c, claim->files[claim->n_files]);
    pthread_mutex_unlock(&c->mutex);
    return true;
}

void
claims_drop(struct content_claim *claim)
{
    struct digest digest;

    while (claims_release(claim, &digest))
        ;
}

bool
claims_go(struct claims *c, const struct set *set, const struct digest *digest)
{
    bool is_free;

    pthread_mutex_lock(&c->mutex);
    is_free = !find_file(c, set, digest);
    if (is_free) {
        c->going_set = set;
        c->going = *digest;
    }
    pthread_mutex_unlock(&c->mutex);
    return is_free;
}

void
claims_gone(struct claims *c)
{
    pthread_mutex_lock(&c->mutex);
    c->going_set = NULL;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

bool
claims_shut(struct claims *c, const struct set *set)
{
    struct list *next;
    struct content_claim *claim;
    bool is_free = true;

    pthread_mutex_lock(&c->mutex);
    list_each (claim, next, &c->all, node)
        if (claim->set == set)
            is_free = false;
    c->is_shut = is_free;
    pthread_mutex_unlock(&c->mutex);
    return is_free;
}

void
claims_unshut(struct claims *c)
{
    pthread_mutex_lock(&c->mutex);
    c->is_shut = false;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}
