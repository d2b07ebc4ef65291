#include "broker/access/jose_text.h"

#include <jose/b64.h>

/* Counts brackets outside of strings; the text need not be JSON. */
static bool
is_too_deep(struct slice text)
{
    size_t depth = 0;
    bool is_string = false;

    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (is_string && c == '\\')
            i++;
        else if (c == '"')
            is_string = !is_string;
        else if (is_string)
            continue;
        else if ((c == '[' || c == '{') && ++depth > JOSE_DEPTH_MAX)
            return true;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
    }
    return false;
}

enum status
jose_object(json_t **object, struct slice text, struct problem *why)
{
    json_error_t error;

    *object = NULL;
    if (is_too_deep(text))
        return problem(why, STATUS_MALFORMED,
                       "the JSON has more than %d arrays and objects inside of "
                       "each other",
                       JOSE_DEPTH_MAX);
    *object = json_loadb(text.size ? text.data : "", text.size,
                         JSON_REJECT_DUPLICATES, &error);
    if (!*object) {
        char *quote = strstr(error.text, " near ");

        /* Leaves out the piece of text that jansson quotes: it may be a secret.
         */
        if (json_error_code(&error) == json_error_out_of_memory)
            return problem_memory(why);
        if (quote)
            *quote = '\0';
        return problem(why, STATUS_MALFORMED,
                       "the JSON is broken at byte %d of line %d: %s",
                       error.column, error.line, error.text);
    }
    if (json_is_object(*object))
        return STATUS_OK;
    json_decref(*object);
    *object = NULL;
    return problem(why, STATUS_MALFORMED, "the JSON is no object");
}

struct slice
jose_string(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_string(value) ? (struct slice){json_string_value(value),
                                                  json_string_length(value)}
                                 : (struct slice){NULL, 0};
}

bool
jose_base64url(void *to, size_t room, size_t *size, struct slice text)
{
    *size = 0;
    if (text.size == 0)
        return true;
    *size = jose_b64_dec_buf(text.data, text.size, to, room);
    return *size != SIZE_MAX;
}
