#include "broker/log/record.h"

#include <libdeflate.h>

#include "base/array.h"
#include "broker/log/batch.h"
#include "proto/number.h"

/* How a record begins. */
enum {
    VERSION_PLAIN = 1,
    VERSION_DEFLATED = 2,
    VERSION_ARCHIVED = 3,
    VERSION_HARVEST = 4,
    VERSION_CONTENT = 5,
    VERSION_PARTED = 6,
    VERSION_EPOCH = RECORD_VERSION
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
    FIELD_BULK,   /* likewise, of the bulk */
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

/* What a record has of an act, for all kinds: the rows of one kind are in their
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

    FIELD(ACT_CONTENT, NUMBER, content.seq),
    FIELD(ACT_CONTENT, TIME, content.due_us),
    FIELD(ACT_CONTENT, DIGEST, content.digest),
    FIELD(ACT_CONTENT, NUMBER, content.length),
    FIELD(ACT_CONTENT, BULK, content.bytes),

    FIELD(ACT_EPOCH, EPOCH, epoch.name),
    FIELD(ACT_EPOCH, NUMBER, epoch.after),
    FIELD(ACT_EPOCH, NUMBER, epoch.builds[GENERATION_RESOURCELIST]),
    FIELD(ACT_EPOCH, NUMBER, epoch.builds[GENERATION_RESOURCEDUMP]),
};

/* The first row of `kind`, or the next one after `field`; NULL: there is none,
 * and so the kind is local, or unknown. */
static const struct field *
next_field(uint64_t kind, const struct field *field)
{
    size_t i = field ? (size_t)(field - fields) + 1 : 0;

    while (i < N_ELEMENTS(fields) && fields[i].kind != kind)
        i++;
    return i < N_ELEMENTS(fields) ? &fields[i] : NULL;
}

/* Fields */

/* Writes fields, or reads them. */
struct codec {
    struct buf *to; /* NULL: it reads */
    struct slice rest;
    atomic_size_t *forms;
    int64_t at_us;      /* of the commit */
    struct codec *bulk; /* NULL: it is in its place */
    struct buf stamped; /* the entries of a batch of the bulk that is read */
    bool is_unclear;    /* its times do not follow from the head */
    bool has_no_memory;
};

static bool
code_number(struct codec *c, uint64_t *number)
{
    char bytes[LEB128_SIZE_MAX];

    if (!c->to)
        return leb128_take(&c->rest, number);
    buf_add(c->to, bytes, leb128_write(bytes, *number));
    return true;
}

/* DATETIME_NONE and other negative times are short, too. */
static bool
code_time(struct codec *c, int64_t *us)
{
    uint64_t number = (uint64_t)*us << 1 ^ (*us < 0 ? UINT64_MAX : 0);

    if (!code_number(c, &number))
        return false;
    *us = (int64_t)(number >> 1 ^ (number & 1 ? UINT64_MAX : 0));
    return true;
}

static bool
code_raw(struct codec *c, void *bytes, size_t size)
{
    if (c->to) {
        buf_add(c->to, bytes, size);
        return true;
    }
    if (c->rest.size < size)
        return false;
    memcpy(bytes, c->rest.data, size);
    slice_skip(&c->rest, size);
    return true;
}

/* The bytes are in `in`, their size is in `c`. */
static bool
code_bytes_in(struct codec *c, struct codec *in, struct slice *bytes)
{
    uint64_t size = bytes->size;

    if (!code_number(c, &size))
        return false;
    if (in->to) {
        buf_add_slice(in->to, *bytes);
        return true;
    }
    if (size > in->rest.size)
        return false;
    *bytes = (struct slice){in->rest.data, (size_t)size};
    slice_skip(&in->rest, (size_t)size);
    return true;
}

static bool
code_bytes(struct codec *c, struct slice *bytes)
{
    return code_bytes_in(c, c, bytes);
}

/* Puts the entries of a batch into the bulk. */
static void
write_bulk(struct codec *c, const struct batch *b)
{
    struct codec *bulk = c->bulk;
    uint64_t n = b->n_entries;
    int64_t last_us = b->before_us;

    (void)code_number(c, &n);
    for (size_t i = 0; i < n; i++) {
        struct slice text = batch_slice(b, b->first + i - 1, b->first + i);
        struct fragment f;
        size_t stamp = fragment_unstamp(text, b->entries[i].stamp, &f);
        uint64_t size = f.size, hole = f.hole;
        int64_t us = fragment_time(text.data, b->entries[i].stamp);

        if (f.datetime_us == DATETIME_NONE &&
            us != event_time(last_us, DATETIME_NONE, c->at_us))
            f.datetime_us = us; /* the source's own */
        if (us != event_time(last_us, f.datetime_us, c->at_us))
            c->is_unclear = true;
        last_us = us;
        (void)code_time(bulk, &f.datetime_us);
        (void)code_number(bulk, &size);
        (void)code_number(bulk, &hole);
        buf_add(bulk->to, text.data, hole);
        buf_add_slice(bulk->to, slice_from(text, hole + stamp));
    }
}

static bool
is_a_time(int64_t us)
{
    return us >= DATETIME_FIRST && us <= DATETIME_LAST;
}

/* Stamps the next entries of the bulk, as they were for the writer. False: they
 * are none. */
static bool
read_bulk(struct codec *c, uint64_t after, int64_t us, struct slice *entries)
{
    struct codec *bulk = c->bulk;
    struct buf *stamped = &bulk->stamped;
    uint64_t n, size, hole;
    struct fragment f;

    buf_clear(stamped);
    if (!code_number(c, &n))
        return false;
    for (uint64_t seq = after + 1; seq <= after + n; seq++) {
        char *to;

        if (!code_time(bulk, &f.datetime_us) || !code_number(bulk, &size) ||
            !code_number(bulk, &hole) || size > bulk->rest.size ||
            hole > size || size > FRAGMENT_MAX - FRAGMENT_STAMP_MAX ||
            stamped->size > BATCH_BYTES_MAX || us >= DATETIME_LAST)
            return false;
        us = event_time(us, f.datetime_us, c->at_us);
        if (!is_a_time(us) ||
            (f.datetime_us != DATETIME_NONE && !is_a_time(f.datetime_us)))
            return false;
        to = buf_room(stamped, size + FRAGMENT_STAMP_MAX);
        c->has_no_memory = !to;
        if (!to)
            return false;
        f.size = (uint32_t)size;
        f.hole = (uint32_t)hole;
        stamped->size += fragment_stamp(to, bulk->rest.data, &f, us, seq);
        slice_skip(&bulk->rest, size);
    }
    *entries = buf_slice(stamped);
    return true;
}

/* The act that is read owns the batch. */
static bool
code_batch(struct codec *c, const struct batch **batch)
{
    uint64_t after = 0, list = 0, list_bytes = 0;
    struct digest before, digest;
    struct slice bytes = {NULL, 0};
    int64_t before_us = 0;
    struct batch *b;
    enum status rc;

    if (c->to) {
        after = (*batch)->first - 1;
        before_us = (*batch)->before_us;
        before = (*batch)->before;
        digest = (*batch)->digest;
        list = (*batch)->list;
        list_bytes = (*batch)->list_bytes;
        bytes = (struct slice){(*batch)->bytes, (*batch)->size};
    }
    if (!code_number(c, &after) || !code_time(c, &before_us) ||
        !code_raw(c, before.bytes, DIGEST_SIZE) ||
        !code_raw(c, digest.bytes, DIGEST_SIZE) || !code_number(c, &list) ||
        !code_number(c, &list_bytes))
        return false;
    if (c->to && c->bulk)
        write_bulk(c, *batch);
    else if (!(c->bulk ? read_bulk(c, after, before_us, &bytes)
                       : code_bytes(c, &bytes)))
        return false;
    if (c->to)
        return true;
    if (bytes.size == 0 || bytes.size > BATCH_BYTES_MAX)
        return false;
    b = batch_new(after, before_us, &before, c->forms);
    *batch = b;
    rc = batch_append(b, bytes, &digest, NULL);
    c->has_no_memory = rc == STATUS_MEMORY;
    if (rc)
        return false;
    batch_trim(b);
    b->list = list;
    b->list_bytes = list_bytes;
    return true;
}

static bool
code_field(struct codec *c, enum field_type type, void *value)
{
    uint64_t number;

    switch (type) {
    case FIELD_NUMBER:
        return code_number(c, value);
    case FIELD_TIME:
        return code_time(c, value);
    case FIELD_FLAG:
        number = *(bool *)value;
        if (!code_number(c, &number) || number > 1)
            return false;
        *(bool *)value = number == 1;
        return true;
    case FIELD_KIND:
        number = *(enum generation_kind *)value;
        if (!code_number(c, &number) || number >= GENERATION_KINDS)
            return false;
        *(enum generation_kind *)value = (enum generation_kind)number;
        return true;
    case FIELD_BYTES:
        return code_bytes(c, value);
    case FIELD_BULK:
        return code_bytes_in(c, c->bulk ? c->bulk : c, value);
    case FIELD_EPOCH: /* the NUL is there: an act that is read was all zero */
        return code_raw(c, value, EPOCH_SIZE) &&
               (c->to || epoch_is_valid((struct slice){value, EPOCH_SIZE}));
    case FIELD_DIGEST:
        return code_raw(c, ((struct digest *)value)->bytes, DIGEST_SIZE);
    case FIELD_BATCH:
        return code_batch(c, value);
    }
    return false;
}

/* True for the name of a set, with its NUL: a reader lends it. The name of the
 * log of framework events is one that no set can have: it begins with "_". */
static bool
is_name(struct slice text)
{
    if (text.size < 2 || text.data[text.size - 1] != '\0')
        return false;
    text.size--;
    (void)slice_take_char(&text, '_');
    return set_name_is_valid(text);
}

/* Writes an act, or reads it into one that is all zero. False: that is none, or
 * there is no memory; it has what was read. The reader checks. */
static bool
code_act(struct codec *c, struct act *act)
{
    const struct field *field = NULL;
    uint64_t kind = act->kind, id = act->set_id;
    struct slice name = {act->name, act->name ? strlen(act->name) + 1 : 0};

    if (!code_number(c, &kind) || !code_number(c, &id) || !code_bytes(c, &name))
        return false;
    if (!c->to && (!next_field(kind, NULL) || id == 0 || id > UINT32_MAX ||
                   !is_name(name)))
        return false;
    act->kind = (enum act_kind)kind;
    act->set_id = (uint32_t)id;
    act->name = name.data;
    while ((field = next_field(kind, field)))
        if (!code_field(c, field->type, (char *)act + field->offset))
            return false;
    return true;
}

/* Writing */

/* The first version whose programs do with the act what it means. */
static uint64_t
version_of(const struct act *act)
{
    const struct generation *build = &act->generation.build;
    bool is_order = act->kind == ACT_GENERATION && generation_is_order(build);

    if (act->kind == ACT_EPOCH)
        return VERSION_EPOCH;
    if (act->kind == ACT_CONTENT ||
        (is_order && build->kind == GENERATION_RESOURCEDUMP))
        return VERSION_CONTENT;
    if (act->kind == ACT_HARVEST)
        return VERSION_HARVEST;
    return is_order && build->is_archived ? VERSION_ARCHIVED : VERSION_PLAIN;
}

/* Writes a record, not deflated, and its bulk apart if c->bulk is there.
 * Returns its version. */
static uint64_t
write_acts(struct codec *c, const struct commit *commit, size_t *n_shared)
{
    uint64_t version = VERSION_PLAIN, n = 0;

    /* A program before VERSION_ARCHIVED would archive no list that is ordered
     * for the archive; those before the next ones do not know these acts. */
    for (size_t i = 0; i < commit->n; i++) {
        const struct act *act = &commit->acts[i];

        n += next_field(act->kind, NULL) != NULL;
        if (version < version_of(act))
            version = version_of(act);
    }
    *n_shared = n;
    c->at_us = commit->at_us;
    (void)code_number(c, &version);
    (void)code_time(c, &c->at_us);
    (void)code_number(c, &n);
    for (size_t i = 0; i < commit->n; i++) {
        struct act act = commit->acts[i];

        if (next_field(act.kind, NULL))
            (void)code_act(c, &act);
    }
    return version;
}

/* Appends `plain` deflated, in less than `room` bytes; 0: however many. Nothing
 * is appended if that cannot be, or there is no memory. A compressor is made
 * for each record: that costs microseconds, and a round of a cluster takes a
 * millisecond. */
static void
deflate_into(struct buf *to, struct slice plain, size_t room)
{
    struct libdeflate_compressor *z = libdeflate_alloc_compressor(1);
    char *at = NULL;

    if (z) {
        if (room == 0)
            room = libdeflate_deflate_compress_bound(z, plain.size);
        at = buf_room(to, room);
    }
    if (at)
        to->size +=
            libdeflate_deflate_compress(z, plain.data, plain.size, at, room);
    libdeflate_free_compressor(z);
}

/* Writes a record and its bulk apart. False: it has no bulk, or cannot be read
 * so (also by earlier programs), or there is no memory. */
static bool
write_parts(struct buf *head, struct buf *bulk, const struct commit *commit,
            size_t *n_shared)
{
    struct codec apart = {.to = bulk};
    struct codec c = {.to = head, .bulk = &apart};

    return write_acts(&c, commit, n_shared) <= VERSION_CONTENT &&
           !c.is_unclear && !head->failed && !bulk->failed && bulk->size > 0;
}

void
bulk_write(struct bulk *bulk, const struct commit *commit)
{
    struct buf head = {.max = SIZE_MAX};
    size_t n_shared;

    bulk_clear(bulk);
    if (write_parts(&head, &bulk->plain, commit, &n_shared))
        deflate_into(&bulk->deflated, buf_slice(&bulk->plain), 0);
    buf_fini(&head);
    if (bulk->deflated.size == 0)
        bulk_clear(bulk);
}

void
bulk_clear(struct bulk *bulk)
{
    buf_fini(&bulk->plain);
    buf_fini(&bulk->deflated);
    bulk->plain = bulk->deflated = (struct buf){.max = SIZE_MAX};
}

/* Appends a record that ends with `bulk`. False: its bulk is another one. */
static bool
write_parted(struct buf *to, const struct commit *commit,
             const struct bulk *bulk, size_t *n_shared)
{
    struct codec c = {.to = to};
    struct buf head = {.max = SIZE_MAX}, plain = {.max = SIZE_MAX};
    bool is_written = write_parts(&head, &plain, commit, n_shared) &&
                      slice_equal(buf_slice(&plain), buf_slice(&bulk->plain));
    uint64_t version = VERSION_PARTED, size = plain.size;
    struct slice bytes = buf_slice(&head);

    if (is_written) {
        (void)code_number(&c, &version);
        (void)code_bytes(&c, &bytes);
        (void)code_number(&c, &size);
        buf_add_slice(to, buf_slice(&bulk->deflated));
    }
    buf_fini(&head);
    buf_fini(&plain);
    return is_written;
}

void
record_write(struct buf *to, const struct commit *commit,
             const struct bulk *bulk, size_t *n_shared)
{
    struct codec c = {.to = to};
    size_t from = to->size, begun;
    uint64_t version, plain;
    struct buf all = {.max = SIZE_MAX};

    if (bulk && bulk->deflated.size > 0 &&
        write_parted(to, commit, bulk, n_shared))
        return;
    version = write_acts(&c, commit, n_shared);
    plain = to->size - from;
    if (to->failed || version != VERSION_PLAIN || plain < DEFLATED_MIN)
        return;
    /* Deflates it, unless that saves less than an eighth. */
    version = VERSION_DEFLATED;
    c.to = &all;
    (void)code_number(&c, &version);
    (void)code_number(&c, &plain);
    begun = all.size;
    deflate_into(&all, slice_from(buf_slice(to), from), plain - plain / 8);
    if (all.size > begun) {
        to->size = from;
        buf_add_slice(to, buf_slice(&all));
    }
    buf_fini(&all);
}

/* Reading */

static void
drop_batch(struct act *act)
{
    if (act->kind == ACT_BATCH)
        batch_unref((struct batch *)(uintptr_t)act->entries.batch);
}

static enum status
refuse_record(struct problem *why)
{
    return problem(why, STATUS_MALFORMED, "it is no record of a commit");
}

/* Sets *plain to the bytes of a record that is deflated in `rest`, or to a
 * bulk, which it keeps. */
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
        return refuse_record(why);
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

/* Sets c->rest to what stands behind the version, and c->bulk if it is apart.
 */
static enum status
begin_reading(struct record *record, struct codec *c, struct codec *bulk,
              struct problem *why)
{
    uint64_t version, most = VERSION_PLAIN;
    struct slice head = {NULL, 0};
    enum status rc = STATUS_OK;

    if (!leb128_take(&c->rest, &version) || version == 0)
        return refuse_record(why);
    if (version > RECORD_VERSION)
        return problem(why, STATUS_UNSUPPORTED,
                       "a newer tidingsd wrote it: it has version %" PRIu64
                       ", and "
                       "this program reads versions up to %d",
                       version, RECORD_VERSION);
    if (version == VERSION_DEFLATED) {
        rc = inflate_record(record, c->rest, &c->rest, why);
    } else if (version == VERSION_PARTED) {
        if (!code_bytes(c, &head))
            return refuse_record(why);
        rc = inflate_record(record, c->rest, &bulk->rest, why);
        c->rest = head;
        c->bulk = bulk;
        most = VERSION_CONTENT;
    } else {
        return STATUS_OK;
    }
    if (!rc && (!leb128_take(&c->rest, &version) || version == 0 ||
                version == VERSION_DEFLATED || version > most))
        rc = refuse_record(why);
    return rc;
}

static enum status
read_acts(struct record *record, struct codec *c, struct problem *why)
{
    uint64_t n;

    if (!code_time(c, &record->at_us) || !code_number(c, &n))
        return refuse_record(why);
    c->at_us = record->at_us;
    for (; n > 0; n--) {
        struct act *act;

        if (!ONE_MORE(record->acts, &record->capacity, record->n))
            return problem_memory(why);
        act = &record->acts[record->n];
        *act = (struct act){.kind = ACT_KINDS};
        if (!code_act(c, act)) {
            drop_batch(act);
            return c->has_no_memory
                       ? problem_memory(why)
                       : problem(why, STATUS_MALFORMED,
                                 "act %zu of the record cannot be read",
                                 record->n + 1);
        }
        record->n++;
    }
    return c->rest.size == 0 && (!c->bulk || c->bulk->rest.size == 0)
               ? STATUS_OK
               : problem(why, STATUS_MALFORMED,
                         "the record goes on behind its last act");
}

enum status
record_read(struct record *record, struct slice bytes, atomic_size_t *forms,
            struct problem *why)
{
    struct codec bulk = {.stamped = {.max = SIZE_MAX}};
    struct codec c = {.rest = bytes, .forms = forms};
    enum status rc;

    *record = (struct record){.n = 0};
    rc = begin_reading(record, &c, &bulk, why);
    record->size = c.rest.size + bulk.rest.size;
    if (!rc)
        rc = read_acts(record, &c, why);
    buf_fini(&bulk.stamped);
    return rc;
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
