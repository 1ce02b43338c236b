"""Growth in passes over blocks: the trees of the search in memory, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees.core.bins.blocked import BLOCK_ROWS, BlockedBins
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.grower import Grower, NewtonLeaves, RowTarget, Statistics
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table

N_ROWS = BLOCK_ROWS + 9_000


class CountedBlocks:
    """Blocks of columns in memory, which count what is read."""

    def __init__(self, columns):
        self.columns = columns
        self.reads = []

    def read_block(self, i, columns, out):
        self.reads.append((i, tuple(columns)))
        for at, f in enumerate(columns):
            out[at][:] = self.columns[f, i * BLOCK_ROWS : (i + 1) * BLOCK_ROWS]

    def read_ahead(self, i):
        pass


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 7)).astype(np.float32)
    X[:, 1] = rng.integers(0, 12, N_ROWS)
    X[rng.random(N_ROWS) < 0.2, 4] = np.nan
    mapper = BinMapper(categorical_features=[1]).fit(X)
    grad = (X[:, 0] * X[:, 2] + 0.3 * (X[:, 1] == 3) + rng.normal(size=N_ROWS)).astype(np.float32)
    hess = rng.random(N_ROWS).astype(np.float32)
    return mapper, mapper.transform(X), grad, hess


def grow(mapper, binned, params, statistics, rows=None, n_threads=1, blocked=False, room=0):
    """Grow two trees with one grower; return nodes, leaves of rows, scores, and the blocks."""
    blocks = CountedBlocks(binned.columns)
    bins = binned
    if blocked:
        bins = BlockedBins(blocks, binned.n_rows, mapper, binned.has_missing, "not in memory", room)
    own = Table(None, binned.is_categorical, bins, mapper.category_to_bin_)
    made = []
    with Grower(own, params, NewtonLeaves(params), n_threads) as grower:
        for seed in range(2):
            grown = grower.grow(statistics, rows, seed)
            raw = np.zeros(binned.n_rows)
            grower.add_to(grown.tree, raw)
            made += [grown.nodes.tobytes(), grown.categories.tobytes(), grown.tree.values.tobytes()]
            made += [raw.tobytes(), grower.row_nodes().tobytes()]
            made += [part.tobytes() for part in grower.segments()]
    return made, grown, blocks


def check_same(table, params, *, rows=None, constant=False, n_threads=1, room=0):
    mapper, binned, grad, hess = table
    statistics = Statistics(grad, 1.0 if constant else hess)
    expected, _, _ = grow(mapper, binned, params, statistics, rows)
    found, grown, blocks = grow(
        mapper, binned, params, statistics, rows, n_threads=n_threads, blocked=True, room=room
    )
    assert [a == b for a, b in zip(expected, found, strict=True)] == [True] * len(expected)
    return grown, blocks


@settings(max_examples=25)
@given(
    frontier=st.sampled_from(["depth-wise", "best-first"]),
    max_depth=st.sampled_from([0, 1, 3, 7]),
    max_leaves=st.sampled_from([2, 3, 10, 31]),
    min_samples_leaf=st.sampled_from([1, 40]),
    min_gain=st.sampled_from([0.0, 3.0]),
    fractions=st.sampled_from([(1.0, 1.0, 1.0), (0.5, 1.0, 1.0), (1.0, 0.6, 0.5)]),
    histogram_bytes=st.sampled_from([0, 100_000, 2**28]),
    constant=st.booleans(),
    sampled=st.booleans(),
    n_threads=st.integers(1, 3),
    room=st.sampled_from([0, 2**30]),
)
def test_trees_are_those_of_the_search_in_memory(
    table, max_leaves, fractions, constant, sampled, n_threads, room, **given_params
):
    params = GrowerParams(max_leaves=max_leaves, feature_fractions=fractions, **given_params)
    rows = None
    if sampled:
        drawn = np.random.default_rng(1).random(N_ROWS) < 0.4
        rows = np.flatnonzero(drawn).astype(np.uint32)
    check_same(table, params, rows=rows, constant=constant, n_threads=n_threads, room=room)


def test_constraints_hold_in_passes(table):
    params = GrowerParams(
        max_depth=5,
        monotonic=np.array([1, 0, -1, 0, 0, 0, 0], np.int8),
        interaction=np.array([1, 3, 1, 2, 2, 2, 3], np.uint64),
    )
    check_same(table, params)
    check_same(table, params, rows=np.arange(5, dtype=np.uint32))


@pytest.mark.parametrize("max_depth", [1, 4, 6])
def test_a_level_is_one_pass(table, max_depth):
    """The last pass of a tree, which only routes, reads only the columns of its splits."""
    grown, blocks = check_same(table, GrowerParams(max_depth=max_depth))
    assert grown.nodes["depth"].max() == max_depth
    passes = [columns for i, columns in blocks.reads if i == 0]
    assert len(passes) == 2 * (max_depth + 1)  # two trees
    second = passes[max_depth + 1 :]
    assert all(len(columns) == 7 for columns in second[:-1])
    deepest = grown.nodes[(grown.nodes["depth"] == max_depth - 1) & (grown.nodes["left"] >= 0)]
    assert list(second[-1]) == sorted(set(deepest["feature"].tolist()))


def test_best_first_growth_takes_few_passes(table):
    params = GrowerParams(frontier="best-first", max_depth=0, max_leaves=31)
    grown, blocks = check_same(table, params)
    n_passes = sum(i == 0 for i, _ in blocks.reads) / 2
    assert n_passes <= grown.nodes["depth"].max() + 1.5


def test_a_sample_with_room_takes_two_passes(table):
    """One copies its rows, and one finds the leaves of all rows."""
    rows = np.arange(0, N_ROWS, 4, dtype=np.uint32)
    need = len(rows) * (7 + 12)
    # Both trees have the same sample, which is copied once.
    for room, n_passes in ((need, 3), (need - 1, 14)):
        grown, blocks = check_same(table, GrowerParams(), rows=rows, room=room)
        assert grown.nodes["depth"].max() == 6
        assert sum(i == 0 for i, _ in blocks.reads) == n_passes


def test_a_tree_without_splits(table):
    mapper, binned, grad, _ = table
    statistics = Statistics(np.zeros_like(grad), 1.0)
    _, grown, _ = grow(mapper, binned, GrowerParams(), statistics, blocked=True)
    assert len(grown.nodes) == 1
    assert grown.nodes["n_samples"][0] == N_ROWS
    check_same(
        (mapper, binned, np.zeros_like(grad), grad),
        GrowerParams(),
        constant=True,
        rows=np.arange(9, dtype=np.uint32),
        room=2**20,
    )


def test_targets_need_codes_in_memory(table):
    mapper, binned, grad, _ = table
    target = RowTarget(grad[:, None].astype(np.float64), 0, 1)
    params = GrowerParams(criterion="squares")
    for given_params in (params, GrowerParams(criterion="poisson")):
        with pytest.raises(MemoryError, match="not in memory"):
            grow(mapper, binned, given_params, Statistics(target=target), blocked=True)


def test_an_error_of_a_block_ends_growth(table):
    mapper, binned, grad, _ = table

    def broken(i, columns, out):
        raise OSError("broken disk")

    for n_threads in (1, 2):
        blocks = CountedBlocks(binned.columns)
        bins = BlockedBins(blocks, binned.n_rows, mapper, binned.has_missing, "")
        own, params = Table(None, binned.is_categorical, bins), GrowerParams(max_depth=2)
        with Grower(own, params, NewtonLeaves(params), n_threads) as grower:
            first = grower.grow(Statistics(grad)).nodes.tobytes()
            blocks.read_block = broken
            with pytest.raises(OSError, match="broken disk"):
                grower.grow(Statistics(grad))
            del blocks.read_block
            assert grower.grow(Statistics(grad)).nodes.tobytes() == first
