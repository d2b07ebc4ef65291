#include "broker/archive/content_pins.h"

#include "base/array.h"
#include "broker/archive/contents.h"

struct pinned {
    struct map_node node;
    const struct set *set;
    struct digest digest;
    unsigned n;
    bool is_new; /* placed; the name may not be durable yet */
};

void
content_pins_init(struct content_pins *c)
{
    memset(c, 0, sizeof(*c));
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    list_init(&c->all);
}

void
content_pins_fini(struct content_pins *c)
{
    struct list *next;
    struct content_pin *pin;

    list_each (pin, next, &c->all, node) {
        list_remove(&pin->node);
        content_pins_drop(pin);
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

/* NULL: nobody pins the file. */
static struct pinned *
find_file(const struct content_pins *c, const struct set *set,
          const struct digest *digest)
{
    struct pinned *file;

    map_each_same (file, &c->files, hash_of(digest), node) {
        if (file->set == set && !memcmp(&file->digest, digest, sizeof(*digest)))
            return file;
    }
    return NULL;
}

/* Adds a pin to that file. */
static struct pinned *
take_pin(struct content_pins *c, const struct set *set,
         const struct digest *digest)
{
    struct pinned *file;

    while (c->going_set == set && !memcmp(&c->going, digest, sizeof(*digest)))
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

/* Pins */

enum status
content_pins_begin(struct content_pins *c, struct set *set,
                   struct content_pin **pin, struct problem *why)
{
    struct content_pin *made = memory_new(1, sizeof(*made));
    struct head head;
    enum status rc = STATUS_OK;

    made->pins = c;
    made->set = set;
    pthread_mutex_lock(&c->mutex);
    while (c->is_shut)
        pthread_cond_wait(&c->changed, &c->mutex);
    /* Under the mutex: a thread that clears folders of removed sets from now on
     * sees the pin. */
    if (log_head(set->log, &head))
        list_append(&c->all, &made->node);
    else
        rc = problem(why, STATUS_GONE, "there is no set %s", set->name);
    pthread_mutex_unlock(&c->mutex);
    if (rc) {
        free(made);
        return rc;
    }
    *pin = made;
    return STATUS_OK;
}

/* Adds a file to the pin; its release frees it. */
static enum status
add_digest(struct content_pin *pin, const struct digest *digest, bool is_new,
           struct problem *why)
{
    struct content_pins *c = pin->pins;
    struct pinned *file;

    if (!ONE_MORE(pin->files, &pin->capacity, pin->n_files))
        return problem_memory(why);
    pthread_mutex_lock(&c->mutex);
    file = take_pin(c, pin->set, digest);
    file->is_new |= is_new;
    pthread_mutex_unlock(&c->mutex);
    pin->files[pin->n_files++] = file;
    return STATUS_OK;
}

enum status
contents_place(struct content_pin *pin, struct arriving *arriving,
               struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc = add_digest(pin, &arriving->digest, true, why);

    content_touch(&pin->touched, &arriving->digest);
    set_dir(pin->set, dir);
    if (!rc)
        rc = content_file_place(dir, arriving, why);
    return rc;
}

enum status
contents_find(struct content_pin *pin, const struct digest *digest,
              uint64_t *length, struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc = add_digest(pin, digest, false, why);

    set_dir(pin->set, dir);
    if (!rc)
        rc = content_file_look(dir, digest, length, why);
    if (rc)
        return rc;
    /* The pin that placed the file may not have synced its name yet, or have
     * failed: then this one does. */
    pthread_mutex_lock(&pin->pins->mutex);
    if (pin->files[pin->n_files - 1]->is_new)
        content_touch(&pin->touched, digest);
    pthread_mutex_unlock(&pin->pins->mutex);
    return STATUS_OK;
}

/* A file that a pin places again meanwhile already had that name on the
 * disk. */
enum status
contents_sync(struct content_pin *pin, struct problem *why)
{
    char dir[SET_DIR_MAX];
    enum status rc;

    set_dir(pin->set, dir);
    rc = content_files_sync(dir, &pin->touched, why);
    if (rc)
        return rc;
    pthread_mutex_lock(&pin->pins->mutex);
    for (size_t i = 0; i < pin->n_files; i++)
        pin->files[i]->is_new = false;
    pthread_mutex_unlock(&pin->pins->mutex);
    return STATUS_OK;
}

void
contents_end(struct content_pin *pin, uint64_t last)
{
    if (!pin)
        return;
    pthread_mutex_lock(&pin->pins->mutex);
    pin->has_ended = true;
    pin->last = last;
    pthread_mutex_unlock(&pin->pins->mutex);
}

/* Archive thread */

struct content_pin *
content_pins_ended(struct content_pins *c,
                   bool (*may_end)(const struct content_pin *pin))
{
    struct content_pin *found = NULL;
    struct list *next;
    struct content_pin *pin;

    pthread_mutex_lock(&c->mutex);
    list_each (pin, next, &c->all, node) {
        if (pin->has_ended && may_end(pin)) {
            list_remove(&pin->node);
            found = pin;
            break;
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void
content_pins_keep(struct content_pin *pin)
{
    struct content_pins *c = pin->pins;

    pthread_mutex_lock(&c->mutex);
    list_append(&c->all, &pin->node);
    pthread_mutex_unlock(&c->mutex);
}

bool
content_pins_release(struct content_pin *pin, struct digest *digest)
{
    struct content_pins *c = pin->pins;
    struct pinned *file;

    if (pin->n_files == 0) {
        free(pin->files);
        free(pin);
        return false;
    }
    file = pin->files[--pin->n_files];
    *digest = file->digest;
    pthread_mutex_lock(&c->mutex);
    if (--file->n == 0) {
        map_remove(&c->files, &file->node);
        free(file);
    }
    pthread_mutex_unlock(&c->mutex);
    return true;
}

void
content_pins_drop(struct content_pin *pin)
{
    struct digest digest;

    while (content_pins_release(pin, &digest))
        ;
}

bool
content_pins_go(struct content_pins *c, const struct set *set,
                const struct digest *digest)
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
content_pins_gone(struct content_pins *c)
{
    pthread_mutex_lock(&c->mutex);
    c->going_set = NULL;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

bool
content_pins_shut(struct content_pins *c, const struct set *set)
{
    struct list *next;
    struct content_pin *pin;
    bool is_free = true;

    pthread_mutex_lock(&c->mutex);
    list_each (pin, next, &c->all, node)
        if (pin->set == set)
            is_free = false;
    c->is_shut = is_free;
    pthread_mutex_unlock(&c->mutex);
    return is_free;
}

void
content_pins_unshut(struct content_pins *c)
{
    pthread_mutex_lock(&c->mutex);
    c->is_shut = false;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}
