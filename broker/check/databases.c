#include "broker/check/databases.h"

#include <fcntl.h>

#include "broker/access/tokens.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/sources/hub_db.h"
#include "broker/state/content.h"
#include "broker/state/resources.h"
#include "broker/state/tree_db.h"
#include "broker/state/upload_file.h"
#include "broker/store/store_rows.h"

/* All entries stood in their rows. */
#define WITHOUT_SEGMENTS                                           \
    "CREATE TEMP VIEW batches AS SELECT *, 0 AS segment, 0 AS at," \
    " 0 AS size FROM main.batches;"                                \
    "CREATE TEMP VIEW segments AS SELECT 0 AS number, 0 AS live WHERE 0"

const struct database databases[DATABASES] = {
    [DATABASE_TIDINGS] = {PLACE_TOP, "tidings.db", &store_kind, 7,
                          STORE_WITH_SEGMENTS, WITHOUT_SEGMENTS},
    [DATABASE_HUB] = {PLACE_TOP, "hub.db", &hub_db_kind, 3},
    [DATABASE_MQTT] = {PLACE_TOP, "mqtt.db", &mqtt_db_kind, 1},
    [DATABASE_TOKENS] = {PLACE_TOP, "tokens.db", &tokens_kind, 1},
    [DATABASE_RESOURCES] = {PLACE_SET, RESOURCES_FILE, &resources_kind, 2},
    [DATABASE_CONTENT] = {PLACE_SET, CONTENT_FILE, &content_kind, 1},
    [DATABASE_TREE] = {PLACE_SET, TREE_FILE, &tree_kind, 2},
    [DATABASE_UPLOAD] = {PLACE_UPLOADS, NULL, &upload_file_kind, 0},
};

/* Checks the databases of a place in the folder `path`. `name`: of the entry of
 * an upload. */
static enum status
check_place(enum database_place place, const char *path, const char *name,
            struct problem *why)
{
    struct file_path file;
    int64_t version;
    enum status rc = STATUS_OK;

    for (int i = 0; !rc && i < DATABASES; i++) {
        if (databases[i].place != place)
            continue;
        file = file_path("%s/%s", path,
                         databases[i].name ? databases[i].name : name);
        if (!db_look_version(file.text, &version, NULL) &&
            version > databases[i].kind->n_steps)
            rc = problem(why, STATUS_IO,
                         "%s: the database is of version %" PRId64
                         ", and this program knows versions up to %d: a newer "
                         "tidingsd has used the data directory; start that "
                         "one, or restore an older backup",
                         file.text, version, databases[i].kind->n_steps);
    }
    return rc;
}

/* Checks the databases of a place in or under each entry of DIR/FOLDER. */
static enum status
check_entries(const char *dir, const char *folder, enum database_place place,
              struct problem *why)
{
    struct file_path path = file_path("%s/%s", dir, folder), entry_path;
    const struct dirent *entry;
    enum status rc = STATUS_OK;
    DIR *opened = file_open_dir(AT_FDCWD, path.text, 0);

    if (!opened && (errno == ENOENT || errno == ENOTDIR))
        return STATUS_OK;
    if (!opened)
        return problem_errno(why, "cannot read", path.text);
    while (!rc && (entry = file_next(opened))) {
        if (entry->d_name[0] == '.')
            continue;
        entry_path = file_path("%s/%s", path.text, entry->d_name);
        rc =
            check_place(place, place == PLACE_SET ? entry_path.text : path.text,
                        entry->d_name, why);
    }
    closedir(opened);
    return rc;
}

enum status
databases_check_versions(const char *dir, struct problem *why)
{
    enum status rc = check_place(PLACE_TOP, dir, NULL, why);

    if (!rc)
        rc = check_entries(dir, "sets", PLACE_SET, why);
    return rc ? rc : check_entries(dir, "uploads", PLACE_UPLOADS, why);
}
