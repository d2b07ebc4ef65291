/*
 * change_packages.h - files from the packages of a source's Change Dumps, in
 * place of single downloads, where that costs less; of a past time,
 * then from those of its Resource Dumps.
 *
 *     dump, index, archive --> packages
 *                                 |
 *          `contents`: manifest --+-- none: its times
 *                                 |
 *            how many of the wanted files does it have?
 *                                 |
 *          few: left alone <------+------> many: file_sync_adopt
 *
 * The mirror knows by then which version of each resource it wants. An entry of
 * a manifest counts if it is that version (file_sync_wants). So of a resource
 * that changed several times the last bitstream counts, and nothing that the
 * mirror has.
 *
 * The cost of a package is its length, else that of its members, and that of a
 * single download the resource's length; each request costs as much as
 * CHANGE_PACKAGES_REQUEST bytes. A package that nothing says the size of is not
 * fetched. Of a past time, packages may have the only copies: each that has
 * something is fetched; Resource Dumps after the single downloads, the nearest
 * to that time first, and only what a digest proves counts.
 *
 * A document or package that cannot be had, or lies, is reported
 * (TD_SYNC_TROUBLE). What it should have had stays wanted: the single
 * downloads, which the caller holds until the end, fetch it.
 */
#pragma once

#include "client/mirror/mirror.h"

#define CHANGE_PACKAGES_REQUEST 4096

/* Single downloads that cost less are not worth a look at the dump, which costs
 * three requests: dump, manifest, package. */
#define CHANGE_PACKAGES_LEAST (4 * CHANGE_PACKAGES_REQUEST)

struct change_packages;

/* For the set number `set`; `dump`: its Change Dump or Resource Dump, index or
 * archive; `archive`, or NULL: for a past time looked at, too; copied.
 * The packages free themselves after on_end. NULL: no memory. Calls nothing
 * before it returns. */
struct change_packages *change_packages_start(struct mirror *m, int64_t set,
                                              const char *dump,
                                              const char *archive,
                                              void (*on_end)(void *user),
                                              void *user);
void change_packages_free(struct change_packages *packages); /* NULL is allowed;
                                                                not after
                                                                on_end */
