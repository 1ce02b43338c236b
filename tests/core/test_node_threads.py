"""Threads that go on alone while the cores are busy."""

import numpy as np
import pytest

from hybridtrees.core.base._threads import node_thread_counts

QUICK, SLOW, ALONE = 1e-5, 5e-3, 1e-4
SMALL, LARGE = 2e4, 1e7


def sizes(n_threads, together, updates=SMALL, alone=ALONE):
    """Threads for nodes that take `together` seconds where the threads share them."""
    seconds = np.column_stack([np.full(len(together), alone), together])
    return node_thread_counts(
        n_threads, np.full(len(together), updates), np.ascontiguousarray(seconds)
    )


def test_a_quiet_machine_keeps_all_threads():
    assert sizes(4, [QUICK] * 50) == [4] * 50


def test_a_wait_is_made_up_by_work_alone():
    # A wait of 5 ms, of which 1.3 ms are usual: 29 ms of work alone, and then together again.
    found = sizes(2, [QUICK, SLOW] + [QUICK] * 450)
    assert found[:2] == [2, 2]
    n_alone = found.count(1)
    assert n_alone == pytest.approx(8 * (SLOW - 1e-3 - 32 * QUICK) / ALONE, abs=1)
    assert found[2 : 2 + n_alone] == [1] * n_alone
    assert set(found[2 + n_alone :]) == {2}


def test_a_pause_of_the_whole_program_is_soon_forgotten():
    found = sizes(2, [QUICK, 600.0] + [QUICK] * 4000)
    assert found.count(1) == pytest.approx(0.25 / ALONE, abs=1)
    assert found[-1] == 2


def test_a_search_that_takes_long_is_shared():
    # Nodes of a slow search, of several sizes, on a quiet machine.
    rng = np.random.default_rng(0)
    assert sizes(2, 0.05 * rng.uniform(1, 10, 200)) == [2] * 200


def test_a_clock_that_is_set_back_is_not_believed():
    assert sizes(2, [QUICK] * 3 + [-5.0] + [QUICK] * 50) == [2] * 54


def test_waits_are_a_small_part_of_the_time_on_a_busy_machine():
    found = np.array(sizes(2, [QUICK] + [SLOW] * 10_000))
    waited, alone = SLOW * np.sum(found == 2), ALONE * np.sum(found == 1)
    assert 0 < waited < 0.2 * alone


def test_large_nodes_are_always_shared():
    assert sizes(2, [1.0] * 20, updates=LARGE) == [2] * 20
    # What takes long because there is much to do is no wait.
    assert sizes(2, [0.02] * 20, updates=3e6) == [2] * 20


def test_one_thread_stays_one():
    assert sizes(1, [SLOW] * 20) == [1] * 20
