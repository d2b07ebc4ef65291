#include "broker/access/jwt_rights.h"

#include <ctype.h>

#include "proto/uri.h"

static const enum right of_sets[] = {RIGHT_PUBLISH, RIGHT_SUBSCRIBE,
                                     RIGHT_MANAGE};

/* Adds one text of a list. */
typedef enum status add_fn(struct rights *rights, enum right right,
                           struct slice text, struct slice public_url,
                           struct problem *why);

static enum status
add_list(struct rights *rights, enum right right, const json_t *claim,
         add_fn *add, struct slice public_url, struct problem *why)
{
    const json_t *list = json_object_get(claim, rights_word(right)), *one;
    enum status rc = STATUS_OK;
    size_t i;

    if (list && !json_is_array(list))
        return problem(why, STATUS_INVALID, "\"%s\" is no array",
                       rights_word(right));
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            return problem(why, STATUS_INVALID,
                           "\"%s\" has a value that is no text",
                           rights_word(right));
        rc =
            add(rights, right,
                (struct slice){json_string_value(one), json_string_length(one)},
                public_url, why);
        if (rc)
            break;
    }
    return rc;
}

/* Ours */

/* A text is one pattern: rights_add would read several from "a,b". */
static enum status
add_pattern(struct rights *rights, enum right right, struct slice text,
            struct slice public_url, struct problem *why)
{
    (void)public_url;
    if (text.size == 0 || memchr(text.data, ',', text.size) ||
        memchr(text.data, ' ', text.size) || memchr(text.data, '\t', text.size))
        return problem_quoting(why, STATUS_INVALID, "this is no pattern", text);
    return rights_add(rights, right, text, why);
}

static enum status
read_tidings(struct rights *rights, const json_t *claim, struct problem *why)
{
    const json_t *observe = json_object_get(claim, "observe");
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < N_ELEMENTS(of_sets); i++)
        rc = add_list(rights, of_sets[i], claim, add_pattern,
                      (struct slice){NULL, 0}, why);
    if (!rc && observe && !json_is_boolean(observe))
        rc = problem(why, STATUS_INVALID,
                     "\"observe\" is neither true nor "
                     "false");
    rights->observe = json_is_true(observe);
    return rc;
}

/* Mercure's */

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

static enum status
add_selector(struct rights *rights, enum right right, struct slice text,
             struct slice public_url, struct problem *why)
{
    struct slice sets = selected_sets(text, public_url);

    return sets.size ? rights_add(rights, right, sets, why) : STATUS_OK;
}

enum status
jwt_rights_read(struct rights *rights, const json_t *claims,
                struct slice public_url, struct problem *why)
{
    const json_t *tidings = json_object_get(claims, "tidings");
    const json_t *mercure = json_object_get(claims, "mercure");
    enum status rc = STATUS_OK;

    memset(rights, 0, sizeof(*rights));
    if ((tidings && !json_is_object(tidings)) ||
        (mercure && !json_is_object(mercure)))
        return problem(why, STATUS_INVALID, "the claim \"%s\" is no object",
                       json_is_object(tidings) || !tidings ? "mercure"
                                                           : "tidings");
    if (tidings)
        rc = read_tidings(rights, tidings, why);
    if (rc)
        return problem_prefix(why, rc, "the claim \"tidings\": ");
    if (mercure)
        rc = add_list(rights, RIGHT_PUBLISH, mercure, add_selector, public_url,
                      why);
    if (!rc && mercure)
        rc = add_list(rights, RIGHT_SUBSCRIBE, mercure, add_selector,
                      public_url, why);
    return rc ? problem_prefix(why, rc, "the claim \"mercure\": ") : STATUS_OK;
}
