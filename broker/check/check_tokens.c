#include "broker/check/parts.h"

/* The row of everyone has neither id nor salt nor digest. */
static const struct inspection_query queries[] = {
    {FINDING_TOKEN, false,
     "SELECT printf('token %s has an id, a salt or a digest that is damaged',"
     " name) FROM tokens WHERE id IS NOT NULL AND (length(id) < 1 OR"
     " length(coalesce(salt, '')) <> 16 OR length(coalesce(digest, '')) <> "
     "32)"},
    {FINDING_TOKEN, false,
     "SELECT printf('the next token would get the row of token %s', name) FROM"
     " tokens WHERE row > coalesce((SELECT seq FROM sqlite_sequence WHERE"
     " name = 'tokens'), 0)"},
    {.sql = NULL},
};

void
check_tokens(struct inspection *in)
{
    const char *path = databases[DATABASE_TOKENS].name;
    struct db db;

    if (inspection_open(in, &databases[DATABASE_TOKENS], path, &db))
        return; /* missing: there never was a token */
    if (inspection_is_sound(in, path, &db))
        inspection_ask(in, path, &db, queries);
    db_close(&db);
}
