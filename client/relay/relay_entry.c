#include "client/relay/relay_entry.h"

#include <stdlib.h>
#include <string.h>

/* As in Knuth, Morris and Pratt: several entries may begin alike. */
struct post_search {
    const char **entries;
    size_t *sizes;
    size_t *back; /* [i]: length of the longest start that also ends at i */
    size_t n;
    size_t n_found; /* entries of the post that the target ends with */
};

static bool
is_entry(const struct post_search *s, size_t i, const char *text, size_t size)
{
    return relay_is_same(s->entries[i], s->sizes[i], text, size);
}

static void
look_for_beginnings(struct post_search *s)
{
    size_t k = 0;

    for (size_t i = 1; i < s->n; i++) {
        while (k > 0 && !is_entry(s, k, s->entries[i], s->sizes[i]))
            k = s->back[k - 1];
        k += is_entry(s, k, s->entries[i], s->sizes[i]);
        s->back[i] = k;
    }
}

struct post_search *
post_search_new(const struct relay_post *post)
{
    struct post_search *s = calloc(1, sizeof(*s));
    const char *rest = post->body;
    size_t left = post->size;

    if (!s)
        return NULL;
    s->entries = calloc(post->n + 1, sizeof(s->entries[0]));
    s->sizes = calloc(post->n + 1, sizeof(s->sizes[0]));
    s->back = calloc(post->n + 1, sizeof(s->back[0]));
    if (s->entries && s->sizes && s->back)
        while (s->n < post->n &&
               relay_next(&rest, &left, &s->entries[s->n], &s->sizes[s->n]))
            s->n++;
    if (s->n == 0) {
        post_search_free(s);
        return NULL;
    }
    look_for_beginnings(s);
    return s;
}

void
post_search_free(struct post_search *s)
{
    if (!s)
        return;
    free(s->entries);
    free(s->sizes);
    free(s->back);
    free(s);
}

bool
post_search_next(struct post_search *s, const char *text, size_t size)
{
    while (s->n_found > 0 && (!text || !is_entry(s, s->n_found, text, size)))
        s->n_found = s->back[s->n_found - 1];
    if (text && is_entry(s, s->n_found, text, size))
        s->n_found++;
    return s->n_found == s->n;
}

#define RELAY_NS "\"urn:tidings:relay:1\""

/* JSON text that a reader has accepted before, cut into pieces, lent. Never
 * reads beyond its end, even if the text is odd. */
struct piece {
    const char *data;
    size_t size;
};

static bool
is_text(struct piece p, const char *text)
{
    return p.size == strlen(text) && !memcmp(p.data, text, p.size);
}

static void
skip_space(struct piece *rest)
{
    while (rest->size && strchr(" \t\r\n,:", rest->data[0]) && rest->data[0]) {
        rest->data++;
        rest->size--;
    }
}

/* Bytes of the string that `p` begins with; 0: it does not end. */
static size_t
string_size(struct piece p)
{
    for (size_t i = 1; i < p.size; i++)
        if (p.data[i] == '\\')
            i++;
        else if (p.data[i] == '"')
            return i + 1;
    return 0;
}

static size_t
value_size(struct piece p)
{
    size_t depth = 0, i = 0;

    while (i < p.size) {
        char c = p.data[i];

        if (c == '"') {
            size_t size = string_size((struct piece){p.data + i, p.size - i});

            if (size == 0)
                return 0;
            i += size;
        } else if (c == '{' || c == '[') {
            depth++;
            i++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
            i++;
        } else if (depth == 0 && strchr(",}] \t\r\n", c)) {
            return i;
        } else {
            i++;
            if (depth == 0)
                continue; /* a number, true, null */
        }
        if (depth == 0)
            return i;
    }
    return depth ? 0 : i;
}

/* The next value of an array, or the next name or value of an object. `rest`
 * begins with what follows the bracket. False: there is none. */
static bool
next_piece(struct piece *rest, struct piece *value)
{
    *value = (struct piece){NULL, 0};
    skip_space(rest);
    if (rest->size == 0)
        return false;
    *value = (struct piece){rest->data, value_size(*rest)};
    rest->data += value->size;
    rest->size -= value->size;
    return value->size > 0;
}

static bool
next_member(struct piece *rest, struct piece *name, struct piece *value)
{
    return next_piece(rest, name) && name->data[0] == '"' &&
           next_piece(rest, value);
}

/* Strips the brackets; false: it has other ones. */
static bool
inside_of(struct piece p, char open, struct piece *content)
{
    if (p.size < 2 || p.data[0] != open)
        return false;
    *content = (struct piece){p.data + 1, p.size - 2};
    return true;
}

/* The value of an object's member; size 0: there is none. */
static struct piece
find_member(struct piece object, const char *quoted)
{
    struct piece rest, name, value;

    if (inside_of(object, '{', &rest))
        while (next_member(&rest, &name, &value))
            if (is_text(name, quoted))
                return value;
    return (struct piece){NULL, 0};
}

static struct piece
without_quotes(struct piece p)
{
    struct piece content = {NULL, 0};

    if (p.size >= 2 && p.data[0] == '"')
        content = (struct piece){p.data + 1, p.size - 2};
    return content;
}

/* True if the text has the word. */
static bool
has_word(struct piece text, const char *word)
{
    size_t size = strlen(word);

    for (size_t i = 0; size > 0 && i + size <= text.size; i++)
        if (!memcmp(text.data + i, word, size) &&
            (i == 0 || text.data[i - 1] == ' ') &&
            (i + size == text.size || text.data[i + size] == ' '))
            return true;
    return false;
}

/* True if the attribute is the path of earlier relays. */
static bool
is_path(struct piece attribute)
{
    return is_text(find_member(attribute, "\"ns\""), RELAY_NS) &&
           is_text(find_member(attribute, "\"name\""), "\"path\"");
}

static struct piece
path_of(struct piece entry)
{
    struct piece rest, attribute;

    if (inside_of(find_member(entry, "\"attributes\""), '[', &rest))
        while (next_piece(&rest, &attribute))
            if (is_path(attribute))
                return without_quotes(find_member(attribute, "\"value\""));
    return (struct piece){NULL, 0};
}

/* Writing */

static void
put_piece(FILE *to, struct piece p)
{
    if (p.size)
        fwrite(p.data, 1, p.size, to);
}

static void
put_links(FILE *to, struct piece links, struct piece loc,
          const struct relay_rules *rules)
{
    struct piece rest = {NULL, 0}, link;
    const char *before = ",\"links\":[";
    bool has_via = false;

    inside_of(links, '[', &rest);
    while (next_piece(&rest, &link)) {
        struct piece rel = without_quotes(find_member(link, "\"rel\""));

        has_via |= has_word(rel, "via");
        if (!rules->keeps_links &&
            (is_text(rel, "collection") || is_text(rel, "canonical")))
            continue;
        fputs(before, to);
        put_piece(to, link);
        before = ",";
    }
    if (!has_via) {
        fprintf(to, "%s{\"rel\":\"via\",\"href\":", before);
        put_piece(to, loc);
        fputc('}', to);
        before = ",";
    }
    if (!strcmp(before, ","))
        fputc(']', to);
}

static void
put_attributes(FILE *to, struct piece attributes, struct piece path,
               const struct relay_rules *rules)
{
    struct piece rest = {NULL, 0}, attribute;
    const char *before = ",\"attributes\":[";

    inside_of(attributes, '[', &rest);
    while (next_piece(&rest, &attribute))
        if (!is_path(attribute)) {
            fputs(before, to);
            put_piece(to, attribute);
            before = ",";
        }
    if (path.size || rules->source[0]) {
        fprintf(to, "%s{\"ns\":" RELAY_NS ",\"name\":\"path\",\"value\":\"",
                before);
        put_piece(to, path);
        fprintf(to, "%s%s\"}", path.size && rules->source[0] ? " " : "",
                rules->source);
        before = ",";
    }
    if (!strcmp(before, ","))
        fputc(']', to);
}

static bool
is_one_of(struct piece name, const char *const *names)
{
    for (; *names; names++)
        if (is_text(name, *names))
            return true;
    return false;
}

/* Members with a writer of their own, or left out. */
static const char *const own[] = {
    "\"seq\"",   "\"datetime\"",   "\"sourceDatetime\"",
    "\"links\"", "\"attributes\"", NULL};

/* Members that describe a representation. */
static const char *const represented[] = {"\"hash\"", "\"length\"", "\"type\"",
                                          "\"encoding\"", NULL};

enum relay_verdict
relay_entry(FILE *to, const char *before, const char *text, size_t size,
            const struct relay_rules *rules)
{
    struct piece entry = {text, size}, rest, name, value;
    struct piece loc = find_member(entry, "\"loc\"");
    struct piece path = path_of(entry);
    const char *between = "{";
    bool is_deleted = is_text(find_member(entry, "\"change\""), "\"deleted\"");

    if (loc.size < 2 || loc.data[0] != '"' || text[size - 1] != '}' ||
        !inside_of(entry, '{', &rest))
        return RELAY_ODD;
    if (has_word(path, rules->target))
        return RELAY_RING;
    fputs(before, to);
    while (next_member(&rest, &name, &value)) {
        if (is_one_of(name, own) ||
            (is_deleted && is_one_of(name, represented)))
            continue;
        fputs(between, to);
        put_piece(to, name);
        fputc(':', to);
        put_piece(to, value);
        between = ",";
    }
    put_links(to, find_member(entry, "\"links\""), loc, rules);
    put_attributes(to, find_member(entry, "\"attributes\""), path, rules);
    fputc('}', to);
    return RELAY_WRITTEN;
}

bool
relay_is_same(const char *of, size_t of_size, const char *text, size_t size)
{
    static const char *const names[] = {"\"loc\"", "\"change\"", "\"lastmod\"",
                                        "\"hash\"", "\"length\""};
    struct piece a = {of, of_size}, b = {text, size}, x, y;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        x = find_member(a, names[i]);
        y = find_member(b, names[i]);
        if (x.size != y.size || (x.size && memcmp(x.data, y.data, x.size)))
            return false;
    }
    x = path_of(a);
    y = path_of(b);
    return x.size == y.size && (!x.size || !memcmp(x.data, y.data, x.size));
}

bool
relay_loc(const char *entry, size_t entry_size, const char **loc, size_t *size)
{
    struct piece value =
        find_member((struct piece){entry, entry_size}, "\"loc\"");

    *loc = value.data;
    *size = value.size;
    return value.size > 0;
}

bool
relay_next(const char **rest, size_t *rest_size, const char **entry,
           size_t *size)
{
    struct piece left = {*rest, *rest_size}, value;

    skip_space(&left);
    if (left.size && left.data[0] == '[') {
        left.data++;
        left.size--;
    }
    if (!next_piece(&left, &value))
        return false;
    *rest = left.data;
    *rest_size = left.size;
    *entry = value.data;
    *size = value.size;
    return true;
}
