/*
 * fold_dbs.h - states and contents by themselves, without the archive that
 * keeps them open (broker/archive/folds.h).
 */
#ifndef TESTS_SUPPORT_FOLD_DBS_H
#define TESTS_SUPPORT_FOLD_DBS_H

#include "broker/state/content.h"
#include "broker/state/fold_db.h"
#include "broker/state/resources.h"

static inline struct fold_db *
fold_db_of(void *owner)
{
    return owner;
}

static inline enum status
resources_open(struct resources **resources, const char *dir, const char *epoch,
               struct problem *why)
{
    struct fold_db *db;
    enum status rc = fold_db_open(&db, &resources_folding, dir, epoch, why);

    if (!rc)
        *resources = resources_of(db);
    return rc;
}

static inline enum status
content_open(struct content **content, const char *dir, const char *epoch,
             struct problem *why)
{
    struct fold_db *db;
    enum status rc = fold_db_open(&db, &content_folding, dir, epoch, why);

    if (!rc)
        *content = content_of(db);
    return rc;
}

#endif
