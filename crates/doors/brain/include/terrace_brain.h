// The brain of Terrace for C: where to store bytes, and how to encode them. docs/guide/brain.md has an introduction, and a program that uses it.
//
// Threads: many threads may use one brain at once. Planning, reports, updates, saving and loading wait for each other; encoding and decoding
// wait for nothing. A process that forks makes another brain in the child.
//
// Arguments: the library detects null pointers, unknown words, numbers that make no sense, closed handles and damaged bytes, and returns an error. It
// trusts that arrays have as many items as the call says, that texts end with a NUL, and that what a call reads and what it writes do not overlap.
// It keeps no pointer of the caller after a call.
//
// Made from crates/doors/brain/src by its test; TERRACE_HEADER=write regenerates it.

#ifndef TERRACE_BRAIN_H
#define TERRACE_BRAIN_H

#include <stddef.h>
#include <stdint.h>

// The version of the structures. A program passes the one that it was compiled with.
#define TERRACE_BRAIN_VERSION 1

// The length of an encoding's name, with the NUL at its end.
#define TERRACE_BRAIN_NAME_BYTES 32

// The result of a call. The numbers are those of `terrace_status` in terrace.h.
typedef enum terrace_brain_status {
  // The call succeeded.
  TERRACE_BRAIN_STATUS_OK = 0,
  // An argument is invalid: a null pointer, a handle that is not open, an unknown word, or a number that makes no sense.
  TERRACE_BRAIN_STATUS_INVALID = 2,
  // No target that the request allows has room for the bytes.
  TERRACE_BRAIN_STATUS_NO_SPACE = 4,
  // The bytes are not what `terrace_brain_encode` or `terrace_brain_save` made.
  TERRACE_BRAIN_STATUS_DAMAGED = 5,
  // The caller's buffer or array is too short. The call has said how long it must be.
  TERRACE_BRAIN_STATUS_TOO_SHORT = 7,
  // The library failed.
  TERRACE_BRAIN_STATUS_FAILED = 8,
} terrace_brain_status;

// A brain: the tiers of a host, and what was learned of them and of its bytes. Many threads may use one at once.
typedef struct terrace_brain terrace_brain;

// A place for bytes: a device, a directory, a node, a bucket. Targets with the same `tier` are one tier: they have the same speeds, power and
// persistence, and stand one after the other. The fastest tier comes first: a later one never counts as faster than an earlier one, because its first
// writes may go to memory.
typedef struct terrace_brain_target {
  // The name of its tier.
  const char *tier;
  // The name of its failure domain, such as its node: a plan never puts two replicas into one. Null, if it fails alone.
  const char *domain;
  // The bytes that it reads in a second. This and the next two are estimates, which reports correct.
  double read;
  // The bytes that it writes in a second.
  double write;
  // The seconds before the first byte.
  double latency;
  // The free bytes.
  uint64_t free;
  // The free and the used bytes; or 0, if they are as many as are free now. The fuller a tier is, the dearer are its bytes.
  uint64_t total;
  // The power that it draws while it works, in watts, for `min_energy`; or 0.
  double watts;
  // The number of operations that it runs at the same time; or 0 for one.
  uint16_t lanes;
  // 1, if its bytes survive a reboot; 0, if they do not. Unless `allow_volatile` is set, at least one replica is on a persistent target.
  uint8_t persistent;
} terrace_brain_target;

// Some bytes, and the wishes for them. Zeros leave everything to the library. The guide to requirements describes the words.
typedef struct terrace_brain_request {
  // The name of the file, object or stream that the bytes are part of; or null. What is learned of bytes counts for those of the same name, of
  // names that differ in numbers only (`"step_1.h5"`, `"step_2.h5"`), and of names in the same folder with the same ending.
  const char *key;
  // The place of the bytes in it. The first bytes of a file may tell what is in the others.
  uint64_t offset;
  // The type of the elements, such as `"f64"`; or null.
  const char *element;
  // Requirements by name, such as `"min_read_latency,max_durability=4"`; or null.
  const char *requirements;
  // The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
  const char *weights;
  // The state that the host's write waits for: `"placed"` (replica 0 is written), `"replicated"` (all are) or `"durable"` (all are, on
  // persistent targets); or null for the first.
  const char *ack;
  // The maximum of stored bytes for each given byte, over all replicas, such as `"3x"`; or null.
  const char *budget;
  // The only tiers to use, such as `"ram+disk"`; or null.
  const char *tiers;
  // The highest latency, in seconds, of the target that holds replica 0; or 0.
  double max_latency;
  // How often the bytes are expected to be read; or 0 for once.
  double reads;
  // The number of replicas; or 0, if the requirements decide it. If they do not, it is the least number; under a budget, as many as fit.
  uint8_t replicas;
  // The least number of replicas; or 0 for one. A plan has fewer only if there is no place for more.
  uint8_t min_replicas;
  // The highest number of replicas, at most 16; or 0 for five.
  uint8_t max_replicas;
  // 1, if all replicas may be on targets that a reboot empties, as for a cache.
  uint8_t allow_volatile;
} terrace_brain_request;

// A part of a replica: bytes to encode, and the target to write them to. The pieces of a replica follow each other, and cover all bytes. Most
// replicas have one piece; one on targets that are nearly full may have more.
typedef struct terrace_brain_piece {
  // The number of the replica, from 0. Replica 0 is written first, and serves the reads.
  uint32_t replica;
  // The number of the target, as in `terrace_brain_create`.
  uint32_t target;
  // The first byte, from the first one of the request.
  uint64_t offset;
  // The number of bytes.
  uint64_t length;
  // The encoding, for `terrace_brain_encode`; 0, if they are stored as they are.
  uint32_t encoding;
  // The encoding's name, such as `"shuffle4+zstd-1"`.
  char name[TERRACE_BRAIN_NAME_BYTES];
  // The expected number of stored bytes. They may be more, but never more than `length`.
  uint64_t stored;
  // The seconds that encoding and writing it are expected to take, if nothing else is going on.
  double write_seconds;
  // The seconds that reading and decoding it are expected to take, if nothing else is going on.
  double read_seconds;
} terrace_brain_piece;

// The size of a plan.
typedef struct terrace_brain_plan_size {
  // The number of pieces of all replicas.
  size_t pieces;
  // The number of replicas that have a place.
  uint32_t replicas;
  // The number of replicas that the request wants; under a budget, the highest.
  uint32_t wanted;
  // The expected number of stored bytes of all replicas.
  uint64_t stored;
} terrace_brain_plan_size;

// A piece that was written or read, for `terrace_brain_report`.
typedef struct terrace_brain_outcome {
  // The key of the request; or null.
  const char *key;
  // The element of the request; or null.
  const char *element;
  // The number of the target.
  uint32_t target;
  // The planned encoding, also if the bytes did not shrink and another one was used.
  uint32_t encoding;
  // The number of bytes.
  uint64_t length;
  // The number of stored bytes.
  uint64_t stored;
  // The seconds that encoding or decoding took; or 0, if that was not measured.
  double codec_seconds;
  // The seconds that writing or reading the stored bytes took; or 0, if that was not measured.
  double target_seconds;
  // 0, if the piece was written: its stored bytes are taken from the target's free ones. 1, if it was read.
  uint8_t was_read;
} terrace_brain_outcome;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a brain for targets, and `brain` gets it. `version` is `TERRACE_BRAIN_VERSION`. `terrace_brain_close` frees it.
enum terrace_brain_status terrace_brain_create(uint32_t version,
                                               const struct terrace_brain_target *targets,
                                               size_t count,
                                               struct terrace_brain **brain);

// Closes a brain. What it has learned is lost, unless it was saved.
enum terrace_brain_status terrace_brain_close(struct terrace_brain *brain);

// Tells the free bytes of a target, its load (the operations that wait there, for each lane), and whether it accepts writes. A host calls it after
// it has deleted bytes, and from time to time. The brain itself counts only the writes that are reported to it.
enum terrace_brain_status terrace_brain_update(const struct terrace_brain *brain,
                                               size_t target,
                                               uint64_t free,
                                               double load,
                                               uint8_t is_up);

// Plans the replicas of at most one gibibyte. Plans are best for blocks of up to 1 MiB, because the parts of a file differ. `request` may be null.
// The bytes are measured, as far as that costs little beside moving them.
//
// `pieces` has room for `capacity` pieces, and gets those of the plan, replica after replica. `size`, unless it is null, gets their number and more.
// If there are more than `capacity`, the call returns `TERRACE_BRAIN_STATUS_TOO_SHORT`, and `size` tells how many.
//
// If `json` is not null, it gets the reasons: the alternatives on each tier with their costs, and each decision between requirements; also if the
// call returns `TERRACE_BRAIN_STATUS_NO_SPACE` or `_TOO_SHORT`. It gets null if the call fails otherwise. The caller passes the text to
// `terrace_brain_free`. A plan reserves no space: it is taken when the pieces are reported.
enum terrace_brain_status terrace_brain_plan(const struct terrace_brain *brain,
                                             const struct terrace_brain_request *request,
                                             const void *bytes,
                                             size_t length,
                                             struct terrace_brain_piece *pieces,
                                             size_t capacity,
                                             struct terrace_brain_plan_size *size,
                                             char **json);

// Tells how writing or reading a piece went. The brain learns how well the encoding works on such bytes, and how fast the tier is.
enum terrace_brain_status terrace_brain_report(const struct terrace_brain *brain,
                                               const struct terrace_brain_outcome *outcome);

// Writes what was learned into `out`, for `terrace_brain_load`; `made` gets the number of bytes. If `capacity` is too small, the call returns
// `TERRACE_BRAIN_STATUS_TOO_SHORT`, and `made` gets the needed capacity. It grows while other threads plan.
enum terrace_brain_status terrace_brain_save(const struct terrace_brain *brain,
                                             void *out,
                                             size_t capacity,
                                             size_t *made);

// Replaces what was learned by what `terrace_brain_save` wrote, also on another machine. Speeds of tiers are taken for those of the same name; free
// bytes stay. Damaged bytes are an error, and change nothing.
enum terrace_brain_status terrace_brain_load(const struct terrace_brain *brain,
                                             const void *bytes,
                                             size_t length);

// Describes a brain as JSON: the tiers with their learned speeds, the targets, the number of plans, and for each encoding how good the predictions
// were. The caller passes the text to `terrace_brain_free`.
enum terrace_brain_status terrace_brain_describe(const struct terrace_brain *brain,
                                                 char **json);

// Frees a text that a call made. Freeing null does nothing.
void terrace_brain_free(char *text);

// Encodes a piece into `out`, which has `capacity` bytes: `length` of them are always enough. `encoding` is the planned one, and gets the one that
// was used: 0, if the bytes do not shrink and are copied as they are. `made` gets the number of bytes. The host keeps the encoding and both
// lengths, and a checksum if it needs one.
enum terrace_brain_status terrace_brain_encode(uint32_t *encoding,
                                               const void *bytes,
                                               size_t length,
                                               void *out,
                                               size_t capacity,
                                               size_t *made);

// Decodes what `terrace_brain_encode` made, with the encoding that it used, into `out`, which gets exactly `length` bytes. Bytes that are damaged
// are an error, or become other bytes: only a checksum of the host tells.
enum terrace_brain_status terrace_brain_decode(uint32_t encoding,
                                               const void *bytes,
                                               size_t stored,
                                               void *out,
                                               size_t length);

// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no call has failed.
const char *terrace_brain_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_BRAIN_H */
