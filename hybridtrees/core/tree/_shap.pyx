"""Shapley values and interactions of trees, with the shares of training rows as background.

The mathematics is in shap.h. Threads share the rows; each row is summed tree by tree, so that
results do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport NAN, isfinite
from libc.string cimport memset

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport raise_stop, team_of, team_stops
from hybridtrees.core.base._types cimport (
    MISSING_STAYS, Node, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint8_t,
)

import numpy as np

from hybridtrees.core.base.checks import check_nodes
from hybridtrees.core.base.dtypes import aligned_empty

cdef enum:
    CHUNK_ROWS = 256             # rows that read a tree one after the other
    CHUNK_CELLS = 1 << 17        # of columns and values of a chunk: 1 MB


# ---- Layout -----------------------------------------------------------------------------------


cdef float64_t cover(const Node* nodes, intp_t node, bint by_weight) noexcept nogil:
    return nodes[node].weight if by_weight else <float64_t>nodes[node].n_samples


cdef void find_shares(const Node* nodes, intp_t node, float64_t* shares) noexcept nogil:
    """OUT the shares of the rows of a node that go right, left and stay.

    By weight; if it says nothing, by number of rows, or else equal.
    """
    cdef int way
    cdef float64_t total = 0
    for way in range(2):
        shares[HT_SIDE_LEFT] = max(0.0, cover(nodes, nodes[node].left, way == 0))
        shares[HT_SIDE_RIGHT] = max(0.0, cover(nodes, nodes[node].right, way == 0))
        shares[HT_SIDE_STAY] = 0
        total = shares[HT_SIDE_LEFT] + shares[HT_SIDE_RIGHT]
        if nodes[node].missing_left == MISSING_STAYS:
            shares[HT_SIDE_STAY] = max(0.0, cover(nodes, node, way == 0) - total)
            total += shares[HT_SIDE_STAY]
        if total > 0 and isfinite(total):
            break
    else:
        shares[HT_SIDE_LEFT] = shares[HT_SIDE_RIGHT] = total = 1
        shares[HT_SIDE_STAY] = 0
        total = 2
    for way in range(3):
        shares[way] /= total


cdef class ShapTrees:
    """An ensemble laid out for Shapley values of `n_players` features.

    Column j of the table belongs to the feature `player[j]`.
    """

    def __init__(self, ensemble, player, n_players):
        check_nodes(ensemble)
        self.n_columns = ensemble.n_features
        self.player = np.ascontiguousarray(player, dtype=np.int32)
        self.n_players = n_players
        if self.player.shape[0] != self.n_columns:
            raise ValueError("every column needs a player")
        if self.n_columns and not 0 <= np.min(player) <= np.max(player) < n_players:
            raise ValueError("a player does not exist")
        self.n_outputs = ensemble.n_outputs
        self.nodes = ensemble.nodes
        self.values = np.ascontiguousarray(ensemble.values)
        self.n_values = self.values.shape[1]
        self.categories = ensemble.categories
        self.tree_output = ensemble.tree_output
        self.ranged = ensemble.value_range is not None
        self.value_range = (
            np.ascontiguousarray(ensemble.value_range) if self.ranged else np.zeros((1, 2, 1)))
        self._read_terms(ensemble)
        self._lay_out(ensemble.tree_start)

    def _read_terms(self, ensemble):
        owner = np.repeat(np.arange(len(ensemble.nodes)), np.diff(ensemble.coef_ptr))
        feature = ensemble.coef_feature
        player = np.asarray(self.player)[feature].astype(np.int32)
        order = np.lexsort((feature, player, owner))
        self.term_start = np.ascontiguousarray(ensemble.coef_ptr)
        self.term_column = np.ascontiguousarray(feature[order], dtype=np.int32)
        self.term_player = np.ascontiguousarray(player[order])
        self.coef = np.ascontiguousarray(ensemble.coef[order])
        self.center = np.ascontiguousarray(ensemble.coef_center[order])
        self.low = np.ascontiguousarray(ensemble.coef_low[order])
        self.high = np.ascontiguousarray(ensemble.coef_high[order])
        self.any_linear = len(feature) > 0
        self.most_terms = int(np.diff(ensemble.coef_ptr).max(initial=0))
        nodes = ensemble.nodes
        inner = nodes["left"] >= 0
        used = np.unique(np.concatenate([nodes["feature"][inner], feature])).astype(np.int32)
        place = np.full(max(1, self.n_columns), -1, dtype=np.int32)
        place[used] = np.arange(len(used))
        self.used, self.used_place = used, place
        self.term_used = np.ascontiguousarray(place[self.term_column], dtype=np.int32)

    def _lay_out(self, tree_start):
        """Lay out the trees in preorder, and find the shares of their edges."""
        cdef intp_t tree, most
        cdef const int64_t[::1] starts = np.ascontiguousarray(tree_start)
        self.n_trees = len(tree_start) - 1
        nodes = np.asarray(self.nodes)
        inner = nodes["left"] >= 0
        stays = inner & (nodes["missing_left"] == MISSING_STAYS)
        sets = inner & (nodes["category_start"] >= 0)

        def totals(flags):
            return np.append(0, np.cumsum(flags))[tree_start]

        start = (tree_start + totals(stays)).astype(np.int64)
        set_start = totals(sets).astype(np.int64)
        self.memory = np.zeros(start[self.n_trees] * sizeof(HtShapNode) + 64, dtype=np.uint8)
        cdef uint8_t[::1] memory = self.memory
        self.laid = <HtShapNode*>&memory[0]
        depth = np.maximum.reduceat(nodes["depth"].astype(np.int64), tree_start[: self.n_trees])
        most = int(depth.max()) + 3
        set_node = np.zeros(max(1, set_start[self.n_trees]), dtype=np.int64)
        base = np.zeros(self.n_outputs)
        n_points = np.ones(self.n_trees, dtype=np.int32)
        levels = np.ones(self.n_trees, dtype=np.int32)
        cdef int32_t[:, ::1] stack = np.zeros((2 * most + 4, 4), dtype=np.int32)
        cdef float64_t[::1] reach = np.ones(most)
        cdef int32_t[::1] place = np.zeros(max(1, self.n_players), dtype=np.int32)
        cdef int32_t[::1] path = np.full(most, -1, dtype=np.int32)
        cdef int64_t[::1] starts_laid = start, sets_laid = set_start, set_view = set_node
        cdef float64_t[::1] base_view = base
        cdef int32_t[::1] found = np.zeros(2, dtype=np.int32)
        cdef int32_t[::1] n_points_view = n_points, levels_view = levels
        for tree in range(self.n_trees):
            self.lay_out(
                tree, starts[tree], starts[tree + 1] - starts[tree], starts_laid[tree],
                sets_laid[tree], set_view, stack, reach, place, path, base_view, found)
            # The degree is that of the path less one, or one more with a line.
            n_points_view[tree] = max(1, min(
                HT_SHAP_POINTS, (found[0] + 1 + self.any_linear) // 2))
            levels_view[tree] = found[1] + 1
        self.start, self.set_start, self.set_node = start, set_start, set_node
        self.n_points, self.n_levels, self.base = n_points, levels, base
        sizes = np.diff(start)
        self.most_nodes = int(sizes.max())
        self.most_inverse = int((sizes * n_points).max())
        self.most_levels, self.most_points = int(levels.max()), int(n_points.max())
        self.most_sets = int(np.diff(set_start).max())
        # Points in (0, 1), their weights sum to 1.
        points, weights = np.zeros((2, self.most_points + 1, self.most_points))
        for count in np.unique(n_points).tolist():
            place_of, weight = np.polynomial.legendre.leggauss(count)
            points[count, :count], weights[count, :count] = (1 + place_of) / 2, weight / 2
        self.points, self.weights = points, weights

    cdef int lay_out(
        self, intp_t tree, intp_t first, intp_t n_nodes, int64_t at, int64_t set_at,
        int64_t[::1] set_node, int32_t[:, ::1] stack, float64_t[::1] reach, int32_t[::1] place,
        int32_t[::1] path, float64_t[::1] base, int32_t[::1] found
    ) except -1:
        """Lay out one tree; OUT `found`: most players on a path, and the deepest level.

        `path` holds the laid node of each level, `place` the level of the last edge of a player.
        """
        cdef const Node* nodes = &self.nodes[first]
        cdef HtShapNode* laid = self.laid + at
        cdef HtShapNode* node
        cdef HtShapNode* above
        cdef float64_t shares[3]
        cdef float64_t value
        cdef intp_t n_stack = 1, n_laid = 0, k
        cdef int32_t level = 0, n_players = 0, player, side, n_sets = 0
        cdef intp_t output
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, 0, 0, 0
        found[0] = found[1] = 0
        while n_stack > 0:
            n_stack -= 1
            for k in range(level, stack[n_stack, 1] - 1, -1):
                if k == 0:
                    break
                player = laid[path[k]].player
                place[player] = laid[path[k]].before
                n_players -= place[player] == 0
            level = stack[n_stack, 1]
            node = laid + n_laid
            path[level] = <int32_t>n_laid
            n_laid += 1
            node.node = first + stack[n_stack, 0]
            node.level = level
            node.side = stack[n_stack, 2]
            node.player = -1
            node.share = node.merged = 1
            node.before = 0
            if level > 0:
                above = laid + path[level - 1]
                find_shares(nodes, above.node - first, shares)
                node.player = self.player[nodes[above.node - first].feature]
                node.share = shares[node.side]
                node.before = place[node.player]
                node.merged = node.share
                if node.before > 0:
                    node.merged *= laid[path[node.before]].merged
                else:
                    n_players += 1
                place[node.player] = level
                reach[level] = reach[level - 1] * node.share
            found[0] = max(found[0], n_players)
            found[1] = max(found[1], level)
            k = stack[n_stack, 0]
            node.column = -1
            if nodes[k].left < 0 or stack[n_stack, 3]:
                for output in range(self.n_values):
                    value = self.values[first + k, output]
                    if self.ranged:
                        value = max(value, self.value_range[first + k, 0, output])
                        value = min(value, self.value_range[first + k, 1, output])
                    base[output if self.n_values > 1 else self.tree_output[tree]] += (
                        value * reach[level])
                continue
            node.column = self.used_place[nodes[k].feature]
            node.threshold = nodes[k].threshold
            node.missing = nodes[k].missing_left
            if nodes[k].category_start >= 0:
                # A column of its own says where its categories go.
                node.column = <int32_t>(self.used.shape[0] + n_sets)
                node.threshold = 0.5
                set_node[set_at + n_sets] = first + k
                n_sets += 1
            for side in range(3):
                if side == HT_SIDE_STAY and node.missing != MISSING_STAYS:
                    break
                stack[n_stack, 0] = <int32_t>(
                    k if side == HT_SIDE_STAY else
                    nodes[k].left if side == HT_SIDE_LEFT else nodes[k].right)
                stack[n_stack, 1] = level + 1
                stack[n_stack, 2] = side
                stack[n_stack, 3] = side == HT_SIDE_STAY
                n_stack += 1
        for k in range(level, 0, -1):
            place[laid[path[k]].player] = laid[path[k]].before
        return 0


# ---- Values -----------------------------------------------------------------------------------


cdef struct Room:
    # Memory of a thread: columns of a chunk, its values and interactions, and scratch.
    double* x
    double* values
    double* pairs
    double* inverse
    HtShapScratch scratch


cdef struct Sizes:
    # Of the parts of a `Room`, in doubles; of pointers, bytes and int32 in `more`, in bytes.
    intp_t x, values, pairs, inverse, product, below, met, sides, work, at, hidden, place


cdef void find_sizes(ShapTrees trees, intp_t chunk, bint with_pairs, Sizes* sizes) noexcept:
    cdef intp_t n = trees.most_points, levels = trees.most_levels
    sizes.x = chunk * (trees.used.shape[0] + trees.most_sets + 1)
    sizes.values = chunk * trees.n_outputs * trees.n_players
    sizes.pairs = 0
    if with_pairs:
        sizes.pairs = chunk * trees.n_outputs * trees.n_players * trees.n_players
    sizes.inverse = trees.most_inverse
    sizes.product = levels * ht_product_size(<int>n)
    sizes.below = levels * ht_below_size(<int>n)
    sizes.met = levels * HT_SHAP_ROWS
    sizes.sides = 3 * levels * HT_SHAP_ROWS
    sizes.work = (n + trees.most_terms + 1) * HT_SHAP_ROWS
    sizes.at = levels
    sizes.hidden = (levels + 7) // 8
    sizes.place = (trees.n_players + 1) // 2 + 1


cdef intp_t total_size(const Sizes* sizes) noexcept:
    """Doubles of a room: whole cache lines for every part."""
    return (sizes.x + sizes.values + sizes.pairs + sizes.inverse + sizes.product + sizes.below
            + sizes.met + sizes.sides + sizes.work + sizes.at + sizes.hidden + sizes.place + 12 * 8)


cdef double* take(double** place, intp_t size) noexcept nogil:
    cdef double* found = place[0]
    place[0] += (size + 7) // 8 * 8
    return found


cdef void open_room(double* memory, const Sizes* sizes, Room* room) noexcept nogil:
    room.x = take(&memory, sizes.x)
    room.values = take(&memory, sizes.values)
    room.pairs = take(&memory, sizes.pairs) if sizes.pairs > 0 else NULL
    room.inverse = take(&memory, sizes.inverse)
    room.scratch.product = take(&memory, sizes.product)
    room.scratch.below = take(&memory, sizes.below)
    room.scratch.met = take(&memory, sizes.met)
    room.scratch.sides = take(&memory, sizes.sides)
    room.scratch.work = take(&memory, sizes.work)
    room.scratch.at = <const HtShapNode**>take(&memory, sizes.at)
    room.scratch.hidden = <uint8_t*>take(&memory, sizes.hidden)
    room.scratch.place = <int32_t*>take(&memory, sizes.place)
    memset(room.scratch.place, 0, sizes.place * sizeof(double))
    memset(room.scratch.hidden, 0, sizes.hidden * sizeof(double))


cdef void fill_sets(
    ShapTrees trees, intp_t tree, double* x, intp_t chunk
) noexcept nogil:
    """Write where categories go at the splits of a tree: 0 left, 1 right, NaN as if missing."""
    cdef intp_t k, row, n_sets = trees.set_start[tree + 1] - trees.set_start[tree]
    cdef const Node* node
    cdef const double* codes
    cdef double* out
    cdef int32_t side
    for k in range(n_sets):
        node = &trees.nodes[trees.set_node[trees.set_start[tree] + k]]
        codes = x + trees.used_place[node.feature] * chunk
        out = x + (trees.used.shape[0] + k) * chunk
        for row in range(chunk):
            # 3: neither side, so that missing values can be told apart.
            side = side_of(codes[row], 0, &trees.categories[node.category_start],
                           node.category_words, node.category_limit, 3)
            out[row] = NAN if side == 3 else 1.0 - side


cdef void describe(
    ShapTrees trees, intp_t tree, intp_t output, Room* room, HtShapTree* found
) noexcept nogil:
    """OUT one output of a tree, for the kernels."""
    cdef intp_t k, column = output if trees.n_values > 1 else 0
    cdef int n = trees.n_points[tree]
    cdef intp_t node
    found.nodes = trees.laid + trees.start[tree]
    found.n_nodes = trees.start[tree + 1] - trees.start[tree]
    found.n_points = n
    found.points = &trees.points[n, 0]
    found.weights = &trees.weights[n, 0]
    found.inverse = room.inverse
    found.value = &trees.values[0, column]
    found.value_stride = trees.n_values
    found.range = &trees.value_range[0, 0, column] if trees.ranged else NULL
    found.range_stride = 2 * trees.n_values
    found.range_width = trees.n_values
    found.term_start = NULL
    if trees.any_linear:
        found.term_start = &trees.term_start[0]
        found.term_column = &trees.term_used[0]
        found.term_player = &trees.term_player[0]
        found.coef = &trees.coef[0, column]
        found.center = &trees.center[0]
        found.low = &trees.low[0]
        found.high = &trees.high[0]
        found.coef_stride = trees.n_values
    elif trees.ranged:
        found.term_start = &trees.term_start[0]
        found.coef_stride = 0
    for node in range(found.n_nodes):
        for k in range(n):
            room.inverse[node * n + k] = 1.0 / (
                found.nodes[node].merged * (1.0 - found.points[k]) + found.points[k])


cdef void run_chunk(
    ShapTrees trees, const real_t[:, :] X, intp_t first, intp_t n_rows, intp_t chunk,
    Room* room, const Sizes* sizes, int width, float64_t[:, :, :] values,
    float64_t[:, :, :, :] pairs,
) noexcept nogil:
    """Write the values, and with `room.pairs` the interactions, of some rows."""
    cdef intp_t k, row, tree, output, block, i, j, n_players = trees.n_players
    cdef intp_t n_outputs = trees.n_values if trees.n_values > 1 else 1, o
    cdef intp_t n_blocks = (n_rows + HT_SHAP_ROWS - 1) // HT_SHAP_ROWS
    cdef HtShapTree about
    cdef double* own
    cdef double rest
    for k in range(trees.used.shape[0]):
        for row in range(chunk):
            room.x[k * chunk + row] = X[first + min(row, n_rows - 1), trees.used[k]]
    memset(room.values, 0, sizes.values * sizeof(double))
    if room.pairs != NULL:
        memset(room.pairs, 0, sizes.pairs * sizeof(double))
    for tree in range(trees.n_trees):
        fill_sets(trees, tree, room.x, chunk)
        for o in range(n_outputs):
            output = o if trees.n_values > 1 else trees.tree_output[tree]
            describe(trees, tree, output, room, &about)
            for block in range(n_blocks):
                ht_shap_tree(
                    width, &about, room.x + block * HT_SHAP_ROWS, chunk, &room.scratch,
                    room.values + output * n_players * chunk + block * HT_SHAP_ROWS,
                    NULL if room.pairs == NULL
                    else room.pairs + output * n_players * n_players * chunk, n_players)
    for output in range(trees.n_outputs):
        own = room.values + output * n_players * chunk
        for row in range(n_rows):
            for i in range(n_players):
                values[first + row, output, i] += own[i * chunk + row]
    if room.pairs == NULL:
        return
    # An interaction is shared by two players; their own effects are what remains.
    for output in range(trees.n_outputs):
        own = room.pairs + output * n_players * n_players * chunk
        for row in range(n_rows):
            for i in range(n_players):
                rest = room.values[(output * n_players + i) * chunk + row]
                for j in range(n_players):
                    if i == j:
                        continue
                    k = i * n_players + j if i < j else j * n_players + i
                    pairs[first + row, output, i, j] += 0.5 * own[k * chunk + row]
                    rest -= 0.5 * own[k * chunk + row]
                pairs[first + row, output, i, i] += rest


def add_path_values(
    ShapTrees trees, const real_t[:, :] X, float64_t[:, :, :] values,
    float64_t[:, :, :, :] pairs, int n_threads,
):
    """Add Shapley values (n_rows, n_outputs, n_players), and interactions unless None, of rows."""
    cdef intp_t n = X.shape[0], chunk, n_chunks, k, size
    cdef bint with_pairs = pairs is not None
    cdef int stopped = 0, width = ht_vector_bytes(), thread
    cdef Sizes sizes
    cdef Room* room
    if X.shape[1] != trees.n_columns or (
            values.shape[0] != n or values.shape[1] != trees.n_outputs
            or values.shape[2] != trees.n_players):
        raise ValueError("the rows or the output do not fit the trees")
    if with_pairs and (
            pairs.shape[0] != n or pairs.shape[1] != trees.n_outputs
            or pairs.shape[2] != trees.n_players or pairs.shape[3] != trees.n_players):
        raise ValueError("the interactions do not fit the trees")
    if n == 0:
        return
    # Interactions take a block of rows at a time: see `pairs` of ht_shap_tree.
    chunk = HT_SHAP_ROWS
    if not with_pairs:
        chunk = CHUNK_CELLS // max(1, trees.used.shape[0] + trees.n_outputs * trees.n_players)
        chunk = max(1, min(chunk, CHUNK_ROWS, (n - 1) // max(1, n_threads) + 1))
        chunk = (chunk + HT_SHAP_ROWS - 1) // HT_SHAP_ROWS * HT_SHAP_ROWS
    n_chunks = (n + chunk - 1) // chunk
    n_threads = <int>max(1, min(n_threads, n_chunks))
    find_sizes(trees, chunk, with_pairs, &sizes)
    size = (total_size(&sizes) + 7) // 8 * 8
    cdef float64_t[::1] memory = aligned_empty(n_threads * size, np.float64)
    rooms_memory = np.zeros(n_threads * sizeof(Room), dtype=np.uint8)
    cdef uint8_t[::1] rooms_bytes = rooms_memory
    cdef Room* rooms = <Room*>&rooms_bytes[0]
    for k in range(n_threads):
        open_room(&memory[k * size], &sizes, rooms + k)
    for k in prange(n_chunks, num_threads=team_of(n_threads), nogil=True, schedule="dynamic"):
        thread = omp_get_thread_num()
        room = rooms + thread
        if not team_stops(&stopped):
            run_chunk(trees, X, k * chunk, min(chunk, n - k * chunk), chunk, room, &sizes, width,
                      values, pairs)
    raise_stop(stopped)
