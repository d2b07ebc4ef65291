#include "broker/check/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Longest line: a path of the system, and sentences. */
#define LINE_SIZE 8192

static const struct {
    const char *meaning, *remedy;
} texts[FINDING_KINDS] = {
    [FINDING_NEWER] = {"this program can neither serve nor check it",
                       "start the newer tidingsd, or restore an older backup"},
    [FINDING_OLDER] = {"this program can serve it, and cannot check it yet",
                       "start the broker, which brings it up to date"},
    [FINDING_UNREAD] = {"it was not checked",
                        "run the check as the user of the broker"},
    [FINDING_DATABASE] = {"the broker cannot rely on the database",
                          "restore it from a backup"},
    [FINDING_LOG] = {"readers may miss entries, or get an error",
                     "restore the data directory from a backup"},
    [FINDING_ENTRY] = {"readers of these entries get an error",
                       "restore the data directory from a backup"},
    [FINDING_LIST] = {"its entries and its document cannot be read",
                      "restore the file from a backup"},
    [FINDING_MARKS] = {"readers that enter the list here get an error",
                       "restore tidings.db from a backup"},
    [FINDING_KEYS] = {"a repeated post may be stored twice, or refused",
                      "restore tidings.db from a backup"},
    [FINDING_BUILD] = {"downloads of this list or dump fail",
                       "restore the folder from a backup, or build a new one"},
    [FINDING_STATE] =
        {"Resource Lists and dumps of the set may be wrong",
         "stop the broker and delete resources.db with its two files, if all "
         "lists of the set are still there; else upload its resources (PUT)"},
    [FINDING_CONTENT] = {"the bytes of the entries that name it are lost",
                         "restore the file from a backup, or post its resource "
                         "again"},
    [FINDING_INDEX] = {"dumps of the set may lack content, or files stay",
                       "restore content.db and content from one backup"},
    [FINDING_HUB] = {"the hub may deliver nothing, or the wrong thing",
                     "let the subscriber subscribe again, or restore hub.db "
                     "from a backup"},
    [FINDING_AHEAD] =
        {"entries up to there will not be delivered: the log is older than "
         "this database",
         "restore both from one backup"},
    [FINDING_BEHIND] = {"the entries between are not delivered any more",
                        "let the receiver read a Resource List, and keep more "
                        "lists (--retain-lists)"},
    [FINDING_STALE] = {"it has no effect",
                       "nothing: a start deletes or replaces it"},
    [FINDING_BRIDGE] = {"the bridge may repeat messages, or leave some out",
                        "restore mqtt.db from a backup, or delete it with its "
                        "two files while the broker is stopped"},
    [FINDING_TOKEN] = {"the broker may refuse the token",
                       "make a new token with tidingsd token, or restore "
                       "tokens.db from a backup"},
    [FINDING_ORPHAN] = {"no row refers to it, and it only takes room",
                        "delete it, or move it out of the data directory"},
    [FINDING_LEFT] = {"a write was cut off, and nobody reads it",
                      "nothing, or delete it while the broker is stopped"},
    [FINDING_RESTORE] = {"files may be missing, and no broker starts on it",
                         "delete the directory, and restore it again"},
    [FINDING_MODE] = {"the wrong users can or cannot use it",
                      "set that mode with chmod"},
    [FINDING_OWNER] = {"the broker may fail to write or delete it",
                       "give it to the owner of the data directory with "
                       "chown"},
};

void
findings_add(struct findings *f, enum finding_kind kind, const char *dir,
             const char *path, const char *what)
{
    char line[LINE_SIZE];

    snprintf(line, sizeof(line), "%s%s%s: %s; %s; %s", dir, *path ? "/" : "",
             path, what, texts[kind].meaning, texts[kind].remedy);
    for (char *c = line; *c; c++) /* names and texts are another's */
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (ONE_MORE(f->lines, &f->capacity, f->n) &&
        (f->lines[f->n] = strdup(line)))
        f->n++;
    else
        f->is_short = true;
}

static bool
has_line(const struct findings *f, const char *line)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->lines[i], line))
            return true;
    return false;
}

void
findings_confirm(struct findings *f, const struct findings *second)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (has_line(second, f->lines[i]))
            f->lines[n++] = f->lines[i];
        else
            free(f->lines[i]);
    }
    f->n = n;
}

void
findings_print(const struct findings *f, FILE *to)
{
    for (size_t i = 0; i < f->n; i++)
        fprintf(to, "%s\n", f->lines[i]);
}

void
findings_clear(struct findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->lines[i]);
    free(f->lines);
    *f = (struct findings){NULL};
}
