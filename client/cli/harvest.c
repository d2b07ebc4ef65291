/*
 * harvest.c - tidings harvest: keeps a set equal to its sources.
 */
#include "client/harvest/harvest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/harvest_state.h"
#include "client/cli/mirror_output.h"
#include "client/cli/settings.h"
#include "proto/datetime.h"

#define SOURCES_MAX 100

enum {
    OPTION_ONCE,
    OPTION_EVERY,
    OPTION_COMPARE,
    OPTION_MAX_DELETE,
    OPTION_ACCEPT,
    OPTION_SKIP_BAD,
    OPTION_DRY_RUN,
    OPTION_STATE,
    OPTION_AFTER,
    OPTION_KEEP_LINKS,
    OPTION_LIMITS,
    OPTION_TARGET_HEADER = OPTION_LIMITS + N_LIMIT_ROWS,
    OPTION_TARGET_TOKEN_FILE,
    OPTION_JSON,
    OPTION_VERBOSE
};

static const struct option options[] = {
    [OPTION_ONCE] = {"once", .help = "end when the set equals the sources"},
    [OPTION_EVERY] = {"every", "TIME", .standard = "10m",
                      .help = "between looks at a source that pushes nothing: "
                              "90, 10m, 1.5h"},
    [OPTION_COMPARE] =
        {"compare", "TIME", .standard = "24h",
         .help = "between comparisons with all resources of a source"},
    [OPTION_MAX_DELETE] =
        {"max-delete", "PERCENT", .standard = "20",
         .help = "of a source's resources, at once; none is no limit"},
    [OPTION_ACCEPT] = {"accept-deletions", "N",
                       .help = "delete what was held back, if it is no more"},
    [OPTION_SKIP_BAD] = {"skip-bad",
                         .help = "rows that were left out are no failure"},
    [OPTION_DRY_RUN] = {"dry-run",
                        .help = "show what would change, and post nothing"},
    [OPTION_STATE] = {"state", "FILE",
                      .help = "where it is; default: a file in "
                              "~/.local/state/tidings"},
    [OPTION_AFTER] = {"after", "POSITION",
                      .help =
                          "where a new state begins (default: the beginning)"},
    [OPTION_KEEP_LINKS] = {"keep-links",
                           .help = "links collection and canonical, too"},
    [OPTION_LIMITS] = LIMIT_ROWS,
    [OPTION_TARGET_HEADER] = {"target-header", "LINE",
                              .help = "as --header, for the server of the set",
                              .may_repeat = true},
    [OPTION_TARGET_TOKEN_FILE] = {"target-token-file", "FILE",
                                  .help = "as --token-file, for the set"},
    [OPTION_JSON] = {"json", .help = "each look as a line of JSON"},
    [OPTION_VERBOSE] = {"verbose", .help = "print each change, too"},
};

/* Output */

struct output {
    bool is_json;
    bool is_dry;
    int error;                      /* of standard output, of errno.h */
    struct td_client *target;       /* stopped if standard output fails */
    char mended[HARVEST_TEXT_SIZE]; /* the last ones that were said */
    char left_out[HARVEST_TEXT_SIZE];
};

static void
end_line(struct output *o)
{
    if (fflush(stdout) && !o->error) {
        o->error = errno;
        td_stop(o->target);
    }
}

static void
say_line(const char *text, void *user)
{
    (void)user;
    say("%s", text);
}

static void
print_change(const char *change, struct slice loc, void *user)
{
    struct output *o = user;
    char *text = slice_dup(loc);

    if (text && o->is_json) {
        put_member(stdout, "{\"event\":\"change\",", "change", change);
        put_member(stdout, ",", "loc", text);
        puts("}");
    } else if (text) {
        printf("%s ", change);
        print_plain(text);
        putchar('\n');
    }
    free(text);
    end_line(o);
}

static void
put_count(const char *name, uint64_t n)
{
    printf(",\"%s\":%llu", name, (unsigned long long)n);
}

static const char *
or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static void
put_look(const struct harvest_look *look, const char *as_of)
{
    const struct harvest_counts *c = &look->counts;

    put_member(stdout, "{\"event\":\"look\",", "source", look->url);
    put_member(stdout, ",", "kind", look->kind);
    put_member(stdout, ",", "complete_as_of", or_null(as_of));
    put_member(stdout, ",", "not_complete", or_null(look->not_complete));
    put_count("added", c->added);
    put_count("changed", c->changed);
    put_count("deleted", c->deleted);
    put_count("held_back", c->held_back);
    put_count("left_out", c->left_out);
    put_member(stdout, ",", "left_out_example", or_null(c->left_out_text));
    put_count("mended", c->mended);
    puts("}");
}

/* Names a kind in a sentence. */
static const char *
name_of(const char *kind)
{
    static const struct {
        const char *kind, *name;
    } names[] = {{"resourcesync", "ResourceSync"},
                 {"sitemap", "Sitemap"},
                 {"text", "text"},
                 {"rss", "RSS"},
                 {"atom", "Atom"}};

    for (size_t i = 0; kind && i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(kind, names[i].kind))
            return names[i].name;
    return "source";
}

/* Says what was mended or left out, once for each text. */
static void
say_rows(const char *url, const char *what, uint64_t n, const char *text,
         char said[HARVEST_TEXT_SIZE])
{
    if (n && strncmp(said, text, HARVEST_TEXT_SIZE) != 0)
        say("%s: %s: %llu row%s: %s", url, what, (unsigned long long)n,
            n == 1 ? "" : "s", text);
    snprintf(said, HARVEST_TEXT_SIZE, "%s", n ? text : "");
}

/* https://example.org/sitemap.xml: Sitemap, complete as of
 * 2026-04-01T18:10:00Z: 3 added, 1 changed, 0 deleted, 1 left out */
static void
print_look(const struct output *o, const struct harvest_look *look,
           const char *as_of)
{
    const struct harvest_counts *c = &look->counts;

    print_plain(look->url);
    printf(": %s, %s%s: %llu added, %llu changed, %llu deleted",
           name_of(look->kind),
           look->not_complete[0] ? "not known to be complete"
           : as_of[0]            ? "complete as of "
                                 : "not complete yet",
           look->not_complete[0] ? "" : as_of, (unsigned long long)c->added,
           (unsigned long long)c->changed, (unsigned long long)c->deleted);
    if (c->held_back)
        printf(", %llu held back", (unsigned long long)c->held_back);
    if (c->left_out)
        printf(", %llu left out", (unsigned long long)c->left_out);
    puts(o->is_dry ? " (nothing was posted)" : "");
}

static void
on_look(const struct harvest_look *look, void *user)
{
    struct output *o = user;
    const struct harvest_counts *c = &look->counts;
    char as_of[DATETIME_SIZE + 1] = "";

    if (look->complete_us > 0)
        as_of[datetime_write_short(as_of, look->complete_us)] = '\0';
    if (o->is_json)
        put_look(look, as_of);
    else
        print_look(o, look, as_of);
    end_line(o);
    if (o->is_json)
        return;
    say_rows(look->url, "mended", c->mended, c->mended_text, o->mended);
    say_rows(look->url, "left out", c->left_out, c->left_out_text, o->left_out);
    if (look->not_complete[0])
        say("%s: not known to be complete: %s", look->url, look->not_complete);
    if (c->held_back)
        say("%s: held back: %llu of %llu deletions, more than --max-delete "
            "allows; --accept-deletions %llu deletes them",
            look->url, (unsigned long long)c->held_back,
            (unsigned long long)c->held_of, (unsigned long long)c->held_back);
}

/* The command */

/* True if both URLs begin with the same "http://host:port/". */
static bool
is_same_server(const char *a, const char *b)
{
    const char *end = strstr(a, "://");
    size_t size = end ? (size_t)(end - a) + 3 : 0;

    size += strcspn(a + size, "/?#");
    return end && !strncasecmp(a, b, size) && strchr("/?#", b[size]);
}

/* The handle of the set's server. Without a token of its own, that gets the
 * token of a source that it has, too. */
static struct td_client *
open_target(const struct arguments *arguments, const char *url,
            enum exit_code *code)
{
    const char *path = arguments->options[OPTION_TARGET_TOKEN_FILE];
    bool has_header = arguments->options[OPTION_TARGET_HEADER] != NULL;
    struct chosen_token token = {.from = "--target-token-file", .path = path};
    struct td_client *client = td_open();
    enum td_status rc = TD_OK;

    for (size_t i = 0; client && !rc && i < arguments->n_given; i++)
        if (arguments->given[i].row == OPTION_TARGET_HEADER)
            rc = td_header(client, url, arguments->given[i].value);
    if (!client) {
        say("no memory or descriptors left");
        *code = EXIT_FAILED;
        return NULL;
    }
    td_limit(client, &settings_of(arguments)->limits);
    *code = exit_of(client, rc);
    if (!path && !has_header)
        token = settings_file_access(arguments, url).token;
    for (int i = 0; i + 1 < arguments->n_operands && !path && !has_header; i++)
        if (!token.path && !token.text &&
            is_same_server(arguments->operands[i], url))
            token = settings_access(arguments, arguments->operands[i]).token;
    if (!rc)
        *code = give_token(client, url, &token);
    if (*code) {
        td_close(client);
        return NULL;
    }
    return client;
}

static bool
read_options(const struct arguments *arguments, struct harvest_options *how)
{
    const char *const *given = arguments->options;
    unsigned n_accepted = 0;

    how->every_ms = 600000;
    how->compare_ms = 86400000;
    if ((given[OPTION_EVERY] &&
         !read_pause(given[OPTION_EVERY], &how->every_ms)) ||
        (given[OPTION_COMPARE] &&
         !read_pause(given[OPTION_COMPARE], &how->compare_ms))) {
        say("--every and --compare are times from 0.1 s to 24h, such as 90, "
            "10m or 1.5h");
        return false;
    }
    how->max_delete = 20;
    if (given[OPTION_MAX_DELETE] &&
        !mirror_output_max_delete(given[OPTION_MAX_DELETE], &how->max_delete))
        return false;
    if (!mirror_output_number("accept-deletions", given[OPTION_ACCEPT],
                              999999999, &n_accepted))
        return false;
    how->accept_deletions = n_accepted;
    how->after = given[OPTION_AFTER];
    how->is_dry = given[OPTION_DRY_RUN] != NULL;
    how->is_once = how->is_dry || given[OPTION_ONCE] != NULL;
    how->keeps_links = given[OPTION_KEEP_LINKS] != NULL;
    how->skips_bad = given[OPTION_SKIP_BAD] != NULL;
    return true;
}

static bool
check_sources(const struct arguments *arguments)
{
    char **urls = arguments->operands;
    int n = arguments->n_operands - 1;

    if (n > SOURCES_MAX) {
        say("a harvest has up to %d sources", SOURCES_MAX);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!is_web_url(urls[i])) {
            say("a source is a URL, http(s)://...: \"%s\"%s", urls[i],
                access(urls[i], R_OK)
                    ? ""
                    : "; tidings publish --full publishes a file");
            return false;
        }
        for (int k = i + 1; k <= n; k++)
            if (!strcmp(urls[i], urls[k])) {
                say(k == n ? "the two sets are one"
                           : "a source is there twice");
                return false;
            }
    }
    return true;
}

static enum exit_code
code_of(enum harvest_end end, bool is_once)
{
    static const enum exit_code codes[] = {
        [HARVEST_GOOD] = EXIT_GOOD,      [HARVEST_STOPPED] = EXIT_GOOD,
        [HARVEST_PARTIAL] = EXIT_FAILED, [HARVEST_FAILED] = EXIT_FAILED,
        [HARVEST_GONE] = EXIT_GONE,      [HARVEST_USAGE] = EXIT_USAGE,
    };

    if (end == HARVEST_STOPPED && is_once) {
        say("stopped before the end; the next run continues from here");
        return EXIT_FAILED;
    }
    return codes[end];
}

static enum exit_code
run_harvest(const struct arguments *arguments)
{
    size_t n = (size_t)arguments->n_operands - 1;
    struct harvest_source *sources = calloc(n, sizeof(*sources));
    struct output output = {
        .is_json = arguments->options[OPTION_JSON] != NULL,
        .is_dry = arguments->options[OPTION_DRY_RUN] != NULL,
    };
    struct harvest_options how = {
        .set_url = arguments->operands[n],
        .sources = sources,
        .n_sources = n,
        .say = say_line,
        .on_look = on_look,
        .user = &output,
    };
    char state[HARVEST_STATE_PATH_MAX];
    enum exit_code code = EXIT_USAGE;

    if (!sources) {
        say(NO_MEMORY);
        return EXIT_FAILED;
    }
    if (!read_options(arguments, &how) || !check_sources(arguments) ||
        !harvest_state_path(state, arguments->options[OPTION_STATE],
                            how.set_url, arguments->operands, n, !how.is_dry))
        goto out;
    how.state = state;
    if (arguments->options[OPTION_VERBOSE])
        how.on_change = print_change;
    how.target = output.target = open_target(arguments, how.set_url, &code);
    for (size_t i = 0; how.target && i < n; i++) {
        sources[i].url = arguments->operands[i];
        sources[i].client = open_client(arguments, sources[i].url, &code);
        if (!sources[i].client)
            goto out;
    }
    if (how.target) {
        signals_stop_client(how.target);
        signals_ignore_pipe();
        code = code_of(harvest_run(&how), how.is_once);
        signals_end();
        if (output.error)
            code = cannot_write(output.error);
    }

out:
    for (size_t i = 0; i < n; i++)
        td_close(sources[i].client);
    td_close(how.target);
    free(sources);
    return code;
}

const struct command harvest_command = {
    .name = "harvest",
    .operands = "SET-URL|SOURCE-URL... SET-URL",
    .help = "Keeps a set equal to one source or several.",
    .more =
        "A source is a ResourceSync source by any of its addresses, a set of "
        "Tidings, a Sitemap or an index of Sitemaps, a list of URLs as text, "
        "RSS or Atom, or a web site. The differences are posted into the set "
        "of the last URL, which the others see at once. It goes on until it is "
        "interrupted: a source that pushes its changes is followed, any other "
        "one is read every --every.\n\n"
        "Every change is in the set once, in order, whoever is killed or away "
        "meanwhile. Entries get a link \"via\" to their resource unless they "
        "have one, and the times of the set; links \"collection\" and "
        "\"canonical\" are left out. Of several sources, a resource is deleted "
        "when none has it any more. Resources that others post into the set "
        "are left alone.\n\n"
        "Each look is a line: what the source is, since when the set is known "
        "to be complete, how much was added, changed and deleted, held back "
        "and left out. A list that cannot be read to its end deletes nothing. "
        "If a list lacks more than --max-delete of a source's resources, and "
        "100 or more, these deletions are held back, and all else is posted; "
        "--accept-deletions N deletes them, if they are no more than N by "
        "then.\n\n"
        "With --once it ends with 0 if the set equals the sources; with 1 if "
        "something is missing, which it says: a source that cannot be read, "
        "deletions that are held back, rows that cannot be used (--skip-bad: "
        "not these), a list that is not known to be complete. --dry-run shows "
        "what --once would post; with --verbose, each change.\n\n"
        "A list that is too large, or has no end, ends it with 1: N resources, "
        "or BYTES (500M, 2G or none) that stay free of the disks of FILE and "
        "of temporary files. FILE is made if it does not exist; beside it is "
        "FILE.list, the last reading of a source without a history, which may "
        "be deleted while no harvest runs.\n",
    .examples =
        "tidings harvest https://example.org/sitemap.xml \\\n    "
        "http://localhost:8787/sets/site\n"
        "tidings harvest https://example.org/ http://localhost:8787/sets/copy "
        "--once\n",
    .options = OPTIONS(options),
    .run = run_harvest,
};
