"""Methods of every estimator that hand the fitted model to other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

# Each method imports its module when it is called, to keep `import hybridtrees` fast.
if TYPE_CHECKING:
    from hybridtrees.exchange.compiled import CompiledModel
    from hybridtrees.exchange.to_sql import SQLModel


class ModelExports:
    """Methods that hand a fitted model to other programs.

    All of them need a model that is a sum of trees, and raise a TypeError that says what cannot be
    expressed. Columns of categories become codes, positions in the list of known labels, and NaN
    stands for missing and unknown ones; in SQL, labels are themselves.
    """

    def compile(self, *, n_jobs: int | None = 1) -> CompiledModel:
        """Return the predictions of the model as a frozen, thread-safe object.

        It predicts arrays of numbers: no tables are read, no values checked. A row takes about a
        third of the time of `predict`, and a pickle a fraction of the model's.

        Parameters
        ----------
        n_jobs : int or None, default=1
            Number of threads for many rows; all usable CPUs for None.

        Returns
        -------
        compiled : CompiledModel
            With ``predict``, ``predict_proba`` and ``predict_raw``.
        """
        from hybridtrees.exchange.compiled import compile_model

        return compile_model(self, n_jobs)

    def to_c(self, path: Any = None, *, name: str = "model") -> str:
        """Write the model as one C99 file, which needs nothing but the C library.

        Parameters
        ----------
        path : path-like, optional
            File to write.
        name : str, default="model"
            Prefix of the functions: ``name_predict(const double *x, double *out)``, and
            ``name_scores`` for the scores before the link.

        Returns
        -------
        source : str
        """
        from hybridtrees.exchange.to_c import to_c

        return to_c(self, path, name=name)

    def to_onnx(
        self, path: Any = None, *, input_type: Literal["double", "float"] = "double"
    ) -> Any:
        """Write the model as an ONNX graph of standard operators; needs the package onnx.

        The input ``X`` is a matrix of numbers. The output of a regressor is ``prediction``, those
        of a classifier are ``label`` and ``probabilities``.

        Parameters
        ----------
        path : path-like, optional
            File to write.
        input_type : {"double", "float"}, default="double"
            Type of the input. Splits are compared in double precision in any case.

        Returns
        -------
        model : onnx.ModelProto
        """
        from hybridtrees.exchange.to_onnx import to_onnx

        return to_onnx(self, path, input_type=input_type)

    def to_sql(
        self,
        path: Any = None,
        *,
        table: str = "data",
        key: str | Sequence[str] = (),
        dialect: Literal["sqlite", "duckdb"] = "sqlite",
        layout: Literal["auto", "case", "nodes"] = "auto",
        name: str = "model",
    ) -> SQLModel:
        """Write the model as a query that predicts the rows of a table.

        Parameters
        ----------
        path : path-like, optional
            File to write.
        table : str, default="data"
            Name of the table, with a column for each feature (x0, x1, ... without names).
        key : str or sequence of str, optional
            Columns of the table that the result has too.
        dialect : {"sqlite", "duckdb"}, default="sqlite"
            The database.
        layout : {"auto", "case", "nodes"}, default="auto"
            Nested CASE expressions, or tables of nodes that are joined level by level; "auto" takes
            tables for more than 50 trees.
        name : str, default="model"
            Prefix of the names of the tables of nodes.

        Returns
        -------
        sql : SQLModel
            ``setup``, statements to run once (empty for CASE expressions), and ``query``, whose
            result has a column ``prediction``, several for several targets; of a classifier also
            ``probability_LABEL`` for each class.
        """
        from hybridtrees.exchange.to_sql import to_sql

        return to_sql(self, path, table=table, key=key, dialect=dialect, layout=layout, name=name)

    def to_xgboost_json(self, path: Any = None) -> str:
        """Write a model with constant leaves as a JSON file of XGBoost.

        XGBoost, and what reads its files (treelite, PMML converters, FIL), predict the same for
        float32 tables: thresholds are rounded so that every float32 takes the same side.

        Parameters
        ----------
        path : path-like, optional
            File to write, ending in ``.json``.

        Returns
        -------
        text : str
        """
        from hybridtrees.exchange.to_xgboost import to_xgboost_json

        return to_xgboost_json(self, path)

    def to_json(self, path: Any = None, *, indent: int | None = None) -> str:
        """Write the model as JSON for people and other programs: names, conditions, equations.

        Parameters
        ----------
        path : path-like, optional
            File to write.
        indent : int, optional
            Spaces by which a level is indented; everything in one line by default.

        Returns
        -------
        text : str
        """
        from hybridtrees.exchange.to_json import to_json

        return to_json(self, path, indent=indent)
