"""What the study prints: parameters, test scores and fit times of eight models on six data sets.

PLGB has no row, because the study could not run it.
"""

from __future__ import annotations

NONE, RIDGE, LASSO = ({"penalty": name} for name in (None, "ridge", "lasso"))


def net(share: float) -> dict:
    return {"penalty": "elasticnet", "l1_ratio": share}


def trees(n: int, depth: int, rate: float | None = None) -> dict:
    found = {"n_estimators": n, "max_depth": depth}
    return found if rate is None else {**found, "learning_rate": rate}


def rules(n: int, depth: int) -> dict:
    return {"n_rules": n, "max_depth": depth}


def depth(n: int, **others) -> dict:
    return {"max_depth": n, **others}


# Parameters, published score, published fit seconds.
Row = tuple[dict, float, float]
STUDY: dict[str, dict[str, Row]] = {
    "breast_cancer": {
        "LR": (RIDGE, 0.989583, 0.016),
        "DT": (depth(2), 0.936632, 0.008),
        "RF": (trees(15, 7), 0.974248, 0.057),
        "GB": (trees(150, 3, 0.2), 0.984954, 1.069),
        "XGB": (trees(50, 2, 0.2), 0.986111, 0.117),
        "LT": ({**RIDGE, **depth(3)}, 0.992477, 19.706),
        "RERF": ({**net(0.75), **trees(30, 2)}, 0.983218, 0.427),
        "EBLR": ({**RIDGE, **rules(5, 3)}, 0.989583, 0.132),
    },
    "car_insurance": {
        "LR": (RIDGE, 0.909042, 0.033),
        "DT": (depth(5), 0.918424, 0.026),
        "RF": (trees(35, 10), 0.917379, 0.222),
        "GB": (trees(200, 3, 0.1), 0.928684, 2.569),
        "XGB": (trees(50, 3, 0.2), 0.928836, 0.148),
        "LT": ({**RIDGE, **depth(1)}, 0.919935, 5.080),
        "RERF": ({**RIDGE, **trees(20, 7)}, 0.926861, 0.357),
        "EBLR": ({**LASSO, **rules(2, 3)}, 0.922546, 0.674),
    },
    "software_defect": {
        "LR": (NONE, 0.784288, 0.371),
        "DT": (depth(5), 0.785630, 0.400),
        "RF": (trees(40, 10), 0.792310, 5.303),
        "GB": (trees(200, 3, 0.1), 0.793792, 50.949),
        "XGB": (trees(150, 3, 0.1), 0.793811, 2.780),
        "LT": ({**NONE, **depth(7)}, 0.790434, 409.533),
        "RERF": ({**NONE, **trees(100, 10)}, 0.791301, 54.419),
        "EBLR": ({**NONE, **rules(2, 1)}, 0.784942, 1.218),
    },
    "electricity_transformer": {
        "LR": (NONE, 0.326412, 0.918),
        "DT": (depth(7), 0.341518, 2.901),
        "RF": (trees(15, 7), 0.335738, 30.260),
        "GB": (trees(125, 3, 0.05), 0.329036, 140.593),
        "XGB": (trees(100, 5, 0.05), 0.331699, 7.487),
        "LT": ({**RIDGE, **depth(1, max_bins=10)}, 0.326584, 198.546),
        "RERF": ({**NONE, **trees(10, 2)}, 0.326099, 0.946),
        "EBLR": ({**NONE, **rules(5, 3)}, 0.326476, 9.423),
    },
    "house_prices": {
        "LR": (net(0.25), 23.612379, 0.038),
        "DT": (depth(5), 36.711291, 0.026),
        "RF": (trees(10, 3), 37.926328, 0.121),
        "GB": (trees(250, 2, 0.1), 21.920467, 2.318),
        "XGB": (trees(400, 2, 0.01), 28.445485, 1.620),
        "LT": ({**LASSO, **depth(2)}, 25.867328, 20.901),
        "RERF": ({**net(0.25), **trees(20, 1)}, 22.976645, 0.066),
        "EBLR": ({**RIDGE, **rules(7, 1)}, 21.259820, 0.156),
    },
    "superconductivity": {
        "LR": (net(0.5), 20.058146, 1.357),
        "DT": (depth(7), 14.390164, 0.907),
        "RF": (trees(20, 7), 12.817136, 13.510),
        "GB": (trees(200, 4, 0.1), 10.728018, 118.479),
        "XGB": (trees(400, 4, 0.2), 9.734972, 19.390),
        "LT": ({**LASSO, **depth(2)}, 16.673536, 570.010),
        "RERF": ({**net(0.25), **trees(20, 25)}, 9.843302, 4.476),
        "EBLR": ({**LASSO, **rules(7, 1)}, 17.564503, 3.045),
    },
}
BINARY = ("breast_cancer", "car_insurance", "software_defect")
