/*
 * publish.c - tidings publish: posts a document, or changes made from options.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

/* What is posted is held in memory. */
#define DOCUMENT_MAX ((size_t)1 << 30)

enum {
    OPTION_TYPE,
    OPTION_CHANGE,
    OPTION_LASTMOD,
    OPTION_HASH,
    OPTION_LENGTH,
    OPTION_MEDIA_TYPE
};

static const struct option_row options[] = {
    [OPTION_TYPE] = {"type", "xml|json",
                     "of FILE; else told by its name or its first character"},
    [OPTION_CHANGE] = {"change", "KIND",
                       "created, updated or deleted; operands are LOCs"},
    [OPTION_LASTMOD] = {"lastmod", "TIME", "when the resource was modified"},
    [OPTION_HASH] = {"hash", "sha-256:HEX", "digest of its representation"},
    [OPTION_LENGTH] = {"length", "BYTES", "length of its representation"},
    [OPTION_MEDIA_TYPE] = {"media-type", "TYPE",
                           "media type of its representation"},
    {NULL, NULL, NULL},
};

/* Reading: FILE, "-" */

/* Reads all of `f` into `*text`, the caller's. */
static bool
read_all(FILE *f, char **text, size_t *size)
{
    size_t room = 65536;

    *size = 0;
    *text = malloc(room);
    while (*text) {
        char *more;

        *size += fread(*text + *size, 1, room - *size, f);
        if (*size < room)
            return !ferror(f);
        if (room >= DOCUMENT_MAX) {
            errno = EFBIG;
            return false;
        }
        room *= 2;
        more = realloc(*text, room);
        if (!more)
            return false;
        *text = more;
    }
    return false;
}

static bool
ends_with(const char *name, const char *end)
{
    size_t size = strlen(name);

    return size >= strlen(end) && !strcmp(name + size - strlen(end), end);
}

static const char xml_type[] = "application/xml";
static const char json_type[] = "application/json";

/* The media type of a document; NULL: it cannot be told. */
static const char *
type_of(const char *told, const char *name, const char *text, size_t size)
{
    size_t i = 0;

    if (told && !strcmp(told, "xml"))
        return xml_type;
    if (told)
        return strcmp(told, "json") ? NULL : json_type;
    if (ends_with(name, ".xml"))
        return xml_type;
    if (ends_with(name, ".json"))
        return json_type;

    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        i = 3; /* a byte order mark */
    while (i < size && text[i] && strchr(" \t\r\n", text[i]))
        i++;
    if (i < size && text[i] == '<')
        return xml_type;
    if (i < size && (text[i] == '[' || text[i] == '{'))
        return json_type;
    return NULL;
}

/* Making: --change and LOCs */

static void
put_member(FILE *to, const char *name, const char *text)
{
    if (!text)
        return;
    fprintf(to, ",\"%s\":", name);
    put_json_string(to, text);
}

/* {"loc":"...","change":"...","lastmod":"...","hash":{"sha-256":"..."},
 * "length":3,"type":"..."} */
static void
put_change(FILE *to, const struct arguments *arguments, const char *loc)
{
    const char *const *given = arguments->options;
    const char *hash = given[OPTION_HASH];

    fputs("{\"loc\":", to);
    put_json_string(to, loc);
    put_member(to, "change", given[OPTION_CHANGE]);
    put_member(to, "lastmod", given[OPTION_LASTMOD]);
    if (hash) {
        fprintf(to, ",\"hash\":{\"%.*s\":", (int)(strchr(hash, ':') - hash),
                hash);
        put_json_string(to, strchr(hash, ':') + 1);
        fputc('}', to);
    }
    if (given[OPTION_LENGTH])
        fprintf(to, ",\"length\":%s", given[OPTION_LENGTH]);
    put_member(to, "type", given[OPTION_MEDIA_TYPE]);
    fputc('}', to);
}

static bool
is_made_of(const char *text, const char *characters)
{
    return *text && text[strspn(text, characters)] == '\0';
}

/* What would not even be JSON; all else is for the broker to judge. */
static const char *
fault_of(const struct arguments *arguments)
{
    const char *length = arguments->options[OPTION_LENGTH];
    const char *hash = arguments->options[OPTION_HASH];
    const char *kind = arguments->options[OPTION_CHANGE];

    if (strcmp(kind, "created") && strcmp(kind, "updated") &&
        strcmp(kind, "deleted"))
        return "--change is created, updated or deleted";
    if (length &&
        (!is_made_of(length, "0123456789") || (length[0] == '0' && length[1])))
        return "--length is a number of bytes";
    if (hash && (strcspn(hash, ":") == strlen(hash) ||
                 strcspn(hash, "\"\\") < strcspn(hash, ":")))
        return "--hash is ALGORITHM:HEX, such as sha-256:...";
    if (arguments->options[OPTION_TYPE])
        return "--type is for a FILE, --media-type for the resource";
    if (arguments->n_operands < 2)
        return "--change needs at least one LOC";
    return NULL;
}

static bool
make_document(const struct arguments *arguments, char **text, size_t *size)
{
    FILE *to = open_memstream(text, size);
    bool is_good;

    if (!to)
        return false;
    for (int i = 1; i < arguments->n_operands; i++) {
        fputs(i == 1 ? "[" : ",\n", to);
        put_change(to, arguments, arguments->operands[i]);
    }
    fputs("]\n", to);
    is_good = !ferror(to);
    return !fclose(to) && is_good;
}

/* The command */

static enum exit_code
post(const char *set_url, const char *type, const char *text, size_t size)
{
    struct td_client *client = td_open();
    struct td_receipt receipt;
    enum exit_code code;

    if (!client) {
        say("no memory or descriptors left");
        return EXIT_FAILED;
    }
    code = exit_of(
        client, td_publish(client, set_url, type, NULL, text, size, &receipt));
    if (code == EXIT_GOOD)
        print_receipt(&receipt);
    td_close(client);
    return code;
}

static enum exit_code
post_file(const struct arguments *arguments)
{
    const char *name =
        arguments->n_operands == 2 ? arguments->operands[1] : "-";
    bool is_stdin = !strcmp(name, "-");
    FILE *f = is_stdin ? stdin : fopen(name, "rb");
    const char *type;
    char *text = NULL;
    size_t size = 0;
    enum exit_code code = EXIT_FAILED;

    if (!f || !read_all(f, &text, &size)) {
        say("cannot read %s: %s", is_stdin ? "standard input" : name,
            strerror(errno));
        goto out;
    }
    type = type_of(arguments->options[OPTION_TYPE], name, text, size);
    if (type)
        code = post(arguments->operands[0], type, text, size);
    else if (arguments->options[OPTION_TYPE])
        code = bad_usage("--type is xml or json");
    else
        code = bad_usage("%s is neither XML nor JSON at first sight; "
                         "--type tells",
                         is_stdin ? "standard input" : name);

out:
    free(text);
    if (f && !is_stdin)
        fclose(f);
    return code;
}

static enum exit_code
run(const struct arguments *arguments)
{
    const char *fault;
    char *text = NULL;
    size_t size = 0;
    enum exit_code code = EXIT_FAILED;

    if (arguments->n_operands < 1)
        return bad_usage("publish needs a SET-URL; see tidings publish --help");
    if (!arguments->options[OPTION_CHANGE]) {
        for (int i = OPTION_LASTMOD; i <= OPTION_MEDIA_TYPE; i++)
            if (arguments->options[i])
                return bad_usage("--%s needs --change", options[i].name);
        if (arguments->n_operands > 2)
            return bad_usage("one FILE at a time; for LOCs use --change");
        return post_file(arguments);
    }

    fault = fault_of(arguments);
    if (fault)
        return bad_usage("%s", fault);
    if (make_document(arguments, &text, &size))
        code = post(arguments->operands[0], json_type, text, size);
    else
        say("no memory");
    free(text);
    return code;
}

const struct command publish_command = {
    .name = "publish",
    .operands = "SET-URL [FILE|-] | SET-URL --change KIND LOC...",
    .help = "Posts changes to a set and returns when they are durable.",
    .more = "Without FILE, or with -, standard input is read to its end. "
            "Several LOCs\nare several entries of one post. When all were "
            "kept it prints one line:\n\n"
            "  first=1 last=3 position=0123456789abcdef-3 datetime=...Z\n\n"
            "the numbers of the first and the last entry, and the position "
            "and event\ntime of the last. A post is kept whole or not at "
            "all.\n",
    .options = options,
    .run = run,
};
