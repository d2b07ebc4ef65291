/*
 * get_command.c - tidings get: prints a set's documents and links.
 */

#include "client/cli/client_settings.h"

static const struct option options[] = {
    {"json", NULL, .help = "as a JSON object"},
};

struct get {
    const struct arguments *arguments;
    bool is_json;
    bool is_brief; /* there are several sets */
    struct td_client *client;
    struct td_client *asking;        /* asks a stream for the position */
    char position[TD_POSITION_SIZE]; /* from it */
    const char *url;                 /* from the command line */
};

/* For people: KEY VALUE. */

#define KEY_WIDTH 23

static void
print_part(const char *before, const char *text)
{
    if (text)
        fputs(before, stdout);
    print_address(text);
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
    put_members(stdout, "{",
                "set:a title:t position:t earliest:t digest:t from:t lists:z",
                offer->set_url, offer->title, position, offer->earliest,
                offer->digest, offer->from, offer->n_lists);
    fputs(",\"links\":[", stdout);
    for (size_t i = 0; i < offer->n_items; i++) {
        const struct td_item *item = &offer->items[i];

        put_members(stdout, i ? ",{" : "{",
                    "rel:t href:t type:t from:t until:t", item->rel, item->href,
                    item->type, item->from, item->until);
        putchar('}');
    }
    putchar(']');
    if (offer->description)
        printf(",\"description\":%.*s",
               SLICE_ARG(slice_without_spaces((struct slice){
                   offer->description, offer->description_size})));
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
    td_stop(get->asking);
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
        for (size_t j = 0; j < N_ELEMENTS(rels); j++)
            if (!strcmp(offer->items[i].rel, rels[j]))
                return true;
    return false;
}

static void
on_offer(const struct td_offer *offer, void *user)
{
    const struct td_follow_options how = {.on_trouble = on_trouble};
    struct get *get = user;
    const char *position = offer->position;
    enum exit_code code;

    get->position[0] = '\0';
    /* A stream begins with the position of the set's last entry. A server
     * without streams has no other answer, and a document of this server may
     * send no requests to another one. */
    if (!position && has_history(offer) &&
        settings_is_same_server(offer->set_url, get->url) &&
        (get->asking =
             open_client(get->arguments, offer->set_url, NULL, &code))) {
        if (td_follow(get->asking, offer->set_url, &how, on_message, get) ==
                TD_STOPPED &&
            get->position[0])
            position = get->position;
        td_close(get->asking);
    }
    if (get->is_json) {
        print_json(offer, position);
        return;
    }
    if (get->is_brief) {
        print_part("", offer->set_url);
        print_part(" ", position);
        putchar('\n');
        return;
    }
    print_pair(KEY_WIDTH, "set", offer->set_url);
    print_pair(KEY_WIDTH, "title", offer->title);
    print_pair(KEY_WIDTH, "position", position);
    print_pair(KEY_WIDTH, "earliest", offer->earliest);
    print_pair(KEY_WIDTH, "digest", offer->digest);
    print_pair(KEY_WIDTH, "from", offer->from);
    if (offer->n_lists)
        printf("%-22s %" PRIu64 "\n", "lists", offer->n_lists);
    for (size_t i = 0; i < offer->n_items; i++) {
        const struct td_item *item = &offer->items[i];

        print_name(KEY_WIDTH, item->rel);
        print_part("", item->href);
        print_part("  ", item->type);
        print_part("  from ", item->from);
        print_part("  until ", item->until);
        putchar('\n');
    }
}

static enum exit_code
get_one(const char *set_url, size_t n_sets, void *user)
{
    struct get *get = user;

    get->is_brief = n_sets > 1;
    return exit_of(get->client,
                   td_describe(get->client, set_url, on_offer, get));
}

static enum exit_code
run_get(const struct arguments *arguments)
{
    struct get get = {.arguments = arguments,
                      .is_json = arguments->options[0] != NULL,
                      .url = arguments->operands[0]};
    enum exit_code code;

    get.client = open_client(arguments, get.url, NULL, &code);
    if (!get.client)
        return code;
    code = for_each_set(get.client, get.url, get_one, &get);
    td_close(get.client);
    return code;
}

const struct command get_command = {
    .name = "get",
    .operands = "SET-URL|SOURCE-URL",
    .help = "Tells what a set offers: its position, documents and channels.",
    .more =
        "A line is a name and a value; documents and channels go by their "
        "capability or link relation. What the server does not tell is left "
        "out. With --json the set's own description is in \"description\".\n\n"
        "A SOURCE-URL with several sets gives a line for each: its URL and its "
        "position or, with --json, its object. 1: one of them cannot be "
        "read.\n",
    .examples =
        "tidings get http://localhost:8787/sets/news\n"
        "tidings get https://example.org/.well-known/resourcesync --json\n",
    .options = OPTIONS(options),
    .run = run_get,
};
