// Terrace for C. Made from crates/doors/c/src by its test; TERRACE_HEADER=write regenerates it.

#ifndef TERRACE_H
#define TERRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The result of a call.
typedef enum terrace_status {
  // The call succeeded.
  TERRACE_STATUS_OK = 0,
  // No object has this key.
  TERRACE_STATUS_NOT_FOUND = 1,
  // An argument is invalid: a null pointer, an invalid key, an unknown word, or an offset or length that no object
  // can have.
  TERRACE_STATUS_INVALID = 2,
  // The object is not in the state that the call needs, or another call has replaced it.
  TERRACE_STATUS_CONFLICT = 3,
  // No tier has room for the bytes.
  TERRACE_STATUS_NO_SPACE = 4,
  // All replicas of requested bytes are damaged or unreachable, or compressed bytes are damaged.
  TERRACE_STATUS_UNREADABLE = 5,
  // Replicas are still pending when the time limit is reached.
  TERRACE_STATUS_OWED = 6,
  // The caller's buffer is too short.
  TERRACE_STATUS_TOO_SHORT = 7,
  // The store, its configuration or the system failed.
  TERRACE_STATUS_FAILED = 8,
} terrace_status;

// An open store. Many threads may use one at once.
typedef struct terrace_store terrace_store;

// Requirements. In `terrace_open` they apply to the application; in a call they apply to that operation and take
// precedence. Zeros leave everything to the store's rules.
typedef struct terrace_options {
  // Requirements by name, such as `"min_read_latency,max_durability=4"`; or null.
  const char *requirements;
  // The state that a write waits for: `"placed"`, `"replicated"` or `"durable"`; or null.
  const char *ack;
  // The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
  const char *weights;
  // The maximum of stored bytes for each given byte, such as `"3x"`; or null.
  const char *budget;
  // The type of the elements, such as `"f64"`; or null.
  const char *element;
  // The number of replicas; or 0.
  uint8_t replicas;
} terrace_options;

// The level that a write had reached when it returned.
typedef struct terrace_receipt {
  // The object's number.
  uint64_t object;
  // The commit that made the write visible.
  uint64_t generation;
  // The number of pending replicas.
  uint64_t owed;
  // The number of bytes written, before encoding and replication.
  uint64_t bytes;
  // The size of the replicas made so far.
  uint64_t stored;
  // The planned number of replicas of each extent.
  uint8_t want;
  // The requested number of replicas; more than `want` if there are too few failure domains.
  uint8_t asked;
  // The smallest number of replicas of an extent so far.
  uint8_t have;
  // Whether the write survives a power failure.
  bool durable;
  // A checksum by which `terrace_wait` recognises receipts that a call has filled.
  uint32_t seal;
} terrace_receipt;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the largest number of bytes that `terrace_compress` can make of `length` bytes.
size_t terrace_compressed_most(size_t length);

// Compresses at most one gibibyte into `out`; `made` gets the number of bytes. `encoding` is a name such as
// `"shuffle4+zstd-1"`; if it is null, an encoding is chosen for the bytes. Bytes that do not shrink are stored raw.
enum terrace_status terrace_compress(const char *encoding,
                                     const void *bytes,
                                     size_t length,
                                     void *out,
                                     size_t capacity,
                                     size_t *made);

// Decompresses the result of `terrace_compress` into `out`; `made` gets the number of bytes. If `capacity` is too
// small, the call returns `TERRACE_STATUS_TOO_SHORT`, and `made` gets the needed capacity.
enum terrace_status terrace_decompress(const void *bytes,
                                       size_t length,
                                       void *out,
                                       size_t capacity,
                                       size_t *made);

// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
// call has failed.
const char *terrace_last_error(void);

// Makes a store in `directory` with the tiers of the configuration file `configuration`.
enum terrace_status terrace_init(const char *directory, const char *configuration);

// Opens the store in `directory`. The requirements of `application`, or null, apply to every call on it.
enum terrace_status terrace_open(const char *directory,
                                 const struct terrace_options *application,
                                 struct terrace_store **store);

// Waits at most a minute until no replica is pending and everything is durable, and then closes the store in any case.
// Closing null does nothing. Closing a store twice is an error that does nothing.
enum terrace_status terrace_close(struct terrace_store *store);

// Writes a whole object and replaces an earlier object of the key. `operation` and `receipt` may be null.
enum terrace_status terrace_replicate(const struct terrace_store *store,
                                      const char *key,
                                      const void *bytes,
                                      size_t length,
                                      const struct terrace_options *operation,
                                      struct terrace_receipt *receipt);

// Writes a range of an object, which is created if it does not exist. Other ranges stay unchanged, even while others
// write them.
enum terrace_status terrace_write_at(const struct terrace_store *store,
                                     const char *key,
                                     uint64_t offset,
                                     const void *bytes,
                                     size_t length,
                                     const struct terrace_options *operation,
                                     struct terrace_receipt *receipt);

// Appends bytes to an object, which is created if it does not exist. Many threads and processes may append to one
// object: no bytes are lost, and the bytes of a call stay together. `offset` gets the position of the first byte.
// `offset`, `operation` and `receipt` may be null.
enum terrace_status terrace_append(const struct terrace_store *store,
                                   const char *key,
                                   const void *bytes,
                                   size_t length,
                                   const struct terrace_options *operation,
                                   uint64_t *offset,
                                   struct terrace_receipt *receipt);

// Reads from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the
// object's end.
enum terrace_status terrace_read(const struct terrace_store *store,
                                 const char *key,
                                 uint64_t offset,
                                 void *out,
                                 size_t length,
                                 size_t *read);

// Returns an object's length in bytes.
enum terrace_status terrace_length(const struct terrace_store *store,
                                   const char *key,
                                   uint64_t *length);

// Returns the positions and encodings of an object's extents as the JSON that `terrace locate --json` prints. The
// caller passes the text to `terrace_free`.
enum terrace_status terrace_locate(const struct terrace_store *store,
                                   const char *key,
                                   char **json);

// Gives an object a copy under a second key, and replaces an earlier object of that key. The two share their stored bytes
// until one of them changes. The copy is as durable as the object.
enum terrace_status terrace_copy(const struct terrace_store *store,
                                 const char *from,
                                 const char *to);

// Deletes an object.
enum terrace_status terrace_delete(const struct terrace_store *store, const char *key);

// Waits until a write has reached `"placed"`, `"replicated"` or `"durable"`, and updates the receipt. The receipt must
// be unchanged since a call on this store filled it.
enum terrace_status terrace_wait(const struct terrace_store *store,
                                 struct terrace_receipt *receipt,
                                 const char *level);

// Waits until no replica is pending and everything is durable.
enum terrace_status terrace_sync(const struct terrace_store *store);

// Explains how the store would place a block of bytes under a key, without writing it. Returns the JSON that `terrace
// explain --json` prints; the caller passes the text to `terrace_free`.
enum terrace_status terrace_plan(const struct terrace_store *store,
                                 const char *key,
                                 const void *bytes,
                                 size_t length,
                                 const struct terrace_options *operation,
                                 char **json);

// Frees a text that a call returned. Freeing null does nothing.
void terrace_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */
