#include "proto/tlog/note.h"

#include "tests/fuzz/fuzz.h"

/* The key of the example of C2SP signed-note, which its corpus has. */
static const char known[] =
    "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

static void
check_key(struct slice text)
{
    struct problem why = {""};
    struct note_key key, again;
    char written[NOTE_KEY_SIZE];

    if (note_key_read(text, &key, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    note_key_write(written, &key);
    FUZZ_ASSERT(slice_is_word(slice_without_spaces(text), written));
    FUZZ_ASSERT(!note_key_read(slice_of(written), &again, &why));
    FUZZ_ASSERT(again.kind == key.kind && !strcmp(again.name, key.name));
}

static void
check_checkpoint(const struct note *note)
{
    struct problem why = {""};
    struct checkpoint one, other;
    struct note again;
    struct buf text = {.max = NOTE_BYTES_MAX + 100};

    if (checkpoint_read(note, &one, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(one.size <= TREE_SIZE_MAX);
    checkpoint_write(&text, &one);
    FUZZ_ASSERT(!note_read(buf_slice(&text), &again, &why));
    FUZZ_ASSERT(!checkpoint_read(&again, &other, &why));
    FUZZ_ASSERT(slice_equal(one.origin, other.origin));
    FUZZ_ASSERT(one.size == other.size &&
                digest_is_equal(&one.root, &other.root));
    buf_fini(&text);
}

/* Reads a note, its text and its signatures. Each part lies within the note.
 * The fuzz target writes what the reader accepts, and reads the same again. */
FUZZ_TARGET(note, text)
{
    struct problem why = {""};
    struct buf line = {.max = NOTE_BYTES_MAX};
    struct note_key key;
    struct note note;
    uint64_t time_s;
    int64_t last_s = DATETIME_LAST / 1000000;

    check_key(text);
    if (note_read(text, &note, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(note.text.size + note.signatures.size + 1 == text.size);
    FUZZ_ASSERT(note_time(&note) >= 0 && note_time(&note) <= last_s);
    check_checkpoint(&note);
    FUZZ_ASSERT(!note_key_read(slice_of(known), &key, &why));
    for (int i = 0; i < 2; i++, key.kind = NOTE_COSIGNATURE) {
        enum status rc = note_check(&note, &key, &time_s, &why);
        bool is_copied = note_copy_signature(&note, &key, &line);

        FUZZ_ASSERT(rc || time_s <= (uint64_t)last_s);
        FUZZ_ASSERT(!is_copied || !rc);
        if (rc)
            fuzz_check_problem(&why);
    }
    buf_fini(&line);
}
