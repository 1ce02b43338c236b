"""The tables of ``study.py``: one for each data set, or all in two for the README."""

from __future__ import annotations

import numpy as np
from measuring import print_table
from study_published import BINARY

# record of a model on a data set, by data set and model
Results = dict[str, dict[str, dict]]

# Scores that agree so well are equal: solvers of other releases stop elsewhere.
EQUAL = 1e-4
TITLES = {
    "breast_cancer": "breast cancer",
    "car_insurance": "car insurance",
    "software_defect": "software defects",
    "electricity_transformer": "transformer",
    "house_prices": "house prices",
    "superconductivity": "superconductivity",
}


def summarise(runs: list[dict]) -> dict:
    """Mean, range and quickest fit over the seeds."""
    scores = [figures["score"] for figures in runs]
    return {
        "score": float(np.mean(scores)),
        "low": min(scores),
        "high": max(scores),
        "n": len(scores),
        "fit_s": min(figures["fit_s"] for figures in runs),
        "cpu_s": min(figures["cpu_s"] for figures in runs),
    }


def loss(name: str, score: float) -> float:
    """A score such that less is better."""
    return -score if name in BINARY else score


def worse_than(name: str, ours: dict, score: float, peer: dict | None = None) -> bool:
    """Whether a score is better than ours by more than chance explains.

    It is not if one of our runs reaches it, nor if the peer, the model that the score is of, did
    no better than we in one of several runs.
    """
    best = min(loss(name, ours["low"]), loss(name, ours["high"]))
    others = [loss(name, score)]
    if peer is not None and peer["high"] > peer["low"]:
        others += [loss(name, peer["low"]), loss(name, peer["high"])]
    return best - max(others) > EQUAL * abs(score)


def unit(name: str) -> str:
    return "AUC" if name in BINARY else "RMSE"


def score_text(figures: dict | None) -> str:
    if figures is None:
        return "-"
    digits = 6 if figures["score"] < 1 else 3
    text = f"{figures['score']:.{digits}f}"
    if figures["high"] > figures["low"]:
        text += f" [{figures['low']:.{digits}f}, {figures['high']:.{digits}f}]"
    return text


def rows_of(name: str, records: dict[str, dict]) -> list[list[str]]:
    """Table of one data set."""
    head = ["model", f"published {unit(name)}", "hybridtrees", "peer"]
    rows = [[*head, "published s", "hybridtrees s", "peer s"]]
    for model, record in records.items():
        published, ours, peer = record["published"], record["ours"], record.get("peer")
        rows.append(
            [
                model,
                "-" if published is None else f"{published:.{6 if published < 1 else 3}f}",
                score_text(ours),
                record.get("no_peer", "-") if peer is None else score_text(peer),
                "-" if published is None else f"{record['published_s']:.3f}",
                f"{ours['fit_s']:.3f}",
                "-" if peer is None else f"{peer['fit_s']:.3f}",
            ]
        )
    return rows


def mean_ranks(results: Results, who: str = "ours") -> dict[str, float]:
    """Mean rank over the data sets of every model that has figures on all; equal ones share."""
    ranks: dict[str, list[float]] = {}
    for name, records in results.items():
        scores = {
            model: loss(name, record[who]["score"])
            for model, record in records.items()
            if record.get(who) is not None
        }
        values = np.array(list(scores.values()))
        for model, score in scores.items():
            better, equal = np.sum(values < score), np.sum(values == score)
            ranks.setdefault(model, []).append(float(better + (equal + 1) / 2))
    means = {m: float(np.mean(r)) for m, r in ranks.items() if len(r) == len(results)}
    return dict(sorted(means.items(), key=lambda pair: pair[1]))


def total_seconds(results: Results, who: str = "ours", figure: str = "fit_s") -> dict[str, float]:
    """Sum over the data sets for every model; NaN where one is missing."""
    totals: dict[str, float] = {}
    for records in results.values():
        for model, record in records.items():
            found = record["published_s"] if who == "published" else None
            if who != "published" and record.get(who) is not None:
                found = record[who][figure]
            totals[model] = totals.get(model, 0.0) + (np.nan if found is None else found)
    return totals


def judged(results: Results) -> list[list[str]]:
    """Rows about the cells in which print or peer is better than ours beyond the spread."""
    rows = [["data", "model", "published", "hybridtrees", "peer", "worse than"]]
    for name, records in results.items():
        for model, record in records.items():
            ours, peer, published = record["ours"], record.get("peer"), record["published"]
            beaten = []
            if published is not None and worse_than(name, ours, published, peer):
                beaten.append("print")
            if peer is not None and worse_than(name, ours, peer["score"], peer):
                beaten.append("peer")
            if beaten:
                shown = "-" if published is None else f"{published:.6g}"
                cells = [score_text(ours), score_text(peer), " and ".join(beaten)]
                rows.append([name, model, shown, *cells])
    return rows


def compact_scores(results: Results) -> list[list[str]]:
    """One row a model, one column a data set: ours, in brackets print and peer."""
    ranks = mean_ranks(results)
    models = list(dict.fromkeys(model for records in results.values() for model in records))
    rows = [["model", *(f"{TITLES[name]}, {unit(name)}" for name in results), "mean rank"]]
    for model in models:
        cells = []
        for records in results.values():
            record = records.get(model)
            if record is None:
                cells.append("-")
                continue
            digits = 4 if record["ours"]["score"] < 1 else 2
            others = [record["published"], (record.get("peer") or {}).get("score")]
            texts = ["-" if score is None else f"{score:.{digits}f}" for score in others]
            cells.append(f"{record['ours']['score']:.{digits}f} ({', '.join(texts)})")
        rows.append([model, *cells, f"{ranks[model]:.1f}" if model in ranks else "-"])
    return rows


def compact_seconds(results: Results) -> list[list[str]]:
    """Sum of the fit seconds over all data sets, one row a model; a dash where a fit is missing."""
    found = [total_seconds(results, who) for who in ("ours", "published", "peer")]
    rows = [["fits of all data sets, seconds", "hybridtrees", "published", "peer on this machine"]]
    for model in found[0]:
        seconds = [totals[model] for totals in found]
        rows.append([model, *("-" if np.isnan(s) else f"{s:.1f}" for s in seconds)])
    rows.append(["all", *(f"{np.nansum(list(totals.values())):.1f}" for totals in found[:2]), "-"])
    return rows


def show(rows: list[list[str]], markdown: bool = False) -> None:
    """Print a table."""
    if not markdown:
        print_table(rows)
        return
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")
