"""The base of estimators, proved on toy estimators."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from toy_estimators import MajorityClassifier, MeanRegressor

import hybridtrees
from hybridtrees import base
from hybridtrees.base import Estimator, NotFittedError, RegressorMixin, atomic_fit

sklearn = pytest.importorskip("sklearn")

X = np.arange(20.0).reshape(10, 2)
y = np.arange(10.0)


def test_get_and_set_params():
    inner = MeanRegressor(shift=2.0)
    outer = MeanRegressor(inner=inner)
    params = outer.get_params()
    assert params["inner"] is inner
    assert params["inner__shift"] == 2.0
    assert "inner__shift" not in outer.get_params(deep=False)
    assert outer.set_params(shift=1.0, inner__shift=5.0) is outer
    assert (outer.shift, inner.shift) == (1.0, 5.0)
    assert outer.set_params() is outer
    message = r"Invalid parameter 'sift' for estimator MeanRegressor. Valid parameters are: \['shif"
    with pytest.raises(ValueError, match=message):
        outer.set_params(shift=9.0, sift=1.0)
    assert outer.shift == 1.0
    # The new inner estimator gets the parameters, not the one it replaces.
    replaced = MeanRegressor()
    outer.set_params(inner__shift=7.0, inner=replaced)
    assert (replaced.shift, inner.shift) == (7.0, 5.0)


def test_parameters_of_a_nested_estimator_that_is_none_are_refused():
    model = hybridtrees.BaggingClassifier()
    with pytest.raises(ValueError, match="estimator__max_depth .*: its estimator is None"):
        model.set_params(estimator__max_depth=2)


def test_repr_shows_what_was_changed():
    assert repr(MeanRegressor()) == "MeanRegressor()"
    assert repr(MeanRegressor(missing=float("nan"))) == "MeanRegressor()"
    assert repr(MeanRegressor(shift=1)) == "MeanRegressor(shift=1)"
    assert repr(MeanRegressor(inner=MeanRegressor(2.0))) == (
        "MeanRegressor(inner=MeanRegressor(shift=2.0))"
    )
    many = MeanRegressor(1.5, -1, list(range(1000)), np.zeros(10_000))
    assert len(repr(many)) < 200
    long = repr(MeanRegressor(1.5, -1, "x" * 40, "y" * 40))
    assert long.startswith("MeanRegressor(\n    shift=1.5,\n")


def test_constructor_must_name_its_parameters():
    class Loose(Estimator):
        def __init__(self, **kwargs):
            pass

    with pytest.raises(TypeError, match="must name its parameters"):
        Loose().get_params()


def test_not_fitted():
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError
    from sklearn.utils.validation import check_is_fitted

    model = MeanRegressor()
    for error in (NotFittedError, SklearnNotFittedError, ValueError, AttributeError):
        with pytest.raises(error, match="This MeanRegressor instance is not fitted yet"):
            model.predict(X)
    try:
        model.predict(X)
    except NotFittedError as raised:
        again = pickle.loads(pickle.dumps(raised))
        assert isinstance(again, SklearnNotFittedError)
        assert str(again) == str(raised)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(X, y))


def test_failed_fit_leaves_the_estimator_as_it_was():
    model = MeanRegressor()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X, np.full(10, np.nan))
    assert vars(model) == vars(MeanRegressor()) or not model.__sklearn_is_fitted__()
    assert not hasattr(model, "n_features_in_")
    model.fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(np.zeros((4, 7)), y)
    assert vars(model) == before
    assert model.predict(X).tolist() == [4.5] * 10


def test_interrupted_fit_is_undone():
    class Interrupted(RegressorMixin, Estimator):
        @atomic_fit
        def fit(self, X, y):
            """Never end."""
            self.half_ = 1
            raise KeyboardInterrupt

    model = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model) == model.get_params()
    assert Interrupted.fit.__doc__ == "Never end."
    assert list(inspect.signature(Interrupted.fit).parameters) == ["self", "X", "y"]


def test_names_are_kept_and_forgotten():
    pd = pytest.importorskip("pandas")
    model = MeanRegressor().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_scores_use_weights():
    weight = np.linspace(0, 1, 10)
    model = MeanRegressor().fit(X, y)
    expected = sklearn.metrics.r2_score(y, model.predict(X), sample_weight=weight)
    assert model.score(X, y, weight) == pytest.approx(expected, abs=1e-12)
    labels = np.array(["a", "b"])[(y > 6).astype(int)]
    classifier = MajorityClassifier().fit(X, labels)
    assert classifier.score(X, labels) == pytest.approx(0.7)
    assert classifier.score(X, labels, sample_weight=labels == "b") == 0.0


def test_pickle_and_copy(tmp_path):
    model = MeanRegressor(shift=1.0).fit(X, y)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert twin.predict(X).tolist() == model.predict(X).tolist()
        assert vars(twin).keys() == vars(model).keys()


def test_pickle_of_another_version_warns(monkeypatch):
    dumped = pickle.dumps(MeanRegressor())
    monkeypatch.setattr(base, "__version__", "99.0")
    with pytest.warns(UserWarning, match=r"pickled by hybridtrees .* loaded by 99\.0"):
        pickle.loads(dumped)


def test_clone_and_meta_estimators():
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.ensemble import StackingRegressor, VotingClassifier
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = MeanRegressor(shift=3.0).fit(X, y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not twin.__sklearn_is_fitted__()
    assert is_regressor(model)
    assert is_classifier(MajorityClassifier())
    search = GridSearchCV(MeanRegressor(), {"shift": [0.0, 50.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"shift": 0.0}
    pipeline = make_pipeline(StandardScaler(), MeanRegressor()).fit(X, y)
    assert pipeline.set_params(meanregressor__shift=1.0).fit(X, y).predict(X)[0] == 5.5
    assert "MeanRegressor" in pipeline._repr_html_()
    stacked = StackingRegressor([("mean", MeanRegressor())], final_estimator=MeanRegressor(), cv=2)
    assert stacked.fit(X, y).predict(X).shape == (10,)
    labels = (y > 6).astype(int)
    VotingClassifier([("one", MajorityClassifier())], voting="soft").fit(X, labels).predict(X)
    assert len(cross_val_score(MajorityClassifier(), X, labels, cv=2)) == 2


def test_metadata_routing():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.utils.metadata_routing import UNCHANGED, get_routing_for_object

    model = MeanRegressor()
    assert list(inspect.signature(model.set_fit_request).parameters) == ["sample_weight"]
    assert not hasattr(model, "set_predict_request")
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        model.set_fit_request(sample_weight=True)
    weight = np.zeros(10)
    weight[:5] = 1.0
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(TypeError, match="set_fit_request got weights; fit .* takes sample_w"):
            model.set_fit_request(weights=True)
        assert model.set_fit_request(sample_weight=True) is model
        model.set_fit_request(sample_weight=UNCHANGED)
        model.set_score_request(sample_weight="score_weight")
        twin = clone(model)
        routing = get_routing_for_object(twin)
        assert routing.fit.requests == {"sample_weight": True}
        assert routing.score.requests == {"sample_weight": "score_weight"}
        assert get_routing_for_object(MeanRegressor()).fit.requests == {"sample_weight": None}
        search = GridSearchCV(twin, {"shift": [0.0]}, cv=[(range(8), range(8, 10))])
        search.fit(X, y, sample_weight=weight)
        assert search.best_estimator_.mean_ == 2.0


@pytest.mark.parametrize("model", [MeanRegressor(), MajorityClassifier()], ids=repr)
def test_check_estimator(model):
    """All checks of scikit-learn pass; those that do not apply are skipped by it."""
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(model, on_fail=None, on_skip=None)
    assert len(results) > 50
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # Runs only where SCIPY_ARRAY_API is set before scipy is imported.
    assert skipped <= {"check_array_api_input"}


@pytest.mark.parametrize("model", [MeanRegressor(), MajorityClassifier()], ids=repr)
def test_check_of_column_names(model):
    """A check that scikit-learn has but does not run by default."""
    from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_dataframe_column_names_consistency(type(model).__name__, model)


WITHOUT_SKLEARN = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("sklearn", "pandas"):
                raise ImportError(f"{name} is hidden")

    sys.meta_path.insert(0, Blocker())
    import numpy as np
    from toy_estimators import MajorityClassifier, MeanRegressor
    from hybridtrees.base import NotFittedError

    X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    model = MeanRegressor()
    try:
        model.predict(X)
    except NotFittedError:
        pass
    assert model.fit(X, y).predict(X)[0] == 4.5
    assert model.score(X, y) == 0.0
    assert MajorityClassifier().fit(X, y > 3).score(X, y > 3) == 0.6
    repr(model), model.get_params()
    try:
        model.set_fit_request(sample_weight=True)
    except ImportError as error:
        assert "scikit-learn, which is not installed" in str(error)
    else:
        raise AssertionError
    assert not {"sklearn", "pandas", "polars", "pyarrow"} & set(sys.modules)
"""


def test_all_works_without_sklearn():
    root = Path(base.__file__).resolve().parents[1]
    tests = Path(__file__).resolve().parent
    code = f"import sys; sys.path[:0] = [{str(root)!r}, {str(tests)!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", code + textwrap.dedent(WITHOUT_SKLEARN)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", [n for n in hybridtrees.__all__ if n.endswith(("Regressor", "Classifier"))]
)
def test_errors_about_the_arguments_of_fit_name_the_class_of_the_user(name):
    model = getattr(hybridtrees, name)()
    with pytest.raises(TypeError, match=rf"^{name}\.fit\(\) got an unexpected keyword .*'sift'"):
        model.fit(X, y, sift=1)
    # A model that is fitted to stores may leave y out there, so that its fit sees to y itself.
    missing = rf"^{name}(\.fit\(\) missing 1 required .*'y'| requires y to be passed)"
    with pytest.raises((TypeError, ValueError), match=missing):
        model.fit(X)


def test_other_errors_of_fit_are_not_touched():
    class Failing(MeanRegressor):
        @atomic_fit
        def fit(self, X, y):
            raise TypeError("fit() is for another day")

    with pytest.raises(TypeError, match=r"^fit\(\) is for another day"):
        Failing().fit(X, y)
