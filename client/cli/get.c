/*
 * get.c - tidings get: prints a set's documents and links.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"

enum { OPTION_JSON };

static const struct option options[] = {
    [OPTION_JSON] = {"json", NULL, .help = "as a JSON object"},
};

struct get {
    const struct arguments *arguments;
    bool is_json;
    struct td_client *client;
    char position[TD_POSITION_SIZE]; /* from the stream, if the set has
                                        none */
    bool has_printed;
    const char *url; /* from the command line */
};

/* For people: KEY VALUE. */

static void
print_line(const char *key, const char *value)
{
    if (!value)
        return;
    printf("%-22s ", key);
    print_plain(value);
    putchar('\n');
}

static void
print_item(const struct td_item *item)
{
    char key[80];

    snprintf(key, sizeof(key), "%s", item->rel);
    for (char *p = key; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    printf("%-22s %s", key, item->href);
    if (item->type)
        fputs("  ", stdout);
    print_plain(item->type);
    if (item->from)
        fputs("  from ", stdout);
    print_plain(item->from);
    if (item->until)
        fputs("  until ", stdout);
    print_plain(item->until);
    putchar('\n');
}

static void
print_text(const struct td_offer *offer, const char *position)
{
    print_line("set", offer->set_url);
    print_line("title", offer->title);
    print_line("position", position);
    print_line("earliest", offer->earliest);
    print_line("digest", offer->digest);
    print_line("from", offer->from);
    if (offer->n_lists)
        printf("%-22s %" PRIu64 "\n", "lists", offer->n_lists);
    for (size_t i = 0; i < offer->n_items; i++)
        print_item(&offer->items[i]);
}

/* For machines:
 *
 *   {"set":"http://...","title":"...","position":"...","earliest":"...",
 *    "digest":"...","from":"...","lists":2,
 *    "links":[{"rel":"changelist","href":"...","type":"...","from":"..."}],
 *    "description":{...}}
 */

static void
print_json(const struct td_offer *offer, const char *position)
{
    put_member(stdout, "{", "set", offer->set_url);
    put_member(stdout, ",", "title", offer->title);
    put_member(stdout, ",", "position", position);
    put_member(stdout, ",", "earliest", offer->earliest);
    put_member(stdout, ",", "digest", offer->digest);
    put_member(stdout, ",", "from", offer->from);
    if (offer->n_lists)
        printf(",\"lists\":%" PRIu64, offer->n_lists);
    fputs(",\"links\":[", stdout);
    for (size_t i = 0; i < offer->n_items; i++) {
        const struct td_item *item = &offer->items[i];

        put_member(stdout, i ? ",{" : "{", "rel", item->rel);
        put_member(stdout, ",", "href", item->href);
        put_member(stdout, ",", "type", item->type);
        put_member(stdout, ",", "from", item->from);
        put_member(stdout, ",", "until", item->until);
        putchar('}');
    }
    putchar(']');
    if (offer->description) {
        size_t size = offer->description_size;

        while (size && strchr(" \r\n\t", offer->description[size - 1]))
            size--;
        printf(",\"description\":%.*s", (int)size, offer->description);
    }
    puts("}");
}

static int
on_message(const struct td_message *message, void *user)
{
    struct get *get = user;

    snprintf(get->position, sizeof(get->position), "%s", message->position);
    return 1;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct get *get = user;

    (void)why;
    (void)pause_ms;
    td_stop(get->client);
}

/* Asks for the position of the set's last entry, with which a stream begins. A
 * server without streams has no other answer. */
static void
ask_position(struct get *get, const char *set_url)
{
    struct td_follow_options how = {.on_trouble = on_trouble};
    enum exit_code code;
    struct td_client *client = open_client(get->arguments, set_url, &code);

    if (!client)
        return;
    get->client = client;
    if (td_follow(client, set_url, &how, on_message, get) != TD_STOPPED)
        get->position[0] = '\0';
    td_close(client);
}

/* True if both have one host: a document of that URL may not send requests to
 * another server. */
static bool
is_of_host(const char *set_url, const char *url)
{
    const char *host = strstr(url, "://");
    size_t size;

    if (!host)
        return false;
    size = (size_t)(host + 3 - url) + strcspn(host + 3, "/?#");
    return !strncmp(set_url, url, size) &&
           (set_url[size] == '\0' || strchr("/?#", set_url[size]));
}

/* True if the offer has changes; a list of resources would be read to its end.
 */
static bool
has_history(const struct td_offer *offer)
{
    static const char *const rels[] = {
        "changelist",           "changedump",           "changelist-archive",
        "urn:tidings:1:memory", "urn:tidings:1:stream", "urn:tidings:1:events",
    };

    for (size_t i = 0; i < offer->n_items; i++)
        for (size_t j = 0; j < sizeof(rels) / sizeof(rels[0]); j++)
            if (!strcmp(offer->items[i].rel, rels[j]))
                return true;
    return false;
}

static void
on_offer(const struct td_offer *offer, void *user)
{
    struct get *get = user;
    const char *position = offer->position;

    if (!position && has_history(offer) &&
        is_of_host(offer->set_url, get->url)) {
        ask_position(get, offer->set_url);
        position = get->position[0] ? get->position : NULL;
    }
    if (get->is_json) {
        print_json(offer, position);
        return;
    }
    if (get->has_printed)
        putchar('\n');
    print_text(offer, position);
    get->has_printed = true;
}

/* Prints each set of a source, one after the other. */
static enum exit_code
get_all(struct get *get, struct td_client *client, const char *url)
{
    struct found_sets sets;
    enum exit_code code = find_sets(client, url, &sets);
    enum exit_code result = sets.is_partial ? EXIT_FAILED : EXIT_GOOD;

    for (size_t i = 0; !code && i < sets.n; i++) {
        enum td_status rc = td_describe(client, sets.urls[i], on_offer, get);

        result = found_sets_exit(&sets, result, exit_of(client, rc));
    }
    found_sets_fini(&sets);
    return code ? code : result;
}

static enum exit_code
run_get(const struct arguments *arguments)
{
    struct get get = {.is_json = arguments->options[OPTION_JSON] != NULL,
                      .arguments = arguments};
    struct td_client *client;
    enum exit_code code;

    client = open_client(arguments, arguments->operands[0], &code);
    if (!client)
        return code;
    get.url = arguments->operands[0];
    code = get_all(&get, client, arguments->operands[0]);
    td_close(client);
    return code;
}

const struct command get_command = {
    .name = "get",
    .operands = "SET-URL|SOURCE-URL",
    .help = "Tells what a set offers: its position, documents and channels.",
    .more =
        "A line is a name and a value; documents and channels go by their "
        "capability or link relation. What the server does not tell is left "
        "out. With --json the set's own description is in \"description\".\n"
        "\n"
        "Of a SOURCE-URL every set is told: with an empty line between them "
        "or, with --json, an object a line. 1: one of them cannot be read.\n",
    .examples =
        "tidings get http://localhost:8787/sets/news\n"
        "tidings get https://example.org/.well-known/resourcesync --json\n",
    .options = OPTIONS(options),
    .run = run_get,
};
