/*
 * json_read.c - reads changes and messages in their JSON form (json.h).
 *
 * A post is one change, an array of them, or a message, of which only the
 * entries and the times around them are read; a message is what
 * json_message_begin wrote, or an array of changes. Members that nobody knows
 * and members given twice are refused: a source learns of its mistake. A member
 * whose value is null counts as absent.
 *
 * A post that may be a message of a broker (input_options) is one
 * of the three, too; as an object it may have an "id", and members of a message
 * that nobody knows are a later broker's.
 *
 * NDJSON is one entry a line, for posts only:
 *
 *   {"loc":"http://example.com/a","change":"created"}
 *   {"loc":"http://example.com/b","change":"updated","length":3}
 */

#include "proto/input/data_read.h"
#include "proto/input/event_read.h"
#include "proto/input/input_reader.h"
#include "proto/swar.h"

/* Members and their values */

/* Values a member may have; a set, because priority is a string or a number. */
enum {
    IS_STRING = 1 << JSON_STRING,
    IS_NUMBER = 1 << JSON_NUMBER,
    IS_OBJECT = 1 << JSON_OBJECT,
    IS_ARRAY = 1 << JSON_ARRAY,
    IS_OTHER = 1 << JSON_OTHER,
    IS_ANY = IS_STRING | IS_NUMBER | IS_OBJECT | IS_ARRAY | IS_OTHER
};

/* The objects whose members are known, and the rest of the places where a value
 * may stand. */
enum place {
    PLACE_TOP,
    PLACE_OBJECT, /* not known yet: a message or a change */
    PLACE_CHANGES,
    PLACE_MESSAGE,
    PLACE_CHANGE,
    PLACE_HASH,
    PLACE_TAGS,
    PLACE_LINKS,
    PLACE_LINK,
    PLACE_ATTRIBUTES,
    PLACE_ATTRIBUTE
};

/* The name of a place in a problem, and the values that it may hold where these
 * are no members. */
static const char *const place_names[][2] = {
    [PLACE_TOP] = {"the document", "an object or an array, such as "
                                   "[" CHANGE_EXAMPLE "]"},
    [PLACE_OBJECT] = {"the document"},
    [PLACE_CHANGES] = {"changes", "objects, such as " CHANGE_EXAMPLE},
    [PLACE_MESSAGE] = {"the message"},
    [PLACE_CHANGE] = {"the change"},
    [PLACE_HASH] = {"hash", "strings, such as "
                            "{\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"}"},
    [PLACE_TAGS] = {"tags", "strings, such as [\"news\"]"},
    [PLACE_LINKS] = {"links", "objects, such as {\"rel\":\"duplicate\","
                              "\"href\":\"http://example.com/b\"}"},
    [PLACE_LINK] = {"the link"},
    [PLACE_ATTRIBUTES] = {"attributes", "objects, such as {\"ns\":\"urn:shop\","
                                        "\"name\":\"price\",\"value\":\"3\"}"},
    [PLACE_ATTRIBUTE] = {"the attribute"},
};

/* The members of each place, of those of entry_builder.h. */
static const uint64_t of_place[] = {
    [PLACE_MESSAGE] =
        MEMBER_BIT(M_SET) | MEMBER_BIT(M_EPOCH) | MEMBER_BIT(M_AFTER) |
        MEMBER_BIT(M_LAST) | MEMBER_BIT(M_FROM) | MEMBER_BIT(M_UNTIL) |
        MEMBER_BIT(M_DIGEST) | MEMBER_BIT(M_NOW) | MEMBER_BIT(M_HEARTBEAT) |
        MEMBER_BIT(M_NEXT) | MEMBER_BIT(M_CHANGES),
    [PLACE_CHANGE] =
        ENTRY_CHANGE_MEMBERS | MEMBER_BIT(M_LOC) |
        MEMBER_BIT(M_SOURCE_DATETIME) | MEMBER_BIT(M_LASTMOD) |
        MEMBER_BIT(M_CHANGEFREQ) | MEMBER_BIT(M_PRIORITY) | MEMBER_BIT(M_TAGS) |
        MEMBER_BIT(M_LINKS) | MEMBER_BIT(M_TITLE) | MEMBER_BIT(M_SUMMARY) |
        MEMBER_BIT(M_AUTHOR) | MEMBER_BIT(M_DATA) | MEMBER_BIT(M_TRACEPARENT) |
        MEMBER_BIT(M_SEQ) | MEMBER_BIT(M_ATTRIBUTES),
    [PLACE_LINK] = ENTRY_LINK_MEMBERS | MEMBER_BIT(M_ATTRIBUTES),
    [PLACE_ATTRIBUTE] =
        MEMBER_BIT(M_NS) | MEMBER_BIT(M_NAME) | MEMBER_BIT(M_VALUE),
};

/* The values of members that are no strings. */
static const unsigned values[N_MEMBERS] = {
    [M_ID] = IS_STRING | IS_NUMBER,
    [M_PRIORITY] = IS_STRING | IS_NUMBER,
    [M_TAGS] = IS_ARRAY,
    [M_LINKS] = IS_ARRAY,
    [M_DATA] = IS_ANY,
    [M_SEQ] = IS_NUMBER,
    [M_PRI] = IS_NUMBER,
    [M_HASH] = IS_OBJECT | IS_STRING,
    [M_LENGTH] = IS_NUMBER,
    [M_ATTRIBUTES] = IS_ARRAY,
    [M_AFTER] = IS_NUMBER,
    [M_LAST] = IS_NUMBER,
    [M_HEARTBEAT] = IS_NUMBER,
    [M_CHANGES] = IS_ARRAY,
};

/* Objects and arrays */

/*
 * Where the parser stands. A value of an object belongs to the member whose key
 * came before it; arrays have one kind of value each:
 *
 *   TOP --{--> OBJECT, which its first member makes a MESSAGE or a CHANGE; the
 *              first that is known, and not its "id", where messages are taken
 *   TOP --[--> CHANGES
 *
 *   MESSAGE --"changes"--> CHANGES
 *   CHANGES --{--> CHANGE --"tags"--> TAGS
 *                  CHANGE --"links"--> LINKS --{--> LINK
 *                  CHANGE, LINK --"hash"--> HASH
 *                  CHANGE, LINK --"attributes"--> ATTRIBUTES --{--> ATTRIBUTE
 */
struct level {
    enum place place;
    uint64_t seen;            /* members of this object, a bit each */
    enum entry_member member; /* awaits its value; M_NONE: none */
};

struct json_read {
    struct input_reader *reader;
    struct link *link;          /* the current one, or NULL */
    struct attribute attribute; /* likewise */
    struct json_parse *parse;
    bool is_lines;  /* each line is an entry */
    bool is_faulty; /* the rest of the line is skipped */

    /* TOP, MESSAGE, CHANGES, CHANGE, LINKS, LINK, ATTRIBUTES, ATTRIBUTE; an
     * OBJECT becomes one of them */
    struct level levels[8];
    struct level *level;

    unsigned entry_depth; /* of what contains the entry */

    /* Nobody looks at what comes until the parser is at that depth again: the
     * value of a member that a later broker may have added, or the rest of a
     * faulty entry. */
    bool is_skipping;
    unsigned skip_depth;

    bool has_refused; /* the problem is of this file, not of the parser */

    /* A member that was passed over, as the object may yet be a message: a
     * change must not have it. */
    bool has_unknown;
    struct problem_quote unknown;

    struct slice piece; /* of the input; the values in it are not copied */
    struct buf tags;    /* as XML writes them */

    bool is_in_data; /* all that comes is of the value of M_DATA */
    struct data_read data;

    const struct hash_algorithm *algorithm; /* of the digest that comes next */
    unsigned hash_seen;                     /* of hash_add */
};

static inline uint64_t
is_space_or_less(uint64_t v)
{
    return swar_below(v, ' ' + 1);
}

/* Skips all events until one after which the parser is at `depth`. */
static void
skip_to(struct json_read *j, unsigned depth)
{
    j->is_skipping = true;
    j->skip_depth = depth;
}

/* The member of `place` with that name; M_NONE: it has none. */
static enum entry_member
find_member(const struct json_read *j, enum place place, struct slice name)
{
    enum entry_member member = entry_member_of(name);

    /* An "id" is what a message, or a document of one change, calls itself. */
    if (member == M_ID)
        return j->reader->options.takes_message && !j->is_lines &&
                       j->level == &j->levels[1]
                   ? M_ID
                   : M_NONE;
    return of_place[place] & MEMBER_BIT(member) ? member : M_NONE;
}

static enum status
refuse_member(struct slice name, enum place place, struct problem *why)
{
    return problem(why, STATUS_INVALID, "unknown member \"%s\" in %s%s",
                   problem_quote(name).text, place_names[place][0],
                   slice_is(name, "specversion")
                       ? "; a CloudEvent has the type " EVENT_TYPE
                       : "");
}

static enum status
begin_change(struct json_read *j, struct problem *why)
{
    enum status rc = input_reader_entry_begin(j->reader, why);

    j->level->place = PLACE_CHANGE;
    j->link = NULL;
    return !rc && j->has_unknown && !j->reader->options.ignores_unknown
               ? refuse_member(slice_of(j->unknown.text), PLACE_CHANGE, why)
               : rc;
}

/* Decides if a post's only object is a message or a change, which have no
 * member in common. A message of a later broker may begin with a member of
 * neither. Resources come in no message: one without entries would delete all.
 */
static enum status
decide_member(struct json_read *j, struct slice name, struct problem *why)
{
    if (j->reader->use != INPUT_RESOURCES &&
        find_member(j, PLACE_MESSAGE, name)) {
        j->level->place = PLACE_MESSAGE;
        j->has_unknown = false;
        return STATUS_OK;
    }
    if (!(j->reader->options.takes_message ||
          j->reader->options.ignores_unknown) ||
        find_member(j, PLACE_CHANGE, name))
        return begin_change(j, why);
    if (!j->has_unknown)
        j->unknown = problem_quote(name);
    j->has_unknown = true;
    skip_to(j, json_parse_depth(j->parse));
    return STATUS_OK;
}

static enum status
on_key(struct json_read *j, struct slice name, struct problem *why)
{
    struct level *level = j->level;
    enum entry_member member;

    if (level->place == PLACE_HASH) {
        j->algorithm = hash_algorithm_of(name);
        return j->algorithm ? STATUS_OK : hash_refuse_algorithm(name, why);
    }
    member = find_member(j, level->place, name);
    if (level->place == PLACE_OBJECT && member != M_ID) {
        enum status rc = decide_member(j, name, why);

        if (rc || level->place == PLACE_OBJECT)
            return rc;
        member = find_member(j, level->place, name);
    }
    if (member) {
        if (level->seen & MEMBER_BIT(member))
            return problem(why, STATUS_INVALID, "%s: given twice",
                           entry_members[member].name);
        level->seen |= MEMBER_BIT(member);
        level->member = member;
        j->is_in_data = member == M_DATA;
        if (j->is_in_data)
            data_read_begin(&j->data);
        return STATUS_OK;
    }
    /* In a post, only a message's may be skipped: a source has to learn that a
     * change's is unknown, unless it knows that. */
    if (j->reader->options.ignores_unknown || j->reader->use == INPUT_MESSAGE ||
        (j->reader->options.takes_message && level->place == PLACE_MESSAGE)) {
        skip_to(j, json_parse_depth(j->parse));
        return STATUS_OK;
    }
    return refuse_member(name, level->place, why);
}

static enum status
wrong_value(struct json_read *j, enum json_event event, struct problem *why)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",          [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",           [JSON_NUMBER] = "a number",
        [JSON_OTHER] = "true, false or null",
    };
    enum entry_member member = j->level->member;
    const char *const *place = place_names[j->level->place];

    return problem(
        why, STATUS_INVALID, "%s: must %s %s, not %s",
        member ? entry_members[member].name : place[0], member ? "be" : "hold",
        member ? entry_members[member].form : place[1], names[event]);
}

static void
go_down(struct json_read *j, enum place place)
{
    *++j->level = (struct level){.place = place};
}

static enum status
on_object(struct json_read *j, struct problem *why)
{
    switch (j->level->place) {
    case PLACE_TOP:
        j->entry_depth = 0;
        if (!j->is_lines) {
            go_down(j, j->reader->use == INPUT_MESSAGE ? PLACE_MESSAGE
                                                       : PLACE_OBJECT);
            return STATUS_OK;
        }
        /* fall through */
    case PLACE_CHANGES:
        j->entry_depth = json_parse_depth(j->parse) - 1;
        go_down(j, PLACE_CHANGE);
        return begin_change(j, why);
    case PLACE_LINKS:
        go_down(j, PLACE_LINK);
        return entry_link(&j->reader->entry, &j->link, why);
    case PLACE_ATTRIBUTES:
        go_down(j, PLACE_ATTRIBUTE);
        j->attribute = (struct attribute){.ns = {NULL, 0}};
        return STATUS_OK;
    case PLACE_CHANGE:
    case PLACE_LINK:
        if (j->level->member == M_HASH) {
            buf_clear(&j->reader->entry.hash);
            j->hash_seen = 0;
            go_down(j, PLACE_HASH);
            return STATUS_OK;
        }
        break;
    default:
        break;
    }
    return wrong_value(j, JSON_OBJECT, why);
}

static enum status
on_array(struct json_read *j, struct problem *why)
{
    enum entry_member member = j->level->member;

    if (j->level->place == PLACE_TOP) {
        go_down(j, PLACE_CHANGES);
        return STATUS_OK;
    }
    if (!(values[member] & IS_ARRAY))
        return wrong_value(j, JSON_ARRAY, why);
    switch (member) {
    case M_CHANGES:
        go_down(j, PLACE_CHANGES);
        return input_reader_interval(j->reader, why);
    case M_TAGS:
        buf_clear(&j->tags);
        go_down(j, PLACE_TAGS);
        return STATUS_OK;
    case M_LINKS:
        go_down(j, PLACE_LINKS);
        return STATUS_OK;
    default:
        go_down(j, PLACE_ATTRIBUTES);
        return STATUS_OK;
    }
}

static enum status
on_end(struct json_read *j, struct problem *why)
{
    struct entry *entry = &j->reader->entry;
    enum place place = j->level->place;
    enum status rc = STATUS_OK;

    if (place == PLACE_OBJECT) { /* {} */
        rc = begin_change(j, why);
        place = PLACE_CHANGE;
    }
    j->level--;
    switch (place) {
    case PLACE_CHANGE:
        return rc ? rc : input_reader_entry_end(j->reader, why);
    case PLACE_LINK:
        j->link = NULL;
        return STATUS_OK;
    case PLACE_ATTRIBUTE:
        /* Attributes of our own namespace are dropped, as in XML. */
        return slice_is(j->attribute.ns, NS_TIDINGS)
                   ? STATUS_OK
                   : entry_attribute(entry, entry_attributes(entry, j->link),
                                     &j->attribute, why);
    case PLACE_HASH:
        if (entry->hash.size == 0)
            return problem(why, STATUS_INVALID,
                           "hash: empty; such as \"" HASH_EXAMPLE "\"");
        return entry_copy(entry, buf_slice(&entry->hash),
                          j->link ? &j->link->hash : &entry->change.hash, why);
    case PLACE_TAGS:
        return entry_copy(entry, buf_slice(&j->tags), &entry->change.tags, why);
    case PLACE_MESSAGE:
        return input_reader_interval(j->reader, why);
    default:
        return STATUS_OK;
    }
}

static enum status
add_tag(struct json_read *j, struct slice text, struct problem *why)
{
    bool is_good = text.size > 0 && text.size <= TAG_MAX &&
                   swar_none(text, is_space_or_less, 'a');

    if (is_good && j->tags.size > 0)
        BUF_ADD(&j->tags, " ");
    buf_add_slice(&j->tags, text);
    if (j->tags.is_starved)
        return problem_memory(why);
    if (!is_good || j->tags.failed)
        return problem(
            why, STATUS_INVALID,
            "tags: not of 1 to %d bytes without white space, such as news: "
            "\"%s\"",
            TAG_MAX, problem_quote(text).text);
    return STATUS_OK;
}

static enum status
set_message_member(struct json_read *j, enum entry_member member,
                   struct slice text, struct problem *why)
{
    struct input_reader *reader = j->reader;
    const char *name = entry_members[member].name;
    bool is_interval = member == M_FROM || member == M_UNTIL;
    int64_t us;

    /* Posted again, it covers nothing of the set it is posted to; in between
     * what times its entries are is as true as ever. */
    if (!input_reader_is_for_messages(reader) && !is_interval)
        return STATUS_OK;
    /* The caller took earlier entries for the source's own. */
    if (member == M_EPOCH && reader->options.takes_message &&
        reader->n_entries > 0)
        return problem(why, STATUS_INVALID,
                       "epoch: behind the changes, not before them");
    if (coverage_set(&reader->coverage, member, text))
        return STATUS_OK;
    if (is_interval || member == M_NOW)
        return entry_time(name, text, &us, why);
    return problem(why, STATUS_INVALID, "%s: must be %s, not \"%s\"", name,
                   entry_members[member].form, problem_quote(text).text);
}

static enum status
set_attribute_member(struct json_read *j, enum entry_member member,
                     struct slice text, struct problem *why)
{
    struct attribute *attribute = &j->attribute;
    struct slice *to = member == M_NS     ? &attribute->ns
                       : member == M_NAME ? &attribute->name
                                          : &attribute->value;

    if (text.size == 0 && member != M_VALUE)
        return problem(why, STATUS_INVALID, "%s: empty; it is %s",
                       entry_members[member].name, entry_members[member].form);
    return entry_copy(&j->reader->entry, text, to, why);
}

static enum status
on_value(struct json_read *j, enum json_event event, struct slice text,
         struct problem *why)
{
    enum entry_member member = j->level->member;

    if (j->level->place == PLACE_TAGS && event == JSON_STRING)
        return add_tag(j, text, why);
    if (j->level->place == PLACE_HASH && event == JSON_STRING)
        return hash_add(&j->reader->entry.hash, j->algorithm, text,
                        &j->hash_seen, why);
    if (event == JSON_OTHER && member && member != M_ID &&
        slice_is(text, "null"))
        return STATUS_OK;
    if (!member ||
        !((values[member] ? values[member] : IS_STRING) & 1u << event))
        return wrong_value(j, event, why);
    if (member == M_ID && !key_is_valid(text))
        return problem(why, STATUS_INVALID,
                       "id: not 1 to %d visible ASCII characters: \"%s\"",
                       KEY_SIZE_MAX, problem_quote(text).text);
    if (member == M_ID) {
        memcpy(j->reader->id.text, text.data, text.size);
        j->reader->id.size = text.size;
        return STATUS_OK;
    }
    if (j->level->place == PLACE_MESSAGE)
        return set_message_member(j, member, text, why);
    if (j->level->place == PLACE_ATTRIBUTE)
        return set_attribute_member(j, member, text, why);
    j->reader->entry.is_lent = slice_is_within(text, j->piece);
    return entry_set(&j->reader->entry, j->link, member,
                     entry_members[member].name, text, why);
}

/* Takes a token of the data. */
static enum status
on_data(struct json_read *j, enum json_event event, struct slice text,
        struct problem *why)
{
    enum status rc = data_read_event(&j->data, event, text, why);

    if (rc)
        return rc == STATUS_INVALID ? problem_prefix(why, rc, "data: ") : rc;
    if (j->data.depth > 0)
        return STATUS_OK;
    j->is_in_data = false;
    return data_read_end(&j->data, &j->reader->entry, why);
}

/* Takes a token of what the reader knows. */
static enum status
on_token(struct json_read *j, enum json_event event, struct slice text,
         struct problem *why)
{
    switch (event) {
    case JSON_KEY:
        return on_key(j, text, why);
    case JSON_OBJECT:
        return on_object(j, why);
    case JSON_ARRAY:
        return on_array(j, why);
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        return on_end(j, why);
    default:
        return on_value(j, event, text, why);
    }
}

static enum status
on_event(void *user, enum json_event event, struct slice text,
         struct problem *why)
{
    struct json_read *j = user;
    enum status rc;

    if (j->is_skipping) {
        j->is_skipping = json_parse_depth(j->parse) > j->skip_depth;
        return STATUS_OK;
    }
    rc = j->is_in_data ? on_data(j, event, text, why)
                       : on_token(j, event, text, why);
    /* So a fault in the next name is not taken for one of this value. */
    if (!rc && !j->is_in_data && event != JSON_KEY && event != JSON_OBJECT &&
        event != JSON_ARRAY)
        j->level->member = M_NONE;
    j->has_refused = rc;
    if (!rc || j->is_lines || !input_reader_skip_entry(j->reader, rc, why))
        return rc;
    /* Skips the rest of the entry, unless its end was the fault. */
    if (json_parse_depth(j->parse) > j->entry_depth)
        skip_to(j, j->entry_depth);
    j->link = NULL;
    j->is_in_data = false;
    while (j->level->place > PLACE_CHANGES)
        j->level--;
    return STATUS_OK;
}

static void
json_close(void *state)
{
    struct json_read *j = state;

    json_parse_free(j->parse);
    buf_fini(&j->tags);
    buf_fini(&j->data.text);
}

static void
begin_entries(struct json_read *j)
{
    j->level = j->levels;
    *j->level = (struct level){.place = PLACE_TOP};
    j->is_skipping = j->is_in_data = j->has_refused = false;
    j->has_unknown = false;
    j->link = NULL;
}

static enum status
json_open(void *state, struct input_reader *reader)
{
    struct json_read *j = state;

    j->reader = reader;
    j->is_lines = reader->format->is_lines;
    buf_init(&j->tags, ENTRY_BYTES_MAX);
    buf_init(&j->data.text, ENTRY_BYTES_MAX);
    begin_entries(j);
    j->parse = json_parse_new(j->is_lines, on_event, j);
    return j->parse ? STATUS_OK : STATUS_MEMORY;
}

static enum status
json_reset(void *state)
{
    struct json_read *j = state;

    begin_entries(j);
    j->is_faulty = false;
    buf_clear_large(&j->tags, JSON_KEPT_BYTES);
    data_read_begin(&j->data);
    json_parse_reset(j->parse);
    return STATUS_OK;
}

/* Reports a fault of a line and skips its rest. False: it is none, or the
 * caller of the reader takes no reports. */
static bool
skip_line(struct json_read *j, enum status rc, struct problem *why)
{
    if (!j->is_lines || !j->reader->options.on_fault)
        return false;
    if (rc == STATUS_MALFORMED)
        rc = STATUS_INVALID;       /* the next line is a text of its own */
    j->reader->is_in_entry = true; /* a line is an entry */
    j->is_faulty = input_reader_skip_entry(j->reader, rc, why);
    return j->is_faulty;
}

static enum status
json_feed(void *state, struct slice bytes, struct problem *why)
{
    struct json_read *j = state;

    if (j->is_lines && j->reader->use == INPUT_MESSAGE)
        return problem(why, STATUS_UNSUPPORTED, "no message is NDJSON");
    while (bytes.size > 0) {
        enum status rc;

        if (j->is_faulty) {
            j->is_faulty = !json_parse_skip_line(j->parse, &bytes);
            begin_entries(j);
            continue;
        }
        j->piece = bytes;
        rc = json_parse_feed(j->parse, &bytes, why);
        if (rc == STATUS_INVALID && !j->has_refused && j->level->member)
            rc = problem_prefix(why, rc,
                                "%s: ", entry_members[j->level->member].name);
        if (!rc && j->reader->is_in_entry) /* it goes on in the next piece */
            rc = entry_keep(&j->reader->entry, j->piece, why);
        if (rc && !skip_line(j, rc, why))
            return rc;
    }
    return STATUS_OK;
}

static enum status
json_finish(void *state, struct problem *why)
{
    struct json_read *j = state;
    enum status rc = j->is_faulty ? STATUS_OK : json_parse_end(j->parse, why);

    return rc && skip_line(j, rc, why) ? STATUS_OK : rc;
}

static uint64_t
json_line(const void *state)
{
    const struct json_read *j = state;

    return json_parse_line(j->parse);
}

const struct parser json_parser = {
    .size = sizeof(struct json_read),
    .open = json_open,
    .close = json_close,
    .reset = json_reset,
    .feed = json_feed,
    .end = json_finish,
    .line = json_line,
};
