#include "broker/access/rights.h"

static const struct {
    enum right right;
    const char *word;
    size_t patterns; /* offset in struct rights; 0 may be one */
    bool has_patterns;
} rows[] = {
    {RIGHT_PUBLISH, "publish", offsetof(struct rights, publish), true},
    {RIGHT_SUBSCRIBE, "subscribe", offsetof(struct rights, subscribe), true},
    {RIGHT_MANAGE, "manage", offsetof(struct rights, manage), true},
    {RIGHT_OBSERVE, "observe", 0, false},
    {RIGHT_ADMIN, "admin", 0, false},
};

#define N_ROWS N_ELEMENTS(rows)

char *
rights_patterns(struct rights *rights, enum right right)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].right == right && rows[i].has_patterns)
            return (char *)rights + rows[i].patterns;
    return NULL;
}

const char *
rights_word(enum right right)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].right == right)
            return rows[i].word;
    return "no right";
}

void
rights_write(struct buf *to, unsigned any_of, const char *quote,
             const char *between)
{
    const char *before = "";

    for (size_t i = 0; i < N_ROWS; i++) {
        if (!(any_of & rows[i].right))
            continue;
        buf_add_format(to, "%s%s%s%s", before, quote, rows[i].word, quote);
        before = between;
    }
}

enum right
rights_named(const char *word)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (!strcmp(word, rows[i].word))
            return rows[i].right;
    return 0;
}

/* Reading */

static bool
is_pattern(struct slice text)
{
    (void)slice_take_char(&text, '!');
    for (size_t i = 0; i < text.size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789._-*", text.data[i]) ||
            !text.data[i])
            return false;
    return text.size > 0;
}

bool
rights_is_pattern(struct slice text)
{
    return text.size <= PATTERN_MAX && text.size > 0 && *text.data != '!' &&
           is_pattern(text);
}

static struct slice
next_pattern(struct slice *rest)
{
    while (rest->size && memchr(" ,\t", *rest->data, 3))
        slice_skip(rest, 1);
    return slice_take_until(rest, " ,\t");
}

enum status
rights_add(struct rights *rights, enum right right, struct slice text,
           struct problem *why)
{
    char *to = rights_patterns(rights, right);
    struct slice one;

    while ((one = next_pattern(&text)).size) {
        size_t size = strlen(to);

        if (!is_pattern(one))
            return problem(why, STATUS_INVALID,
                           "%s: \"%s\" is no pattern of names: it has "
                           "a-z 0-9 . _ - and * for any characters, and "
                           "perhaps a ! before it, which denies",
                           rights_word(right), problem_quote(one).text);
        if (size + 1 + one.size >= PATTERNS_SIZE)
            return problem(why, STATUS_INVALID,
                           "%s: the patterns have more than %d bytes",
                           rights_word(right), PATTERNS_SIZE - 1);
        if (size)
            to[size++] = ' ';
        memcpy(to + size, one.data, one.size);
        to[size + one.size] = '\0';
    }
    return STATUS_OK;
}

/* Matching */

/* Goes back to the last star only, so the cost is the product of both sizes. */
bool
rights_match(struct slice pattern, struct slice name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, from = 0;

    while (n < name.size) {
        if (p < pattern.size && pattern.data[p] == '*') {
            star = p++;
            from = n;
        } else if (p < pattern.size && pattern.data[p] == name.data[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '*')
        p++;
    return p == pattern.size;
}

static bool
list_includes(const char *patterns, struct slice name)
{
    struct slice rest = slice_of(patterns), one;
    bool is_included = false;

    while ((one = next_pattern(&rest)).size) {
        bool is_denial = slice_take_char(&one, '!');

        if (name.size && !rights_match(one, name))
            continue;
        if (is_denial && name.size)
            return false;
        is_included |= !is_denial;
    }
    return is_included;
}

bool
rights_name(const struct rights *rights, unsigned any_of, struct slice name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (any_of & rows[i].right && rows[i].has_patterns &&
            list_includes((const char *)rights + rows[i].patterns, name))
            return true;
    return any_of & RIGHT_OBSERVE && rights->observe;
}

bool
rights_include(const struct rights *rights, unsigned any_of, struct slice name)
{
    return rights->admin || rights_name(rights, any_of, name);
}
