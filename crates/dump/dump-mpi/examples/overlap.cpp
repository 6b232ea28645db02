// A computation on a vector that its ranks share, which continues while its checkpoints are dumped.
//
//   mpicxx -std=c++17 overlap.cpp -lterrace_dump -o overlap
//   mpirun -n 4 ./overlap STORE STEPS
//
// STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE.

#include <iostream>
#include <terrace_dump.hpp>
#include <vector>

static void run(const std::string &store, int steps) {
    int rank, ranks, step = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::size_t cells = 100003, first = cells * rank / ranks;
    std::vector<double> field(cells * (rank + 1) / ranks - first);

    terrace::checkpoints checkpoints(MPI_COMM_WORLD, store);
    checkpoints.set_replicas(2);
    checkpoints.set_limit(2);
    checkpoints.protect_part(0, field.data(), field.size(), first);
    checkpoints.protect_same(1, &step);
    checkpoints.prepare();
    const bool begins = !checkpoints.restart("vector");
    if (rank == 0) {
        std::cout << (begins ? "begins" : "goes on") << " after step " << step;
        if (!begins) std::cout << ", from an archive: " << checkpoints.is_archived();
        std::cout << std::endl;
    }
    while (step < steps) {
        step++;
        for (std::size_t i = 0; i < field.size(); i++) field[i] += first + i;
        checkpoints.begin("vector");
    }
    for (std::size_t i = 0; i < field.size(); i++) {
        if (field[i] != double(step) * (first + i)) throw std::runtime_error("a cell has another value");
    }
    const auto version = checkpoints.wait();
    if (rank == 0) std::cout << "version " << version.value() << ", ended: " << checkpoints.test() << std::endl;
    try {
        checkpoints.restart("vector", -7);
    } catch (const terrace::dump_error &failure) {
        if (rank == 0) std::cout << "invalid: " << (failure.status() == TERRACE_DUMP_STATUS_INVALID) << std::endl;
    }
}

int main(int count, char **arguments) {
    int threads;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &threads);
    try {
        run(arguments[1], std::stoi(arguments[2]));
    } catch (const std::exception &failure) {
        std::cerr << failure.what() << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
