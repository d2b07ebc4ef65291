#include "proto/resourcesync/negentropy.h"

#define FINGERPRINT_SIZE 16

/* As the reference does: fewer ids than two for each part are sent. */
#define PARTS 16
#define FEW   (2 * PARTS)

/* A range of more ids is split at first bytes, without a walk through it. */
#define MANY 16384

/* Room for a range that is split, and for the rest: PARTS ranges with
 * fingerprints, or FEW ids; two bounds more. */
#define RANGE_ROOM 1536

enum mode { MODE_SKIP, MODE_FINGERPRINT, MODE_LIST };

/* A message being written, or an answer to one. */
struct writing {
    struct negentropy *n;
    struct buf *to;
    size_t begin;               /* of the message in `to` */
    uint64_t timestamp;         /* of the last bound */
    struct negentropy_bound at; /* the end of the ranges written */
    struct id_sum part;
    struct digest last; /* the last id of it */
    uint64_t part_n;    /* ids for each part of a split; 0: a list */
    bool is_full;       /* a list does not fit */
    struct digest cut;  /* its first id that does not */
    struct buf *list;   /* ids of a range, or NULL: they are added up */
    size_t list_max;
};

static const struct negentropy_bound infinity = {.timestamp = UINT64_MAX};

/* Bounds */

static int
compare_bounds(const struct negentropy_bound *a,
               const struct negentropy_bound *b)
{
    return a->timestamp != b->timestamp ? a->timestamp < b->timestamp ? -1 : 1
                                        : memcmp(&a->id, &b->id, sizeof(a->id));
}

static struct negentropy_bound
bound_of_byte(unsigned byte)
{
    struct negentropy_bound bound = {.timestamp = byte > 255 ? UINT64_MAX : 0};

    bound.id.bytes[0] = (uint8_t)byte;
    return bound;
}

/* Reading */

/* Base 128, the highest digit first, with as few digits as possible. */
static bool
read_varint(struct slice *rest, uint64_t *number)
{
    unsigned char byte = 0x80;

    *number = 0;
    for (bool is_first = true; byte & 0x80; is_first = false) {
        if (rest->size == 0 || *number >> 57)
            return false;
        byte = (unsigned char)rest->data[0];
        if (is_first && byte == 0x80)
            return false;
        slice_skip(rest, 1);
        *number = *number << 7 | (byte & 0x7f);
    }
    return true;
}

static enum status
read_bound(struct slice *rest, uint64_t *timestamp,
           struct negentropy_bound *bound, struct problem *why)
{
    uint64_t number, size;

    memset(bound, 0, sizeof(*bound));
    if (!read_varint(rest, &number) || !read_varint(rest, &size))
        return problem(why, STATUS_MALFORMED, "a bound is no two numbers");
    if (number > 0 &&
        (__builtin_add_overflow(*timestamp, number - 1, timestamp) ||
         *timestamp == UINT64_MAX))
        return problem(why, STATUS_MALFORMED, "the time of a bound is too far");
    bound->timestamp = number > 0 ? *timestamp : UINT64_MAX;
    if (size > DIGEST_SIZE || size > rest->size)
        return problem(why, STATUS_MALFORMED,
                       "the prefix of a bound has not 0 to 32 bytes");
    memcpy(bound->id.bytes, rest->data, (size_t)size);
    slice_skip(rest, (size_t)size);
    if (number == 0)
        *bound = infinity;
    return STATUS_OK;
}

/* A range of a message. */
struct range {
    struct negentropy_bound from, to;
    uint64_t mode;
    struct slice payload; /* a fingerprint, or ids */
};

/* Reads the range behind the last one. */
static enum status
read_range(struct slice *rest, uint64_t *timestamp, struct range *range,
           struct problem *why)
{
    uint64_t n = 1, size = FINGERPRINT_SIZE;
    enum status rc;

    if (range->to.timestamp == UINT64_MAX)
        return problem(why, STATUS_MALFORMED, "a range is behind the last one");
    range->from = range->to;
    rc = read_bound(rest, timestamp, &range->to, why);
    if (rc)
        return rc;
    if (compare_bounds(&range->to, &range->from) < 0)
        return problem(why, STATUS_MALFORMED, "a range ends before it begins");
    if (!read_varint(rest, &range->mode) || range->mode > MODE_LIST)
        return problem(why, STATUS_MALFORMED,
                       "the mode of a range is not 0, 1 or 2");
    if (range->mode == MODE_SKIP)
        n = 0;
    if (range->mode == MODE_LIST) {
        size = DIGEST_SIZE;
        if (!read_varint(rest, &n))
            return problem(why, STATUS_MALFORMED, "a list has no length");
    }
    if (n > rest->size / size)
        return problem(why, STATUS_MALFORMED, "a range is cut off");
    range->payload = (struct slice){rest->data, (size_t)(n * size)};
    slice_skip(rest, range->payload.size);
    return STATUS_OK;
}

/* Writing */

static void
add_varint(struct buf *to, uint64_t number)
{
    int shift = 63;

    while (shift > 0 && number >> shift == 0)
        shift -= 7;
    for (; shift >= 0; shift -= 7) {
        unsigned char byte =
            (unsigned char)((number >> shift & 0x7f) | (shift > 0 ? 0x80 : 0));

        buf_add(to, &byte, 1);
    }
}

/* Appends the head of a range that begins where the last one ended. */
static void
add_range(struct writing *w, const struct negentropy_bound *to, enum mode mode)
{
    size_t size = DIGEST_SIZE;

    if (to->timestamp == UINT64_MAX) {
        BUF_ADD(w->to, "\0\0");
    } else {
        while (size > 0 && to->id.bytes[size - 1] == 0)
            size--;
        add_varint(w->to, 1 + to->timestamp - w->timestamp);
        add_varint(w->to, size);
        buf_add(w->to, to->id.bytes, size);
        w->timestamp = to->timestamp;
    }
    add_varint(w->to, mode);
    w->at = *to;
}

/* Skips from the end of the last range to `from`. */
static void
skip_to(struct writing *w, const struct negentropy_bound *from)
{
    if (compare_bounds(&w->at, from) < 0)
        add_range(w, from, MODE_SKIP);
}

static void
make_fingerprint(const struct id_sum *sum, struct digest *fingerprint)
{
    char memory[DIGEST_SIZE + 10];
    struct digest bytes;
    struct buf text;

    buf_init_fixed(&text, memory, sizeof(memory));
    id_sum_bytes(sum, &bytes);
    buf_add(&text, &bytes, sizeof(bytes));
    add_varint(&text, sum->n);
    digest_sha256(fingerprint, buf_slice(&text));
}

static void
add_fingerprint(struct writing *w, const struct negentropy_bound *to,
                const struct id_sum *sum)
{
    struct digest fingerprint;

    make_fingerprint(sum, &fingerprint);
    add_range(w, to, MODE_FINGERPRINT);
    buf_add(w->to, &fingerprint, FINGERPRINT_SIZE);
}

/* Sums */

static enum status
walk(struct writing *w, const struct negentropy_bound *from,
     const struct negentropy_bound *to, negentropy_fn *fn, void *user,
     struct problem *why)
{
    if (from->timestamp > 0 || compare_bounds(from, to) >= 0)
        return STATUS_OK;
    return w->n->ids->walk(w->n->ids, &from->id,
                           to->timestamp > 0 ? NULL : &to->id, fn, user, why);
}

static bool
add_up(const struct digest *id, void *user)
{
    id_sum_add(user, id);
    return true;
}

/* Adds up the ids of a range: whole parts by their sums, the rest by walks. */
static enum status
sum_range(struct writing *w, const struct negentropy_bound *from,
          const struct negentropy_bound *to, struct id_sum *sum,
          struct problem *why)
{
    unsigned end = from->timestamp > 0 ? 0 : 256;
    enum status rc = STATUS_OK;

    *sum = (struct id_sum){.n = 0};
    for (unsigned i = from->id.bytes[0]; !rc && i < end; i++) {
        struct negentropy_bound a = bound_of_byte(i), b = bound_of_byte(i + 1);
        const struct negentropy_bound *begin =
            compare_bounds(&a, from) < 0 ? from : &a;
        bool is_cut = begin == from;

        if (compare_bounds(&b, to) > 0) {
            b = *to;
            is_cut = true;
            end = i; /* the last part */
        }
        if (is_cut)
            rc = walk(w, begin, &b, add_up, sum, why);
        else
            id_sum_merge(sum, &w->n->ids->parts[i]);
    }
    return rc;
}

/* Ranges */

/* An id of a range that is split: the range is cut before each PARTS-th. */
static bool
split_at_id(const struct digest *id, void *user)
{
    struct writing *w = user;
    struct negentropy_bound bound = {.timestamp = 0};
    size_t same = 0;

    if (w->part.n == w->part_n) { /* the shortest bound between two ids */
        while (same < DIGEST_SIZE - 1 && w->last.bytes[same] == id->bytes[same])
            same++;
        memcpy(bound.id.bytes, id->bytes, same + 1);
        add_fingerprint(w, &bound, &w->part);
        w->part = (struct id_sum){.n = 0};
    }
    id_sum_add(&w->part, id);
    w->last = *id;
    return true;
}

static bool
list_id(const struct digest *id, void *user)
{
    struct writing *w = user;

    w->is_full = w->list->size + DIGEST_SIZE > w->list_max;
    if (w->is_full)
        w->cut = *id;
    else
        buf_add(w->list, id, sizeof(*id));
    return !w->is_full;
}

/* Appends the ids of a range, or as many as there is room for: then w->at is
 * before its end. */
static enum status
add_list(struct writing *w, const struct range *range, struct problem *why)
{
    struct negentropy_bound to = range->to;
    size_t used = w->to->size - w->begin + RANGE_ROOM;
    struct buf list = {.max = w->n->max_bytes};
    enum status rc;

    w->list = &list;
    w->list_max = w->n->max_bytes > used ? w->n->max_bytes - used : 0;
    if (w->list_max < FEW * DIGEST_SIZE)
        w->list_max = FEW * DIGEST_SIZE;
    w->is_full = false;
    rc = walk(w, &range->from, &to, list_id, w, why);
    if (!rc && w->is_full)
        to = (struct negentropy_bound){.timestamp = 0, .id = w->cut};
    skip_to(w, &range->from);
    add_range(w, &to, MODE_LIST);
    add_varint(w->to, list.size / DIGEST_SIZE);
    buf_add_slice(w->to, buf_slice(&list));
    buf_fini(&list);
    return rc;
}

/* Appends what this side has in a range whose fingerprint is another one. */
static enum status
split_range(struct writing *w, const struct range *range,
            const struct id_sum *sum, struct problem *why)
{
    unsigned first = range->from.id.bytes[0] + 1u;
    unsigned end = range->to.timestamp > 0 ? 256 : range->to.id.bytes[0];
    unsigned step = (end - first + PARTS) / PARTS;
    struct negentropy_bound at = range->from, next;
    struct id_sum part;
    enum status rc = STATUS_OK;

    if (sum->n < FEW)
        return add_list(w, range, why);
    skip_to(w, &range->from);
    if (sum->n <= MANY || end <= first) {
        w->part = (struct id_sum){.n = 0};
        w->part_n = (sum->n + PARTS - 1) / PARTS;
        rc = walk(w, &range->from, &range->to, split_at_id, w, why);
        add_fingerprint(w, &range->to, &w->part);
        return rc;
    }
    for (; !rc && compare_bounds(&at, &range->to) < 0; first += step) {
        next = first < end ? bound_of_byte(first) : range->to;
        rc = sum_range(w, &at, &next, &part, why);
        add_fingerprint(w, &next, &part);
        at = next;
    }
    return rc;
}

static int
compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, DIGEST_SIZE);
}

/* Comparing: the ids of the other side, against a walk through ours. */
struct comparing {
    struct negentropy *n;
    const struct digest *theirs, *end;
};

static bool
has_room(const struct negentropy *n)
{
    return !n->have->failed && !n->need->failed;
}

/* Adds what the other side has before `id` (NULL: to the end). */
static void
add_theirs(struct comparing *c, const struct digest *id)
{
    while (c->theirs < c->end && (!id || compare_ids(c->theirs, id) < 0))
        buf_add(c->n->need, c->theirs++, DIGEST_SIZE);
}

static bool
compare_id(const struct digest *id, void *user)
{
    struct comparing *c = user;

    add_theirs(c, id);
    if (c->theirs == c->end || compare_ids(c->theirs, id) != 0)
        buf_add(c->n->have, id, DIGEST_SIZE);
    while (c->theirs < c->end && compare_ids(c->theirs, id) == 0)
        c->theirs++;
    return has_room(c->n);
}

static enum status
compare_list(struct writing *w, const struct range *range, struct problem *why)
{
    size_t n = range->payload.size / DIGEST_SIZE;
    struct digest *theirs = memory_new(n + 1, sizeof(*theirs));
    struct comparing c = {w->n, theirs, theirs + n};
    enum status rc = STATUS_OK;

    if (!theirs)
        return problem_memory(why);
    if (n > 0)
        memcpy(theirs, range->payload.data, range->payload.size);
    qsort(theirs, n, sizeof(*theirs), compare_ids);
    for (size_t i = 0; !rc && i<n; i += n> 1 ? n - 1 : 1) {
        struct negentropy_bound it = {.timestamp = 0, .id = theirs[i]};

        if (compare_bounds(&it, &range->from) < 0 ||
            compare_bounds(&it, &range->to) >= 0)
            rc = problem(why, STATUS_MALFORMED, "an id is outside its range");
    }
    if (!rc)
        rc = walk(w, &range->from, &range->to, compare_id, &c, why);
    if (!rc)
        add_theirs(&c, NULL);
    free(theirs);
    return rc || has_room(w->n) ? rc : STATUS_STOPPED;
}

/* Answers one range, or reads it as a client. */
static enum status
answer_range(struct writing *w, const struct range *range, struct problem *why)
{
    struct id_sum sum;
    struct digest own;
    enum status rc;

    if (range->mode == MODE_SKIP)
        return STATUS_OK;
    if (range->mode == MODE_LIST)
        return w->n->need ? compare_list(w, range, why)
                          : add_list(w, range, why);
    rc = sum_range(w, &range->from, &range->to, &sum, why);
    if (rc)
        return rc;
    make_fingerprint(&sum, &own);
    return memcmp(own.bytes, range->payload.data, FINGERPRINT_SIZE)
               ? split_range(w, range, &sum, why)
               : STATUS_OK;
}

/* Appends the fingerprint of all that is behind `from`. */
static enum status
add_rest(struct writing *w, const struct negentropy_bound *from,
         struct problem *why)
{
    struct id_sum sum;
    enum status rc = sum_range(w, from, &infinity, &sum, why);

    skip_to(w, from);
    if (from->timestamp != UINT64_MAX)
        add_fingerprint(w, &infinity, &sum);
    return rc;
}

static enum status
answer_ranges(struct negentropy *n, struct slice message, struct buf *to,
              struct problem *why)
{
    struct writing w = {.n = n, .to = to, .begin = to->size};
    struct range range = {.mode = MODE_SKIP};
    uint64_t timestamp = 0, n_ranges = 0;
    bool is_cut = false;
    enum status rc = STATUS_OK;

    n->ids->work = 0;
    buf_add_big_endian(to, NEGENTROPY_VERSION, 1);
    slice_skip(&message, 1);
    while (!rc && message.size > 0) {
        rc = read_range(&message, &timestamp, &range, why);
        if (!rc && ++n_ranges > n->max_ranges)
            rc = problem(why, STATUS_MALFORMED,
                         "the message has more than %" PRIu64 " ranges",
                         n->max_ranges);
        if (rc || is_cut)
            continue; /* the rest is only checked */
        /* The next range may not fit, or would cost too much. */
        is_cut = range.mode != MODE_SKIP &&
                 (to->size - w.begin + 2 * RANGE_ROOM > n->max_bytes ||
                  (n->max_work > 0 && n->ids->work > n->max_work));
        w.is_full = false;
        rc = is_cut ? add_rest(&w, &range.from, why)
                    : answer_range(&w, &range, why);
        if (!rc && w.is_full) {
            is_cut = true;
            rc = add_rest(&w, &w.at, why);
        }
    }
    return rc ? rc : problem_buf(why, to, "the answer");
}

enum status
negentropy_begin(struct negentropy *n, struct buf *to, struct problem *why)
{
    struct writing w = {.n = n, .to = to, .begin = to->size};

    buf_add_big_endian(to, NEGENTROPY_VERSION, 1);
    for (unsigned i = 0; i < 256; i++) {
        struct negentropy_bound next = bound_of_byte(i + 1);

        add_fingerprint(&w, &next, &n->ids->parts[i]);
    }
    return problem_buf(why, to, "the question");
}

enum status
negentropy_answer(struct negentropy *n, struct slice message, struct buf *to,
                  struct problem *why)
{
    if (message.size == 0)
        return problem(why, STATUS_MALFORMED, "the message is empty");
    if (message.data[0] == NEGENTROPY_VERSION)
        return answer_ranges(n, message, to, why);
    buf_add_big_endian(to, NEGENTROPY_VERSION, 1);
    return STATUS_OK;
}

enum status
negentropy_compare(struct negentropy *n, struct slice message, struct buf *to,
                   struct problem *why)
{
    size_t begin = to->size;
    enum status rc;

    if (message.size == 0 || message.data[0] != NEGENTROPY_VERSION)
        return problem(why, STATUS_MALFORMED,
                       "the answer is not of version 1 of Negentropy");
    rc = answer_ranges(n, message, to, why);
    if (to->size == begin + 1)
        to->size = begin;
    return rc;
}

/* Ids in memory */

static enum status
walk_array(struct negentropy_ids *ids, const struct digest *from,
           const struct digest *to, negentropy_fn *fn, void *user,
           struct problem *why)
{
    struct negentropy_array *array = (struct negentropy_array *)ids;
    size_t low = 0, high = array->n;

    (void)why;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_ids(&array->all[middle], from) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < array->n; low++, ids->work++)
        if ((to && compare_ids(&array->all[low], to) >= 0) ||
            !fn(&array->all[low], user))
            break;
    return STATUS_OK;
}

void
negentropy_array_init(struct negentropy_array *array, struct digest *all,
                      size_t n)
{
    size_t kept = 0;

    memset(array, 0, sizeof(*array));
    qsort(all, n, sizeof(*all), compare_ids);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && compare_ids(&all[kept - 1], &all[i]) == 0)
            continue;
        all[kept++] = all[i];
        id_sum_add(&array->parts[all[i].bytes[0]], &all[i]);
    }
    array->all = all;
    array->n = kept;
    array->ids.walk = walk_array;
    array->ids.parts = array->parts;
}
