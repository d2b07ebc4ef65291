/*
 * follower.h - a follower, as its files see it.
 *
 *     api.c       the public calls
 *     wish.c      what the caller wants
 *     follower.c  its life, its states and pauses
 *     seek.c      what the source offers
 *     connect.c   one live connection after the other (ways.c: which)
 *     deliver.c   messages, judged by order.c, handed over
 *     holes.c     what a message did not have
 *     poll.c      sources that push nothing: their Change Lists
 *     survey.c    sources without a history: their Resource Lists
 *     rebase.c    baselines
 *     push.c      what is pushed from elsewhere (client/websub)
 *
 * Most functions here return whether what called them goes on. False: the
 * connection, page, list or baseline that called is over and freed, and perhaps
 * the follower itself, by its caller: nothing of it may be touched any more.
 */
#ifndef CLIENT_FOLLOW_FOLLOWER_H
#define CLIENT_FOLLOW_FOLLOWER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/baseline/baseline.h"
#include "client/follow/entry.h"
#include "client/follow/incoming.h"
#include "client/follow/live.h"
#include "client/follow/order.h"
#include "client/follow/ways.h"
#include "client/follow/wish.h"
#include "client/history/history.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/listing/listing.h"
#include "client/source/discover.h"

/* Most milliseconds between two attempts. */
#define FOLLOWER_PAUSE_LAST 30000

/* What is under way in each, and nothing else. */
enum follower_state {
    FOLLOWER_SEEKING,  /* discovery */
    FOLLOWER_LIVE,     /* live */
    FOLLOWER_FILLING,  /* page, or history; live, held back, unless it ended */
    FOLLOWER_POLLING,  /* history, or a baseline for the listing */
    FOLLOWER_REBASING, /* baseline */
    FOLLOWER_RESTING,  /* timer */
    FOLLOWER_ENDED     /* nothing */
};

/* Who is pushed to in its place, and tells it (push.c): a follower that has one
 * opens no live connection. It asks for what there is, by change memory or
 * Change Lists, and then waits for poll_ms, or until it is told that there is
 * more. */
struct pusher {
    /* f->offered is known, perhaps anew. False: it has ended. */
    bool (*sought)(struct td_follower *f, void *owner);
    /* The follower is no more, or has ended: called once. */
    void (*close)(void *owner);
    void *owner;
};

/* The end, told once; the follower is still to be freed. */
typedef void follower_end_fn(const struct failure *why, void *user);

struct td_follower {
    struct td_client *client;
    struct running running;
    struct wish wish;
    td_message_fn *on_message;
    void *user;
    follower_end_fn *on_end;
    void *end_user;
    void (*on_public_end)(enum td_status rc, const char *why, void *user);

    enum follower_state state;
    bool is_paused; /* by the caller */
    bool is_due;    /* what the timer was for waits until it is resumed */
    bool *is_gone;  /* set by td_follower_close from a callback; NULL: there is
                       none under way */
    struct timer *timer;
    unsigned pause_ms; /* of the next trouble */
    int64_t new_ms;    /* when something new was handed over, or it began */

    /* What is under way; held back as `held` says. */
    struct discovery *discovery;
    struct live *live;
    struct fetch *page;
    struct history *history;
    struct baseline *baseline;

    struct {
        bool live, page, history, baseline;
    } held;

    /* push.c */
    struct pusher pusher; /* close NULL: none */
    bool is_waiting; /* FOLLOWER_RESTING, and all that was asked for came */
    bool is_nudged;  /* there is more: it does not wait */

    /* seek.c */
    struct offered offered;
    unsigned n_sets; /* that this discovery has found */
    bool has_set;    /* `offered` is the first of them */
    bool has_offer;  /* follower_offer, not looked at yet */
    bool is_sought;  /* `offered` can be relied on */
    bool is_fresh;   /* `offered` was found right before this attempt */

    /* Where it stands: a seq (order.is_placed), else a moment, else nowhere. */
    struct order order;
    bool has_moment;
    struct place moment;
    char position[TD_POSITION_SIZE]; /* of the last message; "" */
    bool has_goal;                   /* until_caught_up: it ends there */
    struct position goal;

    /* connect.c */
    struct ways ways;
    unsigned transport; /* of `live` */
    unsigned idle_ms;
    int64_t connected_ms; /* when it began */
    unsigned n_heard;     /* messages of this connection */
    bool is_news;         /* one of them was no repeat and no heartbeat */
    bool was_heard;       /* a message ever came, by whatever */
    unsigned n_mute;      /* connections in a row that broke without one */
    bool has_farewell;    /* the last one ended with the broker */
    struct failure unfit; /* why the last way was */
    struct live_end end;  /* of a connection that ended in FOLLOWER_FILLING */
    bool has_end;

    /* deliver.c, holes.c */
    struct incoming message;
    struct buf kept;     /* the message that waits for what is before it */
    struct buf body;     /* the page */
    bool has_page;       /* it is there, and waits to be resumed */
    uint64_t upto;       /* where the hole ends */
    struct failure hole; /* why the change memory could not fill it */
    struct batch batch;
    bool has_batch;           /* something was added to it, or filtered out */
    uint64_t batch_begin;     /* it covers the entries after this one ... */
    struct place batch_after; /* ... up to this place */

    /* poll.c */
    char etag[256];
    bool has_lists_end; /* all was told; it waits if it is paused */
    struct failure lists_end;
    struct place lists_upto;
    bool is_list_closed; /* history_plan's is_closed */
    unsigned n_behind;   /* in a row ended before where we stand */

    /* survey.c */
    struct listing *listing; /* NULL: not needed yet */
    bool is_taking;          /* the first list is where following begins */
    bool is_surveyed;        /* the list was read, by a baseline */
    uint64_t n_listed;       /* resources of the list that is being read */
    int64_t progress_ms;

    /* rebase.c */
    bool wants_baseline;
    bool is_begun;        /* TD_BASELINE_BEGIN was handed over */
    uint64_t n_resources; /* that it handed over; and the most that one that
                             did not come to its end did */
    uint64_t most_resources;
    struct place standing; /* what the baseline stands for, when it is there */
    struct place guess;    /* a later place that it may stand for */
    bool has_guess;
    bool is_rebased;  /* and no change since the last one ended */
    bool has_rebased; /* at rebased_ms the last one ended */
    int64_t rebased_ms;
    char reason[1024]; /* of TD_BASELINE_BEGIN */
};

/* follower.c */

enum td_status follower_new(struct td_client *client, const char *url,
                            const struct td_follow_options *options,
                            td_message_fn *on_message, void *user,
                            follower_end_fn *on_end, void *end_user,
                            struct td_follower **follower, struct failure *why);

/* td_follower_open for a URL that a document named (client_add_source). In
 * api.c. */
enum td_status follower_open(struct td_client *client, const char *url,
                             const struct td_follow_options *options,
                             td_message_fn *on_message, void *user,
                             struct td_follower **follower);

/* Hands over what is known of the set already, so that it is not sought; before
 * the loop turns. In seek.c. */
void follower_offer(struct td_follower *f, struct offered *offered);

/* Ends it, without a further callback. In one of its own, what messages are
 * made of goes when that has returned. */
void follower_free(struct td_follower *f);

/* A callback has returned, and said by f->is_gone whether it closed the
 * follower; then that is freed, and it is false. */
bool follower_is_here(struct td_follower *f, bool is_gone);

void follower_enter(struct td_follower *f, enum follower_state state);

/* Ends it with `why`, of whatever status; false. */
bool follower_end(struct td_follower *f, const struct failure *why);
bool follower_fail(struct td_follower *f, enum td_status rc, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/* All that is under way is dropped, and tried again after a pause; false. */
bool follower_trouble(struct td_follower *f, const struct failure *why);

/* on_trouble; returns whether the follower is still there. */
bool follower_tell(struct td_follower *f, const char *why, unsigned ms);

/* The same without trouble, after `ms`; false. */
bool follower_rest(struct td_follower *f, uint64_t ms);

/* May a further attempt be made after *ms, which may become less? Who is to
 * catch up does not go on for ever. False: it has ended, with TD_UNREACHABLE;
 * `why` says what was the matter, and what was asked for. */
bool follower_is_patient(struct td_follower *f, const struct failure *why,
                         unsigned *ms);

/* Does what is next: seeks, takes a baseline, connects. False. */
bool follower_go(struct td_follower *f);

/* Holds back what is under way, or lets it go on, as is_paused and the state
 * want it. */
void follower_hold(struct td_follower *f);

/* Where it stands; false: nowhere. */
bool follower_place(const struct td_follower *f, struct place *place);
void follower_stand(struct td_follower *f, const struct place *place);

/* seek.c */

bool seek_begin(struct td_follower *f);

/* connect.c */

bool connect_begin(struct td_follower *f);

/* What the end of a connection leads to; false. */
bool connect_ended(struct td_follower *f, const struct live_end *end);

/* deliver.c */

/* Judges a message; hands over what is new of it. */
bool deliver_bytes(struct td_follower *f, char *bytes, size_t size);

/* The same for f->message, which is a page of the change memory: nothing new
 * in it is a gap that cannot be filled, told by *is_stuck. */
bool deliver_page(struct td_follower *f, bool *is_stuck);

/* Hands over `message`, whose kind, coverage and changes are set. */
bool deliver(struct td_follower *f, struct td_message *message);

/* Entries of Change Lists: added, and handed over when there are enough of
 * them; batch_after is where the last one leads. */
bool deliver_entry(struct td_follower *f, const struct document_entry *entry,
                   const struct place *after);
bool deliver_batch(struct td_follower *f);

/* holes.c */

/* Fills what is missing before f->kept, up to `upto`. */
bool holes_begin(struct td_follower *f, uint64_t upto);

/* Goes on with what waited; while it is paused, what there is waits. */
bool holes_go_on(struct td_follower *f);

/* poll.c */

bool poll_begin(struct td_follower *f);

/* Starts what Change Lists tell after the place: deliver_entry, then, with
 * has_lists_end, poll_go_on or holes_go_on. */
bool poll_lists(struct td_follower *f);

/* Goes on with what waited; while it is paused, what there is waits. */
bool poll_go_on(struct td_follower *f);

/* Has `lists_end` happened because lists end before where we stand? */
bool poll_is_behind(const struct td_follower *f);

/* All that was there is handed over: a heartbeat, and the end or the next look;
 * false. */
bool poll_over(struct td_follower *f);

/* survey.c */

/* True if the source has a list of its resources, and nothing of its history.
 */
bool survey_is_due(const struct td_follower *f);

/* The listing is open; false: it has ended. */
bool survey_open(struct td_follower *f);

/* Hands over what was found before, then reads the list; false. */
bool survey_begin(struct td_follower *f);

/* Goes on with what waited, as poll_go_on. */
bool survey_go_on(struct td_follower *f);

/* Exchanges the listing with *listing (NULL: none). A temporary one outlives
 * the follower so, and the next follower of the set goes on with it. Not from a
 * callback of the follower. */
void survey_swap(struct td_follower *f, struct listing **listing);

/* A document of a baseline is asked for again in `ms`. */
void survey_wait(const struct failure *why, unsigned ms, void *follower);

/* The baseline that was read is where the listing stands; false: it has ended.
 */
bool survey_take(struct td_follower *f);

/* push.c */

/* Nothing more is there now: waits for more; false. */
bool push_wait(struct td_follower *f);

/* There is more than was asked for so far. */
void push_nudge(struct td_follower *f);

/* A message came by another way: handed over if it goes on where the follower
 * stands, else a nudge. Not from a callback of the follower. The follower may
 * be gone then. */
void push_message(struct td_follower *f, const char *bytes, size_t size);

/* The pusher is let go. */
void push_close(struct td_follower *f);

/* rebase.c */

/* The history no longer reaches back, or is another one: a baseline if it is
 * wanted; else the end. False. */
bool rebase_gone(struct td_follower *f, const struct failure *why);

/* The baseline that is wanted; false. */
bool rebase_begin(struct td_follower *f);

/* All resources are there: hands over what is left, and ends it. */
bool rebase_go_on(struct td_follower *f);

#endif
