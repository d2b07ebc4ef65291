#include "broker/log/record.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/log/batch.h"
#include "proto/memory.h"
#include "proto/number.h"
#include "proto/uri.h"

/* How a record begins. */
enum {
    VERSION_PLAIN = 1,
    VERSION_DEFLATED = 2,
    VERSION_ARCHIVED = 3,
    VERSION_HARVEST = RECORD_VERSION
};

/* A smaller record is not deflated. */
#define DEFLATED_MIN 4096

/* Deflate makes no more than so many bytes of one (RFC 1951). */
#define INFLATED_MAX 1032

enum field_type {
    FIELD_NUMBER, /* uint64_t */
    FIELD_TIME,   /* int64_t */
    FIELD_FLAG,   /* bool */
    FIELD_KIND,   /* enum generation_kind */
    FIELD_BYTES,  /* struct slice */
    FIELD_EPOCH,  /* char[EPOCH_SIZE + 1] */
    FIELD_DIGEST, /* struct digest */
    FIELD_BATCH   /* const struct batch * */
};

struct field {
    enum act_kind kind;
    enum field_type type;
    size_t offset; /* in struct act */
};

#define FIELD(kind, type, member)                        \
    {                                                    \
        kind, FIELD_##type, offsetof(struct act, member) \
    }

/* What a record tells of an act, for all kinds: those of one kind are in their
 * order. A released row never changes: a new field is a new version. */
static const struct field fields[] = {
    FIELD(ACT_BIRTH, EPOCH, birth.epoch),
    FIELD(ACT_BIRTH, TIME, birth.created_us),
    FIELD(ACT_BIRTH, NUMBER, birth.start_list),
    FIELD(ACT_BIRTH, BYTES, birth.creator),

    FIELD(ACT_BATCH, BATCH, entries.batch),
    FIELD(ACT_BATCH, NUMBER, entries.commit_after),

    FIELD(ACT_LIST_END, NUMBER, list_end.info.number),
    FIELD(ACT_LIST_END, NUMBER, list_end.info.after),
    FIELD(ACT_LIST_END, NUMBER, list_end.info.last),
    FIELD(ACT_LIST_END, TIME, list_end.info.from_us),
    FIELD(ACT_LIST_END, TIME, list_end.info.until_us),
    FIELD(ACT_LIST_END, NUMBER, list_end.info.bytes),
    FIELD(ACT_LIST_END, DIGEST, list_end.info.before),
    FIELD(ACT_LIST_END, DIGEST, list_end.info.digest),
    FIELD(ACT_LIST_END, BYTES, list_end.header),
    FIELD(ACT_LIST_END, NUMBER, list_end.commit_after),
    FIELD(ACT_LIST_END, NUMBER, list_end.first_list),

    FIELD(ACT_KEY, DIGEST, key.id),
    FIELD(ACT_KEY, DIGEST, key.entries),
    FIELD(ACT_KEY, NUMBER, key.first),
    FIELD(ACT_KEY, NUMBER, key.last),
    FIELD(ACT_KEY, TIME, key.last_us),

    FIELD(ACT_SETTINGS, BYTES, settings.text),
    FIELD(ACT_SETTINGS, TIME, settings.changed_us),

    FIELD(ACT_RETIREMENT, NUMBER, retirement.last),
    FIELD(ACT_RETIREMENT, NUMBER, retirement.earliest),
    FIELD(ACT_RETIREMENT, NUMBER, retirement.first),
    FIELD(ACT_RETIREMENT, NUMBER, retirement.open_list),
    FIELD(ACT_RETIREMENT, TIME, retirement.due_us),

    FIELD(ACT_REMOVAL, NUMBER, removal.first),
    FIELD(ACT_REMOVAL, NUMBER, removal.last),
    FIELD(ACT_REMOVAL, NUMBER, removal.next_list),
    FIELD(ACT_REMOVAL, TIME, removal.removed_us),
    FIELD(ACT_REMOVAL, TIME, removal.due_us),
    FIELD(ACT_REMOVAL, BYTES, removal.creator),

    FIELD(ACT_GENERATION, KIND, generation.build.kind),
    FIELD(ACT_GENERATION, NUMBER, generation.build.number),
    FIELD(ACT_GENERATION, NUMBER, generation.build.after),
    FIELD(ACT_GENERATION, NUMBER, generation.build.seq),
    FIELD(ACT_GENERATION, TIME, generation.build.from_us),
    FIELD(ACT_GENERATION, TIME, generation.build.at_us),
    FIELD(ACT_GENERATION, TIME, generation.build.completed_us),
    FIELD(ACT_GENERATION, NUMBER, generation.build.n),
    FIELD(ACT_GENERATION, NUMBER, generation.build.parts),
    FIELD(ACT_GENERATION, NUMBER, generation.build.bytes),
    FIELD(ACT_GENERATION, FLAG, generation.build.is_archived),
    FIELD(ACT_GENERATION, TIME, generation.due_us),
    FIELD(ACT_GENERATION, FLAG, generation.is_first),
    FIELD(ACT_GENERATION, NUMBER, generation.n_archived),
    FIELD(ACT_GENERATION, NUMBER, generation.first_archived),

    FIELD(ACT_UNARCHIVED, KIND, unarchived.kind),
    FIELD(ACT_UNARCHIVED, NUMBER, unarchived.n),
    FIELD(ACT_UNARCHIVED, NUMBER, unarchived.first_archived),
    FIELD(ACT_UNARCHIVED, NUMBER, unarchived.n_archived),
    FIELD(ACT_UNARCHIVED, NUMBER, unarchived.last),
    FIELD(ACT_UNARCHIVED, TIME, unarchived.due_us),

    FIELD(ACT_HARVEST, BYTES, harvest.text),
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* The first row of `kind`, or the next one after `field`; NULL: there is none,
 * and so the kind is local, or unknown. */
static const struct field *
next_field(uint64_t kind, const struct field *field)
{
    size_t i = field ? (size_t)(field - fields) + 1 : 0;

    while (i < N_FIELDS && fields[i].kind != kind)
        i++;
    return i < N_FIELDS ? &fields[i] : NULL;
}

/* Writing */

static void
add_number(struct buf *to, uint64_t number)
{
    char bytes[LEB128_SIZE_MAX];

    buf_add(to, bytes, leb128_write(bytes, number));
}

/* DATETIME_NONE and other negative times are short, too. */
static void
add_time(struct buf *to, int64_t us)
{
    add_number(to, (uint64_t)us << 1 ^ (us < 0 ? UINT64_MAX : 0));
}

static void
add_bytes(struct buf *to, struct slice bytes)
{
    add_number(to, bytes.size);
    buf_add_slice(to, bytes);
}

static void
add_batch(struct buf *to, const struct batch *b)
{
    add_number(to, b->first - 1);
    add_time(to, b->before_us);
    buf_add(to, b->before.bytes, DIGEST_SIZE);
    buf_add(to, b->digest.bytes, DIGEST_SIZE);
    add_number(to, b->list);
    add_number(to, b->list_bytes);
    add_bytes(to, (struct slice){b->bytes, b->size});
}

static void
add_field(struct buf *to, enum field_type type, const void *value)
{
    switch (type) {
    case FIELD_NUMBER:
        add_number(to, *(const uint64_t *)value);
        break;
    case FIELD_TIME:
        add_time(to, *(const int64_t *)value);
        break;
    case FIELD_FLAG:
        add_number(to, *(const bool *)value);
        break;
    case FIELD_KIND:
        add_number(to, *(const enum generation_kind *)value);
        break;
    case FIELD_BYTES:
        add_bytes(to, *(const struct slice *)value);
        break;
    case FIELD_EPOCH:
        buf_add(to, value, EPOCH_SIZE);
        break;
    case FIELD_DIGEST:
        buf_add(to, ((const struct digest *)value)->bytes, DIGEST_SIZE);
        break;
    case FIELD_BATCH:
        add_batch(to, *(const struct batch *const *)value);
        break;
    }
}

static void
add_act(struct buf *to, const struct act *act)
{
    const struct field *field = NULL;

    add_number(to, act->kind);
    add_number(to, act->set_id);
    /* With its NUL: a reader lends the name. */
    add_bytes(to, (struct slice){act->name, strlen(act->name) + 1});
    while ((field = next_field(act->kind, field)))
        add_field(to, field->type, (const char *)act + field->offset);
}

/* Deflates the record in `to`, which begins at `from`. It stays as it is if
 * that does not save an eighth, or without memory. A compressor is made for
 * each: that costs microseconds, and a round of a cluster takes a millisecond.
 */
static void
deflate_record(struct buf *to, size_t from)
{
    struct libdeflate_compressor *z = libdeflate_alloc_compressor(1);
    size_t size = to->size - from, room = size - size / 8, deflated = 0;
    struct buf all;
    char *at;

    buf_init(&all, SIZE_MAX);
    add_number(&all, VERSION_DEFLATED);
    add_number(&all, size);
    at = buf_room(&all, room);
    if (z && at)
        deflated =
            libdeflate_deflate_compress(z, to->data + from, size, at, room);
    if (deflated > 0) {
        all.size += deflated;
        to->size = from;
        buf_add_slice(to, buf_slice(&all));
    }
    buf_fini(&all);
    libdeflate_free_compressor(z);
}

/* The version of a record that is not deflated. A program before
 * VERSION_ARCHIVED would archive no list that is ordered for the archive; one
 * before VERSION_HARVEST does not know the act. */
static uint64_t
version_of(const struct commit *commit)
{
    uint64_t version = VERSION_PLAIN;

    for (size_t i = 0; i < commit->n; i++) {
        const struct act *act = &commit->acts[i];

        if (act->kind == ACT_GENERATION &&
            generation_is_order(&act->generation.build) &&
            act->generation.build.is_archived && version < VERSION_ARCHIVED)
            version = VERSION_ARCHIVED;
        if (act->kind == ACT_HARVEST)
            version = VERSION_HARVEST;
    }
    return version;
}

void
record_write(struct buf *to, const struct commit *commit, size_t *n_shared)
{
    size_t from = to->size;
    uint64_t version = version_of(commit);

    *n_shared = 0;
    for (size_t i = 0; i < commit->n; i++)
        *n_shared += next_field(commit->acts[i].kind, NULL) != NULL;
    add_number(to, version);
    add_time(to, commit->at_us);
    add_number(to, *n_shared);
    for (size_t i = 0; i < commit->n; i++)
        if (next_field(commit->acts[i].kind, NULL))
            add_act(to, &commit->acts[i]);
    if (!to->failed && version == VERSION_PLAIN &&
        to->size - from >= DEFLATED_MIN)
        deflate_record(to, from);
}

/* Reading */

struct reading {
    struct record *record;
    struct slice rest;
    atomic_size_t *forms;
    bool has_no_memory;
};

static bool
take_time(struct slice *rest, int64_t *us)
{
    uint64_t number;

    if (!leb128_take(rest, &number))
        return false;
    *us = (int64_t)(number >> 1 ^ (number & 1 ? UINT64_MAX : 0));
    return true;
}

static bool
take_raw(struct slice *rest, void *to, size_t size)
{
    if (rest->size < size)
        return false;
    memcpy(to, rest->data, size);
    slice_skip(rest, size);
    return true;
}

static bool
take_bytes(struct slice *rest, struct slice *bytes)
{
    uint64_t size;

    if (!leb128_take(rest, &size) || size > rest->size)
        return false;
    *bytes = (struct slice){rest->data, (size_t)size};
    slice_skip(rest, (size_t)size);
    return true;
}

/* The act owns the batch. */
static bool
take_batch(struct reading *r, const struct batch **batch)
{
    uint64_t after, list, list_bytes;
    struct digest before, digest;
    struct slice bytes;
    struct batch *b;
    int64_t before_us;
    enum status rc;

    if (!leb128_take(&r->rest, &after) || !take_time(&r->rest, &before_us) ||
        !take_raw(&r->rest, before.bytes, DIGEST_SIZE) ||
        !take_raw(&r->rest, digest.bytes, DIGEST_SIZE) ||
        !leb128_take(&r->rest, &list) || !leb128_take(&r->rest, &list_bytes) ||
        !take_bytes(&r->rest, &bytes) || bytes.size == 0 ||
        bytes.size > BATCH_BYTES_MAX)
        return false;
    b = batch_new(after, before_us, &before, r->forms);
    *batch = b;
    rc = batch_append(b, bytes, &digest, NULL);
    r->has_no_memory = rc == STATUS_MEMORY;
    if (rc)
        return false;
    batch_trim(b);
    b->list = list;
    b->list_bytes = list_bytes;
    return true;
}

static bool
take_field(struct reading *r, enum field_type type, void *value)
{
    struct slice *rest = &r->rest;
    uint64_t number;

    switch (type) {
    case FIELD_NUMBER:
        return leb128_take(rest, value);
    case FIELD_TIME:
        return take_time(rest, value);
    case FIELD_FLAG:
        if (!leb128_take(rest, &number) || number > 1)
            return false;
        *(bool *)value = number == 1;
        return true;
    case FIELD_KIND:
        if (!leb128_take(rest, &number) || number >= GENERATION_KINDS)
            return false;
        *(enum generation_kind *)value = (enum generation_kind)number;
        return true;
    case FIELD_BYTES:
        return take_bytes(rest, value);
    case FIELD_EPOCH: /* the NUL is there: the act was all zero */
        return take_raw(rest, value, EPOCH_SIZE) &&
               epoch_is_valid((struct slice){value, EPOCH_SIZE});
    case FIELD_DIGEST:
        return take_raw(rest, ((struct digest *)value)->bytes, DIGEST_SIZE);
    case FIELD_BATCH:
        return take_batch(r, value);
    }
    return false;
}

/* Takes the name of a set, with its NUL. The name of the log of framework
 * events is one that no set can have: it begins with "_". */
static bool
take_name(struct slice *rest, const char **name)
{
    struct slice text;

    if (!take_bytes(rest, &text) || text.size < 2 ||
        text.data[text.size - 1] != '\0')
        return false;
    *name = text.data;
    text.size--;
    (void)slice_take_char(&text, '_');
    return set_name_is_valid(text);
}

static void
drop_batch(struct act *act)
{
    if (act->kind == ACT_BATCH)
        batch_unref((struct batch *)(uintptr_t)act->entries.batch);
}

static bool
take_act(struct reading *r, struct act *act)
{
    const struct field *field = NULL;
    uint64_t kind, id;

    *act = (struct act){.kind = ACT_KINDS};
    if (!leb128_take(&r->rest, &kind) || !next_field(kind, NULL) ||
        !leb128_take(&r->rest, &id) || id == 0 || id > UINT32_MAX ||
        !take_name(&r->rest, &act->name))
        return false;
    act->kind = (enum act_kind)kind;
    act->set_id = (uint32_t)id;
    while ((field = next_field(kind, field)))
        if (!take_field(r, field->type, (char *)act + field->offset)) {
            drop_batch(act);
            return false;
        }
    return true;
}

static bool
take_acts(struct reading *r, uint64_t n)
{
    struct record *record = r->record;

    for (; n > 0; n--) {
        r->has_no_memory =
            !ONE_MORE(record->acts, &record->capacity, record->n);
        if (r->has_no_memory || !take_act(r, &record->acts[record->n]))
            return false;
        record->n++;
    }
    return true;
}

/* Sets *plain to the bytes of a record that is deflated in `rest`, which it
 * keeps. */
static enum status
inflate_record(struct record *record, struct slice rest, struct slice *plain,
               struct problem *why)
{
    struct libdeflate_decompressor *z;
    bool is_inflated;
    uint64_t size;
    size_t used;

    if (!leb128_take(&rest, &size) || size == 0 ||
        size / INFLATED_MAX > rest.size)
        return problem(why, STATUS_MALFORMED, "it is no record of a commit");
    z = libdeflate_alloc_decompressor();
    record->plain = memory_room(size);
    if (!z || !record->plain) {
        libdeflate_free_decompressor(z);
        return problem_memory(why);
    }
    is_inflated = !libdeflate_deflate_decompress_ex(z, rest.data, rest.size,
                                                    record->plain, (size_t)size,
                                                    &used, NULL) &&
                  used == rest.size;
    libdeflate_free_decompressor(z);
    if (!is_inflated)
        return problem(why, STATUS_MALFORMED, "the record cannot be inflated");
    *plain = (struct slice){record->plain, (size_t)size};
    return STATUS_OK;
}

/* Takes the version of a record, and sets *plain to what follows it. */
static enum status
open_record(struct record *record, struct slice bytes, struct slice *plain,
            struct problem *why)
{
    uint64_t version;
    enum status rc;

    if (!leb128_take(&bytes, &version) || version == 0)
        return problem(why, STATUS_MALFORMED, "it is no record of a commit");
    if (version > RECORD_VERSION)
        return problem(why, STATUS_UNSUPPORTED,
                       "a newer tidingsd wrote it: it has version %llu, and "
                       "this program reads versions up to %d",
                       (unsigned long long)version, RECORD_VERSION);
    *plain = bytes;
    if (version != VERSION_DEFLATED)
        return STATUS_OK;
    rc = inflate_record(record, bytes, plain, why);
    if (!rc && (!leb128_take(plain, &version) || version != VERSION_PLAIN))
        rc = problem(why, STATUS_MALFORMED, "it is no record of a commit");
    return rc;
}

enum status
record_read(struct record *record, struct slice bytes, atomic_size_t *forms,
            struct problem *why)
{
    struct reading r = {.record = record, .forms = forms};
    enum status rc;
    uint64_t n;

    *record = (struct record){.n = 0};
    rc = open_record(record, bytes, &r.rest, why);
    if (rc)
        return rc;
    record->size = r.rest.size;
    if (!take_time(&r.rest, &record->at_us) || !leb128_take(&r.rest, &n))
        return problem(why, STATUS_MALFORMED, "it is no record of a commit");
    if (!take_acts(&r, n))
        return r.has_no_memory ? problem_memory(why)
                               : problem(why, STATUS_MALFORMED,
                                         "act %zu of the record cannot be read",
                                         record->n + 1);
    return r.rest.size == 0 ? STATUS_OK
                            : problem(why, STATUS_MALFORMED,
                                      "the record goes on behind its last act");
}

void
record_fini(struct record *r)
{
    for (size_t i = 0; i < r->n; i++)
        drop_batch(&r->acts[i]);
    free(r->acts);
    free(r->plain);
    *r = (struct record){.n = 0};
}
