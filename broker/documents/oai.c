#include "broker/documents/oai.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "broker/archive/state_fold.h"
#include "broker/documents/document.h"
#include "broker/documents/web_files.h"
#include "broker/sets/settings.h"
#include "proto/urlencoded.h"
#include "proto/utf8.h"

/* What a record that is added costs (effort.h). */
#define EFFORT_OF_RECORD 30

/* How far responseDate is behind the clock. An entry gets its time before it is
 * committed, and a harvester asks for what came after responseDate. */
#define COMMIT_US 10000000

/* A request */
struct oai {
    struct set *set;
    struct head head;
    int64_t as_of_us; /* nothing that happened before then is missing */
    struct effort *effort;
    struct db db;
    uint64_t seq;   /* the records have every entry up to it */
    uint64_t began; /* entries up to it come from the state of the set */
};

/* The records */

/* Adds a fragment, or an entry of the state. Texts are escaped as in XML, and
 * stay so. A deletion without tags has those that the resource had. */
static enum status
add_record(struct oai *o, struct slice entry, int64_t us, bool is_deleted,
           struct problem *why)
{
    struct slice md = lines_between(entry, "<rs:md", ">");
    struct slice loc = fragment_loc(entry);

    return DB_DO(&o->db, NULL, why,
                 "INSERT INTO records(us, loc, is_deleted, date, title, author,"
                 " summary, data, type, tags) VALUES(?,?,?,?,?,?,?,?,?,"
                 " coalesce(nullif(?,''),"
                 "(SELECT tags FROM records WHERE loc=? AND ?),''))",
                 us, loc, is_deleted, lines_between(entry, "<lastmod>", "<"),
                 lines_between(entry, "<td:title>", "<"),
                 lines_between(entry, "<td:author>", "<"),
                 lines_between(entry, "<td:summary>", "<"),
                 lines_between(entry, "<td:data>", "<"),
                 document_value(md, " type=\""),
                 document_value(md, " td:tags=\""), loc, is_deleted);
}

/* Adds the next entries of the log. */
static enum status
add_entries(struct oai *o, struct problem *why)
{
    bool is_cut = false;
    enum status rc = STATUS_OK;

    while (!rc && !is_cut && o->seq < o->head.last) {
        struct batch *b;

        rc = log_read(o->set->registry->log, o->set->log, o->seq, LOG_DISK, &b,
                      why);
        if (rc || !b)
            return rc;
        while (!rc && o->seq < b->last && o->seq < o->head.last &&
               !(is_cut = !effort_spend(o->effort, EFFORT_OF_RECORD))) {
            struct slice entry = batch_slice(b, o->seq, o->seq + 1);
            uint32_t stamp = b->entries[++o->seq - b->first].stamp;

            rc = add_record(o, entry, fragment_time(entry.data, stamp),
                            fragment_kind(entry.data, stamp) == CHANGE_DELETED,
                            why);
        }
        batch_unref(b);
    }
    return rc;
}

/* Adds the next resources of the state whose last change the log no longer
 * has. They get times that end with T(began). */
static enum status
add_resources(struct oai *o, struct problem *why)
{
    uint64_t is_whole = 0;
    bool is_cut = false;
    struct db state = {.handle = NULL};
    struct db_rows rows;
    struct batch *b = NULL;
    struct slice entry;
    enum status rc = log_read(o->set->registry->log, o->set->log, o->began,
                              LOG_DISK, &b, why);
    int64_t us = b ? batch_time(b, o->began) : o->head.last_us;

    batch_unref(b);
    if (!rc &&
        db_open(&state, set_path(o->set, RESOURCES_FILE).text, DB_READER, NULL))
        rc = problem(why, STATUS_BUSY, "the set has no state yet");
    if (rc)
        return rc;
    rc = db_find(&state, NULL, why, NULL,
                 "SELECT is_whole FROM state WHERE epoch=? AND seq>=?",
                 DB_VALUES(o->head.origin, o->began), DB_INTO(&is_whole));
    if (!rc && !is_whole)
        rc = problem(why, STATUS_BUSY, "the state of the set is not whole");
    rows = DB_SELECT(&state, NULL, why,
                     "SELECT seq, entry FROM resources WHERE seq>? AND seq<=?"
                     " ORDER BY seq",
                     o->seq, o->began);
    while (!rc && !(is_cut = !effort_spend(o->effort, EFFORT_OF_RECORD)) &&
           DB_NEXT(&rows, &o->seq, &entry))
        rc =
            add_record(o, entry, us - (int64_t)(o->began - o->seq), false, why);
    rc = db_rows_end(&rows) ? STATUS_IO : rc;
    db_close(&state);
    if (!is_cut)
        o->seq = o->began;
    return rc;
}

/* Reads how far the records are. *is_there is false if they are of another log,
 * or of one that has lost the next entries. */
static enum status
read_state(struct oai *o, bool *is_there, struct problem *why)
{
    return db_find(&o->db, NULL, why, is_there,
                   "SELECT seq, began FROM state"
                   " WHERE epoch=? AND seq<=? AND max(seq, began)>=?",
                   DB_VALUES(o->head.origin, o->head.last, o->head.earliest),
                   DB_INTO(&o->seq, &o->began));
}

/* Brings the records up to the head of the log, or some way. */
static enum status
follow_log(struct oai *o, struct problem *why)
{
    bool is_there;
    enum status rc = read_state(o, &is_there, why);

    if (rc || (is_there && o->seq == o->head.last))
        return rc;
    if (!chore_has_room(o->set->registry))
        return problem(why, STATUS_BUSY, "the disk is nearly full");
    rc = db_begin(&o->db, why);
    if (!rc)
        rc = read_state(o, &is_there, why); /* another request may be quicker */
    if (!rc && !is_there) {
        rc = db_exec(&o->db, "DELETE FROM records", why);
        o->seq = 0;
        o->began = o->head.earliest;
    }
    if (!rc)
        rc = o->seq < o->began ? add_resources(o, why) : add_entries(o, why);
    if (!rc)
        rc = DB_DO(&o->db, NULL, why,
                   "INSERT OR REPLACE INTO state(id, epoch, seq, began)"
                   " VALUES(1,?,?,?)",
                   o->head.origin, o->seq, o->began);
    rc = db_end(&o->db, rc, why);
    if (!rc && effort_is_used_up(o->effort))
        return STATUS_AGAIN;
    if (rc == STATUS_GONE || (!rc && o->seq < o->head.last))
        rc = problem(why, STATUS_BUSY, "the records are not ready yet");
    return rc;
}

/* Answers */

/* Keeps the archive thread from deleting the records. */
static bool
use_records(struct set *set)
{
    int users = atomic_load(&set->records.users);

    while (users >= 0)
        if (atomic_compare_exchange_weak(&set->records.users, &users,
                                         users + 1))
            return true;
    return false;
}

static enum status
open_records(struct oai *o, struct problem *why)
{
    struct file_path path = set_path(o->set, RECORDS_FILE);
    int64_t us = clock_now_us() - COMMIT_US;
    struct log_copy copy;
    enum status rc;

    log_copy(o->set->registry->log, &copy);
    o->as_of_us = us < copy.as_of_us ? us : copy.as_of_us;
    if (!log_head(o->set->log, &o->head))
        return problem(why, STATUS_GONE, "the set was removed");
    rc = file_make_dirs(set_path(o->set, "").text, why);
    if (!rc)
        rc = db_open(&o->db, path.text, DB_SMALL, why);
    if (!rc)
        rc = db_exec(&o->db, broker_documents_oai_fold_sql.plain.data, why);
    if (!rc)
        rc = follow_log(o, why);
    if (rc && o->db.is_damaged) {
        db_close(&o->db);
        rc = db_unlink(path.text, why) ? STATUS_IO : STATUS_BUSY;
    }
    return rc;
}

/* Gives the script the facts that it lacks. */
static enum status
add_facts(struct oai *o, struct problem *why)
{
    struct settings settings;

    registry_settings(o->set, &settings);
    return DB_DO(&o->db, NULL, why,
                 "INSERT INTO facts(url, name, title, epoch, seq, began,"
                 " earliest, us, created_us, is_persistent)"
                 " VALUES(?,?,?,?,?,?,?,max(?,?),?,?)",
                 o->set->registry->options.public_url, o->set->name,
                 settings.title, o->head.epoch, o->seq, o->began,
                 o->head.earliest, o->as_of_us, o->head.last_us,
                 o->head.created_us,
                 o->head.earliest == 0 && settings.retention.lists == 0 &&
                     settings.retention.age_us == 0);
}

/* Gives it an argument of the request, escaped as in XML. */
static enum status
add_argument(struct oai *o, const struct urlencoded_field *field,
             struct problem *why)
{
    struct buf text = {.max = 8 * OAI_FORM_MAX};
    enum status rc;

    if (!utf8_is_xml_text(field->value))
        return problem(why, STATUS_MALFORMED, "an argument is no text of XML");
    xml_escape(&text, field->value);
    rc = DB_DO(&o->db, NULL, why,
               "INSERT INTO given(name, value) VALUES(?, coalesce(?,''))",
               field->name, buf_slice(&text));
    buf_fini(&text);
    return rc;
}

enum status
oai_answer(struct buf *to, struct set *set, struct slice form,
           struct effort *effort, struct problem *why)
{
    struct oai o = {.set = set, .effort = effort};
    struct urlencoded_data arguments;
    enum status rc;

    if (!use_records(set))
        return problem(why, STATUS_BUSY, "the records are being deleted");
    rc = urlencoded_read(&arguments, form, why);
    if (!rc)
        rc = open_records(&o, why);
    if (!rc) {
        effort_watch(effort, &o.db);
        rc = add_facts(&o, why);
    }
    for (size_t i = 0; !rc && i < arguments.n; i++)
        rc = add_argument(&o, &arguments.fields[i], why);
    if (!rc)
        rc = db_script(&o.db, broker_documents_oai_answer_sql.plain.data, to,
                       why);
    if (!rc && to->size == 0)
        rc = problem(why, STATUS_BUSY,
                     "another broker has begun the list with later changes");
    db_close(&o.db);
    (void)utimensat(AT_FDCWD, set_path(set, RECORDS_FILE).text, NULL, 0);
    atomic_fetch_sub(&set->records.users, 1);
    urlencoded_fini(&arguments);
    return rc == STATUS_AGAIN ? rc : effort_why(effort, rc, why);
}
