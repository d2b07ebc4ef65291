#include "proto/http/accept_header.h"

struct slice
accept_take(struct slice *rest, char separator)
{
    struct slice part = *rest;
    bool is_quoted = false;
    size_t i = 0;

    for (; i < rest->size && (is_quoted || rest->data[i] != separator); i++) {
        if (rest->data[i] == '"')
            is_quoted = !is_quoted;
        else if (is_quoted && rest->data[i] == '\\' && i + 1 < rest->size)
            i++;
    }
    part.size = i;
    slice_skip(rest, i < rest->size ? i + 1 : i);
    return slice_trimmed(part);
}

int
accept_weight(struct slice parameters)
{
    struct slice text;
    int weight, unit = 100;

    do {
        if (parameters.size == 0)
            return 1000;
        text = accept_take(&parameters, ';');
    } while (!slice_is_word(slice_trimmed(slice_take(&text, '=')), "q"));
    text = slice_trimmed(text);
    if (text.size == 0 || text.size > 5 ||
        (text.data[0] != '0' && text.data[0] != '1') ||
        (text.size > 1 && text.data[1] != '.'))
        return -1;
    weight = (text.data[0] - '0') * 1000;
    for (size_t i = 2; i < text.size; i++, unit /= 10) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        weight += (text.data[i] - '0') * unit;
    }
    return weight > 1000 ? -1 : weight;
}

/* How closely a range names an offer: 3 exactly, 2 its type, 1 all; 0 not. */
static int
closeness_of(struct slice range, const char *offer)
{
    size_t type = strcspn(offer, "/") + 1;

    if (slice_is(range, "*/*") || slice_is(range, "*")) /* Java sends both */
        return 1;
    if (slice_is_word(range, offer))
        return 3;
    if (range.size == type + 1 && range.data[type] == '*' &&
        !strncasecmp(range.data, offer, type))
        return 2;
    return 0;
}

int
accept_choose(struct slice header, const char *const *offers, size_t n)
{
    int best = -1, best_weight = 0;
    bool has_range = false;

    for (size_t i = 0; i < n; i++) {
        struct slice rest = header;
        int close = 0, weight = 0;

        while (rest.size > 0) {
            struct slice parameters = accept_take(&rest, ',');
            struct slice range = accept_take(&parameters, ';');
            int found = closeness_of(range, offers[i]);
            int here = found ? accept_weight(parameters) : 0;

            has_range |= found || memchr(range.data, '/', range.size);
            if (here < 0)
                here = 1000; /* a malformed one */

            /* What is named twice is as welcome as it ever is. */
            if (found > close || (found == close && here > weight)) {
                close = found;
                weight = here;
            }
        }
        if (weight > best_weight) {
            best = (int)i;
            best_weight = weight;
        }
    }
    return !has_range && n > 0 ? 0 : best;
}

bool
accept_names(struct slice header, const char *type)
{
    while (header.size > 0) {
        struct slice parameters = accept_take(&header, ',');

        if (closeness_of(accept_take(&parameters, ';'), type) == 3 &&
            accept_weight(parameters) != 0)
            return true;
    }
    return false;
}

/* What programs read. */
static const char *const others[] = {
    "application/xml",          "text/xml",          "application/json",
    "application/problem+json", "text/event-stream", "application/octet-stream",
};

bool
accept_prefers_page(struct slice header, bool is_person)
{
    if (!accept_names(header, "text/html"))
        return false;
    if (!is_person)
        return accept_choose(header, others, N_ELEMENTS(others)) < 0;
    for (size_t i = 0; i < N_ELEMENTS(others); i++) {
        bool is_named = accept_names(header, others[i]);
        const char *const offers[] = {is_named ? others[i] : "text/html",
                                      is_named ? "text/html" : others[i]};

        if (accept_choose(header, offers, 2) != is_named)
            return false;
    }
    return true;
}
