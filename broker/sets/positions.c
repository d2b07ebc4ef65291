#include "broker/sets/positions.h"

#include "proto/resourcesync/json.h"

enum status
positions_judge_read(const struct head *head, const struct position *p,
                     uint64_t *seq, struct problem *why)
{
    if (p->epoch[0] != '\0' && !slice_is(slice_of(p->epoch), head->epoch))
        return head->former[0]
                   ? problem(why, STATUS_GONE,
                             "position %s-%" PRIu64 " belongs to another log: "
                             "the set's epoch is %s, a new log that follows "
                             "%s up to entry %" PRIu64,
                             p->epoch, p->seq, head->epoch, head->former,
                             head->began)
                   : problem(why, STATUS_GONE,
                             "position %s-%" PRIu64 " belongs to another log: "
                             "the set's epoch is %s",
                             p->epoch, p->seq, head->epoch);
    if (p->seq > head->last)
        return problem(why, STATUS_GONE,
                       "position %" PRIu64 " is ahead of the log, which ends "
                       "at %" PRIu64,
                       p->seq, head->last);
    if (p->seq < head_earliest(head))
        return problem(why, STATUS_GONE,
                       "what follows position %" PRIu64 " is no longer "
                       "retained: the earliest is %" PRIu64,
                       p->seq, head_earliest(head));
    *seq = p->seq;
    return STATUS_OK;
}

enum status
positions_since(const struct set *set, int64_t us, enum log_patience patience,
                uint64_t *seq, struct problem *why)
{
    enum status rc =
        log_since(set->registry->log, set->log, us, patience, seq, why);
    struct head head;

    log_head(set->log, &head);
    return !rc && *seq < head.began
               ? problem(why, STATUS_GONE,
                         "the set has a new epoch since entry %" PRIu64,
                         head.began)
               : rc;
}

bool
positions_is_ahead(const struct head *head, const struct position *p)
{
    return p->seq > head->last ||
           (p->epoch[0] != '\0' && !slice_is(slice_of(p->epoch), head->epoch));
}

enum status
positions_judge(const struct head *head, struct slice text, uint64_t *seq,
                struct problem *why)
{
    struct position p;

    if (position_read(text, &p))
        return problem(why, STATUS_MALFORMED,
                       "\"%s\" is not a position: that is EPOCH-SEQ, or a seq",
                       problem_quote(text).text);
    return positions_judge_read(head, &p, seq, why);
}

void
positions_members(const struct set *set, const struct head *head,
                  struct buf *to)
{
    struct link_text restart = set_link(set, LINK_CAPABILITYLIST);

    json_position_member(to, "earliest", head->epoch, head_earliest(head));
    json_position_member(to, "last", head->epoch, head->last);
    json_text_member(to, "restart", link_slice(&restart));
    buf_add(to, "", 1);
}
