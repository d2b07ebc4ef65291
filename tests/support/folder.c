#include "tests/support/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/patience.h"
#include "tests/test.h"

/* `without`: what the names of files that do not count contain; or NULL. */
static unsigned
count(DIR *dir, const char *without)
{
    const struct dirent *entry;
    unsigned n = 0;

    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.' &&
             !(without && strstr(entry->d_name, without));
    closedir(dir);
    return n;
}

unsigned
folder_count(const char *path)
{
    DIR *dir = opendir(path);

    if (!dir)
        fail_msg("there is no folder %s", path);
    return count(dir, NULL);
}

unsigned
folder_count_below(const char *dir, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return folder_count(path);
}

unsigned
folder_count_lists(const char *data, const char *set)
{
    char path[400];
    DIR *dir;

    snprintf(path, sizeof(path), "%s/sets/%s/changes", data, set);
    dir = opendir(path);
    return dir ? count(dir, ".new") : 0;
}

void
folder_await_lists(const char *data, const char *set, unsigned n)
{
    struct patience p = {.with = "files of closed lists to come or to go"};

    while (folder_count_lists(data, set) != n)
        patience_step(&p);
}
