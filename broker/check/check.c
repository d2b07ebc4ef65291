#include "broker/check/check.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "broker/check/checks.h"

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
    FILE *to;
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
        fprintf(c->to, "%s\n", f->lines[i]);
    c->n_findings += f->n;
    c->is_short |= f->is_short;
    clear_findings(f);
}

static void
look(struct check *c, size_t part, const struct inspected_set *set)
{
    if (parts[part].run_set)
        parts[part].run_set(&c->in, set);
    else if (parts[part].run)
        parts[part].run(&c->in);
    else
        check_database(&c->in, parts[part].database);
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

/* check_database has reported a database that cannot be read. */
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

enum status
check_run(const struct check_options *options, FILE *to, uint64_t *n_findings,
          struct problem *why)
{
    struct check c = {.in = {.data = options->data,
                             .is_deep = options->is_deep,
                             .segments = -1},
                      .to = to};
    const struct inspection_counts *n = &c.in.counts;
    int lock = -1;
    enum status rc;

    c.in.dir = open(options->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (c.in.dir < 0) {
        (void)problem_errno(why, "cannot open the data directory",
                            options->data);
        return STATUS_NOT_FOUND;
    }
    rc = file_share_lock(options->data, &lock, why);
    c.in.is_live = rc == STATUS_BUSY;
    if (rc && !c.in.is_live) {
        file_close(&c.in.dir);
        return rc;
    }
    for (size_t part = 0; part < N_ELEMENTS(parts); part++)
        if (!parts[part].run_set)
            run_part(&c, part, NULL);
    run_sets(&c);
    confirm_all(&c);
    fprintf(to,
            "checked %s%s%s: %" PRIu64 " sets, %" PRIu64
            " closed lists, %" PRIu64 " entries, %" PRIu64
            " lists and dumps of resources, %" PRIu64 " files, %" PRIu64
            " bytes; ",
            c.in.data, c.in.is_deep ? ", deep" : "",
            c.in.is_live ? ", beside a running broker" : "", n->sets, n->lists,
            n->entries, n->builds, n->files, n->bytes);
    if (c.n_findings == 0)
        fprintf(to, "nothing found\n");
    else
        fprintf(to, "%" PRIu64 " finding%s\n", c.n_findings,
                c.n_findings == 1 ? "" : "s");
    *n_findings = c.n_findings;
    clear_findings(&c.in.findings);
    free(c.in.sets);
    file_close(&c.in.dir);
    file_close(&lock);
    return c.is_short ? problem_memory(why) : STATUS_OK;
}
