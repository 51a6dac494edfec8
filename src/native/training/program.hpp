// What a block of training steps is told, and what an instruction set offers for it.
#pragma once

#include <cstdint>

enum Gates { own_gates = 0, frozen_hard = 1, frozen_soft = 2, trained_soft = 3 };
enum Loss { cross_entropy = 0, squared = 1 };
enum Rule { plain_descent = 0, momentum_descent = 1, adam = 2 };

// Runs of one fully connected network, d layers of weights, that take `steps` steps together.
struct Program {
    int runs, threads;
    int layers;   // d
    int padding;  // m of DGN^(m): value layers are m times as wide as feature layers
    int biases;
    int gates, loss, rule;
    int batch, steps;
    int targets;      // numbers in a row of targets; 0: labels are classes
    int largest_row;  // most nonzero numbers in one example; 0: the examples are dense
    int64_t count;    // examples in the block: the last batch may be smaller
    int64_t steps_before;
    double beta, height;  // of the soft gate
    double momentum, weight_decay, beta_1, beta_2, epsilon;
    double factor;             // of every step size
    const int* widths;         // [d + 1]: inputs, hidden layers of the value network, outputs
    const double* step_sizes;  // [runs]
    const int64_t* order;      // [runs, count]: which examples
    const int64_t* labels;     // [n], or null
    // The nonzero numbers of each example, or null.
    const int64_t* row_starts;  // [n + 1]
    const int32_t* columns;
    const uint8_t* occupied;  // [inputs]: 0 where the number is zero in every example
    double* losses;           // [steps, runs]
    int64_t* right;           // [steps, runs]
};

// Tensors of each run: weight and bias of value layers 1 to d, then of feature layers 1 to d - 1.
template <class Scalar>
struct Tensors {
    const Scalar* inputs;       // [n, widths[0]], or the nonzero numbers in the order of `columns`
    const Scalar* targets;      // [n, targets], or null
    Scalar* const* parameters;  // [runs, tensors]
    Scalar* const* first;       // first and second moments in the same order, or null
    Scalar* const* second;
};

struct TrainingSet {
    const char* name;
    void (*single)(const Program& program, const Tensors<float>& tensors);
    void (*precise)(const Program& program, const Tensors<double>& tensors);
};

extern const TrainingSet portable_training;
#if defined(TANGENTBENCH_X86)
extern const TrainingSet avx2_training;
extern const TrainingSet avx512_training;
#endif
