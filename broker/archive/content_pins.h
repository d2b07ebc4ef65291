/*
 * content_pins.h - the files of sets that are pinned: contents.h.
 *
 * A file is "going" while the archive thread looks for a row that names it and
 * deletes it. A thread that wants to pin that very file waits. Nothing else
 * waits, and no thread holds the mutex while it waits for a disk.
 */
#pragma once

#include <pthread.h>

#include "broker/sets/registry.h"
#include "broker/state/content_files.h"
#include "proto/resourcesync/digest.h"

struct pinned; /* a file, and how many pins it has */

struct content_pin {
    struct list node;
    struct content_pins *pins;
    struct set *set;
    struct pinned **files;
    size_t n_files, capacity;
    struct content_touched touched;
    bool has_ended;
    uint64_t last; /* contents_end */
};

struct content_pins {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct map files; /* struct pinned */
    struct list all;
    bool is_shut;
    const struct set *going_set; /* NULL: nothing is */
    struct digest going;
};

void content_pins_init(struct content_pins *pins);
void content_pins_fini(struct content_pins *pins); /* open pins, too */

/* Archive thread */

/* Takes the first ended pin that `may_end` accepts out of the pins; NULL:
 * none. Its files stay pinned, each until content_pins_release. */
struct content_pin *
content_pins_ended(struct content_pins *pins,
                   bool (*may_end)(const struct content_pin *pin));

/* Puts the pin back. */
void content_pins_keep(struct content_pin *pin);

/* Releases one file of the pin, and sets *digest to it. Returns false if none
 * was left; the pin is then freed. */
bool content_pins_release(struct content_pin *pin, struct digest *digest);

/* Releases all files of the pin and frees it. */
void content_pins_drop(struct content_pin *pin);

/* Marks the file as going until content_pins_gone. Returns false if it is
 * pinned. */
bool content_pins_go(struct content_pins *pins, const struct set *set,
                     const struct digest *digest);
void content_pins_gone(struct content_pins *pins);

/* Makes new pins wait from content_pins_shut to content_pins_unshut. Returns
 * false, and makes none wait, if `set` has pins (NULL: existing pins do not
 * matter). */
bool content_pins_shut(struct content_pins *pins, const struct set *set);
void content_pins_unshut(struct content_pins *pins);

/* Any thread: contents.h */

MUST_CHECK enum status content_pins_begin(struct content_pins *pins,
                                          struct set *set,
                                          struct content_pin **pin,
                                          struct problem *why);
