/*
 * key_command.c - tidingsd key: shows and changes the keys of checkpoints,
 * beside a running broker, which reads the file again, and without one.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/db.h"
#include "base/file.h"
#include "broker/access/checkpoint_keys.h"
#include "broker/commands/command_rows.h"
#include "broker/sets/data_directory.h"
#include "proto/resourcesync/position.h"

struct values {
    char data[4096];
    char public_url[512];
    bool is_alone;
};

#define ROW_OF struct values
#include "base/option_rows.h"

#define DATA_ROW \
    "data", "DIR", TEXT(data), "./tidings-data", "the broker's data directory"

static const struct option show_rows[] = {
    {"public-url", "URL", TEXT(public_url), NULL,
     "the broker's; if not given, the one that it was last served under"},
    {DATA_ROW},
};

static const struct option rotate_rows[] = {
    {"only", NULL, FLAG(is_alone), NULL,
     "the former keys sign no more: one of them is known to others"},
    {DATA_ROW},
};

static enum exit_code
run_show(const struct arguments *given)
{
    struct values *values = given->values;
    const char *set = given->operands[0];
    char epoch[EPOCH_SIZE + 1] = "", name[NOTE_NAME_SIZE], url[512] = "";
    struct file_path path = file_path("%s/tidings.db", values->data);
    struct db db = {NULL};
    struct checkpoint_keys *keys = NULL;
    struct buf lines = {.max = CHECKPOINT_KEYS_MAX * (NOTE_KEY_SIZE + 1)};
    struct problem why = {""};
    enum status rc = db_open(&db, path.text, DB_READER, &why);

    if (!rc)
        rc = db_find(&db, "read tidings.db", &why, NULL,
                     "SELECT epoch FROM sets WHERE name=?", DB_VALUES(set),
                     DB_INTO(&epoch));
    db_close(&db);
    if (!rc && !epoch[0])
        rc = problem(&why, STATUS_NOT_FOUND, "there is no set %s in %s", set,
                     values->data);
    if (values->public_url[0])
        snprintf(url, sizeof(url), "%s", values->public_url);
    else if (!rc)
        rc = data_directory_read_url(values->data, url, sizeof(url), &why);
    url[strlen(url) - (url[0] && url[strlen(url) - 1] == '/')] = '\0';
    if (!rc)
        rc = checkpoint_keys_open(&keys, values->data, false, &why);
    if (rc)
        return command_fail(given, rc, &why);
    checkpoint_origin(name, url, set, epoch);
    checkpoint_keys_write(keys, name, &lines);
    fwrite(lines.data, 1, lines.size, stdout);
    buf_fini(&lines);
    checkpoint_keys_close(keys);
    return EXIT_GOOD;
}

static enum exit_code
run_rotate(const struct arguments *given)
{
    const struct values *values = given->values;
    struct checkpoint_keys *keys = NULL;
    struct problem why = {""};
    enum status rc;

    umask(S_IRWXG | S_IRWXO);
    rc = access(values->data, F_OK)
             ? problem(&why, STATUS_NOT_FOUND,
                       "there is no data directory \"%s\": --data names it",
                       values->data)
             : checkpoint_keys_open(&keys, values->data, false, &why);
    if (!rc)
        rc = checkpoint_keys_rotate(keys, values->is_alone, &why);
    checkpoint_keys_close(keys);
    if (rc)
        return command_fail(given, rc, &why);
    printf("Checkpoints have a new key from now on%s.\n",
           values->is_alone ? ", and no former one"
                            : "; the former ones sign them, too");
    return EXIT_GOOD;
}

const struct command key_show_command = {
    .name = "key show",
    .operands = "SET",
    .help = "Prints the verifier keys of a set's checkpoints.",
    .more = "One line each, the newest first, as C2SP signed-note writes it: "
            "tidings verify takes it with --key. The name in it is the origin "
            "of the checkpoints, which ends with the epoch of the set. All "
            "sets have the same pair of keys.\n",
    .examples = "tidingsd key show news --data /var/lib/tidings >news.key\n",
    .options = OPTION_ROWS(show_rows),
    .run = run_show,
};

const struct command key_rotate_command = {
    .name = "key rotate",
    .help = "Makes a new key that signs checkpoints.",
    .more = "The former keys go on to sign each checkpoint beside the new one, "
            "so who knows one of them can trust the next; with --only they end "
            "at once. A running broker takes the key within a second, and "
            "brings it to the other brokers of its cluster.\n",
    .examples = "tidingsd key rotate --data /var/lib/tidings\n",
    .options = OPTION_ROWS(rotate_rows),
    .run = run_rotate,
};
