"""Losses of a single row: value, gradient and hessian in the raw score.

A loss is one inline function here, a member of `LossKind` and a branch of `evaluate`. One loop
serves all losses: within a loop the branch is always the same, so that it is predicted. Python
knows a kind by its name in lower case (`LOSS_KINDS`); everything else is in registry.py.

Each function takes the target y, the raw score r and up to two parameters a and b:

===============  ========================================================================
SQUARED          (r - y)^2 / 2
LOGISTIC         log(1 + exp(r)) - y r, y in [0, 1]
SOFTMAX          -log p_y over several raw scores; in loss_kernels_body.h
ABSOLUTE         |r - y|; b is the gradient where r = y
QUANTILE         pinball loss of the quantile a; b is the gradient where r = y
EXPECTILE        |a - 1[r >= y]| (r - y)^2 / 2
HUBER            quadratic up to the distance a, linear beyond
PSEUDO_HUBER     a^2 (sqrt(1 + ((r - y) / a)^2) - 1)
POISSON          exp(r) - y r; the hessian has the factor a
GAMMA            r + y exp(-r)
TWEEDIE          of variance power a: exp((2 - a) r) / (2 - a) - y exp((1 - a) r) / (1 - a)
EXPONENTIAL      exp(-r) for y = 1, exp(r) for y = 0
BINARY_HINGE     max(0, 1 - (2 y - 1) r)
SMOOTH_ABSOLUTE  as PSEUDO_HUBER, with the hessian of a majorising parabola
SMOOTH_QUANTILE  b times the pinball loss of the quantile a, smoothed over a distance of 0.04 b;
                 with the hessian of a majorising parabola
LOG_COSH         log(cosh(r - y)), with the hessian of a majorising parabola
SQUARED_LOG      (log(1 + r) - log(1 + y))^2 / 2, with r at least -1 + 1e-6
===============  ========================================================================

Terms of y alone are left out. Formulas are XGBoost's where it has the loss.

A majorising parabola touches the loss at r and is nowhere below it. A Newton step to its minimum
never increases the loss. The true second derivative is almost 0 far from the target, where a Newton
step would overshoot.

Exponentials are clipped to the range of float64, so that no raw score gives a NaN.
"""

from libc.math cimport fabs, log1p, sqrt

from hybridtrees.core.base._simd cimport ht_exp
from hybridtrees.core.base._types cimport float64_t

cpdef enum LossKind:
    SQUARED
    LOGISTIC
    SOFTMAX
    ABSOLUTE
    QUANTILE
    EXPECTILE
    HUBER
    PSEUDO_HUBER
    POISSON
    GAMMA
    TWEEDIE
    EXPONENTIAL
    BINARY_HINGE
    SMOOTH_ABSOLUTE
    SMOOTH_QUANTILE
    LOG_COSH
    SQUARED_LOG


cdef struct Point:
    # A loss at one row.
    float64_t value
    float64_t grad
    float64_t hess


cdef struct Derivatives:
    float64_t grad
    float64_t hess


cdef inline bint has_unit_hessian(int kind) noexcept nogil:
    """Whether the hessian of every row is 1."""
    return kind == SQUARED or kind == ABSOLUTE or kind == QUANTILE


cdef inline bint is_log_likelihood(int kind) noexcept nogil:
    """Whether the raw score is the logarithm of a mean; leaf values have a closed form."""
    return kind == POISSON or kind == GAMMA or kind == TWEEDIE


cdef inline Point squared(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t d = r - y
    return Point(0.5 * d * d, d, 1.0)


cdef inline Point logistic(float64_t y, float64_t r) noexcept nogil:
    # By exp(-|r|), so that neither p nor 1 - p suffers from cancellation. Both signs of r are
    # computed and one is selected, since a branch on the sign would be hard to predict.
    cdef float64_t e = ht_exp(-fabs(r))
    cdef float64_t above = (1.0 - y) - y * e, below = (1.0 - y) * e - y
    return Point(
        (r if r > 0 else 0.0) + log1p(e) - y * r,
        (above if r >= 0 else below) / (1.0 + e),
        e / ((1.0 + e) * (1.0 + e)))


cdef inline Point absolute(float64_t y, float64_t r, float64_t tie) noexcept nogil:
    return Point(fabs(r - y), 1.0 if r > y else (-1.0 if r < y else tie), 1.0)


cdef inline Point quantile(
    float64_t y, float64_t r, float64_t alpha, float64_t tie
) noexcept nogil:
    cdef float64_t d = r - y
    return Point(
        (1.0 - alpha) * d if d >= 0 else -alpha * d,
        1.0 - alpha if r > y else (-alpha if r < y else tie),
        1.0)


cdef inline Point expectile(float64_t y, float64_t r, float64_t alpha) noexcept nogil:
    cdef float64_t d = r - y, side = 1.0 - alpha if r >= y else alpha
    return Point(0.5 * side * d * d, side * d, side)


cdef inline Point huber(float64_t y, float64_t r, float64_t delta) noexcept nogil:
    cdef float64_t d = r - y
    if fabs(d) <= delta:
        return Point(0.5 * d * d, d, 1.0)
    return Point(delta * (fabs(d) - 0.5 * delta), delta if d > 0 else -delta, 0.0)


cdef inline Point pseudo_huber(
    float64_t y, float64_t r, float64_t slope, bint majorised
) noexcept nogil:
    # The value is sqrt(1 + z^2) - 1, written without cancellation.
    cdef float64_t d = r - y, z = d / slope, root = fabs(z), loss = slope * slope * fabs(z)
    if root < 1e150:
        root = sqrt(1.0 + z * z)
        loss = slope * slope * z * z / (root + 1.0)
    return Point(loss, d / root, 1.0 / root if majorised else 1.0 / root / root / root)


cdef inline Point log_cosh(float64_t x) noexcept nogil:
    """log(cosh(x)), with the hessian tanh(x) / x of the majorising parabola."""
    # By exp(-2 |x|), or by a series near 0, where 1 - exp(-2 |x|) would lose digits.
    cdef float64_t size = fabs(x), e = ht_exp(-2.0 * size), tanh, ratio
    if size < 1e-3:
        ratio = 1.0 - x * x * (1.0 / 3.0 - x * x * (2.0 / 15.0))
        tanh = size * ratio
    else:
        tanh = (1.0 - e) / (1.0 + e)
        ratio = tanh / size
    return Point(size + log1p(e) - log1p(1.0), -tanh if x < 0 else tanh, ratio)


cdef inline Point squared_log(float64_t y, float64_t r) noexcept nogil:
    # The bounds of the score and of the hessian, which is negative far above y, are XGBoost's.
    cdef float64_t one = 1.0 + (r if r > -1.0 + 1e-6 else -1.0 + 1e-6)
    cdef float64_t d = log1p(one - 1.0) - log1p(y), hess = (1.0 - d) / (one * one)
    return Point(0.5 * d * d, d / one, hess if hess > 1e-6 else 1e-6)


cdef inline Point smooth_quantile(
    float64_t y, float64_t r, float64_t alpha, float64_t scale
) noexcept nogil:
    # The width and the minimum 3e-4, which limits the steps of distant rows, are XGBoost's.
    cdef float64_t width = 0.04 * scale
    cdef Point d = log_cosh((r - y) / width)
    return Point(
        0.5 * scale * (width * d.value + (1.0 - 2.0 * alpha) * (r - y)),
        0.5 * scale * (d.grad + 1.0 - 2.0 * alpha),
        0.5 * scale / width * (d.hess if d.hess > 3e-4 else 3e-4))


cdef inline Point poisson(float64_t y, float64_t r, float64_t factor) noexcept nogil:
    cdef float64_t mean = ht_exp(r)
    return Point(mean - y * r, mean - y, mean * factor)


cdef inline Point gamma(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t ratio = y * ht_exp(-r)
    return Point(r + ratio, 1.0 - ratio, ratio)


cdef inline Point tweedie(float64_t y, float64_t r, float64_t power) noexcept nogil:
    cdef float64_t first = y * ht_exp((1.0 - power) * r), second = ht_exp((2.0 - power) * r)
    # At powers 1 and 2 the terms that divide by 0 become those of Poisson and gamma.
    return Point(
        (-y * r if power == 1.0 else first / (power - 1.0))
        + (r if power == 2.0 else second / (2.0 - power)),
        second - first,
        (2.0 - power) * second - (1.0 - power) * first)


cdef inline Point exponential(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t sign = 1.0 - 2.0 * y, e = ht_exp(sign * r)
    return Point(e, sign * e, e)


cdef inline Point binary_hinge(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t sign = 2.0 * y - 1.0
    if sign * r < 1.0:
        return Point(1.0 - sign * r, -sign, 1.0)
    return Point(0.0, 0.0, 0.0)


# What a caller wants: `evaluate` is compiled once for each, and the compiler drops the rest.
ctypedef fused wanted_t:
    Derivatives
    float64_t


cdef inline void evaluate(
    int kind, float64_t y, float64_t r, float64_t a, float64_t b, wanted_t* out
) noexcept nogil:
    """OUT gradient and hessian, or value, of a loss at one row."""
    cdef Point point
    if kind == SQUARED:
        point = squared(y, r)
    elif kind == LOGISTIC:
        point = logistic(y, r)
    elif kind == POISSON:
        point = poisson(y, r, a)
    elif kind == GAMMA:
        point = gamma(y, r)
    elif kind == TWEEDIE:
        point = tweedie(y, r, a)
    elif kind == EXPONENTIAL:
        point = exponential(y, r)
    elif kind == ABSOLUTE:
        point = absolute(y, r, b)
    elif kind == QUANTILE:
        point = quantile(y, r, a, b)
    elif kind == EXPECTILE:
        point = expectile(y, r, a)
    elif kind == HUBER:
        point = huber(y, r, a)
    elif kind == PSEUDO_HUBER or kind == SMOOTH_ABSOLUTE:
        point = pseudo_huber(y, r, a, kind == SMOOTH_ABSOLUTE)
    elif kind == SMOOTH_QUANTILE:
        point = smooth_quantile(y, r, a, b)
    elif kind == LOG_COSH:
        point = log_cosh(r - y)
    elif kind == SQUARED_LOG:
        point = squared_log(y, r)
    else:
        point = binary_hinge(y, r)
    if wanted_t is Derivatives:
        out.grad, out.hess = point.grad, point.hess
    else:
        out[0] = point.value


cdef inline Derivatives derivatives(
    int kind, float64_t y, float64_t r, float64_t a, float64_t b
) noexcept nogil:
    """Gradient and hessian of one row."""
    cdef Derivatives out
    evaluate(kind, y, r, a, b, &out)
    return out


cdef inline float64_t value(
    int kind, float64_t y, float64_t r, float64_t a, float64_t b
) noexcept nogil:
    """Loss of one row."""
    cdef float64_t out
    evaluate(kind, y, r, a, b, &out)
    return out
