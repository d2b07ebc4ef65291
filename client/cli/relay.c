/*
 * relay.c - tidings relay: follows a source, posts into a set.
 *
 *     source --follow--> changes --relay_entry--> post --seal--> target
 *                |          ^                                      |
 *                |          +------------ noted as posted <--------+
 *                |
 *                +-----> all resources --> PUT: the target's broker posts the
 *                                          differences; noted as posted
 *
 * One post at a time, sealed before it is sent (client/relay/relay_db.h): so
 * each change of the source is in the target once and in order. If the source's
 * history does not reach back to the relay's position, the target's broker
 * compares all resources; a repeat after a crash finds no more differences.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cli/cli.h"
#include "client/cli/mirror_output.h"
#include "client/cli/settings.h"
#include "client/lib/json_slices.h"
#include "client/relay/relay_db.h"
#include "client/relay/relay_entry.h"
#include "client/relay/relay_resources.h"

/* Limits of a post; a message may have more. */
#define ENTRIES_MAX 10000
#define BYTES_MAX   ((size_t)4 << 20)

#define PAUSE_MOST_MS 30000

/* Resources that may be deleted whatever their share, as in a mirror. */
#define FEW 100

/* A broker remembers keys for 24 hours; less an hour, as clocks differ. */
#define KEY_LIFE_S (23 * 3600)

enum {
    OPTION_STATE,
    OPTION_AFTER,
    OPTION_POLL,
    OPTION_MAX_DELETE,
    OPTION_LIMITS,
    OPTION_KEEP_LINKS = OPTION_LIMITS + N_LIMIT_ROWS,
    OPTION_UNTIL,
    OPTION_TARGET_HEADER,
    OPTION_TARGET_TOKEN_FILE
};

static const struct option options[] = {
    [OPTION_STATE] = {"state", "FILE",
                      .help =
                          "file with the position; made if it does not exist",
                      .is_required = true},
    [OPTION_AFTER] = {"after", "POSITION",
                      .help =
                          "where a new state begins (default: the beginning)"},
    [OPTION_POLL] = {"poll", "SECONDS", .standard = "60",
                     .help = "between looks at a source that pushes nothing"},
    [OPTION_MAX_DELETE] =
        {"max-delete", "PERCENT", .standard = "20",
         .help = "of the target's resources, at once; none is no limit"},
    [OPTION_LIMITS] = LIMIT_ROWS,
    [OPTION_KEEP_LINKS] = {"keep-links", NULL,
                           .help = "links collection and canonical, too"},
    [OPTION_UNTIL] = {"until-caught-up", NULL,
                      .help = "end when the target has all changes"},
    [OPTION_TARGET_HEADER] =
        {"target-header", "LINE",
         .help = "as --header, for the server of the second set",
         .may_repeat = true},
    [OPTION_TARGET_TOKEN_FILE] = {"target-token-file", "FILE",
                                  .help =
                                      "as --token-file, for the second set"},
};

struct relay {
    const char *source_url;
    const char *target_url;
    struct td_client *source;
    struct td_client *target;
    struct relay_state *state;
    char *listing; /* the file beside it; for a source without a history */
    const struct td_limits *limits;
    struct relay_resources *resources; /* between begin and end; else NULL */
    bool keeps_links;
    unsigned poll_ms; /* 0: the library's default */
    int max_delete;   /* percent; negative: all; 0: not given */
    char source_epoch[TD_POSITION_SIZE]; /* "": the source has none */
    char target_epoch[TD_POSITION_SIZE]; /* "": there is no set yet */
    enum exit_code code;
};

static const char made_anew[] =
    "the target was made anew: it does not have the changes relayed before";

static void
stop_relay(void *user)
{
    struct relay *r = user;

    td_stop(r->source);
    td_stop(r->target);
}

/* Ends the relay. */
static bool
fail_relay(struct relay *r, enum exit_code code)
{
    r->code = code;
    return false;
}

static bool
fail_state(struct relay *r)
{
    say("%s", relay_trouble(r->state));
    return fail_relay(r, EXIT_FAILED);
}

/* Empty: it has none. */
static struct slice
text_of(const struct td_change *c)
{
    return (struct slice){c->text, c->text ? c->text_size : 0};
}

/* "EPOCH-SEQ" */
static void
copy_epoch(char *to, size_t size, const char *position)
{
    snprintf(to, size, "%.*s", (int)strcspn(position, "-"), position);
}

static bool
is_of(const char *position, const char *epoch)
{
    size_t n = strlen(epoch);

    return !strncmp(position, epoch, n) && position[n] == '-';
}

/* Waits after a temporary failure of the target. False: td_stop was called. */
static bool
wait_a_while(struct relay *r, unsigned *pause_ms)
{
    return rest_before_retry(r->target, pause_ms, PAUSE_MOST_MS);
}

/* Posting */

/* True if another attempt may help. 409: the target still works on the first
 * one. */
static bool
is_passing(const struct relay *r, enum td_status rc)
{
    return rc == TD_UNREACHABLE ||
           (rc == TD_REFUSED && td_answered(r->target, NULL) == 409);
}

/* Notes that the target is at `position`, perhaps of another set than before.
 */
static void
heed_target(struct relay *r, const char *position)
{
    char epoch[TD_POSITION_SIZE];

    copy_epoch(epoch, sizeof(epoch), position);
    if (r->target_epoch[0] && strcmp(r->target_epoch, epoch))
        say("%s", made_anew);
    memcpy(r->target_epoch, epoch, sizeof(epoch));
}

/* True if the relay took the target for its own because it was empty, and has
 * posted nothing since: others may post first. */
static bool
may_be_shared(const struct relay *r)
{
    const char *dash = strrchr(relay_target(r->state), '-');

    return !r->max_delete && (!dash || !strcmp(dash, "-0"));
}

static bool
note_posted(struct relay *r, const struct relay_post *post,
            const struct td_receipt *receipt)
{
    if (may_be_shared(r) && receipt->first != 1 && !relay_own(r->state, false))
        return fail_state(r);
    heed_target(r, receipt->position);
    return relay_posted(r->state, post, receipt->position) || fail_state(r);
}

/* Prints the change that the target refused, if the answer names it. */
static void
say_refused(const struct relay *r, const struct relay_post *post)
{
    unsigned status = td_answered(r->target, NULL);
    struct slice rest = {post->body, post->size}, entry, loc;
    const char *position = relay_position(r->state);
    size_t i = 0, n = 0;

    if (status != 400 && status != 413 && status != 422)
        return;
    /* "422: entry 3: ..." */
    if (sscanf(td_problem(r->target), "%*u: entry %zu", &n) != 1)
        n = 0;
    while (json_slices_element(&rest, &entry))
        if (++i >= n)
            break;
    if (i == 0 || !relay_loc(entry, &loc))
        return;
    say("the target refuses %s%.*s, and with it a post of %zu entries; the "
        "target has all changes up to %s",
        n ? "" : "what begins with ", SLICE_ARG(loc), post->n,
        position[0] ? position : "its beginning");
}

/* Posts the sealed post until the target has answered. */
static bool
deliver_post(struct relay *r, const struct relay_post *post)
{
    const struct td_publish_options how = {.key = post->key};
    unsigned pause_ms = 0;

    for (;;) {
        struct td_receipt receipt;
        enum td_status rc =
            td_publish(r->target, r->target_url, "application/json", post->body,
                       post->size, &how, &receipt);

        if (rc == TD_OK)
            return note_posted(r, post, &receipt);
        if (rc == TD_STOPPED)
            return false;
        if (!is_passing(r, rc)) {
            fail_relay(r, exit_of(r->target, rc));
            say_refused(r, post);
            return false;
        }
        if (!wait_a_while(r, &pause_ms))
            return false;
    }
}

/* Searches the target for a post that was sealed long ago. */

struct sought {
    struct post_search *search;
    uint64_t last;                   /* its last entry */
    char position[TD_POSITION_SIZE]; /* after that; "": not found */
};

static int
on_target(const struct td_message *message, void *user)
{
    struct sought *s = user;

    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *c = &message->changes[i];

        if (post_search_next(s->search, text_of(c))) {
            snprintf(s->position, sizeof(s->position), "%.*s-%" PRIu64,
                     (int)strcspn(message->position, "-"), message->position,
                     c->seq);
            s->last = c->seq;
            return 1;
        }
    }
    return 0;
}

/* The target may have forgotten the key: searches its later entries for the
 * post. */
static bool
look_for(struct relay *r, const struct relay_post *post)
{
    struct sought s = {.search = post_search_new(post)};
    struct td_follow_options how = {
        .after = relay_target(r->state)[0] ? relay_target(r->state) : "0",
        .until_caught_up = 1,
    };
    struct td_receipt receipt = {.position = ""};
    enum td_status rc = TD_MEMORY;
    bool is_good = false;

    say("a post of %zu entries was not answered a day ago; looking for it",
        post->n);
    if (s.search)
        rc = td_follow(r->target, r->target_url, &how, on_target, &s);
    if (s.position[0]) {
        snprintf(receipt.position, sizeof(receipt.position), "%.63s",
                 s.position);
        receipt.first = s.last - post->n + 1;
        is_good = note_posted(r, post, &receipt);
    } else if (rc == TD_OK) {
        is_good = deliver_post(r, post);
    } else if (rc != TD_STOPPED) {
        say("cannot tell whether the target has it: %s",
            rc == TD_MEMORY ? NO_MEMORY : td_problem(r->target));
        fail_relay(r, EXIT_FAILED);
    }
    post_search_free(s.search);
    return is_good;
}

static bool
finish_old_post(struct relay *r)
{
    struct relay_post post;
    bool is_there, is_good;
    int64_t age_s;

    if (!relay_unfinished(r->state, &post, &is_there))
        return fail_state(r);
    if (!is_there)
        return true;
    age_s = clock_now_us() / 1000000 - post.made_s;
    is_good = age_s >= 0 && age_s < KEY_LIFE_S ? deliver_post(r, &post)
                                               : look_for(r, &post);
    free(post.body);
    return is_good;
}

/* Following */

/* Writes the entries of a message from *i on, as many as a post takes. Entries
 * without seqs have no position between them; such a message fits a post. */
static bool
write_post(struct relay *r, FILE *to, const struct td_message *message,
           size_t *i, size_t *n)
{
    const struct relay_rules rules = {r->source_epoch, r->target_epoch,
                                      r->keeps_links};

    *n = 0;
    for (;
         *i < message->n_changes &&
         (!message->last || (*n < ENTRIES_MAX && ftell(to) < (long)BYTES_MAX));
         ++*i) {
        const struct td_change *c = &message->changes[*i];
        enum relay_verdict verdict = RELAY_ODD;

        if (c->text)
            verdict = relay_entry(to, *n ? ",\n" : "[", text_of(c), &rules);
        if (verdict == RELAY_ODD) {
            say("entry %" PRIu64 " (%s) cannot be read", c->seq,
                c->loc ? c->loc : "-");
            return fail_relay(r, EXIT_FAILED);
        }
        *n += verdict == RELAY_WRITTEN;
    }
    fputs("]\n", to);
    return true;
}

/* The position after the entry before `i`. */
static void
position_at(const struct td_message *message, size_t i,
            char to[TD_POSITION_SIZE])
{
    if (i == message->n_changes)
        snprintf(to, TD_POSITION_SIZE, "%s", message->position);
    else
        snprintf(to, TD_POSITION_SIZE, "%.*s-%" PRIu64,
                 (int)strcspn(message->position, "-"), message->position,
                 message->changes[i - 1].seq);
}

/* Relays the entries from *i on, as many as a post has. */
static bool
relay_some(struct relay *r, const struct td_message *message, size_t *i)
{
    char position[TD_POSITION_SIZE];
    char *body = NULL;
    size_t size = 0, n = 0;
    FILE *to = open_memstream(&body, &size);
    bool is_good = to && write_post(r, to, message, i, &n);

    if (!to || ferror(to)) {
        say(NO_MEMORY);
        is_good = fail_relay(r, EXIT_FAILED);
    }
    if (to)
        fclose(to);
    if (is_good)
        position_at(message, *i, position);
    if (is_good && n == 0)
        is_good = relay_note(r->state, position) || fail_state(r);
    else if (is_good)
        is_good =
            (relay_seal(r->state, body, size, n, position) || fail_state(r)) &&
            finish_old_post(r);
    free(body);
    return is_good;
}

/* Notes the log of the message; fails if it is the target's own. A source that
 * is not a set of Tidings has no log and no name: its positions are times, or
 * of the listing beside the state. */
static bool
is_other_set(struct relay *r, const struct td_message *message)
{
    bool has_log = !strstr(message->set, "://");

    copy_epoch(r->source_epoch, sizeof(r->source_epoch),
               has_log ? message->position : "");
    if (!has_log || strcmp(r->source_epoch, r->target_epoch))
        return true;
    say("the two sets are one");
    return fail_relay(r, EXIT_USAGE);
}

static bool
relay_changes(struct relay *r, const struct td_message *message)
{
    size_t i = 0;

    if (!message->position || !is_other_set(r, message))
        return false;
    while (i < message->n_changes)
        if (!relay_some(r, message, &i))
            return false;
    return relay_note(r->state, message->position) || fail_state(r);
}

/* All resources */

static bool
fail_shared(struct relay *r, const char *reason)
{
    say("%s; the changes since then can no longer be relayed. All resources of "
        "the source could be compared with the target's, but that had entries "
        "before this relay: if it is this relay's alone, --max-delete says how "
        "many of its resources may be deleted; else begin anew with another "
        "--state and --after",
        reason);
    return fail_relay(r, EXIT_GONE);
}

/* Begins the comparison. It would delete other publishers' entries, so the
 * target has to be this relay's alone. */
static bool
begin_resources(struct relay *r, const char *reason)
{
    relay_resources_free(r->resources);
    r->resources = NULL;
    if (!relay_owns(r->state))
        return fail_shared(r, reason);
    say("%s; comparing all resources of the source with the target's", reason);
    r->resources = relay_resources_new(r->limits);
    if (r->resources)
        return true;
    say("no memory, or no temporary file can be made");
    return fail_relay(r, EXIT_FAILED);
}

static bool
fail_resources(struct relay *r)
{
    say("%s", relay_resources_trouble(r->resources));
    return fail_relay(r, EXIT_FAILED);
}

static bool
add_resources(struct relay *r, const struct td_message *message)
{
    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *c = &message->changes[i];

        if (!relay_resources_add(r->resources, text_of(c)))
            return fail_resources(r);
    }
    return true;
}

static bool
note_resources(struct relay *r, const struct td_full_receipt *receipt,
               const char *position)
{
    say("all resources: %" PRIu64 " created, %" PRIu64 " updated, %" PRIu64
        " deleted, %" PRIu64 " unchanged",
        receipt->created, receipt->updated, receipt->deleted,
        receipt->unchanged);
    if (receipt->position[0]) {
        heed_target(r, receipt->position);
        if (!relay_note_target(r->state, receipt->position))
            return fail_state(r);
    }
    return relay_note(r->state, position) || fail_state(r);
}

static bool
is_few(const struct td_full_receipt *receipt)
{
    return receipt->held_back > 0 && receipt->held_back < FEW;
}

/* Puts the document `fd` until the target's broker has posted all differences.
 * While the target may be shared, others own the resources that the document
 * lacks: then none is deleted. */
static bool
put_resources(struct relay *r, int fd, const char *position)
{
    bool is_first = may_be_shared(r);
    struct td_full_options how = {
        .max_delete = (unsigned)r->max_delete,
        .left_out = is_first, /* of others: nothing is deleted */
    };
    unsigned pause_ms = 0;
    char path[64];

    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    if (r->max_delete < 0)
        how.max_delete = 100;
    for (;;) {
        struct td_full_receipt receipt;
        enum td_status rc =
            td_publish_full(r->target, r->target_url, path, &how, &receipt);
        unsigned asked_s;

        if (rc == TD_OK && receipt.held_back == 0)
            return note_resources(r, &receipt, position);
        if (rc == TD_STOPPED)
            return false;
        if (rc == TD_OK && is_first)
            return relay_own(r->state, false)
                       ? fail_shared(r, "other resources are there")
                       : fail_state(r);
        if (is_few(&receipt) && how.max_delete != 100) {
            how.max_delete = 100;
            continue;
        }
        if (rc == TD_OK) {
            say("held back: %" PRIu64 " of %" PRIu64
                " resources would be deleted, more than %u %%; if that is "
                "right, run it again with a larger --max-delete",
                receipt.held_back, receipt.resources,
                how.max_delete ? how.max_delete : 20);
            r->code = EXIT_FAILED;
            return false;
        }
        td_answered(r->target, &asked_s);
        if (rc != TD_UNREACHABLE && rc != TD_GONE && !asked_s) {
            fail_relay(r, exit_of(r->target, rc));
            return false;
        }
        if (!wait_a_while(r, &pause_ms))
            return false;
    }
}

static bool
end_resources(struct relay *r, const struct td_message *message)
{
    const struct relay_rules rules = {r->source_epoch, r->target_epoch,
                                      r->keeps_links};
    bool is_good;
    int fd;

    if (!is_other_set(r, message))
        return false;
    if (!relay_resources_write(r->resources, &rules, &fd))
        return fail_resources(r);
    relay_resources_free(r->resources);
    r->resources = NULL;
    is_good = put_resources(r, fd, message->position);
    close(fd);
    return is_good;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct relay *r = user;
    bool is_good = false;

    switch (message->kind) {
    case TD_CHANGES:
        is_good = relay_changes(r, message);
        break;
    case TD_BASELINE_BEGIN:
        is_good = begin_resources(r, message->reason);
        break;
    case TD_BASELINE:
        is_good = add_resources(r, message);
        break;
    case TD_BASELINE_END:
        is_good = end_resources(r, message);
        break;
    }
    return is_good ? 0 : 1;
}

/* True if this state has never relayed anything. */
static bool
is_new(const struct relay *r)
{
    return !relay_position(r->state)[0] && !relay_target(r->state)[0];
}

static void
on_member(const char *path, const char *value, void *user)
{
    struct relay *r = user;
    const char *dash = strrchr(value, '-');
    char begin[TD_POSITION_SIZE];

    if (strcmp(path, "position"))
        return;
    copy_epoch(r->target_epoch, sizeof(r->target_epoch), value);
    if (is_new(r) && dash && !strcmp(dash, "-0"))
        relay_own(r->state, true);
    snprintf(begin, sizeof(begin), "%.*s-0", TD_POSITION_SIZE - 3,
             r->target_epoch);
    if (!relay_target(r->state)[0]) /* no post, or no note of one */
        relay_note_target(
            r->state, relay_owns(r->state) && !r->max_delete ? begin : value);
    else if (!is_of(relay_target(r->state), r->target_epoch))
        say("%s", made_anew);
}

/* Learns the log of the target, to notice loops. The target may be away, and it
 * may not exist yet. */
static bool
ask_target(struct relay *r)
{
    unsigned pause_ms = 0;

    for (;;) {
        enum td_status rc =
            td_set_get(r->target, r->target_url, on_member, r, NULL);

        if (rc == TD_OK)
            return true;
        if (rc == TD_GONE ||
            (rc == TD_REFUSED && td_answered(r->target, NULL) == 404)) {
            if (relay_target(r->state)[0])
                say("the target was removed with all relayed changes; the next "
                    "change makes it anew");
            return !is_new(r) || relay_own(r->state, true) || fail_state(r);
        }
        if (rc == TD_STOPPED)
            return false;
        if (rc != TD_UNREACHABLE)
            return fail_relay(r, exit_of(r->target, rc));
        if (!wait_a_while(r, &pause_ms))
            return false;
    }
}

static void
relay_all(struct relay *r, const char *after, bool until_caught_up)
{
    const char *position = relay_position(r->state);
    struct td_follow_options how = {
        .form = TD_JSON,
        .on_trouble = say_trouble,
        .poll_ms = r->poll_ms,
        .baseline = TD_BASELINE_GONE,
        .listing = r->listing,
        .max_delete_percent = r->max_delete,
        .until_caught_up = until_caught_up,
    };
    char begin[TD_POSITION_SIZE];
    enum td_status rc;

    if (!ask_target(r) || !finish_old_post(r))
        return;
    snprintf(begin, sizeof(begin), "%s", position[0] ? position : after);
    how.after = begin;
    rc = td_follow(r->source, r->source_url, &how, on_message, r);
    if (rc != TD_OK && rc != TD_STOPPED)
        r->code = exit_of(r->source, rc);
    if (rc == TD_GONE)
        say("the changes since %s can no longer be relayed; begin anew with "
            "another --state and --after",
            begin);
}

static struct td_client *
open_target(const struct arguments *arguments, enum exit_code *code)
{
    const char *url = arguments->operands[1];
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
    if (!rc)
        *code = give_token(client, url, &token);
    if (*code) {
        td_close(client);
        return NULL;
    }
    return client;
}

static enum exit_code
run_relay(const struct arguments *arguments)
{
    const char *const *given = arguments->options;
    struct relay r = {.limits = &settings_of(arguments)->limits,
                      .keeps_links = given[OPTION_KEEP_LINKS] != NULL};
    struct problem why = {.text = ""};

    r.source_url = arguments->operands[0];
    r.target_url = arguments->operands[1];
    if (!is_web_url(r.source_url))
        return bad_usage("relay needs the URL of a source, http(s)://...: "
                         "\"%s\"",
                         r.source_url);
    if (!given[OPTION_STATE][0])
        return bad_usage("--state is empty");
    if (!strcmp(r.source_url, r.target_url))
        return bad_usage("the two sets are one");
    if (given[OPTION_POLL] && !read_pause(given[OPTION_POLL], &r.poll_ms))
        return bad_usage("--poll is a number of seconds from 0.1 to 86400");
    if (!mirror_output_max_delete(given[OPTION_MAX_DELETE], &r.max_delete))
        return EXIT_USAGE;
    if (asprintf(&r.listing, "%s.list", given[OPTION_STATE]) < 0) {
        say(NO_MEMORY);
        return EXIT_FAILED;
    }
    r.state = relay_open(given[OPTION_STATE], r.source_url, r.target_url, &why);
    if (!r.state) {
        say("%s: %s", given[OPTION_STATE], why.text);
        free(r.listing);
        return EXIT_FAILED;
    }
    if (r.max_delete && !relay_own(r.state, true))
        fail_state(&r);
    else
        r.source = open_client(arguments, r.source_url, &r.code);
    if (r.source)
        r.target = open_target(arguments, &r.code);
    if (r.target) {
        signals_begin(stop_relay, &r);
        relay_all(&r, given[OPTION_AFTER] ? given[OPTION_AFTER] : "0",
                  given[OPTION_UNTIL] != NULL);
        signals_end();
    }
    td_close(r.source);
    td_close(r.target);
    relay_resources_free(r.resources);
    relay_close(r.state);
    free(r.listing);
    return r.code;
}

const struct command relay_command = {
    .name = "relay",
    .operands = "SET-URL|SOURCE-URL SET-URL",
    .help = "Follows a source and posts its changes into a set.",
    .more =
        "The source is a set of Tidings, any other ResourceSync source or a "
        "Sitemap.\nEvery change is in the set once, in order, whoever is "
        "killed or "
        "away meanwhile;\nit goes on until it is interrupted. Entries get a "
        "link "
        "\"via\" to their resource\nunless they have one, and the times of the "
        "set; links \"collection\" and\n\"canonical\" are left out.\n\n"
        "Where the source's history does not go back to the position, all its\n"
        "resources are compared with the set's, and the differences are "
        "posted. "
        "For that\nthe set has to be this relay's alone; and nothing is "
        "deleted "
        "where that would be\nmore than --max-delete allows, and 100 resources "
        "or more. A list that is\ntoo large, or has no end, ends it with 1: N "
        "resources, or BYTES (500M, 2G or\nnone) that stay free of the disks "
        "of FILE and of temporary files.\n\n"
        "An entry that has been in the set is not brought back to it, so that "
        "rings of\nrelays come to rest. The state also keeps the post at work: "
        "without it, --after\nthe position that was reached may post some "
        "again.\n",
    .examples = "tidings relay https://example.org/ "
                "http://localhost:8787/sets/copy --state s\n",
    .options = OPTIONS(options),
    .run = run_relay,
};
