// Terrace for C. Made from crates/doors/c/src by its test; TERRACE_HEADER=write writes it anew.

#ifndef TERRACE_H
#define TERRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The result of a call.
typedef enum terrace_status {
  // All went well.
  TERRACE_STATUS_OK = 0,
  // No object has this key.
  TERRACE_STATUS_NOT_FOUND = 1,
  // An argument cannot be used: a null pointer, a key that no object may have, a word that is not known, an offset or length
  // that no object can have.
  TERRACE_STATUS_INVALID = 2,
  // The object is not in the state that the call needs, or was replaced meanwhile.
  TERRACE_STATUS_CONFLICT = 3,
  // No tier can take the bytes.
  TERRACE_STATUS_NO_SPACE = 4,
  // No good replica is left of bytes that were asked for, or compressed bytes are damaged.
  TERRACE_STATUS_UNREADABLE = 5,
  // Replicas are still owed when the time was up.
  TERRACE_STATUS_OWED = 6,
  // The caller's buffer is too short.
  TERRACE_STATUS_TOO_SHORT = 7,
  // The store, its configuration or the system failed.
  TERRACE_STATUS_FAILED = 8,
} terrace_status;

// An open store. Many threads may use one at once.
typedef struct terrace_store terrace_store;

// Requirements: given to `terrace_open` it holds for the application, given to a call for that operation, which
// wins. All zero leaves everything to the store's rules.
typedef struct terrace_options {
  // Requirements by name, such as `"min_read_latency,max_durability=4"`; or null.
  const char *requirements;
  // When a write returns: `"placed"`, `"replicated"` or `"durable"`; or null.
  const char *ack;
  // The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
  const char *weights;
  // The most bytes stored for each byte given, such as `"3x"`; or null.
  const char *budget;
  // The type of the bytes' elements, such as `"f64"`; or null.
  const char *element;
  // How many replicas; or 0.
  uint8_t replicas;
} terrace_options;

// The level that a write had reached when it returned.
typedef struct terrace_receipt {
  // The object's number.
  uint64_t object;
  // The commit that made the write visible.
  uint64_t generation;
  // Replicas that are still to be made.
  uint64_t owed;
  // Bytes written, before encoding and replication.
  uint64_t bytes;
  // Bytes that the replicas made so far take.
  uint64_t stored;
  // Replicas that each extent is to have.
  uint8_t want;
  // Replicas that were asked for; more than `want` where there are too few failure domains.
  uint8_t asked;
  // Replicas that each extent has at least.
  uint8_t have;
  // Whether all of it survives a loss of power.
  bool durable;
  // By this `terrace_wait` knows what a call has filled.
  uint32_t seal;
} terrace_receipt;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The most bytes that `terrace_compress` makes of `length` bytes.
size_t terrace_compressed_most(size_t length);

// Compresses bytes, a gibibyte at the most, into `out`; `made` gets the number of bytes. `encoding` is a name such as
// `"shuffle4+zstd-1"`; null has one chosen by what the bytes are. What does not shrink is stored as it is.
enum terrace_status terrace_compress(const char *encoding,
                                     const void *bytes,
                                     size_t length,
                                     void *out,
                                     size_t capacity,
                                     size_t *made);

// Decompresses what `terrace_compress` made into `out`; `made` gets the number of bytes, which is the length needed
// where `capacity` is too short (`TERRACE_STATUS_TOO_SHORT`).
enum terrace_status terrace_decompress(const void *bytes,
                                       size_t length,
                                       void *out,
                                       size_t capacity,
                                       size_t *made);

// Why the last call of this thread that failed did so: a sentence, valid until the thread's next call that fails. Empty
// where none has.
const char *terrace_last_error(void);

// Makes a store in `directory` with the tiers of the configuration file `configuration`.
enum terrace_status terrace_init(const char *directory, const char *configuration);

// Opens the store in `directory`. What `application` requires, or null, holds for every call on it.
enum terrace_status terrace_open(const char *directory,
                                 const struct terrace_options *application,
                                 struct terrace_store **store);

// Waits, for a minute at most, until nothing is owed and all is durable, and closes the store, in any case; null is
// closed already. To close a store twice is an error, and does nothing.
enum terrace_status terrace_close(struct terrace_store *store);

// Writes a whole object; what the key named before is replaced. `operation` and `receipt` may be null.
enum terrace_status terrace_replicate(const struct terrace_store *store,
                                      const char *key,
                                      const void *bytes,
                                      size_t length,
                                      const struct terrace_options *operation,
                                      struct terrace_receipt *receipt);

// Writes a range of an object, which is made where there is none; other ranges stay, even if others write them.
enum terrace_status terrace_write_at(const struct terrace_store *store,
                                     const char *key,
                                     uint64_t offset,
                                     const void *bytes,
                                     size_t length,
                                     const struct terrace_options *operation,
                                     struct terrace_receipt *receipt);

// Writes bytes behind an object's last byte, wherever that is when they become visible; the object is made where there is none.
// Many threads and processes may append to one object: none of their bytes are lost, and those of one call stay together. `offset`
// gets the place of the first byte. It, `operation` and `receipt` may be null.
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

// An object's length in bytes.
enum terrace_status terrace_length(const struct terrace_store *store,
                                   const char *key,
                                   uint64_t *length);

// Where an object's extents are, and how they are encoded: JSON, as `terrace locate --json` prints it, which the
// caller gives to `terrace_free`.
enum terrace_status terrace_locate(const struct terrace_store *store,
                                   const char *key,
                                   char **json);

// Deletes an object.
enum terrace_status terrace_delete(const struct terrace_store *store, const char *key);

// Waits until a write has reached `"placed"`, `"replicated"` or `"durable"`; the receipt then says so. It must be one that a call on
// this store has filled, as it was filled.
enum terrace_status terrace_wait(const struct terrace_store *store,
                                 struct terrace_receipt *receipt,
                                 const char *level);

// Waits until nothing is owed and all is durable.
enum terrace_status terrace_sync(const struct terrace_store *store);

// Explains how the store would place a block of bytes under a key: JSON, as
// `terrace explain --json` prints it, which the caller gives to `terrace_free`. Nothing is written.
enum terrace_status terrace_plan(const struct terrace_store *store,
                                 const char *key,
                                 const void *bytes,
                                 size_t length,
                                 const struct terrace_options *operation,
                                 char **json);

// Gives back what a call returned as text; null is nothing.
void terrace_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */
