/*
 * harvest_command.c - tidings harvest: keeps a set equal to its sources.
 */
#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/client_settings.h"
#include "client/follow/follow_options.h"
#include "client/harvest/harvest.h"
#include "proto/fnv1a.h"

struct harvest_values {
    struct harvest_options how;
    struct td_limits limits;
    struct trust_files trust;
    const char *cosign; /* HOST:PORT; NULL: it is no witness */
    const char *state, *target_token_file;
    bool is_json, is_verbose;
    int error;                      /* of standard output, of errno.h */
    char mended[HARVEST_TEXT_SIZE]; /* the last ones that were said */
    char left_out[HARVEST_TEXT_SIZE];
};

#define ROW_OF struct harvest_values
#include "base/option_rows.h"

static const struct option options[] = {
    {"once", NULL, FLAG(how.is_once), NULL,
     "end when the set equals the sources"},
    {"every", "TIME", PAUSE(how.every_ms, 100, 86400000), "10m",
     "between looks at a source that pushes nothing: 90, 10m, 1.5h"},
    {"compare", "TIME", PAUSE(how.compare_ms, 100, 86400000), "24h",
     "between comparisons with all resources of a source"},
    {"max-delete", "PERCENT", PERCENT(how.max_delete), "20",
     "of a source's resources, at once; none is no limit"},
    {"accept-deletions", "N", COUNT(how.accept_deletions, 1, 999999999), NULL,
     "delete what was held back, if it is no more"},
    ACCEPT_HISTORY_ROW,
    TRUST_ROWS(trust),
    COSIGN_ROW(cosign),
    {"skip-bad", NULL, FLAG(how.skips_bad), NULL,
     "rows that were left out are no failure"},
    {"dry-run", NULL, FLAG(how.is_dry), NULL,
     "show what would change, and post nothing"},
    {"state", "FILE", LENT(state), NULL,
     "where it is; default: a file in ~/.local/state/tidings"},
    {"after", "POSITION", LENT(how.after), NULL,
     "where a new state begins (default: the beginning)"},
    {"keep-links", NULL, FLAG(how.keeps_links), NULL,
     "links collection and canonical, too"},
    {"loc", "URL", LENT(how.loc), NULL, "of OAI-PMH: https://a.org/{id}"},
    {"republish", NULL, FLAG(how.republishes), NULL,
     "store the bytes, too, under addresses of the set: SET-URL/r/..."},
    {"records", NULL, FLAG(how.stores_records), NULL,
     "of OAI-PMH: store each record, too, as a document of XML"},
    {"filter", "FILTER", LENT(how.filter), NULL,
     "a part: 'tag=a&prefix=http://...&type=image/*', or all"},
    {"max-file", "BYTES", LIMIT(limits.max_file_bytes), "none",
     "with --republish, --records: leave out what is longer"},
    LIMIT_ROWS(limits),
    {"target-header", "LINE", .help = "as --header, for the server of the set",
     .may_repeat = true},
    {"target-token-file", "FILE", LENT(target_token_file), NULL,
     "as --token-file, for the set"},
    {"json", NULL, FLAG(is_json), NULL, "each look as a line of JSON"},
    {"verbose", NULL, FLAG(is_verbose), NULL, "print each change, too"},
};

/* Output */

static void
print_change(const char *change, struct slice loc, void *user)
{
    struct harvest_values *o = user;
    char *text = slice_dup(loc);

    if (text && o->is_json) {
        print_values(true, "event:t change:t loc:t", "change", change, text);
    } else if (text) {
        printf("%s ", change);
        print_plain(text);
        putchar('\n');
    }
    free(text);
    end_output(&o->error, o->how.target);
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
                 {"atom", "Atom"},
                 {"oai-pmh", "OAI-PMH"}};

    for (size_t i = 0; kind && i < N_ELEMENTS(names); i++)
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
        say("%s: %s: %" PRIu64 " row%s: %s", url, what, n, n == 1 ? "" : "s",
            text);
    snprintf(said, HARVEST_TEXT_SIZE, "%s", n ? text : "");
}

static void
on_look(const struct harvest_look *look, void *user)
{
    struct harvest_values *o = user;
    const struct harvest_counts *c = &look->counts;
    struct datetime_text as_of = datetime_text_short(
        look->complete_us > 0 ? look->complete_us : DATETIME_NONE);

    if (o->is_json) {
        print_values(true,
                     "event:t source:a kind:t complete_as_of:e not_complete:e "
                     "added:n changed:n deleted:n held_back:n left_out:n "
                     "left_out_example:e mended:n records:e dropped_links:n",
                     "look", look->url, look->kind, as_of.text,
                     look->not_complete, c->added, c->changed, c->deleted,
                     c->held_back, c->left_out, c->left_out_text, c->mended,
                     c->records, c->dropped_links);
        end_output(&o->error, o->how.target);
        return;
    }
    /* https://example.org/sitemap.xml: Sitemap, complete as of
     * 2026-04-01T18:10:00Z: 3 added, 1 changed, 0 deleted, 1 left out */
    print_address(look->url);
    printf(": %s, %s%s: %" PRIu64 " added, %" PRIu64 " changed, %" PRIu64
           " deleted",
           name_of(look->kind),
           look->not_complete[0] ? "not known to be complete"
           : as_of.text[0]       ? "complete as of "
                                 : "not complete yet",
           look->not_complete[0] ? "" : as_of.text, c->added, c->changed,
           c->deleted);
    if (c->held_back)
        printf(", %" PRIu64 " held back", c->held_back);
    if (c->left_out)
        printf(", %" PRIu64 " left out", c->left_out);
    printf("%s%s", c->records[0] ? "; " : "", c->records);
    puts(o->how.is_dry ? " (nothing was posted)" : "");
    end_output(&o->error, o->how.target);
    say_rows(look->url, "mended", c->mended, c->mended_text, o->mended);
    say_rows(look->url, "left out", c->left_out, c->left_out_text, o->left_out);
    if (look->not_complete[0])
        say("%s: not known to be complete: %s", look->url, look->not_complete);
    if (c->held_back)
        say("%s: held back: %" PRIu64 " of %" PRIu64
            " deletions, more than --max-delete "
            "allows; --accept-deletions %" PRIu64 " deletes them",
            look->url, c->held_back, c->held_of, c->held_back);
}

/*
 * Where the state is:
 *
 *     --state FILE
 *     $XDG_STATE_HOME/tidings/SET-from-SOURCE-HASH  ~/.local/state by default
 */

#define STATE_PATH_MAX 4096

/* Characters of a URL in the name of the file. */
#define NAME_MAX_URL 60

/* "example.org_sitemap.xml" */
static void
write_name(char to[NAME_MAX_URL + 1], const char *url)
{
    const char *from = strstr(url, "://");
    size_t n = 0;

    for (from = from ? from + 3 : url; *from && n < NAME_MAX_URL; from++)
        to[n++] =
            isalnum((unsigned char)*from) || strchr(".-", *from) ? *from : '_';
    to[n] = '\0';
}

/* Finds the usual path of a file of the state. Its name shows parts of the URLs
 * and a hash of the whole URLs. `shows`: as earlier versions, which had secrets
 * in names. False: there is no home. */
static bool
usual_path(char path[STATE_PATH_MAX], const char *set, char *const *sources,
           size_t n, const char *end, bool shows)
{
    uint64_t hash = fnv1a_text(FNV1A_BEGIN, set);
    const char *const whole[2] = {set, sources[0]};
    char names[2][NAME_MAX_URL + 1] = {""}, name[2 * NAME_MAX_URL + 40];

    for (size_t i = 0; i < n; i++)
        hash = fnv1a_text(hash, sources[i]);
    for (size_t i = 0; i < 2; i++) {
        char *shown = shown_copy(whole[i]);

        write_name(names[i], shows ? whole[i] : shown);
        free(shown);
    }
    snprintf(name, sizeof(name), "%s-from-%s-%08x%s", names[0], names[1],
             (unsigned)(hash ^ hash >> 32), end);
    return settings_usual_path(path, STATE_PATH_MAX, "XDG_STATE_HOME",
                               ".local/state", name);
}

/* Renames the files of a state of an earlier version, itself at last. */
static void
rename_state(const char *set, char *const *sources, size_t n)
{
    static const char *const ends[] = {".witness", ".list", "-wal", ""};
    char from[STATE_PATH_MAX], to[STATE_PATH_MAX];

    for (size_t i = 0; i < N_ELEMENTS(ends); i++)
        if (usual_path(from, set, sources, n, ends[i], true) &&
            usual_path(to, set, sources, n, ends[i], false) && access(to, F_OK))
            (void)rename(from, to);
}

/* Makes the directory of the usual path, and says where a new state is. */
static enum exit_code
make_directories(char *path)
{
    if (access(path, F_OK))
        say("the state of this harvest is in %s", path);
    for (char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        *end = '\0';
        if (mkdir(path, 0700) && errno != EEXIST)
            return bad_usage("cannot make %s: %s; --state names another file",
                             path, strerror(errno));
        *end = '/';
    }
    return EXIT_GOOD;
}

/* Writes the path. `given`: of --state, or NULL. */
static enum exit_code
write_state_path(char path[STATE_PATH_MAX], const char *given, const char *set,
                 char *const *sources, size_t n)
{
    if (given &&
        !(given[0] && slice_copy(path, STATE_PATH_MAX, slice_of(given))))
        return bad_usage("--state is empty, or too long");
    if (!given && !usual_path(path, set, sources, n, "", false))
        return bad_usage(
            "no home directory for the state: --state names its file");
    if (!given)
        rename_state(set, sources, n);
    return EXIT_GOOD;
}

/* The command */

/* The handle of the set's server. Without a token of its own, that gets the
 * token of a source that it has, too. */
static struct td_client *
open_target(const struct arguments *arguments, enum exit_code *code)
{
    const struct harvest_values *values = arguments->values;
    const char *path = values->target_token_file;
    const char *url = values->how.set_url;
    struct chosen_token token = {.from = "--target-token-file", .path = path};
    struct td_client *client = td_open();
    bool has_header = false;
    enum td_status rc = TD_OK;

    if (!client) {
        *code = failed("no memory or descriptors left");
        return NULL;
    }
    for (size_t i = 0; !rc && i < arguments->n_given; i++)
        if (is_given(arguments, &arguments->given[i], "target-header")) {
            rc = td_header(client, url, arguments->given[i].value);
            has_header = true;
        }
    td_limit(client, &values->limits);
    *code = exit_of(client, rc);
    if (!rc)
        *code = accept_histories(client, arguments);
    if (!path && !has_header)
        token = settings_file_access(arguments, url).token;
    for (int i = 0; i + 1 < arguments->n_operands && !path && !has_header; i++)
        if (!token.path && !token.text &&
            settings_is_same_server(arguments->operands[i], url))
            token = settings_access(arguments, arguments->operands[i]).token;
    if (!*code)
        *code = give_token(client, url, &token);
    if (*code) {
        td_close(client);
        return NULL;
    }
    return client;
}

static enum exit_code
check_sources(const struct arguments *arguments)
{
    const struct harvest_values *values = arguments->values;
    const char *loc = values->how.loc;
    const struct td_follow_options how = {.after = values->how.after};
    char **urls = arguments->operands;
    int n = arguments->n_operands - 1;
    struct problem why = {""};

    if (values->cosign && !values->trust.keys)
        return bad_usage(COSIGN_NEEDS_KEY);
    if (follow_options_check(&how, false, values->how.filter, &why))
        return bad_usage("%s", why.text);

    if (loc && !strstr(loc, "{id}") && !strstr(loc, "{identifier}"))
        return bad_usage("--loc has no {id} and no {identifier}");
    if (n > HARVEST_SOURCES_MAX)
        return bad_usage("a harvest has up to %d sources", HARVEST_SOURCES_MAX);
    for (int i = 0; i < n; i++) {
        if (!uri_is_web(urls[i]))
            return bad_usage("a source is a URL, http(s)://...: \"%s\"%s",
                             urls[i],
                             access(urls[i], R_OK)
                                 ? ""
                                 : "; tidings publish --full publishes a file");
        for (int k = i + 1; k <= n; k++)
            if (!strcmp(urls[i], urls[k]))
                return bad_usage(k == n ? "the two sets are one"
                                        : "a source is there twice");
    }
    return EXIT_GOOD;
}

static enum exit_code
open_sources(const struct arguments *arguments, struct harvest_source *sources)
{
    struct harvest_values *values = arguments->values;
    const struct harvest_options *how = &values->how;
    enum exit_code code = EXIT_GOOD;

    for (size_t i = 0; !code && i < how->n_sources; i++) {
        sources[i].url = arguments->operands[i];
        sources[i].client = open_client(arguments, sources[i].url, NULL, &code);
        if (how->republishes && !how->is_dry && !code)
            sources[i].files =
                open_client(arguments, sources[i].url, NULL, &code);
        if (sources[i].client)
            td_limit(sources[i].client, &values->limits);
        if (!code)
            code = trust_files_follow(&values->trust, sources[i].client,
                                      how->state);
        if (sources[i].files)
            td_limit(sources[i].files, &values->limits);
    }
    return code;
}

static enum exit_code
run_harvest(const struct arguments *arguments)
{
    struct harvest_values *values = arguments->values;
    struct harvest_options *how = &values->how;
    enum td_status end;
    size_t n = (size_t)arguments->n_operands - 1;
    struct harvest_source *sources = calloc(n, sizeof(*sources));
    struct cosigner *cosigner = NULL;
    char state[STATE_PATH_MAX], dir[STATE_PATH_MAX + 16];
    enum exit_code code;

    if (!sources)
        return failed(NO_MEMORY);
    how->set_url = arguments->operands[n];
    how->sources = sources;
    how->n_sources = n;
    how->state = state;
    how->is_once |= how->is_dry;
    how->max_record_bytes = values->limits.max_file_bytes;
    how->say = say_text;
    how->on_look = on_look;
    how->on_change = values->is_verbose ? print_change : NULL;
    how->user = values;
    code = check_sources(arguments);
    if (!code)
        code = write_state_path(state, values->state, how->set_url,
                                arguments->operands, n);
    if (!code)
        how->target = open_target(arguments, &code);
    if (how->target)
        code = open_sources(arguments, sources);
    if (!code && !values->state && !how->is_dry)
        code = make_directories(state);
    snprintf(dir, sizeof(dir), "%s.witness", state);
    if (how->target && !code && values->cosign)
        code = cosigner_open(&cosigner, values->cosign, dir, how->target,
                             &values->trust, arguments, n);
    if (how->target && !code) {
        signals_stop_client(how->target);
        signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe fails */
        end = harvest_run(how);
        code = exit_code_of(end);
        if (end == TD_STOPPED && how->is_once)
            code = failed(
                "stopped before the end; the next run continues from here");
        signals_end();
        if (values->error)
            code = cannot_write(values->error);
    }
    cosigner_close(cosigner);
    for (size_t i = 0; i < n; i++) {
        td_close(sources[i].client);
        td_close(sources[i].files);
    }
    td_close(how->target);
    free(sources);
    return code;
}

const struct command harvest_command = {
    .name = "harvest",
    .operands = "SET-URL|SOURCE-URL... SET-URL",
    .help = "Keeps a set equal to one source or several.",
    .more =
        "A source is a ResourceSync source by any of its addresses, a set of "
        "Tidings, a provider of OAI-PMH, a Sitemap or an index of Sitemaps, a "
        "list of URLs as text, "
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
    .options = OPTION_ROWS(options),
    .run = run_harvest,
};
