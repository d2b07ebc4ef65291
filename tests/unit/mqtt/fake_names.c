#include "tests/unit/mqtt/fake_names.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;

void
fake_names_hold(void)
{
    pthread_mutex_lock(&slow_lock);
}

void
fake_names_let_go(void)
{
    pthread_mutex_unlock(&slow_lock);
}

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *,
                           struct addrinfo **);

static getaddrinfo_fn *
real_getaddrinfo(void)
{
    getaddrinfo_fn *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real;
}

/* The C library's function stands behind this one. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **found)
{
    getaddrinfo_fn *real = real_getaddrinfo();
    struct addrinfo *last = NULL;
    int error;

    if (hints && (hints->ai_flags & AI_NUMERICHOST))
        return real(host, service, hints, found);
    if (!strcmp(host, "unknown.test"))
        return EAI_NONAME;
    if (!strcmp(host, "slow.test")) {
        fake_names_hold();
        fake_names_let_go();
        return EAI_AGAIN;
    }
    if (strcmp(host, "several.test") != 0)
        return real(host, service, hints, found);
    /* Nobody listens on the first address. */
    error = real("127.0.0.77", service, hints, found);
    if (!error)
        error = real("127.0.0.1", service, hints, &last);
    if (!error)
        (*found)->ai_next = last;
    return error;
}
