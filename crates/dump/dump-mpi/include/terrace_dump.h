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
typedef struct terrace_checkpoints terrace_checkpoints;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
// call has failed.
const char *terrace_dump_last_error(void);

// Dumps a buffer of each rank, so that all of them can be restored after the loss of the stores of any `replicas` - 1
// nodes: `terrace restore output FILES`. TERRACE_STORE names the directory of this node's store; {node} in it stands
// for TERRACE_NODE, or for the node's number. TERRACE_DUMP names the dump, `output` by default; each call makes its next
// version. The dump is durable when the call returns successfully. Collective.
enum terrace_dump_status terrace_dump(MPI_Comm comm,
                                      const void *buffer,
                                      size_t length,
                                      uint32_t replicas);

// Opens checkpoints. `comm` is duplicated; `store` is the directory of this node's store, which `terrace init` has
// made. {node} in it stands for TERRACE_NODE, or for the node's number. Ranks are on one node if they have the same
// TERRACE_NODE in their environment, or none and share memory. Collective.
enum terrace_dump_status terrace_dump_open(MPI_Comm comm,
                                           const char *store,
                                           struct terrace_checkpoints **opened);

// Sets the number of nodes that store each chunk: 1 to 16, by default 3. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_replicas(struct terrace_checkpoints *checkpoints,
                                                   uint32_t replicas);

// Sets how many of the newest versions stay: once a new version is durable, the older ones are dropped, and their space is free when the call
// that made it returns; by default, or with 0, all stay. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_keep(struct terrace_checkpoints *checkpoints,
                                               uint32_t keep);

// Sets where each version flows to once it is durable in the nodes' stores: a directory, or `SERVICE://BUCKET/PATH`, that outlives the nodes; null
// ends that. `keep` is the number of the newest versions that stay there; with 0, all do. A checkpoint returns before its version has
// flowed, unless MPI lets only one thread call it: a thread continues, `terrace_dump_wait` waits for it and returns its failure, and the next
// checkpoint waits for it, too. `terrace_dump_restart` takes from there what is not whole in the stores. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_flow(struct terrace_checkpoints *checkpoints,
                                               const char *to,
                                               uint32_t keep);

// Sets how memory is divided into chunks: into pieces of `bytes` bytes, by default 4096; or, with `by_content`, at
// boundaries that the content determines, about `bytes` bytes apart. It must be the same on all ranks.
enum terrace_dump_status terrace_dump_set_chunks(struct terrace_checkpoints *checkpoints,
                                                 uint32_t bytes,
                                                 bool by_content);

// Protects a region of memory under a number that the program chooses. An earlier region of that number is no longer
// protected. The memory must be valid at each checkpoint and restart. The region is the rank's own: only as many ranks
// as made a checkpoint can restart from it.
enum terrace_dump_status terrace_dump_protect(struct terrace_checkpoints *checkpoints,
                                              uint32_t region,
                                              void *bytes,
                                              size_t length);

// Protects a region as `terrace_dump_protect` does, which has the same bytes on all ranks. Any number of ranks can restart
// from it.
enum terrace_dump_status terrace_dump_protect_same(struct terrace_checkpoints *checkpoints,
                                                   uint32_t region,
                                                   void *bytes,
                                                   size_t length);

// Protects a region as `terrace_dump_protect` does, which is a part of an array that all ranks share under the number:
// its bytes from `start` on. Any number of ranks can restart, each with any part of the array. If parts overlap, the
// bytes are those of the part that begins first, unless all ranks have the parts that they had.
enum terrace_dump_status terrace_dump_protect_part(struct terrace_checkpoints *checkpoints,
                                                   uint32_t region,
                                                   void *bytes,
                                                   size_t length,
                                                   uint64_t start);

// Ends the protection of a region.
enum terrace_dump_status terrace_dump_unprotect(struct terrace_checkpoints *checkpoints,
                                                uint32_t region);

// Dumps the protected regions as `version` of `name`, which must be higher than all existing versions; -1 means the
// next one. `made` gets the version; it may be null. The checkpoint is durable when the call returns successfully.
// Collective.
enum terrace_dump_status terrace_dump_checkpoint(struct terrace_checkpoints *checkpoints,
                                                 const char *name,
                                                 int64_t version,
                                                 uint32_t *made);

// Waits for checkpoints that have begun, and closes all; call it before MPI_Finalize. The regions still belong to the
// program. Closing null, or what is closed, does nothing. Collective.
void terrace_dump_close(struct terrace_checkpoints *checkpoints);

// Restores the protected regions from `version` of `name`; -1 means the newest one that is whole. `restored` gets the version; it may
// be null. The regions must be those of the dump. Another number of ranks may restart if all regions are parts, or the
// same on all ranks. If any rank fails, no memory is changed. Collective.
enum terrace_dump_status terrace_dump_restart(struct terrace_checkpoints *checkpoints,
                                              const char *name,
                                              int64_t version,
                                              uint32_t *restored);

// Tells from where the last `terrace_dump_restart` has taken its version: `archived` gets true if it came from the place of
// `terrace_dump_set_flow`, and false if it came from the nodes' stores. `TERRACE_DUMP_STATUS_INVALID` if no restart was made, or
// the last one failed. All ranks get the same answer.
enum terrace_dump_status terrace_dump_is_archived(struct terrace_checkpoints *checkpoints,
                                                  bool *archived);

// Sets how many checkpoints that `terrace_dump_begin` has begun may be under way at once, 1 to 16; by default 1. Each
// takes memory for a copy of the protected regions, which later ones use again until `terrace_dump_close`. It must be the same
// on all ranks.
enum terrace_dump_status terrace_dump_set_limit(struct terrace_checkpoints *checkpoints,
                                                uint32_t limit);

// Makes memory for the copies of `terrace_dump_begin` ready, in a thread, as large as the regions that are protected now: without
// it, the first checkpoints wait until the system gives their memory, which takes longer than the copy. It takes memory until there are
// as many copies as checkpoints may be under way, those of such checkpoints among them, and until `terrace_dump_close`; a checkpoint that begins
// meanwhile may wait for it. Too little memory is no failure here.
enum terrace_dump_status terrace_dump_prepare(struct terrace_checkpoints *checkpoints);

// Begins a checkpoint, and returns once the protected regions are copied: the program may change them while a thread
// dumps the copy as `terrace_dump_checkpoint` does. While too many checkpoints are under way, it first waits for the
// oldest one. `terrace_dump_wait` tells whether it succeeded; if not, the ones before are still there. MPI must have been
// initialized with MPI_THREAD_MULTIPLE. All ranks begin the same checkpoints in the same order.
enum terrace_dump_status terrace_dump_begin(struct terrace_checkpoints *checkpoints,
                                            const char *name,
                                            int64_t version);

// Waits until all checkpoints that have begun have ended. `made` gets the newest version that was made, or -1; it may be
// null. If one failed, the call returns its failure, `made` gets -1, and a second wait tells of the others. Collective.
enum terrace_dump_status terrace_dump_wait(struct terrace_checkpoints *checkpoints,
                                           int64_t *made);

// Returns at once. `ended` gets whether all checkpoints that have begun have ended on this rank; if so, the call is
// `terrace_dump_wait`. Another rank may get another answer at the same time.
enum terrace_dump_status terrace_dump_test(struct terrace_checkpoints *checkpoints,
                                           bool *ended,
                                           int64_t *made);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_DUMP_H */
