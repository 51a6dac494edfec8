// A dense layer of one run: its weights and moments in rows that are padded to whole vectors.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "product.hpp"
#include "update.hpp"

namespace {

// Memory handed out piece by piece and freed as a whole.
template <class T>
class Arena {
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<T[], Free> memory;
    std::size_t used = 0;

public:
    static constexpr std::size_t line = 64 / sizeof(T);

    // Called twice with the same requests: before `reserve` they are only counted.
    T* take(std::size_t count) {
        T* const piece = memory ? memory.get() + used : nullptr;
        used += (count + line - 1) / line * line;
        return piece;
    }
    void reserve() {
        memory.reset(static_cast<T*>(std::aligned_alloc(64, used * sizeof(T) + 64)));
        if (!memory) throw std::bad_alloc();
        std::memset(static_cast<void*>(memory.get()), 0, used * sizeof(T));
        used = 0;
    }
};

template <class V>
struct Layer {
    using T = typename V::scalar;
    int in, out, padded;
    std::ptrdiff_t stride;  // of a row; an odd number of cache lines, so that a column does not fall into a few sets
    int moments;
    T *weight, *bias, *first, *second, *bias_first, *bias_second;

    Layer(int in, int out, int moments, Arena<T>& arena)
        : in(in), out(out), padded((out + V::lanes - 1) / V::lanes * V::lanes),
          stride((padded + Arena<T>::line - 1) / Arena<T>::line * Arena<T>::line), moments(moments) {
        if (stride / Arena<T>::line % 2 == 0) stride += Arena<T>::line;
        const auto rows = [&](bool wanted) { return wanted ? arena.take(in * stride) : nullptr; };
        const auto row = [&](bool wanted) { return wanted ? arena.take(padded) : nullptr; };
        weight = rows(true), first = rows(moments > 0), second = rows(moments > 1);
        bias = row(true), bias_first = row(moments > 0), bias_second = row(moments > 1);
    }

    // Matrices [in, out] and vectors [out] of the caller; null stands for what there is not.
    void load(const T* from, const T* from_bias) { load(weight, bias, from, from_bias); }
    void load(T* matrix, T* vector, const T* from, const T* from_bias) {
        for (int k = 0; k < in; ++k) std::memcpy(matrix + k * stride, from + std::size_t(k) * out, out * sizeof(T));
        if (from_bias)
            std::memcpy(vector, from_bias, out * sizeof(T));
        else
            std::memset(static_cast<void*>(vector), 0, out * sizeof(T));
    }
    void save(const T* matrix, const T* vector, T* to, T* to_bias) const {
        for (int k = 0; k < in; ++k) std::memcpy(to + std::size_t(k) * out, matrix + k * stride, out * sizeof(T));
        if (to_bias) std::memcpy(to_bias, vector, out * sizeof(T));
    }

    // above[n, b] = bias[n] + sum_k weight[k, n] below[k, b], for signals of `batch` columns.
    void forward(const T* below, T* above, int batch) const {
        product<V>(out, batch / V::lanes, in, {weight, 1, stride}, below, batch,
                   [&](int n, int column, const V& sum) TB_INLINED {
                       V::store(above + std::size_t(n) * batch + column * V::lanes, V::add(sum, V::all(bias[n])));
                   });
    }

    // below[k, b] = sum_n weight[k, n] above[n, b].
    void backward(const T* above, T* below, int batch) const {
        product<V>(in, batch / V::lanes, out, {weight, stride, 1}, above, batch,
                   [&](int k, int column, const V& sum)
                       TB_INLINED { V::store(below + std::size_t(k) * batch + column * V::lanes, sum); });
    }

    template <int R>
    TB_INLINE void update_at(const Layer& self, const Update<V>& update, std::ptrdiff_t at, const V& gradient) {
        Update<V>::template apply<R>(update, self.weight + at, self.moments > 0 ? self.first + at : nullptr,
                                     self.moments > 1 ? self.second + at : nullptr, gradient);
    }

    // The gradient sum_b below[k, b] errors[b, n], each tile used as soon as it is known and stored nowhere.
    // errors: [count, padded], rows of `row` numbers.
    template <int R>
    void learn(const Update<V>& update, const T* below, int batch, const T* errors, std::ptrdiff_t row, int count) {
        product<V>(in, padded / V::lanes, count, {below, batch, 1}, errors, row,
                   [&](int k, int column, const V& gradient)
                       TB_INLINED { update_at<R>(*this, update, k * stride + column * V::lanes, gradient); });
    }

    template <int R>
    void learn_bias(const Update<V>& update, const T* errors, std::ptrdiff_t row, int count) {
        for (int at = 0; at < padded; at += V::lanes) {
            V gradient = V::all(0);
            for (int b = 0; b < count; ++b) gradient = V::add(gradient, V::load(errors + b * row + at));
            Update<V>::template apply<R>(update, bias + at, moments > 0 ? bias_first + at : nullptr,
                                         moments > 1 ? bias_second + at : nullptr, gradient);
        }
    }
};

}  // namespace
