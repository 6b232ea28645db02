// Writes objects, files, requests and a dataset, and reads them back.
//
//   c++ -std=c++17 replicate.cpp $(pkg-config --cflags --libs terrace) && ./a.out STORE [CONFIGURATION]
//
// With the file of a configuration, it makes the store first.

#include <array>
#include <cmath>
#include <iostream>
#include <terrace.hpp>

using namespace std::string_literals;

static_assert(!std::is_copy_constructible_v<terrace::store> && std::is_nothrow_move_constructible_v<terrace::store>);

// Replicates a field with requirements of its own.
static void objects(terrace::store &store) {
    std::vector<double> field(200000);
    for (std::size_t i = 0; i < field.size(); i++) field[i] = std::sqrt(i / 16);
    terrace::options operation;
    operation.requirements = "min_storage";
    operation.ack = "replicated";
    operation.max_latency = 60;
    terrace_receipt receipt = store.replicate("run/field", field, operation);
    store.wait(receipt, "durable");
    std::cout << receipt.bytes << " bytes, durable: " << receipt.durable << "\n";

    const std::array<double, 2> changed = {-1, -2};
    store.write_at("run/field", 8 * sizeof(double), changed);
    std::vector<double> back(field.size());
    const std::size_t read = store.read("run/field", 0, back);
    std::cout << "read " << read << " bytes, changed: " << (back[8] == -1 && back[9] == -2 && back[10] == field[10]) << "\n";

    store.append("run/log", "begin\n"s);
    std::cout << "appended at " << store.append("run/log", "end\n"s).first << ": " << store.read("run/log");
    store.copy("run/log", "run/copy");
    store.rename("run/copy", "run/again");
    std::cout << "length " << store.length("run/again") << ", mode " << std::oct << store.stat("run/again").mode << std::dec << "\n";
    int count = 0;
    store.list("run", [&](const std::string &, const terrace_info &info) { count += info.kind == TERRACE_KIND_FILE; });
    store.list("run", [&](const std::string &, const terrace_info &) { return ++count < 4; });
    std::cout << "objects: " << count << "\n";
    try {
        store.list("run", [](const std::string &key, const terrace_info &) { throw std::runtime_error("not " + key); });
    } catch (const std::runtime_error &thrown) {
        std::cout << "thrown: " << (thrown.what()[0] == 'n') << "\n";
    }
    std::cout << "located: " << (store.locate("run/field").find("\"present\"") != std::string::npos) << "\n";
    std::cout << "planned: " << (store.plan("run/field", field).find("explanation") != std::string::npos) << "\n";
}

// A failed call throws; the status says why.
static void failures(terrace::store &store) {
    store.remove("run/again");
    try {
        store.remove("run/again");
    } catch (const terrace::error &failure) {
        const bool named = std::string(failure.what()).find("run/again") != std::string::npos;
        std::cout << "not found: " << (failure.status() == TERRACE_STATUS_NOT_FOUND) << ", named: " << named << "\n";
    }
    terrace::options wrong;
    wrong.requirements = "max_speed";
    try {
        store.replicate("x", "x"s, wrong);
    } catch (const terrace::error &failure) {
        std::cout << "invalid: " << (failure.status() == TERRACE_STATUS_INVALID) << "\n";
    }
}

static void files(terrace::store &store) {
    terrace::file file(store, "run/table", "w+");
    for (int i = 0; i < 1000; i++) file.write(i * sizeof i, {&i, sizeof i});
    int number;
    file.read(123 * sizeof number, {&number, sizeof number});
    file.truncate(100 * sizeof number);
    const std::uint64_t end = file.append("end"s);
    file.flush();
    file.sync();
    std::cout << "number " << number << ", appended at " << end << ", length " << file.length() << "\n";
    terrace::file moved = std::move(file);
    moved.close();
    try {
        moved.length();
    } catch (const terrace::error &failure) {
        std::cout << "closed: " << (failure.status() == TERRACE_STATUS_INVALID) << "\n";
    }
}

static void requests(terrace::store &store) {
    terrace::stream stream(store, "results", "placed");
    const std::vector<terrace::request> both = {{"run/log", -1, "a line\n", "rank 0", 1}, {"run/field", 4096, "bytes", "rank 0", 2}};
    const std::size_t added = stream.append(both), again = stream.append(both);
    std::cout << "added " << added << ", then " << again << "; pending: " << stream.backlog().requests << "\n";
}

static void datasets(terrace::store &store) {
    const std::string declaration =
        "dataset { var particles [1000]struct { x, y float64 } }"
        "view whole { var particles = particles }"
        "view heights { var y [] { y } = particles }"
        "replica written { view whole }"
        "replica by_field { view heights }";
    terrace::dataset particles = terrace::dataset::add(store, "particles", declaration);
    std::vector<double> written(2000), heights(1000);
    for (std::size_t i = 0; i < written.size(); i++) written[i] = i % 2 ? -double(i / 2) : double(i / 2);
    particles.write("whole", 0, written);
    particles.read("heights", 0, heights);
    particles.sync();
    std::cout << particles.views() << ": " << particles.length("heights") << " bytes, y[7] = " << heights[7] << "\n";
    particles.close();
    terrace::dataset(store, "particles").close();
    terrace::dataset::remove(store, "particles");
}

static void encodings() {
    const std::vector<double> field(100000, 0.5);
    const std::string packed = terrace::compress(field, "shuffle8+zstd-1");
    std::vector<double> back(field.size());
    terrace::decompress(packed, back);
    std::cout << "packed: " << (packed.size() < 80000 && back == field) << "\n";
    terrace::compression wanted;
    wanted.tiers = {{"memory", 1e10, 1e10, 0, 0}, {"archive", 2e7, 1e7, 0.01, 0}};
    std::string report;
    const std::string quick = terrace::compress_for(wanted, field, &report);
    terrace::decompress(quick, back);
    std::cout << "for memory: " << (back == field && report.find("\"tier\":0") != std::string::npos) << "\n";
    std::cout << "of any length: " << (terrace::decompress(terrace::compress("again and again"s)) == "again and again") << "\n";
}

int main(int argc, char **argv) try {
    const std::string directory = argc > 1 ? argv[1] : "store";
    if (argc > 2) terrace::store::init(directory, argv[2]);
    terrace::options application;
    application.replicas = 1;
    terrace::store store(directory, application);
    objects(store);
    failures(store);
    files(store);
    requests(store);
    datasets(store);
    encodings();
    store.sync();
    store.close();
} catch (const terrace::error &failure) {
    std::cerr << failure.status() << ": " << failure.what() << "\n";
    return 1;
}
