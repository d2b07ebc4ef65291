/*
 * check_command.c - tidingsd check: looks at a data directory, beside a broker
 * or without one: does everything that its databases refer to exist, is it what
 * was written, and does every file have a row?
 *
 * Writes nothing. Without a broker it shares the directory's lock, so none can
 * start meanwhile. Here are the table of parts, and second looks; the parts
 * themselves are in broker/check (inspection.h).
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "broker/bucket/vault.h"
#include "broker/check/inspection.h"
#include "broker/commands/command_rows.h"

struct values {
    char data[4096];
    char archive[1024]; /* as the broker has it; "": not asked */
    char credentials[4096];
    bool is_deep; /* also computed data against the log, and all bytes */
};

#define ROW_OF struct values
#include "base/option_rows.h"

static const struct option rows[] = {
    {"data", "DIR", TEXT(data), "./tidings-data", "the data directory"},
    {"deep", NULL, FLAG(is_deep), "no",
     "also compare the resources of each set with its log, and every bit of "
     "content, lists, dumps and packages with what was written"},
    {"archive", "s3://BUCKET/PREFIX?...", TEXT(archive), NULL,
     "ask this bucket, as the broker has it, for each file that is there"},
    {"s3-credentials", "FILE", TEXT(credentials), NULL, "as the broker has it"},
};

/* The parts: a database, something else of the whole directory, or something of
 * each set. */
static const struct {
    enum database_id database;
    void (*run)(struct inspection *in);
    void (*run_set)(struct inspection *in, const struct inspected_set *set);
} parts[] = {
    {.run = check_names},
    {DATABASE_TIDINGS},
    {DATABASE_HUB},
    {DATABASE_TOKENS},
    {DATABASE_MQTT},
    {.run = check_uploads},
    {.run_set = check_log},
    {.run_set = check_builds},
    {.run_set = check_content},
};

/* Beside a broker: how long after the first look the second one begins. */
#define PAUSE_US 1000000

/* What a part has found, of a set with that id (0: none). */
struct found {
    size_t part;
    uint32_t set;
    struct findings findings;
};

struct check {
    struct inspection in;
    struct found *found; /* to be confirmed by a second look */
    size_t n_found, found_capacity;
    uint64_t n_findings;
    bool is_short; /* no memory for all findings */
};

static void
clear_findings(struct findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->lines[i]);
    free(f->lines);
    *f = (struct findings){NULL};
}

/* Removes the lines that `second` does not have. */
static void
confirm_findings(struct findings *f, const struct findings *second)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        size_t k = 0;

        while (k < second->n && strcmp(second->lines[k], f->lines[i]) != 0)
            k++;
        if (k < second->n)
            f->lines[n++] = f->lines[i];
        else
            free(f->lines[i]);
    }
    f->n = n;
}

static void
print_findings(struct check *c, struct findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        printf("%s\n", f->lines[i]);
    c->n_findings += f->n;
    c->is_short |= f->is_short;
    clear_findings(f);
}

static void
look(struct check *c, size_t part, const struct inspected_set *set)
{
    enum database_id id = parts[part].database;
    struct db db;

    if (parts[part].run_set)
        parts[part].run_set(&c->in, set);
    else if (parts[part].run)
        parts[part].run(&c->in);
    else if (!check_rules(&c->in, id, databases[id].name, &db))
        db_close(&db);
}

/* Runs a part; without a broker its findings are certain. */
static void
run_part(struct check *c, size_t part, const struct inspected_set *set)
{
    look(c, part, set);
    if (c->in.findings.n == 0 && !c->in.findings.is_short)
        return;
    if (!c->in.is_live || !ONE_MORE(c->found, &c->found_capacity, c->n_found)) {
        print_findings(c, &c->in.findings);
        return;
    }
    c->found[c->n_found++] =
        (struct found){part, set ? set->id : 0, c->in.findings};
    c->in.findings = (struct findings){NULL};
}

/* The part of the database has reported that it cannot be read. */
static void
run_sets(struct check *c)
{
    bool is_loaded = !inspection_load(&c->in);

    clear_findings(&c->in.findings);
    if (!is_loaded)
        return;
    for (size_t i = 0; i < c->in.n_sets; i++)
        for (size_t part = 0; part < N_ELEMENTS(parts); part++)
            if (parts[part].run_set)
                run_part(c, part, &c->in.sets[i]);
    for (size_t i = 0; i < c->in.n_sets; i++)
        c->in.counts.sets += !c->in.sets[i].is_removed;
}

/* Looks again. The broker's own work has ended by then. */
static void
confirm_all(struct check *c)
{
    struct inspection_counts counts = c->in.counts;

    if (c->n_found > 0)
        usleep(PAUSE_US);
    for (size_t i = 0; i < c->n_found; i++) {
        struct found *found = &c->found[i];

        if (!parts[found->part].run_set)
            look(c, found->part, NULL);
        else if (!inspection_load(&c->in))
            for (size_t k = 0; k < c->in.n_sets; k++)
                if (c->in.sets[k].id == found->set)
                    look(c, found->part, &c->in.sets[k]);
        confirm_findings(&found->findings, &c->in.findings);
        clear_findings(&c->in.findings);
        print_findings(c, &found->findings);
    }
    free(c->found);
    c->in.counts = counts;
}

static void
print_summary(const struct check *c, bool is_asked)
{
    const struct inspection_counts *n = &c->in.counts;

    printf("checked %s%s%s: %" PRIu64 " sets, %" PRIu64
           " closed lists, %" PRIu64 " entries, %" PRIu64
           " lists and dumps of resources, %" PRIu64 " files, %" PRIu64
           " bytes; ",
           c->in.data, c->in.is_deep ? ", deep" : "",
           c->in.is_live ? ", beside a running broker" : "", n->sets, n->lists,
           n->entries, n->builds, n->files, n->bytes);
    if (n->in_bucket > 0)
        printf("%" PRIu64 " files in a bucket were not read%s; ", n->in_bucket,
               is_asked ? "" : ", nor asked for (--archive)");
    if (c->n_findings == 0)
        printf("nothing found\n");
    else
        printf("%" PRIu64 " finding%s\n", c->n_findings,
               c->n_findings == 1 ? "" : "s");
}

/* Checks the open directory. */
static enum status
check_dir(struct check *c, bool is_asked, struct problem *why)
{
    int lock = -1;
    enum status rc = file_share_lock(c->in.data, &lock, why);

    c->in.is_live = rc == STATUS_BUSY;
    if (rc && !c->in.is_live)
        return rc;
    for (size_t part = 0; part < N_ELEMENTS(parts); part++)
        if (!parts[part].run_set)
            run_part(c, part, NULL);
    run_sets(c);
    confirm_all(c);
    print_summary(c, is_asked);
    clear_findings(&c->in.findings);
    free(c->in.sets);
    file_close(&lock);
    return c->is_short ? problem_memory(why) : STATUS_OK;
}

static enum exit_code
run_check(const struct arguments *given)
{
    const struct values *values = given->values;
    const struct vault_options vault = {.address = values->archive,
                                        .credentials = values->credentials};
    struct check c = {.in = {.data = values->data,
                             .is_deep = values->is_deep,
                             .segments = -1}};
    struct problem why = {""};
    enum status rc = values->archive[0] ? vault_open(&vault, &why) : STATUS_OK;

    c.in.dir = open(values->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!rc && c.in.dir < 0) {
        (void)problem_errno(&why, "cannot open the data directory",
                            values->data);
        rc = STATUS_INVALID; /* a wrong --data */
    }
    if (!rc)
        rc = check_dir(&c, values->archive[0], &why);
    file_close(&c.in.dir);
    vault_close();
    if (rc)
        return command_fail(given, rc, &why);
    return c.n_findings > 0 ? EXIT_FAILED : EXIT_GOOD;
}

const struct command check_command = {
    .name = "check",
    .help = "Looks at a data directory, and reports what is wrong with it.",
    .more =
        "Works beside the running broker or without one, and writes nothing. "
        "It looks at every file of closed lists, every list and dump, "
        "content, databases, positions of subscriptions and bridges, files of "
        "no row, and permissions. One line for each finding says what it is, "
        "where, what it means, and what to do. The exit status is 0 if nothing "
        "was found, else 1.\n\n"
        "Without a broker none can start until it ends. (tidingsd --check "
        "looks at the settings and surroundings of a start.)\n",
    .examples = "tidingsd check --data /var/lib/tidings\n"
                "tidingsd check --data /var/lib/tidings --deep\n",
    .options = OPTION_ROWS(rows),
    .run = run_check,
};
