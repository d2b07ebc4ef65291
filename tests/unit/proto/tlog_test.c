#include "proto/tlog/note.h"
#include "tests/test.h"

#define LEAVES 700

static struct digest leaves[LEAVES]; /* their hashes */

static int
make_leaves(void **state)
{
    struct digest leaf;
    char text[16];

    (void)state;
    for (unsigned i = 0; i < LEAVES; i++) {
        snprintf(text, sizeof(text), "%u", i);
        digest_sha256(&leaf, slice_of(text));
        tree_leaf(&leaves[i], &leaf);
    }
    return 0;
}

FIXTURE(make_leaves, NULL);

/* RFC 6962 section 2.1, word for word. */
static struct digest
mth(uint64_t begin, uint64_t end)
{
    struct digest left, right;
    uint64_t k = 1;

    if (end - begin == 1)
        return leaves[begin];
    while (2 * k < end - begin)
        k *= 2;
    left = mth(begin, begin + k);
    right = mth(begin + k, end);
    tree_node(&left, &left, &right);
    return left;
}

/* Tiles of the tree of all leaves, of any width. */
static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    uint64_t *size = tiles->user, n = UINT64_C(1) << (8 * level);

    (void)why;
    assert_true(width <= tree_tile_width(*size, level, number));
    for (unsigned i = 0; i < width; i++)
        hashes[i] = mth((number * TILE_WIDTH + i) * n,
                        (number * TILE_WIDTH + i + 1) * n);
    return STATUS_OK;
}

/* Tiles of any tree. */
static enum status
read_any(const struct tree_tiles *tiles, unsigned level, uint64_t number,
         unsigned width, struct digest *hashes, struct problem *why)
{
    const uint64_t *size = tiles->user;

    (void)why;
    assert_true(width <= tree_tile_width(*size, level, number));
    memset(hashes, 1, width * sizeof(*hashes));
    return STATUS_OK;
}

TEST(a_tree_of_any_size_has_the_root_of_rfc_6962)
{
    uint64_t size = LEAVES;
    const struct tree_tiles tiles = {read_tile, &size};
    struct tree_edge edge = {.size = 0}, read;
    struct digest root, expected;
    char empty[DIGEST_TEXT_SIZE + 1];

    tree_edge_root(&edge, &root);
    digest_write(empty, &root);
    empty[DIGEST_TEXT_SIZE] = '\0';
    assert_string_equal(empty, "sha-256:e3b0c44298fc1c149afbf4c8996fb92427ae41"
                               "e4649b934ca495991b7852b855");
    for (uint64_t n = 1; n <= LEAVES; n++) {
        tree_edge_add(&edge, &leaves[n - 1]);
        tree_edge_root(&edge, &root);
        expected = mth(0, n);
        assert_memory_equal(&root, &expected, sizeof(root));
        if (n % 7 && n % 256)
            continue;
        size = n;
        assert_int_equal(tree_read_edge(&tiles, n, &read, NULL), STATUS_OK);
        tree_edge_root(&read, &root);
        assert_memory_equal(&root, &expected, sizeof(root));
    }
}

static void
flip(struct digest *hash, uint64_t bit)
{
    hash->bytes[bit / 8 % DIGEST_SIZE] ^= (uint8_t)(1 << (bit % 8));
}

TEST(a_way_proves_its_leaf_and_no_other)
{
    uint64_t size;
    const struct tree_tiles tiles = {read_tile, &size};
    struct tree_path path;
    struct digest root;

    for (size = 1; size <= 70; size++) {
        root = mth(0, size);
        for (uint64_t i = 0; i < size; i++) {
            assert_int_equal(tree_inclusion(&tiles, i, size, &path, NULL), 0);
            assert_true(tree_includes(i, size, &leaves[i], &path, &root));
            for (uint64_t j = 0; j <= size; j++)
                assert_int_equal(
                    tree_includes(j, size, &leaves[i], &path, &root), i == j);
            assert_false(tree_includes(i, size, &leaves[(i + 1) % LEAVES],
                                       &path, &root));
            for (unsigned h = 0; h < path.n; h++) {
                flip(&path.hashes[h], i + size);
                assert_false(tree_includes(i, size, &leaves[i], &path, &root));
                flip(&path.hashes[h], i + size);
            }
            path.n++;
            assert_false(tree_includes(i, size, &leaves[i], &path, &root));
        }
    }
}

TEST(a_way_proves_that_a_tree_continues_another)
{
    uint64_t size;
    const struct tree_tiles tiles = {read_tile, &size};
    struct tree_path path;
    struct digest from, root;

    for (size = 1; size <= 70; size++) {
        root = mth(0, size);
        for (uint64_t n = 1; n <= size; n++) {
            from = mth(0, n);
            assert_int_equal(tree_consistency(&tiles, n, size, &path, NULL), 0);
            assert_true(tree_continues(n, &from, size, &root, &path));
            flip(&from, n);
            assert_false(tree_continues(n, &from, size, &root, &path));
            flip(&from, n);
            for (unsigned h = 0; h < path.n; h++) {
                flip(&path.hashes[h], n + size);
                assert_false(tree_continues(n, &from, size, &root, &path));
                flip(&path.hashes[h], n + size);
            }
            assert_false(n > 1 &&
                         tree_continues(n - 1, &from, size, &root, &path));
        }
        assert_false(tree_continues(0, &root, size, &root, &path));
        assert_false(tree_continues(size + 1, &root, size, &root, &path));
    }
}

/* C2SP tlog-tiles: its examples, and forms that it does not have. */
TEST(reads_and_writes_addresses_of_tiles)
{
    static const struct {
        const char *path;
        unsigned level;
        uint64_t number;
        unsigned width; /* 0: no address */
    } rows[] = {
        {"0/000", 0, 0, 256},
        {"0/x001/x234/067", 0, 1234067, 256},
        {"1/x001/234.p/17", 1, 1234, 17},
        {"7/999.p/255", 7, 999, 255},
        {"8/000", 0, 0, 0},
        {"00/000", 0, 0, 0},
        {"0/00", 0, 0, 0},
        {"0/0000", 0, 0, 0},
        {"0/x000/001", 0, 0, 0},
        {"0/001/002", 0, 0, 0},
        {"0/x001", 0, 0, 0},
        {"0/000.p/0", 0, 0, 0},
        {"0/000.p/256", 0, 0, 0},
        {"0/000.p/01", 0, 0, 0},
        {"0/000.p/", 0, 0, 0},
        {"0/000.q/1", 0, 0, 0},
        {"0/000/", 0, 0, 0},
        {"0", 0, 0, 0},
        {"", 0, 0, 0},
        {"0/x999/x999/x999/x999/x999/x999/x999/999", 0, 0, 0},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        char text[TILE_PATH_SIZE];
        unsigned level = 0, width = 0;
        uint64_t number = 0;

        if (tree_tile_read(slice_of(rows[i].path), &level, &number, &width) !=
            (rows[i].width > 0))
            fail_msg("%s", rows[i].path);
        if (rows[i].width == 0)
            continue;
        assert_int_equal(level, rows[i].level);
        assert_int_equal(number, rows[i].number);
        assert_int_equal(width, rows[i].width);
        tree_tile_write(text, level, number, width);
        assert_string_equal(text, rows[i].path);
    }
    assert_int_equal(tree_tile_width(70000, 0, 272), 256);
    assert_int_equal(tree_tile_width(70000, 0, 273), 112);
    assert_int_equal(tree_tile_width(70000, 1, 1), 17);
    assert_int_equal(tree_tile_width(70000, 2, 0), 1);
    assert_int_equal(tree_tile_width(70000, 3, 0), 0);
    assert_int_equal(tree_tile_width(256, 0, 1), 0);
}

/* The example of C2SP signed-note. */
TEST(checks_the_example_of_signed_notes)
{
    static const char key_text[] =
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    static const char text[] =
        "This is an example message.\n\n"
        "\xe2\x80\x94 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2"
        "ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";
    char again[NOTE_KEY_SIZE], altered[sizeof(text)];
    struct note_key key;
    struct note note;
    uint64_t time_s;
    struct problem why = {""};

    assert_int_equal(note_key_read(slice_of(key_text), &key, NULL), 0);
    note_key_write(again, &key);
    assert_string_equal(again, key_text);
    assert_int_equal(note_read(slice_of(text), &note, NULL), 0);
    assert_int_equal(note_check(&note, &key, &time_s, &why), STATUS_OK);
    for (size_t bit = 0; bit < 8 * note.text.size; bit++) {
        memcpy(altered, text, sizeof(text));
        altered[bit / 8] ^= (char)(1 << (bit % 8));
        if (!note_read(slice_of(altered), &note, NULL))
            assert_int_equal(note_check(&note, &key, &time_s, &why),
                             STATUS_DIFFERENT);
    }
}

/* What no verifier key is. */
TEST(refuses_keys_that_were_altered)
{
    static const char *const rows[] = {
        "",
        "example.com/foo",
        "example.com/foo+530d903a",
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2",
        "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/fop+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "example.com/foo+530d903a+AukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    };
    struct note_key key;

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        assert_int_equal(note_key_read(slice_of(rows[i]), &key, NULL),
                         STATUS_INVALID);
}

TEST(signs_checkpoints_and_cosignatures)
{
    static const char name[] = "example.com/sets/news/1";
    struct checkpoint checkpoint = {slice_of(name), 3, mth(0, 3)}, read;
    unsigned char secret[SIGNING_KEY_SIZE] = "0123456789abcdef0123456789abcdef";
    struct signing_key *pair = signing_key_new(secret);
    struct note_key log = {.kind = NOTE_SIGNATURE},
                    witness = {.kind = NOTE_COSIGNATURE}, none;
    struct tree_path path;
    struct tlog_proof proof;
    uint64_t size = 3, time_s;
    const struct tree_tiles tiles = {read_tile, &size};
    struct note note;
    struct buf to = {.max = NOTE_BYTES_MAX}, lines = {.max = NOTE_BYTES_MAX};
    struct slice text;

    snprintf(log.name, sizeof(log.name), "%s", name);
    snprintf(witness.name, sizeof(witness.name), "witness.example/w");
    memcpy(log.public, signing_key_public(pair), SIGNING_KEY_SIZE);
    memcpy(witness.public, signing_key_public(pair), SIGNING_KEY_SIZE);
    none = log;
    strcat(none.name, "2");

    assert_int_equal(tree_inclusion(&tiles, 1, 3, &path, NULL), STATUS_OK);
    tlog_proof_write(&to, SLICE("what the leaf is made of"), 1, &path);
    text.data = NULL;
    text.size = to.size;
    checkpoint_write(&to, &checkpoint);
    text = slice_from(buf_slice(&to), text.size);
    text.size--;
    text.data = slice_dup(text);
    assert_true(note_sign(&to, text, log.name, pair, NOTE_SIGNATURE, 0));
    assert_true(
        note_sign(&to, text, witness.name, pair, NOTE_COSIGNATURE, 1679315147));

    assert_int_equal(tlog_proof_read(buf_slice(&to), &proof, NULL), STATUS_OK);
    assert_int_equal(proof.index, 1);
    assert_true(slice_is(proof.extra, "d2hhdCB0aGUgbGVhZiBpcyBtYWRlIG9m"));
    assert_int_equal(proof.path.n, path.n);
    note = proof.note;
    assert_int_equal(checkpoint_read(&note, &read, NULL), STATUS_OK);
    assert_true(slice_is(read.origin, name));
    assert_int_equal(read.size, 3);
    assert_true(digest_is_equal(&read.root, &checkpoint.root));
    assert_true(tree_includes(proof.index, read.size, &leaves[1], &proof.path,
                              &read.root));
    assert_int_equal(note_check(&note, &log, &time_s, NULL), STATUS_OK);
    assert_int_equal(time_s, 0);
    assert_int_equal(note_check(&note, &witness, &time_s, NULL), STATUS_OK);
    assert_int_equal(time_s, 1679315147);
    assert_int_equal(note_check(&note, &none, &time_s, NULL), STATUS_NOT_FOUND);

    /* A right signature is copied, and no other; a cosignature needs a time. */
    assert_true(note_copy_signature(&note, &log, &lines));
    assert_true(note_copy_signature(&note, &witness, &lines));
    assert_true(slice_equal(buf_slice(&lines), note.signatures));
    assert_false(note_copy_signature(&note, &none, &lines));
    witness.public[0] ^= 1;
    assert_false(note_copy_signature(&note, &witness, &lines));
    witness.public[0] ^= 1;
    buf_clear(&lines);
    assert_true(
        note_sign(&lines, text, witness.name, pair, NOTE_COSIGNATURE, 0));
    note.signatures = buf_slice(&lines);
    assert_int_equal(note_check(&note, &witness, &time_s, NULL), STATUS_OK);
    assert_false(note_copy_signature(&note, &witness, &lines));
    buf_fini(&lines);
    free((char *)(uintptr_t)text.data);
    buf_fini(&to);
    signing_key_free(pair);
}

/* A note has signatures of keys and kinds that nobody here knows, in any order,
 * and nothing else behind its text. R-454 */
TEST(reads_long_and_unknown_signatures)
{
    static const char *const garbage[] = {
        "x\n",
        "\xe2\x80\x94 a\n",
        "\xe2\x80\x94 a \n",
        "\xe2\x80\x94  AAAAAAAA\n",
        "\xe2\x80\x94 a AAAA\n",
        "\xe2\x80\x94 a AAAA AAAA\n",
        "- a AAAAAAAA\n",
        "\xe2\x80\x94 a AAAAAAA!\n",
        " \n",
    };
    unsigned char secret[SIGNING_KEY_SIZE] = "0123456789abcdef0123456789abcdef";
    struct signing_key *pair = signing_key_new(secret);
    struct note_key key = {.name = "log.example", .kind = NOTE_SIGNATURE};
    static const char text[] = "log.example\n1\n";
    struct buf note_text = {.max = 1 << 20};
    char body[8193];
    struct note note;
    uint64_t time_s;

    memset(body, 'A', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    memcpy(key.public, signing_key_public(pair), SIGNING_KEY_SIZE);
    for (unsigned place = 0; place < 16; place += 5) {
        buf_clear(&note_text);
        buf_add_format(&note_text, "%s\n", text);
        for (unsigned i = 0; i < 16; i++) {
            if (i == place)
                assert_true(note_sign(&note_text, slice_of(text), key.name,
                                      pair, NOTE_SIGNATURE, 0));
            else
                buf_add_format(&note_text, "\xe2\x80\x94 w%u.example %s\n", i,
                               body);
        }
        assert_int_equal(note_read(buf_slice(&note_text), &note, NULL), 0);
        assert_int_equal(note_check(&note, &key, &time_s, NULL), 0);
    }
    for (size_t i = 0; i < N_ELEMENTS(garbage); i++) {
        buf_clear(&note_text);
        buf_add_format(&note_text, "%s\n", text);
        assert_true(note_sign(&note_text, slice_of(text), key.name, pair,
                              NOTE_SIGNATURE, 0));
        assert_int_equal(note_read(buf_slice(&note_text), &note, NULL), 0);
        buf_add_text(&note_text, garbage[i]);
        assert_int_equal(note_read(buf_slice(&note_text), &note, NULL),
                         STATUS_MALFORMED);
    }
    buf_fini(&note_text);
    signing_key_free(pair);
}

TEST(refuses_what_is_no_checkpoint_and_no_proof)
{
    static const char *const checkpoints[] = {
        "",
        "a\n1\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
        "a\n01\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
        "a\n-1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
        "a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\n\n",
        "a\r\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
        "a\x01\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
        "a\xff\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
    };
    static const char *const proofs[] = {
        "",
        "c2sp.org/tlog-proof@v2\nindex 0\n\na\n1\n",
        "c2sp.org/tlog-proof@v1\nindex 01\n\na\n1\n\nb\n",
        "c2sp.org/tlog-proof@v1\nextra x\nextra y\nindex 1\n\na\n\n",
        "c2sp.org/tlog-proof@v1\nextra \nindex 1\n\na\n\n\xe2\x80\x94 a "
        "AAAAAAA=\n",
        "c2sp.org/tlog-proof@v1\nindex 1\nAAAA\n\na\n1\n\nb\n",
        "c2sp.org/tlog-proof@v1\nindex 1\n\na\n1\n",
    };
    struct checkpoint checkpoint;
    struct tlog_proof proof;
    struct note note;

    for (size_t i = 0; i < N_ELEMENTS(checkpoints); i++)
        if (!note_read(slice_of(checkpoints[i]), &note, NULL))
            assert_int_equal(checkpoint_read(&note, &checkpoint, NULL),
                             STATUS_MALFORMED);
    for (size_t i = 0; i < N_ELEMENTS(proofs); i++)
        assert_int_equal(tlog_proof_read(slice_of(proofs[i]), &proof, NULL),
                         STATUS_MALFORMED);
}

/* A size is signed by others, and of 64 bits in the format: an edge has a place
 * for each of its roots, and a checkpoint one that all parts can count. */
TEST(bounds_the_size_of_a_tree)
{
    static const struct {
        const char *size;
        uint64_t number; /* 0: no checkpoint */
    } rows[] = {
        {"1", 1},
        {"9223372036854775807", TREE_SIZE_MAX},
        {"9223372036854775808", 0},
        {"18446744073709551615", 0},
        {"18446744073709551616", 0},
    };

    struct {
        struct tree_edge edge;
        struct digest behind;
    } room;
    const struct digest zero = {{0}};

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct checkpoint checkpoint = {.size = 0};
        char text[200];
        struct note note;

        snprintf(text, sizeof(text),
                 "a\n%s\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
                 rows[i].size);
        assert_int_equal(note_read(slice_of(text), &note, NULL), STATUS_OK);
        if (checkpoint_read(&note, &checkpoint, NULL) !=
            (rows[i].number ? STATUS_OK : STATUS_MALFORMED))
            fail_msg("%s", rows[i].size);
        assert_true(!rows[i].number || checkpoint.size == rows[i].number);
    }
    for (unsigned bits = 60; bits <= 64; bits++) {
        uint64_t size = UINT64_MAX >> (64 - bits);
        const struct tree_tiles tiles = {read_any, &size};
        struct digest root;

        memset(&room, 0, sizeof(room));
        assert_int_equal(tree_read_edge(&tiles, size, &room.edge, NULL), 0);
        assert_true(digest_is_equal(&room.behind, &zero));
        assert_false(digest_is_equal(&room.edge.roots[bits - 1], &zero));
        tree_edge_root(&room.edge, &root);
        tree_edge_add(&room.edge, &leaves[0]);
        assert_true(digest_is_equal(&room.behind, &zero));
        assert_true(room.edge.size == size + 1);
    }
}

/* A time is signed by others, too. */
TEST(refuses_a_cosignature_of_a_time_without_a_date)
{
    static const struct {
        uint64_t time_s;
        enum status rc;
    } rows[] = {
        {1679315147, STATUS_OK},          {253402300799, STATUS_OK},
        {253402300800, STATUS_DIFFERENT}, {INT64_MAX, STATUS_DIFFERENT},
        {UINT64_MAX, STATUS_DIFFERENT},
    };

    static const char text[] = "a\n1\nb\n";
    unsigned char secret[SIGNING_KEY_SIZE] = "0123456789abcdef0123456789abcdef";
    struct signing_key *pair = signing_key_new(secret);
    struct note_key key = {.name = "w", .kind = NOTE_COSIGNATURE};

    memcpy(key.public, signing_key_public(pair), SIGNING_KEY_SIZE);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        bool is_good = !rows[i].rc;
        struct buf to = {.max = NOTE_BYTES_MAX};
        struct note note = {.text = slice_of(text)};
        uint64_t time_s;

        assert_true(note_sign(&to, note.text, key.name, pair, key.kind,
                              rows[i].time_s));
        note.signatures = buf_slice(&to);
        assert_int_equal(note_check(&note, &key, &time_s, NULL), rows[i].rc);
        assert_int_equal(note_time(&note),
                         is_good ? (int64_t)rows[i].time_s : 0);
        buf_fini(&to);
    }
    signing_key_free(pair);
}
