/*
 * set.c - tidings set: creates, changes, shows and deletes sets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    OPTION_PRIVATE,
    OPTION_UPSTREAM_TOPIC,
    OPTION_HUB,
    OPTION_RESET,
    OPTION_DISCARD,
    OPTION_JSON,
    OPTION_YES,
    OPTIONS
};

static const struct option options[] = {
    [OPTION_TITLE] = {"title", "TEXT", .help = "title of the set, for people"},
    [OPTION_DESCRIPTION] = {"description", "URL",
                            .help = "where it is described"},
    [OPTION_ROTATE_ENTRIES] = {"rotate-entries", "N",
                               .help = "entries of a Change List"},
    [OPTION_ROTATE_BYTES] = {"rotate-bytes", "N",
                             .help = "bytes of a Change List"},
    [OPTION_ROTATE_AGE] = {"rotate-age", "SECONDS",
                           .help = "age of a Change List; 0 is never"},
    [OPTION_RETAIN_LISTS] = {"retain-lists", "N",
                             .help = "closed lists that stay; 0 is all"},
    [OPTION_RETAIN_AGE] = {"retain-age", "SECONDS",
                           .help = "how long they stay; 0 is for ever"},
    [OPTION_RESOURCE_LIST_EVERY] =
        {"resource-list-every", "SECONDS",
         .help = "age of a Resource List; 0 is on demand"},
    [OPTION_RESOURCE_DUMP_EVERY] =
        {"resource-dump-every", "SECONDS",
         .help = "age of a Resource Dump; 0 is on demand"},
    [OPTION_RESOURCE_LIST_KEEP] = {"resource-list-keep", "daily|none|N",
                                   .help = "which ones stay in the archive"},
    [OPTION_RESOURCE_DUMP_KEEP] = {"resource-dump-keep", "daily|none|N",
                                   .help = "likewise, of Resource Dumps"},
    [OPTION_CONTENT] = {"content", "none|fetch|inline",
                        .help =
                            "whether the broker stores the bytes of resources"},
    [OPTION_PRIVATE] = {"private", NULL,
                        .help =
                            "create: only for tokens that may read the set"},
    [OPTION_UPSTREAM_TOPIC] = {"upstream-topic", "URL",
                               .help = "take the changes of this WebSub topic"},
    [OPTION_HUB] = {"hub", "URL", .help = "send changes to this hub, too",
                    .may_repeat = true},
    [OPTION_RESET] = {"reset", "OPTION",
                      .help = "change: the broker's default again, or none",
                      .may_repeat = true},
    [OPTION_DISCARD] = {"discard", NULL,
                        .help = "change: also where stored bytes are deleted"},
    [OPTION_JSON] = {"json", NULL, .help = "show: the broker's JSON"},
    [OPTION_YES] = {"yes", NULL, .help = "delete: do not ask"},
};

/* The names of the settings, in the order of the options. */
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
                                      "private",
                                      "upstreamTopic",
                                      "hubs"};

/* Digits, at most one point within them: the broker judges all else. */
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

/* Writes all hubs: ["http://a.example/hub","http://b.example/hub"]. */
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

/* The setting with that option's name, for --reset; OPTION_RESET: none. */
static int
setting_named(const char *name)
{
    int i = OPTION_TITLE;

    while (i < OPTION_RESET && strcmp(name, options[i].name))
        i++;
    return i;
}

/* Finds mistakes that the broker could not see. */
static enum exit_code
check_settings(const struct arguments *arguments)
{
    for (int i = OPTION_TITLE; i <= OPTION_HUB; i++)
        if (is_number_option(i) && arguments->options[i] &&
            !is_number(arguments->options[i]))
            return bad_usage("--%s is a number", options[i].name);
    for (size_t i = 0; i < arguments->n_given; i++) {
        const char *name = arguments->given[i].value;

        if (arguments->given[i].row != OPTION_RESET)
            continue;
        if (setting_named(name) == OPTION_RESET)
            return bad_usage("--reset %s: there is no such option of a set",
                             name);
        if (arguments->options[setting_named(name)])
            return bad_usage("--%s and --reset %s contradict each other", name,
                             name);
    }
    return EXIT_GOOD;
}

/* Writes the value of the setting `i`. */
static void
put_value(FILE *to, const struct arguments *arguments, int i)
{
    const char *given = arguments->options[i];

    if (i == OPTION_HUB)
        put_hubs(to, arguments);
    else if (i == OPTION_PRIVATE)
        fputs("true", to);
    else if (is_number_option(i) || (is_keep_option(i) && is_number(given)))
        fputs(given, to);
    else
        put_json_string(to, given);
}

static int
is_reset(const struct arguments *arguments, int i)
{
    for (size_t k = 0; k < arguments->n_given; k++)
        if (arguments->given[k].row == OPTION_RESET &&
            setting_named(arguments->given[k].value) == i)
            return 1;
    return 0;
}

/* {"title":"Demo","rotateEntries":1000,"rotateAge":null} */
static char *
settings_of(const struct arguments *arguments, size_t *size)
{
    const char *before = "{";
    char *text = NULL;
    FILE *to = open_memstream(&text, size);

    if (!to)
        return NULL;
    for (int i = OPTION_TITLE; i <= OPTION_HUB; i++) {
        if (!arguments->options[i] && !is_reset(arguments, i))
            continue;
        fprintf(to, "%s\"%s\":", before, members[i]);
        if (arguments->options[i])
            put_value(to, arguments, i);
        else
            fputs("null", to);
        before = ",";
    }
    fputs(*before == '{' ? "{}" : "}", to);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Creates or changes the set by the settings of the command line. */
static enum exit_code
give_settings(struct td_client *client, const struct arguments *arguments,
              int is_new)
{
    const char *url = arguments->operands[1];
    size_t size = 0;
    char *settings;
    enum exit_code code = check_settings(arguments);

    if (code != EXIT_GOOD)
        return code;
    settings = settings_of(arguments, &size);
    if (!settings) {
        say(NO_MEMORY);
        return EXIT_FAILED;
    }
    if (is_new)
        code = exit_of(client, td_set_create(client, url, settings, size));
    else if (!strcmp(settings, "{}"))
        code = bad_usage("set change needs a setting, or --reset");
    else
        code = exit_of(
            client, td_set_change(client, url, settings, size,
                                  arguments->options[OPTION_DISCARD] != NULL));
    if (code == EXIT_GOOD)
        puts(is_new ? "created" : "changed");
    free(settings);
    return code;
}

static enum exit_code
create_set(struct td_client *client, const struct arguments *arguments)
{
    return give_settings(client, arguments, 1);
}

static enum exit_code
change_set(struct td_client *client, const struct arguments *arguments)
{
    return give_settings(client, arguments, 0);
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
show_set(struct td_client *client, const struct arguments *arguments)
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

/* The amount of data that a deletion destroys. */
struct loss {
    unsigned long long entries, lists, files, bytes;
};

static void
count_loss(const char *path, const char *value, void *user)
{
    struct loss *loss = user;

    const struct {
        const char *path;
        unsigned long long *number;
    } rows[] = {
        {"last", &loss->entries},
        {"lists.closed", &loss->lists},
        {"content.kept", &loss->files},
        {"content.bytes", &loss->bytes},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(path, rows[i].path))
            *rows[i].number = strtoull(value, NULL, 10);
}

/* Asks on the terminal whether to delete the set. EXIT_FAILED: no. */
static enum exit_code
confirm_deletion(struct td_client *client, const char *url)
{
    struct loss loss = {0};
    char answer[16] = "";
    enum exit_code code;

    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return bad_usage("set delete deletes all that the set has: give --yes, "
                         "or let it ask on a terminal");
    code = exit_of(client, td_set_get(client, url, count_loss, &loss, NULL));
    if (code != EXIT_GOOD)
        return code;
    fprintf(stderr, "Delete %s with %llu entries, %llu closed lists", url,
            loss.entries, loss.lists);
    if (loss.files)
        fprintf(stderr, ", %llu files of content (%llu bytes)", loss.files,
                loss.bytes);
    fputs("? Type yes: ", stderr);
    fflush(stderr);
    if (fgets(answer, sizeof(answer), stdin) && !strcmp(answer, "yes\n"))
        return EXIT_GOOD;
    say("nothing was deleted");
    return EXIT_FAILED;
}

static enum exit_code
delete_set(struct td_client *client, const struct arguments *arguments)
{
    const char *url = arguments->operands[1];
    enum exit_code code = EXIT_GOOD;

    if (!arguments->options[OPTION_YES])
        code = confirm_deletion(client, url);
    if (code == EXIT_GOOD)
        code = exit_of(client, td_set_delete(client, url));
    if (code == EXIT_GOOD)
        puts("deleted");
    return code;
}

static const struct action {
    const char *name;
    int first, last; /* the options it takes */
    enum exit_code (*run)(struct td_client *client,
                          const struct arguments *arguments);
} actions[] = {
    {"create", OPTION_TITLE, OPTION_HUB, create_set},
    {"change", OPTION_TITLE, OPTION_DISCARD, change_set},
    {"show", OPTION_JSON, OPTION_JSON, show_set},
    {"delete", OPTION_YES, OPTION_YES, delete_set},
};

static enum exit_code
run_set(const struct arguments *arguments)
{
    const char *name = arguments->n_operands > 0 ? arguments->operands[0] : "";
    size_t n = sizeof(actions) / sizeof(actions[0]), i = 0;
    struct td_client *client;
    enum exit_code code;

    while (i < n && strcmp(name, actions[i].name))
        i++;
    if (i == n)
        return bad_usage("set needs create, change, show or delete; see "
                         "tidings set --help");
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
    .operands = "create|change|show|delete SET-URL",
    .help = "Creates a set, changes its settings, shows or deletes it.",
    .more =
        "create and change take the settings; --hub may be given several "
        "times. create\nrefuses a set that exists. change leaves alone what "
        "is not named; --reset, which\nmay be given several times, makes a "
        "setting what it is without the option. A\nchange that would delete "
        "stored bytes (content none, fewer lists, a smaller age)\nis refused "
        "with the amount, unless --discard is given.\n\n"
        "delete asks on a terminal, and needs --yes elsewhere: what the set "
        "had is gone\nwhen it prints \"deleted\".\n",
    .options = OPTIONS(options),
    .run = run_set,
};
