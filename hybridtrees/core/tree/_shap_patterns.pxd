"""Tables by pattern, for Shapley values with the rows of a table as background.

A player that is absent takes its value from a background row; the value of a coalition is the mean
over these rows. For one leaf only the pattern of a row matters: a bit for each player of the path,
whether the row meets all conditions on it. Background rows are counted by pattern once, for all
rows to explain (as in WoodelfHD, arXiv 2604.10569).

With every player present with probability t, rows of the pattern a reach the leaf with the weight

    F(a) = sum over patterns b of count(b) * product over players of B(a_f, b_f),
    B(1, 1) = 1, B(1, 0) = t, B(0, 1) = 1 - t, B(0, 0) = 0,

found for all patterns a at once, one player after the other. The derivative by the t of player i is
again a combination of F with and without i: with U1 and U0, the parts of the sum where b_i is 1 and
0 and without the factor of i, F(a_i = 0) = (1 - t) U1 and F(a_i = 1) = U1 + t U0; it is U0 where
a_i is 1, -U1 where it is 0. Its integral by Gauss-Legendre quadrature is exact. The parts of a line
are sources of their own:

    t e_j(x) F            a regressor off the path that is present,
    (1 - t) F_j           the same absent: F_j counts background rows with the weight e_j(z),
    t e_j(x) a_j (U0 + U1)   a regressor on the path, present: its factor is replaced,
    (1 - t) U1 of F_j     the same absent.

Paths of more than MOST_BITS players are summed over pairs of patterns instead.
"""

from libc.math cimport exp, lgamma
from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport float64_t, int32_t, int64_t, intp_t, uint32_t, uint8_t

cdef enum:
    MOST_BITS = 12               # players of a path whose patterns are all listed


cdef extern from "shap.h" nogil:
    enum:
        HT_SHAP_ROWS, HT_SHAP_STEP, HT_SHAP_POINTS
    ctypedef struct HtShapNode:
        double threshold, share, merged
        int32_t column, player, level, before, side, missing
        int64_t node
    ctypedef struct HtShapTree:
        const HtShapNode* nodes
        intp_t n_nodes
        int n_points
        const double* points
        const double* weights
        const double* inverse
        const double* value
        intp_t value_stride
        const double* range
        intp_t range_stride, range_width
        const int64_t* term_start
        const int32_t* term_column
        const int32_t* term_player
        const double* coef
        const double* center
        const double* low
        const double* high
        intp_t coef_stride
    ctypedef struct HtShapScratch:
        double* product
        double* below
        double* met
        double* sides
        double* work
        const HtShapNode** at
        uint8_t* hidden
        int32_t* place
    intp_t ht_product_size(int n_points)
    intp_t ht_below_size(int n_points)
    void ht_shap_tree(
        int width, const HtShapTree* tree, const double* x, intp_t stride,
        const HtShapScratch* scratch, double* values, double* pairs, intp_t n_players)


cdef struct Walk:
    # Which rows of a table meet the conditions down to each level, as bytes.
    const float64_t* x           # column by column
    intp_t n
    uint8_t* met                 # by level: all conditions on the player of the edge
    uint8_t* sides               # by level: rows that go right, left, stay
    uint32_t* pattern
    float64_t* parts             # by player of the line: e of each row


cdef struct Work:
    # Memory of a thread.
    Walk rows, background
    const HtShapNode** at        # by level
    uint8_t* hidden              # by level: the player has an edge further down
    int32_t* local               # by player: its number in the leaf, -1
    int32_t* players             # by local number: the players of the path, then of the line
    int32_t* levels              # by local number, of players of the path
    int32_t* line                # by player of the line: its local number
    float64_t* counts            # by pattern
    float64_t* weights           # F by point and pattern, and two more of these
    float64_t* derived
    float64_t* second
    float64_t* constant          # tables by local player, or pair, and pattern
    float64_t* table
    float64_t* values            # of one output, by player and row
    float64_t* pairs


cdef struct Job:
    int n_points
    const float64_t* points
    const float64_t* weights
    int n_bits                   # players of the path
    int n_local                  # and those of the line off the path
    bint with_pairs
    float64_t* factors           # by point


# ---- Rows of a leaf ---------------------------------------------------------------------------


cdef inline void go_down(const HtShapNode* node, Walk* walk) noexcept nogil:
    cdef uint8_t* met = walk.met + node.level * walk.n
    cdef const uint8_t* side = walk.sides + (3 * (node.level - 1) + node.side) * walk.n
    cdef const uint8_t* before = walk.met + node.before * walk.n
    cdef intp_t row
    for row in range(walk.n):
        met[row] = side[row] if node.before == 0 else side[row] & before[row]


cdef inline void find_patterns(Walk* walk, const int32_t* levels, int n_bits) noexcept nogil:
    cdef const uint8_t* met
    cdef intp_t row
    cdef int bit
    memset(walk.pattern, 0, walk.n * sizeof(uint32_t))
    for bit in range(n_bits):
        met = walk.met + levels[bit] * walk.n
        for row in range(walk.n):
            walk.pattern[row] |= <uint32_t>met[row] << bit


# ---- Tables by pattern ------------------------------------------------------------------------


cdef inline void transform(const Job* job, const float64_t* counts, float64_t* out) noexcept nogil:
    """OUT F of all patterns at all points."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a, bit
    cdef float64_t* own
    cdef float64_t t, absent
    for k in range(job.n_points):
        own = out + k * n
        t = job.points[k]
        memcpy(own, counts, n * sizeof(float64_t))
        for bit in range(job.n_bits):
            for a in range(n):
                if not (a >> bit) & 1:
                    absent = own[a]
                    own[a] = (1.0 - t) * own[a | (1 << bit)]
                    own[a | (1 << bit)] += t * absent


cdef inline void derive(
    const Job* job, const float64_t* F, int bit, bint replaced, float64_t* out
) noexcept nogil:
    """OUT the derivative of F by a player; or, `replaced`, F without its factor: U0 + U1."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a
    cdef float64_t t, met, rest
    for k in range(job.n_points):
        t = job.points[k]
        for a in range(n):
            if (a >> bit) & 1:
                continue
            met = F[k * n + a] / (1.0 - t)
            rest = (F[k * n + (a | (1 << bit))] - met) / t
            out[k * n + a] = met + rest if replaced else -met
            out[k * n + (a | (1 << bit))] = met + rest if replaced else rest


cdef inline void keep_met(const Job* job, float64_t* F, int bit) noexcept nogil:
    """F becomes U1 of a player: the rows of the background that meet its conditions."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a
    cdef float64_t met
    for k in range(job.n_points):
        for a in range(n):
            if not (a >> bit) & 1:
                met = F[k * n + a] / (1.0 - job.points[k])
                F[k * n + a] = met
                F[k * n + (a | (1 << bit))] = met


cdef inline void integrate(
    const Job* job, const float64_t* F, const float64_t* factors, float64_t scale, float64_t* out
) noexcept nogil:
    """Add the sum over the points of F, times a factor of each, to the table of a player."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a
    cdef float64_t factor
    for k in range(job.n_points):
        factor = scale * factors[k]
        for a in range(n):
            out[a] += factor * F[k * n + a]


cdef inline void add_source(
    const Job* job, Work* work, const float64_t* F, int own, float64_t sign, float64_t scale,
    int present, float64_t* table,
) noexcept nogil:
    """Add a source to the tables: F, times t if `present` is 1, 1 - t if it is 0.

    `own` is the player whose t that is, and `sign` that of its derivative.
    """
    cdef intp_t n = <intp_t>1 << job.n_bits, k, size = job.n_local, pair
    cdef int i, j
    for k in range(job.n_points):
        job.factors[k] = job.weights[k] * (
            job.points[k] if present == 1 else 1.0 - job.points[k] if present == 0 else 1.0)
    if own >= 0:
        integrate(job, F, job.weights, sign * scale, table + own * n)
    for i in range(job.n_bits):
        if i == own:
            continue
        derive(job, F, i, False, work.derived)
        integrate(job, work.derived, job.factors, scale, table + i * n)
        if not job.with_pairs:
            continue
        if own >= 0:
            pair = size + min(i, own) * size + max(i, own)
            integrate(job, work.derived, job.weights, sign * scale, table + pair * n)
        for j in range(i):
            if j != own:
                derive(job, work.derived, j, False, work.second)
                integrate(job, work.second, job.factors, scale, table + (size + j * size + i) * n)


cdef inline void look_up(
    const Job* job, Work* work, const float64_t* table, const float64_t* part, int bit,
    intp_t n_players,
) noexcept nogil:
    """Add the entries of the rows' patterns, times `part` unless NULL, to their values.

    With a `bit`, only rows count that have it.
    """
    cdef intp_t n = <intp_t>1 << job.n_bits, row, n_rows = work.rows.n, place, size = job.n_local
    cdef int i, j
    cdef const float64_t* own
    cdef float64_t* out
    cdef const uint32_t* pattern = work.rows.pattern
    for i in range(-1, size if job.with_pairs else 0):
        for j in range(i + 1 if i >= 0 else 0, size):
            own = table + (j if i < 0 else size + i * size + j) * n
            if i < 0:
                out = work.values + work.players[j] * n_rows
            else:
                place = work.players[i] * n_players + work.players[j]
                if work.players[i] > work.players[j]:
                    place = work.players[j] * n_players + work.players[i]
                out = work.pairs + place * n_rows
            if part == NULL:
                for row in range(n_rows):
                    out[row] += own[pattern[row]]
            elif bit < 0:
                for row in range(n_rows):
                    out[row] += part[row] * own[pattern[row]]
            else:
                for row in range(n_rows):
                    if (pattern[row] >> bit) & 1:
                        out[row] += part[row] * own[pattern[row]]


cdef inline intp_t table_size(const Job* job) noexcept nogil:
    cdef intp_t size = job.n_local
    return (size + (size * size if job.with_pairs else 0)) << job.n_bits


cdef inline void count_patterns(
    Work* work, const float64_t* part, int n_bits, float64_t* counts
) noexcept nogil:
    """OUT the share of the background, or the sum of a part over it, by pattern."""
    cdef intp_t row
    cdef float64_t scale = 1.0 / work.background.n
    memset(counts, 0, (<intp_t>1 << n_bits) * sizeof(float64_t))
    for row in range(work.background.n):
        counts[work.background.pattern[row]] += scale if part == NULL else scale * part[row]


# ---- Pairs of rows, for long paths -------------------------------------------------------------


cdef inline float64_t beta(intp_t x, intp_t z) noexcept nogil:
    """Integral of t^x (1 - t)^z."""
    return exp(lgamma(x + 1.0) + lgamma(z + 1.0) - lgamma(x + z + 2.0))


cdef inline void add_pair_source(
    const Job* job, Work* work, intp_t row, const uint8_t* kind, intp_t n_x, intp_t n_z, int own,
    float64_t sign, float64_t scale, int present, intp_t n_players,
) noexcept nogil:
    """Add a source of one row and one background row; see `add_source`.

    kind, by player of the path: 1 if only the row meets its conditions, 2 if only the background
    row does, else 0. There are n_x and n_z of these, without `own`.
    """
    cdef intp_t n_rows = work.rows.n, more_x = present == 1, more_z = present == 0, place
    cdef int i, j, p, q
    cdef float64_t only_x = 0, only_z = 0, own_x = 0, own_z = 0, value
    if n_x > 0:
        only_x = scale * beta(n_x - 1 + more_x, n_z + more_z)
        own_x = sign * scale * beta(n_x - 1, n_z)
    if n_z > 0:
        only_z = -scale * beta(n_x + more_x, n_z - 1 + more_z)
        own_z = -sign * scale * beta(n_x, n_z - 1)
    if own >= 0:
        work.values[work.players[own] * n_rows + row] += sign * scale * beta(n_x, n_z)
    for i in range(job.n_bits):
        if i == own or kind[i] == 0:
            continue
        p = work.players[i]
        work.values[p * n_rows + row] += only_x if kind[i] == 1 else only_z
        if not job.with_pairs:
            continue
        if own >= 0:
            q = work.players[own]
            place = min(p, q) * n_players + max(p, q)
            work.pairs[place * n_rows + row] += own_x if kind[i] == 1 else own_z
        for j in range(i):
            if j == own or kind[j] == 0:
                continue
            q = work.players[j]
            place = min(p, q) * n_players + max(p, q)
            if kind[i] != kind[j]:
                value = -beta(n_x - 1 + more_x, n_z - 1 + more_z)
            elif kind[i] == 1:
                value = beta(n_x - 2 + more_x, n_z + more_z)
            else:
                value = beta(n_x + more_x, n_z - 2 + more_z)
            work.pairs[place * n_rows + row] += scale * value
