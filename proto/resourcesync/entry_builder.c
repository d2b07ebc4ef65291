#include "proto/resourcesync/entry_builder.h"

#include "proto/number.h"

/* Three digests with their names. */
#define HASH_MAX 160

void
entry_init(struct entry *entry)
{
    /* Not the arrays: their memory is touched when there is something in it. */
    entry->has_kind = entry->is_of_message = entry->is_lent = false;
    entry->n_attributes = entry->n_lent = 0;
    change_init(&entry->change);
    arena_init(&entry->arena, ENTRY_BYTES_MAX);
    buf_init(&entry->hash, HASH_MAX);
}

void
entry_fini(struct entry *entry)
{
    arena_fini(&entry->arena);
    buf_fini(&entry->hash);
}

void
entry_clear(struct entry *entry)
{
    change_init(&entry->change);
    entry->has_kind = entry->is_lent = false;
    entry->n_attributes = entry->n_lent = 0;
    arena_clear(&entry->arena);
}

struct entry_attributes
entry_attributes(struct entry *entry, struct link *link)
{
    struct change *change = &entry->change;

    return link ? (struct entry_attributes){&link->attributes,
                                            &link->n_attributes}
                : (struct entry_attributes){&change->attributes,
                                            &change->n_attributes};
}

/* Checks that the entry may have `size` more bytes. */
static enum status
check_size(const struct entry *entry, size_t size, struct problem *why)
{
    size_t n = entry->arena.used + entry->n_lent; /* at most the maximum */

    return size <= entry->arena.max - n
               ? STATUS_OK
               : problem(why, STATUS_INVALID,
                         "the entry has more than %d bytes", ENTRY_BYTES_MAX);
}

enum status
entry_copy(struct entry *entry, struct slice text, struct slice *copy,
           struct problem *why)
{
    enum status rc = check_size(entry, text.size, why);

    return !rc && !arena_copy(&entry->arena, text, copy) ? problem_memory(why)
                                                         : rc;
}

static enum status
keep_values(struct entry *entry, struct slice *const *values, size_t n,
            struct slice piece, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < n; i++)
        if (slice_is_within(*values[i], piece))
            rc = entry_copy(entry, *values[i], values[i], why);
    return rc;
}

enum status
entry_keep(struct entry *entry, struct slice piece, struct problem *why)
{
    struct change *c = &entry->change;
    struct slice *const values[] = {
        &c->loc,   &c->type,    &c->encoding, &c->changefreq, &c->priority,
        &c->title, &c->summary, &c->author,   &c->traceparent};
    enum status rc = STATUS_OK;

    if (entry->n_lent == 0) /* so small pieces of a long entry cost little */
        return STATUS_OK;
    entry->n_lent = 0;
    rc = keep_values(entry, values, N_ELEMENTS(values), piece, why);
    for (size_t i = 0; !rc && i < c->n_links; i++) {
        struct link *link = &entry->links[i];
        struct slice *const of_link[] = {&link->rel, &link->href, &link->type,
                                         &link->encoding};

        rc = keep_values(entry, of_link, N_ELEMENTS(of_link), piece, why);
    }
    return rc;
}

enum status
entry_link(struct entry *entry, struct link **link, struct problem *why)
{
    if (entry->change.n_links == CHANGE_LINKS_MAX)
        return problem(why, STATUS_INVALID, "more than %d links",
                       CHANGE_LINKS_MAX);
    *link = &entry->links[entry->change.n_links++];
    **link = (struct link){
        .modified_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
    entry->change.links = entry->links;
    return STATUS_OK;
}

enum status
entry_attribute(struct entry *entry, struct entry_attributes to,
                const struct attribute *attribute, struct problem *why)
{
    if (entry->n_attributes == CHANGE_ATTRIBUTES_MAX)
        return problem(why, STATUS_INVALID, "more than %d foreign attributes",
                       CHANGE_ATTRIBUTES_MAX);
    if (*to.count == 0)
        *to.first = &entry->attributes[entry->n_attributes];
    entry->attributes[entry->n_attributes++] = *attribute;
    ++*to.count;
    return STATUS_OK;
}

enum status
entry_time(const char *name, struct slice text, int64_t *us,
           struct problem *why)
{
    if (datetime_read(text, us))
        return problem(why, STATUS_INVALID,
                       "%s: not a complete date and time, such as "
                       "2026-11-27T10:00:00Z: \"%s\"",
                       name, problem_quote(text).text);
    return STATUS_OK;
}

enum status
entry_lastmod(struct slice text, struct change *change, struct problem *why)
{
    if (datetime_read_any(text, &change->lastmod_us))
        return problem_quoting(
            why, STATUS_INVALID,
            "lastmod: not a W3C Datetime, such as 2026-11-27", text);
    change->is_lastmod_date = datetime_is_date(text);
    return STATUS_OK;
}

/* Members */

#define A_URI  "a string, such as \"http://example.com/a\""
#define A_TIME "a string, such as \"2026-11-27T10:00:00Z\""

const struct entry_member_row entry_members[N_MEMBERS] = {
    [M_AT] = {"at", NULL},
    [M_NS] = {"ns", "a string, such as \"urn:shop\""},
    [M_ID] = {"id", "a string or a number, such as \"7\""},
    [M_LOC] = {"loc", A_URI},
    [M_REL] = {"rel", "a string, such as \"duplicate\""},
    [M_PRI] = {"pri", "a number, such as 1"},
    [M_SEQ] = {"seq", "a number, such as 7"},
    [M_SET] = {"set", "a string, such as \"news\""},
    [M_NOW] = {"now", A_TIME},
    [M_HASH] = {"hash", "an object or a string, such as \"" HASH_EXAMPLE "\""},
    [M_TYPE] = {"type", "a string, such as \"text/html\""},
    [M_HREF] = {"href", A_URI},
    [M_TAGS] = {"tags", "an array, such as [\"news\"]"},
    [M_LAST] = {"last", "a number, such as 8"},
    [M_FROM] = {"from", A_TIME},
    [M_PATH] = {"path", NULL},
    [M_NAME] = {"name", "a string, such as \"price\""},
    [M_NEXT] = {"next", A_URI},
    [M_DATA] = {"data", "any value, such as {\"price\":3}"},
    [M_LINKS] = {"links", "an array, such as [{\"rel\":\"duplicate\","
                          "\"href\":\"http://example.com/b\"}]"},
    [M_EPOCH] = {"epoch", "a string, such as \"9f2c5b7d01e4a683\""},
    [M_AFTER] = {"after", "a number, such as 7"},
    [M_UNTIL] = {"until", A_TIME},
    [M_VALUE] = {"value", "a string, such as \"3\""},
    [M_TITLE] = {"title", "a string, such as \"Tea is here\""},
    [M_CHANGE] = {"change", "\"created\", \"updated\" or \"deleted\""},
    [M_LENGTH] = {"length", "a number, such as 1024"},
    [M_DIGEST] = {"digest", "a string, such as \"" HASH_EXAMPLE "\""},
    [M_AUTHOR] = {"author", "a string, such as \"Ada\""},
    [M_LASTMOD] = {"lastmod", "a string, such as \"2026-11-27\""},
    [M_CHANGES] = {"changes", "an array, such as [" CHANGE_EXAMPLE "]"},
    [M_SUMMARY] = {"summary", "a string, such as \"Green and black\""},
    [M_DATETIME] = {"datetime", A_TIME},
    [M_ENCODING] = {"encoding", "a string, such as \"gzip\""},
    [M_PRIORITY] = {"priority", "a string or a number, such as 0.5"},
    [M_MODIFIED] = {"modified", A_TIME},
    [M_COMPLETED] = {"completed", NULL},
    [M_HEARTBEAT] = {"heartbeat", "a number, such as 20"},
    [M_CHANGEFREQ] = {"changefreq", "a string, such as \"daily\""},
    [M_CAPABILITY] = {"capability", NULL},
    [M_ATTRIBUTES] = {"attributes", "an array, such as [{\"ns\":\"urn:shop\","
                                    "\"name\":\"price\",\"value\":\"3\"}]"},
    [M_TRACEPARENT] = {"traceparent", NULL},
    [M_SOURCE_DATETIME] = {"sourceDatetime", A_TIME},
};

enum entry_member
entry_member_of(struct slice name)
{
    /* The first member whose name has so many bytes, or more. */
    static const unsigned char first[] = {M_NONE,
                                          M_AT,
                                          M_AT,
                                          M_LOC,
                                          M_HASH,
                                          M_LINKS,
                                          M_CHANGE,
                                          M_LASTMOD,
                                          M_DATETIME,
                                          M_COMPLETED,
                                          M_CHANGEFREQ,
                                          M_TRACEPARENT,
                                          M_SOURCE_DATETIME,
                                          M_SOURCE_DATETIME,
                                          M_SOURCE_DATETIME,
                                          N_MEMBERS};

    if (name.size == 0 || name.size + 1 >= N_ELEMENTS(first))
        return M_NONE;
    for (size_t i = first[name.size]; i < first[name.size + 1]; i++)
        if (entry_members[i].name[0] == name.data[0] &&
            !memcmp(entry_members[i].name, name.data, name.size))
            return (enum entry_member)i;
    return M_NONE;
}

/* Copies tags, with one space between two. */
static enum status
set_tags(struct entry *entry, struct slice text, struct problem *why)
{
    size_t size = 0;
    char *to;
    enum status rc = check_size(entry, text.size, why);

    if (rc)
        return rc;
    to = arena_take(&entry->arena, text.size);
    if (!to)
        return problem_memory(why);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (!slice_is_space(c))
            to[size++] = c;
        else if (size > 0 && to[size - 1] != ' ')
            to[size++] = ' ';
    }
    if (size > 0 && to[size - 1] == ' ')
        size--;
    entry->change.tags = (struct slice){to, size};
    return STATUS_OK;
}

/* Sets a text. It counts as if it was copied, if it is lent: the limit of an
 * entry does not depend on the pieces that it comes in. */
static enum status
set_text(struct entry *entry, struct slice value, struct slice *to,
         struct problem *why)
{
    enum status rc;

    *to = value;
    if (!entry->is_lent)
        return entry_copy(entry, value, to, why);
    rc = check_size(entry, value.size, why);
    if (!rc)
        entry->n_lent += value.size;
    return rc;
}

static enum status
set_words(struct entry *entry, size_t word, struct slice value,
          struct problem *why)
{
    enum status rc;

    value = slice_without_spaces(value);
    if (value.size == 0)
        return STATUS_OK;
    rc = change_check_words(word, value, why);
    return rc ? rc : set_text(entry, value, &entry->change.words[word], why);
}

enum status
entry_set(struct entry *entry, struct link *link, enum entry_member member,
          const char *name, struct slice value, struct problem *why)
{
    struct change *change = &entry->change;
    struct slice *to;
    uint64_t number;
    enum status rc;

    switch (member) {
    case M_LOC:
        to = &change->loc;
        break;
    case M_CHANGEFREQ:
        to = &change->changefreq;
        break;
    case M_PRIORITY:
        to = &change->priority;
        break;
    case M_REL:
        to = &link->rel;
        break;
    case M_HREF:
        to = &link->href;
        break;
    case M_TYPE:
        to = link ? &link->type : &change->type;
        break;
    case M_ENCODING:
        to = link ? &link->encoding : &change->encoding;
        break;
    case M_CHANGE:
        entry->has_kind = true;
        return change_kind_of(value, &change->kind)
                   ? problem_quoting(why, STATUS_INVALID,
                                     "change: not created, updated or deleted",
                                     value)
                   : STATUS_OK;
    case M_LASTMOD:
        return entry_lastmod(value, change, why);
    case M_DATETIME:
        return entry_time(name, value, &change->datetime_us, why);
    case M_MODIFIED:
        return entry_time(name, value, &link->modified_us, why);
    case M_SOURCE_DATETIME:
        return entry->is_of_message
                   ? entry_time(name, value, &change->source_us, why)
                   : STATUS_OK;
    case M_LENGTH:
        /* */
        if (!number_read(value, &number) || number > INT64_MAX)
            return problem_quoting(
                why, STATUS_INVALID,
                "length: not a number of bytes, such as 1024", value);
        *(link ? &link->length : &change->length) = number;
        return STATUS_OK;
    case M_PRI: /* */
        if (!number_read(value, &number) || number < 1 || number > 999999)
            return problem_quoting(why, STATUS_INVALID,
                                   "pri: not a number from 1 to 999999", value);
        link->pri = (uint32_t)number;
        return STATUS_OK;
    case M_SEQ:
        if (!number_read(value, &number))
            return problem(why, STATUS_INVALID, "%s: must be %s, not \"%s\"",
                           name, entry_members[member].form,
                           problem_quote(value).text);
        if (entry->is_of_message)
            change->seq = number;
        return STATUS_OK;
    case M_HASH:
        buf_clear(&entry->hash);
        rc = hash_normalise(&entry->hash, value, why);
        return rc ? rc
                  : entry_copy(entry, buf_slice(&entry->hash),
                               link ? &link->hash : &change->hash, why);
    case M_TAGS:
        return set_tags(entry, value, why);
    case M_TITLE:
        return set_words(entry, WORD_TITLE, value, why);
    case M_SUMMARY:
        return set_words(entry, WORD_SUMMARY, value, why);
    case M_AUTHOR:
        return set_words(entry, WORD_AUTHOR, value, why);
    case M_TRACEPARENT: /* one of another form is none */
        return set_text(entry,
                        value.size == 0 || traceparent_is_valid(value)
                            ? slice_cut(value, TRACEPARENT_SIZE)
                            : SLICE("-"),
                        &change->traceparent, why);
    case M_DATA:
        return set_words(entry, WORD_DATA, value, why);
    default:
        return STATUS_INVALID;
    }
    if (value.size == 0) {
        *to = value;
        return problem(why, STATUS_INVALID, "%s: empty; it is %s", name,
                       entry_members[member].form);
    }
    return set_text(entry, value, to, why);
}

bool
coverage_set(struct coverage *coverage, enum entry_member member,
             struct slice value)
{
    switch (member) {
    case M_SET:
        if (!set_name_is_valid(value))
            return false;
        memcpy(coverage->set, value.data, value.size);
        return true;
    case M_EPOCH:
        if (!epoch_is_valid(value))
            return false;
        memcpy(coverage->epoch, value.data, EPOCH_SIZE);
        return true;
    case M_AFTER:
        return number_read(value, &coverage->after);
    case M_LAST:
        return number_read(value, &coverage->last);
    case M_FROM:
        return !datetime_read(value, &coverage->from_us);
    case M_UNTIL:
        return !datetime_read(value, &coverage->until_us);
    case M_NOW:
        return !datetime_read(value, &coverage->now_us);
    case M_DIGEST:
        coverage->has_digest = !digest_read(value, &coverage->digest);
        return coverage->has_digest;
    case M_HEARTBEAT:
        return seconds_read(value, &coverage->heartbeat_us);
    default:
        return true;
    }
}
