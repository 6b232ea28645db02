// Checkpoints of MPI programs, for C++17: terrace_dump.h with a class that closes what it opens, and exceptions.
//
// Names are those of terrace_dump.h without their prefix, and its documentation holds.

#ifndef TERRACE_DUMP_HPP
#define TERRACE_DUMP_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "terrace_dump.h"

namespace terrace {

// A failed dump or restart, with its message.
class dump_error : public std::runtime_error {
public:
    explicit dump_error(terrace_dump_status status) : std::runtime_error(terrace_dump_last_error()), status_(status) {}

    // Returns the reason, such as `TERRACE_DUMP_STATUS_LOST`.
    terrace_dump_status status() const noexcept { return status_; }

private:
    terrace_dump_status status_;
};

// Throws if a call has failed.
inline void check(terrace_dump_status status) {
    if (status != TERRACE_DUMP_STATUS_OK) throw dump_error(status);
}

// Dumps a buffer of each rank.
inline void dump(MPI_Comm comm, const void *buffer, std::size_t length, std::uint32_t replicas) {
    check(terrace_dump(comm, buffer, length, replicas));
}

// The ranks of a communicator with their nodes' stores, and the protected regions of each rank. It can be moved, not copied. All ranks destroy it
// before MPI_Finalize; the destructor waits for checkpoints that have begun.
class checkpoints {
public:
    // The version that a checkpoint makes next, or the newest whole one that a restart finds.
    static constexpr std::int64_t newest = -1;

    checkpoints(MPI_Comm comm, const std::string &store) : open_(opened(comm, store)) {}

    void set_replicas(std::uint32_t replicas) { check(terrace_dump_set_replicas(get(), replicas)); }
    void set_keep(std::uint32_t keep) { check(terrace_dump_set_keep(get(), keep)); }
    // An empty place ends the flow of versions.
    void set_flow(const std::string &to, std::uint32_t keep = 0) {
        check(terrace_dump_set_flow(get(), to.empty() ? nullptr : to.c_str(), keep));
    }
    void set_chunks(std::uint32_t bytes, bool by_content = false) { check(terrace_dump_set_chunks(get(), bytes, by_content)); }
    void set_limit(std::uint32_t limit) { check(terrace_dump_set_limit(get(), limit)); }
    void prepare() { check(terrace_dump_prepare(get())); }

    // Protects a rank's own elements. They stay where they are as long as they are protected.
    template <class Value>
    void protect(std::uint32_t region, Value *first, std::size_t count = 1) {
        check(terrace_dump_protect(get(), region, memory(first), bytes<Value>(count)));
    }

    // Protects elements that are the same on all ranks.
    template <class Value>
    void protect_same(std::uint32_t region, Value *first, std::size_t count = 1) {
        check(terrace_dump_protect_same(get(), region, memory(first), bytes<Value>(count)));
    }

    // Protects a part of an array that all ranks share: its elements from number `start` on.
    template <class Value>
    void protect_part(std::uint32_t region, Value *first, std::size_t count, std::uint64_t start) {
        check(terrace_dump_protect_part(get(), region, memory(first), bytes<Value>(count), bytes<Value>(start)));
    }

    void unprotect(std::uint32_t region) { check(terrace_dump_unprotect(get(), region)); }

    // Dumps the regions, and returns the version.
    std::uint32_t checkpoint(const std::string &name, std::int64_t version = newest) {
        std::uint32_t made;
        check(terrace_dump_checkpoint(get(), name.c_str(), version, &made));
        return made;
    }

    // Restores the regions, and returns the version; nothing if there is no checkpoint.
    std::optional<std::uint32_t> restart(const std::string &name, std::int64_t version = newest) {
        std::uint32_t restored;
        const terrace_dump_status status = terrace_dump_restart(get(), name.c_str(), version, &restored);
        if (status == TERRACE_DUMP_STATUS_NOT_FOUND) return std::nullopt;
        check(status);
        return restored;
    }

    // Returns whether the last restart took its version from the place to which versions flow, not from the nodes' stores.
    bool is_archived() const {
        bool archived;
        check(terrace_dump_is_archived(get(), &archived));
        return archived;
    }

    // Begins a checkpoint, and returns once the regions are copied.
    void begin(const std::string &name, std::int64_t version = newest) { check(terrace_dump_begin(get(), name.c_str(), version)); }

    // Waits for all checkpoints that have begun. Returns the newest version that was made.
    std::optional<std::uint32_t> wait() {
        std::int64_t made;
        check(terrace_dump_wait(get(), &made));
        return version(made);
    }

    // Returns at once whether all of them have ended on this rank.
    bool test() {
        bool ended;
        check(terrace_dump_test(get(), &ended, nullptr));
        return ended;
    }

    // Returns the handle for functions of C.
    terrace_checkpoints *get() const noexcept { return open_.get(); }

private:
    static terrace_checkpoints *opened(MPI_Comm comm, const std::string &store) {
        terrace_checkpoints *checkpoints;
        check(terrace_dump_open(comm, store.c_str(), &checkpoints));
        return checkpoints;
    }

    template <class Value>
    static void *memory(Value *first) {
        static_assert(std::is_trivially_copyable_v<Value>, "elements with pointers or constructors cannot be restored");
        return first;
    }

    // Returns the length of elements in bytes. One that does not fit becomes the longest, which C refuses.
    template <class Value>
    static std::uint64_t bytes(std::uint64_t count) noexcept {
        const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        return count > most / sizeof(Value) ? most : count * sizeof(Value);
    }

    static std::optional<std::uint32_t> version(std::int64_t made) {
        if (made < 0) return std::nullopt;
        return static_cast<std::uint32_t>(made);
    }

    struct closer {
        void operator()(terrace_checkpoints *open) const noexcept { terrace_dump_close(open); }
    };
    std::unique_ptr<terrace_checkpoints, closer> open_;
};

}  // namespace terrace

#endif  // TERRACE_DUMP_HPP
