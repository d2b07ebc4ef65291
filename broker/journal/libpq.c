#include "broker/journal/libpq.h"

#include <dlfcn.h>

#ifdef TIDINGS_LIBPQ_LINKED

#define LIBPQ_LINKED(name) .name = name,

/* A program for all Linux systems has libpq inside (packaging/parts/bundle). */
struct libpq libpq = {LIBPQ_FUNCTIONS(LIBPQ_LINKED)};

enum status
libpq_load(struct problem *why)
{
    (void)why;
    return STATUS_OK;
}

#else

#define FILE_NAME       "libpq.so.5"

struct libpq libpq;

/* Where each function is in the table. */
#define LIBPQ_ROW(name) {#name, offsetof(struct libpq, name)},

static const struct {
    const char *name;
    size_t offset;
} functions[] = {LIBPQ_FUNCTIONS(LIBPQ_ROW)};

enum status
libpq_load(struct problem *why)
{
    struct libpq loaded;
    void *handle;

    if (libpq.PQclear)
        return STATUS_OK;
    handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return problem(why, STATUS_UNSUPPORTED,
                       "libpq is not installed, which a cluster needs (%s)",
                       dlerror());
    for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
        void *function = dlsym(handle, functions[i].name);

        if (!function) {
            dlclose(handle);
            return problem(why, STATUS_UNSUPPORTED,
                           "libpq is too old: it has no %s", functions[i].name);
        }
        /* As POSIX has it: a pointer to a function as bytes. */
        *(void **)(void *)((char *)&loaded + functions[i].offset) = function;
    }
    libpq = loaded;
    return STATUS_OK;
}

#endif
