"""The ensemble of the final models in a comparison, honestly ranked."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridtrees
from hybridtrees._compare.choice import Standing
from hybridtrees._compare.data import make_data
from hybridtrees._compare.ensemble import Blender
from hybridtrees._compare.families import FAMILIES, choose_families
from hybridtrees._compare.report import make_report
from hybridtrees._compare.report_code import snippet
from hybridtrees._compare.scores import SCORES, Prediction
from hybridtrees._compare.search import Trial
from hybridtrees.cli import main
from hybridtrees.datasets import load_heart_failure
from hybridtrees.selection.splits import split_rows

BY_KEY = {family.key: family for family in FAMILIES}
SOME = ["linear", "cart", "baseline", "ensemble"]


def both_needed(n, seed=0):
    """A line and steps, which a straight line and a tree see one half of each."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    steps = np.sign(X[:, 1]) * np.sign(X[:, 2])
    return X, 4 * X[:, 0] + 1.5 * steps + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def winning():
    X, y = both_needed(900)
    return hybridtrees.compare(X, y, models=SOME, n_jobs=2), X, y


def ensemble_of(comparison):
    return next(r for r in comparison.results if r.family.key == "ensemble")


def test_it_is_best_where_the_folds_say_so(winning):
    comparison, X, y = winning
    first = comparison.results[0]
    assert first.family.key == "ensemble" and not first.tied
    assert set(first.setting) == {"linear", "cart"}
    assert sum(first.setting.values()) == pytest.approx(1, abs=1e-3)
    assert "its score is by weights from other folds" in comparison.text(500)
    best = comparison.best_
    assert type(best) is hybridtrees.VotingRegressor
    alone = comparison.models_
    mean = sum(
        w * alone[key].predict(X) for key, w in zip(first.setting, best.weights_, strict=True)
    )
    np.testing.assert_allclose(best.predict(X), mean, rtol=1e-12)
    rows = comparison.plan.test
    assert first.test["r2"] == pytest.approx(best.score(X[rows], y[rows]), abs=1e-12)
    # The members are those that were fitted already.
    assert best.named_estimators_["cart"] is alone["cart"]


@pytest.mark.parametrize("gap", [0.5, 2.0])
def test_it_is_first_unless_a_model_is_better_by_a_standard_error(gap):
    """A single model of smaller error against an ensemble that it takes most of."""
    data, plan, choice, standings = noise_standings(n_models=2)
    best = standings["m0"]
    blender = Blender(data, plan, SCORES["rmse"], 0)
    apart = blender.run([], standings, choice).standing
    spread = np.std(best.resampled - apart.resampled)
    best.scores = [apart.mean - gap * spread] * 5
    assert blender.run([], standings, choice).leads == (gap < 1)


def test_it_has_its_rank_where_another_is_better():
    X, y = both_needed(400)
    y = X[:, 0] + 0.01 * np.random.default_rng(1).normal(size=400)
    comparison = hybridtrees.compare(X, y, models=SOME, n_jobs=1)
    results = comparison.results
    # All the weight is on the line, which then stands before the ensemble that is the same.
    assert ensemble_of(comparison).setting == {"linear": 1.0}
    assert [r.family.key for r in results] == ["linear", "ensemble", "cart", "baseline"]


def test_report_json_and_code(winning, tmp_path):
    comparison, X, y = winning
    page = make_report([comparison])
    assert "ensemble of the others" in page and "nan" not in page.lower().replace("finance", "")
    comparison.to_json(tmp_path / "all.json")
    text = (tmp_path / "all.json").read_text()
    row = json.loads(text)["models"][0]
    assert row["key"] == "ensemble" and row["train"] is None and row["choice"] > 0
    assert "NaN" not in text
    code = snippet(comparison, ensemble_of(comparison))
    space = {"X": X, "y": y}
    exec(code, space)
    assert space["model"].score(X, y) == pytest.approx(comparison.best_.score(X, y), abs=1e-12)
    assert "ensemble of the others" in comparison._repr_html_()


def test_saved_and_asked_by_the_command_line(tmp_path, capsys):
    X, y = both_needed(900)
    colour = np.where(X[:, 2] > 0, "red", "blue")
    lines = [
        f"{a!r},{b!r},{c},{d!r}"
        for a, b, c, d in zip(*X[:, :2].T.tolist(), colour, y.tolist(), strict=True)
    ]
    path, model, out = (str(tmp_path / name) for name in ("t.csv", "m.htree", "p.csv"))
    (tmp_path / "t.csv").write_text("\n".join(["a,b,colour,y", *lines]) + "\n")
    given = ["compare", path, "--target", "y", "--models", *SOME, "--save", model, "--jobs", "2"]
    assert main(given) == 0
    assert "best model, VotingRegressor" in capsys.readouterr().out
    assert main(["predict", model, path, "-o", out]) == 0
    said = np.genfromtxt(out, delimiter=",", names=True)["prediction"]
    assert np.corrcoef(said, y)[0, 1] > 0.95


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes):
    X, y = both_needed(300)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [0.0, 2.0][: n_classes - 1])]
    comparison = hybridtrees.compare(X, labels, models=SOME, budget=1e-3)
    joined = ensemble_of(comparison)
    assert joined.error is None and set(joined.test) == set(comparison.results[1].test)
    proba = joined.model.predict_proba(X)
    assert proba.shape == (300, n_classes) and np.allclose(proba.sum(axis=1), 1)


def test_it_is_made_only_of_what_is_there():
    data = load_heart_failure()
    one = hybridtrees.compare(data.data, data.target, models=["cart", "baseline", "ensemble"])
    assert [r.family.key for r in one.results] == ["cart", "baseline"]
    for alone in (["ensemble"], ["ensemble", "baseline"]):
        with pytest.raises(ValueError, match="what the ensemble is made of"):
            choose_families(alone)


# ---- Weights and rank -------------------------------------------------------------------------


class Folds:
    """What a `Blender` needs of the folds of a comparison."""

    def __init__(self, data, plan, score, folds):
        self.folds, self.n_folds = folds, len(folds)
        self._of = (data, score)

    def scores_of(self, folds, predicted):
        data, score = self._of
        return [score(data.target[f.validation], p) for f, p in zip(folds, predicted, strict=True)]

    def resampled(self, folds, models):
        return [self._resampled(folds, predicted) for predicted in models]

    def _resampled(self, folds, predicted):
        data, score = self._of
        rng = np.random.default_rng(0)
        scores = []
        for _ in range(50):
            found = []
            for fold, one in zip(folds, predicted, strict=True):
                counts = rng.multinomial(
                    len(one.value), np.full(len(one.value), 1 / len(one.value))
                )
                y = data.target[fold.validation]
                found.append(score.resampled(y, one, counts[None].astype(float))[0])
            scores.append(np.mean(found))
        return np.array(scores)


def noise_standings(n_rows=60, n_models=30, by_time=False, seed=0):
    """Standings of models that say nothing about the target."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n_rows)
    time = np.arange(n_rows) if by_time else None
    data = make_data(np.zeros((n_rows, 1)) + y[:, None], y, task="regression", time=time)
    plan = split_rows(n_rows, n_folds=5, time=data.time)
    choice = Folds(data, plan, SCORES["rmse"], plan.folds)
    standings = {}
    for k in range(n_models):
        told = [Prediction(rng.normal(size=len(f.validation))) for f in plan.folds]
        standings[f"m{k}"] = Standing(choice.scores_of(plan.folds, told), predicted=told)
        standings[f"m{k}"].resampled = choice.resampled(plan.folds, [told])[0]
    return data, plan, choice, standings


@pytest.mark.parametrize("by_time", [False, True])
def test_its_rank_is_not_that_of_the_rows_that_chose_the_weights(by_time):
    """Of many useless models greedy weights look useful, but only where they were found."""
    honest, fitted = [], []
    for seed in range(8):
        data, plan, choice, standings = noise_standings(by_time=by_time, seed=seed)
        blend = Blender(data, plan, SCORES["rmse"], 0).run([], standings, choice)
        weights = np.array(list(blend.weights.values()))
        seen = []
        for k, fold in enumerate(plan.folds):
            told = np.stack([s.predicted[k].value for s in standings.values()])
            seen.append(SCORES["rmse"](data.target[fold.validation], Prediction(weights @ told)))
        honest.append(blend.standing.mean)
        fitted.append(np.mean(seen))
    assert np.mean(fitted) < np.mean(honest) - 0.05
    assert np.mean(honest) > 0.97  # the target's own spread is 1


def test_validation_rows_alone():
    """Without folds: weights of four fifths of the validation rows predict the fifth."""
    rng = np.random.default_rng(3)
    n = 2000
    y = rng.normal(size=n)
    data = make_data(np.zeros((n, 1)) + y[:, None], y, task="regression")
    plan = split_rows(n)
    truth = y[plan.folds[0].validation]
    errors = rng.normal(size=(3, len(truth)))
    told = {"linear": truth + errors[0], "cart": truth + errors[1], "gb": truth + 3 * errors[2]}
    trials = []
    for key, value in told.items():
        trial = Trial(BY_KEY[key], {}, held_out=[Prediction(value)])
        trial.validation = SCORES["rmse"](truth, trial.held_out[0])
        trials.append(trial)
    blend = Blender(data, plan, SCORES["rmse"], 0).run(trials, {}, None)
    assert blend.validation < min(t.validation for t in trials)
    assert blend.standing.scores == []
    # The best weights of independent errors are proportional to 1 / variance.
    expected = np.array([1, 1, 1 / 9]) / (2 + 1 / 9)
    np.testing.assert_allclose(list(blend.weights.values()), expected, atol=0.06)
    assert blend.validation == pytest.approx(np.sqrt(1 / (2 + 1 / 9)), rel=0.1)


def test_the_search_keeps_one_prediction_of_each_family(winning):
    comparison, _, _ = winning
    assert all(trial.held_out is None for trial in comparison.trials)
