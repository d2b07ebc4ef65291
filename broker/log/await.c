#include "broker/log/await.h"

#include <pthread.h>
#include <stdbool.h>

/* A post whose outcome a thread waits for. */
struct awaited {
    struct post post;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};

static void
on_awaited(struct post *post)
{
    struct awaited *a = list_entry(post, struct awaited, post);

    pthread_mutex_lock(&a->mutex);
    a->is_done = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

enum status
await_post(struct log *log, struct post *post, struct problem *why)
{
    struct awaited a = {
        .post = *post,
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    enum status rc;

    a.post.done = on_awaited;
    rc = log_submit(log, &a.post);
    if (rc)
        return problem(why, rc, "the log is ending");
    pthread_mutex_lock(&a.mutex);
    while (!a.is_done)
        pthread_cond_wait(&a.changed, &a.mutex);
    pthread_mutex_unlock(&a.mutex);
    *post = a.post;
    if (why)
        *why = a.post.why;
    return a.post.status;
}
