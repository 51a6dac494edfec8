// Run independent tasks on several threads: OpenMP where the compiler has it, threads of the standard library
// elsewhere.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

// task(number, thread) for every number below `count`, each once, in no particular order.
template <class Task>
void in_parallel(long count, int threads, const Task& task) {
    if (threads > count) threads = int(count);
    if (threads <= 1) {
        for (long number = 0; number < count; ++number) task(number, 0);
        return;
    }
    std::atomic<long> next{0};
    const auto work = [&](int thread) {
        for (long number; (number = next++) < count;) task(number, thread);
    };
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; ++thread) work(thread);
#else
    std::vector<std::thread> pool;
    for (int thread = 1; thread < threads; ++thread) pool.emplace_back(work, thread);
    work(0);
    for (std::thread& thread : pool) thread.join();
#endif
}
