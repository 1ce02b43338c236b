"""What an automatic model says about itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridtrees.auto.audition import Bag
from hybridtrees.auto.candidates import title_of
from hybridtrees.auto.finish import best_rounds
from hybridtrees.input.labels_text import aligned


def make_record(
    bags: list[Bag], shares: np.ndarray, losses: np.ndarray, loss: float, n_folds: int,
    classify: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the account of a fit, in numbers and texts that a model file can hold."""
    return {
        "names": [bag.candidate.name for bag in bags],
        "weights": [float(share) for share in shares],
        "losses": [float(one) for one in losses],
        "rounds": [best_rounds(bag.models) for bag in bags],
        "loss": loss,
        "n_folds": n_folds,
        "classify": classify,
        "cut": False,
    }


def check_record(record: dict[str, Any], name: str) -> None:
    """Refuse an account, read from a file perhaps, that `summary_text` cannot show."""
    columns = [record.get(key) for key in ("names", "weights", "losses", "rounds")]
    numbers = [record.get(key) for key in ("loss", "n_folds")]
    flags = [record.get(key) for key in ("classify", "cut")]
    if not (
        all(isinstance(one, list) and len(one) == len(columns[0] or []) for one in columns)
        and all(isinstance(one, str) for one in columns[0] or [None])
        and all(_is_number(one) for part in columns[1:] for one in part or [])
        and all(_is_number(one) for one in numbers)
        and all(isinstance(one, bool) for one in flags)
    ):
        raise ValueError(f"the account of the {name} is damaged")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def summary_text(name: str, record: dict[str, Any]) -> str:
    """Return the account as a table, the largest weight first."""

    def error(loss: float) -> str:
        return f"{loss if record['classify'] else math.sqrt(loss):.6g}"

    columns = [record[key] for key in ("names", "weights", "losses", "rounds")]
    lines = sorted(zip(*columns, strict=True), key=lambda line: -line[1])
    kind = "log-loss" if record["classify"] else "RMSE"
    table = [["model", "weight", kind, "rounds"]]
    table += [
        [title_of(n), f"{w:.3f}", error(one), "" if not r else f"{r:.0f}"] for n, w, one, r in lines
    ]
    table.append(["together", "1.000", error(record["loss"]), ""])
    text = [f"{name}: held-out {kind} over {record['n_folds']} folds", *aligned(table, {0})]
    if record["cut"]:
        text.append("The time limit cut the fit short: the model depends on the clock.")
    return "\n".join(text)
