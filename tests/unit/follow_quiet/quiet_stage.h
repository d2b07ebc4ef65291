/*
 * quiet_stage.h - the stage of tests of a follower on quiet.h, and its reports.
 */
#ifndef TESTS_UNIT_FOLLOW_QUIET_STAGE_H
#define TESTS_UNIT_FOLLOW_QUIET_STAGE_H

#include "client/tidings.h"
#include "tests/support/history.h"
#include "tests/unit/follow_quiet/quiet.h"

#define EPOCH       "0123456789abcdef"
#define OTHER_EPOCH "fedcba9876543210"
#define SET_URL     "http://127.0.0.1:1/sets/news"

/* struct offered has strings of its own; quiet_found copies these. */
#define LENT(text) ((char *)(text))

struct stage {
    struct td_client *client;
    struct td_follower *follower;
    struct td_follow_options options;
    struct offered offer;
    struct history history;
    struct history other; /* of a log made anew */

    /* "1 2 3 " seqs; "a " of entries without: the end of their loc; "h ": a
     * heartbeat; "B " "r:a " "E ": a baseline; "C " "D ": a comparison; "? ": a
     * doubt. */
    char told[1024];
    char after[TD_POSITION_SIZE];     /* where a script begins */
    char position[TD_POSITION_SIZE];  /* of the last message; "-": none */
    char caught_up[TD_POSITION_SIZE]; /* the last that was; "-": none */
    char reason[512];
    char last_text[512];
    char last_file[512];
    char trouble[512];
    char doubt[1024];
    char as_of[64]; /* of the last baseline; "-": none */
    unsigned troubles;
    unsigned pause_ms; /* of the last end */
    unsigned ends;
    enum td_status rc;
    char why[1024];

    /* on_message pauses, closes or stops at this word of `told`; "": never. */
    char pauses_at[16];
    char closes_at[16];
    char stops_at[16];
    bool may_share; /* the follower has a shared connection: quiet_share */
    bool closes_on_trouble;
    bool pauses_on_trouble;
    bool closes_on_end;
};

int set_stage(void **state);
int clear_stage(void **state);

/* Opens it; start: and lets it find `s->offer`. */
void open_follower(struct stage *s, const char *after);
void start(struct stage *s, const char *after);
void leave(struct stage *s);

struct slice message(struct stage *s, uint64_t after, uint64_t last);
struct slice message_every(struct stage *s, uint64_t after, uint64_t last,
                           uint64_t step);

/* Entry `seq`; the `n`th entry of second `second`. */
const struct source_position *seq_place(uint64_t seq);
const struct source_position *time_place(int64_t second, uint64_t n);

void assert_ended(struct stage *s, enum status rc, const char *why);

#define assert_told(s, words) assert_string_equal((s)->told, words)

/* Does what a script (tests/support/script.h) says. "E-" in it is EPOCH "-",
 * "O-" that of the other log. A PLACE is "#SEQ", "SECOND+N", "far" (as far back
 * as there is), or "-" (NULL).
 *
 *     open POSITION | start POSITION     "now": none
 *     found | away WHY                   discovery
 *     say A-B | say oA-B                 a message; of the other log
 *     beat                               a heartbeat of a shared connection
 *     lost WHY | broken WHY | unfit WHY | unfit STATUS | refuse STATUS |
 *     restart | gone WHY | again         the connection ends
 *     page A-B | page STATUS
 *     entry LOC PLACE | noentry LOC PLACE | entries A-B | done PLACE |
 *     lists STATUS PLACE WHY | listless STATUS |
 *     wait MS WHY                        lists
 *     resource LOC [FILE] | baseline PLACE | nobaseline STATUS WHY
 *     pause | resume | turn | compare WHY | leave |
 *     anew                               leave, and forget what was told
 *     pauses_at WORD | closes_at WORD | stops_at WORD
 *
 *     told WORDS | position POSITION | troubles N | trouble TEXT |
 *     troubled PART | reason PART | doubted PART | as_of TIME |
 *     caught_up POSITION                  the last that was; -: none
 *     url PATH | by TRANSPORT | lives N   of the newest connection
 *     asks PATH | after PLACE             the page or list that is asked for
 *     is STATE | not STATE | await STATE  live, page, lists, rebasing, seeking,
 *                                         held; going: it has not ended
 *     ended STATUS PART
 */
void play(struct stage *s, const char *script);

#endif
