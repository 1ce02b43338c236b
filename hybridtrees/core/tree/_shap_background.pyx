"""Shapley values and interactions of trees, with the rows of a table as background.

A player that is absent takes its value from a background row; the value of a coalition is the mean
over these rows. For one leaf only the pattern of a row matters: a bit for each player of the path,
whether the row meets all conditions on it. Background rows are counted by pattern once, for all
rows to explain (Woodelf, Nadel and Wettenstein 2026).

With every player present with probability t, rows of the pattern a reach the leaf with the weight

    F(a) = sum over patterns b of count(b) * product over players of B(a_f, b_f),
    B(1, 1) = 1, B(1, 0) = t, B(0, 1) = 1 - t, B(0, 0) = 0,

found for all patterns a at once, one player after the other. The derivative by the t of player i is
again a combination of F with and without i: with U1 and U0, the parts of the sum where b_i is 1 and
0 and without the factor of i, F(a_i = 0) = (1 - t) U1 and F(a_i = 1) = U1 + t U0; it is U0 where a_i
is 1, -U1 where it is 0. Its integral by Gauss-Legendre quadrature is exact. The parts of a line are
sources of their own:

    t e_j(x) F            a regressor off the path that is present,
    (1 - t) F_j           the same absent: F_j counts background rows with the weight e_j(z),
    t e_j(x) a_j (U0 + U1)   a regressor on the path, present: its factor is replaced,
    (1 - t) U1 of F_j     the same absent.

Paths of more than MOST_BITS players are summed over pairs of patterns instead.
"""

from cython.parallel cimport prange
from libc.math cimport exp, lgamma
from libc.string cimport memcpy, memset

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._threads cimport raise_stop, team_of, team_stops
from hybridtrees.core.base._types cimport (
    Node, float64_t, int32_t, int64_t, intp_t, uint32_t, uint64_t, uint8_t,
)
from hybridtrees.core.tree._shap cimport HT_SIDE_STAY, HtShapNode, ShapTrees

import numpy as np

cdef enum:
    MOST_BITS = 12               # players of a path whose patterns are all listed
    PART_ROWS = 2048             # rows to explain that share tables


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


cdef void find_sides(
    ShapTrees trees, const HtShapNode* node, Walk* walk
) noexcept nogil:
    cdef const Node* split = &trees.nodes[node.node]
    cdef const uint32_t* words = NULL
    cdef const float64_t* column = walk.x + trees.used_place[split.feature] * walk.n
    cdef uint8_t* sides = walk.sides + 3 * node.level * walk.n
    cdef intp_t row
    cdef int32_t side
    if split.category_start >= 0:
        words = &trees.categories[split.category_start]
    for row in range(walk.n):
        side = side_of(column[row], split.threshold, words, split.category_words,
                       split.category_limit, split.missing_left)
        sides[row] = side == 0
        sides[walk.n + row] = side == 1
        sides[2 * walk.n + row] = side == HT_SIDE_STAY


cdef void go_down(const HtShapNode* node, Walk* walk) noexcept nogil:
    cdef uint8_t* met = walk.met + node.level * walk.n
    cdef const uint8_t* side = walk.sides + (3 * (node.level - 1) + node.side) * walk.n
    cdef const uint8_t* before = walk.met + node.before * walk.n
    cdef intp_t row
    for row in range(walk.n):
        met[row] = side[row] if node.before == 0 else side[row] & before[row]


cdef void find_patterns(Walk* walk, const int32_t* levels, int n_bits) noexcept nogil:
    cdef const uint8_t* met
    cdef intp_t row
    cdef int bit
    memset(walk.pattern, 0, walk.n * sizeof(uint32_t))
    for bit in range(n_bits):
        met = walk.met + levels[bit] * walk.n
        for row in range(walk.n):
            walk.pattern[row] |= <uint32_t>met[row] << bit


cdef float64_t find_parts(
    ShapTrees trees, int64_t node, intp_t output, Walk* walk
) noexcept nogil:
    """OUT e of each player of the line, in the order of its terms; returns the constant.

    As in `line_parts` of shap_body.h: a value beyond the range of the leaf ends at it.
    """
    cdef int64_t j
    cdef intp_t row, i, n_parts = 0
    cdef int32_t player = -1
    cdef float64_t value, total, end, low, high, start = trees.values[node, output], scale
    cdef float64_t first = start
    cdef const float64_t* column
    cdef float64_t* own = NULL
    for j in range(trees.term_start[node], trees.term_start[node + 1]):
        if trees.term_player[j] != player:
            player = trees.term_player[j]
            own = walk.parts + n_parts * walk.n
            memset(own, 0, walk.n * sizeof(float64_t))
            n_parts += 1
        column = walk.x + trees.term_used[j] * walk.n
        for row in range(walk.n):
            value = column[row]
            if value == value:
                value = min(max(value, trees.low[j]), trees.high[j])
                own[row] += trees.coef[j, output] * (value - trees.center[j])
    if not trees.ranged:
        return start
    low = trees.value_range[node, 0, output]
    high = trees.value_range[node, 1, output]
    first = min(max(start, low), high)
    for row in range(walk.n):
        total = 0
        for i in range(n_parts):
            total += walk.parts[i * walk.n + row]
        end = min(max(start + total, low), high)
        if first == start and end == start + total:
            continue
        scale = (end - first) / total if total != 0 else 0.0
        for i in range(n_parts):
            walk.parts[i * walk.n + row] *= scale
    return first


# ---- Tables by pattern ------------------------------------------------------------------------


cdef void transform(const Job* job, const float64_t* counts, float64_t* out) noexcept nogil:
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


cdef void derive(
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


cdef void keep_met(const Job* job, float64_t* F, int bit) noexcept nogil:
    """F becomes U1 of a player: the rows of the background that meet its conditions."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a
    cdef float64_t met
    for k in range(job.n_points):
        for a in range(n):
            if not (a >> bit) & 1:
                met = F[k * n + a] / (1.0 - job.points[k])
                F[k * n + a] = met
                F[k * n + (a | (1 << bit))] = met


cdef void integrate(
    const Job* job, const float64_t* F, const float64_t* factors, float64_t scale, float64_t* out
) noexcept nogil:
    """Add the sum over the points of F, times a factor of each, to the table of a player."""
    cdef intp_t n = <intp_t>1 << job.n_bits, k, a
    cdef float64_t factor
    for k in range(job.n_points):
        factor = scale * factors[k]
        for a in range(n):
            out[a] += factor * F[k * n + a]


cdef void add_source(
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


cdef void look_up(
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


cdef intp_t table_size(const Job* job) noexcept nogil:
    cdef intp_t size = job.n_local
    return (size + (size * size if job.with_pairs else 0)) << job.n_bits


cdef void count_patterns(
    Work* work, const float64_t* part, int n_bits, float64_t* counts
) noexcept nogil:
    """OUT the share of the background, or the sum of a part over it, by pattern."""
    cdef intp_t row
    cdef float64_t scale = 1.0 / work.background.n
    memset(counts, 0, (<intp_t>1 << n_bits) * sizeof(float64_t))
    for row in range(work.background.n):
        counts[work.background.pattern[row]] += scale if part == NULL else scale * part[row]


cdef void add_leaf(
    ShapTrees trees, const HtShapNode* node, const Job* job, Work* work, intp_t output, int n_line
) noexcept nogil:
    """Add a leaf of few players to the values of the rows."""
    cdef float64_t start = find_parts(trees, node.node, output, &work.background)
    cdef intp_t n_background = work.background.n, n_rows = work.rows.n, size = table_size(job)
    cdef int j, own
    find_parts(trees, node.node, output, &work.rows)
    memset(work.constant, 0, size * sizeof(float64_t))
    for j in range(n_line):
        # Absent regressors.
        own = work.line[j]
        count_patterns(work, work.background.parts + j * n_background, job.n_bits, work.counts)
        transform(job, work.counts, work.weights)
        if own < job.n_bits:
            keep_met(job, work.weights, own)
        add_source(job, work, work.weights, own, -1.0, 1.0, 0, work.constant)
    count_patterns(work, NULL, job.n_bits, work.counts)
    transform(job, work.counts, work.weights)
    add_source(job, work, work.weights, -1, 0.0, start, 2, work.constant)
    look_up(job, work, work.constant, NULL, -1, trees.n_players)
    for j in range(n_line):
        own = work.line[j]
        memset(work.table, 0, size * sizeof(float64_t))
        if own < job.n_bits:
            derive(job, work.weights, own, True, work.constant)
            add_source(job, work, work.constant, own, 1.0, 1.0, 1, work.table)
        else:
            add_source(job, work, work.weights, own, 1.0, 1.0, 1, work.table)
        look_up(job, work, work.table, work.rows.parts + j * n_rows,
                own if own < job.n_bits else -1, trees.n_players)


# ---- Pairs of rows, for long paths -------------------------------------------------------------


cdef float64_t beta(intp_t x, intp_t z) noexcept nogil:
    """Integral of t^x (1 - t)^z."""
    return exp(lgamma(x + 1.0) + lgamma(z + 1.0) - lgamma(x + z + 2.0))


cdef void add_pair_source(
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


cdef void add_long_leaf(
    ShapTrees trees, const HtShapNode* node, const Job* job, Work* work, intp_t output, int n_line,
    uint8_t* kind,
) noexcept nogil:
    """Add a leaf of many players to the values of the rows."""
    cdef float64_t start = find_parts(trees, node.node, output, &work.background)
    cdef intp_t row, other, n_rows = work.rows.n, n_others = work.background.n, n_x, n_z, i, own_x
    cdef int j, own
    cdef bint own_is_x, own_is_z
    cdef uint8_t met, reached
    cdef float64_t scale = 1.0 / n_others, part
    find_parts(trees, node.node, output, &work.rows)
    for row in range(n_rows):
        for other in range(n_others):
            n_x = n_z = 0
            reached = 1
            for i in range(job.n_bits):
                met = work.rows.met[work.levels[i] * n_rows + row]
                reached = work.background.met[work.levels[i] * n_others + other]
                kind[i] = met & (1 - reached) | ((1 - met) & reached) << 1
                n_x += kind[i] == 1
                n_z += kind[i] == 2
                reached |= met
                if not reached:
                    break
            if not reached:
                continue
            add_pair_source(
                job, work, row, kind, n_x, n_z, -1, 0.0, start * scale, 2, trees.n_players)
            for j in range(n_line):
                own = work.line[j]
                own_is_x = own < job.n_bits and kind[own] == 1
                own_is_z = own < job.n_bits and kind[own] == 2
                if not own_is_z:
                    part = scale * work.rows.parts[j * n_rows + row]
                    add_pair_source(job, work, row, kind, n_x - own_is_x, n_z, own, 1.0, part, 1,
                                    trees.n_players)
                if not own_is_x:
                    part = scale * work.background.parts[j * n_others + other]
                    add_pair_source(job, work, row, kind, n_x, n_z - own_is_z, own, -1.0, part, 0,
                                    trees.n_players)


# ---- Trees ------------------------------------------------------------------------------------


cdef int open_leaf(
    ShapTrees trees, const HtShapNode* node, Job* job, Work* work
) noexcept nogil:
    """Number the players of a leaf; returns how many are in its line."""
    cdef int level, n_line = 0
    cdef int32_t player = -1
    cdef int64_t j
    job.n_bits = 0
    for level in range(1, node.level + 1):
        if not work.hidden[level]:
            work.players[job.n_bits] = work.at[level].player
            work.levels[job.n_bits] = level
            work.local[work.at[level].player] = job.n_bits
            job.n_bits += 1
    job.n_local = job.n_bits
    for j in range(trees.term_start[node.node], trees.term_start[node.node + 1]):
        if trees.term_player[j] == player:
            continue
        player = trees.term_player[j]
        if work.local[player] < 0:
            work.local[player] = job.n_local
            work.players[job.n_local] = player
            job.n_local += 1
        work.line[n_line] = work.local[player]
        n_line += 1
    for level in range(job.n_local):
        work.local[work.players[level]] = -1
    return n_line


cdef void run_tree(
    ShapTrees trees, intp_t tree, intp_t output, Job* job, Work* work, uint8_t* kind,
    int most_bits,
) noexcept nogil:
    cdef const HtShapNode* nodes = trees.laid + trees.start[tree]
    cdef const HtShapNode* node
    cdef intp_t i, column = output if trees.n_values > 1 else 0
    cdef int level = 0, n_line
    job.n_points = trees.n_points[tree]
    job.points = &trees.points[job.n_points, 0]
    job.weights = &trees.weights[job.n_points, 0]
    for i in range(trees.start[tree + 1] - trees.start[tree]):
        node = nodes + i
        while level >= node.level and level > 0:
            work.hidden[work.at[level].before] = 0
            level -= 1
        level = node.level
        if level > 0:
            work.at[level] = node
            work.hidden[level] = 0
            work.hidden[node.before] = 1
            go_down(node, &work.rows)
            go_down(node, &work.background)
        if node.column >= 0:
            find_sides(trees, node, &work.rows)
            find_sides(trees, node, &work.background)
            continue
        n_line = open_leaf(trees, node, job, work)
        if job.n_bits > most_bits:
            add_long_leaf(trees, node, job, work, column, n_line, kind)
        else:
            find_patterns(&work.rows, work.levels, job.n_bits)
            find_patterns(&work.background, work.levels, job.n_bits)
            add_leaf(trees, node, job, work, column, n_line)


cdef void open_walk(Walk* walk, const float64_t* x, intp_t n, uint8_t** bytes_at,
                    float64_t** doubles_at, intp_t levels, intp_t n_parts) noexcept nogil:
    walk.x = x
    walk.n = n
    walk.pattern = <uint32_t*>bytes_at[0]
    walk.met = bytes_at[0] + 4 * n
    walk.sides = walk.met + levels * n
    bytes_at[0] += (4 * n + 4 * levels * n + 7) // 8 * 8
    walk.parts = doubles_at[0]
    doubles_at[0] += n_parts * n


cdef intp_t count_tables(ShapTrees trees, bint with_pairs) noexcept nogil:
    """Tables of a leaf at most: its players, and their pairs."""
    cdef intp_t size = min(<intp_t>MOST_BITS, trees.most_levels) + trees.most_terms
    return size + (size * size if with_pairs else 0)


cdef void run_part(
    ShapTrees trees, const float64_t* x, intp_t n_rows, const float64_t* background,
    intp_t n_others, bint with_pairs, uint8_t* bytes_at, float64_t* doubles_at, intp_t bits,
    intp_t most_local, float64_t[:, :, :] values, float64_t[:, :, :, :] pairs, intp_t first,
    int most_bits,
) noexcept nogil:
    """Write the values of some rows, given column by column."""
    cdef Work work
    cdef Job job
    cdef intp_t levels = trees.most_levels + 1, n_players = trees.n_players, row, i, j, k, o, tree
    cdef intp_t size = trees.most_points << bits, output
    cdef intp_t n_tables = count_tables(trees, with_pairs)
    cdef intp_t n_outputs = trees.n_values if trees.n_values > 1 else 1
    cdef float64_t rest
    cdef uint8_t* kind
    job.with_pairs = with_pairs
    open_walk(&work.rows, x, n_rows, &bytes_at, &doubles_at, levels, trees.most_terms)
    open_walk(&work.background, background, n_others, &bytes_at, &doubles_at, levels,
              trees.most_terms)
    work.at = <const HtShapNode**>bytes_at
    work.local = <int32_t*>(work.at + levels)
    work.players = work.local + n_players
    work.levels = work.players + most_local
    work.line = work.levels + most_local
    work.hidden = <uint8_t*>(work.line + most_local)
    kind = work.hidden + levels
    for i in range(n_players):
        work.local[i] = -1
    memset(work.hidden, 0, levels)
    job.factors = doubles_at
    work.counts = doubles_at + trees.most_points
    work.weights = work.counts + (<intp_t>1 << bits)
    work.derived = work.weights + size
    work.second = work.derived + size
    work.table = work.second + size
    work.constant = work.table + (n_tables << bits)
    work.values = work.constant + max(n_tables << bits, size)
    work.pairs = work.values + trees.n_outputs * n_players * n_rows
    cdef float64_t* all_values = work.values
    cdef float64_t* all_pairs = work.pairs
    memset(all_values, 0, trees.n_outputs * n_players * n_rows * sizeof(float64_t))
    if with_pairs:
        memset(all_pairs, 0,
               trees.n_outputs * n_players * n_players * n_rows * sizeof(float64_t))
    for tree in range(trees.n_trees):
        for o in range(n_outputs):
            output = o if trees.n_values > 1 else trees.tree_output[tree]
            work.values = all_values + output * n_players * n_rows
            work.pairs = all_pairs + output * n_players * n_players * n_rows
            run_tree(trees, tree, output, &job, &work, kind, most_bits)
    for o in range(trees.n_outputs):
        for i in range(n_players):
            for row in range(n_rows):
                rest = all_values[(o * n_players + i) * n_rows + row]
                values[first + row, o, i] += rest
                if not with_pairs:
                    continue
                for j in range(n_players):
                    if i == j:
                        continue
                    k = i * n_players + j if i < j else j * n_players + i
                    k = ((o * n_players * n_players) + k) * n_rows + row
                    pairs[first + row, o, i, j] += 0.5 * all_pairs[k]
                    rest -= 0.5 * all_pairs[k]
                pairs[first + row, o, i, i] += rest


def add_background_values(
    ShapTrees trees, X, background, float64_t[:, :, :] values, float64_t[:, :, :, :] pairs,
    int n_threads, int most_bits=MOST_BITS,
):
    """Add Shapley values (n_rows, n_outputs, n_players), and interactions unless None, of rows.

    Paths of more than `most_bits` players, at most MOST_BITS, are summed over pairs of rows.
    """
    cdef intp_t n = X.shape[0], n_others = background.shape[0], n_parts, k, part, first, last
    cdef intp_t levels = trees.most_levels + 1, bits, most_local, n_tables, n_bytes, n_doubles
    cdef bint with_pairs = pairs is not None
    cdef int stopped = 0
    if X.shape[1] != trees.n_columns or background.shape[1] != trees.n_columns:
        raise ValueError("the rows do not fit the trees")
    if values.shape[0] != n or values.shape[1] != trees.n_outputs or (
            values.shape[2] != trees.n_players):
        raise ValueError("the output does not fit the trees")
    if with_pairs and (
            pairs.shape[0] != n or pairs.shape[1] != trees.n_outputs
            or pairs.shape[2] != trees.n_players or pairs.shape[3] != trees.n_players):
        raise ValueError("the interactions do not fit the trees")
    if n_others == 0:
        raise ValueError("the background needs at least one row")
    if n == 0:
        return
    used = np.asarray(trees.used)
    # By column; an extra entry, since a tree may use none.
    cdef float64_t[::1] other_columns = np.append(_by_column(background, used), 0.0)
    part = max(1, min(64 if with_pairs else PART_ROWS, (n - 1) // max(1, n_threads) + 1))
    n_parts = (n + part - 1) // part
    n_threads = <int>max(1, min(n_threads, n_parts))
    most_local = trees.most_levels + trees.most_terms
    bits = min(MOST_BITS, trees.most_levels)
    n_tables = count_tables(trees, with_pairs)
    n_bytes = (part + n_others) * (4 + 4 * levels) + 64 + 8 * levels + 4 * (
        trees.n_players + 3 * most_local) + 2 * levels
    n_bytes = (n_bytes + 63) // 64 * 64
    n_doubles = (
        (part + n_others) * trees.most_terms + trees.most_points
        + (<intp_t>1 << bits) * (1 + 3 * trees.most_points)
        + (n_tables << bits) + max(n_tables << bits, trees.most_points << bits)
        + part * trees.n_outputs * trees.n_players * (
            1 + (trees.n_players if with_pairs else 0)) + 8)
    cdef uint8_t[:, ::1] byte_room = np.empty((n_threads, n_bytes), dtype=np.uint8)
    cdef float64_t[:, ::1] room = np.empty((n_threads, n_doubles))
    cdef float64_t[:, ::1] own_columns = np.empty((n_threads, max(1, part * len(used))))
    columns_of = _by_column(X, used)
    cdef const float64_t[:, ::1] columns = columns_of
    cdef int thread
    cdef intp_t j, n_used = len(used)
    for k in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic"):
        thread = omp_get_thread_num()
        first = k * part
        last = min(n, first + part)
        if not team_stops(&stopped):
            for j in range(n_used):
                memcpy(&own_columns[thread, j * (last - first)], &columns[j, first],
                       (last - first) * sizeof(float64_t))
            run_part(trees, &own_columns[thread, 0], last - first, &other_columns[0], n_others,
                     with_pairs, &byte_room[thread, 0], &room[thread, 0], bits, most_local, values,
                     pairs, first, min(most_bits, MOST_BITS))
    raise_stop(stopped)


def _by_column(table, used):
    found = np.empty((max(1, len(used)), table.shape[0]))
    for place, column in enumerate(used.tolist()):
        found[place] = table[:, column]
    return found
