#include "broker/base/lookup.h"

#include <netdb.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/map.h"

/* A name under look-up, or one with a kept answer. */
struct name {
    struct map_node node;
    struct list at;      /* in `sure`, `doubtful` or `kept` */
    struct list askers;  /* look-ups */
    bool is_running;     /* a thread asks for it */
    bool is_doubtful;    /* for the count of that thread */
    int64_t answered_us; /* 0: it has no answer yet */
    struct lookup_answer answer;
    char text[];
};

/* All under the mutex. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct map names;
static struct list sure = {&sure, &sure};             /* wait for a thread */
static struct list doubtful = {&doubtful, &doubtful}; /* likewise */
static struct list kept = {&kept, &kept};             /* the oldest first */
static size_t n_kept;
static unsigned n_threads, n_doubtful; /* threads; those at doubtful names */

static void
free_name(struct name *name)
{
    n_kept -= name->answered_us != 0;
    list_remove(&name->at);
    map_remove(&names, &name->node);
    free(name);
}

void
lookup_addresses(const char *host, int flags, struct lookup_answer *answer)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;

    answer->n = 0;
    answer->error = getaddrinfo(host, NULL, &hints, &found);
    if (answer->error)
        return;
    for (struct addrinfo *a = found; a && answer->n < LOOKUP_ADDRESSES_MAX;
         a = a->ai_next)
        if (a->ai_addrlen <= sizeof(answer->addresses[0]))
            memcpy(&answer->addresses[answer->n++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    if (answer->n == 0)
        answer->error = EAI_NONAME;
}

/* Hands the answer to all who have asked, and keeps it if it has addresses. */
static void
end_name(struct name *name)
{
    struct lookup *l;

    list_drain (l, &name->askers, node) {
        l->answer = name->answer;
        l->name = NULL;
        list_append(&l->box->answered, &l->node);
        if (!l->box->is_woken)
            l->box->wake(l->box->user);
        l->box->is_woken = true;
    }
    if (name->answer.error) {
        free_name(name);
        return;
    }
    name->answered_us = clock_steady_us();
    list_append(&kept, &name->at);
    if (++n_kept > LOOKUP_KEPT_MAX)
        free_name(list_front(&kept, offsetof(struct name, at)));
}

static void *
run_thread(void *unused)
{
    struct lookup_answer answer;
    struct name *name;

    pthread_setname_np(pthread_self(), "lookup");
    pthread_mutex_lock(&mutex);
    for (;;) {
        name = list_take(&sure, offsetof(struct name, at));
        if (!name && n_doubtful < LOOKUP_THREADS_MAX / 2)
            name = list_take(&doubtful, offsetof(struct name, at));
        if (!name)
            break; /* none has a thread */
        name->is_running = true;
        n_doubtful += name->is_doubtful;
        pthread_mutex_unlock(&mutex);
        lookup_addresses(name->text, 0, &answer);
        pthread_mutex_lock(&mutex);
        n_doubtful -= name->is_doubtful;
        name->is_running = false;
        name->answer = answer;
        end_name(name);
    }
    n_threads--;
    pthread_mutex_unlock(&mutex);
    return unused;
}

/* Has a thread ask for a name that no thread has taken yet. Starts one more, if
 * it would have something to do. It inherits the signal mask of a thread of
 * base/thread.h: no signal comes there. */
static void
queue_name(struct name *name, bool is_doubtful)
{
    bool is_queued = !list_is_empty(&name->at);
    pthread_t id;

    if (name->is_running || (is_queued && (is_doubtful || !name->is_doubtful)))
        return;
    name->is_doubtful = is_doubtful;
    list_put(is_doubtful ? &doubtful : &sure, &name->at);
    if ((!list_is_empty(&sure) ||
         (!list_is_empty(&doubtful) && n_doubtful < LOOKUP_THREADS_MAX / 2)) &&
        n_threads < LOOKUP_THREADS_MAX &&
        !pthread_create(&id, NULL, run_thread, NULL)) {
        n_threads++;
        pthread_detach(id);
    }
    if (n_threads == 0) { /* no thread can be made */
        list_remove(&name->at);
        name->answer = (struct lookup_answer){.error = EAI_MEMORY};
        end_name(name);
    }
}

/* For askers */

void
lookup_box_init(struct lookup_box *box, void (*wake_up)(void *user), void *user)
{
    *box = (struct lookup_box){.wake = wake_up, .user = user};
    list_init(&box->answered);
}

void
lookup_init(struct lookup *l)
{
    list_init(&l->node);
    l->name = NULL;
}

bool
lookup_begin(struct lookup *l, struct lookup_box *box,
             const struct lookup_wish *wish)
{
    struct slice host = slice_of(wish->host);
    struct name *name;
    bool is_known;

    l->box = box;
    lookup_addresses(wish->host, AI_NUMERICHOST, &l->answer);
    if (!l->answer.error)
        return true;
    pthread_mutex_lock(&mutex);
    map_each_same (name, &names, map_hash(&names, host), node) {
        if (slice_is(host, name->text))
            break;
    }
    is_known = name && name->answered_us &&
               clock_steady_us() - name->answered_us <= wish->max_age_us;
    if (is_known) {
        l->answer = name->answer;
    } else {
        if (name && name->answered_us) {
            free_name(name);
            name = NULL;
        }
        if (!name) {
            name = memory_new(1, sizeof(*name) + host.size + 1);
            memcpy(name->text, host.data, host.size);
            list_init(&name->at);
            list_init(&name->askers);
            map_add(&names, &name->node, map_hash(&names, host));
        }
        l->name = name;
        list_append(&name->askers, &l->node);
        queue_name(name, wish->is_doubtful);
    }
    pthread_mutex_unlock(&mutex);
    return is_known;
}

struct lookup *
lookup_take(struct lookup_box *box)
{
    struct lookup *l;

    pthread_mutex_lock(&mutex);
    l = list_take(&box->answered, offsetof(struct lookup, node));
    if (!l)
        box->is_woken = false;
    pthread_mutex_unlock(&mutex);
    return l;
}

void
lookup_cancel(struct lookup *l)
{
    struct name *name;

    pthread_mutex_lock(&mutex);
    name = l->name;
    list_remove(&l->node);
    l->name = NULL;
    if (name && list_is_empty(&name->askers) && !name->is_running)
        free_name(name); /* it waited for a thread */
    pthread_mutex_unlock(&mutex);
}
