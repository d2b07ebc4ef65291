#include "tests/support/examples.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/places.h"
#include "tests/test.h"

struct slice
examples_load(const char *name)
{
    char path[1024];
    char *data;
    long size;
    FILE *file;

    snprintf(path, sizeof(path), SPEC_DIR "/examples/%s", name);
    file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot read %s", path);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), size);
    fclose(file);
    return (struct slice){data, (size_t)size};
}

void
examples_each(const char *folder,
              void (*check)(const char *name, struct slice document))
{
    char path[512], name[512];
    struct slice document;
    const struct dirent *entry;
    size_t n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), SPEC_DIR "/examples/%s", folder);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');

        if (!end || strcmp(end, ".xml") != 0)
            continue;
        snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
        document = examples_load(name);
        check(name, document);
        free((char *)document.data);
        n++;
    }
    closedir(dir);
    assert_true(n >= 20);
}
