#include "proto/memory.h"

static void (*end_without)(size_t size); /* NULL: nothing ends */

void
memory_end_without_small(void (*end)(size_t size))
{
    end_without = end;
}

void *
memory_got(void *block, size_t size)
{
    if (!block && end_without && size > 0 && size < MEMORY_SMALL)
        end_without(size);
    return block;
}

void *
memory_new(size_t n, size_t size)
{
    return memory_got(calloc(n, size), n * size);
}

void *
memory_room(size_t size)
{
    return memory_got(malloc(size), size);
}

void *
memory_grow(void *block, size_t n, size_t size)
{
    return memory_got(reallocarray(block, n, size), n * size);
}
