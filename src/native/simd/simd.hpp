// A vector of lanes with the few operations the recursion needs, once per instruction set and precision.
// Everything has internal linkage: the same name means other instructions in another translation unit. What the
// standard library's templates add is kept apart by the build (-fno-weak), and a test looks at the symbols.
#pragma once

#include <cmath>
#include <cstddef>

#if defined(TANGENTBENCH_AVX2) || defined(TANGENTBENCH_AVX512)
#include <immintrin.h>
#endif

#define TB_INLINED __attribute__((always_inline))
#define TB_INLINE static inline TB_INLINED

namespace {

#if defined(TANGENTBENCH_AVX512)

struct Floats {
    using scalar = float;
    static constexpr int lanes = 16;
    __m512 v;
    TB_INLINE Floats load(const float* p) { return {_mm512_load_ps(p)}; }
    TB_INLINE Floats all(float x) { return {_mm512_set1_ps(x)}; }
    TB_INLINE void store(float* p, Floats a) { _mm512_store_ps(p, a.v); }
    TB_INLINE Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
    TB_INLINE Floats sub(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
    TB_INLINE Floats mul(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
    TB_INLINE Floats div(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
    TB_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats fms(Floats a, Floats b, Floats c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats fnma(Floats a, Floats b, Floats c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats sqrt(Floats a) { return {_mm512_sqrt_ps(a.v)}; }
    TB_INLINE Floats abs(Floats a) { return {_mm512_abs_ps(a.v)}; }
    TB_INLINE Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
    TB_INLINE Floats where_below(Floats a, Floats limit, Floats value) {
        return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, limit.v, _CMP_LT_OQ), value.v)};
    }
    TB_INLINE Floats keep_above(Floats a, Floats limit) {
        return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, limit.v, _CMP_GT_OQ), a.v)};
    }
    TB_INLINE Floats select_negative(Floats sign, Floats yes, Floats no) {
        return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(sign.v, _mm512_setzero_ps(), _CMP_LT_OQ), no.v, yes.v)};
    }
};

struct Doubles {
    using scalar = double;
    static constexpr int lanes = 8;
    __m512d v;
    TB_INLINE Doubles load(const double* p) { return {_mm512_load_pd(p)}; }
    TB_INLINE Doubles all(double x) { return {_mm512_set1_pd(x)}; }
    TB_INLINE void store(double* p, Doubles a) { _mm512_store_pd(p, a.v); }
    TB_INLINE Doubles add(Doubles a, Doubles b) { return {_mm512_add_pd(a.v, b.v)}; }
    TB_INLINE Doubles sub(Doubles a, Doubles b) { return {_mm512_sub_pd(a.v, b.v)}; }
    TB_INLINE Doubles mul(Doubles a, Doubles b) { return {_mm512_mul_pd(a.v, b.v)}; }
    TB_INLINE Doubles div(Doubles a, Doubles b) { return {_mm512_div_pd(a.v, b.v)}; }
    TB_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles fms(Doubles a, Doubles b, Doubles c) { return {_mm512_fmsub_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles fnma(Doubles a, Doubles b, Doubles c) { return {_mm512_fnmadd_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles sqrt(Doubles a) { return {_mm512_sqrt_pd(a.v)}; }
    TB_INLINE Doubles abs(Doubles a) { return {_mm512_abs_pd(a.v)}; }
    TB_INLINE Doubles max(Doubles a, Doubles b) { return {_mm512_max_pd(a.v, b.v)}; }
    TB_INLINE Doubles where_below(Doubles a, Doubles limit, Doubles value) {
        return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, limit.v, _CMP_LT_OQ), value.v)};
    }
    TB_INLINE Doubles keep_above(Doubles a, Doubles limit) {
        return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, limit.v, _CMP_GT_OQ), a.v)};
    }
    TB_INLINE Doubles select_negative(Doubles sign, Doubles yes, Doubles no) {
        return {_mm512_mask_blend_pd(_mm512_cmp_pd_mask(sign.v, _mm512_setzero_pd(), _CMP_LT_OQ), no.v, yes.v)};
    }
};

#elif defined(TANGENTBENCH_AVX2)

struct Floats {
    using scalar = float;
    static constexpr int lanes = 8;
    __m256 v;
    TB_INLINE Floats load(const float* p) { return {_mm256_load_ps(p)}; }
    TB_INLINE Floats all(float x) { return {_mm256_set1_ps(x)}; }
    TB_INLINE void store(float* p, Floats a) { _mm256_store_ps(p, a.v); }
    TB_INLINE Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
    TB_INLINE Floats sub(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
    TB_INLINE Floats mul(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
    TB_INLINE Floats div(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
    TB_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats fms(Floats a, Floats b, Floats c) { return {_mm256_fmsub_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats fnma(Floats a, Floats b, Floats c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
    TB_INLINE Floats sqrt(Floats a) { return {_mm256_sqrt_ps(a.v)}; }
    TB_INLINE Floats abs(Floats a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
    TB_INLINE Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
    TB_INLINE Floats where_below(Floats a, Floats limit, Floats value) {
        return {_mm256_and_ps(_mm256_cmp_ps(a.v, limit.v, _CMP_LT_OQ), value.v)};
    }
    TB_INLINE Floats keep_above(Floats a, Floats limit) {
        return {_mm256_and_ps(_mm256_cmp_ps(a.v, limit.v, _CMP_GT_OQ), a.v)};
    }
    TB_INLINE Floats select_negative(Floats sign, Floats yes, Floats no) {
        return {_mm256_blendv_ps(no.v, yes.v, sign.v)};
    }
};

struct Doubles {
    using scalar = double;
    static constexpr int lanes = 4;
    __m256d v;
    TB_INLINE Doubles load(const double* p) { return {_mm256_load_pd(p)}; }
    TB_INLINE Doubles all(double x) { return {_mm256_set1_pd(x)}; }
    TB_INLINE void store(double* p, Doubles a) { _mm256_store_pd(p, a.v); }
    TB_INLINE Doubles add(Doubles a, Doubles b) { return {_mm256_add_pd(a.v, b.v)}; }
    TB_INLINE Doubles sub(Doubles a, Doubles b) { return {_mm256_sub_pd(a.v, b.v)}; }
    TB_INLINE Doubles mul(Doubles a, Doubles b) { return {_mm256_mul_pd(a.v, b.v)}; }
    TB_INLINE Doubles div(Doubles a, Doubles b) { return {_mm256_div_pd(a.v, b.v)}; }
    TB_INLINE Doubles fma(Doubles a, Doubles b, Doubles c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles fms(Doubles a, Doubles b, Doubles c) { return {_mm256_fmsub_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles fnma(Doubles a, Doubles b, Doubles c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }
    TB_INLINE Doubles sqrt(Doubles a) { return {_mm256_sqrt_pd(a.v)}; }
    TB_INLINE Doubles abs(Doubles a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)}; }
    TB_INLINE Doubles max(Doubles a, Doubles b) { return {_mm256_max_pd(a.v, b.v)}; }
    TB_INLINE Doubles where_below(Doubles a, Doubles limit, Doubles value) {
        return {_mm256_and_pd(_mm256_cmp_pd(a.v, limit.v, _CMP_LT_OQ), value.v)};
    }
    TB_INLINE Doubles keep_above(Doubles a, Doubles limit) {
        return {_mm256_and_pd(_mm256_cmp_pd(a.v, limit.v, _CMP_GT_OQ), a.v)};
    }
    TB_INLINE Doubles select_negative(Doubles sign, Doubles yes, Doubles no) {
        return {_mm256_blendv_pd(no.v, yes.v, sign.v)};
    }
};

#else

// Plain loops of a fixed length: the compiler turns them into whatever vectors the target has.
template <class Scalar, int Lanes>
struct Portable {
    using scalar = Scalar;
    static constexpr int lanes = Lanes;
    Scalar v[Lanes];

    template <class Operation>
    TB_INLINE Portable each(Operation operation) {
        Portable result;
        for (int lane = 0; lane < Lanes; ++lane) result.v[lane] = operation(lane);
        return result;
    }
    TB_INLINE Portable load(const Scalar* p) {
        return each([=](int i) { return p[i]; });
    }
    TB_INLINE Portable all(Scalar x) {
        return each([=](int) { return x; });
    }
    TB_INLINE void store(Scalar* p, const Portable& a) {
        for (int lane = 0; lane < Lanes; ++lane) p[lane] = a.v[lane];
    }
    TB_INLINE Portable add(const Portable& a, const Portable& b) {
        return each([&](int i) { return a.v[i] + b.v[i]; });
    }
    TB_INLINE Portable sub(const Portable& a, const Portable& b) {
        return each([&](int i) { return a.v[i] - b.v[i]; });
    }
    TB_INLINE Portable mul(const Portable& a, const Portable& b) {
        return each([&](int i) { return a.v[i] * b.v[i]; });
    }
    TB_INLINE Portable div(const Portable& a, const Portable& b) {
        return each([&](int i) { return a.v[i] / b.v[i]; });
    }
    TB_INLINE Portable fma(const Portable& a, const Portable& b, const Portable& c) {
        return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
    }
    TB_INLINE Portable fms(const Portable& a, const Portable& b, const Portable& c) {
        return each([&](int i) { return a.v[i] * b.v[i] - c.v[i]; });
    }
    TB_INLINE Portable fnma(const Portable& a, const Portable& b, const Portable& c) {
        return each([&](int i) { return c.v[i] - a.v[i] * b.v[i]; });
    }
    TB_INLINE Portable sqrt(const Portable& a) {
        return each([&](int i) { return std::sqrt(a.v[i]); });
    }
    TB_INLINE Portable abs(const Portable& a) {
        return each([&](int i) { return a.v[i] < 0 ? -a.v[i] : a.v[i]; });
    }
    TB_INLINE Portable max(const Portable& a, const Portable& b) {
        return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    }
    TB_INLINE Portable where_below(const Portable& a, const Portable& limit, const Portable& value) {
        return each([&](int i) { return a.v[i] < limit.v[i] ? value.v[i] : Scalar(0); });
    }
    TB_INLINE Portable keep_above(const Portable& a, const Portable& limit) {
        return each([&](int i) { return a.v[i] > limit.v[i] ? a.v[i] : Scalar(0); });
    }
    TB_INLINE Portable select_negative(const Portable& sign, const Portable& yes, const Portable& no) {
        return each([&](int i) { return sign.v[i] < 0 ? yes.v[i] : no.v[i]; });
    }
};

using Floats = Portable<float, 8>;
using Doubles = Portable<double, 4>;

#endif

}  // namespace
