"""Models as C99: tables of nodes, and a loop that walks them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._version import __version__
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.additive import AdditiveForm, Column, additive_form
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.exchange.writing import breadth_first, write_text

_WIDTH = 100
# Trees that are walked side by side: their loads overlap.
_SIDE_BY_SIDE = 8
_MOST_LABELS = 50  # that a comment lists

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while
"""


def to_c(estimator: Any, path: Any = None, *, name: str = "model") -> str:
    """Write a fitted model as one C99 file: see the method ``to_c`` of estimators."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be an identifier of C, got {name!r}")
    if name in _KEYWORDS.split():
        raise ValueError(f"name must not be a keyword of C, got {name!r}")
    form = additive_form(estimator)
    source = _Writer(form, name, type(estimator).__name__).source()
    write_text(path, source)
    return source


class _Writer:
    """Writes a form and the forms within it; number 0 is the outer one."""

    def __init__(self, form: AdditiveForm, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.form = form
        self.forms = list(form.all_forms())
        self.number = {id(each): k for k, each in enumerate(self.forms)}

    def source(self) -> str:
        """Return the file."""
        parts = [self._head(), _SHARED]
        # Inner forms are called by those before them.
        for form in reversed(self.forms):
            parts.append(_form_source(form, self.number, self.form.reader.n_features_in))
        n_out = self.form.n_predictions
        name = self.name
        if n_out == self.form.n_scores:
            call = "scores_0(x, out);\n    link_0(out, out);"
        else:
            call = f"double s[{self.form.n_scores}];\n    scores_0(x, s);\n    link_0(s, out);"
        parts.append(
            f"void {name}_scores(const double *x, double *out)\n{{\n    scores_0(x, out);\n}}\n\n"
            f"void {name}_predict(const double *x, double *out)\n{{\n    {call}\n}}\n"
        )
        return "\n".join(parts)

    def _head(self) -> str:
        reader, form, name = self.form.reader, self.form, self.name
        lines = [
            f"{self.kind} of hybridtrees {__version__}, as C99.",
            "",
            f"void {name}_predict(const double *x, double *out);",
            f"void {name}_scores(const double *x, double *out);    before the link",
            "",
            f"x has {reader.n_features_in} numbers, NAN where a value is missing, and codes in",
            "columns of categories:",
        ]
        names = reader.feature_names_in
        for j, labels in enumerate(reader.categories):
            text = f"    x[{j}]"
            text += "" if names is None else f" {_quoted(names[j])}"
            if labels is not None:
                shown = [f"{k} {_quoted(label)}" for k, label in enumerate(labels[:_MOST_LABELS])]
                shown += ["..."] if len(labels) > _MOST_LABELS else []
                text += ": " + ", ".join(shown)
            lines.append(text)
        if form.classes is None:
            what = f"{form.n_predictions} numbers"
        else:
            labels = ", ".join(_quoted(label) for label in form.classes[:_MOST_LABELS])
            what = f"the probabilities of {len(form.classes)} classes: {labels}"
        lines += ["", f"out gets {what}; scores are {form.n_scores}."]
        comment = "\n".join(f" * {line}".rstrip() for line in lines).replace("*/", "* /")
        return (
            f"/*\n{comment}\n */\n#include <math.h>\n#include <stdint.h>\n\n"
            f"#define {name.upper()}_N_FEATURES {reader.n_features_in}\n"
            f"#define {name.upper()}_N_SCORES {form.n_scores}\n"
            f"#define {name.upper()}_N_PREDICTIONS {form.n_predictions}\n\n"
            f"void {name}_predict(const double *x, double *out);\n"
            f"void {name}_scores(const double *x, double *out);\n"
        )


_SHARED = """\
/* A node: a value of at most `threshold` goes to `left`, a larger one to the node after it. A leaf
   leads to itself. */
typedef struct {
    double threshold;
    int32_t left, feature;
} node;

/* What walks with missing values or categories need: where a missing value goes (1 left, 0 right,
   2 the row ends here), and the set of codes that go left: bits in words of 32 from the word `set`
   on, for codes below `end`. */
typedef struct {
    int32_t missing, set, end;
} details;
"""


def _form_source(form: AdditiveForm, number: dict[int, int], n_features: int) -> str:
    k = number[id(form)]
    parts = [f"/* ---- Form {k} ---- */\n"]
    body = [f"    out[{j}] = {_number(value)};" for j, value in enumerate(form.base)]
    if form.trees is not None:
        plain = _is_plain(form.columns, n_features)
        if not plain:
            parts.append(_columns_source(form.columns, k))
        parts.append(_trees_source(form.trees, k, len(form.columns)))
        if plain:
            body.append(f"    add_trees_{k}(x, out);")
        else:
            body.append(f"    double c[{len(form.columns)}];")
            body.append(f"    columns_{k}(x, c);\n    add_trees_{k}(c, out);")
    for weight, inner in form.inner:
        i, n = number[id(inner)], inner.n_predictions
        skip = 1 if n == 2 and form.n_scores == 1 else 0
        adds = "\n".join(
            f"        out[{j}] += {_number(weight)} * p[{j + skip}];" for j in range(form.n_scores)
        )
        body.append(
            f"    {{\n        double s[{inner.n_scores}], p[{n}];\n        scores_{i}(x, s);\n"
            f"        link_{i}(s, p);\n{adds}\n    }}"
        )
    used = form.trees is not None or form.inner
    body += [] if used else ["    (void)x;"]
    parts.append(f"static void scores_{k}(const double *x, double *out)\n{{\n")
    parts[-1] += "\n".join(body) + "\n}\n"
    parts.append(_link_source(form, k))
    return "\n".join(parts)


def _columns_source(columns: Sequence[Column], k: int) -> str:
    tables, body = [], []
    for j, column in enumerate(columns):
        x = f"x[{column.feature}]"
        if column.kind == "value":
            body.append(f"    c[{j}] = {x};")
        elif column.kind == "missing":
            body.append(f"    c[{j}] = isnan({x}) ? 1.0 : 0.0;")
        elif column.kind == "indicator":
            body.append(f"    c[{j}] = isnan({x}) ? NAN : ({x} == {column.code}.0 ? 1.0 : 0.0);")
        else:
            assert column.table is not None
            size = len(column.table) - 1
            tables.append(_array("double", f"table_{k}_{j}", map(_number, column.table)))
            # A missing code fails the comparisons.
            code = f"{x} >= 0.0 && {x} < {size}.0 ? 1 + (int32_t){x} : 0"
            body.append(f"    c[{j}] = table_{k}_{j}[{code}];")
    head = f"static void columns_{k}(const double *x, double *c)\n{{\n"
    return "\n".join([*tables, head + "\n".join(body) + "\n}\n"])


def _trees_source(trees: TreeEnsemble, k: int, n_columns: int) -> str:
    """Return the tables of trees and the function that adds their values to the scores."""
    first = trees.tree_start[:-1]
    order = np.concatenate([k + breadth_first(tree) for k, tree in zip(first, trees, strict=True)])
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    nodes, values = trees.nodes[order], trees.values[order]
    inner = nodes["left"] >= 0
    first = np.repeat(first, np.diff(trees.tree_start))[order]
    left = np.where(inner, place[np.where(inner, first + nodes["left"], 0)], np.arange(len(order)))
    threshold = np.where(inner, nodes["threshold"], np.inf)
    by_set = nodes["category_start"] >= 0
    stops = inner & (nodes["missing_left"] == Limit.MISSING_STAYS)
    rows = [
        f"{{{_number(t)}, {lf}, {f}}}"
        for t, lf, f in zip(threshold, left, np.maximum(nodes["feature"], 0), strict=True)
    ]
    parts = [_array("node", f"nodes_{k}", rows)]
    starts, ends, words = _sets(trees, place)
    rows = [
        f"{{{m}, {s}, {e}}}" for m, s, e in zip(nodes["missing_left"], starts, ends, strict=True)
    ]
    parts.append(_array("details", f"details_{k}", rows))
    if by_set.any():
        parts.append(_array("uint32_t", f"words_{k}", (f"{word}u" for word in words)))
    parts.append(_array("double", f"values_{k}", map(_number, values.ravel())))
    linear = len(trees.coef_feature) > 0
    if linear or trees.value_range is not None:
        parts.append(_leaf_source(trees, order, k))
    depths = np.maximum.reduceat(trees.nodes["depth"], trees.tree_start[:-1])
    by_depth = np.argsort(depths, kind="stable")
    parts.append(_array("int32_t", f"roots_{k}", map(str, place[trees.tree_start[by_depth]])))
    if trees.values.shape[1] == 1 and trees.n_outputs > 1:
        parts.append(_array("int32_t", f"output_{k}", map(str, trees.tree_output[by_depth])))
    parts.append(_walk_source(k, bool(by_set.any())))
    used = [] if by_set.any() or stops.any() else np.unique(nodes["feature"][inner]).tolist()
    parts.append(_add_source(trees, k, used, depths[by_depth]))
    return "\n".join(parts)


def _walk_source(k: int, by_set: bool) -> str:
    test = f"v <= nodes_{k}[at].threshold ? 1 : v > nodes_{k}[at].threshold ? 0 : d->missing"
    if by_set:
        test = (
            f"d->end == 0 ? ({test})\n            : v >= 0.0 && v < d->end\n"
            f"            ? (int)(words_{k}[d->set + (int32_t)v / 32] >> ((int32_t)v % 32) & 1)\n"
            "            : d->missing"
        )
    return f"""\
static int32_t walk_{k}(const double *c, int32_t at)
{{
    while (nodes_{k}[at].left != at) {{
        const details *d = details_{k} + at;
        const double v = c[nodes_{k}[at].feature];
        const int side = {test};
        if (side == 2)
            break;
        at = nodes_{k}[at].left + 1 - side;
    }}
    return at;
}}
"""


def _add_source(trees: TreeEnsemble, k: int, used: Sequence[int], depths: NDArray[Any]) -> str:
    """Return the function that adds all trees, of these depths.

    With the features `used`, all splits are of numbers: rows without missing values walk down
    several trees side by side, which is why these are in the order of their depths.
    """
    n_trees = trees.n_trees
    parts, body = [], "    int32_t tree = 0;\n"
    if used:
        starts = range(0, n_trees, _SIDE_BY_SIDE)
        deepest = [str(depths[t : t + _SIDE_BY_SIDE].max()) for t in starts]
        parts.append(_array("int32_t", f"depth_{k}", deepest))
        missing = _lines((f"isnan(c[{f}]) ||" for f in used), 10).removesuffix(" ||")
        body += (
            f"    const node *t = nodes_{k};\n"
            "    /* Without missing values several trees side by side: a leaf leads to itself. */\n"
            f"    if (!({missing})) {{\n"
        )
        whole = n_trees // _SIDE_BY_SIDE * _SIDE_BY_SIDE
        if whole:
            body += f"        for (; tree < {whole}; tree += {_SIDE_BY_SIDE}) {{\n"
            body += _side_by_side(trees, k, _SIDE_BY_SIDE) + "        }\n"
        if whole < n_trees:
            body += "        {\n" + _side_by_side(trees, k, n_trees - whole) + "        }\n"
        body += "        return;\n    }\n"
    body += f"""\
    for (; tree < {n_trees}; tree++) {{
        const int32_t at = walk_{k}(c, roots_{k}[tree]);
        {_add_tree(trees, k, "tree", "at")}
    }}
"""
    parts.append(f"static void add_trees_{k}(const double *c, double *out)\n{{\n{body}}}\n")
    return "\n".join(parts)


def _side_by_side(trees: TreeEnsemble, k: int, n: int) -> str:
    """Return the statements that add the next n trees for a row without missing values."""
    starts = _lines((f"n{j} = roots_{k}[tree + {j}]," for j in range(n)), 16).removesuffix(",")
    steps = (f"n{j} = t[n{j}].left + (c[t[n{j}].feature] > t[n{j}].threshold);" for j in range(n))
    adds = (_add_tree(trees, k, f"tree + {j}", f"n{j}") for j in range(n))
    next_step, next_add = "\n                ", "\n            "
    return f"""\
            int32_t {starts};
            int32_t depth;
            for (depth = depth_{k}[tree / {_SIDE_BY_SIDE}]; depth > 0; depth--) {{
                {next_step.join(steps)}
            }}
            {next_add.join(adds)}
"""


def _add_tree(trees: TreeEnsemble, k: int, tree: str, node: str) -> str:
    """Return the statement that adds the value of a node of a tree."""
    n_values = trees.values.shape[1]
    output = f"output_{k}[{tree}]" if n_values == 1 and trees.n_outputs > 1 else "0"
    if len(trees.coef_feature) or trees.value_range is not None:
        return f"add_leaf_{k}(c, {node}, out + {output});"
    if n_values == 1:
        return f"out[{output}] += values_{k}[{node}];"
    return " ".join(f"out[{o}] += values_{k}[{node} * {n_values} + {o}];" for o in range(n_values))


def _leaf_source(trees: TreeEnsemble, order: NDArray[Any], k: int) -> str:
    """Return the terms of linear leaves, and the function that adds the value of a node."""
    counts, n = np.diff(trees.coef_ptr)[order], trees.values.shape[1]
    pointers = np.append(0, np.cumsum(counts))
    first = trees.coef_ptr[:-1][order]
    terms = np.repeat(first - pointers[:-1], counts) + np.arange(pointers[-1])
    tables = [
        ("int32_t", "terms", pointers),
        ("int32_t", "term_column", trees.coef_feature[terms]),
        ("double", "term_center", trees.coef_center[terms]),
        ("double", "term_coef", trees.coef[terms].ravel()),
    ]
    clip = limit = ""
    if np.isfinite(trees.coef_low).any() or np.isfinite(trees.coef_high).any():
        tables.append(("double", "term_low", trees.coef_low[terms]))
        tables.append(("double", "term_high", trees.coef_high[terms]))
        clip = (
            f"        x = x < term_low_{k}[i] ? term_low_{k}[i] : x;\n"
            f"        x = x > term_high_{k}[i] ? term_high_{k}[i] : x;\n"
        )
    if trees.value_range is not None:
        tables.append(("double", "low", trees.value_range[order][:, 0].ravel()))
        tables.append(("double", "high", trees.value_range[order][:, 1].ravel()))
        limit = (
            f"        v[o] = v[o] < low_{k}[at * {n} + o] ? low_{k}[at * {n} + o] : v[o];\n"
            f"        v[o] = v[o] > high_{k}[at * {n} + o] ? high_{k}[at * {n} + o] : v[o];\n"
        )
    parts = [_array(kind, f"{name}_{k}", map(_number, own.tolist())) for kind, name, own in tables]
    parts.append(f"""\
static void add_leaf_{k}(const double *c, int32_t at, double *out)
{{
    double v[{n}], x;
    int32_t i;
    int o;
    for (o = 0; o < {n}; o++)
        v[o] = values_{k}[at * {n} + o];
    for (i = terms_{k}[at]; i < terms_{k}[at + 1]; i++) {{
        x = c[term_column_{k}[i]];
        if (isnan(x))
            continue;
{clip}        for (o = 0; o < {n}; o++)
            v[o] += term_coef_{k}[i * {n} + o] * (x - term_center_{k}[i]);
    }}
    for (o = 0; o < {n}; o++) {{
{limit}        out[o] += v[o];
    }}
}}
""")
    return "\n".join(parts)


def _link_source(form: AdditiveForm, k: int) -> str:
    kind, n = form.link.kind, form.n_scores
    scale = "" if form.link.scale == 1.0 else f"{_number(form.link.scale)} * "
    each = {
        "identity": f"{scale}s[i]",
        "sorted": f"{scale}s[i]",
        "exp": f"exp({scale}s[i] < 709.0 ? {scale}s[i] : 709.0)",
        "logistic": f"1.0 / (1.0 + exp(-({scale}s[i])))",
        "side": f"{scale}s[i] > 0.0 ? 1.0 : 0.0",
        "softmax": f"{scale}s[i]",
        "shares": "s[i] < 0.0 ? 0.0 : s[i] > 1.0 ? 1.0 : s[i]",
    }[kind]
    if form.n_predictions == 2 and n == 1:
        body = f"    const int i = 0;\n    out[1] = {each};\n    out[0] = 1.0 - out[1];\n"
    else:
        body = f"    int i;\n    for (i = 0; i < {n}; i++)\n        out[i] = {each};\n"
    if kind == "softmax":
        body += f"""\
    double largest = out[0], total = 0.0;
    for (i = 1; i < {n}; i++)
        largest = out[i] > largest ? out[i] : largest;
    for (i = 0; i < {n}; i++)
        total += out[i] = exp(out[i] - largest);
    for (i = 0; i < {n}; i++)
        out[i] /= total;
"""
    elif kind == "shares" and n > 1:
        body += f"""\
    double total = 0.0;
    for (i = 0; i < {n}; i++)
        total += out[i];
    for (i = 0; i < {n}; i++)
        out[i] /= total;
"""
    elif kind == "sorted":
        order = ", ".join(map(str, np.argsort(form.link.levels, kind="stable")))
        body += f"""\
    static const int order[{n}] = {{{order}}};
    for (i = 1; i < {n}; i++) {{
        const double v = out[order[i]];
        int j = i - 1;
        for (; j >= 0 && out[order[j]] > v; j--)
            out[order[j + 1]] = out[order[j]];
        out[order[j + 1]] = v;
    }}
"""
    return f"static void link_{k}(const double *s, double *out)\n{{\n{body}}}\n"


# ---- Parts ------------------------------------------------------------------------------------


def _is_plain(columns: Sequence[Column], n_features: int) -> bool:
    return [c.feature for c in columns if c.kind == "value"] == list(range(n_features)) and (
        len(columns) == n_features
    )


def _sets(trees: TreeEnsemble, place: NDArray[Any]) -> tuple[Any, Any, Any]:
    """Return the first word and the end of the set of each node, and the words, as bits."""
    start, end = np.zeros((2, len(place)), dtype=np.int64)
    words: list[NDArray[Any]] = []
    n_words = 0
    for first, tree in zip(trees.tree_start, trees, strict=False):
        for node in np.flatnonzero(tree.nodes["category_start"] >= 0).tolist():
            k, n_codes = place[first + node], tree.first_unknown(node)
            bits = np.zeros(n_codes + -n_codes % 32, dtype=bool)
            bits[tree.category_set(node)] = True
            start[k], end[k] = n_words, n_codes
            words.append(np.packbits(bits, bitorder="little").view(np.uint32))
            n_words += len(words[-1])
    return start, end, np.concatenate(words) if words else np.zeros(0, dtype=np.uint32)


def _number(value: Any) -> str:
    if isinstance(value, int | np.integer):
        return str(int(value))
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _array(c_type: str, name: str, items: Iterable[str]) -> str:
    listed = list(items) or ["0"]
    lines = _lines((f"{item}," for item in listed), 4)
    return f"static const {c_type} {name}[{len(listed)}] = {{\n    {lines}\n}};\n"


def _lines(items: Iterable[str], indent: int) -> str:
    """Return items in lines of at most a width, all but the first indented."""
    lines: list[str] = []
    line = ""
    for item in items:
        if line and indent + len(line) + 1 + len(item) > _WIDTH:
            lines.append(line)
            line = item
        else:
            line = f"{line} {item}" if line else item
    return ("\n" + " " * indent).join([*lines, line])


def _quoted(label: Any) -> str:
    return json.dumps(label.item() if hasattr(label, "item") else label, default=str)
