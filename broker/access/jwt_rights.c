#include "broker/access/jwt_rights.h"

#include <ctype.h>

#include "proto/uri.h"

/* True for the variable of a URI template (RFC 6570) that stands for a piece of
 * a path: "{set}". */
static bool
is_variable(struct slice text)
{
    for (size_t i = 1; i + 1 < text.size; i++)
        if (!isalnum((unsigned char)text.data[i]) && text.data[i] != '_')
            return false;
    return text.size > 2 && text.data[0] == '{' &&
           text.data[text.size - 1] == '}';
}

/* Returns the pattern of the sets that a selector of topics means; empty: of
 * none. */
static struct slice
selected_sets(struct slice selector, struct slice public_url)
{
    static const char *const behind[] = {"", "/", "/stream", "/changes",
                                         "/notifications"};
    struct slice set;

    if (slice_is(selector, "*") || set_name_is_valid(selector))
        return selector;
    if (selector.size > public_url.size &&
        !memcmp(selector.data, public_url.data, public_url.size))
        slice_skip(&selector, public_url.size);
    if (!slice_starts(selector, "/sets/"))
        return (struct slice){NULL, 0};
    slice_skip(&selector, strlen("/sets/"));
    set = slice_take_until(&selector, "/");
    for (size_t i = 0; i < N_ELEMENTS(behind); i++)
        if (slice_is(selector, behind[i]))
            return set_name_is_valid(set) ? set
                   : is_variable(set)     ? SLICE("*")
                                          : (struct slice){NULL, 0};
    return (struct slice){NULL, 0};
}

/* Adds a list of patterns; `is_mercure`: of selectors of topics. */
static enum status
add_list(struct rights *rights, enum right right, const json_t *claim,
         bool is_mercure, struct slice public_url, struct problem *why)
{
    const json_t *list = json_object_get(claim, rights_word(right)), *one;
    enum status rc = STATUS_OK;
    size_t i;

    if (list && !json_is_array(list))
        return problem(why, STATUS_INVALID, "\"%s\" is no array",
                       rights_word(right));
    json_array_foreach(list, i, one)
    {
        struct slice text = {json_string_value(one), json_string_length(one)};
        struct slice rest = text;

        if (!json_is_string(one))
            return problem(why, STATUS_INVALID,
                           "\"%s\" has a value that is no text",
                           rights_word(right));
        /* rights_add would read several patterns from "a,b". */
        if (!is_mercure &&
            (!text.size || slice_take_until(&rest, ", \t").size != text.size))
            return problem_quoting(why, STATUS_INVALID, "this is no pattern",
                                   text);
        if (is_mercure)
            text = selected_sets(text, public_url);
        if (text.size)
            rc = rights_add(rights, right, text, why);
        if (rc)
            break;
    }
    return rc;
}

enum status
jwt_rights_read(struct rights *rights, const json_t *claims,
                struct slice public_url, struct problem *why)
{
    const json_t *tidings = json_object_get(claims, "tidings");
    const json_t *mercure = json_object_get(claims, "mercure");
    const json_t *observe = json_object_get(tidings, "observe");
    enum status rc = STATUS_OK;

    memset(rights, 0, sizeof(*rights));
    if ((tidings && !json_is_object(tidings)) ||
        (mercure && !json_is_object(mercure)))
        return problem(why, STATUS_INVALID, "the claim \"%s\" is no object",
                       json_is_object(tidings) || !tidings ? "mercure"
                                                           : "tidings");
    for (enum right right = RIGHT_PUBLISH; !rc && right <= RIGHT_MANAGE;
         right <<= 1)
        rc = add_list(rights, right, tidings, false, public_url, why);
    if (!rc && observe && !json_is_boolean(observe))
        rc = problem(why, STATUS_INVALID,
                     "\"observe\" is neither true nor false");
    rights->observe = json_is_true(observe);
    if (rc)
        return problem_prefix(why, rc, "the claim \"tidings\": ");
    rc = add_list(rights, RIGHT_PUBLISH, mercure, true, public_url, why);
    if (!rc)
        rc = add_list(rights, RIGHT_SUBSCRIBE, mercure, true, public_url, why);
    return rc ? problem_prefix(why, rc, "the claim \"mercure\": ") : STATUS_OK;
}
