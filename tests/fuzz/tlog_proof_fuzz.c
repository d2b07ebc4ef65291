#include "proto/tlog/note.h"
#include "tests/fuzz/fuzz.h"

/* A proof is refused with a reason, or its way is written again as it stands;
 * the way of somebody else leads nowhere, whatever sizes it is for. */
FUZZ_TARGET(tlog_proof, text)
{
    static const struct digest leaf = {{1}};
    struct problem why = {""};
    struct tlog_proof proof;
    struct checkpoint checkpoint;
    struct buf again = {.max = SIZE_MAX / 2};
    struct slice way = text;

    if (tlog_proof_read(text, &proof, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(proof.path.n <= N_ELEMENTS(proof.path.hashes));
    if (proof.extra.size == 0) {
        tlog_proof_write(&again, proof.extra, proof.index, &proof.path);
        FUZZ_ASSERT(proof.note.text.data == text.data + again.size);
        way.size = again.size;
        FUZZ_ASSERT(slice_equal(way, buf_slice(&again)));
    }
    buf_fini(&again);
    if (checkpoint_read(&proof.note, &checkpoint, &why))
        return;
    FUZZ_ASSERT(!tree_includes(proof.index, checkpoint.size, &leaf, &proof.path,
                               &checkpoint.root));
    /* Of no hashes: both roots are the same one. */
    FUZZ_ASSERT(!tree_continues(proof.index, &leaf, checkpoint.size,
                                &checkpoint.root, &proof.path));
}
