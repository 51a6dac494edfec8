// The C interface: kernels of pairs of images under a network given as a list of layers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "layered_core.hpp"
#include "simd/aligned.hpp"
#include "simd/parallel.hpp"

extern "C" const char* tangentbench_instruction_set(int number);

namespace {

constexpr int pool_step = 2;
enum Status { done = 0, out_of_memory = 1, unknown_instruction_set = 2, unfit_network = 3 };

const LayeredSet* const sets[] = {
#if defined(TANGENTBENCH_X86)
    &layered_avx512, &layered_avx2,
#endif
    &layered_portable};

const LayeredSet* find(const char* name) {
    for (int number = 0; const char* const known = tangentbench_instruction_set(number); ++number)
        if (!name || !*name || !std::strcmp(name, known))
            for (const LayeredSet* set : sets)
                if (!std::strcmp(set->name, known)) return set;
    return nullptr;
}

// Cuts the list of layers into stages at its poolings; false where there are too many layers or pixels run out.
bool compiled(LayeredNetwork& network, int height, int width, const LayerStep* steps, int count) {
    network.stages = 0;
    network.table = 0;
    int kept = 0, start = 0, filter = 1, relus = 0;
    const auto close = [&](int pool, int exponent) {
        if (network.stages == most_stages || height < 1 || width < 1) return false;
        network.stage[network.stages++] = {height, width, filter, start, kept - start, pool, exponent, network.table};
        network.table += std::size_t(2) * relus * height * width;
        start = kept;
        filter = 1;
        relus = 0;
        return true;
    };
    for (int number = 0; number < count; ++number) {
        const LayerStep& step = steps[number];
        if (step.kind == pool_step) {
            if (!close(step.size, step.exponent)) return false;
            height /= step.size;
            width /= step.size;
            continue;
        }
        if (kept == most_steps) return false;
        network.step[kept++] = step;
        if (step.kind == relu_step) ++relus;
        if (step.kind == convolution_step) filter = std::max(filter, step.size);
    }
    return close(0, 0);
}

// Images scaled by a power of two to pixels of at most 1, with the tables of their variances.
template <class Scalar>
struct Images {
    std::size_t size, table;
    Aligned<Scalar> pixels, tables;  // [count, size], [count, table]
    std::vector<double> scale;

    Images(const LayeredNetwork& network, const LayeredCore<Scalar>& core, const Scalar* images, int count, int threads)
        : size(std::size_t(network.channels) * network.stage[0].height * network.stage[0].width), table(network.table),
          pixels(size * count), tables(table * count), scale(count, 1.0) {
        const int lanes = core.lanes;
        threads = std::min(threads, (count + lanes - 1) / lanes);
        std::vector<Aligned<Scalar>> group_pixels, group_tables, work;
        for (int thread = 0; thread < threads; ++thread) {
            group_pixels.emplace_back(size * lanes);
            group_tables.emplace_back(table * lanes);
            work.emplace_back(core.work_size(network));
        }
        in_parallel((count + lanes - 1) / lanes, threads, [&](long group, int thread) {
            const int start = int(group) * lanes, some = std::min(lanes, count - start);
            Scalar* const together = group_pixels[thread].get();
            std::memset(together, 0, size * lanes * sizeof(Scalar));
            for (int lane = 0; lane < some; ++lane) {
                const Scalar* const from = images + (start + lane) * size;
                Scalar* const into = pixels.get() + (start + lane) * size;
                Scalar largest = 0;
                for (std::size_t at = 0; at < size; ++at) largest = std::fmax(largest, std::fabs(from[at]));
                int exponent = 0;
                if (largest > 0) std::frexp(largest, &exponent);
                scale[start + lane] = std::ldexp(1.0, exponent);
                const Scalar inverse = std::ldexp(Scalar(1), -exponent);
                for (std::size_t at = 0; at < size; ++at) together[at * lanes + lane] = into[at] = from[at] * inverse;
            }
            core.tables(network, together, group_tables[thread].get(), work[thread].get());
            for (int lane = 0; lane < some; ++lane)
                for (std::size_t at = 0; at < table; ++at)
                    tables.get()[(start + lane) * table + at] = group_tables[thread].get()[at * lanes + lane];
        });
    }
};

// Rows of `from` side by side in lanes: into [size, lanes].
template <class Scalar>
void gather(const Scalar* from, std::size_t size, const int* rows, int stride, int some, int lanes, Scalar* into) {
    for (int lane = 0; lane < lanes; ++lane) {
        // spare lanes repeat the last pair
        const Scalar* const row = from + size * rows[std::size_t(std::min(lane, some - 1)) * stride];
        for (std::size_t at = 0; at < size; ++at) into[at * lanes + lane] = row[at];
    }
}

template <class Scalar>
void all_pairs(const LayeredNetwork& network, const LayeredCore<Scalar>& core, const Images<Scalar>& first,
               const Images<Scalar>& second, const int* pairs, long count, int threads, double* out) {
    const int lanes = core.lanes;
    const long groups = (count + lanes - 1) / lanes;
    threads = int(std::min<long>(threads, groups));
    struct Memory {
        Aligned<Scalar> first_pixels, first_table, second_pixels, second_table, work;
    };
    std::vector<Memory> memory;
    for (int thread = 0; thread < threads; ++thread)
        memory.push_back({Aligned<Scalar>(first.size * lanes), Aligned<Scalar>(first.table * lanes),
                          Aligned<Scalar>(first.size * lanes), Aligned<Scalar>(first.table * lanes),
                          Aligned<Scalar>(core.work_size(network))});
    in_parallel(groups, threads, [&](long group, int thread) {
        Memory& mine = memory[thread];
        const int* const some_pairs = pairs + 2 * group * lanes;
        const int some = int(std::min<long>(lanes, count - group * lanes));
        gather(first.pixels.get(), first.size, some_pairs, 2, some, lanes, mine.first_pixels.get());
        gather(first.tables.get(), first.table, some_pairs, 2, some, lanes, mine.first_table.get());
        gather(second.pixels.get(), second.size, some_pairs + 1, 2, some, lanes, mine.second_pixels.get());
        gather(second.tables.get(), second.table, some_pairs + 1, 2, some, lanes, mine.second_table.get());
        std::vector<double> sums(2 * lanes, 0.0);
        core.pairs(network, mine.first_pixels.get(), mine.first_table.get(), mine.second_pixels.get(),
                   mine.second_table.get(), mine.work.get(), sums.data());
        for (int lane = 0; lane < some; ++lane) {
            const double scale = first.scale[some_pairs[2 * lane]] * second.scale[some_pairs[2 * lane + 1]];
            double* const entry = out + 2 * (group * lanes + lane);
            entry[0] = sums[lane] * scale;
            entry[1] = sums[lanes + lane] * scale;
        }
    });
}

struct LayeredRequest {
    int channels, height, width, tangent, global, steps, threads;
};

template <class Scalar>
int answer(const LayeredRequest& request, const LayerStep* steps, const char* name, const Scalar* first,
           int first_count, const Scalar* second, int second_count, const int* pairs, long count, double* out) {
    const LayeredSet* const set = find(name);
    if (!set) return unknown_instruction_set;
    const std::unique_ptr<LayeredNetwork> network(new LayeredNetwork{});
    network->channels = request.channels;
    network->tangent = request.tangent != 0;
    network->global = request.global != 0;
    if (!compiled(*network, request.height, request.width, steps, request.steps)) return unfit_network;
    const LayeredCore<Scalar>* core;
    if constexpr (sizeof(Scalar) == sizeof(float))
        core = &set->single;
    else
        core = &set->precise;
    const int threads = std::max(1, request.threads);
    try {
        const Images<Scalar> left(*network, *core, first, first_count, threads);
        std::unique_ptr<Images<Scalar>> other;
        if (second) other.reset(new Images<Scalar>(*network, *core, second, second_count, threads));
        all_pairs(*network, *core, left, second ? *other : left, pairs, count, threads, out);
    } catch (const std::bad_alloc&) {
        return out_of_memory;
    }
    return done;
}

}  // namespace

#define TANGENTBENCH_API extern "C" __attribute__((visibility("default")))

// Sigma and Theta of the pairs [count, 2] of images (of the first batch alone where second is null), summed over all
// pairs of positions or over equal ones, without the factors of the layers: out [count, 2].
TANGENTBENCH_API int tangentbench_layered_float32(const LayeredRequest* request, const LayerStep* steps,
                                                  const char* instruction_set, const float* first, int first_count,
                                                  const float* second, int second_count, const int* pairs, long count,
                                                  double* out) {
    return answer(*request, steps, instruction_set, first, first_count, second, second_count, pairs, count, out);
}

TANGENTBENCH_API int tangentbench_layered_float64(const LayeredRequest* request, const LayerStep* steps,
                                                  const char* instruction_set, const double* first, int first_count,
                                                  const double* second, int second_count, const int* pairs, long count,
                                                  double* out) {
    return answer(*request, steps, instruction_set, first, first_count, second, second_count, pairs, count, out);
}
