/*
 * phase_check.c - compares the follower's place with the source's log, by the
 * change memory.
 *
 *     a position is gone ------+--> 410, the log ends before it --> went back
 *                              +--> another digest --> another history
 *     nothing new, in a run  --+--> else it is gone, or the end
 *     until it has caught up
 *
 * Own streams begin with a heartbeat, and long polls are answered with the
 * digest: these need no request.
 */
#include "client/follow/follower.h"
#include "client/lib/json_fields.h"

/* True if the broker says that its log ends before the place; sets *last. */
static bool
is_ahead(const struct td_follower *f, const struct fetch_answer *answer,
         struct position *last)
{
    const struct position *at = &f->place.order.at;
    char text[TD_POSITION_SIZE] = "";
    struct json_fields_member member = JSON_TEXT("last", text);

    return answer->status == 410 &&
           !json_fields_read(buf_slice(&answer->body), &member, 1, NULL) &&
           !position_read(slice_of(text), last) &&
           !strcmp(last->epoch, at->epoch) && last->seq < at->seq;
}

static void
on_page(struct td_follower *f, struct fetch_answer *answer,
        const struct problem *why)
{
    struct position last;

    if (why->rc == STATUS_UNREACHABLE)
        follower_trouble(f, why);
    else if (why->rc == STATUS_MEMORY)
        follower_end(f, why);
    else if (is_ahead(f, answer, &last))
        follower_went_back(f, last.seq);
    else if (why->rc || follower_compare_digest(f, answer->after_digest))
        f->gone.rc ? follower_lost_place(f, &f->gone)
                   : follower_end(f, &f->gone);
}

static bool
begin_check(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_CHECKING);
    return follower_ask_page(f) && false;
}

const struct phase phase_check = {.begin = begin_check, .on_page = on_page};
