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

// The kind of an object.
typedef enum terrace_kind {
  // Bytes.
  TERRACE_KIND_FILE = 0,
  // A directory that was made, also if nothing is in it.
  TERRACE_KIND_DIRECTORY = 1,
  // A symbolic link, whose bytes are the path that it points to.
  TERRACE_KIND_SYMLINK = 2,
} terrace_kind;

// An open dataset. Many threads may use one at once.
typedef struct terrace_dataset terrace_dataset;

// An open file. Many threads may use one at once.
typedef struct terrace_file terrace_file;

// An open store. Many threads may use one at once.
typedef struct terrace_store terrace_store;

// An open stream. Many threads may use one at once.
typedef struct terrace_stream terrace_stream;

// A place for compressed bytes.
typedef struct terrace_tier {
  // Its name, which the report tells; or null.
  const char *name;
  // The bytes that it reads in a second.
  double read;
  // The bytes that it writes in a second.
  double write;
  // The seconds before the first byte.
  double latency;
  // The most bytes that it takes; or 0, if it takes any number.
  uint64_t room;
} terrace_tier;

// The tiers and weights for which bytes are compressed.
typedef struct terrace_compression {
  // `sizeof(terrace_compression)`. Later versions may be longer.
  size_t size;
  // The tiers that may get the bytes.
  const struct terrace_tier *tiers;
  // The number of tiers.
  size_t tier_count;
  // The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
  const char *weights;
  // The expected number of reads.
  double reads;
} terrace_compression;

// A description of an object.
typedef struct terrace_info {
  // The object's number. An object keeps it when it is renamed; one that replaces it has another.
  uint64_t object;
  // The commit that changed the object last.
  uint64_t generation;
  // The length in bytes.
  uint64_t length;
  // The time of modification, in nanoseconds since 1970.
  int64_t modified;
  // The permission bits.
  uint32_t mode;
  // The kind.
  enum terrace_kind kind;
} terrace_info;

// Gets an object's key and description, with the context that the caller of `terrace_list` passed. Both are valid during the call.
// Anything but 0 ends the listing.
typedef int (*terrace_visit)(void *context, const char *key, const struct terrace_info *info);

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
  // `sizeof(terrace_options)`, if the program sets any of the fields below. They count only with it, because programs that were
  // compiled before they existed pass a shorter structure.
  uint32_t size;
  // The highest latency, in seconds, of the target that holds the first replica; or 0.
  double max_latency;
  // The only tiers to use, such as `"ram+disk"`; or null.
  const char *tiers;
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

// Bytes for a place in a destination.
typedef struct terrace_request {
  // The destination: a path below the stream's target, such as `"runs/a.h5"`.
  const char *destination;
  // The offset of the first byte. -1 appends the bytes behind all that were delivered before.
  int64_t offset;
  // The bytes.
  const void *bytes;
  // The number of bytes.
  size_t length;
  // The name of the producer; or null, if the request is never sent again.
  const char *producer;
  // The request's number among those of the producer, from 1 on. A request that was accepted before is not taken again.
  uint64_t sequence;
} terrace_request;

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

// Compresses at most one gibibyte into `out` for the best tier of `wanted`, and `made` gets the number of bytes. For each tier, the
// encoding is chosen that costs least to encode, write, read and decode, by the weights. The bytes are compressed for the tier where that
// costs least among those that have room for them. `terrace_decompress` takes the result.
//
// If `json` is not null, it gets a report: `tier` (its number in `tiers`, from 0), its `name`, the `encoding`, the `raw` and `stored` bytes,
// the seconds that encoding took, and for each tier the `encoding`, the `stored` bytes and the `seconds` that were expected. The caller
// passes the text to `terrace_free`.
enum terrace_status terrace_compress_for(const struct terrace_compression *wanted,
                                         const void *bytes,
                                         size_t length,
                                         void *out,
                                         size_t capacity,
                                         size_t *made,
                                         char **json);

// Adds a dataset, filled with zeros, and opens it. `declaration` is a text in the language of datasets.
enum terrace_status terrace_dataset_add(const struct terrace_store *store,
                                        const char *name,
                                        const char *declaration,
                                        struct terrace_dataset **dataset);

// Opens a dataset.
enum terrace_status terrace_dataset_open(const struct terrace_store *store,
                                         const char *name,
                                         struct terrace_dataset **dataset);

// Closes a dataset. Closing null does nothing. Closing a dataset twice is an error that does nothing.
enum terrace_status terrace_dataset_close(struct terrace_dataset *dataset);

// Removes a dataset with all its replicas.
enum terrace_status terrace_dataset_remove(const struct terrace_store *store, const char *name);

// Returns the names of a dataset's views as a list in JSON. The caller passes the text to `terrace_free`.
enum terrace_status terrace_dataset_views(const struct terrace_dataset *dataset,
                                          char **json);

// Returns the length of a view in bytes.
enum terrace_status terrace_dataset_length(const struct terrace_dataset *dataset,
                                           const char *view,
                                           uint64_t *length);

// Reads a view from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the view's end. The
// bytes are those of one moment.
enum terrace_status terrace_dataset_read(const struct terrace_dataset *dataset,
                                         const char *view,
                                         uint64_t offset,
                                         void *out,
                                         size_t length,
                                         size_t *read);

// Writes bytes of a view at `offset`. All other views show them at once.
enum terrace_status terrace_dataset_write(const struct terrace_dataset *dataset,
                                          const char *view,
                                          uint64_t offset,
                                          const void *bytes,
                                          size_t length);

// Waits until all replicas of a dataset have what was written.
enum terrace_status terrace_dataset_sync(const struct terrace_dataset *dataset);

// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
// call has failed.
const char *terrace_last_error(void);

// Opens an object as a file. `mode` is as in `fopen`: `"r"` reads, `"r+"` also writes, `"w"` and `"w+"` empty the file or make it, `"a"`
// and `"a+"` make it if it is missing, and `"wx"` fails if it exists. Missing directories are made.
enum terrace_status terrace_file_open(const struct terrace_store *store,
                                      const char *key,
                                      const char *mode,
                                      struct terrace_file **file);

// Flushes a file and closes it. Closing null does nothing. Closing a file twice is an error that does nothing.
enum terrace_status terrace_file_close(struct terrace_file *file);

// Reads from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the file's end.
enum terrace_status terrace_file_read(const struct terrace_file *file,
                                      uint64_t offset,
                                      void *out,
                                      size_t length,
                                      size_t *read);

// Writes bytes at `offset`. They are placed when the file is flushed, synced or closed, or when there are enough of them.
enum terrace_status terrace_file_write(const struct terrace_file *file,
                                       uint64_t offset,
                                       const void *bytes,
                                       size_t length);

// Writes bytes at the file's end; `offset` gets the position of the first one, and may be null. Other threads and processes may append to
// the file meanwhile.
enum terrace_status terrace_file_append(const struct terrace_file *file,
                                        const void *bytes,
                                        size_t length,
                                        uint64_t *offset);

// Returns a file's length in bytes, with what is not yet flushed.
enum terrace_status terrace_file_length(const struct terrace_file *file, uint64_t *length);

// Cuts a file off at `length` bytes, or extends it with zeros.
enum terrace_status terrace_file_truncate(const struct terrace_file *file, uint64_t length);

// Places what was written: other processes see it, and it survives the end of this one.
enum terrace_status terrace_file_flush(const struct terrace_file *file);

// Flushes a file, and waits until it is durable.
enum terrace_status terrace_file_sync(const struct terrace_file *file);

// Describes an object.
enum terrace_status terrace_stat(const struct terrace_store *store,
                                 const char *key,
                                 struct terrace_info *info);

// Calls `visit` with each object whose key is `prefix` or lies below it, in the order of the keys; an empty prefix stands for all objects.
// Objects that are made or removed meanwhile may be left out.
enum terrace_status terrace_list(const struct terrace_store *store,
                                 const char *prefix,
                                 terrace_visit visit,
                                 void *context);

// Renames an object, with all objects below its key if there are any, and replaces one that has the new key. No bytes move.
enum terrace_status terrace_rename(const struct terrace_store *store,
                                   const char *from,
                                   const char *to);

// Makes a store in `directory` with the tiers of the configuration file `configuration`.
enum terrace_status terrace_init(const char *directory, const char *configuration);

// Opens the store in `directory`. The requirements of `application`, or null, apply to every call on it.
enum terrace_status terrace_open(const char *directory,
                                 const struct terrace_options *application,
                                 struct terrace_store **store);

// Waits at most a minute until no replica is pending and everything is durable, and then closes the store in any case.
// Its open files are flushed; close them, its streams and its datasets before. Closing null does nothing. Closing a store twice is an
// error that does nothing.
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

// Opens a stream; the first request makes it. `level` says when a request counts as accepted: `"placed"`, `"replicated"` or
// `"durable"`.
enum terrace_status terrace_stream_open(const struct terrace_store *store,
                                        const char *name,
                                        const char *level,
                                        struct terrace_stream **stream);

// Closes a stream; all that was accepted stays. Closing null does nothing. Closing a stream twice is an error that does nothing.
enum terrace_status terrace_stream_close(struct terrace_stream *stream);

// Adds all or none of the requests to a stream, and returns once they are accepted. `added` gets the number of those that are new, and may
// be null.
enum terrace_status terrace_stream_append(const struct terrace_stream *stream,
                                          const struct terrace_request *requests,
                                          size_t count,
                                          size_t *added);

// Returns the number of requests that are not delivered yet, and of their bytes. Both places may be null.
enum terrace_status terrace_stream_backlog(const struct terrace_stream *stream,
                                           uint64_t *requests,
                                           uint64_t *bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */
