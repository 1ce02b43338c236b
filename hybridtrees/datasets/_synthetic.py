"""Seeded generators of synthetic data."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from hybridtrees._parameters import check_integer, check_real
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.datasets._dataset import Dataset

HOUSE_PRICES = """\
Synthetic houses whose prices follow a known formula.

living_area, lot_area and basement_area are square metres; lot_frontage is metres of street;
quality goes from 1 to 10; year_built and year_sold are years; garage_year is the year the garage
was built; distance is kilometres to the centre. neighbourhood, style and heating are categories,
alley is the surface of a back alley.

Missing values mean three different things, as in real tables: garage_year and alley are missing
where there is no garage and no alley (which lowers the price), lot_frontage is missing at random
for 15 % of the houses, basement_area for 3 %.

Target: the price in thousands. Its logarithm is additive in the logarithms of the areas, in
quality, age and neighbourhood, with three interactions (quality with living area, distance with
lot area, age with renovation heating) and 8 % log-normal noise.
"""

SEASONAL_SERIES = """\
A synthetic time series as a table for one-step forecasts.

The series is a linear trend, plus a season of fixed shape (two harmonics), plus autoregressive
noise. Each row describes one time step by the time itself, the position within
the season, and earlier values; the target is the value at that time. Rows are in order of time:
split them in order, too. Trees alone cannot follow the trend beyond the training range, which is
what models with linear parts are for.
"""

NEIGHBOURHOODS = (
    "harbour", "old_town", "university", "west_end", "station", "riverside",
    "north_hill", "south_hill", "meadows", "industrial", "new_estate", "village",
)  # fmt: skip
NEIGHBOURHOOD_EFFECT = np.array(
    [0.30, 0.22, 0.12, 0.18, -0.05, 0.10, 0.02, 0.08, -0.02, -0.30, -0.10, -0.18]
)
NEIGHBOURHOOD_SHARE = np.array([2, 8, 6, 9, 7, 8, 12, 14, 15, 4, 10, 5]) / 100
STYLES = ("apartment", "bungalow", "terraced", "semi_detached", "detached")
STYLE_SHARE = np.array([0.15, 0.10, 0.25, 0.25, 0.25])
STYLE_EFFECT = np.array([-0.10, 0.02, -0.06, 0.0, 0.09])
HEATINGS = ("coal", "oil", "gas", "heat_pump")
ALLEYS = ("gravel", "paved")


def _levels(
    rng: np.random.Generator, levels: tuple[str, ...], share: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw category codes, and return them with their labels."""
    codes = rng.choice(len(levels), size=n, p=share)
    return codes, np.array(levels, dtype=object)[codes]


def _draw_houses(rng: np.random.Generator, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draw the columns without missing values, and the log-price without noise."""
    place, neighbourhood = _levels(rng, NEIGHBOURHOODS, NEIGHBOURHOOD_SHARE, n)
    kind, style = _levels(rng, STYLES, STYLE_SHARE, n)
    living = np.round(rng.lognormal(4.75 + 0.1 * (kind == 4), 0.32), 1)
    lot = np.round(living * rng.lognormal(1.2 - 0.9 * (kind == 0), 0.45), 0)
    sold = rng.integers(2015, 2025, n)
    built = sold - np.minimum(rng.gamma(2.0, 20.0, n), 140).astype(np.int64)
    age = sold - built
    warmth = np.clip(np.digitize(age + rng.normal(0, 15, n), [5, 35, 80]), 0, 3)
    heating = np.array(HEATINGS[::-1], dtype=object)[warmth]
    quality = np.clip(np.round(rng.normal(6.2 - age / 60, 1.3)), 1, 10)
    distance = np.round(rng.gamma(2.0, 3.0 + 2.0 * (NEIGHBOURHOOD_EFFECT[place] < 0)), 2)
    garage = rng.choice(4, size=n, p=[0.20, 0.35, 0.38, 0.07])
    basement = np.round(np.where(kind == 0, 0.0, living * rng.uniform(0.2, 0.7, n)), 1)
    alley_kind = rng.choice(3, size=n, p=[0.90, 0.06, 0.04])
    log_price = (
        5.3
        + 0.75 * (np.log(living) - 4.75)
        + 0.10 * (quality - 6.0)
        + 0.04 * (quality - 6.0) * (np.log(living) - 4.75)
        - 0.004 * np.minimum(age, 60)
        + 0.06 * ((age > 60) & (heating == "heat_pump"))
        + NEIGHBOURHOOD_EFFECT[place]
        + STYLE_EFFECT[kind]
        + 0.05 * np.sqrt(garage)
        + 0.10 * (np.log(lot) - 5.9) * (distance > 8)
        - 0.012 * np.minimum(distance, 20)
        + 0.0006 * basement
        + 0.02 * (sold - 2015)
        + 0.03 * (alley_kind == 2)
    )
    columns = {
        "living_area": living,
        "lot_area": lot,
        "lot_frontage": np.round(np.sqrt(lot) * rng.uniform(0.5, 1.3, n), 1),
        "basement_area": basement,
        "rooms": np.clip(np.round(living / 25 + rng.normal(0, 0.8, n)), 1, 15),
        "quality": quality,
        "year_built": built.astype(np.float64),
        "year_sold": sold.astype(np.float64),
        "garage_cars": garage.astype(np.float64),
        "garage_year": (built + rng.integers(0, 1 + age // 2)).astype(np.float64),
        "distance": distance,
        "neighbourhood": neighbourhood,
        "style": style,
        "heating": heating,
        "alley": np.array([None, *ALLEYS], dtype=object)[alley_kind],
    }
    return columns, log_price


def make_house_prices(
    n: int = 1500, random_state: Any = None, *, as_frame: bool = False
) -> Dataset:
    """Generate houses with prices, categories and missing values.

    Parameters
    ----------
    n : int, default=1500
        Number of houses.
    random_state : None, int, SeedSequence, RandomState or Generator, default=None
        Seed of the draw; an int gives the same houses every time.
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of a dict of NumPy arrays.

    Returns
    -------
    Dataset
        15 features, of which 4 are categories; the target is the price in thousands. Without
        `as_frame`, `data` is a dict from column name to array. Every estimator of hybridtrees
        takes it as it is; for other libraries, `to_array` makes a matrix of numbers and
        `categorical_features` tells which of its columns are categories.

    Examples
    --------
    >>> from hybridtrees.datasets import make_house_prices
    >>> houses = make_house_prices(500, random_state=0)
    >>> houses
    Dataset(task='regression', n_samples=500, n_features=15, target_name='price')
    >>> houses.to_array().shape
    (500, 15)

    The dict of columns goes into a model as it is:

    >>> from hybridtrees import XGBRegressor
    >>> model = XGBRegressor(n_estimators=20, random_state=0).fit(houses.data, houses.target)
    >>> model.predict(houses.data).shape
    (500,)
    """
    n = check_integer("n", n, 1)
    rng = np.random.default_rng(seed_sequence(random_state))
    columns, log_price = _draw_houses(rng, n)
    price = np.round(np.exp(log_price + rng.normal(0, 0.08, n)), 1)
    columns["garage_year"][columns["garage_cars"] == 0] = np.nan
    columns["lot_frontage"][rng.random(n) < 0.15] = np.nan
    columns["basement_area"][rng.random(n) < 0.03] = np.nan
    dataset = Dataset(
        data=columns,
        target=price,
        feature_names=tuple(columns),
        target_name="price",
        task="regression",
        description=HOUSE_PRICES,
        categories={
            "neighbourhood": NEIGHBOURHOODS,
            "style": STYLES,
            "heating": HEATINGS,
            "alley": ALLEYS,
        },
    )
    return dataset.to_frame() if as_frame else dataset


def make_seasonal_series(
    n: int = 2000,
    random_state: Any = None,
    *,
    period: int = 24,
    trend: float = 0.01,
    amplitude: float = 5.0,
    noise: float = 1.0,
    n_lags: int = 3,
    as_frame: bool = False,
) -> Dataset:
    """Generate a series with trend and season as a table for one-step forecasts.

    The value at time t is ``20 + trend * t + amplitude * season(t) + u(t)``, where ``season`` has
    the given period and two harmonics, and ``u(t) = 0.6 u(t - 1) + noise * e(t)`` with standard
    normal ``e``.

    Parameters
    ----------
    n : int, default=2000
        Number of rows. The lags come from earlier steps, so no row has missing values.
    random_state : None, int, SeedSequence, RandomState or Generator, default=None
        Seed of the noise.
    period : int, default=24
        Number of steps in a season.
    trend : float, default=0.01
        Increase per step.
    amplitude : float, default=5.0
        Amplitude of the season.
    noise : float, default=1.0
        Standard deviation of the innovations, 0 or greater.
    n_lags : int, default=3
        Number of preceding values that are features, beside the value one season ago.
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of NumPy arrays.

    Returns
    -------
    Dataset
        Features ``time``, ``phase`` (position within the season), ``lag_1`` ... ``lag_<n_lags>``
        and ``lag_season``; rows in order of time.

    Examples
    --------
    >>> from hybridtrees.datasets import make_seasonal_series
    >>> series = make_seasonal_series(300, random_state=0)
    >>> series.feature_names
    ('time', 'phase', 'lag_1', 'lag_2', 'lag_3', 'lag_season')
    """
    n, period = check_integer("n", n, 1), check_integer("period", period, 1)
    n_lags = check_integer("n_lags", n_lags, 1)
    trend, amplitude = check_real("trend", trend), check_real("amplitude", amplitude)
    noise = check_real("noise", noise, 0)
    rng = np.random.default_rng(seed_sequence(random_state))
    before = max(n_lags, period)
    time = np.arange(-before, n)
    angle = 2 * np.pi * time / period
    wander = noise * rng.standard_normal(before + n)
    for t in range(1, before + n):
        wander[t] += 0.6 * wander[t - 1]
    season = 0.8 * np.sin(angle) + 0.4 * np.cos(2 * angle)
    value = 20.0 + trend * time + amplitude * season + wander
    columns = {"time": time[before:].astype(np.float64), "phase": time[before:] % period}
    for lag in range(1, n_lags + 1):
        columns[f"lag_{lag}"] = value[before - lag : before - lag + n]
    columns["lag_season"] = value[before - period : before - period + n]
    dataset = Dataset(
        data=np.column_stack(list(columns.values())).astype(np.float64),
        target=value[before:].copy(),
        feature_names=tuple(columns),
        target_name="value",
        task="regression",
        description=SEASONAL_SERIES,
    )
    return dataset.to_frame() if as_frame else dataset


@overload
def load_house_prices(*, as_frame: bool = ..., return_X_y: Literal[False] = ...) -> Dataset: ...
@overload
def load_house_prices(*, as_frame: bool = ..., return_X_y: Literal[True]) -> tuple[Any, Any]: ...
def load_house_prices(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Return 1500 synthetic houses: `make_house_prices` with the seed 0.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of a dict of NumPy arrays.
    return_X_y : bool, default=False
        Return the pair ``(data, target)`` instead of a `Dataset`.

    Returns
    -------
    Dataset, or (data, target)
        15 features, of which 4 are categories; the target is the price in thousands.

    Examples
    --------
    >>> from hybridtrees.datasets import load_house_prices
    >>> load_house_prices()
    Dataset(task='regression', n_samples=1500, n_features=15, target_name='price')
    """
    return make_house_prices(1500, random_state=0)._present(as_frame, return_X_y)


@overload
def load_seasonal_series(*, as_frame: bool = ..., return_X_y: Literal[False] = ...) -> Dataset: ...
@overload
def load_seasonal_series(*, as_frame: bool = ..., return_X_y: Literal[True]) -> tuple[Any, Any]: ...
def load_seasonal_series(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Return 1500 steps of a synthetic series: `make_seasonal_series` with the seed 0.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a pandas DataFrame and Series instead of NumPy arrays.
    return_X_y : bool, default=False
        Return the pair ``(data, target)`` instead of a `Dataset`.

    Returns
    -------
    Dataset, or (data, target)
        6 features; rows in order of time.

    Examples
    --------
    >>> from hybridtrees.datasets import load_seasonal_series
    >>> load_seasonal_series()
    Dataset(task='regression', n_samples=1500, n_features=6, target_name='value')
    """
    return make_seasonal_series(1500, random_state=0)._present(as_frame, return_X_y)
