/*
 * set.c - tidings set: creates, shows and deletes sets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

enum {
    OPTION_TITLE,
    OPTION_DESCRIPTION,
    OPTION_ROTATE_ENTRIES,
    OPTION_ROTATE_BYTES,
    OPTION_ROTATE_AGE,
    OPTION_RETAIN_LISTS,
    OPTION_RETAIN_AGE,
    OPTION_RESOURCE_LIST_EVERY,
    OPTION_RESOURCE_DUMP_EVERY,
    OPTION_RESOURCE_LIST_KEEP,
    OPTION_RESOURCE_DUMP_KEEP,
    OPTION_CONTENT,
    OPTION_UPSTREAM_TOPIC,
    OPTION_HUB,
    OPTION_JSON,
    OPTIONS
};

static const struct option_row options[] = {
    [OPTION_TITLE] = {"title", "TEXT", "create: what it is called"},
    [OPTION_DESCRIPTION] = {"description", "URL",
                            "create: where it is described"},
    [OPTION_ROTATE_ENTRIES] = {"rotate-entries", "N",
                               "create: entries of a Change List"},
    [OPTION_ROTATE_BYTES] = {"rotate-bytes", "N",
                             "create: bytes of a Change List"},
    [OPTION_ROTATE_AGE] = {"rotate-age", "SECONDS",
                           "create: age of a Change List; 0 is never"},
    [OPTION_RETAIN_LISTS] = {"retain-lists", "N",
                             "create: closed lists that stay; 0 is all"},
    [OPTION_RETAIN_AGE] = {"retain-age", "SECONDS",
                           "create: how long they stay; 0 is for ever"},
    [OPTION_RESOURCE_LIST_EVERY] = {"resource-list-every", "SECONDS",
                                    "create: age of a Resource List; 0 is on "
                                    "demand"},
    [OPTION_RESOURCE_DUMP_EVERY] = {"resource-dump-every", "SECONDS",
                                    "create: age of a Resource Dump; 0 is on "
                                    "demand"},
    [OPTION_RESOURCE_LIST_KEEP] = {"resource-list-keep", "daily|none|N",
                                   "create: which ones stay in the archive"},
    [OPTION_RESOURCE_DUMP_KEEP] = {"resource-dump-keep", "daily|none|N",
                                   "create: likewise, of Resource Dumps"},
    [OPTION_CONTENT] = {"content", "none|fetch|inline",
                        "create: what is kept of the resources' bytes"},
    [OPTION_UPSTREAM_TOPIC] = {"upstream-topic", "URL",
                               "create: take in what this topic tells"},
    [OPTION_HUB] = {"hub", "URL", "create: tell this hub, too"},
    [OPTION_JSON] = {"json", NULL, "show: as the broker says it"},
    {NULL, NULL, NULL},
};

/* The settings' names, in the order of the options. */
static const char *const members[] = {"title",
                                      "description",
                                      "rotateEntries",
                                      "rotateBytes",
                                      "rotateAge",
                                      "retainLists",
                                      "retainAge",
                                      "resourceListEvery",
                                      "resourceDumpEvery",
                                      "resourceListKeep",
                                      "resourceDumpKeep",
                                      "content",
                                      "upstreamTopic",
                                      "hubs"};

/* Digits, at most one point within them: all else is for the broker to judge.
 */
static int
is_number(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    const char *rest = text + whole;

    if (whole == 0 || (whole > 1 && *text == '0'))
        return 0;
    if (*rest == '.')
        return rest[1] && rest[1 + strspn(rest + 1, "0123456789")] == '\0';
    return *rest == '\0';
}

static int
is_number_option(int option)
{
    return option >= OPTION_ROTATE_ENTRIES &&
           option <= OPTION_RESOURCE_DUMP_EVERY;
}

static int
is_keep_option(int option)
{
    return option == OPTION_RESOURCE_LIST_KEEP ||
           option == OPTION_RESOURCE_DUMP_KEEP;
}

/* All that were given: ["http://a.example/hub","http://b.example/hub"]. */
static void
put_hubs(FILE *to, const struct arguments *arguments)
{
    const char *before = "[";

    for (size_t i = 0; i < arguments->n_given; i++) {
        if (arguments->given[i].row != OPTION_HUB)
            continue;
        fputs(before, to);
        put_json_string(to, arguments->given[i].value);
        before = ",";
    }
    fputs("]", to);
}

/* {"title":"Demo","rotateEntries":1000} */
static char *
settings_of(const struct arguments *arguments, size_t *size)
{
    const char *before = "{";
    char *text = NULL;
    FILE *to = open_memstream(&text, size);

    if (!to)
        return NULL;
    for (int i = OPTION_TITLE; i <= OPTION_HUB; i++) {
        const char *given = arguments->options[i];

        if (!given)
            continue;
        fprintf(to, "%s\"%s\":", before, members[i]);
        if (i == OPTION_HUB)
            put_hubs(to, arguments);
        else if (is_number_option(i) || (is_keep_option(i) && is_number(given)))
            fputs(given, to);
        else
            put_json_string(to, given);
        before = ",";
    }
    fputs(*before == '{' ? "{}" : "}", to);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

static enum exit_code
create(struct td_client *client, const struct arguments *arguments)
{
    size_t size = 0;
    char *settings;
    enum exit_code code;
    int is_new = 0;

    for (int i = OPTION_TITLE; i <= OPTION_HUB; i++)
        if (is_number_option(i) && arguments->options[i] &&
            !is_number(arguments->options[i]))
            return bad_usage("--%s is a number", options[i].name);
    settings = settings_of(arguments, &size);
    if (!settings) {
        say("no memory");
        return EXIT_FAILED;
    }
    code = exit_of(client, td_set_put(client, arguments->operands[1], settings,
                                      size, &is_new));
    if (code == EXIT_GOOD)
        puts(is_new ? "created" : "changed");
    free(settings);
    return code;
}

static void
print_value(const char *name, const char *value)
{
    size_t size = strlen(name);

    print_plain(name);
    printf("%*s ", size < 27 ? 27 - (int)size : 0, "");
    print_plain(value);
    putchar('\n');
}

/* A link is two values: its relation, then its address. */
static void
show_member(const char *path, const char *value, void *user)
{
    char *rel = user;
    size_t size = strlen(path);

    if (strncmp(path, "links.", 6)) {
        print_value(path, value);
    } else if (size > 4 && !strcmp(path + size - 4, ".rel")) {
        snprintf(rel, 64, "link %s", value);
    } else if (size > 5 && !strcmp(path + size - 5, ".href")) {
        print_value(rel, value);
    }
}

static enum exit_code
show(struct td_client *client, const struct arguments *arguments)
{
    int as_json = arguments->options[OPTION_JSON] != NULL;
    char rel[64] = "";
    char *json = NULL;
    enum exit_code code =
        exit_of(client, td_set_get(client, arguments->operands[1],
                                   as_json ? NULL : show_member, rel, &json));

    if (code == EXIT_GOOD && as_json)
        fputs(json, stdout);
    free(json);
    return code;
}

static enum exit_code delete (struct td_client *client,
                              const struct arguments *arguments) {
    enum exit_code code =
        exit_of(client, td_set_delete(client, arguments->operands[1]));

    if (code == EXIT_GOOD) puts("deleted");
    return code;
}

static const struct action {
    const char *name;
    int first, last; /* the options it takes */
    enum exit_code (*run)(struct td_client *client,
                          const struct arguments *arguments);
} actions[] = {
    {"create", OPTION_TITLE, OPTION_HUB, create},
    {"show", OPTION_JSON, OPTION_JSON, show},
    {"delete", OPTIONS, OPTIONS, delete},
};

static enum exit_code
run(const struct arguments *arguments)
{
    const char *name = arguments->n_operands > 0 ? arguments->operands[0] : "";
    size_t n = sizeof(actions) / sizeof(actions[0]), i = 0;
    struct td_client *client;
    enum exit_code code;

    while (i < n && strcmp(name, actions[i].name))
        i++;
    if (i == n)
        return bad_usage("set needs create, show or delete; see tidings set "
                         "--help");
    if (arguments->n_operands != 2)
        return bad_usage("set %s needs one SET-URL", name);
    for (int o = 0; o < OPTIONS; o++)
        if (arguments->options[o] &&
            (o < actions[i].first || o > actions[i].last))
            return bad_usage("set %s takes no --%s", name, options[o].name);
    client = open_client(arguments, arguments->operands[1], &code);
    if (!client)
        return code;
    code = actions[i].run(client, arguments);
    td_close(client);
    return code;
}

const struct command set_command = {
    .name = "set",
    .operands = "create|show|delete SET-URL",
    .help = "Creates or configures a set, shows what it is, or deletes it.",
    .more = "create prints \"created\", or \"changed\" where the set was "
            "there: then the\nsettings that are not given take the broker's "
            "defaults again, and hubs and\nupstream topic are none. --hub "
            "may be given several times. delete asks nothing:\nwhat the set "
            "had is gone when it prints \"deleted\".\n",
    .options = options,
    .run = run,
};
