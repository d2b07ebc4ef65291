#include "proto/shown_address.h"

/* What ends an address within a sentence. */
#define ENDS " \t\r\n\"'<>"

/* Ends of names, in any case: api_key, X-Api-Key and accessKey, too. */
static const char secrets[] =
    "key token secret sig signature password passwd pass pwd pw auth jwt hmac "
    "authorization credential credentials session sessionid sid ticket";

static bool
is_secret(struct slice name)
{
    struct slice rest = slice_of(secrets);

    while (rest.size > 0) {
        struct slice word = slice_take(&rest, ' ');
        const char *end = name.data + name.size - word.size;

        if (name.size >= word.size && !strncasecmp(end, word.data, word.size))
            return true;
    }
    return false;
}

/* Puts a star in the place of [from, to); returns what is behind it. */
static char *
hide(char *from, char *to)
{
    if (from == to)
        return to;
    *from = '*';
    memmove(from + 1, to, strlen(to) + 1);
    return from + 1;
}

/* Hides the values of the parameters from `at` on, which is behind the host. */
static void
hide_values(char *at)
{
    at += strcspn(at, "?#" ENDS);
    while (*at && !strchr(ENDS, *at)) { /* at ?, &, ; or # */
        char *name = at + 1, *value = name + strcspn(name, "=&;#" ENDS), *end;

        at = value;
        if (*value != '=')
            continue;
        value++;
        end = value + strcspn(value, "&;#" ENDS);
        while (end > value && strchr(":,.)", end[-1]))
            end--; /* of the sentence */
        if (is_secret(slice_between(name, value - 1)))
            end = hide(value, end);
        at = end + strcspn(end, "&;#" ENDS);
    }
}

char *
shown_address(char *text)
{
    for (char *at = text; at && (at = strstr(at, "://"));) {
        char *end = at + 3 + strcspn(at + 3, "/?#" ENDS), *c = end;

        for (at += 3; c > at && *c != '@'; c--)
            continue;
        at = hide(at, c);
        hide_values(at); /* an address in a value comes next */
    }
    return text;
}
