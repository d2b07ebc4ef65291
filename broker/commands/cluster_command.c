#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/backup/backup_fetch.h"
#include "broker/commands/command_rows.h"
#include "broker/journal/pg_cluster.h"
#include "broker/log/kept_records.h"
#include "broker/log/record.h"
#include "broker/store/store.h"

struct values {
    char data[4096];
    char cluster[2048];
    char cluster_name[64];
    char public_url[512];
    char from[2048];
    char token_file[4096];
    char ca_file[4096];
    enum durable_by durable_by;
    uint64_t give_up;
    bool unless_begun;
    bool is_same_log;
};

#define ROW_OF struct values
#include "base/option_rows.h"

#define CLUSTER_ROW                                                       \
    {                                                                     \
        "cluster", "CONNINFO", TEXT(cluster), NULL,                       \
            "the PostgreSQL database of the cluster", .is_required = true \
    }
#define DURABLE_ROW                                                            \
    {                                                                          \
        "cluster-durable-by", "standbys|provider|disk",                        \
            CHOICE(durable_by, enum durable_by, DURABLE_STANDBYS), "standbys", \
            "what keeps its commits: that of the brokers"                      \
    }

/* The data directory of a stopped broker */

struct copy {
    int lock; /* -1: not taken */
    struct engine *engine;
    atomic_size_t forms;
    struct journal_place place;
    struct buf heads; /* a line for each set and each name of a removed one */
    uint64_t n_sets;
};

static enum status
add_head(const struct engine_set *set, void *user, struct problem *why)
{
    struct copy *copy = user;
    const struct head *head = &set->head;

    if (set->removed_us) {
        buf_add_format(&copy->heads, "removed %s %" PRIu64 "\n", set->name,
                       head->list);
    } else {
        buf_add_format(&copy->heads, "%s %s %" PRIu64 " %" PRIu64 " ",
                       set->name, head->epoch, head->list, head->last);
        buf_add_hex(&copy->heads, head->digest.bytes, DIGEST_SIZE);
        buf_add_text(&copy->heads, "\n");
        copy->n_sets += set->name[0] != '_'; /* the broker's own */
    }
    return copy->heads.failed ? problem_memory(why) : STATUS_OK;
}

static void
copy_close(struct copy *copy)
{
    if (copy->engine)
        copy->engine->ops->close(copy->engine);
    buf_fini(&copy->heads);
    file_close(&copy->lock);
}

/* Reads a directory whose lock this process has. */
static enum status
copy_read(struct copy *copy, const char *dir, struct problem *why)
{
    enum status rc = store_open(&copy->engine, dir, &copy->forms, why);

    if (!rc)
        rc = copy->engine->ops->load(copy->engine, add_head, copy, why);
    return rc ? rc : copy->engine->ops->place(copy->engine, &copy->place, why);
}

/* Opens the directory as a broker would, so that none runs there. Always close
 * it. */
static enum status
copy_open(struct copy *copy, const char *dir, struct problem *why)
{
    enum status rc = file_lock(dir, &copy->lock, why);

    return rc ? rc : copy_read(copy, dir, why);
}

static enum status
copy_move(struct copy *copy, const struct journal_place *place,
          struct problem *why)
{
    const struct commit commit = {clock_now_us(), NULL, 0, place};
    bool is_more;

    return copy->engine->ops->commit(copy->engine, &commit, &is_more, why);
}

/* cluster init and mend */

/* In place of a number of records given back: the journal was begun. */
#define BEGUN UINT64_MAX

/* Begins a journal with a stopped broker: its own sets, or those of a copy,
 * which then goes on behind its last record. */
static enum status
begin_journal(const struct values *values, bool is_copy, struct copy *copy,
              struct journal_place *place, uint64_t *n_given,
              struct problem *why)
{
    const struct pg_options options =
        pg_options_of(values->cluster, values->durable_by);
    enum status rc = copy_open(copy, values->data, why);
    bool was_begun;

    if (rc)
        return rc;
    /* Where a cluster begins that this copy is the first of: a digest of its
     * sets; all zero if there were none ever. */
    *place = is_copy ? copy->place : (struct journal_place){.n = 0};
    if (!is_copy && copy->heads.size > 0)
        digest_sha256(&place->chain, buf_slice(&copy->heads));
    was_begun = !memcmp(&copy->place, place, sizeof(*place));
    if (is_copy && !journal_place_is_set(&copy->place))
        return problem(why, STATUS_CONFLICT, "%s is no copy of a cluster",
                       values->data);
    if (journal_place_is_set(&copy->place) && !was_begun)
        return problem(why, STATUS_CONFLICT,
                       "%s is a copy of a cluster already", values->data);
    rc = is_copy ? pg_cluster_return(&options, values->public_url, values->data,
                                     place, n_given, why)
                 : STATUS_NOT_FOUND;
    if (rc == STATUS_NOT_FOUND) {
        *n_given = BEGUN;
        rc = pg_cluster_begin(&options, values->public_url, place,
                              is_copy && !values->is_same_log, why);
    }
    if (rc || was_begun)
        return rc;
    kept_records_forget(values->data); /* of a cluster that has ended */
    return copy_move(copy, place, why);
}

/* Looks whether the database has a cluster, and names it. */
static enum status
name_cluster(const struct values *values, bool *is_begun, struct problem *why)
{
    const struct pg_options options =
        pg_options_of(values->cluster, values->durable_by);
    struct pg_cluster cluster;
    enum status rc = pg_cluster_look(&options, &cluster, NULL, NULL, why);

    *is_begun = !rc;
    if (*is_begun)
        printf("the database has a cluster already; every broker has "
               "--public-url %s\n",
               cluster.public_url);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

static enum exit_code
run_begin(const struct arguments *given)
{
    bool is_copy = given->command == &cluster_mend_command, is_begun = false;
    const struct values *values = given->values;
    struct journal_place place;
    struct problem why = {""};
    struct copy copy = {.lock = -1, .heads.max = SIZE_MAX};
    uint64_t n_given = 0;
    enum status rc = pg_check_address(values->cluster, &why);

    umask(S_IRWXG | S_IRWXO);
    if (!rc && values->unless_begun)
        rc = name_cluster(values, &is_begun, &why);
    if (is_begun)
        return EXIT_GOOD;
    if (!rc && !is_copy)
        rc = file_make_dirs(values->data, &why);
    if (rc)
        return command_fail(given, rc, &why);
    rc = begin_journal(values, is_copy, &copy, &place, &n_given, &why);
    copy_close(&copy);
    if (rc)
        return command_fail(given, rc, &why);
    if (n_given == 0)
        printf("nothing is missing: the journal has all records of this copy, "
               "up to %" PRIu64 "\n",
               place.n);
    else if (n_given != BEGUN)
        printf("the journal has %" PRIu64 " records back, and ends with record "
               "%" PRIu64 "\n",
               n_given, place.n);
    else
        printf("the journal begins behind record %" PRIu64 ", with %" PRIu64
               " sets%s; every broker has --public-url %s\n",
               place.n, copy.n_sets,
               is_copy && !values->is_same_log
                   ? ", which begin new epochs there: readers take all "
                     "resources anew"
                   : "",
               values->public_url);
    return EXIT_GOOD;
}

/* Of init all but the last one, of mend all but the first. */
static const struct option begin_rows[] = {
    {"unless-begun", NULL, FLAG(unless_begun), NULL,
     "do nothing if the database has a cluster: for each start of a container"},
    {"data", "DIR", TEXT(data), "./tidings-data",
     "the data directory of a broker that is stopped"},
    CLUSTER_ROW,
    {"public-url", "URL", URL(public_url, ROOM(public_url)), NULL,
     "what clients put before the paths, at every broker", .is_required = true},
    DURABLE_ROW,
    {"same-log", NULL, FLAG(is_same_log), NULL,
     "a journal that begins again goes on with the epochs: only if nobody has "
     "read or seen signed what this copy lacks"},
};

#define N_BEGIN (N_ELEMENTS(begin_rows) - 1)

const struct command cluster_init_command = {
    .name = "cluster init",
    .help = "Begins a cluster with a stopped broker, in an empty database.",
    .more = "Nothing is renumbered: the sets go on with their epochs. The "
            "others begin with tidingsd cluster join, or, if the journal still "
            "has its first record and the first broker had no sets, with an "
            "empty directory.\n",
    .examples = "tidingsd cluster init --data /var/lib/tidings \\\n"
                "    --cluster 'host=db1,db2 dbname=tidings user=tidings' \\\n"
                "    --public-url https://tidings.example.org\n",
    .options =
        &(const struct options){begin_rows, N_BEGIN, sizeof(struct values)},
    .run = run_begin,
};

const struct command cluster_mend_command = {
    .name = "cluster mend",
    .help = "Gives the journal of a cluster lost records back from a copy, or "
            "begins it again behind the last one.",
    .more = "For a journal that is lost, or has lost records that brokers "
            "have. Stop all brokers, and take the copy with the most records: "
            "each broker that finds records missing logs the number of its "
            "last one. A database that has lost some gets them back, if the "
            "copy keeps all of them, and has the same history: all brokers "
            "then go on. In an empty database the journal begins again, and "
            "all sets begin new epochs, for nobody knows whether a reader has "
            "more than this copy; brokers with the same last record follow, "
            "and all others need a backup of one of these. Nothing is "
            "renumbered.\n",
    .examples = "tidingsd cluster mend --data /var/lib/tidings \\\n"
                "    --cluster 'host=db1,db2 dbname=tidings2 user=tidings' \\\n"
                "    --public-url https://tidings.example.org\n",
    .options =
        &(const struct options){begin_rows + 1, N_BEGIN, sizeof(struct values)},
    .run = run_begin,
};

/* cluster join */

static enum status
join(const struct values *values, struct backup_fetch *fetch,
     struct journal_place *place, struct problem *why)
{
    const struct pg_options pg =
        pg_options_of(values->cluster, values->durable_by);
    struct copy copy = {.lock = -1, .heads.max = SIZE_MAX};
    enum status rc = backup_fetch(fetch, why);

    if (!rc)
        rc = copy_read(&copy, values->data, why);
    *place = copy.place;
    copy_close(&copy);
    /* The fetched copy must be of this cluster, and able to follow. */
    if (!rc && !journal_place_is_set(place)) {
        rc = problem(why, STATUS_DIFFERENT,
                     "the broker at %s belongs to no cluster", values->from);
    } else if (!rc) {
        rc = pg_cluster_check(&pg, place, why);
        if (rc)
            problem_prefix(
                why, rc,
                "the backup of %s does not fit the journal: ", values->from);
    }
    new_data_close(&fetch->data, rc);
    return rc;
}

static enum exit_code
run_join(const struct arguments *given)
{
    const struct values *values = given->values;
    const struct pg_options options =
        pg_options_of(values->cluster, values->durable_by);
    struct backup_fetch fetch = {
        .url = values->from,
        .token_file = values->token_file,
        .ca_file = values->ca_file,
        .path = values->data,
        .on_missing = command_missing,
        .user = (void *)(uintptr_t)given->command,
    };
    struct journal_place place;
    struct pg_cluster cluster;
    struct problem why = {""};
    enum status rc = pg_check_address(values->cluster, &why);

    umask(S_IRWXG | S_IRWXO);
    if (!rc) /* before an hour of bytes */
        rc = pg_cluster_look(&options, &cluster, NULL, NULL, &why);
    if (!rc)
        rc = join(values, &fetch, &place, &why);
    if (rc)
        return command_fail(given, rc, &why);
    printf("fetched %" PRIu64 " files of %" PRIu64
           " bytes, up to record %" PRIu64 "; to serve them:\n"
           "tidingsd --data %s --cluster CONNINFO --cluster-name NAME "
           "--public-url %s\n",
           fetch.n_files, fetch.bytes, place.n, values->data,
           cluster.public_url);
    return command_end_missing(given->command, fetch.n_missing, values->from);
}

static const struct option join_rows[] = {
    {"from", "URL", URL(from, ROOM(from)), NULL,
     "a broker of the cluster, which runs; best its own address, and not that "
     "of the balancer",
     .is_required = true},
    {"token-file", "FILE", TEXT(token_file), NULL,
     "the token of an administrator"},
    {"ca-file", "FILE", TEXT(ca_file), NULL,
     "certificates of authorities, PEM, that the broker may have beside the "
     "system's"},
    {"data", "NEW", TEXT(data), "./tidings-data",
     "the data directory of the new broker: empty, or made"},
    CLUSTER_ROW,
    DURABLE_ROW,
};

const struct command cluster_join_command = {
    .name = "cluster join",
    .help = "Makes the data directory of a new broker of a cluster.",
    .more = "The broker at URL makes a backup of itself and sends it. Each "
            "file is checked by its digest; after a failure nothing is left "
            "in NEW. A token goes over https, or to this machine.\n",
    .examples = "tidingsd cluster join --from https://a.example.org:8787 \\\n"
                "    --token-file ./admin --data /var/lib/tidings \\\n"
                "    --cluster 'host=db1,db2 dbname=tidings user=tidings'\n",
    .options = OPTION_ROWS(join_rows),
    .run = run_join,
};

/* cluster status */

struct report {
    uint64_t n_brokers, n_faults;
};

/* Returns how many faults there are. Two primaries: a standby was promoted, and
 * the former primary goes on. */
static uint64_t
print_servers(const struct pg_options *options)
{
    unsigned n;
    struct pg_server *all = pg_cluster_servers(options, &n), *primary = NULL;
    uint64_t n_faults = 0;
    int64_t newest = 0;

    for (struct pg_server *s = all; s < all + n; s++)
        newest = s->received > newest ? s->received : newest;
    for (struct pg_server *s = all; s < all + n; s++) {
        if (s->away.text[0]) {
            printf("server %s: unreachable: %s\n", s->name, s->away.text);
            n_faults++;
        } else if (s->is_standby) {
            printf("server %s: standby, %" PRId64 " bytes behind%s\n", s->name,
                   newest - s->received, s->is_fed ? "" : ", receives nothing");
            n_faults += !s->is_fed;
        } else {
            printf("server %s: primary\n", s->name);
            if (primary && primary->started_us != s->started_us) {
                printf("two primaries: %s and %s: stop the one that was to be "
                       "replaced\n",
                       primary->name, s->name);
                n_faults++;
            }
            primary = s;
        }
        if (s->locks[0])
            printf("  lock: %s\n  remedy: end that session, if brokers wait: "
                   "SELECT pg_terminate_backend(PID)\n",
                   s->locks);
        n_faults += s->locks[0] != '\0';
    }
    free(all);
    return n_faults;
}

static void
print_broker(const struct pg_broker *broker, void *user)
{
    struct report *report = user;
    const char *why;
    const struct pg_broker_state *state = pg_broker_judge(broker, &why);

    report->n_brokers++;
    report->n_faults += state != pg_broker_states;
    printf("broker %.*s: %s, record %" PRIu64 ", %" PRIu64
           " bytes behind, seen %.1f s ago%s%s%.*s\n",
           SLICE_ARG(broker->name), state->text, broker->n,
           broker->behind_bytes, (double)broker->silent_us / 1e6,
           broker->is_reader ? ", reads only" : "",
           broker->owns.size > 0 ? ", owns " : "", SLICE_ARG(broker->owns));
    if (*why)
        printf("  reason: %s\n", why);
    if (*state->remedy)
        printf("  remedy: %s\n", state->remedy);
}

static enum exit_code
run_status(const struct arguments *given)
{
    const struct values *values = given->values;
    struct pg_options options =
        pg_options_of(values->cluster, values->durable_by);
    struct pg_cluster cluster;
    struct report report = {0};
    struct problem why = {""};
    enum status rc = pg_check_address(values->cluster, &why);

    if (!rc) {
        report.n_faults = print_servers(&options);
        rc = pg_cluster_look(&options, &cluster, print_broker, &report, &why);
    }
    if (rc == STATUS_REFUSED) { /* as brokers are */
        printf("no broker trusts the primary: %s\n", why.text);
        report.n_faults++;
        options.durable_by = DURABLE_UNCHECKED;
        rc = pg_cluster_look(&options, &cluster, print_broker, &report, &why);
    }
    if (rc)
        return command_fail(given, rc, &why);
    printf("journal: record %" PRIu64 ", has the last %" PRIu64
           " of them, %" PRIu64 " bytes; keeps %" PRIu64 "%s\n"
           "PostgreSQL: %s, %" PRIu64 " synchronous standbys%s\n"
           "public URL: %s\n",
           cluster.end.n, cluster.end.n - cluster.first, cluster.bytes,
           cluster.keep_bytes,
           cluster.has_other_keeps
               ? ", the largest --cluster-keep: those of brokers differ"
               : "",
           cluster.has_standbys ? "waits for standbys"
                                : "does not wait for a standby",
           cluster.n_standbys,
           cluster.has_hidden      ? "; not all is visible to this account, "
                                     "which lacks pg_monitor"
           : !cluster.shows_leases ? "; who owns what is not visible to this "
                                     "account"
                                   : "",
           cluster.public_url);
    report.n_faults += pg_cluster_lacks_standby(&cluster, values->durable_by);
    return report.n_faults > 0 || report.n_brokers == 0 ? EXIT_FAILED
                                                        : EXIT_GOOD;
}

static const struct option status_rows[] = {CLUSTER_ROW, DURABLE_ROW};

const struct command cluster_status_command = {
    .name = "cluster status",
    .help = "Lists the servers of PostgreSQL and the brokers of a cluster, and "
            "describes its journal.",
    .more = "It asks each server that the address names, for 10 seconds in "
            "all. The exit status is 1 if one cannot be reached, a standby "
            "receives nothing, two are primaries, a broker is away or far "
            "behind, or no standby has each commit, although brokers rely on "
            "standbys.\n",
    .examples = "tidingsd cluster status --cluster 'host=db1,db2 "
                "dbname=tidings'\n",
    .options = OPTION_ROWS(status_rows),
    .run = run_status,
};

/* cluster leave */

static enum status
release_copy(void *user, struct problem *why)
{
    static const struct journal_place nowhere = {.n = 0};

    return copy_move(user, &nowhere, why);
}

struct lost {
    char name[SET_NAME_MAX + 1]; /* of the set before */
    atomic_size_t forms;
};

static enum status
name_sets(const struct journal_place *place, struct slice bytes, void *user,
          struct problem *why)
{
    struct lost *lost = user;
    struct record record;
    enum status rc = record_read(&record, bytes, &lost->forms, why);

    for (size_t i = 0; !rc && i < record.n; i++) {
        const char *name = record.acts[i].name;

        if (name[0] == '_' || strcmp(name, lost->name) == 0)
            continue;
        printf("record %" PRIu64 " is of the set %s\n", place->n, name);
        snprintf(lost->name, sizeof(lost->name), "%s", name);
    }
    record_fini(&record);
    return rc;
}

/* Names the sets of the records that the broker alone has, as far as its copy
 * keeps them. */
static void
name_lost(const struct values *values, const struct pg_leaving *leaving)
{
    struct journal_place at = leaving->end;
    struct lost lost = {.name = ""};
    struct problem why = {""};

    if (!leaving->place)
        printf("the sets of the lost records are not known without --data\n");
    else if (kept_records_read(values->data, &at, name_sets, &lost, &why) ||
             at.n < leaving->place->n)
        printf("the sets of records behind %" PRIu64 " are not known: %s\n",
               at.n, why.text[0] ? why.text : "the copy no longer has them");
    fflush(stdout);
}

static enum exit_code
run_leave(const struct arguments *given)
{
    struct values values = *(const struct values *)given->values;
    const struct pg_options options =
        pg_options_of(values.cluster, values.durable_by);
    bool has_copy = values.data[0] != '\0';
    struct problem why = {""};
    struct copy copy = {.lock = -1, .heads.max = SIZE_MAX};
    struct pg_leaving leaving = {.name = values.cluster_name,
                                 .place = has_copy ? &copy.place : NULL,
                                 .gives_up = values.give_up,
                                 .release = release_copy,
                                 .user = &copy};
    enum status rc = pg_check_address(values.cluster, &why);

    umask(S_IRWXG | S_IRWXO);
    if (!values.cluster_name[0] &&
        gethostname(values.cluster_name, sizeof(values.cluster_name) - 1))
        values.cluster_name[0] = '\0';
    if (!rc && has_copy)
        rc = copy_open(&copy, values.data, &why);
    if (!rc && has_copy && !journal_place_is_set(&copy.place) &&
        copy.n_sets > 0)
        rc = problem(&why, STATUS_CONFLICT, "%s is no copy of a cluster",
                     values.data);
    if (!rc)
        rc = pg_cluster_leave(&options, &leaving, &why);
    if (leaving.n_lost > 0 && (!rc || rc == STATUS_CONFLICT))
        name_lost(&values, &leaving);
    copy_close(&copy);
    if (rc)
        return command_fail(given, rc, &why);
    if (!has_copy)
        printf("its last report was of record %" PRIu64
               ", and the journal ends with record %" PRIu64
               ": if it had more, that is given up, which only --data could "
               "tell\n",
               leaving.reported, leaving.end.n);
    if (leaving.is_last)
        printf("the cluster has ended; %s is a single broker's again\n",
               values.data);
    else
        printf("\"%s\" has left the cluster; its data directory stays a copy, "
               "which no broker may serve alone: delete it\n",
               values.cluster_name);
    return EXIT_GOOD;
}

static const struct option leave_rows[] = {
    {"data", "DIR", TEXT(data), NULL,
     "the data directory of the broker; none if it is lost"},
    CLUSTER_ROW,
    {"cluster-name", "NAME", TEXT(cluster_name), NULL,
     "name of the broker; that of the machine if not given"},
    DURABLE_ROW,
    {"give-up", "N", COUNT(give_up, 0, INT64_MAX), "0",
     "the broker alone has N records that were acknowledged, and they are to "
     "be lost"},
};

const struct command cluster_leave_command = {
    .name = "cluster leave",
    .help = "Takes a stopped broker out of its cluster.",
    .more = "The last broker becomes a single one: its sets go on as they are, "
            "and the cluster's tables are deleted. The copy of any other "
            "broker can only be deleted: beside the cluster, it would be a "
            "second history of the same epochs. A broker that alone has "
            "records which were acknowledged leaves with --give-up and their "
            "number; with --data the sets of these are named.\n",
    .examples = "tidingsd cluster leave --data /var/lib/tidings \\\n"
                "    --cluster 'host=db1,db2 dbname=tidings user=tidings'\n",
    .options = OPTION_ROWS(leave_rows),
    .run = run_leave,
};
