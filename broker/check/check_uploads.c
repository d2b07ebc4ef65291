/*
 * Uploads of all resources of a set, which wait to become changes.
 */
#include <dirent.h>
#include <stdio.h>

#include "broker/check/parts.h"

static const struct inspection_query queries[] = {
    {FINDING_DATABASE, false,
     "SELECT printf('it has %d resources, and announces %d', rows, n) FROM"
     " about, (SELECT count(*) rows FROM staged) WHERE rows <> n"},
    {FINDING_DATABASE, false,
     "SELECT printf('it has %d rows about itself', count(*)) FROM about"
     " HAVING count(*) <> 1"},
    {FINDING_DATABASE, false,
     "SELECT printf('it has %d resources and %d keys', rows, n) FROM"
     " (SELECT count(*) rows FROM staged), (SELECT count(*) n FROM keys)"
     " WHERE rows <> n"},
    {.sql = NULL},
};

void
check_uploads(struct inspection *in)
{
    char path[INSPECTION_PATH], whole[4096 + INSPECTION_PATH];
    const struct dirent *entry;
    struct db db;
    DIR *dir;

    inspection_whole_path(in, "uploads", whole, sizeof(whole));
    dir = opendir(whole);
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "uploads/%s", entry->d_name);
        if ((!slice_ends(slice_of(path), ".whole") &&
             !slice_ends(slice_of(path), ".taken")) ||
            inspection_open(in, &databases[DATABASE_UPLOAD], path, &db))
            continue;
        if (inspection_is_sound(in, path, &db))
            inspection_ask(in, path, &db, queries);
        db_close(&db);
    }
    if (dir)
        closedir(dir);
}
