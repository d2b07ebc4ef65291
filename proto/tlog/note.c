#include "proto/tlog/note.h"

#include <openssl/evp.h>

#include "proto/base64.h"
#include "proto/datetime.h"
#include "proto/number.h"
#include "proto/utf8.h"

#define DASH "\xe2\x80\x94 "
#define BASE64 \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
#define PROOF_LINE "c2sp.org/tlog-proof@v1"
#define ID_SIZE    4
#define TIME_SIZE  8

/* The end of the year 9999: no text has a later time. */
#define TIME_MAX_S (DATETIME_LAST / 1000000)

/* Bytes of the longest signature that is read here. */
#define SIGNED_MAX (ID_SIZE + TIME_SIZE + SIGNATURE_BYTES)

/* Base64 */

static void
base64_add(struct buf *to, const void *bytes, size_t size)
{
    char *room = buf_room(to, 4 * ((size + 2) / 3) + 1);

    if (room)
        to->size +=
            (size_t)EVP_EncodeBlock((unsigned char *)room, bytes, (int)size);
}

/* Reads exactly `size` bytes, in their only form: no bit of the text is without
 * a meaning. */
static bool
base64_is(struct slice text, unsigned char *bytes, size_t size)
{
    unsigned char room[2 * SIGNED_MAX];
    char again[2 * SIGNED_MAX];

    if (BASE64_ROOM(text) > sizeof(room) ||
        base64_decode(text, room) != (long)size)
        return false;
    EVP_EncodeBlock((unsigned char *)again, room, (int)size);
    memcpy(bytes, room, size);
    return slice_is(text, again);
}

static void
hash_line_write(struct buf *to, const struct digest *hash)
{
    base64_add(to, hash->bytes, DIGEST_SIZE);
    BUF_ADD(to, "\n");
}

/* Reads and removes a hash in base64, a line. */
static bool
hash_line_take(struct slice *lines, struct digest *hash)
{
    struct slice rest = *lines, line = slice_take(&rest, '\n');

    if (!base64_is(line, hash->bytes, DIGEST_SIZE))
        return false;
    *lines = rest;
    return true;
}

void
tree_path_write(struct buf *to, const struct tree_path *path)
{
    for (unsigned i = 0; i < path->n; i++)
        hash_line_write(to, &path->hashes[i]);
    BUF_ADD(to, "\n");
}

bool
tree_path_take(struct slice *lines, struct tree_path *path)
{
    path->n = 0;
    while (path->n < N_ELEMENTS(path->hashes) &&
           hash_line_take(lines, &path->hashes[path->n]))
        path->n++;
    return slice_skip_start(lines, "\n");
}

/* Keys */

static void
key_id(const char *name, enum note_kind kind, const unsigned char *public,
       unsigned char id[ID_SIZE])
{
    char text[NOTE_NAME_SIZE + 2 + SIGNING_KEY_SIZE];
    size_t size = (size_t)(stpcpy(stpcpy(text, name), "\n") - text);
    struct digest digest;

    text[size++] = (char)kind;
    memcpy(text + size, public, SIGNING_KEY_SIZE);
    digest_sha256(&digest, (struct slice){text, size + SIGNING_KEY_SIZE});
    memcpy(id, digest.bytes, ID_SIZE);
}

/* A name has no spaces, no plus, and nothing that a terminal heeds. */
static bool
may_be_name(struct slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] == '+' || slice_is_space(name.data[i]) ||
            slice_is_control(name.data[i]))
            return false;
    return name.size > 0 && name.size < NOTE_NAME_SIZE &&
           utf8_is_xml_text(name);
}

enum status
note_key_read(struct slice text, struct note_key *key, struct problem *why)
{
    struct slice rest = slice_without_spaces(text),
                 name = slice_take(&rest, '+'), hex = slice_take(&rest, '+');
    unsigned char id[ID_SIZE], expected[ID_SIZE], bytes[1 + SIGNING_KEY_SIZE];

    if (!may_be_name(name) || !hex_read(hex, id, ID_SIZE) ||
        !base64_is(rest, bytes, sizeof(bytes)))
        return problem(why, STATUS_INVALID,
                       "\"%s\" is no verifier key of Ed25519: NAME+HEX+BASE64",
                       problem_quote(text).text);
    if (bytes[0] != NOTE_SIGNATURE && bytes[0] != NOTE_COSIGNATURE)
        return problem(why, STATUS_INVALID,
                       "the verifier key of %.*s is of kind %u: those of "
                       "Ed25519, 1 and 4, are read",
                       SLICE_ARG(name), bytes[0]);
    slice_copy(key->name, sizeof(key->name), name);
    key->kind = (enum note_kind)bytes[0];
    memcpy(key->public, bytes + 1, SIGNING_KEY_SIZE);
    key_id(key->name, key->kind, key->public, expected);
    return memcmp(id, expected, ID_SIZE) == 0
               ? STATUS_OK
               : problem(why, STATUS_INVALID,
                         "the verifier key of %s was altered: its ID is not "
                         "that of its bytes",
                         key->name);
}

void
note_key_write(char to[NOTE_KEY_SIZE], const struct note_key *key)
{
    unsigned char id[ID_SIZE], bytes[1 + SIGNING_KEY_SIZE];
    struct buf text;

    bytes[0] = (unsigned char)key->kind;
    memcpy(bytes + 1, key->public, SIGNING_KEY_SIZE);
    key_id(key->name, key->kind, key->public, id);
    buf_init_fixed(&text, to, NOTE_KEY_SIZE);
    buf_add_text(&text, key->name);
    BUF_ADD(&text, "+");
    buf_add_hex(&text, id, ID_SIZE);
    BUF_ADD(&text, "+");
    base64_add(&text, bytes, sizeof(bytes));
    buf_add(&text, "", 1);
}

struct note_key
note_cosigner(const struct note_key *log, bool is_former)
{
    struct note_key key = *log;
    char *slash;

    key.kind = NOTE_COSIGNATURE;
    for (int i = 0; !is_former && i < 3; i++)
        if ((slash = strrchr(key.name, '/')) && slash > key.name)
            *slash = '\0';
    return key;
}

/* Notes */

static bool
is_plain(struct slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if ((unsigned char)bytes.data[i] < ' ' && bytes.data[i] != '\n')
            return false;
    return utf8_is_xml_text(bytes);
}

/* A line of a signature of any kind, also of one that nobody here can check:
 * the ID of its key and at least a byte, in base64. */
static bool
is_signature(struct slice line)
{
    if (!slice_skip_start(&line, DASH) || slice_take(&line, ' ').size == 0)
        return false;
    for (size_t i = 0; i < line.size; i++)
        if (!memchr(BASE64, line.data[i], sizeof(BASE64) - 1))
            return false;
    return line.size >= 8;
}

enum status
note_read(struct slice bytes, struct note *note, struct problem *why)
{
    const char *gap = NULL;
    struct slice rest;

    if (bytes.size > NOTE_BYTES_MAX)
        return problem(why, STATUS_MALFORMED, "it has more than %d bytes",
                       NOTE_BYTES_MAX);
    for (size_t i = 0; i + 1 < bytes.size; i++)
        if (bytes.data[i] == '\n' && bytes.data[i + 1] == '\n')
            gap = bytes.data + i + 1;
    if (!gap || !is_plain(bytes) || bytes.data[bytes.size - 1] != '\n')
        return problem(why, STATUS_MALFORMED,
                       "it is no signed note: a text, an empty line, and "
                       "signatures");
    note->text = slice_between(bytes.data, gap);
    note->signatures = rest = slice_between(gap + 1, bytes.data + bytes.size);
    while (rest.size > 0)
        if (!is_signature(slice_take(&rest, '\n')))
            return problem(why, STATUS_MALFORMED,
                           "it has something else than signatures behind its "
                           "text");
    return STATUS_OK;
}

enum status
checkpoint_read(const struct note *note, struct checkpoint *checkpoint,
                struct problem *why)
{
    struct slice rest = note->text;
    struct slice size;

    checkpoint->origin = slice_take(&rest, '\n');
    size = slice_take(&rest, '\n');
    if (checkpoint->origin.size == 0 ||
        !number_read_plain(size, &checkpoint->size) ||
        !hash_line_take(&rest, &checkpoint->root))
        return problem(why, STATUS_MALFORMED,
                       "it is no checkpoint: an origin, a size and a root, a "
                       "line each");
    if (checkpoint->size > TREE_SIZE_MAX)
        return problem(why, STATUS_MALFORMED,
                       "its tree has %" PRIu64 " entries, more than any log",
                       checkpoint->size);
    return STATUS_OK;
}

void
checkpoint_write(struct buf *to, const struct checkpoint *checkpoint)
{
    buf_add_slice(to, checkpoint->origin);
    BUF_ADD(to, "\n");
    buf_add_number(to, checkpoint->size);
    BUF_ADD(to, "\n");
    hash_line_write(to, &checkpoint->root);
    BUF_ADD(to, "\n");
}

/* The bytes that a signature of that kind signs. */
static void
write_signed(struct buf *to, enum note_kind kind, struct slice text,
             uint64_t time_s)
{
    if (kind == NOTE_COSIGNATURE)
        buf_add_format(to, "cosignature/v1\ntime %" PRIu64 "\n", time_s);
    buf_add_slice(to, text);
}

bool
note_sign(struct buf *to, struct slice text, const char *name,
          const struct signing_key *key, enum note_kind kind, uint64_t time_s)
{
    unsigned char bytes[SIGNED_MAX];
    struct buf signature, message = {.max = NOTE_BYTES_MAX + 64};
    bool is_signed;

    buf_init_fixed(&signature, (char *)bytes, sizeof(bytes));
    key_id(name, kind, signing_key_public(key), bytes);
    signature.size = ID_SIZE;
    if (kind == NOTE_COSIGNATURE)
        buf_add_big_endian(&signature, time_s, TIME_SIZE);
    write_signed(&message, kind, text, time_s);
    is_signed = !message.failed && signing_key_sign(key, buf_slice(&message),
                                                    bytes + signature.size);
    buf_fini(&message);
    BUF_ADD(to, DASH);
    buf_add_text(to, name);
    BUF_ADD(to, " ");
    base64_add(to, bytes, signature.size + SIGNATURE_BYTES);
    BUF_ADD(to, "\n");
    return is_signed;
}

/* As note_check; *line: the signature's. */
static enum status
check_line(const struct note *note, const struct note_key *key,
           uint64_t *time_s, struct slice *line, struct problem *why)
{
    size_t size = SIGNED_MAX - (key->kind == NOTE_COSIGNATURE ? 0 : TIME_SIZE);
    struct slice rest = note->signatures;
    unsigned char bytes[SIGNED_MAX], id[ID_SIZE];

    *time_s = 0;
    key_id(key->name, key->kind, key->public, id);
    while (rest.size > 0) {
        struct slice signature = {(char *)bytes + ID_SIZE, size - ID_SIZE},
                     text;
        struct buf message = {.max = NOTE_BYTES_MAX + 64};
        bool is_right;

        text = *line = slice_take(&rest, '\n');
        if (!slice_skip_start(&text, DASH) ||
            !slice_is(slice_take(&text, ' '), key->name) ||
            !base64_is(text, bytes, size) || memcmp(id, bytes, ID_SIZE) != 0)
            continue;
        if (key->kind == NOTE_COSIGNATURE)
            (void)!slice_take_big_endian(&signature, time_s, TIME_SIZE);
        write_signed(&message, key->kind, note->text, *time_s);
        is_right = !message.failed && *time_s <= TIME_MAX_S &&
                   signature_is_of(key->public, buf_slice(&message),
                                   (const unsigned char *)signature.data);
        buf_fini(&message);
        return is_right ? STATUS_OK
                        : problem(why, STATUS_DIFFERENT,
                                  "the signature of %s is wrong", key->name);
    }
    return problem(why, STATUS_NOT_FOUND, "it has no signature of %s",
                   key->name);
}

enum status
note_check(const struct note *note, const struct note_key *key,
           uint64_t *time_s, struct problem *why)
{
    struct slice line;

    return check_line(note, key, time_s, &line, why);
}

int64_t
note_time(const struct note *note)
{
    struct slice rest = note->signatures;
    unsigned char bytes[SIGNED_MAX];
    uint64_t time_s = 0;

    while (rest.size > 0 && time_s == 0) {
        struct slice line = slice_take(&rest, '\n');
        struct slice time = {(char *)bytes + ID_SIZE, TIME_SIZE};

        if (!slice_skip_start(&line, DASH))
            continue;
        (void)slice_take(&line, ' ');
        if (base64_is(line, bytes, SIGNED_MAX))
            (void)!slice_take_big_endian(&time, &time_s, TIME_SIZE);
    }
    return time_s <= TIME_MAX_S ? (int64_t)time_s : 0;
}

bool
note_copy_signature(const struct note *note, const struct note_key *key,
                    struct buf *to)
{
    uint64_t time_s;
    struct slice line;

    if (check_line(note, key, &time_s, &line, NULL) ||
        (key->kind == NOTE_COSIGNATURE && time_s == 0))
        return false;
    buf_add_slice(to, line);
    BUF_ADD(to, "\n");
    return true;
}

/* Proofs */

enum status
tlog_proof_read(struct slice bytes, struct tlog_proof *proof,
                struct problem *why)
{
    struct slice rest = bytes, line = slice_take(&rest, '\n');
    bool is_proof = slice_is(line, PROOF_LINE);

    proof->extra = (struct slice){NULL, 0};
    if (slice_skip_start(&rest, "extra ")) {
        proof->extra = slice_take(&rest, '\n');
        is_proof = is_proof && proof->extra.size > 0;
    }
    line = slice_take(&rest, '\n');
    if (!is_proof || !slice_skip_start(&line, "index ") ||
        !number_read_plain(line, &proof->index) ||
        !tree_path_take(&rest, &proof->path))
        return problem(why, STATUS_MALFORMED,
                       "it is no proof of a transparency log: " PROOF_LINE
                       ", index, hashes, an empty line and a checkpoint");
    return note_read(rest, &proof->note, why);
}

void
tlog_proof_write(struct buf *to, struct slice extra, uint64_t index,
                 const struct tree_path *path)
{
    BUF_ADD(to, PROOF_LINE "\n");
    if (extra.size > 0) {
        BUF_ADD(to, "extra ");
        base64_add(to, extra.data, extra.size);
        BUF_ADD(to, "\n");
    }
    buf_add_format(to, "index %" PRIu64 "\n", index);
    tree_path_write(to, path);
}
