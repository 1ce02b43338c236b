"""What a fitted model is good for outside: methods of every estimator, imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybridtrees.exchange.compiled import CompiledModel


class ModelExports:
    """Methods that hand a fitted model over to other programs."""

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
