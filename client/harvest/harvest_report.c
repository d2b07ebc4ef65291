#include "client/harvest/harvest_report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/harvest/harvest.h"
#include "proto/datetime.h"
#include "proto/resourcesync/json.h"

/* The broker takes 8 KiB. */
#define REPORT_MAX 8192

/* Between two reports that differ in their times alone. */
#define QUIET_MS 60000

struct harvest_reported {
    int64_t part;
    int64_t complete_us;
    const char *kind;
    char not_complete[HARVEST_TEXT_SIZE];
    struct harvest_counts counts;
};

void
harvest_report_init(struct harvest_report *r, const char *source,
                    unsigned every_s)
{
    *r = (struct harvest_report){.source = source, .every_s = every_s};
}

static struct harvest_reported *
look_of(struct harvest_report *r, int64_t part)
{
    struct harvest_reported *looks;

    for (size_t i = 0; i < r->n_looks; i++)
        if (r->looks[i].part == part)
            return &r->looks[i];
    looks = realloc(r->looks, (r->n_looks + 1) * sizeof(*looks));
    if (!looks)
        return NULL;
    r->looks = looks;
    return &looks[r->n_looks++];
}

void
harvest_report_look(struct harvest_report *r, int64_t part,
                    const struct harvest_look *look)
{
    struct harvest_reported *its = look_of(r, part);

    if (!its)
        return;
    *its = (struct harvest_reported){.part = part,
                                     .complete_us = look->complete_us,
                                     .kind = look->kind,
                                     .counts = *look->counts};
    if (look->not_complete)
        snprintf(its->not_complete, sizeof(its->not_complete), "%s",
                 look->not_complete);
}

/* All looks as one. */
static struct harvest_reported
sum_up(const struct harvest_report *r)
{
    struct harvest_reported sum = {.complete_us = INT64_MAX};

    for (size_t i = 0; i < r->n_looks; i++) {
        const struct harvest_reported *its = &r->looks[i];

        if (!sum.kind)
            sum.kind = its->kind;
        if (its->complete_us < sum.complete_us)
            sum.complete_us = its->complete_us;
        if (its->not_complete[0] && !sum.not_complete[0])
            memcpy(sum.not_complete, its->not_complete,
                   sizeof(sum.not_complete));
        if (its->counts.left_out && !sum.counts.left_out)
            memcpy(sum.counts.left_out_text, its->counts.left_out_text,
                   sizeof(sum.counts.left_out_text));
        sum.counts.added += its->counts.added;
        sum.counts.changed += its->counts.changed;
        sum.counts.deleted += its->counts.deleted;
        sum.counts.held_back += its->counts.held_back;
        sum.counts.left_out += its->counts.left_out;
        sum.counts.mended += its->counts.mended;
    }
    return sum;
}

/* "name":"text", or null. */
static void
add_text(struct buf *to, const char *name, const char *text)
{
    if (text[0])
        json_text_member(to, name, slice_of(text));
    else
        buf_add_format(to, ",\"%s\":null", name);
}

static void
add_time(struct buf *to, const char *name, int64_t us)
{
    char text[DATETIME_SIZE + 1] = "";

    if (us > 0 && us != INT64_MAX)
        text[datetime_write_short(text, us)] = '\0';
    add_text(to, name, text);
}

/* Writes all but the times. */
static void
write_report(struct buf *to, const struct harvest_report *r,
             const struct harvest_reported *sum)
{
    BUF_ADD(to, "{\"source\":");
    json_text(to, slice_of(r->source));
    json_text_member(to, "kind",
                     slice_of(sum->kind ? sum->kind : "resourcesync"));
    add_text(to, "not_complete", sum->not_complete);
    json_number_member(to, "added", sum->counts.added);
    json_number_member(to, "changed", sum->counts.changed);
    json_number_member(to, "deleted", sum->counts.deleted);
    json_number_member(to, "held_back", sum->counts.held_back);
    json_number_member(to, "left_out", sum->counts.left_out);
    add_text(to, "left_out_example", sum->counts.left_out_text);
    json_number_member(to, "mended", sum->counts.mended);
    if (r->every_s)
        json_number_member(to, "every_s", r->every_s);
}

bool
harvest_report_put(struct harvest_report *r, struct harvest_target *target)
{
    struct harvest_reported sum = sum_up(r);
    bool is_good = true;
    struct buf text;

    buf_init(&text, REPORT_MAX);
    write_report(&text, r, &sum);
    BUF_ADD(&text, "\0");
    if (text.failed)
        goto out;
    if (r->sent && !strcmp(r->sent, text.data) &&
        clock_steady_ms() - r->sent_ms < QUIET_MS)
        goto out;
    free(r->sent);
    r->sent = strdup(text.data);
    r->sent_ms = clock_steady_ms();
    text.size--;
    add_time(&text, "complete_as_of", sum.complete_us);
    add_time(&text, "last_look", clock_now_us());
    BUF_ADD(&text, "}");
    if (!text.failed)
        is_good = harvest_target_tell(target, buf_slice(&text));

out:
    buf_fini(&text);
    return is_good;
}

void
harvest_report_fini(struct harvest_report *r)
{
    free(r->looks);
    free(r->sent);
}
