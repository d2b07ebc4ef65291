#include "broker/http/harvest_metrics.h"

#include <inttypes.h>
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/sets/harvest.h"
#include "proto/datetime.h"

enum family {
    FAMILY_COMPLETE,
    FAMILY_LOOK,
    FAMILY_LEFT_OUT,
    FAMILY_HELD_BACK,
    FAMILIES
};

/* Of times the earliest are the worst, of other numbers the greatest. */
static const struct row {
    const char *name, *help;
    bool is_time;
} rows[FAMILIES] = {
    [FAMILY_COMPLETE] =
        {"tidings_harvest_complete_timestamp_seconds",
         "When a harvested set was last known to be complete, 0: never; of the "
         "ten sets for which that is longest ago",
         true},
    [FAMILY_LOOK] =
        {"tidings_harvest_look_timestamp_seconds",
         "When the harvester of a set last looked at its source; of the ten "
         "sets for which that is longest ago",
         true},
    [FAMILY_LEFT_OUT] =
        {"tidings_harvest_left_out_rows",
         "Rows of the source of a set that cannot be used, of the ten sets "
         "with most",
         false},
    [FAMILY_HELD_BACK] =
        {"tidings_held_back_deletions",
         "Deletions of a set that wait for consent, of the ten sets with most",
         false},
};

#define WORST 10

/* The worst sets of each family, the worst one first. */
struct worst {
    const struct principal *principal;

    struct place {
        const char *name;
        int64_t value;
    } places[FAMILIES][WORST];

    size_t n[FAMILIES];
};

static void
consider(struct worst *w, enum family family, const struct set *set,
         int64_t value)
{
    struct place *places = w->places[family];
    size_t *n = &w->n[family], at = *n;

    while (at > 0 && (rows[family].is_time ? value < places[at - 1].value
                                           : value > places[at - 1].value))
        at--;
    if (at == WORST)
        return;
    if (*n < WORST)
        ++*n;
    memmove(&places[at + 1], &places[at], (*n - 1 - at) * sizeof(*places));
    places[at] = (struct place){set->name, value};
}

static int64_t
seconds_of(int64_t us)
{
    return us == DATETIME_NONE ? 0 : us / 1000000;
}

static bool
consider_set(struct set *set, const struct head *head, void *user)
{
    struct worst *w = user;
    struct harvest *harvest;
    uint64_t held_back =
        atomic_load_explicit(&set->held_back, memory_order_relaxed);

    (void)head;
    if (!set_is_visible(set, w->principal))
        return true;
    harvest = registry_harvest(set);
    if (harvest) {
        consider(w, FAMILY_COMPLETE, set,
                 seconds_of(harvest->complete_as_of_us));
        consider(w, FAMILY_LOOK, set, seconds_of(harvest->last_look_us));
        if (harvest->left_out)
            consider(w, FAMILY_LEFT_OUT, set, (int64_t)harvest->left_out);
        if (harvest->held_back > held_back)
            held_back = harvest->held_back;
        harvest_unref(harvest);
    }
    if (held_back)
        consider(w, FAMILY_HELD_BACK, set, (int64_t)held_back);
    return true;
}

void
harvest_metrics_write(struct buf *to, struct registry *registry,
                      const struct principal *principal)
{
    struct worst worst = {.principal = principal};

    registry_each(registry, consider_set, &worst);
    for (size_t family = 0; family < FAMILIES; family++) {
        const struct row *row = &rows[family];

        metrics_write_head(to, row->name, "gauge", row->help);
        for (size_t i = 0; i < worst.n[family]; i++)
            buf_add_format(to, "%s{set=\"%s\"} %" PRId64 "\n", row->name,
                           worst.places[family][i].name,
                           worst.places[family][i].value);
    }
}
