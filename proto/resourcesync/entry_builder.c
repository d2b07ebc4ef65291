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

/* Room for `size` bytes. STATUS_INVALID: the entry is too long. */
static enum status
make_room(struct entry *entry, size_t size, char **to, struct problem *why)
{
    enum status rc = check_size(entry, size, why);

    if (rc)
        return rc;
    *to = arena_take(&entry->arena, size);
    return *to ? STATUS_OK : problem_memory(why);
}

enum status
entry_copy(struct entry *entry, struct slice text, struct slice *copy,
           struct problem *why)
{
    char *to;
    enum status rc = make_room(entry, text.size, &to, why);

    if (rc)
        return rc;
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    *copy = (struct slice){to, text.size};
    return STATUS_OK;
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

#define IS(text) (!memcmp(name.data, (text), sizeof(text) - 1))

enum entry_member
entry_member_of(struct slice name)
{
    switch (name.size) {
    case 2:
        return IS("at") ? M_AT : IS("ns") ? M_NS : IS("id") ? M_ID : M_NONE;
    case 3:
        return IS("loc")   ? M_LOC
               : IS("rel") ? M_REL
               : IS("pri") ? M_PRI
               : IS("seq") ? M_SEQ
               : IS("set") ? M_SET
               : IS("now") ? M_NOW
                           : M_NONE;
    case 4:
        return IS("hash")   ? M_HASH
               : IS("type") ? M_TYPE
               : IS("href") ? M_HREF
               : IS("tags") ? M_TAGS
               : IS("last") ? M_LAST
               : IS("from") ? M_FROM
               : IS("path") ? M_PATH
               : IS("name") ? M_NAME
               : IS("next") ? M_NEXT
               : IS("data") ? M_DATA
                            : M_NONE;
    case 5:
        return IS("links")   ? M_LINKS
               : IS("epoch") ? M_EPOCH
               : IS("after") ? M_AFTER
               : IS("until") ? M_UNTIL
               : IS("value") ? M_VALUE
               : IS("title") ? M_TITLE
                             : M_NONE;
    case 6:
        return IS("change")   ? M_CHANGE
               : IS("length") ? M_LENGTH
               : IS("digest") ? M_DIGEST
               : IS("author") ? M_AUTHOR
                              : M_NONE;
    case 7:
        return IS("lastmod")   ? M_LASTMOD
               : IS("changes") ? M_CHANGES
               : IS("summary") ? M_SUMMARY
                               : M_NONE;
    case 8:
        return IS("datetime")   ? M_DATETIME
               : IS("encoding") ? M_ENCODING
               : IS("priority") ? M_PRIORITY
               : IS("modified") ? M_MODIFIED
                                : M_NONE;
    case 9:
        return IS("completed")   ? M_COMPLETED
               : IS("heartbeat") ? M_HEARTBEAT
                                 : M_NONE;
    case 10:
        return IS("changefreq")   ? M_CHANGEFREQ
               : IS("capability") ? M_CAPABILITY
               : IS("attributes") ? M_ATTRIBUTES
                                  : M_NONE;
    case 11:
        return IS("traceparent") ? M_TRACEPARENT : M_NONE;
    case 14:
        return IS("sourceDatetime") ? M_SOURCE_DATETIME : M_NONE;
    default:
        return M_NONE;
    }
}

#undef IS

#define A_URI  "a string, such as \"http://example.com/a\""
#define A_TIME "a string, such as \"2026-11-27T10:00:00Z\""

const char *
entry_member_form(enum entry_member member)
{
    static const char *const forms[N_MEMBERS] = {
        [M_ID] = "a string or a number, such as \"7\"",
        [M_LOC] = A_URI,
        [M_CHANGE] = "\"created\", \"updated\" or \"deleted\"",
        [M_DATETIME] = A_TIME,
        [M_SOURCE_DATETIME] = A_TIME,
        [M_LASTMOD] = "a string, such as \"2026-11-27\"",
        [M_CHANGEFREQ] = "a string, such as \"daily\"",
        [M_PRIORITY] = "a string or a number, such as 0.5",
        [M_TAGS] = "an array, such as [\"news\"]",
        [M_LINKS] = "an array, such as [{\"rel\":\"duplicate\","
                    "\"href\":\"http://example.com/b\"}]",
        [M_TITLE] = "a string, such as \"Tea is here\"",
        [M_SUMMARY] = "a string, such as \"Green and black\"",
        [M_AUTHOR] = "a string, such as \"Ada\"",
        [M_DATA] = "any value, such as {\"price\":3}",
        [M_SEQ] = "a number, such as 7",
        [M_REL] = "a string, such as \"duplicate\"",
        [M_HREF] = A_URI,
        [M_PRI] = "a number, such as 1",
        [M_MODIFIED] = A_TIME,
        [M_HASH] = "an object or a string, such as \"" HASH_EXAMPLE "\"",
        [M_LENGTH] = "a number, such as 1024",
        [M_TYPE] = "a string, such as \"text/html\"",
        [M_ENCODING] = "a string, such as \"gzip\"",
        [M_ATTRIBUTES] = "an array, such as [{\"ns\":\"urn:shop\","
                         "\"name\":\"price\",\"value\":\"3\"}]",
        [M_NS] = "a string, such as \"urn:shop\"",
        [M_NAME] = "a string, such as \"price\"",
        [M_VALUE] = "a string, such as \"3\"",
        [M_SET] = "a string, such as \"news\"",
        [M_EPOCH] = "a string, such as \"9f2c5b7d01e4a683\"",
        [M_AFTER] = "a number, such as 7",
        [M_LAST] = "a number, such as 8",
        [M_FROM] = A_TIME,
        [M_UNTIL] = A_TIME,
        [M_DIGEST] = "a string, such as \"" HASH_EXAMPLE "\"",
        [M_NOW] = A_TIME,
        [M_HEARTBEAT] = "a number, such as 20",
        [M_NEXT] = A_URI,
        [M_CHANGES] = "an array, such as [" CHANGE_EXAMPLE "]",
    };

    return forms[member];
}

/* Copies tags, with one space between two. */
static enum status
set_tags(struct entry *entry, struct slice text, struct problem *why)
{
    size_t size = 0;
    char *to;
    enum status rc = make_room(entry, text.size, &to, why);

    if (rc)
        return rc;
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
set_words(struct entry *entry, const char *name, struct slice value, size_t max,
          struct slice *to, struct problem *why)
{
    enum status rc;

    value = slice_without_spaces(value);
    if (value.size == 0)
        return STATUS_OK;
    rc = change_check_words(name, value, max, why);
    return rc ? rc : set_text(entry, value, to, why);
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
                           name, entry_member_form(member),
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
        return set_words(entry, name, value, CHANGE_TITLE_MAX, &change->title,
                         why);
    case M_SUMMARY:
        return set_words(entry, name, value, CHANGE_SUMMARY_MAX,
                         &change->summary, why);
    case M_AUTHOR:
        return set_words(entry, name, value, CHANGE_AUTHOR_MAX, &change->author,
                         why);
    case M_TRACEPARENT: /* one of another form is none */
        return set_text(entry,
                        value.size <= TRACEPARENT_SIZE ? value : SLICE("-"),
                        &change->traceparent, why);
    case M_DATA:
        return set_words(entry, name, value, CHANGE_DATA_MAX, &change->data,
                         why);
    default:
        return STATUS_INVALID;
    }
    if (value.size == 0) {
        *to = value;
        return problem(why, STATUS_INVALID, "%s: empty; it is %s", name,
                       entry_member_form(member));
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
