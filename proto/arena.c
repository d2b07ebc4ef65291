#include "proto/arena.h"

/* The entries of nearly all posts fit in one block, so that reading them
 * allocates nothing. */
#define BLOCK_SIZE 8192

struct arena_block {
    struct arena_block *older;
    size_t size;
    char bytes[];
};

/* The bounds of no block at all: pointers that may be compared. */
static char none[1];

void
arena_init(struct arena *arena, size_t max)
{
    *arena = (struct arena){.at = none, .end = none, .max = max};
}

static void
use_block(struct arena *arena, struct arena_block *block)
{
    arena->blocks = block;
    arena->at = block->bytes;
    arena->end = block->bytes + block->size;
}

void
arena_fini(struct arena *arena)
{
    arena_clear(arena);
    free(arena->blocks);
    arena_init(arena, arena->max);
}

void
arena_clear(struct arena *arena)
{
    /* Frees a block for one large piece, too. */
    while (arena->blocks &&
           (arena->blocks->older || arena->blocks->size > BLOCK_SIZE)) {
        struct arena_block *older = arena->blocks->older;

        free(arena->blocks);
        arena->blocks = older;
    }
    if (arena->blocks)
        use_block(arena, arena->blocks);
    else
        arena->at = arena->end = none;
    arena->used = 0;
}

char *
arena_take_more(struct arena *arena, size_t size)
{
    size_t capacity = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    struct arena_block *block;

    if (size > arena->max - arena->used)
        return NULL;
    block = memory_room(sizeof(*block) + capacity);
    if (!block)
        return NULL;
    block->older = arena->blocks;
    block->size = capacity;
    use_block(arena, block);
    arena->at += size;
    arena->used += size;
    return block->bytes;
}
