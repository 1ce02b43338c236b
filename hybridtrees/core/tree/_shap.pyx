"""Shapley values and interactions of trees.

The background is the shares of training rows (the mathematics is in shap.h), or the rows of a
table (in _shap_patterns.pxd). Threads share the rows; each row is summed tree by tree, so that
results do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport NAN
from libc.string cimport memcpy, memset

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport raise_stop, team_of, team_stops
from hybridtrees.core.base._types cimport (
    MISSING_STAYS, Node, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint8_t,
)
from hybridtrees.core.tree._shares cimport HT_SIDE_LEFT, HT_SIDE_STAY, find_shares
from hybridtrees.core.tree._shap_patterns cimport (
    HT_SHAP_POINTS, HT_SHAP_ROWS, HT_SHAP_STEP, MOST_BITS, HtShapNode, HtShapScratch,
    HtShapTree, Job, Walk, Work, add_pair_source, add_source, count_patterns, derive,
    find_patterns, go_down, ht_below_size, ht_product_size, ht_shap_tree,
    keep_met, look_up, table_size, transform,
)

import numpy as np

from hybridtrees.core.base.checks import check_nodes
from hybridtrees.core.base.dtypes import aligned_empty

cdef enum:
    CHUNK_ROWS = 256             # rows that read a tree one after the other
    CHUNK_CELLS = 1 << 17        # of columns and values of a chunk: 1 MB
    PART_ROWS = 2048             # rows to explain that share tables of patterns


# ---- Layout -----------------------------------------------------------------------------------


cdef class ShapTrees:
    """An ensemble laid out for Shapley values of `n_players` features.

    Column j of the table belongs to the feature `player[j]`.
    """

    cdef readonly intp_t n_trees, n_columns, n_players, n_outputs, n_values
    cdef readonly object base                # (n_outputs,): values without any player
    cdef readonly bint any_linear
    cdef const Node[::1] nodes               # of the ensemble
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef const int32_t[::1] tree_output
    cdef const float64_t[:, :, ::1] value_range
    cdef bint ranged
    cdef const int32_t[::1] player           # by column
    # terms of lines, sorted by player within a node
    cdef const int64_t[::1] term_start
    cdef const int32_t[::1] term_column, term_player, term_used
    cdef const float64_t[:, ::1] coef
    cdef const float64_t[::1] center, low, high
    # the layout
    cdef object memory                       # of the next
    cdef HtShapNode* laid
    cdef const int64_t[::1] start            # by tree: its first laid node, and the end
    cdef const int32_t[::1] n_points         # by tree
    cdef const int32_t[::1] n_levels         # by tree
    cdef const int64_t[::1] set_start        # by tree: its first split on categories
    cdef const int64_t[::1] set_node         # node of the ensemble of each
    cdef const int32_t[::1] used             # columns that trees read
    cdef const int32_t[::1] used_place       # place of a column among them, -1: none
    cdef const float64_t[:, ::1] points      # by number of points
    cdef const float64_t[:, ::1] weights
    cdef intp_t most_nodes, most_levels, most_points, most_sets, most_terms, most_inverse

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
            wanted = max(1, (found[0] + 1 + self.any_linear) // 2)
            if wanted > HT_SHAP_STEP:
                wanted = min(HT_SHAP_POINTS, -(-wanted // HT_SHAP_STEP) * HT_SHAP_STEP)
            n_points_view[tree] = wanted
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


# ---- Rows of a table as background -------------------------------------------------------------


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


cdef void add_long_leaf(
    ShapTrees trees, const HtShapNode* node, const Job* job, Work* work, intp_t output, int n_line,
    uint8_t* kind,
) noexcept nogil:
    """Add a leaf of many players to the values of the rows."""
    cdef float64_t start = find_parts(trees, node.node, output, &work.background)
    cdef intp_t row, other, n_rows = work.rows.n, n_others = work.background.n, n_x, n_z, i
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
