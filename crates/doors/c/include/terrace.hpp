// Terrace for C++17: terrace.h with classes that close what they open, and exceptions.
//
// Names are those of terrace.h without their prefix, and its documentation holds. Objects can be moved, not copied. Destructors close;
// they cannot report a failure, so call `close` where one matters. Destroy files, streams and datasets before their store.

#ifndef TERRACE_HPP
#define TERRACE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace.h"

namespace terrace {

// A failed call, with its message.
class error : public std::runtime_error {
public:
    explicit error(terrace_status status) : std::runtime_error(terrace_last_error()), status_(status) {}

    // Returns the reason, such as `TERRACE_STATUS_NOT_FOUND`.
    terrace_status status() const noexcept { return status_; }

private:
    terrace_status status_;
};

// Throws if a call has failed.
inline void check(terrace_status status) {
    if (status != TERRACE_STATUS_OK) throw error(status);
}

// Bytes to write: a pointer and a length, or a std::vector, std::string or std::array.
class bytes {
public:
    bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <class Range, class Value = std::remove_pointer_t<decltype(std::declval<const Range &>().data())>>
    bytes(const Range &range) noexcept : bytes(range.data(), range.size() * sizeof(Value)) {
        static_assert(std::is_trivially_copyable_v<Value>, "elements with pointers or constructors cannot be stored");
    }

    const void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    const void *data_;
    std::size_t size_;
};

// Memory to read into: a pointer and a length, or a std::vector, std::string or std::array, which keeps its length.
class room {
public:
    room(void *data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <class Range, class Value = std::remove_pointer_t<decltype(std::declval<Range &>().data())>,
              class = std::enable_if_t<!std::is_same_v<Range, room>>>
    room(Range &range) noexcept : room(range.data(), range.size() * sizeof(Value)) {
        static_assert(std::is_trivially_copyable_v<Value>, "elements with pointers or constructors cannot be read");
    }

    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    void *data_;
    std::size_t size_;
};

// Requirements. Empty texts and 0 leave everything to the store's rules.
struct options {
    std::string requirements, ack, weights, budget, element;
    std::uint8_t replicas = 0;
    // Seconds, for the target that holds the first replica.
    double max_latency = 0;
    // The only tiers to use, such as "ram+disk".
    std::string tiers;
};

// A request of a stream.
struct request {
    std::string destination;
    // -1 appends the bytes behind all that were delivered before.
    std::int64_t offset;
    std::string bytes;
    // Empty if the request is never sent again.
    std::string producer;
    std::uint64_t sequence = 0;
};

namespace detail {

inline const char *or_null(const std::string &text) noexcept { return text.empty() ? nullptr : text.c_str(); }

// Requirements in C, which point to those in C++.
inline terrace_options in_c(const options &given) noexcept {
    return {or_null(given.requirements), or_null(given.ack),     or_null(given.weights),
            or_null(given.budget),       or_null(given.element), given.replicas,
            sizeof(terrace_options),     given.max_latency,      or_null(given.tiers)};
}

// Takes a text in JSON from C.
inline std::string taken(char *json) {
    std::unique_ptr<char, decltype(&terrace_free)> owned(json, terrace_free);
    return json;
}

// An open thing of C.
template <class Thing, terrace_status (*Close)(Thing *)>
class handle {
public:
    // Closes it. Closing twice does nothing.
    void close() { check(Close(open_.release())); }

    // Returns the handle for functions of C; null once it is closed.
    Thing *get() const noexcept { return open_.get(); }

protected:
    handle() = default;
    explicit handle(Thing *open) noexcept : open_(open) {}

private:
    struct closer {
        // The status is ignored because a destructor must not throw.
        void operator()(Thing *open) const noexcept { Close(open); }
    };
    std::unique_ptr<Thing, closer> open_;
};

}  // namespace detail

// A store. Many threads may use one at once.
class store : public detail::handle<terrace_store, terrace_close> {
public:
    static void init(const std::string &directory, const std::string &configuration) {
        check(terrace_init(directory.c_str(), configuration.c_str()));
    }

    explicit store(const std::string &directory, const options &application = {}) : handle(opened(directory, application)) {}

    terrace_receipt replicate(const std::string &key, bytes from, const options &operation = {}) {
        const terrace_options asked = detail::in_c(operation);
        terrace_receipt receipt;
        check(terrace_replicate(get(), key.c_str(), from.data(), from.size(), &asked, &receipt));
        return receipt;
    }

    terrace_receipt write_at(const std::string &key, std::uint64_t offset, bytes from, const options &operation = {}) {
        const terrace_options asked = detail::in_c(operation);
        terrace_receipt receipt;
        check(terrace_write_at(get(), key.c_str(), offset, from.data(), from.size(), &asked, &receipt));
        return receipt;
    }

    // Returns the position of the first byte, too.
    std::pair<std::uint64_t, terrace_receipt> append(const std::string &key, bytes from, const options &operation = {}) {
        const terrace_options asked = detail::in_c(operation);
        std::pair<std::uint64_t, terrace_receipt> done;
        check(terrace_append(get(), key.c_str(), from.data(), from.size(), &asked, &done.first, &done.second));
        return done;
    }

    // Returns the number of bytes, which is less than the room only at the object's end.
    std::size_t read(const std::string &key, std::uint64_t offset, room into) const {
        std::size_t read;
        check(terrace_read(get(), key.c_str(), offset, into.data(), into.size(), &read));
        return read;
    }

    // Returns a whole object.
    std::string read(const std::string &key) const {
        std::string whole(static_cast<std::size_t>(length(key)), '\0');
        whole.resize(read(key, 0, whole));
        return whole;
    }

    std::uint64_t length(const std::string &key) const {
        std::uint64_t length;
        check(terrace_length(get(), key.c_str(), &length));
        return length;
    }

    terrace_info stat(const std::string &key) const {
        terrace_info info;
        check(terrace_stat(get(), key.c_str(), &info));
        return info;
    }

    // Calls `visit(key, info)` with each object below a prefix. If it returns a bool, false ends the listing.
    template <class Visit>
    void list(const std::string &prefix, Visit visit) const {
        struct state {
            Visit &visit;
            std::exception_ptr thrown;
        } given{visit, nullptr};
        // An exception must not pass through C: it is kept, and thrown again behind the call.
        const auto call = [](void *context, const char *key, const terrace_info *info) noexcept -> int {
            auto &given = *static_cast<state *>(context);
            try {
                if constexpr (std::is_same_v<decltype(given.visit(key, *info)), bool>) {
                    return given.visit(key, *info) ? 0 : 1;
                } else {
                    given.visit(key, *info);
                    return 0;
                }
            } catch (...) {
                given.thrown = std::current_exception();
                return 1;
            }
        };
        const terrace_status status = terrace_list(get(), prefix.c_str(), call, &given);
        if (given.thrown) std::rethrow_exception(given.thrown);
        check(status);
    }

    void rename(const std::string &from, const std::string &to) { check(terrace_rename(get(), from.c_str(), to.c_str())); }
    void copy(const std::string &from, const std::string &to) { check(terrace_copy(get(), from.c_str(), to.c_str())); }
    void remove(const std::string &key) { check(terrace_delete(get(), key.c_str())); }

    // Waits until a write is `"placed"`, `"replicated"` or `"durable"`, and updates its receipt.
    void wait(terrace_receipt &receipt, const std::string &level) const {
        check(terrace_wait(get(), &receipt, level.c_str()));
    }

    void sync() const { check(terrace_sync(get())); }

    // Returns JSON.
    std::string locate(const std::string &key) const {
        char *json;
        check(terrace_locate(get(), key.c_str(), &json));
        return detail::taken(json);
    }

    // Returns JSON.
    std::string plan(const std::string &key, bytes from, const options &operation = {}) const {
        const terrace_options asked = detail::in_c(operation);
        char *json;
        check(terrace_plan(get(), key.c_str(), from.data(), from.size(), &asked, &json));
        return detail::taken(json);
    }

private:
    static terrace_store *opened(const std::string &directory, const options &application) {
        const terrace_options asked = detail::in_c(application);
        terrace_store *store;
        check(terrace_open(directory.c_str(), &asked, &store));
        return store;
    }
};

// An object that is open as a file. Many threads may use one at once.
class file : public detail::handle<terrace_file, terrace_file_close> {
public:
    // `mode` is as in `fopen`.
    file(const store &in, const std::string &key, const std::string &mode) : handle(opened(in, key, mode)) {}

    // Returns the number of bytes, which is less than the room only at the file's end.
    std::size_t read(std::uint64_t offset, room into) const {
        std::size_t read;
        check(terrace_file_read(get(), offset, into.data(), into.size(), &read));
        return read;
    }

    void write(std::uint64_t offset, bytes from) { check(terrace_file_write(get(), offset, from.data(), from.size())); }

    // Returns the position of the first byte.
    std::uint64_t append(bytes from) {
        std::uint64_t offset;
        check(terrace_file_append(get(), from.data(), from.size(), &offset));
        return offset;
    }

    std::uint64_t length() const {
        std::uint64_t length;
        check(terrace_file_length(get(), &length));
        return length;
    }

    void truncate(std::uint64_t length) { check(terrace_file_truncate(get(), length)); }
    void flush() { check(terrace_file_flush(get())); }
    void sync() { check(terrace_file_sync(get())); }

private:
    static terrace_file *opened(const store &in, const std::string &key, const std::string &mode) {
        terrace_file *file;
        check(terrace_file_open(in.get(), key.c_str(), mode.c_str(), &file));
        return file;
    }
};

// A stream of requests. Many threads may use one at once.
class stream : public detail::handle<terrace_stream, terrace_stream_close> {
public:
    // The number of requests that are not delivered yet, and of their bytes.
    struct pending {
        std::uint64_t requests, bytes;
    };

    stream(const store &in, const std::string &name, const std::string &level) : handle(opened(in, name, level)) {}

    // Adds all or none of the requests, and returns the number of new ones.
    std::size_t append(const std::vector<request> &requests) {
        std::vector<terrace_request> given;
        given.reserve(requests.size());
        for (const request &one : requests)
            given.push_back({one.destination.c_str(), one.offset, one.bytes.data(), one.bytes.size(),
                             detail::or_null(one.producer), one.sequence});
        std::size_t added;
        check(terrace_stream_append(get(), given.data(), given.size(), &added));
        return added;
    }

    pending backlog() const {
        pending left;
        check(terrace_stream_backlog(get(), &left.requests, &left.bytes));
        return left;
    }

private:
    static terrace_stream *opened(const store &in, const std::string &name, const std::string &level) {
        terrace_stream *stream;
        check(terrace_stream_open(in.get(), name.c_str(), level.c_str(), &stream));
        return stream;
    }
};

// A dataset. Many threads may use one at once.
class dataset : public detail::handle<terrace_dataset, terrace_dataset_close> {
public:
    dataset(const store &in, const std::string &name) : handle(opened(in, name)) {}

    // Adds a dataset, filled with zeros.
    static dataset add(const store &in, const std::string &name, const std::string &declaration) {
        terrace_dataset *added;
        check(terrace_dataset_add(in.get(), name.c_str(), declaration.c_str(), &added));
        return dataset(added);
    }

    static void remove(const store &in, const std::string &name) { check(terrace_dataset_remove(in.get(), name.c_str())); }

    // Returns a list in JSON.
    std::string views() const {
        char *json;
        check(terrace_dataset_views(get(), &json));
        return detail::taken(json);
    }

    std::uint64_t length(const std::string &view) const {
        std::uint64_t length;
        check(terrace_dataset_length(get(), view.c_str(), &length));
        return length;
    }

    // Returns the number of bytes, which is less than the room only at the view's end.
    std::size_t read(const std::string &view, std::uint64_t offset, room into) const {
        std::size_t read;
        check(terrace_dataset_read(get(), view.c_str(), offset, into.data(), into.size(), &read));
        return read;
    }

    void write(const std::string &view, std::uint64_t offset, bytes from) {
        check(terrace_dataset_write(get(), view.c_str(), offset, from.data(), from.size()));
    }

    void sync() { check(terrace_dataset_sync(get())); }

private:
    explicit dataset(terrace_dataset *open) noexcept : handle(open) {}

    static terrace_dataset *opened(const store &in, const std::string &name) {
        terrace_dataset *dataset;
        check(terrace_dataset_open(in.get(), name.c_str(), &dataset));
        return dataset;
    }
};

// Compresses at most one gibibyte. If `encoding` is empty, one is chosen for the bytes.
inline std::string compress(bytes from, const std::string &encoding = {}) {
    std::string made(terrace_compressed_most(from.size()), '\0');
    std::size_t length;
    check(terrace_compress(detail::or_null(encoding), from.data(), from.size(), made.data(), made.size(), &length));
    made.resize(length);
    return made;
}

// The tiers and weights for `compress_for`.
struct compression {
    std::vector<terrace_tier> tiers;
    std::string weights;
    double reads = 1;
};

// Compresses at most one gibibyte for the best of these tiers. `report`, unless it is null, gets the report in JSON.
inline std::string compress_for(const compression &wanted, bytes from, std::string *report = nullptr) {
    const terrace_compression in_c = {sizeof(terrace_compression), wanted.tiers.data(), wanted.tiers.size(),
                                      detail::or_null(wanted.weights), wanted.reads};
    std::string made(terrace_compressed_most(from.size()), '\0');
    std::size_t length;
    char *json = nullptr;
    check(terrace_compress_for(&in_c, from.data(), from.size(), made.data(), made.size(), &length,
                               report ? &json : nullptr));
    if (report) *report = detail::taken(json);
    made.resize(length);
    return made;
}

// Decompresses the result of `compress` or `compress_for`, and returns the number of bytes.
inline std::size_t decompress(bytes from, room into) {
    std::size_t made;
    check(terrace_decompress(from.data(), from.size(), into.data(), into.size(), &made));
    return made;
}

// Decompresses the result of `compress`.
inline std::string decompress(bytes from) {
    // The first call only asks for the length.
    std::size_t length = 0;
    const terrace_status asked = terrace_decompress(from.data(), from.size(), nullptr, 0, &length);
    if (asked != TERRACE_STATUS_TOO_SHORT) check(asked);
    std::string made(length, '\0');
    decompress(from, made);
    return made;
}

}  // namespace terrace

#endif  // TERRACE_HPP
