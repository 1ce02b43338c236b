"""Losses of a single row: value, gradient and hessian in the raw score.

One small function per loss and two that choose among them by `kind`. Inside a loop the choice is
always the same and is predicted, so that one loop serves all losses.

Each takes the target y, the raw score r and two numbers a and b that shape the loss:

===============  ========================================================================
SQUARED          (r - y)^2 / 2
ABSOLUTE         |r - y|; b is the gradient where r = y
QUANTILE         pinball loss of the quantile a; b is the gradient where r = y
EXPECTILE        |a - 1[r >= y]| (r - y)^2 / 2
HUBER            quadratic up to the distance a, linear beyond
PSEUDO_HUBER     a^2 (sqrt(1 + ((r - y) / a)^2) - 1)
SMOOTH_ABSOLUTE  as PSEUDO_HUBER, with the hessian of a majorising parabola
SMOOTH_QUANTILE  b times the pinball loss of the quantile a, its kink rounded over a distance
                 of 0.04 b; with the hessian of a majorising parabola
POISSON          exp(r) - y r; the hessian has the factor a
GAMMA            r + y exp(-r)
TWEEDIE          of variance power a: exp((2 - a) r) / (2 - a) - y exp((1 - a) r) / (1 - a)
LOGISTIC         log(1 + exp(r)) - y r, y in [0, 1]
EXPONENTIAL      exp(-r) for y = 1, exp(r) for y = 0
HINGE            max(0, 1 - (2 y - 1) r)
SOFTMAX          -log p_y over several raw scores; not in this file's functions
===============  ========================================================================

A majorising parabola touches the loss at r and lies nowhere below it. A Newton step to its lowest
point never raises the loss, where one with the true second derivative, almost 0 far from the
target, would overshoot.

Exponentials are cut off where they would leave the range of float64, so that no raw score gives
a NaN.
"""

from libc.math cimport fabs, log1p, sqrt

from hybridtrees.core.base._simd cimport ht_exp
from hybridtrees.core.base._types cimport float64_t

cdef enum LossKind:
    SQUARED = 0
    LOGISTIC = 1
    SOFTMAX = 2
    ABSOLUTE = 3
    QUANTILE = 4
    EXPECTILE = 5
    HUBER = 6
    PSEUDO_HUBER = 7
    POISSON = 8
    GAMMA = 9
    TWEEDIE = 10
    EXPONENTIAL = 11
    HINGE = 12
    SMOOTH_ABSOLUTE = 13
    SMOOTH_QUANTILE = 14


cdef struct Derivatives:
    float64_t grad
    float64_t hess


cdef inline Derivatives d_squared(float64_t y, float64_t r) noexcept nogil:
    return Derivatives(r - y, 1.0)


cdef inline Derivatives d_absolute(float64_t y, float64_t r, float64_t tie) noexcept nogil:
    return Derivatives(1.0 if r > y else (-1.0 if r < y else tie), 1.0)


cdef inline Derivatives d_quantile(
    float64_t y, float64_t r, float64_t alpha, float64_t tie
) noexcept nogil:
    return Derivatives(1.0 - alpha if r > y else (-alpha if r < y else tie), 1.0)


cdef inline Derivatives d_expectile(float64_t y, float64_t r, float64_t alpha) noexcept nogil:
    cdef float64_t side = 1.0 - alpha if r >= y else alpha
    return Derivatives(side * (r - y), side)


cdef inline Derivatives d_huber(float64_t y, float64_t r, float64_t delta) noexcept nogil:
    cdef float64_t d = r - y
    if fabs(d) <= delta:
        return Derivatives(d, 1.0)
    return Derivatives(delta if d > 0 else -delta, 0.0)


cdef inline float64_t pseudo_root(float64_t z) noexcept nogil:
    return sqrt(1.0 + z * z) if fabs(z) < 1e150 else fabs(z)


cdef inline Derivatives d_pseudo_huber(float64_t y, float64_t r, float64_t slope) noexcept nogil:
    cdef float64_t root = pseudo_root((r - y) / slope)
    return Derivatives((r - y) / root, 1.0 / root / root / root)


cdef inline Derivatives d_smooth_absolute(
    float64_t y, float64_t r, float64_t scale
) noexcept nogil:
    cdef float64_t root = pseudo_root((r - y) / scale)
    return Derivatives((r - y) / root, 1.0 / root)


cdef inline float64_t kink_width(float64_t scale) noexcept nogil:
    return 0.04 * scale     # XGBoost's, and so is the least ratio below


cdef inline Derivatives d_smooth_quantile(
    float64_t y, float64_t r, float64_t alpha, float64_t scale
) noexcept nogil:
    # tanh(x) by exp(-2 |x|); where the difference of that and 1 would lose digits, by a series.
    cdef float64_t width = kink_width(scale), x = (r - y) / width
    cdef float64_t size = fabs(x), e = ht_exp(-2.0 * size), tanh, ratio
    if size < 1e-3:
        ratio = 1.0 - x * x * (1.0 / 3.0 - x * x * (2.0 / 15.0))
        tanh = size * ratio
    else:
        tanh = (1.0 - e) / (1.0 + e)
        ratio = tanh / size
    if x < 0:
        tanh = -tanh
    if ratio < 3e-4:    # far rows alone in a leaf would take too long a step
        ratio = 3e-4
    return Derivatives(0.5 * scale * (tanh + 1.0 - 2.0 * alpha), 0.5 * scale / width * ratio)


cdef inline Derivatives d_poisson(float64_t y, float64_t r, float64_t factor) noexcept nogil:
    cdef float64_t mean = ht_exp(r)
    return Derivatives(mean - y, mean * factor)


cdef inline Derivatives d_gamma(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t ratio = y * ht_exp(-r)
    return Derivatives(1.0 - ratio, ratio)


cdef inline Derivatives d_tweedie(float64_t y, float64_t r, float64_t power) noexcept nogil:
    cdef float64_t first = y * ht_exp((1.0 - power) * r)
    cdef float64_t second = ht_exp((2.0 - power) * r)
    return Derivatives(second - first, (2.0 - power) * second - (1.0 - power) * first)


cdef inline Derivatives d_logistic(float64_t y, float64_t r) noexcept nogil:
    # By exp(-|r|), so that neither p nor 1 - p is lost by cancellation. Both sides of 0 are worked
    # out and one is chosen: the sign of r is hard to predict.
    cdef float64_t e = ht_exp(-fabs(r))
    cdef float64_t above = (1.0 - y) - y * e, below = (1.0 - y) * e - y
    return Derivatives((above if r >= 0 else below) / (1.0 + e), e / ((1.0 + e) * (1.0 + e)))


cdef inline Derivatives d_exponential(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t sign = 1.0 - 2.0 * y, e = ht_exp(sign * r)
    return Derivatives(sign * e, e)


cdef inline Derivatives d_hinge(float64_t y, float64_t r) noexcept nogil:
    cdef float64_t sign = 2.0 * y - 1.0
    if sign * r < 1.0:
        return Derivatives(-sign, 1.0)
    return Derivatives(0.0, 0.0)


cdef inline Derivatives derivatives(
    int kind, float64_t y, float64_t r, float64_t a, float64_t b
) noexcept nogil:
    """Gradient and hessian of one row."""
    if kind == SQUARED:
        return d_squared(y, r)
    elif kind == ABSOLUTE:
        return d_absolute(y, r, b)
    elif kind == QUANTILE:
        return d_quantile(y, r, a, b)
    elif kind == EXPECTILE:
        return d_expectile(y, r, a)
    elif kind == HUBER:
        return d_huber(y, r, a)
    elif kind == PSEUDO_HUBER:
        return d_pseudo_huber(y, r, a)
    elif kind == SMOOTH_ABSOLUTE:
        return d_smooth_absolute(y, r, a)
    elif kind == SMOOTH_QUANTILE:
        return d_smooth_quantile(y, r, a, b)
    elif kind == POISSON:
        return d_poisson(y, r, a)
    elif kind == GAMMA:
        return d_gamma(y, r)
    elif kind == TWEEDIE:
        return d_tweedie(y, r, a)
    elif kind == LOGISTIC:
        return d_logistic(y, r)
    elif kind == EXPONENTIAL:
        return d_exponential(y, r)
    return d_hinge(y, r)


cdef inline float64_t l_tweedie(float64_t y, float64_t r, float64_t power) noexcept nogil:
    # The terms without a limit at the ends 1 and 2 are those of Poisson and gamma.
    cdef float64_t first, second
    first = -y * r if power == 1.0 else y * ht_exp((1.0 - power) * r) / (power - 1.0)
    second = r if power == 2.0 else ht_exp((2.0 - power) * r) / (2.0 - power)
    return first + second


cdef inline float64_t l_pseudo_huber(float64_t y, float64_t r, float64_t slope) noexcept nogil:
    # sqrt(1 + z^2) - 1, written without the difference of nearly equal numbers.
    cdef float64_t z = (r - y) / slope
    if fabs(z) >= 1e150:
        return slope * slope * fabs(z)
    return slope * slope * z * z / (sqrt(1.0 + z * z) + 1.0)


cdef inline float64_t l_smooth_quantile(
    float64_t y, float64_t r, float64_t alpha, float64_t scale
) noexcept nogil:
    # The integral of the gradient; log(cosh(x)) = |x| + log(1 + exp(-2 |x|)) - log(2).
    cdef float64_t width = kink_width(scale), size = fabs(r - y) / width
    cdef float64_t log_cosh = size + log1p(ht_exp(-2.0 * size)) - log1p(1.0)
    return 0.5 * scale * (width * log_cosh + (1.0 - 2.0 * alpha) * (r - y))


cdef inline float64_t value(
    int kind, float64_t y, float64_t r, float64_t a, float64_t b
) noexcept nogil:
    """Loss of one row, without terms that depend on y alone."""
    cdef float64_t d = r - y
    if kind == SQUARED:
        return 0.5 * d * d
    elif kind == ABSOLUTE:
        return fabs(d)
    elif kind == QUANTILE:
        return (1.0 - a) * d if d >= 0 else -a * d
    elif kind == EXPECTILE:
        return 0.5 * (1.0 - a if d >= 0 else a) * d * d
    elif kind == HUBER:
        return 0.5 * d * d if fabs(d) <= a else a * (fabs(d) - 0.5 * a)
    elif kind == PSEUDO_HUBER or kind == SMOOTH_ABSOLUTE:
        return l_pseudo_huber(y, r, a)
    elif kind == SMOOTH_QUANTILE:
        return l_smooth_quantile(y, r, a, b)
    elif kind == POISSON:
        return ht_exp(r) - y * r
    elif kind == GAMMA:
        return r + y * ht_exp(-r)
    elif kind == TWEEDIE:
        return l_tweedie(y, r, a)
    elif kind == LOGISTIC:
        return (r if r > 0 else 0.0) + log1p(ht_exp(-fabs(r))) - y * r
    elif kind == EXPONENTIAL:
        return ht_exp((1.0 - 2.0 * y) * r)
    d = 1.0 - (2.0 * y - 1.0) * r
    return d if d > 0 else 0.0
