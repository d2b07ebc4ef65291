/*
 * history.c - the life of a history: search, read, hand over.
 *
 * It reads a whole list before it hands over any entry: only then it knows the
 * order, and a list that breaks off has handed over nothing.
 */
#include "client/history/history.h"

#include "base/clock.h"
#include "client/history/history_state.h"
#include "client/lib/pause.h"

/* True if a list seems to be missing before the part `i`: while a source moves
 * a list to an archive, neither document may name it. */
static bool
has_hole(const struct history *h)
{
    const struct history_part *part = &h->parts.all[h->i];

    return h->now.is_time && h->i > 0 && h->i < h->parts.n &&
           part[-1].until_us != DATETIME_NONE &&
           part->from_us != DATETIME_NONE &&
           part->from_us > part[-1].until_us && part->from_us > h->now.time_us;
}

/* True if the part `i` need not be read: it is before the list of the place, or
 * a package, which does not grow. */
static bool
is_past_part(const struct history *h)
{
    const struct history_origin *o = &h->origin;

    if (h->parts.all[h->i].is_gone || (h->search.is_quiet && h->i == o->part))
        return true;
    return o->has_lists && o->has_part && history_was_read(h, h->i) &&
           !h->parts.all[h->i].is_again &&
           (h->i < o->part ||
            (h->i == o->part && h->parts.all[h->i].is_package &&
             !o->place.is_within));
}

static void
read_part(struct history *h)
{
    int64_t until = h->list.head.until_us;

    while (h->i < h->parts.n && is_past_part(h))
        h->i++;
    if (has_hole(h) && history_again(h))
        return;
    if (h->i < h->parts.n) {
        if (!h->list.is_loaded || h->i + 1 < h->parts.n) {
            history_load(h, DOCUMENT_PART);
            return;
        }
        h->state = HISTORY_DELIVER;
        timer_start(&h->timer, 0);
        return;
    }
    /* Moves the place to the list's `until`, if that is later and has passed:
     * the source declares that nothing happened until then. */
    if (h->now.is_time && until != DATETIME_NONE && until > h->now.time_us &&
        until / 1000000 < clock_now_us() / 1000000) {
        h->now.time_us = until;
        h->now.n_at = 0;
    }
    history_end_well(h);
}

static void
on_timer(void *user)
{
    struct history *h = user;
    struct read_list read;

    /* Paused and resumed within a document: that goes on by itself. */
    if (h->is_paused || h->page || h->download || !history_is_due(h))
        return;
    if (h->retry.has_failed) {
        h->retry.has_failed = false;
        list_entries_rewind(&h->list.kept, &h->retry.before, &h->list.past);
        history_parts_cut(&h->found, h->retry.n_found);
        history_parts_cut(&h->older.documents, h->retry.n_older);
        history_load(h, h->document);
        return;
    }
    switch (h->state) {
    case HISTORY_TOP:
        h->origin = (struct history_origin){
            .place = h->now,
            .has_lists = h->now.has_list &&
                         read_lists_find(h->plan.lists, h->now.list, &read),
            .n_again = h->now.has_list || h->now.mark ? 0 : h->now.n_at,
        };
        if (h->plan.offered->change_list) {
            history_load(h, DOCUMENT_TOP);
            break;
        }
        h->state = HISTORY_SEARCH;
        /* fall through */
    case HISTORY_SEARCH:
        history_search(h);
        break;
    case HISTORY_READ:
        read_part(h);
        break;
    case HISTORY_DELIVER:
        history_deliver(h);
        break;
    }
}

struct history *
history_start(struct td_client *client, const struct history_plan *plan,
              history_entry_fn *on_entry, history_end_fn *on_end, void *user)
{
    struct history *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    h->client = client;
    h->plan = *plan;
    h->notes = plan->notes;
    h->now = plan->after;
    h->on_entry = on_entry;
    h->on_end = on_end;
    h->retry.pause_ms = PAUSE_FIRST;
    h->user = user;
    list_entries_init(&h->list.kept);
    history_clear_root(h);
    h->list.head.from_us = h->list.head.until_us = DATETIME_NONE;
    h->scratch = SCRATCH_NONE;
    timer_init(&h->timer, client->loop, on_timer, h);
    if (plan->lists && db_exec(&plan->lists->db, "DELETE FROM note", NULL)) {
        history_free(h);
        return NULL;
    }
    timer_start(&h->timer, 0);
    return h;
}

void
history_hold(void *history, bool is_held)
{
    struct history *h = history;

    h->is_paused = is_held;
    if (!is_held)
        timer_start(&h->timer, 0);
}
