/*
 * Every name in the data directory: is it a file that the broker makes, does a
 * row refer to it, may the right users use it?
 *
 *     place          names                     the row
 *     PLACE_DATA     databases, lock, folders
 *     PLACE_SETS     NAME                      sets, trash or generations
 *     PLACE_SET      databases, folders
 *     PLACE_LISTS    000000000001.xml.gz       lists
 *     PLACE_BUILDS   000000000001              generations
 *     PLACE_BUILD    its parts                 (its number of parts)
 *     PLACE_CONTENT  ab
 *     PLACE_BYTES    HEX                       files of content.db
 *     PLACE_TILES    0, x001, 234, 235.p       (check_databases looks at them)
 *
 * Symbolic links are an administrator's, and are left alone.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/access/checkpoint_keys.h"
#include "broker/backup/backup_offer.h"
#include "broker/bucket/vault.h"
#include "broker/check/inspection.h"
#include "broker/documents/oai.h"
#include "broker/log/kept_records.h"
#include "broker/log/log.h"
#include "broker/sets/data_directory.h"
#include "broker/sets/links.h"
#include "broker/state/content.h"
#include "broker/state/content_files.h"
#include "broker/store/segments.h"
#include "broker/store/store.h"
#include "proto/number.h"

enum names_place {
    PLACE_DATA,
    PLACE_SETS,
    PLACE_OF_SET,
    PLACE_LISTS,
    PLACE_BUILDS,
    PLACE_BUILD,
    PLACE_CONTENT,
    PLACE_BYTES,
    PLACE_TILES,
    PLACE_STAGED,   /* uploads */
    PLACE_ARRIVING, /* bytes on their way */
    PLACE_SEGMENTS,
    PLACE_NONE /* a file */
};

enum judgement { JUDGED_KNOWN, JUDGED_ORPHAN, JUDGED_LEFT };

static enum judgement
known_if(bool is_known)
{
    return is_known ? JUDGED_KNOWN : JUDGED_ORPHAN;
}

/* Beside a broker, a file may be new, and its row not written yet. */
#define YOUNG_S 600

struct names {
    struct inspection *in;
    uid_t owner;
    mode_t passing; /* bits of other users, of the data directory */
    struct db store, content;
    char set[SET_NAME_MAX + 1]; /* at hand */
    int kind;
    uint64_t parts;   /* of the build at hand */
    uint64_t n_bytes; /* files of bytes without content.db */
};

/* Rows */

/* True if the query has a row, or cannot be asked. */
static bool
has_row(struct db *db, const char *sql, const struct db_value *values)
{
    bool is_there;

    return !db->handle ||
           db_find(db, NULL, NULL, &is_there, sql, values, DB_INTO()) ||
           is_there;
}

/* Names */

/* True for a database, and the files that SQLite puts beside it; a kill may
 * leave the journal of a new one. */
static bool
is_known_database(const char *name, enum database_place place)
{
    for (int i = 0; i < DATABASES; i++) {
        size_t size = databases[i].name ? strlen(databases[i].name) : 0;

        if (size && databases[i].place == place &&
            !strncmp(name, databases[i].name, size) &&
            (!name[size] || !strcmp(name + size, "-wal") ||
             !strcmp(name + size, "-shm") || !strcmp(name + size, "-journal")))
            return true;
    }
    return false;
}

/* Reads a number of at least twelve digits; `*end` is behind it. */
static bool
read_number(const char *name, uint64_t *number, const char **end)
{
    size_t digits = strspn(name, "0123456789");

    *number = strtoull(name, NULL, 10);
    *end = name + digits;
    return digits >= 12;
}

struct entry {
    const char *name;
    bool is_dir;
    enum names_place next; /* set by the judge: of a directory */
};

static const struct {
    const char *name;
    enum names_place next;
} folders[] = {
    {"sets", PLACE_SETS},
    {"uploads", PLACE_STAGED},
    {"arriving", PLACE_ARRIVING},
    {"loose", PLACE_NONE},
    {SEGMENTS_FOLDER, PLACE_SEGMENTS},
};

static enum judgement
judge_data(struct names *n, struct entry *e)
{
    if (e->is_dir && !strcmp(e->name, OFFER_FOLDER)) {
        e->next = PLACE_NONE;
        return n->in->is_live ? JUDGED_KNOWN : JUDGED_LEFT;
    }
    for (size_t i = 0; e->is_dir && i < N_ELEMENTS(folders); i++)
        if (!strcmp(e->name, folders[i].name)) {
            e->next = folders[i].next;
            return JUDGED_KNOWN;
        }
    if (e->is_dir)
        return strcmp(e->name, "lost+found") ? JUDGED_ORPHAN : JUDGED_KNOWN;
    return known_if(
        is_known_database(e->name, PLACE_TOP) || !strcmp(e->name, "lock") ||
        !strcmp(e->name, "public-url") || !strcmp(e->name, LOG_NEW_EPOCHS) ||
        !strcmp(e->name, CHECKPOINT_KEYS_FILE) ||
        !strcmp(e->name, KEPT_RECORDS_EARLIER) ||
        !strcmp(e->name, KEPT_RECORDS_LATEST));
}

static enum judgement
judge_set(struct names *n, struct entry *e)
{
    if (!e->is_dir ||
        !has_row(&n->store,
                 "SELECT name FROM sets WHERE name = ?1 UNION ALL"
                 " SELECT name FROM trash WHERE name = ?1 UNION ALL"
                 " SELECT name FROM generations WHERE name = ?1",
                 DB_VALUES(e->name)))
        return JUDGED_ORPHAN;
    e->next = PLACE_OF_SET;
    return JUDGED_KNOWN;
}

static enum judgement
judge_of_set(struct names *n, struct entry *e)
{
    if (!e->is_dir)
        return known_if(is_known_database(e->name, PLACE_SET) ||
                        slice_starts(slice_of(e->name), RECORDS_FILE));
    e->next = PLACE_BUILDS;
    for (n->kind = 0; n->kind < GENERATION_KINDS; n->kind++)
        if (!strcmp(e->name, links_kinds[n->kind].folder))
            return JUDGED_KNOWN;
    e->next = !strcmp(e->name, LOG_CHANGES) ? PLACE_LISTS
              : !strcmp(e->name, LOG_TILES) ? PLACE_TILES
                                            : PLACE_CONTENT;
    return known_if(e->next != PLACE_CONTENT ||
                    !strcmp(e->name, CONTENT_FOLDER));
}

static enum judgement
judge_list(struct names *n, struct entry *e)
{
    const char *end;
    uint64_t number;

    if (!e->is_dir &&
        (!strcmp(e->name, LOG_CHECKPOINT) || !strcmp(e->name, LOG_WITNESSED)))
        return JUDGED_KNOWN;
    return known_if(
        !e->is_dir && read_number(e->name, &number, &end) &&
        (!strcmp(end, ".xml.gz") || !strcmp(end, ".xml.gz" VAULT_STUB)) &&
        has_row(&n->store,
                "SELECT 1 FROM lists WHERE number = ? AND set_id IN"
                " (SELECT id FROM sets WHERE name = ?2 UNION"
                " SELECT set_id FROM trash WHERE name = ?2)",
                DB_VALUES(number, n->set)));
}

static enum judgement
judge_builds(struct names *n, struct entry *e)
{
    const char *end;
    uint64_t number;
    bool is_known, is_ahead;

    e->next = PLACE_BUILD;
    if (!e->is_dir || !read_number(e->name, &number, &end) || *end)
        return JUDGED_ORPHAN;
    n->parts = UINT64_MAX;
    if (!n->store.handle ||
        db_find(&n->store, NULL, NULL, NULL,
                "SELECT coalesce(max(iif(number = ?3, parts, NULL)), 9e18),"
                " coalesce(max(number = ?3), 0), coalesce(max(number), 0) < ?3"
                " FROM generations WHERE name = ?1 AND kind = ?2",
                DB_VALUES(n->set, n->kind, number),
                DB_INTO(&n->parts, &is_known, &is_ahead)))
        return JUDGED_KNOWN;
    /* A number behind all that have a row is that of a build under way. */
    if (is_ahead)
        return n->in->is_live ? JUDGED_KNOWN : JUDGED_LEFT;
    return known_if(is_known);
}

/* check_builds finds parts that are missing. */
static enum judgement
judge_build(struct names *n, struct entry *e)
{
    const char *end;
    struct slice rest;
    uint64_t number;
    bool is_dump = n->kind != GENERATION_RESOURCELIST;

    if (e->is_dir || !read_number(e->name, &number, &end))
        return JUDGED_ORPHAN;
    rest = slice_of(end);
    if (slice_ends(rest, VAULT_STUB))
        rest.size -= strlen(VAULT_STUB);
    if (slice_is(rest, ".xml.gz")) /* a dump of no resource has it, too */
        return known_if(is_dump ? number == 1 : number <= n->parts);
    return known_if(
        is_dump && number > 0 && number <= n->parts &&
        (slice_is(rest, ".zip") || slice_is(rest, "-manifest.xml.gz")));
}

static enum judgement
judge_content(struct names *n, struct entry *e)
{
    (void)n;
    e->next = PLACE_BYTES;
    return known_if(e->is_dir && strlen(e->name) == 2 &&
                    strspn(e->name, "0123456789abcdef") == 2);
}

static enum judgement
judge_bytes(struct names *n, struct entry *e)
{
    struct digest digest;
    const char *end = e->name + strnlen(e->name, (size_t)2 * DIGEST_SIZE);

    if (e->is_dir || (*end && strcmp(end, VAULT_STUB) != 0) ||
        !hex_read(slice_between(e->name, end), digest.bytes, DIGEST_SIZE))
        return JUDGED_ORPHAN;
    if (!n->content.handle)
        n->n_bytes++;
    return known_if(has_row(&n->content, "SELECT 1 FROM files WHERE digest = ?",
                            DB_VALUES(&digest)));
}

static enum judgement
judge_tiles(struct names *n, struct entry *e)
{
    size_t digits = strspn(e->name + (e->name[0] == 'x'), "0123456789");

    (void)n;
    e->next = PLACE_TILES;
    return known_if(digits > 0 && digits <= 3 &&
                    (strlen(e->name) == digits || e->is_dir));
}

static enum judgement
judge_staged(struct names *n, struct entry *e)
{
    struct slice name = slice_of(e->name);

    if (slice_ends(name, ".new") || slice_ends(name, ".work"))
        return n->in->is_live ? JUDGED_KNOWN : JUDGED_LEFT;
    return known_if(!e->is_dir &&
                    (slice_ends(name, ".whole") || slice_ends(name, ".taken")));
}

static enum judgement
judge_arriving(struct names *n, struct entry *e)
{
    (void)e;
    return n->in->is_live ? JUDGED_KNOWN : JUDGED_LEFT;
}

/* One without entries is spare. */
static enum judgement
judge_segment(struct names *n, struct entry *e)
{
    (void)n;
    return known_if(!e->is_dir && segments_number(e->name) > 0);
}

static const struct {
    enum judgement (*judge)(struct names *n, struct entry *e);
    enum data_directory_place mode; /* of its names */
} places[PLACE_NONE + 1] = {
    [PLACE_DATA] = {judge_data, DATA_DIRECTORY_WAY},
    [PLACE_SETS] = {judge_set, DATA_DIRECTORY_WAY},
    [PLACE_OF_SET] = {judge_of_set}, /* that of what is in the folder */
    [PLACE_LISTS] = {judge_list, DATA_DIRECTORY_LISTS},
    [PLACE_BUILDS] = {judge_builds, DATA_DIRECTORY_LISTS},
    [PLACE_BUILD] = {judge_build, DATA_DIRECTORY_LISTS},
    [PLACE_CONTENT] = {judge_content, DATA_DIRECTORY_OTHER},
    [PLACE_BYTES] = {judge_bytes, DATA_DIRECTORY_OTHER},
    [PLACE_TILES] = {judge_tiles, DATA_DIRECTORY_LISTS},
    [PLACE_STAGED] = {judge_staged, DATA_DIRECTORY_OTHER},
    [PLACE_ARRIVING] = {judge_arriving, DATA_DIRECTORY_OTHER},
    [PLACE_SEGMENTS] = {judge_segment, DATA_DIRECTORY_OTHER},
    [PLACE_NONE] = {NULL, DATA_DIRECTORY_OTHER},
};

/* Permissions */

static void
check_mode(struct names *n, const char *path, const struct stat *st,
           enum data_directory_place place)
{
    bool is_dir = S_ISDIR(st->st_mode);
    mode_t own = is_dir ? S_IRWXU : S_IRUSR | S_IWUSR;
    mode_t others = data_directory_others(place, is_dir, n->passing);

    if (st->st_uid != n->owner)
        inspection_find(n->in, FINDING_OWNER, path,
                        "it belongs to user %u, and the data directory to %u",
                        st->st_uid, n->owner);
    else if ((st->st_mode & own) != own ||
             (st->st_mode & (S_IRWXG | S_IRWXO)) != others)
        inspection_find(n->in, FINDING_MODE, path,
                        "its mode is %04o, and should be %04o",
                        st->st_mode & 0777, own | others);
}

/* The walk */

static void walk_dir(struct names *n, int above, const char *name,
                     const char *path, enum names_place place);

/* Walks the folder of a set, with what its files are compared with. */
static void
walk_set(struct names *n, int above, const char *name, const char *path)
{
    char content[INSPECTION_PATH];

    snprintf(n->set, sizeof(n->set), "%s", name);
    n->n_bytes = 0;
    inspection_path(content, n->set, CONTENT_FILE);
    (void)!inspection_open(n->in, DATABASE_CONTENT, content, &n->content);
    walk_dir(n, above, name, path, PLACE_OF_SET);
    if (n->n_bytes > 0)
        inspection_find(n->in, FINDING_INDEX, content,
                        "it cannot be read, and there are %" PRIu64
                        " files of bytes",
                        n->n_bytes);
    db_close(&n->content);
}

static void
check_entry(struct names *n, int fd, const char *above, const char *name,
            enum names_place place)
{
    struct entry e = {.name = name, .next = PLACE_NONE};
    char path[INSPECTION_PATH];
    enum judgement judgement;
    bool is_young;
    struct stat st;

    snprintf(path, sizeof(path), "%s%s%s", above, *above ? "/" : "", name);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
        (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return;
    e.is_dir = S_ISDIR(st.st_mode);
    is_young = n->in->is_live && time(NULL) - st.st_mtime < YOUNG_S;
    judgement = places[place].judge(n, &e);
    if (judgement != JUDGED_LEFT && !e.is_dir &&
        slice_ends(slice_of(name), ".new"))
        judgement = place == PLACE_STAGED ? judgement : JUDGED_LEFT;
    if (place == PLACE_DATA && !strcmp(name, STORE_RESTORING)) {
        inspection_find(n->in, FINDING_RESTORE, path,
                        "a restore is under way, or was cut off");
        return;
    }
    if (judgement != JUDGED_KNOWN && !is_young)
        inspection_find(
            n->in, judgement == JUDGED_LEFT ? FINDING_LEFT : FINDING_ORPHAN,
            path, "the %s %s", e.is_dir ? "folder" : "file",
            judgement == JUDGED_LEFT ? "is not complete" : "is of no use here");
    if (judgement == JUDGED_ORPHAN || !strcmp(name, "lost+found"))
        return;
    check_mode(n, path, &st,
               places[place == PLACE_OF_SET ? e.next : place].mode);
    if (e.is_dir && e.next == PLACE_OF_SET)
        walk_set(n, fd, name, path);
    else if (e.is_dir)
        walk_dir(n, fd, name, path, e.next);
}

static void
walk_dir(struct names *n, int above, const char *name, const char *path,
         enum names_place place)
{
    DIR *dir = file_open_dir(above, name, O_NOFOLLOW);
    const struct dirent *entry;

    if (!dir) {
        if (errno != ENOENT) /* a broker has deleted it */
            inspection_find(n->in, FINDING_UNREAD, path,
                            "the folder cannot be read: %s", strerror(errno));
        return;
    }
    while (place != PLACE_NONE && (entry = file_next(dir)))
        check_entry(n, dirfd(dir), path, entry->d_name, place);
    closedir(dir);
}

void
check_names(struct inspection *in)
{
    struct names n = {.in = in};
    struct stat st;

    if (fstat(in->dir, &st)) {
        inspection_find(in, FINDING_UNREAD, "", "%s", strerror(errno));
        return;
    }
    n.owner = st.st_uid;
    n.passing = st.st_mode & (S_IXGRP | S_IXOTH);
    if (!(n.passing & S_IXGRP)) /* 0700, 0710 or 0711 */
        n.passing = 0;
    check_mode(&n, "", &st, DATA_DIRECTORY_WAY);
    /* The store's finding if it cannot be opened; all names count as known. */
    (void)!inspection_open(in, DATABASE_TIDINGS, NULL, &n.store);
    walk_dir(&n, in->dir, ".", "", PLACE_DATA);
    db_close(&n.store);
}
