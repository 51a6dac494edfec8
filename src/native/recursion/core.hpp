// What an instruction set offers to the driver: three plain functions per precision.
#pragma once

#include <cstddef>

struct Network {
    int channels, height, width;
    int filter;              // side of the square filter, odd
    int layers;              // convolution layers L = depth - 1
    bool tangent;            // Theta is wanted (NTK) beside Sigma (NNGP)
    bool train_first;        // Theta^(0) = Sigma^(0) instead of 0
    int rescale_every;       // the planes grow by filter^2 a layer; every so many layers they are
    double rescale;          // multiplied by this power of two, and the variances with them
    int taps;                // layers behind whose ReLU sums are taken: each ends a network of its own depth
    const int* tap;          // [layers]: the number of the layer's tap, or -1
    const double* doubtful;  // [taps]: an angle of a tapped layer whose sine is less, over pi, is doubtful
};

// What a tap adds up over the positions of a plane, each [lanes]: E[relu relu] (the NNGP kernel), Theta times
// E[relu' relu'] (the rest of the tangent kernel), and what of the latter hangs on doubtful angles.
enum TapSum : int { nngp_sum = 0, tangent_sum = 1, doubtful_sum = 2, tap_sums = 3 };

template <class Scalar>
struct Core {
    int lanes;

    // Scalars of working memory that `tables` and one image of `plane` need.
    std::size_t (*work_size)(const Network& network);

    // Roots of the variances of one group of `lanes` images.
    // pixels: [channels, height, width, lanes]; tables: [layers, height, width, 2, lanes] with 1/sqrt(v), sqrt(v).
    void (*tables)(const Network& network, const Scalar* pixels, Scalar* tables, Scalar* work);

    // The plane of spatial offset (di, dj) through all layers, for `count` single images against one group.
    // first_pixels[b]: [channels, height, width]; first_tables[b]: [layers, height, width, 2]; the group as above.
    // Adds the plane's sums over pixels to sums: [count, taps, tap_sums, lanes].
    void (*plane)(const Network& network, int count, const Scalar* const* first_pixels,
                  const Scalar* const* first_tables, const Scalar* pixels, const Scalar* tables, int di, int dj,
                  Scalar* work, double* sums);
};

struct InstructionSet {
    const char* name;
    Core<float> single;
    Core<double> precise;
    double (*peak_gflops)(double seconds);  // fused multiply-adds in float32 on one core, two operations each
};

extern const InstructionSet portable_set;
#if defined(TANGENTBENCH_X86)
extern const InstructionSet avx2_set;
extern const InstructionSet avx512_set;
#endif
