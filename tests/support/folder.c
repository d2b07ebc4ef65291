#include "tests/support/folder.h"

#include <dirent.h>
#include <stdio.h>

#include "tests/test.h"

unsigned
folder_count(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    unsigned n = 0;

    if (!dir)
        fail_msg("there is no folder %s", path);
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

unsigned
folder_count_below(const char *dir, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return folder_count(path);
}
