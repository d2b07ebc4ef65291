#include "proto/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *ending_program;

void
memory_end_without_small(const char *program)
{
    ending_program = program;
}

/* Ends the process if `block` is a small one that could not be had; else
 * returns it. _exit(), as after kill -9: what is durable is durable, and no
 * handler of exit() may ask for memory again. */
static void *
had(void *block, size_t size)
{
    char line[128];
    int length;

    if (block || !ending_program || size >= MEMORY_SMALL)
        return block;
    length = snprintf(line, sizeof(line),
                      "%s: there is no memory for %zu bytes: it ends here\n",
                      ending_program, size);
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        _exit(EXIT_FAILURE); /* nobody can be told */
    _exit(EXIT_FAILURE);
}

void *
memory_new(size_t n, size_t size)
{
    return had(calloc(n, size), n * size);
}

void *
memory_room(size_t size)
{
    return had(malloc(size), size);
}

void *
memory_grow(void *block, size_t n, size_t size)
{
    return had(reallocarray(block, n, size), n * size);
}
