/*
 * follower.h - a follower, shared by its files.
 *
 *     follower_api.c     the public calls, and the table of phases
 *     phase_*.c          what a follower does in each state:
 *       phase_discovery.c  finds what the source offers
 *       phase_live.c       one live connection after the other, its own or a
 *                          part of a shared one (shared_stream.h)
 *       phase_catch_up.c   reads the closed lists of a broker, proven, when the
 *                          follower is far behind
 *       phase_check.c      asks whether the log still has the place
 *       phase_checkpoint.c checks the signed checkpoints of the set
 *       phase_gap.c        fetches entries missing before a message
 *       phase_poll.c       sources without push: their Change Lists
 *       phase_survey.c     sources without a history: their Resource Lists
 *       phase_baseline.c   baselines
 *     deliver.c          hands over messages, after message_sequence.c has
 *                        judged them
 *     follower.c         states, pauses and the end
 *
 * A phase leads to the next one through the table `phases`, so no two
 * files call each other. phase_gap.c reads lists by phase_poll.c,
 * phase_baseline.c by phase_survey.c.
 *
 * Most functions here return whether their caller goes on. False: the
 * connection, page, list or baseline that called is over, and perhaps the
 * follower itself. Their memory stays until the end of the loop's turn.
 */
#pragma once

#include "client/baseline/baseline.h"
#include "client/follow/broker_message.h"
#include "client/follow/change_batch.h"
#include "client/follow/follow_options.h"
#include "client/follow/list_reader.h"
#include "client/follow/live_connection.h"
#include "client/follow/message_sequence.h"
#include "client/follow/shared_stream.h"
#include "client/history/history.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/source/discovery.h"
#include "client/survey/survey.h"
#include "proto/tlog/tree.h"

/* The states, each with the only objects that it has. */
enum follower_state {
    FOLLOWER_SEEKING,     /* reading: a discovery */
    FOLLOWER_CHECKING,    /* reading: a page */
    FOLLOWER_PROVING,     /* checkpoint.fetch, which may run in all states */
    FOLLOWER_CATCHING_UP, /* reading: a list reader */
    FOLLOWER_LIVE,        /* live */
    FOLLOWER_FILLING,     /* reading: a page, or a history; live if not ended,
                             held back */
    FOLLOWER_POLLING,     /* reading: a history */
    FOLLOWER_SURVEYING,   /* reading: a baseline for the listing */
    FOLLOWER_REBASING,    /* reading: a baseline */
    FOLLOWER_RESTING,     /* timer */
    FOLLOWER_ENDED        /* nothing */
};

/* What a follower does in a state. */
struct phase {
    /* Enters the state and begins its work. */
    bool (*begin)(struct td_follower *f);

    /* Takes what has come and asks for more; during a pause it does nothing.
     * Called when nothing reads. NULL: there is nothing to do. */
    bool (*go_on)(struct td_follower *f);

    /* Takes the page that follower_ask_page has asked for, or the reason why
     * there is none. */
    void (*on_page)(struct td_follower *f, struct fetch_answer *answer,
                    const struct problem *why);

    /* Of FOLLOWER_PROVING alone: checks the place beside the state. */
    bool (*check)(struct td_follower *f);
};

extern const struct phase phase_discovery, phase_check, phase_checkpoint,
    phase_catch_up, phase_live, phase_gap, phase_poll, phase_survey,
    phase_baseline;

/* An object that gets pushes for the follower and passes them on. A follower
 * with a pusher opens no live connection: it reads the change memory or Change
 * Lists, and then waits for poll_ms, or until push_nudge reports more. */
struct pusher {
    /* f->offered is known, or was found again. False: it has ended. */
    bool (*sought)(struct td_follower *f, void *owner);
    /* The follower has ended or is freed: called once. */
    void (*close)(void *owner); /* NULL: there is no pusher */
    void *owner;

    bool is_waiting; /* FOLLOWER_RESTING, with nothing left to read */
    bool is_nudged;  /* more was reported: does not wait */
};

/* An object that reads for the follower. It ends by itself, or the follower frees
 * it. */
struct follower_reading {
    void *what; /* NULL: nothing */
    void (*free)(void *what);
    void (*hold)(void *what, bool is_held); /* NULL: it cannot wait */
    bool is_held;
};

/* The follower's place: a seq (order.is_placed), else a moment, else none. */
struct follower_place {
    struct message_sequence order;
    struct source_position moment;   /* is_time: there is one */
    char position[TD_POSITION_SIZE]; /* of the last message; "" */
    bool has_goal;                   /* the head when the source was sought;
                                        until_caught_up: ends there */
    struct position goal;
};

struct follower_attempts {
    unsigned pause_ms; /* of the next trouble */
    int64_t new_ms;    /* when news was handed over last, or the start */
    unsigned n_heard;  /* messages of this connection, or lists read */
    bool has_farewell; /* the broker ended the last connection */
};

struct follower_search {
    unsigned n_sets;   /* found by this discovery */
    bool has_set;      /* `offered` is the first of them */
    bool has_offer;    /* follower_offer, not looked at yet */
    bool is_sought;    /* `offered` is valid */
    bool is_fresh;     /* `offered` was found right before this attempt */
    bool is_caught_up; /* its closed lists were read, or cannot be */
};

struct follower_connection {
    struct transport_choice *choice; /* of the host; the handle's */
    unsigned open;                   /* transports, allowed and offered */
    unsigned transport;              /* of the connection, or TD_POLL */
    unsigned idle_ms;
    int64_t connected_ms; /* when it began */
    bool is_news;         /* a message was no repeat and no heartbeat */
    bool was_heard;       /* a message ever came */
    bool is_current;      /* one came since it last waited for a poll */
    unsigned n_mute;      /* connections in a row without a message */
    struct problem unfit; /* why the last transport was unfit */
    char after_digest[DIGEST_TEXT_SIZE + 1]; /* of a long poll's answer */
    struct live_end end; /* of a connection that ended in FOLLOWER_FILLING */
    bool has_end;
};

struct follower_delivery {
    struct broker_message message;
    struct entry entry; /* of one of its lines */
    struct change_batch batch;
    bool has_batch;       /* an entry was added, or filtered out */
    uint64_t batch_begin; /* the batch covers entries after this one ... */
    struct source_position batch_after; /* ... up to this place */
    uint64_t n_resources; /* handed over by this baseline; and the most that an
                             incomplete one handed over */
    uint64_t most_resources;
};

struct follower_gap {
    struct buf kept;    /* the message after the gap */
    struct buf body;    /* the page */
    bool has_page;      /* it has come; the follower may be paused */
    uint64_t upto;      /* where the gap ends */
    struct problem why; /* why the change memory could not fill it */
};

struct follower_lists {
    struct read_lists read; /* not open: not needed yet */
    bool has_end;           /* the history ended; the follower may be paused */
    struct problem end;
    struct source_position upto;

    /* The state of a past time: a baseline of that time, then the
     * changes up to it, from lists. */
    bool has_changes;  /* some were handed over */
    bool is_over;      /* a log with seqs was read up to that time */
    int64_t later_us;  /* of the first change that is later; or DATETIME_NONE */
    unsigned n_behind; /* lists in a row that end before the place */
};

struct follower_survey {
    struct survey *listing; /* NULL: not needed yet */
    bool is_taking;         /* following begins at the first list */
    bool is_surveyed;       /* a baseline has read the list */
    bool is_read;           /* the list was read since the state began */
    bool is_doubtful;       /* it never stood still while it was read */
    bool was_held;          /* the last on_held had a number */
    uint64_t n_listed;      /* resources read from the list so far */
    int64_t progress_ms;
};

struct follower_rebase {
    bool is_wanted;
    bool is_begun;                   /* TD_BASELINE_BEGIN was handed over */
    struct source_position standing; /* the place of a complete baseline */
    struct source_position guess;   /* a later place that may be right, too; not
                                     is_time: there is none */
    char refused[TD_POSITION_SIZE]; /* the last baseline whose changes the
                                       source had forgotten; or "" */
    bool is_rebased;    /* a baseline ended, and no change came since */
    int64_t rebased_ms; /* when the last baseline ended */
    char reason[1024];  /* of TD_BASELINE_BEGIN */
};

/*
 * Comparisons with the list of all resources, for sources that have one beside
 * their changes.
 *
 *     read everything --> is one due? --> REBASING --> the same place --> ...
 *                         doubt, td_follower_compare, compare_ms
 */
struct follower_comparison {
    bool is_wanted;
    bool is_under_way;   /* FOLLOWER_REBASING is no baseline */
    int64_t compared_ms; /* when the last one ended, or failed */
    int64_t interval_ms; /* compare_ms counts from there: the last comparison or
                            baseline, or the start */
    char reason[1024];
};

struct checkpoint_tile {
    struct list node;
    unsigned level, wide;
    uint64_t number;
    struct digest hashes[TILE_WIDTH];
};

struct follower_checkpoint {
    struct buf kept; /* the last checkpoint that was right; or empty. max 0: its
                        file was not read yet */
    struct position signed_to; /* its end; epoch "": of a run before */
    struct position proven;    /* the last place that it had; or epoch "" */
    int64_t time_s;            /* its time; 0: of a run before, or unknown */
    int64_t due_ms;     /* of the next look; 0: before the next message */
    int64_t asked_ms;   /* when the last one was asked for */
    struct timer later; /* changes are held or unsigned: asks for the next */
    uint64_t asked_seq; /* the follower's at the last look */

    /* The check. */
    struct position at;   /* what the tree has to have, unless it is smaller */
    struct digest digest; /* there */
    bool has_digest;
    bool is_lagging; /* no tree has had it yet */
    bool is_witnessed;
    struct fetch *fetch; /* of the text or a tile; NULL: none is under way */
    struct buf text;
    uint64_t size;
    struct list tiles; /* of earlier checks, too */
    size_t n_tiles;
    struct checkpoint_tile *asked_tile;
};

/* The end of a message that was handed over before a signed tree had it. */
struct unsigned_place {
    struct position at;
    struct digest digest;
    int64_t came_ms;
};

#define UNSIGNED_MAX 32

/* With a key: changes in delivery.batch that wait until the signed tree has them
 * (R-452; PAUSED_FOR_PROOF), and places that did not wait (td_key_lag). */
struct follower_held {
    bool is_cut;     /* their message has more */
    bool is_limited; /* the last ones were dropped: the tree has a part */
    uint64_t after;  /* of their message */
    struct message_sequence before; /* the place, should they be dropped */
    struct unsigned_place places[UNSIGNED_MAX]; /* oldest first */
    size_t n_places;
};

/* The reasons of a pause: bits. */
enum { PAUSED_BY_CALLER = 1, PAUSED_FOR_PROOF = 2 };

/* The end, called once; the caller still frees the follower. */
typedef void follower_end_fn(const struct problem *why, void *user);

struct follower_plan {
    const char *url;
    const struct td_follow_options *options; /* NULL: all zero */
    td_message_fn *on_message;
    void *user;              /* of the options' functions */
    void *message_user;      /* of on_message; NULL: `user` */
    follower_end_fn *on_end; /* NULL: the options' on_end */
    void *end_user;
    struct shared_stream *shared; /* which it may join, as `number`; or NULL */
    size_t number;
};

struct td_follower {
    struct td_client *client;
    struct running running;
    const struct phase *const *phases; /* by states */
    struct td_follow_options how; /* checked; its pointers were the caller's */
    struct follow_options options;
    struct follower_plan plan; /* its functions and their users */

    enum follower_state state;
    unsigned is_paused; /* by these */
    bool is_due;        /* the timer expired in a pause: do its work then */
    bool is_calling;    /* a callback runs */
    struct retired retired;
    struct timer timer;

    struct live *live;
    struct follower_reading reading;
    struct offered offered;
    struct history_notes notes; /* report: of the lists read since the last one;
                                   doubt: to be reported when the reading is
                                   over */
    struct shared_part shared;  /* stream NULL: the follower connects alone */
    struct pusher pusher;
    struct follower_place place;
    struct follower_attempts attempts;
    struct follower_search search;
    struct follower_connection connection;
    struct follower_delivery delivery;
    struct follower_gap gap;
    struct problem gone; /* FOLLOWER_CHECKING: why the place is gone; rc OK: it
                            may be the end */
    struct follower_lists lists;
    struct follower_survey survey;
    struct follower_rebase rebase;
    struct follower_comparison comparison;
    struct follower_checkpoint checkpoint;
    struct follower_held held;
};

/* follower_api.c */

/* Copies what `plan` points to. The follower begins in a later turn of the
 * loop. */
enum status follower_new(struct td_client *client,
                         const struct follower_plan *plan,
                         struct td_follower **follower, struct problem *why);

/* phase_discovery.c */

/* Gives the follower a description of the set, so that it need not look for it;
 * before the loop turns. */
void follower_offer(struct td_follower *f, struct offered *offered);

/* True if the source has the whole history of the set. */
bool follower_has_beginning(const struct td_follower *f);

/* phase_checkpoint.c */

/* Asks for the checkpoint that held changes wait for, or that changes lack which
 * did not wait: a timer_fn. */
void follower_checkpoint_ask(void *follower);

/* phase_catch_up.c */

/* True if the closed lists are the fastest way to the head. */
bool catch_up_pays(const struct td_follower *f);

/* phase_poll.c */

/* Starts to read the Change Lists after the place: calls deliver_entry, then,
 * with lists.has_end, the phase's go_on. */
bool poll_lists(struct td_follower *f);

/* True if `lists.end` means that the lists end before the follower's place. */
bool poll_is_behind(const struct td_follower *f);

/* All entries are handed over: sends a heartbeat, then ends or waits for the
 * next look; false. */
bool poll_over(struct td_follower *f);

/* phase_survey.c */

/* Opens the listing. False: the follower has ended. */
bool phase_survey_open(struct td_follower *f);

/* Exchanges the listing with *listing (NULL: none). So a temporary listing
 * outlives the follower, and the next follower of the set continues it. Not
 * from a callback of the follower. */
void phase_survey_swap(struct td_follower *f, struct survey **listing);

/* Begins to read the list of resources: into the listing, unless `plan` has
 * none. False: the follower has ended. */
bool phase_survey_read(struct td_follower *f, struct baseline_plan *plan,
                       baseline_entry_fn *on_entry, baseline_end_fn *on_end);

/* Why a follower ends whose caller has no on_held. */
#define SURVEY_HELD_TEXT                                                \
    "the list lacks more resources than may be deleted at once: these " \
    "deletions are held back"

/* Completes the listing's reading by a baseline. False: the follower has
 * ended. */
bool phase_survey_take(struct td_follower *f);

/* deliver.c */

/* Judges a message and hands over its new changes. */
bool deliver_bytes(struct td_follower *f, char *bytes, size_t size);

/* The same for delivery.message, a page of the change memory. *is_stuck: it has
 * nothing new, so that it cannot fill the gap. */
bool deliver_page(struct td_follower *f, bool *is_stuck);

/* Hands over `message`. The caller sets its kind, coverage and changes. */
bool deliver(struct td_follower *f, struct td_message *message);

/* The same at the follower's place, which becomes the message's position, and
 * the last entry of its coverage. */
bool deliver_here(struct td_follower *f, struct td_message *message);
bool deliver_heartbeat(struct td_follower *f);

/* Adds an entry to delivery.batch if it passes `filter`. `file`: its path in
 * the scratch directory, or NULL. STATUS_MEMORY */
enum status deliver_collect(struct td_follower *f, const struct filter *filter,
                            const struct document_entry *entry, bool is_change,
                            const char *file);

/* Hands over delivery.batch: changes at the follower's place. */
bool deliver_collected(struct td_follower *f, struct td_message *message);

/* Adds an entry to the batch, which then covers the entries up to `after`.
 * STATUS_MEMORY */
enum status deliver_add(struct td_follower *f,
                        const struct document_entry *entry,
                        const struct source_position *after, const char *file);

/* The same for an entry of a Change List, which must be a repeat or the next
 * one, and hands the batch over when it is full. `file`: as of
 * history_entry_fn. */
bool deliver_entry(struct td_follower *f, const struct document_entry *entry,
                   const struct source_position *after, const char *file);
bool deliver_batch(struct td_follower *f);

/* Hands over delivery.batch as the entries between the place and `upto`, where
 * the log has `digest`. */
bool deliver_proven(struct td_follower *f, const struct position *upto,
                    const struct digest *digest);

/* Takes a message that came by another way: hands it over if it continues at
 * the follower's place, else nudges. Not from a callback of the follower, which
 * may be over afterwards. */
void push_message(struct td_follower *f, const char *bytes, size_t size);

/* follower.c */

/* Ends and frees the follower without a further callback. */
void follower_free(void *follower);

/* Ends a check of a checkpoint; the last checkpoint stays. */
void follower_drop_check(struct td_follower *f);

/* A function that calls the program sets is_calling before, and calls this
 * after it. False: the callback has closed the follower. */
bool follower_is_here(struct td_follower *f);

void follower_enter(struct td_follower *f, enum follower_state state);

/* Keeps what has begun to read, and holds it in a pause; its end clears
 * reading.what. `what` NULL: there was no memory. False: the follower has
 * ended. */
bool follower_reads(struct td_follower *f, void *what,
                    void (*free_it)(void *what),
                    void (*hold_it)(void *what, bool is_held));

/* Continues the phase of the present state, or holds or resumes the exchange
 * that is under way: a timer_fn. */
void follower_continue(void *follower);

/* Begins a check that is due, beside a live connection. False: the follower has
 * ended. */
bool follower_checkpoint_turn(struct td_follower *f);

/* The follower is at the end that it was to reach: ends, once the checkpoint is
 * right, too. False. */
bool follower_reach(struct td_follower *f);

/* Ends a pause `by` somebody: if it was the last one, the work goes on in the
 * next turn of the loop. */
void follower_unpause(struct td_follower *f, unsigned by);

/* The epoch that the follower reads, or is about to begin with; "": it does not
 * know. `head`: room. */
const char *follower_epoch(const struct td_follower *f, struct position *head);

/* True if the handle wants checkpoints, and one is to be looked at now.
 * `is_end`: the follower is about to end at its place. */
bool follower_checkpoint_is_due(const struct td_follower *f, bool is_end);

/* Does the next step: seeks, looks at a checkpoint, takes a baseline, connects.
 * False. */
bool follower_go(struct td_follower *f);

/* Least milliseconds between the end of a baseline and the next one: a source
 * that changes its history again and again (two servers of one name) must not
 * keep the follower loading. */
#define REBASE_LEAST_MS 60000

/* True if a comparison is due and possible: follower_go begins it. */
bool follower_may_compare(const struct td_follower *f);

/* The history no longer reaches back, or is another one. If the source offers
 * change memory, first asks it whether the log went back. False. */
bool follower_gone(struct td_follower *f, const struct problem *why);

/* Asks for the page of change memory at the place, for the phase's on_page.
 * False: there was no memory, and the follower has ended. */
bool follower_ask_page(struct td_follower *f);

/* As follower_gone, and the log did not go back: takes a baseline if the caller
 * wants one; else ends. False. */
bool follower_lost_place(struct td_follower *f, const struct problem *why);

/* Ends with `why`, or takes a baseline if the caller has accepted the history
 * that `mark` names (td_accept_history). False. */
bool follower_refuse_history(struct td_follower *f, const struct problem *why,
                             const char *mark);

/* The log of the same epoch ends at `last`, before the place: ends with
 * STATUS_REWOUND, or takes a baseline if the caller has accepted this
 * (td_accept_history). False. */
bool follower_went_back(struct td_follower *f, uint64_t last);

/* The same for a log whose entry `seq` has another digest than
 * f->place.order.here. */
bool follower_differs(struct td_follower *f, uint64_t seq,
                      const struct digest *there);

/* Compares the digest at the place with that of an answer ("": it has none), or
 * notes it. False: follower_differs. */
bool follower_compare_digest(struct td_follower *f, const char *text);

/* Ends the follower with `why`, of whatever status; false. */
bool follower_end(struct td_follower *f, const struct problem *why);
bool follower_fail(struct td_follower *f, enum status rc, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

/* Calls on_doubt, and wants a comparison. False: the follower is gone. */
bool follower_doubt(struct td_follower *f, const char *why);

/* Drops all exchanges and tries again after a pause; false. */
bool follower_trouble(struct td_follower *f, const struct problem *why);

/* Calls on_report, if the lists read since the last call had anything to mend
 * or to leave out. False: the follower is gone. */
bool follower_report_lists(struct td_follower *f);

/* Calls on_trouble. False: the follower is gone. */
bool follower_report(struct td_follower *f, const char *why, unsigned ms);

/* Drops all exchanges and goes on after `ms`; false. */
bool follower_rest(struct td_follower *f, uint64_t ms);

/* The same, and calls on_trouble; false. */
bool follower_rest_because(struct td_follower *f, const char *why, unsigned ms);

/* Waits for more, because all was read; false. */
bool follower_wait(struct td_follower *f);

/* Reports that there is more to read. */
void push_nudge(struct td_follower *f);

/* True if another attempt after *ms, which may be reduced, is allowed. A
 * follower with until_caught_up has limited patience. False: it has ended with
 * STATUS_UNREACHABLE; `why` is the reason, which may ask for a pause. */
bool follower_is_patient(struct td_follower *f, const struct problem *why,
                         unsigned *ms);

/* Holds back or resumes the exchange, according to is_paused and the state. */
void follower_hold(struct td_follower *f);

/* The follower's place. False: it has none. */
bool follower_place(const struct td_follower *f, struct source_position *place);
void follower_set_place(struct td_follower *f,
                        const struct source_position *place);

/* Notes that the changes before notes.begins_us are not known. */
void follower_note_hole(struct td_follower *f);

/* Goes on with the oldest change that the source still has; false. */
bool follower_begin_far_back(struct td_follower *f);

/* True if the source has a list of its resources, and nothing of its history.
 */
bool follower_has_only_list(const struct td_follower *f);
