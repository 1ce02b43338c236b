"""Rows of Parquet files and of datasets of pyarrow; which files a source names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any

from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.base.workers import start_workers
from hybridtrees.input._user_tables import ArrowColumns
from hybridtrees.input.batches_csv import CsvPieces
from hybridtrees.input.batches_pieces import Piece, Pieces
from hybridtrees.input.texts import PARQUET, is_parquet, some_of

# Row groups that are read at the same time, and the bytes that they may hold together. Larger
# ones are read in parts.
_READERS = 4
_AHEAD_BYTES = 1 << 28
_PART_ROWS = 65_536

_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


def open_files(paths: Iterable[Any], text: Collection[str]) -> Pieces:
    """Open files given by paths, patterns or folders; `text` names columns that stay text."""
    files = [file for path in paths for file in _files_of(path)]
    kinds = {_is_parquet(file) for file in files}
    if len(kinds) > 1:
        raise ValueError("source must be Parquet files or CSV files, got files of both kinds")
    if not kinds.pop():
        return CsvPieces(files, text)
    return ParquetPieces(files)


def _files_of(path: Any) -> list[Path]:
    """Return the files of one path, pattern or folder, in the order of their names."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"source must list paths only, got {path!r}")
    name = str(path)
    if "://" in name:
        raise ValueError(
            f"source must be a path on this machine, got {name!r}: pass "
            "pyarrow.dataset.dataset(...) for files elsewhere"
        )
    found = Path(name)
    if found.is_dir():
        return _files_in(found)
    if not found.exists() and has_magic(name):
        files = [Path(file) for file in sorted(glob(name, recursive=True))]
        files = [file for file in files if file.is_file()]
        if not files:
            raise FileNotFoundError(f"source: no file matches {name!r}")
        return files
    if not found.is_file():
        raise FileNotFoundError(f"source: no such file: {name}")
    return [found]


def _files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and the folders in it."""
    files = []
    for file in sorted(folder.rglob("*")):
        own = file.relative_to(folder).parts
        if any(part.startswith((".", "_")) for part in own):
            continue
        if any("=" in part for part in own[:-1]):
            raise ValueError(
                f"source: the folders in {folder} hold values, as in {own[0]!r}: pass "
                f'pyarrow.dataset.dataset("{folder}", partitioning="hive")'
            )
        if file.is_file() and file.name.lower().endswith(PARQUET + _CSV):
            files.append(file)
    if not files:
        raise FileNotFoundError(f"source: the folder {folder} holds no Parquet or CSV files")
    return files


def _is_parquet(path: Path) -> bool:
    if is_parquet(path.name):
        return True
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


@dataclass
class _Group:
    """A row group of a file."""

    path: Path
    metadata: Any
    index: int

    def n_bytes(self, n_columns: int) -> int:
        """Return an estimate of the memory that the group takes."""
        group = self.metadata.row_group(self.index)
        return max(int(group.total_byte_size), 8 * int(group.num_rows) * n_columns)


class ParquetPieces(Pieces):
    """Parquet files of the same columns; several row groups are read at a time."""

    def __init__(self, paths: list[Path]) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise ImportError(
                f"reading {paths[0]} in batches needs pyarrow: pip install pyarrow"
            ) from None
        self._groups: list[_Group] = []
        schemas: list[Any] = []
        self.n_rows = 0
        for path in paths:
            with _reading(path):
                file = parquet.ParquetFile(path)
                metadata, schema = file.metadata, file.schema_arrow
                file.close()
            if schemas and set(schema.names) != set(schemas[0].names):
                raise ValueError(
                    f"source: {path} has the columns {some_of(schema.names)}, but {paths[0]} has "
                    f"{some_of(schemas[0].names)}"
                )
            if len(set(schema.names)) < len(schema.names):
                raise ValueError(f"source: {path} names several columns alike")
            schemas.append(schema.remove_metadata())
            self.n_rows += metadata.num_rows
            self._groups += [
                _Group(path, metadata, g)
                for g in range(metadata.num_row_groups)
                if metadata.row_group(g).num_rows
            ]
        with _reading(paths[0]):
            self._schema = _common_schema(schemas)
        self.names = list(self._schema.names)
        self.n_columns = len(self.names)
        if not self.n_columns:
            raise ValueError(f"source: {paths[0]} has no columns")
        if not self.n_rows:
            raise ValueError("source holds no rows")

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield row groups, or parts of large ones."""
        schema = self._schema
        if columns is not None:
            import pyarrow

            schema = pyarrow.schema([schema.field(j) for j in columns])
        jobs: list[tuple[int, Callable[[], Any], bool]] = []
        for group in self._groups:
            n_bytes = group.n_bytes(len(schema))
            if n_bytes > _AHEAD_BYTES:
                jobs.append((0, partial(_parts_of, group, schema), False))
            else:
                jobs.append((n_bytes, partial(_read_group, group, schema), True))
        for tables in _read_ahead(jobs):
            for table in tables:
                if table.num_rows:
                    yield Piece(ArrowColumns(table))


def _common_schema(schemas: list[Any]) -> Any:
    """Return the schema of the first file, with types that hold the values of all files."""
    import pyarrow

    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    return pyarrow.unify_schemas(schemas, promote_options="permissive")


def _read_group(group: _Group, schema: Any) -> list[Any]:
    """Read a row group."""
    import pyarrow.parquet as parquet

    with _reading(group.path):
        with parquet.ParquetFile(group.path, metadata=group.metadata, pre_buffer=True) as file:
            table = file.read_row_group(group.index, columns=schema.names, use_threads=False)
        return [table.select(schema.names).cast(schema)]


def _parts_of(group: _Group, schema: Any) -> Iterator[Any]:
    """Read a row group in parts."""
    import pyarrow
    import pyarrow.parquet as parquet

    with _reading(group.path), parquet.ParquetFile(group.path, metadata=group.metadata) as file:
        for batch in file.iter_batches(_PART_ROWS, [group.index], schema.names):
            table = pyarrow.Table.from_batches([batch])
            yield table.select(schema.names).cast(schema)


def _read_ahead(jobs: list[tuple[int, Callable[[], Any], bool]]) -> Iterator[Any]:
    """Run jobs (bytes, function, whether in a thread) some at a time; yield results in order."""
    pool, n_readers = start_workers(min(_READERS, effective_threads(None), len(jobs)))
    waiting: deque[tuple[int, Any]] = deque()
    held = 0
    try:
        for n_bytes, job, aside in jobs:
            while waiting and (len(waiting) > n_readers or held + n_bytes > _AHEAD_BYTES):
                first = waiting.popleft()
                held -= first[0]
                yield first[1]()
            run = pool.submit(job).result if pool is not None and aside else job
            waiting.append((n_bytes, run))
            held += n_bytes
        while waiting:
            yield waiting.popleft()[1]()
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in errors of pyarrow."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        kind = OSError if isinstance(error, OSError) else ValueError
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise kind(f"source: {path} cannot be read as Parquet: {first}") from error


class DatasetPieces(Pieces):
    """A dataset of pyarrow."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.names = list(dataset.schema.names)
        self.n_columns = len(self.names)
        self.n_rows = int(dataset.count_rows())
        if not self.n_rows:
            raise ValueError("source holds no rows")

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield the batches that pyarrow reads, in the order of the rows."""
        import pyarrow

        assert self.names is not None
        names = None if columns is None else [self.names[j] for j in columns]
        # Few batches ahead, whatever their size: by default these are gigabytes.
        for batch in self._dataset.to_batches(
            columns=names, batch_size=_PART_ROWS, batch_readahead=_READERS, fragment_readahead=1
        ):
            if batch.num_rows:
                yield Piece(ArrowColumns(pyarrow.Table.from_batches([batch])))
