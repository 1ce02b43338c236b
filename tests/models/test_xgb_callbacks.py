"""Callbacks of training in the XGBoost-style models."""

from __future__ import annotations

import copy
import types

import numpy as np
import pytest
from gb_data import make_xgb as make
from gb_data import xgb_data as data

import hybridtrees as ht
from hybridtrees import XGBRegressor, callbacks
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


# -- attributes, and the callbacks of XGBoost ------------------------------------------------------


def validated():
    X, y = data()
    return X[:200], y[:200], [(X[200:], y[200:])]


def test_attributes_are_texts_by_name():
    X, y = data()
    seen = []

    class Writer(TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 0:
                with pytest.raises(AttributeError, match="set_attr\\(best_score=...\\)"):
                    _ = model.best_score
                model.set_attr(note=1.5, gone="x", best_iteration=99, best_score=0.25)
                model.set_attr(gone=None)
            if epoch == 2:
                seen.append((model.attr("note"), model.attr("gone"), model.attributes()))
                seen.append((model.best_iteration, model.best_score))
            return False

    model = make(callbacks=[Writer()]).fit(X, y)
    attributes = {"note": "1.5", "best_iteration": "0", "best_score": "0.25"}
    # A round that is still to come cannot be the best: 99 became the round of the call.
    assert seen == [("1.5", None, attributes), (0, 0.25)]
    assert (model.best_iteration, model.best_score) == (0, 0.25)
    np.testing.assert_array_equal(model.predict(X), model.predict(X, iteration_range=(0, 1)))


@pytest.mark.parametrize("rounds_before", [0, 4])
def test_early_stopping_of_xgboost(rounds_before):
    callback = pytest.importorskip("xgboost").callback
    X, y, eval_set = validated()
    params = {"n_estimators": 60, "learning_rate": 1.0}
    before = None
    if rounds_before:
        before = make(**params).set_params(n_estimators=rounds_before).fit(X, y)
    theirs = make(**params, callbacks=[callback.EarlyStopping(rounds=3)])
    theirs.fit(X, y, eval_set=eval_set, xgb_model=before)
    ours = make(**params, early_stopping_rounds=3)
    ours.fit(X, y, eval_set=eval_set, xgb_model=before)
    assert ours.best_iteration + 4 == ours.n_iter_ == theirs.n_iter_ < 60
    assert theirs.best_iteration == ours.best_iteration >= rounds_before
    assert theirs.best_score == ours.best_score
    np.testing.assert_array_equal(theirs.predict(eval_set[0][0]), ours.predict(eval_set[0][0]))


@pytest.mark.parametrize("rounds_before", [0, 4])
def test_early_stopping_that_cuts_off_rounds(rounds_before):
    X, y, eval_set = validated()
    params = {"n_estimators": 60, "learning_rate": 1.0}
    before = make(**{**params, "n_estimators": 4}).fit(X, y) if rounds_before else None
    plain = make(**params, early_stopping_rounds=3)
    plain.fit(X, y, eval_set=eval_set, xgb_model=before)
    cut = make(**params, callbacks=[callbacks.EarlyStopping(rounds=3, save_best=True)])
    cut.fit(X, y, eval_set=eval_set, xgb_model=before)
    assert cut.best_iteration == plain.best_iteration == cut.n_iter_ - 1 < plain.n_iter_ - 1
    assert cut.best_score == plain.best_score
    assert len(cut.trees_) == cut.n_iter_
    np.testing.assert_array_equal(cut.predict(X), plain.predict(X))


def test_early_stopping_of_xgboost_that_cuts_off_rounds_is_refused():
    callback = pytest.importorskip("xgboost").callback
    X, y, eval_set = validated()
    stopping = callback.EarlyStopping(rounds=3, save_best=True)
    with pytest.raises(ValueError, match="use EarlyStopping of hybridtrees.callbacks"):
        make(callbacks=[stopping]).fit(X, y, eval_set=eval_set)


def test_early_stopping_by_name_direction_and_least_improvement():
    X, y, eval_set = validated()
    eval_set = [*eval_set, (X, y)]
    params = {"n_estimators": 40, "learning_rate": 1.0, "eval_metric": ["rmse", "r2"]}

    def stopped(**how):
        stopping = callbacks.EarlyStopping(2, **how)
        return make(**params, callbacks=[stopping]).fit(X, y, eval_set=eval_set)

    first = {"data_name": "validation_0"}
    by_rmse, by_r2 = stopped(**first, metric_name="rmse"), stopped(**first)
    scores = by_rmse.evals_result()["validation_0"]
    assert by_rmse.best_score == min(scores["rmse"])
    assert by_r2.best_score == max(by_r2.evals_result()["validation_0"]["r2"])
    assert by_rmse.best_iteration == by_r2.best_iteration < 37
    assert stopped(**first, maximize=False).best_iteration == 0
    assert stopped(**first, metric_name="rmse", min_delta=1e9).best_iteration == 0
    assert stopped().best_iteration > by_rmse.best_iteration  # of the last table
    with pytest.raises(ValueError, match="metric_name must be one of 'rmse', 'r2', got 'mae'"):
        stopped(metric_name="mae")
    with pytest.raises(ValueError, match="data_name must be one of"):
        stopped(data_name="test")
    with pytest.raises(ValueError, match="needs an eval_set"):
        make(callbacks=[callbacks.EarlyStopping(2)]).fit(X, y)
    with pytest.raises(ValueError, match="rounds must be"):
        callbacks.EarlyStopping(0)


def test_check_points(tmp_path):
    X, y = data()
    writer = callbacks.TrainingCheckPoint(tmp_path, "run", interval=2)
    model = make(n_estimators=5, callbacks=[writer]).fit(X, y)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run_1.json", "run_3.json"]
    read = XGBRegressor()
    read.load_model(tmp_path / "run_3.json")
    assert read.n_iter_ == 4
    np.testing.assert_allclose(
        read.predict(X), model.predict(X, iteration_range=(0, 4)), rtol=1e-5, atol=1e-5
    )
    linear = ht.PLGBRegressor(n_estimators=2, callbacks=[callbacks.TrainingCheckPoint(
        tmp_path, interval=2)]).fit(X, y)  # fmt: skip
    stored = ht.load(tmp_path / "model_1.json")
    np.testing.assert_array_equal(stored.predict(X), linear.predict(X))


def test_check_points_of_xgboost(tmp_path):
    callback = pytest.importorskip("xgboost").callback
    X, y = data()
    writer = callback.TrainingCheckPoint(tmp_path, name="theirs", interval=2)
    make(n_estimators=5, callbacks=[writer]).fit(X, y)
    files = sorted(tmp_path.iterdir())
    assert len(files) >= 2
    read = XGBRegressor()
    read.load_model(files[0])
    assert 0 < read.n_iter_ < 5


def test_views_of_fewer_rounds():
    X, y = data()
    seen = []

    class Looks(callbacks.TrainingCallback):
        def after_training(self, model):
            for wrong in (3, slice(1, 3), slice(0, 4, 2)):
                with pytest.raises(ValueError, match="from the first on"):
                    model[wrong]
            seen.extend([model[:2], model[:99].num_boosted_rounds()])
            return model[:3]

    model = make(n_estimators=5, callbacks=[Looks()]).fit(X, y)
    assert (model.n_iter_, seen[1]) == (3, 5)
    with pytest.raises(ValueError, match="the training is over"):
        seen[0].save_model("nowhere")


def test_the_module_under_the_name_that_xgboost_has():
    assert ht.callback is callbacks
