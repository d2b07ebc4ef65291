#include "broker/access/jose_text.h"

#include <openssl/evp.h>

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
jose_lists(const json_t *list, const char *text)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_is_string(one) && !strcmp(json_string_value(one), text))
            return true;
    }
    return false;
}

void
jose_base64url_write(char *to, struct slice bytes)
{
    EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)bytes.data,
                    (int)bytes.size);
    for (; *to && *to != '='; to++)
        *to = *to == '+' ? '-' : *to == '/' ? '_' : *to;
    *to = '\0';
}

/* Returns the six bits that a character of base64url is; -1: it is none. */
static int
six_bits(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '-'             ? 62
           : c == '_'             ? 63
                                  : -1;
}

bool
jose_base64url(void *to, size_t room, size_t *size, struct slice text)
{
    unsigned char *byte = to;
    uint32_t bits = 0;
    unsigned n_bits = 0; /* not written yet */

    *size = 0;
    if (text.size % 4 == 1 || text.size / 4 * 3 + text.size % 4 * 3 / 4 > room)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        int six = six_bits(text.data[i]);

        if (six < 0)
            return false;
        bits = bits << 6 | (uint32_t)six;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            *byte++ = (unsigned char)(bits >> n_bits);
            bits &= (1U << n_bits) - 1;
        }
    }
    *size = (size_t)(byte - (unsigned char *)to);
    return bits == 0; /* stray bits: another text of the same bytes */
}
