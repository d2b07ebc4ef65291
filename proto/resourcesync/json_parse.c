#include "proto/resourcesync/json_parse.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <yajl/yajl_parse.h>

#include "proto/memory.h"
#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/scanning.h"
#include "proto/utf8.h"

/* Bytes of one call of yajl: the parser checks its memory after each. */
#define PIECE_SIZE 16384

/*
 * Looks for lone surrogates in the raw text:
 *
 *   TEXT --\--> ESCAPE --u--> HEX (4 digits) --high--> HIGH --\--> HIGH_ESCAPE
 *    ^            |              |                                     |
 *    +------------+----other-----+----------low----- HEX <-----u-------+
 *
 * A backslash stands in strings only; elsewhere yajl refuses it.
 */
enum escape {
    ESCAPE_NONE,
    ESCAPE_BEGUN,
    ESCAPE_HEX,
    ESCAPE_HIGH,
    ESCAPE_HIGH_BEGUN
};

/* Before the bytes of an allocation of yajl's. */
union block {
    struct {
        union block *before, *behind; /* a ring */
        size_t size;
    } in;

    max_align_t aligned;
};

/* Memory of json_parse_text for yajl: small texts need no more. yajl begins
 * with two buffers of 2 KB. */
#define SPARE_BYTES 8192

struct json_parse {
    yajl_handle yajl;
    union block blocks; /* all of yajl's, which json_parse.c frees */
    jmp_buf starved;    /* out of yajl */
    char *spare;        /* of SPARE_BYTES, or NULL */
    size_t n_spare;     /* bytes of it that are used */
    json_event_fn *on_event;
    void *user;

    enum status rc;
    uint64_t line;      /* of the first byte of the piece, or of the failure */
    struct slice piece; /* yajl's present piece; empty while it has none */
    size_t since;       /* bytes of earlier pieces since the last value */
    size_t last;        /* where in the piece the last value was */
    int depth;
    unsigned bom;        /* bytes of it that were there: utf8.h */
    struct problem *why; /* of the present call */

    enum escape escape;
    bool is_after_high; /* the escape has to be a low surrogate */
    unsigned n_hex;
    unsigned hex;
};

static uint64_t
count_lines(struct slice text)
{
    const char *p;
    uint64_t n = 0;

    for (; text.size > 0 && (p = memchr(text.data, '\n', text.size)); n++)
        text = slice_between(p + 1, text.data + text.size);
    return n;
}

static enum status
report_event(struct json_parse *json, enum json_event event, struct slice text)
{
    json->since = 0;
    json->last = yajl_get_bytes_consumed(json->yajl);
    if (json->on_event)
        json->rc = json->on_event(json->user, event, text, json->why);
    return json->rc;
}

static int
on_other(void *data)
{
    return !report_event(data, JSON_OTHER, SLICE("null"));
}

static int
on_boolean(void *data, int value)
{
    return !report_event(data, JSON_OTHER,
                         value ? SLICE("true") : SLICE("false"));
}

static int
on_number(void *data, const char *text, size_t size)
{
    return !report_event(data, JSON_NUMBER, (struct slice){text, size});
}

static inline uint64_t
is_suspect(uint64_t v)
{
    return swar_below(v, 0x20) | (v & SWAR_HIGHS);
}

/* True if XML can carry the text, which JSON must not exceed: no control
 * characters but tab, LF and CR, no U+FFFE and U+FFFF, and UTF-8 in its
 * shortest form, which yajl does not check. */
static bool
is_xml_text(struct slice text)
{
    if (swar_none(text, is_suspect, ' '))
        return true;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
            return false;
    }
    return scanning_is_text(text);
}

static int
text_event(struct json_parse *json, enum json_event kind, struct slice text)
{
    if (is_xml_text(text))
        return !report_event(json, kind, text);
    json->rc = problem_quoting(json->why, STATUS_INVALID,
                               "a character that XML cannot carry", text);
    return 0;
}

static int
on_string(void *data, const unsigned char *text, size_t size)
{
    return text_event(data, JSON_STRING,
                      (struct slice){(const char *)text, size});
}

static int
on_key(void *data, const unsigned char *text, size_t size)
{
    return text_event(data, JSON_KEY, (struct slice){(const char *)text, size});
}

static int
enter_value(struct json_parse *json, enum json_event kind)
{
    if (++json->depth <= JSON_DEPTH_MAX)
        return !report_event(json, kind, (struct slice){NULL, 0});
    json->rc = problem(json->why, STATUS_INVALID, "nested deeper than %d",
                       JSON_DEPTH_MAX);
    return 0;
}

static int
leave_value(struct json_parse *json, enum json_event kind)
{
    json->depth--;
    return !report_event(json, kind, (struct slice){NULL, 0});
}

static int
on_object(void *data)
{
    return enter_value(data, JSON_OBJECT);
}

static int
on_object_end(void *data)
{
    return leave_value(data, JSON_OBJECT_END);
}

static int
on_array(void *data)
{
    return enter_value(data, JSON_ARRAY);
}

static int
on_array_end(void *data)
{
    return leave_value(data, JSON_ARRAY_END);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_other,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_object_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_array_end,
};

/*
 * Memory
 *
 * yajl writes to what its allocator returns without a look: it crashes without
 * memory. So this allocator returns to the function that called yajl instead,
 * over yajl's head. That leaves yajl in no state to be called again, not even
 * to free what it has.
 */

static bool
is_spare(const struct json_parse *json, const union block *block)
{
    const char *at = (const char *)block;

    return json->spare && at >= json->spare && at < json->spare + SPARE_BYTES;
}

static void *
enter_block(struct json_parse *json, union block *block, size_t size)
{
    if (!block)
        longjmp(json->starved, 1);
    block->in.size = size;
    block->in.before->in.behind = block;
    block->in.behind->in.before = block;
    return block + 1;
}

static void *
take_block(void *user, size_t size)
{
    struct json_parse *json = user;
    size_t whole = (sizeof(union block) + size + sizeof(union block) - 1) /
                   sizeof(union block) * sizeof(union block);
    bool is_small = json->spare && whole <= SPARE_BYTES - json->n_spare;
    union block *block =
        is_small ? (void *)(json->spare + json->n_spare) : memory_room(whole);

    if (is_small)
        json->n_spare += whole;
    if (block) {
        block->in.before = json->blocks.in.before;
        block->in.behind = &json->blocks;
    }
    return enter_block(json, block, size);
}

static void
free_block(void *user, void *bytes)
{
    union block *block = bytes;

    if (!block--)
        return;
    block->in.before->in.behind = block->in.behind;
    block->in.behind->in.before = block->in.before;
    if (!is_spare(user, block))
        free(block);
}

static void *
resize_block(void *user, void *bytes, size_t size)
{
    union block *block = bytes;
    void *more;

    if (!block)
        return take_block(user, size);
    block--;
    if (!is_spare(user, block))
        return enter_block(user, memory_grow(block, 1, sizeof(*block) + size),
                           size);
    more = take_block(user, size);
    memcpy(more, bytes, block->in.size < size ? block->in.size : size);
    free_block(user, bytes);
    return more;
}

static void
free_yajl(struct json_parse *json)
{
    union block *all = &json->blocks;

    while (all->in.behind && all->in.behind != all)
        free_block(json, all->in.behind + 1);
    json->yajl = NULL;
}

static void
make_yajl(struct json_parse *json)
{
    yajl_alloc_funcs memory = {.malloc = take_block,
                               .realloc = resize_block,
                               .free = free_block,
                               .ctx = json};

    json->blocks.in.before = json->blocks.in.behind = &json->blocks;
    if (!setjmp(json->starved))
        json->yajl = yajl_alloc(&callbacks, &memory, json);
}

/* yajl's reason; NULL: no memory. */
static unsigned char *
get_error(struct json_parse *json)
{
    return setjmp(json->starved) ? NULL
                                 : yajl_get_error(json->yajl, 0, NULL, 0);
}

/* Gives yajl the piece; without a piece, the end. */
static yajl_status
run_yajl(struct json_parse *json)
{
    struct slice piece = json->piece;

    if (setjmp(json->starved)) {
        json->rc = problem_memory(json->why);
        return yajl_status_error;
    }
    return piece.size > 0
               ? yajl_parse(json->yajl, (const unsigned char *)piece.data,
                            piece.size)
               : yajl_complete_parse(json->yajl);
}

struct json_parse *
json_parse_new(json_event_fn *on_event, void *user)
{
    struct json_parse *json = memory_new(1, sizeof(*json));

    if (!json)
        return NULL;
    json->on_event = on_event;
    json->user = user;
    if (json_parse_reset(json)) {
        json_parse_free(json);
        return NULL;
    }
    return json;
}

void
json_parse_free(struct json_parse *json)
{
    if (!json)
        return;
    free_yajl(json);
    free(json);
}

/* yajl has no reset; a new parser is four small allocations. */
enum status
json_parse_reset(struct json_parse *json)
{
    json_event_fn *on_event = json->on_event;
    void *user = json->user;

    free_yajl(json);
    *json = (struct json_parse){.on_event = on_event, .user = user, .line = 1};
    make_yajl(json);
    return json->yajl ? STATUS_OK : STATUS_MEMORY;
}

/* One step of the picture above; false at a surrogate without the other. */
static bool
escape_step(struct json_parse *json, char c)
{
    int digit;

    switch (json->escape) {
    case ESCAPE_NONE:
        if (c == '\\')
            json->escape = ESCAPE_BEGUN;
        return true;
    case ESCAPE_HIGH:
        json->escape = ESCAPE_HIGH_BEGUN;
        return c == '\\';
    case ESCAPE_BEGUN:
    case ESCAPE_HIGH_BEGUN:
        json->is_after_high = json->escape == ESCAPE_HIGH_BEGUN;
        json->escape = c == 'u' ? ESCAPE_HEX : ESCAPE_NONE;
        json->n_hex = 0;
        json->hex = 0;
        return c == 'u' || !json->is_after_high;
    case ESCAPE_HEX:
        break;
    }

    digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    json->hex = json->hex << 4 | ((unsigned)digit & 15);
    if (++json->n_hex < 4)
        return true;
    if (json->is_after_high || json->hex < 0xd800 || json->hex > 0xdfff) {
        json->escape = ESCAPE_NONE;
        return !json->is_after_high ||
               (json->hex >= 0xdc00 && json->hex <= 0xdfff);
    }
    json->escape = ESCAPE_HIGH;
    return json->hex < 0xdc00;
}

/* Runs before yajl gets the piece, so that yajl's version of a lone surrogate
 * reaches nobody. */
static enum status
check_surrogates(struct json_parse *json)
{
    struct slice text = json->piece;
    size_t i = 0;

    while (i < text.size) {
        if (json->escape == ESCAPE_NONE) {
            const char *p = memchr(text.data + i, '\\', text.size - i);

            if (!p)
                break;
            i = (size_t)(p - text.data);
        }
        if (!escape_step(json, text.data[i++])) {
            text.size = i;
            json->line += count_lines(text);
            return problem(json->why, STATUS_INVALID,
                           "half of a surrogate pair in a string");
        }
    }
    return STATUS_OK;
}

/* yajl accepts vertical tabs and form feeds as white space. JSON does not (RFC
 * 8259 section 2), nor does the code that cuts accepted text into pieces.
 * Within a string yajl refuses both itself. */
static enum status
check_space(struct json_parse *json)
{
    struct slice text = json->piece;

    for (const char *c = "\v\f"; *c; c++) {
        const char *p = memchr(text.data, *c, text.size);

        if (p)
            text.size = (size_t)(p - text.data);
    }
    if (text.size == json->piece.size)
        return STATUS_OK;
    json->line += count_lines(text);
    return problem(json->why, STATUS_MALFORMED,
                   "not JSON: a vertical tab or form feed");
}

/* yajl's reason, which is two lines, as one. */
static enum status
syntax_error(struct json_parse *json)
{
    unsigned char *text = get_error(json);
    struct slice reason;
    enum status rc;

    if (!text)
        return problem_memory(json->why);
    reason = slice_of((const char *)text);
    while (reason.size > 0 && reason.data[reason.size - 1] == '\n')
        reason.size--;
    rc = problem(json->why, STATUS_MALFORMED, "not JSON: %s",
                 problem_quote(reason).text);
    yajl_free_error(json->yajl, text);
    return rc;
}

static void
parse_some(struct json_parse *json)
{
    struct slice piece = json->piece;
    yajl_status status;

    json->rc = check_space(json);
    if (!json->rc)
        json->rc = check_surrogates(json);
    if (json->rc)
        return;
    json->last = 0;
    status = run_yajl(json);
    if (status != yajl_status_ok && !json->rc)
        json->rc = syntax_error(json);
    if (json->rc) {
        json->line = json_parse_line(json);
        return;
    }
    json->line += count_lines(piece);
    json->since += piece.size - json->last;
    if (json->since > ENTRY_BYTES_MAX)
        json->rc =
            problem(json->why, STATUS_INVALID,
                    "a string or space of more than %d bytes", ENTRY_BYTES_MAX);
}

enum status
json_parse_feed(struct json_parse *json, struct slice bytes,
                struct problem *why)
{
    json->why = why;
    if (!json->rc && !bom_skip(&json->bom, &bytes))
        json->rc = problem(why, STATUS_MALFORMED,
                           "not JSON: it begins with half a byte order mark");
    while (bytes.size > 0 && !json->rc) {
        json->piece = bytes;
        if (json->piece.size > PIECE_SIZE)
            json->piece.size = PIECE_SIZE;
        slice_skip(&bytes, json->piece.size);
        parse_some(json);
        json->piece.size = 0;
    }
    json->why = NULL;
    return json->rc;
}

void
json_parse_pass(struct json_parse *json, uint64_t n_lines)
{
    json->line += n_lines;
    json->since = 0;
}

enum status
json_parse_end(struct json_parse *json, struct problem *why)
{
    json->why = why;
    if (!json->rc && run_yajl(json) != yajl_status_ok && !json->rc)
        json->rc = syntax_error(json);
    json->why = NULL;
    return json->rc;
}

uint64_t
json_parse_line(const struct json_parse *json)
{
    struct slice done = json->piece;
    size_t at = done.size ? yajl_get_bytes_consumed(json->yajl) : 0;

    if (at < done.size)
        done.size = at;
    return json->line + count_lines(done);
}

enum status
json_parse_text(struct slice text, json_event_fn *on_event, void *user,
                struct problem *why)
{
    max_align_t spare[SPARE_BYTES / sizeof(max_align_t)];
    struct json_parse json = {
        .on_event = on_event, .user = user, .line = 1, .spare = (char *)spare};
    enum status rc;

    make_yajl(&json);
    if (!json.yajl)
        return problem_memory(why);
    rc = json_parse_feed(&json, text, why);
    if (!rc)
        rc = json_parse_end(&json, why);
    if (rc && why)
        why->line = json_parse_line(&json);
    free_yajl(&json);
    return rc;
}

size_t
json_parse_held(const struct json_parse *json)
{
    return json->since;
}
