#include "client/harvest/harvest_report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "proto/datetime.h"
#include "proto/resourcesync/json.h"

/* The broker takes 8 KiB. */
#define REPORT_MAX 8192

/* Between two reports that differ in their times alone. */
#define QUIET_MS 60000

void
harvest_report_add(struct harvest_look *sum, const struct harvest_look *look)
{
    const struct harvest_counts *its = &look->counts;

    if (!sum->kind)
        sum->kind = look->kind;
    if (look->complete_us < sum->complete_us)
        sum->complete_us = look->complete_us;
    if (!sum->not_complete[0])
        memcpy(sum->not_complete, look->not_complete,
               sizeof(sum->not_complete));
    if (!sum->counts.left_out)
        memcpy(sum->counts.left_out_text, its->left_out_text,
               sizeof(its->left_out_text));
    sum->counts.added += its->added;
    sum->counts.changed += its->changed;
    sum->counts.deleted += its->deleted;
    sum->counts.held_back += its->held_back;
    sum->counts.left_out += its->left_out;
    sum->counts.mended += its->mended;
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
write_report(struct buf *to, const struct harvest_options *how,
             const struct harvest_look *sum)
{
    BUF_ADD(to, "{\"source\":");
    json_text(to, slice_of(sum->url));
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
    if (!how->is_once && how->every_ms >= 1000)
        json_number_member(to, "every_s", how->every_ms / 1000);
}

bool
harvest_report_put(struct harvest_target *t, const struct harvest_look *sum)
{
    int64_t age_ms = clock_steady_ms() - t->reported_ms;
    bool is_recent = age_ms < QUIET_MS && age_ms < t->options->every_ms;
    bool is_good = true;
    struct buf text;

    buf_init(&text, REPORT_MAX);
    write_report(&text, t->options, sum);
    BUF_ADD(&text, "\0");
    if (text.failed ||
        (is_recent && t->reported && !strcmp(t->reported, text.data)))
        goto out;
    free(t->reported);
    t->reported = strdup(text.data);
    t->reported_ms = clock_steady_ms();
    text.size--;
    add_time(&text, "complete_as_of", sum->complete_us);
    add_time(&text, "last_look", clock_now_us());
    BUF_ADD(&text, "}");
    if (!text.failed)
        is_good = harvest_target_tell(t, buf_slice(&text));
out:
    buf_fini(&text);
    return is_good;
}
