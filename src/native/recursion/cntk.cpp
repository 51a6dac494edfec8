// The C interface: a rectangle of the kernel matrix from two batches of images.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core.hpp"
#include "simd/aligned.hpp"
#include "simd/parallel.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace {

constexpr int bits_before_rescaling = 48;
constexpr int slices_of_offsets = 4;  // pieces of one entry's planes that threads can share
constexpr int images_at_once = 4;     // first images that share a group's tables when there is one plane only

// Images in groups of lanes, each scaled by a power of two to pixels of at most 1 (the kernel is homogeneous, so the
// scale can be put back exactly), and the tables of their variances.
template <class Scalar>
struct Batch {
    int count, groups;
    std::vector<double> scale;
    Aligned<Scalar> pixels;  // [groups, channels, height, width, lanes]
    Aligned<Scalar> tables;  // [groups, layers, height, width, 2, lanes]
    std::size_t group_pixels, group_tables;

    Batch(const Network& network, const Core<Scalar>& core, const Scalar* images, int count, int threads)
        : count(count), groups((count + core.lanes - 1) / core.lanes), scale(std::size_t(groups) * core.lanes, 1.0),
          pixels(std::size_t(groups) * core.lanes * network.channels * network.height * network.width),
          tables(std::size_t(groups) * core.lanes * network.layers * 2 * network.height * network.width) {
        const int lanes = core.lanes;
        const std::size_t area = std::size_t(network.height) * network.width, size = area * network.channels;
        group_pixels = size * lanes;
        group_tables = area * network.layers * 2 * lanes;
        std::vector<Aligned<Scalar>> work;
        for (int thread = 0; thread < threads; ++thread) work.emplace_back(core.work_size(network));
        in_parallel(groups, threads, [&](long group, int thread) {
            Scalar* const into = pixels.get() + group * group_pixels;
            for (int lane = 0; lane < lanes; ++lane) {
                const long image = group * lanes + lane;
                if (image >= count) {
                    for (std::size_t at = 0; at < size; ++at) into[at * lanes + lane] = 0;
                    continue;
                }
                const Scalar* const from = images + image * size;
                Scalar largest = 0;
                for (std::size_t at = 0; at < size; ++at) largest = std::fmax(largest, std::fabs(from[at]));
                int exponent = 0;
                if (largest > 0) std::frexp(largest, &exponent);
                scale[image] = std::ldexp(1.0, exponent);
                const Scalar inverse = std::ldexp(Scalar(1), -exponent);
                for (std::size_t at = 0; at < size; ++at) into[at * lanes + lane] = from[at] * inverse;
            }
            core.tables(network, into, tables.get() + group * group_tables, work[thread].get());
        });
    }
};

// The same images one by one.
template <class Scalar>
struct Singles {
    Aligned<Scalar> pixels, tables;  // [count, channels, height, width], [count, layers, height, width, 2]
    std::size_t image_pixels, image_tables;

    Singles(const Core<Scalar>& core, const Batch<Scalar>& batch, int threads)
        : pixels(batch.count * batch.group_pixels / core.lanes + 1),
          tables(batch.count * batch.group_tables / core.lanes + 1), image_pixels(batch.group_pixels / core.lanes),
          image_tables(batch.group_tables / core.lanes) {
        const int lanes = core.lanes;
        in_parallel(batch.count, threads, [&](long image, int) {
            const auto pick = [&](const Scalar* from, Scalar* into, std::size_t size) {
                for (std::size_t at = 0; at < size; ++at) into[at] = from[at * lanes];
            };
            pick(batch.pixels.get() + image / lanes * batch.group_pixels + image % lanes,
                 pixels.get() + image * image_pixels, image_pixels);
            pick(batch.tables.get() + image / lanes * batch.group_tables + image % lanes,
                 tables.get() + image * image_tables, image_tables);
        });
    }
};

// The three matrices of a request, each [taps, first.count, second.count].
struct Answer {
    double *nngp, *tangent, *doubt;
};

// Sums over all offsets (average pooling) or at offset zero (flatten) behind every tap, and the share of the tangent
// ones that hangs on doubtful angles. symmetric: both batches are the same images; entries below the diagonal are
// mirrored.
template <class Scalar>
void rectangle(const Network& network, const Core<Scalar>& core, const Scalar* first_images, int first_count,
               const Scalar* second_images, int second_count, bool symmetric, bool pooled, int threads,
               const Answer& answer) {
    const Batch<Scalar> second(network, core, second_images, second_count, threads);
    std::unique_ptr<Batch<Scalar>> other;
    if (!symmetric) other.reset(new Batch<Scalar>(network, core, first_images, first_count, threads));
    const Batch<Scalar>& first = symmetric ? second : *other;
    const Singles<Scalar> singles(core, first, threads);

    const int lanes = core.lanes, together = pooled ? 1 : images_at_once;
    const int slices = pooled ? slices_of_offsets : 1, blocks = (first.count + together - 1) / together;
    const std::size_t per_image = std::size_t(network.taps) * tap_sums * lanes, per_block = per_image * together;
    const std::size_t image_work = core.work_size(network);
    std::vector<Aligned<Scalar>> work;
    for (int thread = 0; thread < threads; ++thread) work.emplace_back(image_work * together);
    std::vector<double> sums(std::size_t(blocks) * second.groups * slices * per_block, 0.0);

    in_parallel(long(blocks) * second.groups * slices, threads, [&](long task, int thread) {
        const int slice = int(task % slices), block = int(task / slices % blocks), group = int(task / slices / blocks);
        const int start = block * together, some = std::min(together, first.count - start);
        if (symmetric && (group + 1) * lanes <= start) return;
        const Scalar *pixels[images_at_once], *tables[images_at_once];
        for (int b = 0; b < some; ++b) {
            pixels[b] = singles.pixels.get() + (start + b) * singles.image_pixels;
            tables[b] = singles.tables.get() + (start + b) * singles.image_tables;
        }
        const int down = pooled ? network.height - 1 : 0, along = pooled ? network.width - 1 : 0;
        double* const into = sums.data() + std::size_t(task) * per_block;
        const auto plane = [&](int di, int dj) {
            core.plane(network, some, pixels, tables, second.pixels.get() + group * second.group_pixels,
                       second.tables.get() + group * second.group_tables, di, dj, work[thread].get(), into);
        };
        // The plane of offset zero comes first: an image's angles with itself there are exactly zero, and no doubt.
        if ((down + along) % slices == slice) plane(0, 0);
        for (int b = 0; symmetric && b < some; ++b)
            for (int tap = 0; (start + b) / lanes == group && tap < network.taps; ++tap)
                into[b * per_image + (tap * tap_sums + doubtful_sum) * lanes + (start + b) % lanes] = 0;
        for (int di = -down; di <= down; ++di)
            for (int dj = -along; dj <= along; ++dj)
                if ((di != 0 || dj != 0) && (di + dj + down + along) % slices == slice) plane(di, dj);
    });

    const std::size_t entries = std::size_t(first.count) * second.count;
    for (int i = 0; i < first.count; ++i)
        for (int j = symmetric ? i : 0; j < second.count; ++j)
            for (int tap = 0; tap < network.taps; ++tap) {
                const std::size_t task = (std::size_t(j / lanes) * blocks + i / together) * slices;
                double total[tap_sums] = {0, 0, 0};
                for (int slice = 0; slice < slices; ++slice) {
                    const double* const of =
                        sums.data() + (task + slice) * per_block + (i % together) * per_image + tap * tap_sums * lanes;
                    for (int sum = 0; sum < tap_sums; ++sum) total[sum] += of[sum * lanes + j % lanes];
                }
                const double scale = first.scale[i] * second.scale[j];
                const double share = total[tangent_sum] > 0 ? total[doubtful_sum] / total[tangent_sum] : 0;
                for (const bool mirrored : {false, true}) {
                    if (mirrored && !symmetric) break;
                    const std::size_t at = tap * entries + (mirrored ? std::size_t(j) * second.count + i
                                                                     : std::size_t(i) * second.count + j);
                    answer.nngp[at] = total[nngp_sum] * scale;
                    answer.tangent[at] = total[tangent_sum] * scale;
                    answer.doubt[at] = share;
                }
            }
}

const InstructionSet* const sets[] = {
#if defined(TANGENTBENCH_X86)
    &avx512_set, &avx2_set,
#endif
    &portable_set};

bool supported(const InstructionSet* set) {
#if defined(TANGENTBENCH_X86)
    __builtin_cpu_init();
    if (set == &avx512_set) return __builtin_cpu_supports("avx512f");
    if (set == &avx2_set) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return set == &portable_set;
}

const InstructionSet* find(const char* name) {
    for (const InstructionSet* set : sets)
        if (supported(set) && (!name || !*name || !std::strcmp(name, set->name))) return set;
    return nullptr;
}

}  // namespace

#define TANGENTBENCH_API extern "C" __attribute__((visibility("default")))

// tap_layers: the numbers of convolutions behind whose ReLU the kernels are wanted, growing; the last is all of them.
// tap_sines: for each, the sine below which an angle there is doubtful.
struct Request {
    int channels, height, width, filter, pooled, tangent, train_first, symmetric, threads, taps;
    const int* tap_layers;
    const double* tap_sines;
};

enum Status { done = 0, out_of_memory = 1, unknown_instruction_set = 2 };

template <class Scalar>
int answer(const Request& request, const char* name, const Scalar* first, int first_count, const Scalar* second,
           int second_count, const Answer& into) {
    const InstructionSet* const set = find(name);
    if (!set) return unknown_instruction_set;
    Network network{};
    network.channels = request.channels;
    network.height = request.height;
    network.width = request.width;
    network.filter = request.filter;
    network.layers = request.tap_layers[request.taps - 1];
    network.tangent = request.tangent != 0;
    network.train_first = request.train_first != 0;
    const double growth = 2 * std::log2(double(request.filter));
    network.rescale_every = growth > 0 ? std::max(1, int(bits_before_rescaling / growth)) : network.layers + 1;
    network.rescale = std::ldexp(1.0, -int(std::lround(network.rescale_every * growth)));
    const int threads = std::max(1, request.threads);
    try {
        std::vector<int> tap_of(network.layers, -1);
        std::vector<double> doubtful(request.taps);
        for (int tap = 0; tap < request.taps; ++tap) {
            tap_of[request.tap_layers[tap] - 1] = tap;
            doubtful[tap] = request.tap_sines[tap] / 3.14159265358979323846;
        }
        network.taps = request.taps;
        network.tap = tap_of.data();
        network.doubtful = doubtful.data();
        const Core<Scalar>* core;
        if constexpr (sizeof(Scalar) == sizeof(float))
            core = &set->single;
        else
            core = &set->precise;
        rectangle(network, *core, first, first_count, second, second_count, request.symmetric != 0, request.pooled != 0,
                  threads, into);
    } catch (const std::bad_alloc&) {
        return out_of_memory;
    }
    const double area = double(request.height) * request.width, mean = request.pooled ? 1 / (area * area) : 1;
    const std::size_t entries = std::size_t(first_count) * second_count;
    for (int tap = 0; tap < request.taps; ++tap) {
        // Each layer's 1 / filter^2 and the powers of two taken out on the way.
        const int layers = request.tap_layers[tap], rescalings = (layers - 1) / network.rescale_every;
        const double factor = mean * std::exp2(-growth * layers - rescalings * std::log2(network.rescale));
        for (std::size_t at = tap * entries; at < (tap + 1) * entries; ++at) {
            into.nngp[at] *= factor;
            into.tangent[at] *= factor;
        }
    }
    return done;
}

// Behind every tap, each [taps, first_count, second_count]: the NNGP kernel, Theta times E[relu' relu'] (the tangent
// kernel is their sum where the last layer is trained, else the latter), and the doubtful share of the latter.
#define TANGENTBENCH_CNTK(precision, Scalar)                                                                        \
    TANGENTBENCH_API int tangentbench_cntk_##precision(                                                             \
        const Request* request, const char* instruction_set, const Scalar* first, int first_count,                  \
        const Scalar* second, int second_count, double* nngp, double* tangent, double* doubt) {                     \
        return answer(*request, instruction_set, first, first_count, second, second_count, {nngp, tangent, doubt}); \
    }

TANGENTBENCH_CNTK(float32, float)
TANGENTBENCH_CNTK(float64, double)

// The instruction sets this machine can run, best first: the number-th name, or null.
TANGENTBENCH_API const char* tangentbench_instruction_set(int number) {
    for (const InstructionSet* set : sets)
        if (supported(set) && number-- == 0) return set->name;
    return nullptr;
}

TANGENTBENCH_API int tangentbench_lanes(const char* instruction_set, int bytes) {
    const InstructionSet* const set = find(instruction_set);
    return !set ? 0 : bytes == 4 ? set->single.lanes : set->precise.lanes;
}

TANGENTBENCH_API double tangentbench_peak_gflops(const char* instruction_set, double seconds) {
    const InstructionSet* const set = find(instruction_set);
    return set ? set->peak_gflops(seconds) : 0;
}

// A core found elsewhere than beside the caller's sources is only used if both mean the same request.
TANGENTBENCH_API int tangentbench_request_bytes() { return static_cast<int>(sizeof(Request)); }

TANGENTBENCH_API int tangentbench_uses_openmp() {
#if defined(_OPENMP)
    return 1;
#else
    return 0;
#endif
}
