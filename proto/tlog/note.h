/*
 * note.h - signed notes, checkpoints and their cosignatures, and proofs of an
 * entry (C2SP signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof).
 *
 *     example.com/sets/news/4e1f        origin
 *     3                                 size: of the tree (tree.h)
 *     CsUYapGG...                       its root, in base64
 *
 *     - example.com/sets/news/4e1f Az3g...  of the log (the dash is U+2014)
 *     - witness.example/w1 jWbPPw...        a cosignature: a time, too
 *
 * A key has a name, and as a text
 *
 *     NAME+HEX+BASE64     HEX: the 4 bytes of its ID; the kind and 32 bytes
 *
 * Pure; any thread.
 */
#pragma once

#include "proto/signing_key.h"
#include "proto/tlog/tree.h"

/* The longest note that is read: a checkpoint with 16 signatures of 6 KB, as
 * those that no quantum computer forges have. */
#define NOTE_BYTES_MAX (160 * 1024)

/* The longest name of a key, and its text, each with a NUL. */
#define NOTE_NAME_SIZE 768
#define NOTE_KEY_SIZE  (NOTE_NAME_SIZE + 64)

enum note_kind {
    NOTE_SIGNATURE = 1,  /* of a log */
    NOTE_COSIGNATURE = 4 /* of who saw the checkpoint at a time */
};

/* Who may check signatures of a key. */
struct note_key {
    char name[NOTE_NAME_SIZE];
    enum note_kind kind;
    unsigned char public[SIGNING_KEY_SIZE];
};

/* STATUS_INVALID: the text is no key of these kinds; `why` says so. */
MUST_CHECK enum status note_key_read(struct slice text, struct note_key *key,
                                     struct problem *why);
void note_key_write(char to[NOTE_KEY_SIZE], const struct note_key *key);

/* The key of a log as a cosigner: with it the log signs the time of a
 * checkpoint. A cosignature has not its cosigner's name, so a key has one name
 * for all logs that it signs: the origin without /sets/NAME/EPOCH. `is_former`:
 * the origin, as before. */
struct note_key note_cosigner(const struct note_key *log, bool is_former);

/* A note, lent by the text that it was read from. */
struct note {
    struct slice text; /* with its last line end */
    struct slice signatures;
};

/* STATUS_MALFORMED: no note, or something else than signatures is behind the
 * text. Checks no signature. */
MUST_CHECK enum status note_read(struct slice bytes, struct note *note,
                                 struct problem *why);

/* What a checkpoint says. */
struct checkpoint {
    struct slice origin; /* lent */
    uint64_t size;
    struct digest root;
};

/* STATUS_MALFORMED: the text is none of a checkpoint, or of a tree of more than
 * TREE_SIZE_MAX leaves. */
MUST_CHECK enum status checkpoint_read(const struct note *note,
                                       struct checkpoint *checkpoint,
                                       struct problem *why);

/* Appends the text of a checkpoint, and the empty line before signatures. */
void checkpoint_write(struct buf *to, const struct checkpoint *checkpoint);

/* Appends the signature of a checkpoint as its next line. `text`: note.text.
 * `time_s`: when a cosignature is made. False: no memory. */
MUST_CHECK bool note_sign(struct buf *to, struct slice text, const char *name,
                          const struct signing_key *key, enum note_kind kind,
                          uint64_t time_s);

/* Looks for the signature of a key, and sets *time_s to the time of a
 * cosignature, else to 0. STATUS_NOT_FOUND: it has none. STATUS_DIFFERENT: it
 * is wrong, or of a time behind the year 9999. */
MUST_CHECK enum status note_check(const struct note *note,
                                  const struct note_key *key, uint64_t *time_s,
                                  struct problem *why);

/* The time of the first cosignature, unchecked: that of the log itself, which
 * signs first. 0: there is none. */
int64_t note_time(const struct note *note);

/* Appends the line of that signature to `to`, if it is right. False: it is not,
 * or there is none. */
bool note_copy_signature(const struct note *note, const struct note_key *key,
                         struct buf *to);

/* An entry's place in the tree of a checkpoint. A broker puts into `extra` what
 * the leaf is made of: the digest of the log before the entry, and the entry.
 */
struct tlog_proof {
    struct slice extra; /* in base64; lent; empty: none */
    uint64_t index;
    struct tree_path path;
    struct note note; /* the checkpoint; lent */
};

MUST_CHECK enum status tlog_proof_read(struct slice bytes,
                                       struct tlog_proof *proof,
                                       struct problem *why);

/* Appends a proof up to the checkpoint, which follows. The checkpoint does not
 * sign `extra`; an empty one is left out. */
void tlog_proof_write(struct buf *to, struct slice extra, uint64_t index,
                      const struct tree_path *path);

/* Appends the hashes of a way in base64, a line each, and an empty line; reads
 * and removes them. False: it is none. */
void tree_path_write(struct buf *to, const struct tree_path *path);
bool tree_path_take(struct slice *lines, struct tree_path *path);
