// What an instruction set offers for networks given as a list of layers, with average pooling between convolutions.
#pragma once

#include <cstddef>

constexpr int most_stages = 12;
constexpr int most_steps = 512;

enum StepKind : int { convolution_step = 0, relu_step = 1 };

struct LayerStep {
    int kind;
    int size;      // side of the filter, odd
    int exponent;  // a power of two that keeps the covariances in range; the caller knows it and puts it back
};

// The layers between two poolings: all at one resolution, where no layer mixes spatial offsets.
struct Stage {
    int height, width;
    int filter;  // largest filter in it
    int first_step, steps;
    int pool, pool_exponent;  // side of the average pooling that ends it; 0 in the last stage
    std::size_t first_table;  // scalars of an image's table before this stage's
};

struct LayeredNetwork {
    int channels, stages;
    bool tangent;       // Theta is wanted
    bool global;        // the last stage is summed over all pairs of positions, else over equal positions
    std::size_t table;  // scalars of an image's table: 1/sqrt(v), sqrt(v) for every position in front of every ReLU
    Stage stage[most_stages];
    LayerStep step[most_steps];
};

template <class Scalar>
struct LayeredCore {
    int lanes;

    // Scalars of working memory that the two functions below need.
    std::size_t (*work_size)(const LayeredNetwork& network);

    // The table of each of `lanes` images. pixels: [channels, height, width, lanes]; table: [network.table, lanes].
    void (*tables)(const LayeredNetwork& network, const Scalar* pixels, Scalar* table, Scalar* work);

    // Sigma and Theta of `lanes` pairs of images, summed over positions: sums [2, lanes].
    void (*pairs)(const LayeredNetwork& network, const Scalar* first_pixels, const Scalar* first_table,
                  const Scalar* second_pixels, const Scalar* second_table, Scalar* work, double* sums);
};

struct LayeredSet {
    const char* name;
    LayeredCore<float> single;
    LayeredCore<double> precise;
};

extern const LayeredSet layered_portable;
#if defined(TANGENTBENCH_X86)
extern const LayeredSet layered_avx2;
extern const LayeredSet layered_avx512;
#endif
