"""Models as SQL: nested CASE expressions, or tables of nodes that are joined level by level."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.additive import AdditiveForm, Column, additive_form
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.exchange.sql_parts import (
    cell,
    clipped,
    identifier,
    literal,
    n_trees,
    number,
    ranged,
    scalar_trees,
    sum_of,
    table_rows,
    used_columns,
)
from hybridtrees.exchange.writing import write_text

# More trees than this become tables under layout="auto".
_MANY_TREES = 50
_ROWS = 200  # of an INSERT
# Levels of nested CASE expressions; deeper trees list the path to each leaf. The parser of SQLite
# has a stack of 100.
_NESTED = 15

Dialect = Literal["sqlite", "duckdb"]
Layout = Literal["auto", "case", "nodes"]


@dataclass(frozen=True)
class SQLModel:
    """A model as SQL; as text, both parts one after the other.

    Attributes
    ----------
    setup : str
        Statements that make the tables of nodes, to be run once; empty for CASE expressions.
    query : str
        A SELECT statement: a row of predictions for each row of the table.
    """

    setup: str
    query: str

    def __str__(self) -> str:
        return f"{self.setup}{self.query};\n"


def to_sql(
    estimator: Any,
    path: Any = None,
    *,
    table: str = "data",
    key: str | Sequence[str] = (),
    dialect: Dialect = "sqlite",
    layout: Layout = "auto",
    name: str = "model",
) -> SQLModel:
    """Write a fitted model as a query: see the method ``to_sql`` of estimators."""
    check_option("dialect", dialect, ("sqlite", "duckdb"))
    check_option("layout", layout, ("auto", "case", "nodes"))
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be made of letters, digits and underscores, got {name!r}")
    if not isinstance(table, str) or not table:
        raise ValueError(f"table must be the name of a table, got {table!r}")
    keys = [key] if isinstance(key, str) else list(key)
    if not all(isinstance(one, str) for one in keys):
        raise ValueError(f"key must be the name of a column, or several, got {key!r}")
    form = additive_form(estimator)
    if layout == "auto":
        layout = "case" if sum(map(n_trees, form.all_forms())) <= _MANY_TREES else "nodes"
    single = form.classes is None and form.n_scores == 1
    made = _Writer(form, table, keys, dialect, layout, name).model(single)
    write_text(path, str(made))
    return made


class _Writer:
    """Writes a form and those within it, innermost first; each adds columns to the rows."""

    def __init__(
        self,
        form: AdditiveForm,
        table: str,
        keys: Sequence[str],
        dialect: str,
        layout: str,
        name: str,
    ) -> None:
        self.form = form
        self.table = table
        self.keys = keys
        self.duckdb = dialect == "duckdb"
        self.nodes = layout == "nodes"
        self.name = name
        self.forms = list(form.all_forms())
        self.number = {id(each): k for k, each in enumerate(self.forms)}
        self.steps: list[tuple[str, str]] = []  # name and SELECT of each common table expression
        self.last = "rows_"  # the last step that has all rows with all that is known of them
        self.setup: list[str] = []

    def _add_columns(self, text: str) -> None:
        """Add a step with further columns of the rows."""
        self.last = f"step{len(self.steps)}_"
        self.steps.append((self.last, text))

    def model(self, single: bool) -> SQLModel:
        """Return the whole model."""
        self.steps.append(("rows_", self._rows()))
        for form in reversed(self.forms):
            self._add_form(form)
        outputs = self._outputs(single)
        keys = [identifier(one) for one in self.keys]
        selected = ",\n  ".join([*keys, *outputs])
        steps = ",\n".join(f"{name} AS MATERIALIZED (\n{text}\n)" for name, text in self.steps)
        query = f"WITH {steps}\nSELECT\n  {selected}\nFROM {self.last}\nORDER BY row_"
        return SQLModel("".join(self.setup), query)

    # -- rows -----------------------------------------------------------------------------------

    def _rows(self) -> str:
        """Return the SELECT of what the trees read, column by column."""
        lines = ["row_number() OVER () AS row_", *(identifier(one) for one in self.keys)]
        for form in self.forms:
            k = self.number[id(form)]
            used = used_columns(form.trees)
            for j, column in enumerate(form.columns):
                if j in used:
                    lines.append(f"{self._column(column)} AS c{k}_{j}")
        return "SELECT\n  " + ",\n  ".join(lines) + f"\nFROM {identifier(self.table)}"

    def _column(self, column: Column) -> str:
        reader = self.form.reader
        names, labels = reader.feature_names_in, reader.categories[column.feature]
        source = identifier(f"x{column.feature}" if names is None else str(names[column.feature]))
        if labels is None:
            cast = f"CAST({source} AS {'DOUBLE' if self.duckdb else 'REAL'})"
            if self.duckdb:
                cast = f"CASE WHEN isnan({cast}) THEN NULL ELSE {cast} END"
            if column.kind == "missing":
                return f"CASE WHEN {cast} IS NULL THEN 1.0 ELSE 0.0 END"
            return cast
        quoted = [literal(label) for label in labels]
        known = f"{source} IN ({', '.join(quoted)})" if quoted else "0 = 1"
        if column.kind == "missing":
            return f"CASE WHEN {known} THEN 0.0 ELSE 1.0 END"
        if column.kind == "indicator":
            return f"CASE WHEN {source} = {quoted[column.code]} THEN 1.0 WHEN {known} THEN 0.0 END"
        values = [float(code) for code in range(len(quoted))]
        rest = math.nan
        if column.table is not None:
            rest, values = float(column.table[0]), column.table[1:].tolist()
            quoted = quoted[: len(values)]
        cases = " ".join(
            f"WHEN {label} THEN {number(value)}"
            for label, value in zip(quoted, values, strict=False)
        )
        if not cases:
            return number(rest)
        return f"CASE {source} {cases} ELSE {number(rest)} END"

    # -- scores and predictions -----------------------------------------------------------------

    def _add_form(self, form: AdditiveForm) -> None:
        """Add the steps that compute the scores of a form, and its predictions."""
        k = self.number[id(form)]
        sums: list[list[str]] = [[number(value)] for value in form.base]
        joined = ""
        if form.trees is not None and self.nodes:
            self._add_tables(form.trees, k)
            joined = f"\nJOIN sums{k}_ USING (row_)"
            for output, terms in enumerate(sums):
                terms.append(f"sums{k}_.t{output}")
        elif form.trees is not None:
            for tree, only in scalar_trees(form.trees):
                for o, terms in enumerate(sums):
                    if only in (None, o):
                        terms.append(self._case(tree, k, o if only is None else 0))
        for weight, inner in form.inner:
            i, n = self.number[id(inner)], inner.n_predictions
            skip = 1 if n == 2 and form.n_scores == 1 else 0
            for o, terms in enumerate(sums):
                terms.append(f"{number(weight)} * p{i}_{o + skip}")
        scores = ",\n  ".join(f"{sum_of(terms)} AS s{k}_{o}" for o, terms in enumerate(sums))
        self._add_columns(f"SELECT {self.last}.*,\n  {scores}\nFROM {self.last}{joined}")
        self._add_link(form, k)

    def _add_link(self, form: AdditiveForm, k: int) -> None:
        """Add the steps from scores to predictions."""
        kind, n = form.link.kind, form.n_scores
        scores = [f"s{k}_{o}" for o in range(n)]
        if form.link.scale != 1.0:
            scores = [f"{number(form.link.scale)} * {score}" for score in scores]
        if kind == "softmax":
            largest = scores[0] if n == 1 else f"{self._largest()}({', '.join(scores)})"
            parts = ", ".join(f"exp({s} - {largest}) AS e{k}_{o}" for o, s in enumerate(scores))
            self._add_columns(f"SELECT *, {parts}\nFROM {self.last}")
            total = " + ".join(f"e{k}_{o}" for o in range(n))
            made = [f"e{k}_{o} / ({total})" for o in range(n)]
        elif kind == "sorted":
            made = self._sorted(form, scores, k)
        else:
            most, least = self._largest(), "least" if self.duckdb else "min"
            each = {
                "identity": "{}",
                "exp": f"exp({least}({{}}, 709.0e0))",
                "logistic": "1.0e0 / (1.0e0 + exp(-({})))",
                "side": "CASE WHEN {} > 0 THEN 1.0e0 ELSE 0.0e0 END",
                "shares": f"{most}(0.0e0, {least}(1.0e0, {{}}))",
            }[kind]
            made = [each.format(score) for score in scores]
            if kind == "logistic":
                # exp of a large number is an error in some databases.
                made = [
                    f"CASE WHEN {s} < -700 THEN 0.0e0 ELSE {one} END"
                    for s, one in zip(scores, made, strict=True)
                ]
            if kind == "shares" and n > 1:
                total = " + ".join(made)
                made = [f"({one}) / ({total})" for one in made]
        if form.n_predictions > n:
            made = [f"1.0e0 - ({made[0]})", made[0]]
        parts = ", ".join(f"{text} AS p{k}_{o}" for o, text in enumerate(made))
        self._add_columns(f"SELECT *, {parts}\nFROM {self.last}")

    def _sorted(self, form: AdditiveForm, scores: Sequence[str], k: int) -> list[str]:
        """Sort scores by a network of steps (bubble sort): each orders two neighbours."""
        most, least = self._largest(), "least" if self.duckdb else "min"
        order = np.argsort(form.link.levels, kind="stable")
        named = [scores[o] for o in order]
        n, step = len(named), 0
        for last in range(n - 1, 0, -1):
            for at in range(last):
                a, b, step = named[at], named[at + 1], step + 1
                named[at], named[at + 1] = f"l{k}_{step}", f"h{k}_{step}"
                self._add_columns(
                    f"SELECT *, {least}({a}, {b}) AS {named[at]}, {most}({a}, {b}) AS "
                    f"{named[at + 1]}\nFROM {self.last}"
                )
        return [named[place] for place in np.argsort(order)]

    def _largest(self) -> str:
        return "greatest" if self.duckdb else "max"

    def _outputs(self, single: bool) -> list[str]:
        form = self.form
        found = [f"p0_{o}" for o in range(form.n_predictions)]
        if form.classes is None:
            if single:
                return [f"{found[0]} AS prediction"]
            return [f"{one} AS prediction_{o}" for o, one in enumerate(found)]
        labels = [literal(label) for label in form.classes]
        best = [
            f"WHEN {' AND '.join(f'{one} >= {other}' for other in found[o + 1 :])} THEN {labels[o]}"
            for o, one in enumerate(found[:-1])
        ]
        choice = f"CASE {' '.join(best)} ELSE {labels[-1]} END" if best else labels[-1]
        proba = [
            f"{one} AS {identifier(f'probability_{label}')}"
            for one, label in zip(found, form.classes, strict=True)
        ]
        return [f"{choice} AS prediction", *proba]

    # -- trees as CASE expressions --------------------------------------------------------------

    def _case(self, tree: Tree, k: int, output: int) -> str:
        """Return the value of a tree, children before their parents."""
        if tree.depth > _NESTED:
            return self._paths(tree, k, output)
        nodes, texts = tree.nodes, [""] * tree.n_nodes
        for node in range(tree.n_nodes - 1, -1, -1):
            own = self._value(tree, node, k, output)
            if nodes["left"][node] < 0:
                texts[node] = own
                continue
            left, right = (texts[nodes[side][node]] for side in ("left", "right"))
            texts[nodes["left"][node]] = texts[nodes["right"][node]] = ""
            x = f"c{k}_{nodes['feature'][node]}"
            stops = nodes["missing_left"][node] == Limit.MISSING_STAYS
            stop = f"WHEN {x} IS NULL THEN {own} " if stops else ""
            texts[node] = (
                f"CASE {stop}WHEN {self._test(tree, node, x)} THEN {left} ELSE {right} END"
            )
        return texts[0]

    def _paths(self, tree: Tree, k: int, output: int) -> str:
        """Return the value of a tree as a list of the conditions of each leaf."""
        nodes, cases, conditions = tree.nodes, [], [""] * tree.n_nodes
        for node in range(tree.n_nodes):
            before, own = conditions[node], self._value(tree, node, k, output)
            if nodes["left"][node] < 0:
                cases.append(f"WHEN {before} THEN {own}")
                continue
            x, start = f"c{k}_{nodes['feature'][node]}", f"{before} AND " if before else ""
            test = self._test(tree, node, x)
            conditions[nodes["left"][node]] = f"{start}({test})"
            conditions[nodes["right"][node]] = f"{start}({test}) IS NOT TRUE"
            if nodes["missing_left"][node] == Limit.MISSING_STAYS:  # before the leaves below it
                cases.append(f"WHEN {start}{x} IS NULL THEN {own}")
        return f"CASE {' '.join(cases)} END"

    def _test(self, tree: Tree, node: int, x: str) -> str:
        """Return the condition to go left."""
        missing = int(tree.nodes["missing_left"][node])
        if tree.nodes["category_start"][node] < 0:
            threshold = float(tree.nodes["threshold"][node])
            test = f"{x} <= {number(threshold)}" if threshold < math.inf else f"{x} IS NOT NULL"
            return f"{x} IS NULL OR {test}" if missing == 1 else test
        end, codes = tree.first_unknown(node), tree.category_set(node)
        listed = ", ".join(map(str, codes)) or "-1"
        if missing == 1:  # codes beyond the set count as missing
            return f"{x} IS NULL OR {x} IN ({listed}) OR {x} >= {end}"
        return f"{x} IN ({listed})"

    def _value(self, tree: Tree, node: int, k: int, output: int) -> str:
        """Return the value of a node where a row ends."""
        terms = [number(float(tree.values[node, output]))]
        assert tree.coef_ptr is not None
        for term in range(int(tree.coef_ptr[node]), int(tree.coef_ptr[node + 1])):
            coef = float(tree.coef[term, output])
            if coef != 0:
                x, center = f"c{k}_{tree.coef_feature[term]}", float(tree.coef_center[term])
                x = clipped(x, float(tree.coef_low[term]), float(tree.coef_high[term]))
                terms.append(f"COALESCE({number(coef)} * ({x} - {number(center)}), 0)")
        text = sum_of(terms)
        if tree.value_range is not None:
            low, high = tree.value_range[node, :, output].tolist()
            text = self._limited(text, low, high)
        return text

    def _limited(self, text: str, low: float, high: float) -> str:
        most, least = self._largest(), "least" if self.duckdb else "min"
        if math.isfinite(high):
            text = f"{least}({number(high)}, {text})"
        return f"{most}({number(low)}, {text})" if math.isfinite(low) else text

    # -- trees as tables ------------------------------------------------------------------------

    def _add_tables(self, trees: TreeEnsemble, k: int) -> None:
        """Add the tables of trees to the setup, and the steps that walk them."""
        name, double = f"{self.name}_{k}", "DOUBLE" if self.duckdb else "REAL"
        n_outputs = trees.n_outputs
        rows, sets, terms = table_rows(trees)
        outputs = ", ".join(f"v{o} {double}, low{o} {double}, high{o} {double}" for o in
                            range(n_outputs))  # fmt: skip
        self._make_table(
            f"{name}_nodes",
            f"tree INTEGER, node INTEGER, col INTEGER, threshold {double}, missing INTEGER, "
            f"set_end INTEGER, lft INTEGER, rgt INTEGER, {outputs}, PRIMARY KEY (tree, node)",
            rows,
        )
        key = "PRIMARY KEY (tree, node, code)"
        self._make_table(f"{name}_sets", f"tree INTEGER, node INTEGER, code INTEGER, {key}", sets)
        coefs = ", ".join(f"a{o} {double}" for o in range(n_outputs))
        self._make_table(
            f"{name}_terms",
            f"tree INTEGER, node INTEGER, col INTEGER, center {double}, low {double}, "
            f"high {double}, {coefs}",
            terms,
        )
        source = "rows_"
        columns = sorted(used_columns(trees))
        cells = "\nUNION ALL ".join(
            f"SELECT row_, {j} AS col, c{k}_{j} AS x FROM {source}" for j in columns
        )
        self.steps.append(
            (f"cells{k}_", cells or f"SELECT row_, 0 AS col, NULL AS x FROM {source}")
        )
        walk = f"walk{k}_"
        self.steps.append((
            f"{walk}0_",
            f"SELECT row_, tree, 0 AS node FROM {source}, {name}_nodes WHERE node = 0",
        ))  # fmt: skip
        # A split on numbers has no end of a set; a code beyond the end counts as missing.
        side = (
            "CASE WHEN n.lft IS NULL THEN w.node "
            "WHEN c.x IS NULL OR c.x >= n.set_end THEN "
            "CASE n.missing WHEN 1 THEN n.lft WHEN 0 THEN n.rgt ELSE w.node END "
            "WHEN (n.set_end IS NULL AND (c.x <= n.threshold OR n.threshold IS NULL)) "
            "OR s.code IS NOT NULL THEN n.lft ELSE n.rgt END"
        )
        depth = int(trees.nodes["depth"].max())
        for level in range(depth):
            self.steps.append((
                f"{walk}{level + 1}_",
                f"SELECT w.row_, w.tree, {side} AS node\nFROM {walk}{level}_ w\n"
                f"JOIN {name}_nodes n ON n.tree = w.tree AND n.node = w.node\n"
                f"LEFT JOIN cells{k}_ c ON c.row_ = w.row_ AND c.col = n.col\n"
                f"LEFT JOIN {name}_sets s ON s.tree = n.tree AND s.node = n.node "
                "AND s.code = c.x",
            ))  # fmt: skip
        lines = ", ".join(
            f"SUM(COALESCE(m.a{o} * ({clipped('c.x', 'm.low', 'm.high')} - m.center), 0)) AS l{o}"
            for o in range(n_outputs)
        )
        last = f"{walk}{depth}_"
        self.steps.append((
            f"lines{k}_",
            f"SELECT w.row_, w.tree, {lines}\nFROM {last} w\n"
            f"JOIN {name}_terms m ON m.tree = w.tree AND m.node = w.node\n"
            f"JOIN cells{k}_ c ON c.row_ = w.row_ AND c.col = m.col\nGROUP BY w.row_, w.tree",
        ))  # fmt: skip
        values = ", ".join(f"SUM({ranged(o)}) AS t{o}" for o in range(n_outputs))
        self.steps.append((
            f"sums{k}_",
            f"SELECT w.row_, {values}\nFROM {last} w\n"
            f"JOIN {name}_nodes n ON n.tree = w.tree AND n.node = w.node\n"
            f"LEFT JOIN lines{k}_ l ON l.row_ = w.row_ AND l.tree = w.tree\nGROUP BY w.row_",
        ))  # fmt: skip

    def _make_table(self, name: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        self.setup.append(f"CREATE TABLE {name} ({columns});\n")
        for start in range(0, len(rows), _ROWS):
            part = (f"({', '.join(map(cell, row))})" for row in rows[start : start + _ROWS])
            self.setup.append(f"INSERT INTO {name} VALUES\n" + ",\n".join(part) + ";\n")
