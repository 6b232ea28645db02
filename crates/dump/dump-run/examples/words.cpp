// A program in C++ that knows nothing of checkpoints, but for one call.
//
//   mpicxx words.cpp -o words
//   mpirun -n 2 terrace dump run words --at terrace_checkpoint_here --restart -- ./words STEPS
//
// In step DIE_IN_STEP of the environment, rank 1 ends the job.
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <vector>

// Null without `terrace dump run`.
extern "C" void terrace_checkpoint_here(void) __attribute__((weak));

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int steps = std::stoi(arguments[1]);
    std::map<std::string, std::vector<int>> words;
    auto total = std::make_unique<long>(0);
    for (int step = 0; step < steps; step++) {
        try {
            words["word " + std::to_string(step % 7)].push_back(step * (rank + 1));
            if (step % 3 == 0)
                throw std::runtime_error("step " + std::to_string(step));
        } catch (const std::runtime_error &error) {
            words[error.what()].push_back(step);
        }
        const char *dies = std::getenv("DIE_IN_STEP");
        if (dies && std::stoi(dies) == step && rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (terrace_checkpoint_here)
            terrace_checkpoint_here();
    }
    for (const auto &[word, places] : words)
        for (int place : places)
            *total += static_cast<long>(word.size()) * place;
    long sum = 0;
    MPI_Reduce(total.get(), &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::cout << words.size() << " words, " << sum << std::endl;
    MPI_Finalize();
}
