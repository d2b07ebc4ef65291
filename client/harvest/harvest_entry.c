#include "client/harvest/harvest_entry.h"

#include "client/lib/json_slices.h"

#define PATH_NS "\"urn:tidings:relay:1\""

/* The value of an object's member; size 0: there is none. */
static struct slice
find_member(struct slice object, const char *name)
{
    struct slice value;

    return json_slices_member(object, name, &value) ? value
                                                    : (struct slice){NULL, 0};
}

/* True if the attribute is the path of earlier relays. */
static bool
is_path(struct slice attribute)
{
    return slice_is(find_member(attribute, "ns"), PATH_NS) &&
           slice_is(find_member(attribute, "name"), "\"path\"");
}

static struct slice
path_of(struct slice entry)
{
    struct slice rest = find_member(entry, "attributes"), attribute;

    while (json_slices_element(&rest, &attribute))
        if (is_path(attribute))
            return json_slices_text(find_member(attribute, "value"));
    return (struct slice){NULL, 0};
}

/* Writing */

static void
put_text_member(struct buf *to, const char *name, struct slice value)
{
    if (!value.size)
        return;
    buf_add_format(to, ",\"%s\":", name);
    buf_add_slice(to, value);
}

/* True if it is one of the words. */
static bool
is_one_of(struct slice name, const char *words)
{
    char word[64];

    return name.size && slice_copy(word, sizeof(word), name) &&
           slice_has_word(slice_of(words), word);
}

/* True if the link is not to follow the entry into another set: to a document
 * that it belongs to there; or of an original to its bytes elsewhere, to its
 * versions, or to edit it. */
static bool
is_dropped(struct slice rel, const struct harvest_rules *rules)
{
    static const char of_original[] =
        "duplicate memento original timegate timemap self edit edit-media "
        "latest-version predecessor-version successor-version version-history "
        "http://www.openarchives.org/rs/terms/patch";

    if (is_one_of(rel, "collection canonical"))
        return !rules->keeps_links;
    return rules->copy.size && is_one_of(rel, of_original);
}

static void
put_links(struct buf *to, struct slice entry, bool is_deleted,
          const struct harvest_rules *rules)
{
    struct slice links = find_member(entry, "links"), link;
    static const char *const described[] = {"hash", "length", "type"};
    const char *before = ",\"links\":[";
    bool has_via = false;
    int64_t us;

    while (json_slices_element(&links, &link)) {
        struct slice rel = json_slices_text(find_member(link, "rel"));

        if (slice_has_word(rel, "via")) {
            has_via = true;
        } else if (is_dropped(rel, rules)) {
            ++*rules->n_dropped;
            continue;
        }
        buf_add_text(to, before);
        buf_add_slice(to, link);
        before = ",";
    }
    /* The original, which the entry describes; the deletion of a copy
     * that a list lacks knows none. */
    if (!has_via && !slice_equal(json_slices_text(find_member(entry, "loc")),
                                 rules->copy)) {
        buf_add_format(to, "%s{\"rel\":\"via\"", before);
        put_text_member(to, "href", find_member(entry, "loc"));
        /* A lastmod may be a date alone: links need it complete. */
        us = datetime_of(json_slices_text(find_member(entry, "lastmod")));
        if (!is_deleted && us != DATETIME_NONE)
            buf_add_format(to, ",\"modified\":\"%s\"",
                           datetime_text_short(us).text);
        for (size_t i = 0; !is_deleted && i < N_ELEMENTS(described); i++)
            put_text_member(to, described[i], find_member(entry, described[i]));
        BUF_ADD(to, "}");
        before = ",";
    }
    if (!strcmp(before, ","))
        BUF_ADD(to, "]");
}

static void
put_attributes(struct buf *to, struct slice attributes, struct slice path,
               const struct harvest_rules *rules)
{
    const char *before = ",\"attributes\":[";
    struct slice attribute;

    while (json_slices_element(&attributes, &attribute))
        if (!is_path(attribute)) {
            buf_add_text(to, before);
            buf_add_slice(to, attribute);
            before = ",";
        }
    if (path.size || rules->source[0]) {
        buf_add_format(
            to, "%s{\"ns\":" PATH_NS ",\"name\":\"path\",\"value\":\"", before);
        buf_add_slice(to, path);
        buf_add_format(to, "%s%s\"}", path.size && rules->source[0] ? " " : "",
                       rules->source);
        before = ",";
    }
    if (!strcmp(before, ","))
        BUF_ADD(to, "]");
}

/* Members with a writer of their own, or left out; that describe a
 * representation; that a copy has of its own. */
static const char own[] = "seq datetime sourceDatetime links attributes";
static const char represented[] = "hash length type encoding";
static const char copied[] = "hash length loc encoding";

enum harvest_verdict
harvest_entry(struct buf *to, const char *before, struct slice entry,
              const struct harvest_rules *rules)
{
    struct slice rest = entry, name, value;
    struct slice loc = find_member(entry, "loc");
    struct slice path = path_of(entry);
    const char *between = "{";
    bool is_deleted =
        rules->change ? !strcmp(rules->change, "deleted")
                      : slice_is(find_member(entry, "change"), "\"deleted\"");

    if (loc.size < 2 || loc.data[0] != '"' || entry.data[0] != '{' ||
        entry.data[entry.size - 1] != '}')
        return HARVEST_ODD;
    if (slice_has_word(path, rules->target))
        return HARVEST_RING;
    buf_add_text(to, before);
    if (rules->copy.size) {
        buf_add_format(to, "{\"loc\":\"%.*s\"", SLICE_ARG(rules->copy));
        between = ",";
    }
    while (json_slices_next(&rest, &name, &value)) {
        if (is_one_of(name, own) ||
            (is_deleted && is_one_of(name, represented)) ||
            (rules->copy.size && is_one_of(name, copied)) ||
            (rules->change && slice_is(name, "change")))
            continue;
        buf_add_format(to, "%s\"%.*s\":", between, SLICE_ARG(name));
        buf_add_slice(to, value);
        between = ",";
    }
    if (rules->change)
        buf_add_format(to, ",\"change\":\"%s\"", rules->change);
    put_links(to, entry, is_deleted, rules);
    put_attributes(to, find_member(entry, "attributes"), path, rules);
    BUF_ADD(to, "}");
    return HARVEST_WRITTEN;
}

bool
harvest_is_same(struct slice of, struct slice text)
{
    static const char *const names[] = {"loc", "change", "lastmod", "hash",
                                        "length"};

    /* Members that a copy's post lacks are the broker's. */
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        if (find_member(of, names[i]).size &&
            !slice_equal(find_member(of, names[i]),
                         find_member(text, names[i])))
            return false;
    return slice_equal(path_of(of), path_of(text));
}

/* Search */

bool
post_search_init(struct post_search *s, const struct harvest_post *post)
{
    struct slice rest = post->changes;
    size_t k = 0;

    *s = (struct post_search){.entries =
                                  calloc(post->n + 1, sizeof(s->entries[0])),
                              .back = calloc(post->n + 1, sizeof(s->back[0]))};
    if (s->entries && s->back)
        while (s->n < post->n && json_slices_element(&rest, &s->entries[s->n]))
            s->n++;
    for (size_t i = 1; i < s->n; i++) {
        while (k > 0 && !harvest_is_same(s->entries[k], s->entries[i]))
            k = s->back[k - 1];
        k += harvest_is_same(s->entries[k], s->entries[i]);
        s->back[i] = k;
    }
    return s->n > 0;
}

void
post_search_fini(struct post_search *s)
{
    free(s->entries);
    free(s->back);
}

bool
post_search_next(struct post_search *s, struct slice text)
{
    while (s->n_found > 0 && !harvest_is_same(s->entries[s->n_found], text))
        s->n_found = s->back[s->n_found - 1];
    if (harvest_is_same(s->entries[s->n_found], text))
        s->n_found++;
    return s->n_found == s->n;
}
