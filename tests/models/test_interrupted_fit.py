"""Ctrl-C during fits that spend a long time in one kernel."""

from __future__ import annotations

import sys

import pytest
from fresh_python import run_python

# All times are those that the process has worked, so that a busy machine makes no difference.
CHILD = """
import os, pickle, signal, threading, time
import numpy as np
import hybridtrees

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
rng = np.random.default_rng(0)
X = rng.normal(size={shape})
y = X[:, 0] + rng.normal(size=len(X))
model = hybridtrees.{model}
model.fit(X[:500], y[:500])
before = pickle.dumps(model)
sent = []

def interrupt(at):
    while time.process_time() < at:
        time.sleep(0.02)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

timer = threading.Thread(target=interrupt, args=[time.process_time() + {after}])
timer.start()
try:
    model.fit(X, y)
    raise SystemExit("the fit was too short for this test")
except KeyboardInterrupt:
    taken = time.process_time() - sent[0]
assert taken < 2, f"the fit went on for {{taken}} s"
timer.join()
assert pickle.dumps(model) == before
assert threading.active_count() == 1, threading.enumerate()
"""

# The medians take a minute in one call of a kernel.
MODELS = [
    "XGBRegressor(tree_method='exact', max_depth=0, n_estimators=999, n_jobs=2)",
    "CARTRegressor(criterion='absolute_error', n_jobs=1)",
    "RandomForestRegressor(splitter='exact', criterion='absolute_error', max_features=1.0, "
    "n_jobs=2)",
]


@pytest.mark.skipif(sys.platform == "win32", reason="signals cannot be sent like this")
@pytest.mark.parametrize("model", MODELS)
def test_a_long_fit_ends_soon_after_an_interrupt(model):
    done = run_python("-c", CHILD.format(shape=(200_000, 20), model=model, after=3.0))
    assert done.returncode == 0, done.stdout + done.stderr
