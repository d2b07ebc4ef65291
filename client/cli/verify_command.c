/*
 * verify_command.c - tidings verify: proves the history of a set.
 */
#include <glob.h>
#include <sys/stat.h>

#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "proto/datetime.h"

#define PATTERN_SIZE 4096

struct verify {
    bool is_json;
    bool is_verbose;
    bool has_no_progress;
    struct trust_files trust;
    char loc[2100]; /* of a proof */
    struct td_client *client;
};

#define ROW_OF struct verify
#include "base/option_rows.h"
#include "proto/uri.h"

static const struct option options[] = {
    {"json", NULL, FLAG(is_json), NULL, "as JSON objects, one a line"},
    PROGRESS_ROW(has_no_progress),
    {"verbose", NULL, FLAG(is_verbose), NULL,
     "a line for each list that holds"},
    TRUST_ROWS(trust),
};

static void
on_loc(const char *loc, const struct td_proof *proof, void *user)
{
    struct verify *v = user;

    (void)proof;
    snprintf(v->loc, sizeof(v->loc), "%s", loc);
}

/* {"list":"...","last":100,"digest":"sha-256:..."} */
static void
on_list(const char *list, const struct td_proof *proof, void *user)
{
    const struct verify *v = user;
    char label[80];

    snprintf(label, sizeof(label),
             "proven: %" PRIu64 " lists, up to entry %" PRIu64, proof->n_lists,
             proof->last);
    progress_show(&(struct progress_figures){.label = label});
    if (!v->is_verbose)
        return;
    progress_clear();
    if (v->is_json) {
        print_values(true, "list:t last:n digest:t", list, proof->last,
                     proof->digest);
    } else {
        print_plain(list);
        printf(": up to entry %" PRIu64 " %s\n", proof->last, proof->digest);
    }
}

/* The time up to which it has all changes; "": it does not say. */
static struct datetime_text
until_of(const struct td_checkpoint *checkpoint)
{
    return datetime_text_short(
        checkpoint->time_s > 0 ? checkpoint->time_s * 1000000 : DATETIME_NONE);
}

/* Prints a second line, with the signers. Without a key they are unknown. */
static void
print_signed(const char *where, const struct td_checkpoint *checkpoint,
             uint64_t last)
{
    if (!checkpoint)
        return;
    print_plain(where);
    printf(": %s up to entry %" PRIu64 " by ",
           checkpoint->is_signed ? "signed" : "NOT known to be signed",
           checkpoint->size);
    print_plain(checkpoint->origin);
    if (checkpoint->n_witnesses > 0)
        printf(", seen by %u witness%s", checkpoint->n_witnesses,
               checkpoint->n_witnesses > 1 ? "es" : "");
    if (checkpoint->time_s > 0)
        printf(", complete up to %s", until_of(checkpoint).text);
    if (last > checkpoint->size)
        printf("; nothing signs the %" PRIu64 " entries behind it",
               last - checkpoint->size);
    putchar('\n');
}

static void
put_checkpoint(const char *start, const struct td_checkpoint *c)
{
    put_members(stdout, start, "origin:t size:n root:t until:e witnesses:n",
                c->origin, c->size, c->root, until_of(c).text,
                (uint64_t)c->n_witnesses);
}

/* Prints the result of the proof of an entry. */
static enum exit_code
verify_proof(const char *path, struct verify *v)
{
    struct td_proof proof;
    enum td_status rc = td_verify(v->client, path, on_loc, v, &proof);
    const struct td_checkpoint *signed_by = td_checkpoint(v->client);
    bool is_signed = signed_by && signed_by->is_signed;

    if (rc != TD_OK)
        return exit_of(v->client, rc);
    if (!v->is_json) {
        print_plain(path);
        printf(": entry %" PRIu64 " ", proof.last);
        print_plain(v->loc);
        printf(" datetime=%s digest=%s\n", proof.until, proof.digest);
        print_signed(path, signed_by, proof.last);
        if (!is_signed)
            say("its signature was not checked: --key names the verifier key");
        return is_signed ? EXIT_GOOD : EXIT_FAILED;
    }
    put_members(stdout, "{", "where:t proven:b seq:n loc:t datetime:t digest:t",
                path, true, proof.last, v->loc, proof.until, proof.digest);
    put_checkpoint(",", signed_by);
    put_members(stdout, ",", "signatureChecked:b", is_signed);
    puts("}");
    return is_signed ? EXIT_GOOD : EXIT_FAILED;
}

/* Prints the result, as text or
 *
 * {"where":"...","proven":true,"first":1,"last":500,"lists":5,
 *  "fromStart":true,"position":"...","digest":"...","from":"...",
 *  "until":"...","broken":{"in":"...","after":300,"why":"..."}} */
static enum exit_code
verify_one(const char *where, size_t n_sets, void *user)
{
    struct verify *v = user;
    struct td_proof proof;
    enum td_status rc = td_verify(v->client, where, on_list, v, &proof);
    const struct td_checkpoint *signed_by = td_checkpoint(v->client);

    (void)n_sets;
    progress_clear();
    if (rc == TD_STOPPED)
        return failed("stopped: nothing more is proven than up to entry "
                      "%" PRIu64,
                      proof.last);
    if (rc != TD_OK && rc != TD_DIFFERENT)
        return exit_of(v->client, rc);
    if (!v->is_json && rc) {
        printf("breaks after entry %" PRIu64 ": ", proof.broken_at);
        print_plain(td_problem(v->client));
        putchar('\n');
    }
    if (!v->is_json) {
        print_plain(where);
        if (proof.n_lists == 0) {
            puts(": nothing is proven");
            return rc ? EXIT_FAILED : EXIT_GOOD;
        }
        fputs(": proven ", stdout);
        if (proof.first == 0)
            fputs("to be without entries", stdout);
        else if (proof.is_from_start)
            printf("from the beginning to entry %" PRIu64, proof.last);
        else
            printf("from entry %" PRIu64 " on to entry %" PRIu64, proof.first,
                   proof.last);
        printf(" lists=%" PRIu64 " position=%s datetime=%s digest=%s\n",
               proof.n_lists, proof.position, proof.until, proof.digest);
        if (!rc)
            print_signed(where, signed_by, proof.last);
        return rc ? EXIT_FAILED : EXIT_GOOD;
    }
    put_members(stdout, "{",
                "where:t proven:b first:n last:n lists:n fromStart:b "
                "position:t digest:t from:t until:t",
                where, rc == TD_OK, proof.first, proof.last, proof.n_lists,
                proof.is_from_start, proof.position, proof.digest, proof.from,
                proof.until);
    if (rc) {
        put_members(stdout, ",\"broken\":{", "in:t after:n why:t",
                    proof.broken_in, proof.broken_at, td_problem(v->client));
        putchar('}');
    }
    if (!rc && signed_by) {
        put_checkpoint(",\"checkpoint\":{", signed_by);
        putchar('}');
    }
    puts("}");
    return rc ? EXIT_FAILED : EXIT_GOOD;
}

static int
on_unreadable(const char *path, int error)
{
    if (error == ENOENT || error == ENOTDIR)
        return 0; /* not a broker's directory */
    say("cannot read %s: %s", path, strerror(error));
    return 1;
}

/* Verifies all sets of a broker's data directory; without any, the lists in
 * `where` itself. */
static enum exit_code
verify_directory(struct verify *v, const char *where)
{
    char pattern[PATTERN_SIZE];
    glob_t sets = {.gl_pathc = 0};
    struct stat st;
    enum exit_code code = EXIT_GOOD;
    size_t n = 0;
    int rc = 0;

    /* glob takes no path with its own special characters. */
    if (!stat(where, &st) && S_ISDIR(st.st_mode) && !strpbrk(where, "*?[\\") &&
        snprintf(pattern, sizeof(pattern), "%s/sets/*", where) <
            (int)sizeof(pattern))
        rc = glob(pattern, 0, on_unreadable, &sets);
    if (rc == GLOB_NOSPACE)
        say(NO_MEMORY);
    if (rc && rc != GLOB_NOMATCH) {
        globfree(&sets);
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < sets.gl_pathc; i++) {
        char path[PATTERN_SIZE + NAME_MAX];
        enum exit_code one;

        snprintf(path, sizeof(path), "%s/changes", sets.gl_pathv[i]);
        /* If it cannot be looked at, the attempt prints why. */
        if (lstat(path, &st) && (errno == ENOENT || errno == ENOTDIR))
            continue;
        n++;
        if (signals_came()) {
            code = failed("stopped before %s", path);
            break;
        }
        one = verify_one(path, 1, v);
        if (one != EXIT_GOOD)
            code = one;
    }
    globfree(&sets);
    return n > 0 ? code : verify_one(where, 1, v);
}

static enum exit_code
run_verify(const struct arguments *arguments)
{
    struct verify *v = arguments->values;
    enum exit_code code;
    struct stat st;

    v->client =
        open_client(arguments, arguments->operands[0], &v->trust, &code);
    if (!v->client)
        return code;
    signals_stop_client(v->client);
    progress_begin(!v->is_json && !v->has_no_progress);
    if (uri_is_web(arguments->operands[0]))
        code = for_each_set(v->client, arguments->operands[0], verify_one, v);
    else if (!stat(arguments->operands[0], &st) && S_ISREG(st.st_mode))
        code = verify_proof(arguments->operands[0], v);
    else
        code = verify_directory(v, arguments->operands[0]);
    signals_end();
    td_close(v->client);
    return code;
}

const struct command verify_command = {
    .name = "verify",
    .operands = "SET-URL|SOURCE-URL|DIR|FILE",
    .help = "Proves that the history of a set is whole and unaltered.",
    .more = "Reads all Change Lists, oldest first: of the set from its broker, "
            "or those in DIR and below (.xml, .xml.gz), without sending "
            "anything. DIR may be a broker's data directory; then each set in "
            "it is one. Every entry has to be there once, in order, and the "
            "digests of all lead from list to list. The last line tells up to "
            "which position that holds, the one before it, if it does not, "
            "where it breaks (status 1). If the oldest lists are not there "
            "any more, what is left is proven from its first entry on.\n\n"
            "Of a SOURCE-URL every set is verified and has its lines; 1 also "
            "tells that a set cannot be read.\n\n"
            "With --key the entries have to be those that the key has signed, "
            "in the checkpoint of the set, or in the file \"checkpoint\" of "
            "DIR: else whoever has the disk of the broker could have written "
            "all of them anew. A FILE is the proof of one entry (tidings "
            "prove); without --key its signature is not checked, and the "
            "status is 1. Or it is the evidence of a reader: 4 tells that the "
            "key has signed two histories.\n\n"
            "The links between documents (up, index, prev, next) lead the way "
            "only; nothing signs them, and none of them can make a part of a "
            "history look like the whole: entries count from 1 on, and the "
            "checkpoint says how many there are.\n",
    .examples =
        "tidings verify http://localhost:8787/sets/news\n"
        "tidings verify /var/lib/tidings\n"
        "tidings verify http://localhost:8787/sets/news --key news.key\n"
        "tidings verify change.tlog-proof --key news.key\n",
    .options = OPTION_ROWS(options),
    .run = run_verify,
};
