"""Models of XGB as XGBoost stores its own, both ways: all rounds, objective, base score, labels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.additive import AdditiveForm, Link, feature_columns
from hybridtrees.exchange.to_xgboost import document, made_trees
from hybridtrees.exchange.xgboost import Opened, open_model, read_model
from hybridtrees.losses import XGBOOST_OBJECTIVES

# Where XGBoost keeps parameters of objectives, by their names here.
_PLACES: dict[str, tuple[str, str]] = {
    "scale_pos_weight": ("reg_loss_param", "scale_pos_weight"),
    "max_delta_step": ("poisson_regression_param", "max_delta_step"),
    "tweedie_variance_power": ("tweedie_regression_param", "tweedie_variance_power"),
    "huber_slope": ("pseudo_huber_param", "huber_slope"),
    "quantile_alpha": ("quantile_loss_param", "quantile_alpha"),
    "expectile_alpha": ("expectile_loss_param", "expectile_alpha"),
}
_PARAMETERS: dict[str, str] = {
    **dict.fromkeys(
        ("reg:squarederror", "reg:logistic", "binary:logistic", "binary:logitraw", "reg:gamma"),
        "scale_pos_weight",
    ),
    "count:poisson": "max_delta_step",
    "reg:tweedie": "tweedie_variance_power",
    "reg:pseudohubererror": "huber_slope",
    "reg:quantileerror": "quantile_alpha",
    "reg:expectileerror": "expectile_alpha",
}
# Objectives here that XGBoost does not have.
_OWN = ("reg:logcosh", "binary:exponential", "exponential")
# Of a function of the user's own, by the scale of its scores.
_LIKE = {"identity": "reg:squarederror", "odds": "binary:logistic", "shares": "multi:softprob"}

# Losses of a sigmoid whose base score is a raw score.
_SCORES_AS_BASE = ("logit_scores",)

_ESTIMATOR, _CLASSES = "scikit_learn", "hybridtrees_classes"  # attributes of a file


# -- out --------------------------------------------------------------------------------------


def xgboost_document(model: Any) -> dict[str, Any]:
    """Return a fitted XGB model as the content of a JSON file of XGBoost, with all rounds."""
    model._check_is_fitted()
    loss, trees, reader = model._loss, model.trees_, model._reader
    form = AdditiveForm(model._base_raw_, trees, feature_columns(reader), Link(), reader)
    made, outputs = made_trees(form, type(model).__name__)
    n_classes = loss.n_outputs if loss.score_scale == "shares" else 0
    scores = [f"{score:.9g}".upper() for score in base_scores(model)]
    one = scores[0] if len(set(scores)) == 1 else f"[{','.join(scores)}]"
    return document(
        form,
        made,
        outputs,
        n_classes,
        one,
        _objective(model, n_classes),
        n_parallel=len(trees) // (model.n_iter_ * loss.n_outputs),
        attributes=_attributes(model),
    )


def check_known(model: Any, what: dict[str, Any]) -> None:
    """Refuse a model whose objective XGBoost does not have."""
    name = what["learner"]["objective"]["name"]
    if name in _OWN:
        raise TypeError(
            f"this {type(model).__name__} cannot be a file of XGBoost, which has no objective "
            f"{name!r}: use save"
        )


def base_scores(model: Any) -> NDArray[np.float32]:
    """Return the predictions that XGBoost turns into raw scores."""
    raw, loss = model._base_raw_, model._loss
    if loss.score_scale == "log":
        raw = np.exp(raw)
    elif loss.score_scale == "odds" and loss.kind not in _SCORES_AS_BASE:
        raw = 1 / (1 + np.exp(-raw))
    return np.asarray(raw, dtype=np.float32)


def _objective(model: Any, n_classes: int) -> dict[str, Any]:
    loss = model._loss
    names = loss.xgboost or (_LIKE[loss._like.score_scale],)
    name = model.objective if model.objective in names else names[0]
    if name == "binary:logitraw" and loss.kind == "logistic":
        name = "binary:logistic"  # whose base score and predictions are those of the model
    name = "reg:squarederror" if name == "reg:linear" else name
    found: dict[str, Any] = {"name": name}
    if n_classes:
        found["softmax_multiclass_param"] = {"num_class": str(n_classes)}
    elif name in _PARAMETERS:
        box, key = _PLACES[_PARAMETERS[name]]
        value = getattr(model, _PARAMETERS[name])
        value = getattr(type(model), _PARAMETERS[name]) if value is None else value
        if key.endswith("alpha"):
            value = "[" + ",".join(f"{one:.9g}" for one in np.atleast_1d(loss.alpha)) + "]"
        elif name == "count:poisson":
            value = loss.max_delta_step
        found[box] = {key: str(value)}
    return found


def _attributes(model: Any) -> dict[str, str]:
    found = {_ESTIMATOR: json.dumps({"_estimator_type": model._estimator_type})}
    classes = vars(model).get("classes_")
    if classes is not None and not np.array_equal(classes, np.arange(len(classes))):
        found[_CLASSES] = json.dumps(classes.tolist())
    if model._best_iteration is not None:
        found["best_iteration"] = str(model._best_iteration)
        found["best_score"] = repr(float(model._best_score))
    return found


# -- in ---------------------------------------------------------------------------------------


def take_over(model: Any, source: Any) -> None:
    """Set the fitted state of an XGB model: a file of XGBoost, a Booster or an estimator of it.

    `objective` and the parameters of that loss become those of the file.
    """
    opened = open_model(source)
    imported = read_model(opened, False)
    learner, where, kind = opened.document["learner"], opened.where, type(model).__name__
    attributes, name = learner.get("attributes", {}), imported.objective_
    _check_kind(model, attributes, where)
    is_classifier = model._estimator_type == "classifier"
    if name not in XGBOOST_OBJECTIVES["classification" if is_classifier else "regression"]:
        raise ValueError(f"{where} is for {name!r}, which {kind} has not: use from_xgboost")
    if imported.trees_.values.shape[1] > 1:
        raise ValueError(f"{where} has vectors in its leaves, {kind} has not: use from_xgboost")
    own = _loss_parameters(learner["objective"], name)
    step = own.pop("max_delta_step", 0.0)
    own.pop("scale_pos_weight", None)
    model.objective = name
    kinds = learner.get("feature_types") or []
    if "c" in kinds:
        model.feature_types = ["q" if kind == "float" else kind for kind in kinds]
    for key, value in own.items():
        setattr(model, key, value)
    n_outputs = len(imported._base_raw_)
    if is_classifier:
        model.n_classes_ = max(2, n_outputs)
        model.classes_ = _classes(attributes, opened, model.n_classes_)
        loss = model._make_loss(name, step, n_classes=model.n_classes_)
    else:
        of_one = name.startswith("multi:") or any(key.endswith("alpha") for key in own)
        model._n_targets = 1 if of_one else n_outputs
        loss = model._make_loss(name, step, n_targets=model._n_targets, n_labels=n_outputs)
    model.trees_, model.n_iter_, model._loss = imported.trees_, imported.n_iter_, loss
    model._base_raw_, model._evals_result = imported._base_raw_, {}
    model._reader, model.n_features_in_ = imported._reader, imported.n_features_in_
    model._reader.estimator_name = kind
    model.__dict__.pop("feature_names_in_", None)
    if model._reader.feature_names_in is not None:
        model.feature_names_in_ = model._reader.feature_names_in
    best = attributes.get("best_iteration")
    model._best_iteration = None if best is None else int(best)
    model._best_score = None if best is None else float(attributes.get("best_score", "nan"))
    model._check_state()


def _check_kind(model: Any, attributes: Any, where: str) -> None:
    """Refuse a classifier's file for a regressor, and the other way round."""
    try:
        kind = json.loads(attributes.get(_ESTIMATOR, "{}")).get("_estimator_type")
    except (AttributeError, ValueError):
        kind = None
    if kind not in (None, model._estimator_type):
        raise TypeError(
            f"{where} is a {kind}, and {type(model).__name__} a {model._estimator_type}"
        )


def _loss_parameters(objective: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the parameters of an objective that a file tells."""
    ours = _PARAMETERS.get(name)
    if ours is None:
        return {}
    box, key = _PLACES[ours]
    given = objective.get(box, {}).get(key)
    return {} if given is None else {ours: json.loads(given) if isinstance(given, str) else given}


def _classes(attributes: dict[str, str], opened: Opened, n_classes: int) -> NDArray[Any]:
    if _CLASSES in attributes:
        return np.array(json.loads(attributes[_CLASSES]))
    return np.arange(n_classes) if opened.classes is None else np.asarray(opened.classes)
