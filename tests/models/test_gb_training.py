"""Gradient boosting in the making: draws, curves, early stopping, more rounds, progress."""

from __future__ import annotations

import numpy as np
import pytest
from gb_data import LOSSES, make, output, signal, staged_output, table, target, weights

from hybridtrees import load
from hybridtrees.base import NotFittedError
from hybridtrees.models.shared.boosting import RoundDraws, draw_share


def deviance(loss, model, y, raw, weight=None):
    """Mean loss in scikit-learn's unit."""
    w = np.ones(len(y)) if weight is None else weight
    r = raw[:, 0]
    if loss == "squared_error":
        return np.average((y - r) ** 2, weights=w)
    if loss == "absolute_error":
        return np.average(np.abs(y - r), weights=w)
    if loss == "log_loss":
        return 2 * np.average(np.logaddexp(0, r) - y * r, weights=w)
    if loss == "exponential":
        return np.average(np.exp(np.where(y == 1, -r, r)), weights=w)
    if loss == "multinomial":
        logs = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
        return -np.average(logs[np.arange(len(y)), y], weights=w)
    raise ValueError(loss)


CURVED = ("squared_error", "absolute_error", "log_loss", "exponential", "multinomial")


def staged_raw(model, X):
    return [raw.copy() for raw in model._staged_raw(X)]


# -- stages and curves --------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_stages_end_in_the_prediction(loss):
    X = table(150)
    y = target(loss, X)
    model = make(loss, n_estimators=7).fit(X, y)
    stages = list(staged_output(model, X))
    assert len(stages) == 7 == model.n_estimators_ == model.n_iter_
    np.testing.assert_array_equal(stages[-1], output(model, X))
    for k in (1, 4):
        short = make(loss, n_estimators=k).fit(X, y)
        np.testing.assert_allclose(stages[k - 1], output(short, X), rtol=1e-12, atol=1e-14)
    if hasattr(model, "classes_"):
        for labels, proba in zip(model.staged_predict(X), stages, strict=True):
            np.testing.assert_array_equal(labels, model.classes_[proba.argmax(axis=1)])
        *_, scores = model.staged_decision_function(X)
        np.testing.assert_array_equal(scores, model.decision_function(X))


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("loss", CURVED)
def test_train_scores(loss, weighted):
    X = table(200)
    y, weight = target(loss, X), weights(200) if weighted else None
    model = make(loss, n_estimators=6).fit(X, y, weight)
    expected = [deviance(loss, model, y, raw, weight) for raw in staged_raw(model, X)]
    np.testing.assert_allclose(model.train_score_, expected, rtol=1e-10)
    assert np.all(np.diff(model.train_score_) < 0)
    assert not hasattr(model, "oob_improvement_") and not hasattr(model, "validation_scores_")


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("loss", CURVED)
def test_curves_of_drawn_rows(loss, splitter):
    X = table(200)
    y, weight = target(loss, X), weights(200)
    params = {"n_estimators": 8, "subsample": 0.5, "random_state": 5, "splitter": splitter}
    model = make(loss, **params).fit(X, y, weight)
    draws, _ = np.random.SeedSequence(5).spawn(2)
    stages = [np.tile(model.init_, (200, 1)), *staged_raw(model, X)]
    previous = None
    for k in range(8):
        rows = draw_share(0.5)(RoundDraws(draws).of(k)[0], 200)
        assert len(np.unique(rows)) == 100
        out = np.setdiff1d(np.arange(200), rows)
        inside = deviance(loss, model, y[rows], stages[k + 1][rows], weight[rows])
        after = deviance(loss, model, y[out], stages[k + 1][out], weight[out])
        if previous is None:
            previous = deviance(loss, model, y[out], stages[0][out], weight[out])
        assert model.train_score_[k] == pytest.approx(inside, rel=1e-9)
        assert model.oob_scores_[k] == pytest.approx(after, rel=1e-9)
        assert model.oob_improvement_[k] == pytest.approx(previous - after, rel=1e-6, abs=1e-9)
        # Leaves hold the drawn rows only.
        first = model.trees_[k * model.n_trees_per_iteration_]
        assert first.nodes["n_samples"][0] == 100
        previous = after
    assert model.oob_score_ == model.oob_scores_[-1]


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "multinomial"])
def test_validation_scores(loss):
    X, held = table(200), table(100, seed=3)
    y, truth = target(loss, X), target(loss, held, seed=3)
    weight = weights(100)
    model = make(loss, n_estimators=6)
    model.fit(X, y, X_val=held, y_val=truth, sample_weight_val=weight)
    expected = [deviance(loss, model, truth, raw, weight) for raw in staged_raw(model, held)]
    np.testing.assert_allclose(model.validation_scores_, expected, rtol=1e-10)
    plain = make(loss, n_estimators=6).fit(X, y)
    np.testing.assert_array_equal(output(plain, X), output(model, X))


# -- early stopping -----------------------------------------------------------------------------


def noisy(loss, n=300):
    X = table(n)
    y = signal(X, noise=3.0)
    return X, y if loss == "squared_error" else (y > 0).astype(int)


def rounds_by_the_rule(scores, tol, patience):
    """Rounds after which scikit-learn's rule ends a training."""
    for i in range(patience, len(scores)):
        if not any(scores[i] + tol < before for before in scores[i - patience : i]):
            return i + 1
    return len(scores)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_the_tolerance_counts(loss):
    X, y = table(300), target(loss, table(300))
    if loss == "squared_error":
        y = y / 20  # scores of the size of the tolerances
    params = {"n_estimators": 60, "learning_rate": 0.2}
    rows = {"X": X[:200], "y": y[:200], "X_val": X[200:], "y_val": y[200:]}
    scores = make(loss, **params).fit(**rows).validation_scores_
    ends = []
    for tol in (0.0, None, 2e-3, 0.02):
        own = {} if tol is None else {"tol": tol}
        model = make(loss, **params, n_iter_no_change=2, **own).fit(**rows)
        expected = rounds_by_the_rule(scores, 1e-4 if tol is None else tol, 2)
        assert model.n_estimators_ == expected
        ends.append(expected)
    # The default, None, shows in one of the losses.
    assert ends[0] >= ends[1] > ends[2] > ends[3]
    assert ends[0] > ends[1] or loss == "log_loss"


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_stops_by_the_rule(loss):
    X, y = noisy(loss)
    params = {"n_estimators": 200, "learning_rate": 0.3, "tol": 1e-3}
    model = make(loss, **params, n_iter_no_change=3)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    scores = model.validation_scores_
    n = len(scores)
    assert 3 < n < 200 and model.n_estimators_ == n == len(model.train_score_)
    improves = [any(scores[i] + 1e-3 < s for s in scores[max(0, i - 3) : i]) for i in range(3, n)]
    assert all(improves[:-1]) and not improves[-1]
    # What was grown behind the best round is there, but makes no predictions.
    best = model.best_iteration_
    assert best == np.argmin(scores) and len(model.trees_) == n
    short = make(loss, **params | {"n_estimators": best + 1}).fit(X[:200], y[:200])
    np.testing.assert_allclose(output(model, X), output(short, X), rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_holds_out_a_share(loss):
    X, y = noisy(loss)
    params = {"n_estimators": 100, "learning_rate": 0.3, "n_iter_no_change": 2}
    params |= {"validation_fraction": 0.25, "random_state": 1}
    a, b = make(loss, **params).fit(X, y), make(loss, **params).fit(X, y)
    assert a.trees_.nodes["n_samples"][0] == 225 and a.n_estimators_ < 100
    np.testing.assert_array_equal(a.validation_scores_, b.validation_scores_)
    other = make(loss, **params | {"random_state": 2}).fit(X, y)
    assert not np.array_equal(a.validation_scores_, other.validation_scores_)


def test_every_class_is_held_out_and_stays():
    X = table(60)
    y = np.repeat([0, 1, 2], [40, 15, 5])
    model = make("log_loss", n_iter_no_change=2, validation_fraction=0.2, random_state=0)
    rows = model.fit(X, y)._draw_validation(np.random.default_rng(0), y.astype(float))
    np.testing.assert_array_equal(np.bincount(y[rows]), [8, 3, 1])
    with pytest.raises(ValueError, match="holds out none"):
        make("log_loss", n_iter_no_change=2).fit(X[:2], [0, 1])


def test_curves_of_rows_that_are_drawn_in_some_rounds():
    X = table(200)
    y = target("squared_error", X)
    model = make("squared_error", n_estimators=4, warm_start=True, random_state=5).fit(X, y)
    assert not hasattr(model, "oob_improvement_")
    for n_rounds, share in ((7, 0.5), (9, 1.0), (10, 0.5)):
        model.set_params(n_estimators=n_rounds, subsample=share).fit(X, y)
        assert len(model.oob_improvement_) == len(model.oob_scores_) == n_rounds
        np.testing.assert_array_equal(model.oob_score_, model.oob_scores_[-1])
    drawn = np.isin(np.arange(10), [4, 5, 6, 9])
    np.testing.assert_array_equal(np.isfinite(model.oob_scores_), drawn)
    np.testing.assert_array_equal(np.isfinite(model.oob_improvement_), drawn)
    # The first round after one on all rows is compared with the scores before it, on its own rows.
    draws, _ = np.random.SeedSequence(5).spawn(2)
    stages = [np.tile(model.init_, (200, 1)), *staged_raw(model, X)]
    for k in (4, 9):
        out = np.setdiff1d(np.arange(200), draw_share(0.5)(RoundDraws(draws).of(k)[0], 200))
        before, after = (
            deviance("squared_error", model, y[out], stages[at][out]) for at in (k, k + 1)
        )
        assert model.oob_scores_[k] == pytest.approx(after, rel=1e-9)
        assert model.oob_improvement_[k] == pytest.approx(before - after, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared_error", "quantile", "log_loss", "multinomial"])
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_warm_start_is_one_long_run(loss, subsample):
    X = table(200)
    y = target(loss, X)
    params = {"subsample": subsample, "random_state": 4, "max_features": 2}
    whole = make(loss, n_estimators=9, **params).fit(X, y)
    parts = make(loss, n_estimators=2, warm_start=True, **params).fit(X, y)
    for n in (6, 6, 9):
        parts.set_params(n_estimators=n).fit(X, y)
        assert parts.n_estimators_ == n == len(parts.train_score_)
    np.testing.assert_array_equal(whole.trees_.nodes["feature"], parts.trees_.nodes["feature"])
    np.testing.assert_allclose(output(whole, X), output(parts, X), rtol=1e-10)
    np.testing.assert_allclose(whole.train_score_, parts.train_score_, rtol=1e-10)
    if subsample < 1:
        np.testing.assert_allclose(whole.oob_improvement_, parts.oob_improvement_, atol=1e-10)
    with pytest.raises(ValueError, match="n_estimators=8 must be at least 9"):
        parts.set_params(n_estimators=8).fit(X, y)
    parts.set_params(warm_start=False).fit(X, y)
    assert parts.n_estimators_ == 8


def test_warm_start_with_a_validation_share():
    X, y = noisy("squared_error")
    params = {"n_iter_no_change": 50, "random_state": 0}
    whole = make("squared_error", n_estimators=8, **params).fit(X, y)
    parts = make("squared_error", n_estimators=5, warm_start=True, **params).fit(X, y)
    parts.set_params(n_estimators=8).fit(X, y)
    np.testing.assert_allclose(whole.validation_scores_, parts.validation_scores_, rtol=1e-10)


def test_warm_start_cannot_change_the_loss():
    X = table(100)
    y = np.abs(signal(X))
    model = make("squared_error", n_estimators=2, warm_start=True).fit(X, y)
    before = vars(model).copy()
    model.set_params(loss="poisson", n_estimators=4)
    with pytest.raises(ValueError, match="cannot change the loss.*loss='poisson' now means"):
        model.fit(X, y)
    model.set_params(loss="squared_error", n_estimators=2)
    assert vars(model) == before


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_steps_without_end_are_an_error(splitter):
    X = table(100)
    model = make("exponential", n_estimators=40, learning_rate=1e4, splitter=splitter)
    with pytest.raises(ValueError, match="lower learning_rate|overflow"):
        model.fit(X, signal(X, noise=3.0) > 0)
    assert not hasattr(model, "trees_")


def test_monitor_sees_an_estimator_that_is_not_fitted():
    X, y = noisy("squared_error")

    def monitor(round_, model, state):
        for method in (model.predict, model.apply):
            with pytest.raises(NotFittedError, match="not fitted"):
                method(X)
        seen.append(round_)

    seen = []
    model = make("squared_error", n_estimators=2).fit(X, y, monitor=monitor)
    assert seen == [0, 1]
    assert len(model.predict(X)) == len(X)


def test_monitor_can_stop():
    X, y = noisy("squared_error")
    seen = []

    def monitor(round_, model, state):
        seen.append((round_, len(model.train_score_), state["raw_predictions"].shape))
        return round_ == 3

    model = make("squared_error", n_estimators=20).fit(X, y, monitor=monitor)
    assert model.n_estimators_ == 4
    assert seen == [(k, k + 1, (300, 1)) for k in range(4)]
    short = make("squared_error", n_estimators=4).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), short.predict(X))
    with pytest.raises(TypeError, match="monitor must be a callable"):
        make("squared_error").fit(X, y, monitor=3)


def test_failure_leaves_the_model_as_it_was():
    X, y = noisy("squared_error")
    model = make("squared_error", n_estimators=3).fit(X, y)
    before = vars(model).copy()

    def fails(*_):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        model.fit(X[:50, :2], y[:50], monitor=fails)
    assert vars(model) == before


def test_verbose(capsys):
    X, y = noisy("squared_error")
    model = make("squared_error", n_estimators=5, verbose=2, subsample=0.5)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[0]", "[2]", "[4]"]
    for text in ("loss:", "out of bag:", "validation_0-loss:", "to go"):
        assert text in lines[0]
    assert f"loss:{model.train_score_[-1]:.5f}" in lines[-1]


@pytest.mark.parametrize("tables", [False, True])
def test_early_stopping_that_comes_with_no_round(tables):
    X = table(120)
    y = signal(X)
    last = {"X_val": X[:20], "y_val": y[:20]} if tables else {}
    model = make("squared_error", n_estimators=4, warm_start=True, random_state=0).fit(X, y)
    before = model.predict(X)
    model.set_params(n_iter_no_change=2).fit(X, y, **last)
    assert model.n_iter_ == 4 and not hasattr(model, "best_iteration_")
    np.testing.assert_array_equal(model.predict(X), before)
    model.set_params(n_estimators=6).fit(X, y, **last)
    assert model.n_iter_ == 6 and model.best_iteration_ in (4, 5)


def test_more_rounds_of_other_levels(tmp_path):
    X = table(120)
    y = signal(X)
    model = make("quantile", alpha=[0.1, 0.9], n_estimators=2, warm_start=True).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"alpha was \(0.1, 0.9\), now it is \(0.9, 0.1\)"):
        model.set_params(alpha=[0.9, 0.1], n_estimators=4).fit(X, y)
    stored = load(tmp_path / "model").set_params(n_estimators=4).fit(X, y)
    assert stored.n_iter_ == 4


def test_summary():
    X = table(200)
    model = make("multinomial", n_estimators=3).fit(X, target("multinomial", X))
    text = model.summary()
    for part in ("log_loss, exact splits", "rows 200, features 4, outputs 3", "rounds 3, trees 9"):
        assert part in text
    assert f"{model.feature_importances_.max():.4f}  feature 0" in text
    assert "no split" in make("huber", n_estimators=1).fit(np.ones((9, 1)), np.arange(9)).summary()


def test_equal_splits_are_drawn_so_that_rounds_differ():
    """Two equal columns share the splits, and without a seed every fit is the same."""
    X, y = noisy("log_loss")
    twice = np.column_stack([X[:, :1], X[:, :1]])
    first = make("log_loss", n_estimators=20, splitter="exact").fit(twice, y)
    roots = first.trees_.nodes["feature"][first.trees_.tree_start[:-1]]
    assert 3 < np.count_nonzero(roots == 0) < 17
    again = make("log_loss", n_estimators=20, splitter="exact").fit(twice, y)
    np.testing.assert_array_equal(first.trees_.nodes["feature"], again.trees_.nodes["feature"])
    other = make("log_loss", n_estimators=20, splitter="exact", random_state=1).fit(twice, y)
    assert np.any(roots != other.trees_.nodes["feature"][other.trees_.tree_start[:-1]])
    np.testing.assert_allclose(output(other, twice), output(first, twice), rtol=1e-9)
