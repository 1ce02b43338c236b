"""The command ``hybridtrees predict``, and checks of arguments that commands share."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from hybridtrees._outputs import STREAM, check_distinct, check_writable


def add_predict(commands: Any) -> None:
    """Add the sub-command ``predict``."""
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a file by a saved model",
        description="Predict the rows of a CSV or Parquet file by a model that was saved.",
    )
    predict.add_argument("model", help="file made by --save or by an estimator's save()")
    predict.add_argument(
        "file",
        help="CSV or Parquet file with the columns of the training data, a folder or pattern of "
        "Parquet files, which need not fit into memory; - is the standard input",
    )
    predict.add_argument(
        "-o",
        "--output",
        type=_table_file,
        metavar="FILE",
        help="file to write: CSV if it ends in .csv, Parquet if in .parquet or .pq (default: "
        "print CSV, as - does)",
    )
    predict.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns of the data file to write before the predictions, such as an id",
    )
    add_decimal(predict)
    predict.set_defaults(run=_run_predict, check=lambda given: _check_predict(predict, given))


def _table_file(text: str) -> str:
    """Check the file name of the predictions."""
    from hybridtrees._table_files import check_table_path

    if text != STREAM:
        try:
            check_table_path(text)
        except (ValueError, ImportError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _run_predict(options: argparse.Namespace) -> int:
    """Write the predictions of a saved model for the rows of a file."""
    import hybridtrees
    from hybridtrees._compare.files import predict_file
    from hybridtrees._table_files import appending

    printed = options.output in (None, STREAM)
    if not printed:
        check_writable(options.output)
    if not Path(options.model).exists():
        raise FileNotFoundError(f"no such file: {options.model}")
    model = hybridtrees.load(options.model)
    notes: dict[str, str] = {}
    how = {"keep": options.keep, "decimal": options.decimal}
    parts = predict_file(model, options.file, notes=notes, **how)
    first, n_rows = next(parts), 0  # errors in the file leave the output as it was
    for name, note in notes.items():
        print(f"hybridtrees: {name!r} {note}", file=sys.stderr)
    with appending(sys.stdout if printed else options.output) as append:
        for columns in chain([first], parts):
            append(columns)
            n_rows += len(next(iter(columns.values())))
    if not printed:
        print(f"{n_rows} predictions: {options.output}")
    return 0


def _check_predict(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse to overwrite an input file."""
    inputs = {"the model": options.model, "the data file": options.file}
    check_files(parser, inputs, {"--output": options.output or STREAM})


def add_decimal(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--decimal``."""
    parser.add_argument(
        "--decimal",
        choices=(".", ","),
        help="sign before the fractions of numbers in a CSV file (default: found out)",
    )


def check_files(
    parser: argparse.ArgumentParser, inputs: dict[str, str | None], outputs: dict[str, str | None]
) -> None:
    """Refuse outputs that would overwrite an input or each other."""
    try:
        check_distinct(inputs, outputs)
    except ValueError as error:
        parser.error(str(error))
