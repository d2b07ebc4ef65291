#include "broker/push/stream_sets.h"

#include "broker/sets/positions.h"
#include "proto/resourcesync/json.h"

/* Life */

void
stream_sets_init(struct stream_sets *m, struct registry *registry,
                 struct set_readers *set_readers, struct service *service,
                 struct principal *principal, struct client *client,
                 unsigned kind)
{
    *m = (struct stream_sets){
        .registry = registry,
        .set_readers = set_readers,
        .service = service,
        .principal = principal,
        .kind = kind,
    };
    list_init(&m->ready);
    list_init(&m->cold);
    list_init(&m->loading);
    m->client = client_ref(client);
}

static void
end_load(struct stream_set *member)
{
    if (member->is_loading)
        member->sets->n_loading--;
    member->is_loading = false;
}

/* Frees a member that is not in the map. */
static void
free_member(struct stream_set *member)
{
    struct stream_sets *m = member->sets;

    end_load(member);
    list_remove(&member->turn);
    m->n_refused -= member->is_refused;
    if (m->current == member)
        m->current = NULL;
    if (member->set) {
        set_readers_count(&member->reader, -1);
        set_readers_leave(&member->reader);
    }
    clients_give(&m->registry->clients, m->client, CLIENT_FOLLOWED, 1);
    free(member);
}

void
stream_sets_remove(struct stream_set *member)
{
    struct stream_sets *m = member->sets;

    map_remove(&m->by_name, &member->node);
    if (m->current == member)
        member->is_leaving = true;
    else
        free_member(member);
}

void
stream_sets_clear(struct stream_sets *m)
{
    struct stream_set *member;

    if (m->current && m->current->is_leaving)
        free_member(m->current);
    m->current = NULL;
    map_walk (member, &m->by_name, node) {
        map_remove(&m->by_name, &member->node);
        free_member(member);
    }
    m->n_patterns = 0;
}

void
stream_sets_fini(struct stream_sets *m)
{
    stream_sets_clear(m);
    map_fini(&m->by_name);
    free(m->patterns);
    client_unref(m->client);
}

/* Following */

static struct stream_set *
find_member(struct stream_sets *m, struct slice name)
{
    struct stream_set *member;

    map_each_same (member, &m->by_name, map_hash(&m->by_name, name), node) {
        if (slice_is(name, member->name))
            return member;
    }
    return NULL;
}

/* A member that is not at its turn releases its message, and has it made again
 * at its turn: a stream holds one. */
bool
stream_sets_take_ready(struct stream_set *member, bool is_busy)
{
    struct stream_sets *m = member->sets;

    end_load(member);
    if (m->current == member)
        return true;
    if (member->reader.message && is_busy)
        reader_release(&member->reader);
    list_put(&m->ready, &member->turn);
    return !is_busy;
}

/* True if the set exists for the principal. */
static bool
may_read(const struct stream_sets *m, const struct set *set)
{
    return rights_include(&m->principal->rights, RIGHT_SUBSCRIBE,
                          slice_of(set->name)) &&
           set_is_visible(set, m->principal);
}

/* What a request says of where its sets begin. */
struct start {
    const struct follow_item *item;
    const struct resume_text *resume; /* NULL: none */
    bool resumes_all;                 /* it wins over the item */
};

/* Decides where a set begins; *is_since: at item->since_us. False: that cannot
 * be served. */
static bool
decide_start(const struct start *start, const struct set *set,
             const struct head *head, uint64_t *after, bool *is_since)
{
    const struct follow_item *item = start->item;
    const struct resume_text *resume = start->resume;
    bool has_start = item->has_after || item->has_since;
    struct position position = item->after;

    *after = head->last;
    *is_since = false;
    if (resume && (start->resumes_all || !has_start)) {
        uint64_t number = log_set_number(set->log);
        const struct resume_entry *e = resume_text_find(resume, number);

        /* The text may name another set that had the number. */
        if (e && e->mark == resume_mark(head->epoch) &&
            head->created_us <= resume->made_us) {
            snprintf(position.epoch, sizeof(position.epoch), "%s", head->epoch);
            position.seq = e->seq;
            return !positions_judge_read(head, &position, after, NULL);
        }
        if (!has_start && item->is_pattern && number > resume->newest) {
            *after = 0;
            return head_earliest(head) == 0;
        }
        if (!has_start)
            return false;
    }
    *is_since = item->has_since;
    return !item->has_after ||
           !positions_judge_read(head, &position, after, NULL);
}

/* Follows a set; NULL: an unknown one. */
static enum status
follow_set(struct stream_sets *m, const struct start *start, struct slice name,
           struct set *set, const struct head *head, struct problem *why)
{
    struct stream_set *member = find_member(m, name);
    bool is_there = true, is_since = false;
    uint64_t after = 0;
    enum status rc;

    if (member)
        stream_sets_remove(member);
    if (set)
        is_there = decide_start(start, set, head, &after, &is_since);
    rc = set ? set_check_rights(set, why) : STATUS_OK;
    if (!rc)
        rc = clients_take(&m->registry->clients, m->client, CLIENT_FOLLOWED, 1,
                          why);
    if (rc)
        return rc;
    member =
        memory_new(1, sizeof(struct stream_set) + (set ? 0 : name.size + 1));
    member->sets = m;
    list_init(&member->turn);
    if (set) {
        member->set = set;
        member->name = set->name;
        set_readers_enter(m->set_readers, m->service, set, &member->reader,
                          after, m->on_ready);
        member->reader.kind = (uint8_t)m->kind;
        member->reader.filter = m->filter;
        set_readers_count(&member->reader, 1);
        member->mark = resume_mark(head->epoch);
    } else {
        memcpy(member + 1, name.data, name.size);
        member->name = (const char *)(member + 1);
        member->end = STREAM_SET_UNKNOWN;
    }
    map_add(&m->by_name, &member->node, map_hash(&m->by_name, name));
    list_append(&m->ready, &member->turn);
    if (!is_there)
        member->end = STREAM_SET_GONE;
    member->is_refused = member->end != STREAM_SET_GOES_ON;
    m->n_refused += member->is_refused;
    if (is_since) {
        /* The heartbeat that it begins with says where: log_since may wait for
         * a disk, so the worker pool makes it. */
        member->reader.since_us = start->item->since_us;
        member->reader.wants_heartbeat = true;
    }
    return STATUS_OK;
}

/* Patterns */

struct joining {
    struct stream_sets *sets;
    const struct start *start;
    struct problem *why;
    enum status rc;
};

static bool
join_existing(struct set *set, const struct head *head, void *user)
{
    struct joining *j = user;
    struct slice name = slice_of(set->name);

    if (rights_match(slice_of(j->start->item->name), name) &&
        may_read(j->sets, set) && !find_member(j->sets, name))
        j->rc = follow_set(j->sets, j->start, name, set, head, j->why);
    return !j->rc;
}

static struct follow_item *
find_pattern(const struct stream_sets *m, const char *text)
{
    for (size_t i = 0; i < m->n_patterns; i++)
        if (!strcmp(m->patterns[i].name, text))
            return &m->patterns[i];
    return NULL;
}

static enum status
follow_pattern(struct stream_sets *m, const struct start *start,
               struct problem *why)
{
    const struct follow_item *item = start->item;
    struct joining joining = {m, start, why, STATUS_OK};

    if (!find_pattern(m, item->name)) {
        if (m->n_patterns == STREAM_SETS_PATTERNS_MAX)
            return problem(why, STATUS_INVALID,
                           "a stream has at most %d patterns",
                           STREAM_SETS_PATTERNS_MAX);
        m->patterns =
            memory_grow(m->patterns, m->n_patterns + 1, sizeof(*m->patterns));
        m->patterns[m->n_patterns++] = *item;
    }
    registry_each(m->registry, join_existing, &joining);
    return joining.rc;
}

enum status
stream_sets_join(struct stream_sets *m, struct set *set, struct problem *why)
{
    static const struct follow_item beginning = {.has_after = true};
    static const struct start start = {&beginning, NULL, false};
    struct slice name = slice_of(set->name);
    struct stream_set *member;
    struct head head;

    for (size_t i = 0; i < m->n_patterns; i++) {
        if (!rights_match(slice_of(m->patterns[i].name), name))
            continue;
        member = find_member(m, name);
        if ((member && member->set == set) || !may_read(m, set) ||
            !log_head(set->log, &head))
            return STATUS_OK;
        return follow_set(m, &start, name, set, &head, why);
    }
    return STATUS_OK;
}

static void
unfollow(struct stream_sets *m, const struct follow_item *item)
{
    struct follow_item *pattern = find_pattern(m, item->name);
    struct stream_set *member;

    if (!item->is_pattern) {
        member = find_member(m, slice_of(item->name));
        if (member)
            stream_sets_remove(member);
        return;
    }
    if (pattern)
        *pattern = m->patterns[--m->n_patterns];
    map_walk (member, &m->by_name, node) {
        if (rights_match(slice_of(item->name), slice_of(member->name)))
            stream_sets_remove(member);
    }
}

enum status
stream_sets_follow(struct stream_sets *m, const struct follow_request *request,
                   struct problem *why)
{
    struct resume_text resume = {.n = 0};
    struct head head;
    enum status rc = STATUS_OK;

    if (request->resume) {
        log_head(m->registry->framework->log, &head);
        rc = resume_text_read(&resume, head.epoch, slice_of(request->resume),
                              why);
    }
    for (size_t i = 0; !rc && i < request->n; i++) {
        const struct follow_item *item = &request->items[i];
        const struct start start = {item, request->resume ? &resume : NULL,
                                    request->resumes_all};
        struct slice name = slice_of(item->name);
        struct set *set;

        if (item->is_end) {
            unfollow(m, item);
        } else if (item->is_pattern) {
            rc = follow_pattern(m, &start, why);
        } else {
            set = registry_find(m->registry, name, &head);
            if (set && !may_read(m, set))
                set = NULL;
            rc = follow_set(m, &start, name, set, &head, why);
        }
    }
    free(resume.entries);
    return rc;
}

/* Positions that this copy may lack */

struct looking_ahead {
    const struct resume_text *resume;
    uint64_t newest; /* the highest number of a set here */
    bool is_ahead;
};

static bool
look_ahead(struct set *set, const struct head *head, void *user)
{
    struct looking_ahead *l = user;
    uint64_t number = log_set_number(set->log);
    const struct resume_entry *e = resume_text_find(l->resume, number);

    if (number > l->newest)
        l->newest = number;
    l->is_ahead =
        e && e->mark == resume_mark(head->epoch) && e->seq > head->last;
    return !l->is_ahead;
}

bool
stream_sets_are_ahead(struct registry *registry,
                      const struct follow_request *request)
{
    struct resume_text resume = {.n = 0};
    struct looking_ahead l = {.resume = &resume};
    struct head head;

    if (request->resume)
        l.is_ahead = !log_head(registry->framework->log, &head);
    if (request->resume && !l.is_ahead &&
        !resume_text_read(&resume, head.epoch, slice_of(request->resume),
                          NULL)) {
        registry_each(registry, look_ahead, &l);
        for (size_t i = 0; !l.is_ahead && i < resume.n; i++)
            l.is_ahead = resume.entries[i].number > l.newest;
    }
    free(resume.entries);
    for (size_t i = 0; !l.is_ahead && i < request->n; i++) {
        const struct follow_item *item = &request->items[i];

        if (!item->has_after || item->is_pattern || item->is_end)
            continue;
        l.is_ahead = registry_find(registry, slice_of(item->name), &head)
                         ? positions_is_ahead(&head, &item->after)
                         : item->after.epoch[0] != '\0';
    }
    return l.is_ahead;
}

/* Turns */

/* True if the member has something to send. */
static bool
decide(struct stream_sets *m, struct stream_set *member,
       enum reader_state state)
{
    bool is_ready = state == READER_READY && member->reader.message;

    if (is_ready)
        m->current = member;
    else if (state == READER_READY)
        list_append(&m->cold, &member->turn);
    else if (state != READER_HEAD && state != READER_LATER)
        member->end = state == READER_GONE      ? STREAM_SET_GONE
                      : state == READER_REMOVED ? STREAM_SET_REMOVED
                                                : STREAM_SET_FAILED;
    return is_ready || member->end;
}

struct stream_set *
stream_sets_next(struct stream_sets *m)
{
    struct stream_set *member;
    enum reader_state state;

    list_drain (member, &m->ready, turn) {
        if (member->end || decide(m, member, reader_try(&member->reader)))
            return member;
    }
    list_until_empty (member, &m->cold, turn) {
        if (m->n_loading == STREAM_SETS_LOADS)
            break;
        /* Has its message loaded. (The load may end at once, and then the
         * member is ready.) */
        list_put(&m->loading, &member->turn);
        member->is_loading = true;
        m->n_loading++;
        state = reader_next(&member->reader);
        if (state == READER_LATER)
            continue;
        end_load(member);
        list_remove(&member->turn);
        if (decide(m, member, state))
            return member;
    }
    return NULL;
}

bool
stream_sets_are_waiting(const struct stream_sets *m)
{
    return !list_is_empty(&m->ready) ||
           (!list_is_empty(&m->cold) && m->n_loading < STREAM_SETS_LOADS);
}

void
stream_sets_sent(struct stream_sets *m)
{
    struct stream_set *member = m->current;

    m->current = NULL;
    reader_advance(&member->reader);
    if (member->is_leaving)
        free_member(member);
    else if (reader_rest(&member->reader) != READER_HEAD)
        list_append(&m->ready, &member->turn);
}

/* Ends */

/* Room for the members that name the positions which can be served. */
#define STREAM_SETS_TEXT_MAX 4096

void
stream_sets_gone(const struct set *set, char reason[STREAM_SETS_REASON_SIZE],
                 struct buf *members)
{
    char earliest[POSITION_MAX];
    struct head head;

    log_head(set->log, &head);
    position_write(earliest, head.epoch, head_earliest(&head));
    snprintf(reason, STREAM_SETS_REASON_SIZE, "position gone; earliest %s",
             earliest);
    buf_init(members, STREAM_SETS_TEXT_MAX);
    positions_members(set, &head, members);
}

#define GONE                                                     \
    "earliest? string (a position), last? string (a position), " \
    "restart? uri (where all resources are)"

const struct json_shape set_end_shape = {
    "SetEnd", "A stream of many sets goes on without this one",
    "set string, end 'unknown'|'removed'|'gone'|'failed', detail? "
    "string, " GONE};

const struct json_shape stream_end_shape = {
    "StreamEnd", "Why a stream of events ends", "detail string, " GONE};

void
stream_sets_write_end(struct buf *to, const struct stream_set *member)
{
    static const char *const words[] = {
        [STREAM_SET_UNKNOWN] = "unknown",
        [STREAM_SET_REMOVED] = "removed",
        [STREAM_SET_GONE] = "gone",
        [STREAM_SET_FAILED] = "failed",
    };
    char detail[STREAM_SETS_REASON_SIZE];
    struct buf text;

    BUF_ADD(to, "{\"set\":");
    json_text(to, slice_of(member->name));
    json_text_member(to, "end", slice_of(words[member->end]));
    if (member->end == STREAM_SET_GONE) {
        stream_sets_gone(member->set, detail, &text);
        json_text_member(to, "detail", slice_of(detail));
        buf_add_text(to, text.data);
        buf_fini(&text);
    }
    BUF_ADD(to, "}");
}

/* Positions */

bool
stream_sets_positions(const struct stream_sets *m, struct resume_entry *entries,
                      size_t room, size_t *n)
{
    const struct stream_set *member;

    *n = 0;
    map_walk (member, &m->by_name, node) {
        const struct reader *r = &member->reader;

        if (member->end)
            continue;
        if (r->since_us != DATETIME_NONE || *n == room)
            return false;
        entries[(*n)++] = (struct resume_entry){
            .number = log_set_number(member->set->log),
            .seq = reader_start(r),
            .mark = member->mark,
        };
    }
    return true;
}

/* Lags */

void
stream_sets_add_lags(const struct stream_sets *m, struct lag *lag)
{
    const struct list *lists[] = {&m->ready, &m->cold, &m->loading};
    const struct stream_set *member;

    for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
        list_walk (member, lists[i], turn) {
            if (member->set)
                set_readers_add_lag(&member->reader, lag);
        }
    }
}
