// Checkpoints of MPI programs, for C. Made from crates/dump/dump-mpi/src by its test; TERRACE_HEADER=write writes it anew.

#ifndef TERRACE_DUMP_H
#define TERRACE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

// The result of a call. All ranks get the same, or `TERRACE_DUMP_STATUS_ELSEWHERE` where only others failed.
typedef enum terrace_dump_status {
  // All went well.
  TERRACE_DUMP_STATUS_OK = 0,
  // There is no such dump.
  TERRACE_DUMP_STATUS_NOT_FOUND = 1,
  // An argument cannot be used, or ranks, regions and stores do not fit together.
  TERRACE_DUMP_STATUS_INVALID = 2,
  // Too many stores are lost; the message names the bytes and ranks.
  TERRACE_DUMP_STATUS_LOST = 3,
  // Another rank failed; the words say which, and why.
  TERRACE_DUMP_STATUS_ELSEWHERE = 4,
  // The store or the transport failed.
  TERRACE_DUMP_STATUS_FAILED = 5,
} terrace_dump_status;

// The ranks of a communicator with their nodes' stores, and what each has protected. Used by one thread at a time.
typedef struct terrace_dump terrace_dump;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last call of this thread that failed did so: a sentence, valid until the thread's next call that fails. Empty
// where none has.
const char *terrace_dump_last_error(void);

// Begins: `comm` is duplicated, `store` is the directory of this node's store, which `terrace init` has made. Ranks are on
// one node where they have the same TERRACE_NODE in their environment, or none and share memory. Collective.
enum terrace_dump_status terrace_dump_open(MPI_Comm comm,
                                           const char *store,
                                           struct terrace_dump **opened);

// On how many nodes each chunk is to be, 1 to 16: 3 where this is not called. On all ranks the same.
enum terrace_dump_status terrace_dump_set_replicas(struct terrace_dump *checkpoints,
                                                   uint32_t replicas);

// How memory is cut: into pieces of `bytes` bytes, 4096 where this is not called; or, with `by_content`, at boundaries that
// the content determines, about this number of bytes apart. The same on all ranks.
enum terrace_dump_status terrace_dump_set_chunks(struct terrace_dump *checkpoints,
                                                 uint32_t bytes,
                                                 bool by_content);

// Protects a region of memory, under a number of the program's own; what that number stood for is protected no longer. The
// memory must be there at each checkpoint and restart.
enum terrace_dump_status terrace_dump_protect(struct terrace_dump *checkpoints,
                                              uint32_t region,
                                              void *bytes,
                                              size_t length);

// Protects a region no longer.
enum terrace_dump_status terrace_dump_unprotect(struct terrace_dump *checkpoints, uint32_t region);

// Dumps what is protected, as `version` of `name`: higher than all that there are, or -1 for the next; `made`, which may be
// null, gets it. Collective. When it returns well, the checkpoint is durable.
enum terrace_dump_status terrace_dump_checkpoint(struct terrace_dump *checkpoints,
                                                 const char *name,
                                                 int64_t version,
                                                 uint32_t *made);

// Fills what is protected with what it was at `version` of `name`, -1 for the newest; `restored`, which may be null, gets it.
// Collective, with as many ranks and the same regions as there were. Where any rank fails no memory is changed.
enum terrace_dump_status terrace_dump_restart(struct terrace_dump *checkpoints,
                                              const char *name,
                                              int64_t version,
                                              uint32_t *restored);

// Ends, before MPI does. Collective. What was protected is the caller's, as ever. Null is let be.
void terrace_dump_close(struct terrace_dump *checkpoints);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_DUMP_H */
