"""Callbacks of training in the XGBoost-style models."""

from __future__ import annotations

import copy
import types

import numpy as np
import pytest
from gb_data import make_xgb as make
from gb_data import xgb_data as data

from hybridtrees.callbacks import LearningRateScheduler, TrainingCallback

# -- callbacks ----------------------------------------------------------------------------------


class Recorder(TrainingCallback):
    def __init__(self, stop_before=None, stop_after=None):
        self.calls, self.stop = [], (stop_before, stop_after)

    def before_training(self, model):
        self.calls.append(("start", model.num_boosted_rounds()))

    def after_training(self, model):
        self.calls.append(("end", model.num_boosted_rounds()))

    def before_iteration(self, model, epoch, evals_log):
        self.calls.append(("before", epoch, len(evals_log["validation_0"]["rmse"])))
        return epoch == self.stop[0]

    def after_iteration(self, model, epoch, evals_log):
        self.calls.append(("after", epoch, len(evals_log["validation_0"]["rmse"])))
        return epoch == self.stop[1]


def test_callbacks_see_every_round():
    X, y = data()
    recorder = Recorder()
    make(n_estimators=2, callbacks=[recorder]).fit(X, y, eval_set=[(X, y)])
    assert recorder.calls == [
        ("start", 0), ("before", 0, 0), ("after", 0, 1), ("before", 1, 1), ("after", 1, 2),
        ("end", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(("stop", "rounds"), [({"stop_before": 3}, 3), ({"stop_after": 3}, 4)])
def test_callbacks_can_stop(stop, rounds, capsys):
    X, y = data()
    other = Recorder()
    model = make(callbacks=[Recorder(**stop), other], subsample=0.5, random_state=0)
    model.fit(X, y, eval_set=[(X, y)], verbose=100)
    assert model.n_iter_ == rounds
    assert other.calls[-1] == ("end", rounds)  # all of them see the last round
    short = make(n_estimators=rounds, subsample=0.5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), short.predict(X))
    assert "was the best" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="before the first round"):
        make(callbacks=[Recorder(stop_before=0)]).fit(X, y, eval_set=[(X, y)])


def test_a_callback_may_keep_what_it_has_seen():
    X, y = data()

    class Keeper(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            self.model = model
            return False

    keeper = Keeper()
    model = make(callbacks=[keeper]).fit(X, y)
    assert keeper.model.num_boosted_rounds() == 6 and keeper.model.estimator is model
    # Nor does it keep the tables of the training: what is left can be copied, as clone does.
    copied = copy.deepcopy(model)
    assert copied.callbacks[0].model.num_boosted_rounds() == 6
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="training is over"):
        keeper.model.set_param("learning_rate", 0.1)


def test_an_object_with_one_method_is_a_callback():
    X, y = data()
    hook = types.SimpleNamespace(after_iteration=lambda model, epoch, log: epoch == 1)
    assert make(callbacks=[hook]).fit(X, y).n_iter_ == 2


def test_learning_rates_by_round():
    X, y = data()
    rates = [0.5, 0.1, 0.3]
    a = make(n_estimators=3, callbacks=[LearningRateScheduler(rates)]).fit(X, y)
    b = make(n_estimators=3, callbacks=[LearningRateScheduler(lambda k: rates[k])]).fit(X, y)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    first = make(n_estimators=1, learning_rate=0.5).fit(X, y)
    second = make(n_estimators=1, learning_rate=0.1).fit(X, y, xgb_model=first)
    third = make(n_estimators=1, learning_rate=0.3).fit(X, y, xgb_model=second)
    np.testing.assert_allclose(a.predict(X), third.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="3 entries, but there is a round 3"):
        make(n_estimators=4, callbacks=[LearningRateScheduler(rates)]).fit(X, y)
    with pytest.raises(ValueError, match="learning_rate"):
        make(callbacks=[LearningRateScheduler(lambda k: -1.0)]).fit(X, y)
