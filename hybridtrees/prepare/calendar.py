"""Dates of any library as datetime64, and the parts of a calendar."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees.input.arrays import is_missing_object, kinds_of_objects
from hybridtrees.input.texts import DATE

_DAY = 86_400_000_000  # microseconds
_OBJECTS = (datetime.date, datetime.time, np.datetime64)


def date_values(series: Any) -> np.ndarray | None:
    """Return a column that holds dates or times by its type as datetime64; None for others.

    Dates with a time zone become what the clock there shows. Times of day become those of the
    first day of 1970.
    """
    library = type(series).__module__.partition(".")[0]
    if library == "pandas":
        return _from_pandas(series)
    if library == "polars":
        return _from_polars(series)
    if library == "pyarrow":
        return _from_arrow(series)
    return _from_numpy(series)


def _from_numpy(values: np.ndarray) -> np.ndarray | None:
    if values.dtype.kind == "M":
        return values.astype(DATE)
    if values.dtype != object:
        return None
    kinds = kinds_of_objects(values)
    if not kinds or not all(issubclass(kind, _OBJECTS) for kind in kinds):
        return None
    return np.array([_plain_date(value) for value in values.tolist()], dtype=DATE)


def _plain_date(value: Any) -> Any:
    """Return a Python object as NumPy takes it."""
    if is_missing_object(value):
        return None
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _from_pandas(series: Any) -> np.ndarray | None:
    kind = type(series.dtype).__name__
    if kind == "DatetimeTZDtype":
        series = series.dt.tz_localize(None)
    elif kind == "PeriodDtype":
        series = series.dt.to_timestamp()
    elif kind == "ArrowDtype":
        return _from_arrow(sys.modules["pyarrow"].array(series.array))
    return _from_numpy(series.to_numpy()) if isinstance(series.dtype, np.dtype) else None


def _from_polars(series: Any) -> np.ndarray | None:
    polars, kind = sys.modules["polars"], series.dtype
    if kind == polars.Time:
        series = (series.cast(polars.Int64) // 1000).cast(polars.Datetime("us"))
    elif kind == polars.Datetime:
        series = series.dt.replace_time_zone(None).cast(polars.Datetime("us"))
    elif kind != polars.Date:
        return None
    return _from_numpy(series.cast(polars.Datetime("us")).to_numpy())


def _from_arrow(array: Any) -> np.ndarray | None:
    import pyarrow as pa
    import pyarrow.compute as compute

    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = compute.local_timestamp(array)
    elif pa.types.is_time(kind):
        array = array.cast(pa.time64("us"), safe=False).cast(pa.int64())
    elif not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
        return None
    array = array.cast(pa.timestamp("us"), safe=False)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(DATE)


def _month(dates: np.ndarray) -> np.ndarray:
    return dates.astype("datetime64[M]").astype(np.int64) % 12 + 1


def _days_since(unit: str) -> Callable[[np.ndarray], np.ndarray]:
    """Days since the start of a month or year, from 1."""
    return lambda dates: (
        (
            dates.astype("datetime64[D]")
            - dates.astype(f"datetime64[{unit}]").astype("datetime64[D]")
        ).astype(np.int64)
        + 1
    )


def _within_day(microseconds: int, modulus: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda dates: dates.astype(np.int64) // microseconds % modulus


# From the name of a part to its function, and its period if it repeats.
PARTS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float | None]] = {
    "year": (lambda dates: dates.astype("datetime64[Y]").astype(np.int64) + 1970, None),
    "month": (_month, 12),
    "day": (_days_since("M"), 365.25 / 12),
    # From 0 on Monday; the first day of 1970 was a Thursday.
    "weekday": (lambda dates: (dates.astype(np.int64) // _DAY + 3) % 7, 7),
    "day_of_year": (_days_since("Y"), 365.25),
    "hour": (_within_day(3_600_000_000, 24), 24),
    "minute": (_within_day(60_000_000, 60), 60),
    "second": (_within_day(1_000_000, 60), 60),
}


def calendar_part(dates: np.ndarray, part: str) -> np.ndarray:
    """Return a part of dates as numbers, NaN where they are missing."""
    known = ~np.isnat(dates)
    values = np.full(len(dates), np.nan)
    values[known] = PARTS[part][0](dates[known].astype(DATE))
    return values


def elapsed_days(dates: np.ndarray, origin: int) -> np.ndarray:
    """Return days, with their fractions, since a date in microseconds of 1970."""
    known = ~np.isnat(dates)
    values = np.full(len(dates), np.nan)
    values[known] = (dates[known].astype(np.int64) - origin) / _DAY
    return values
