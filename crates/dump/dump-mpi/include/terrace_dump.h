// Checkpoints of MPI programs, for C. Made from crates/dump/dump-mpi/src by its test; TERRACE_HEADER=write regenerates it.

#ifndef TERRACE_DUMP_H
#define TERRACE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

// The result of a call. All ranks get the same status, or `TERRACE_DUMP_STATUS_ELSEWHERE` if only other ranks failed.
typedef enum terrace_dump_status {
  // The call succeeded.
  TERRACE_DUMP_STATUS_OK = 0,
  // There is no such dump.
  TERRACE_DUMP_STATUS_NOT_FOUND = 1,
  // An argument is invalid, or ranks, regions and stores do not match.
  TERRACE_DUMP_STATUS_INVALID = 2,
  // Too many stores are lost; the message names the bytes and ranks.
  TERRACE_DUMP_STATUS_LOST = 3,
  // Another rank failed; the message says which one, and why.
  TERRACE_DUMP_STATUS_ELSEWHERE = 4,
  // The store or the transport failed.
  TERRACE_DUMP_STATUS_FAILED = 5,
} terrace_dump_status;

// The ranks of a communicator with their nodes' stores, and the protected regions of each rank. Only one thread may
// use it at a time.
typedef struct terrace_dump terrace_dump;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
// call has failed.
const char *terrace_dump_last_error(void);

// Opens checkpoints. `comm` is duplicated; `store` is the directory of this node's store, which `terrace init` has
// made. Ranks are on one node if they have the same TERRACE_NODE in their environment, or none and share memory.
// Collective.
enum terrace_dump_status terrace_dump_open(MPI_Comm comm,
                                           const char *store,
                                           struct terrace_dump **opened);

// Sets the number of nodes that store each chunk: 1 to 16, by default 3. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_replicas(struct terrace_dump *checkpoints,
                                                   uint32_t replicas);

// Sets how memory is divided into chunks: into pieces of `bytes` bytes, by default 4096; or, with `by_content`, at
// boundaries that the content determines, about `bytes` bytes apart. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_chunks(struct terrace_dump *checkpoints,
                                                 uint32_t bytes,
                                                 bool by_content);

// Protects a region of memory under a number that the program chooses. An earlier region of that number is no longer
// protected. The memory must be valid at each checkpoint and restart.
enum terrace_dump_status terrace_dump_protect(struct terrace_dump *checkpoints,
                                              uint32_t region,
                                              void *bytes,
                                              size_t length);

// Ends the protection of a region.
enum terrace_dump_status terrace_dump_unprotect(struct terrace_dump *checkpoints, uint32_t region);

// Dumps the protected regions as `version` of `name`, which must be higher than all existing versions; -1 means the
// next one. `made` gets the version; it may be null. The checkpoint is durable when the call returns successfully.
// Collective.
enum terrace_dump_status terrace_dump_checkpoint(struct terrace_dump *checkpoints,
                                                 const char *name,
                                                 int64_t version,
                                                 uint32_t *made);

// Restores the protected regions from `version` of `name`; -1 means the newest. `restored` gets the version; it may be
// null. The number of ranks and the regions must be those of the dump. If any rank fails, no memory is changed.
// Collective.
enum terrace_dump_status terrace_dump_restart(struct terrace_dump *checkpoints,
                                              const char *name,
                                              int64_t version,
                                              uint32_t *restored);

// Closes checkpoints; call it before MPI_Finalize. The regions still belong to the program. Closing null does nothing.
// Collective.
void terrace_dump_close(struct terrace_dump *checkpoints);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_DUMP_H */
