"""Declarations and checks of constructor parameters."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees._parameters import (
    attribute,
    check_boolean,
    check_integer,
    check_option,
    check_real,
)
from hybridtrees.base import Estimator


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.int64(1), Fraction(1, 2)])
def test_real_numbers_of_all_kinds(value):
    checked = check_real("learning_rate", value, 0, 1)
    assert type(checked) is float
    assert checked == float(value)


@pytest.mark.parametrize("value", ["0.5", None, True, np.True_, [0.5], 1j, np.array([0.5])])
def test_not_a_real_number(value):
    with pytest.raises(TypeError, match=r"learning_rate must be a real number in \[0, 1\], got"):
        check_real("learning_rate", value, 0, 1)


@pytest.mark.parametrize(
    ("closed", "allowed", "refused"),
    [
        ("both", [0, 0.5, 1], [-1e-9, 1.1]),
        ("left", [0, 0.5], [1]),
        ("right", [0.5, 1], [0]),
        ("neither", [0.5], [0, 1]),
    ],
)
def test_ends_of_the_range(closed, allowed, refused):
    for value in allowed:
        assert check_real("x", value, 0, 1, closed=closed) == value
    for value in [*refused, np.nan, np.inf, -np.inf]:
        with pytest.raises(ValueError, match=f"x must be .*, got {re.escape(repr(value))}"):
            check_real("x", value, 0, 1, closed=closed)


def test_messages_say_what_is_allowed():
    with pytest.raises(ValueError, match="x must be a real number of at least 0, got -1"):
        check_real("x", -1, 0)
    with pytest.raises(ValueError, match="x must be a real number"):
        check_real("x", 10**400, 0)
    with pytest.raises(ValueError, match="x must be .*, got an integer of about 5000 digits"):
        check_real("x", 10**5000)
    with pytest.raises(ValueError, match="x must be .*, got an integer of about 5000 digits"):
        check_integer("x", -(10**5000), 0)
    with pytest.raises(ValueError, match="x must be a real number greater than 0, got 0"):
        check_real("x", 0, 0, closed="neither")
    with pytest.raises(ValueError, match="x must be a real number of at most 3 or None, got 4"):
        check_real("x", 4, high=3, allow_none=True)
    with pytest.raises(ValueError, match="x must be a real number less than 3, got 3"):
        check_real("x", 3, high=3, closed="left")
    with pytest.raises(ValueError, match=r"x must be a real number in \(0, 1\], got 0"):
        check_real("x", 0, 0, 1, closed="right")
    with pytest.raises(ValueError, match="x must be a real number, got nan"):
        check_real("x", np.nan)
    with pytest.raises(ValueError, match="n must be an integer of at least 1, got 0"):
        check_integer("n", 0, 1)
    with pytest.raises(ValueError, match=r"n must be an integer in \[2, 255\] or None, got 256"):
        check_integer("n", 256, 2, 255, allow_none=True)


def test_none():
    assert check_real("x", None, allow_none=True) is None
    assert check_integer("n", None, allow_none=True) is None


def test_integers():
    for value in (3, np.int8(3), np.uint64(3)):
        checked = check_integer("n", value, 1, 5)
        assert type(checked) is int
        assert checked == 3
    for value in (3.0, np.float64(3), True, np.True_, "3", None, np.nan):
        with pytest.raises(TypeError, match="n must be an integer"):
            check_integer("n", value)


def test_booleans():
    assert check_boolean("b", True) is True
    assert check_boolean("b", np.False_) is False
    for value in (1, 0.0, "yes", None):
        with pytest.raises(TypeError, match="b must be True or False, got"):
            check_boolean("b", value)


def test_options():
    options = ("hist", "exact", None, 1, False)
    for option in options:
        assert check_option("tree_method", option, options) is option
    assert check_option("tree_method", np.str_("hist"), options) == "hist"
    for value in ("fast", 0, True, 1.0, ["hist"], np.array(["hist", "exact"]), np.nan):
        with pytest.raises(ValueError, match="tree_method must be one of 'hist', 'exact', None"):
            check_option("tree_method", value, options)


def test_a_parameter_is_declared_once_and_keeps_its_place():
    class Base(Estimator):
        first: int = 1
        second: str = "a"
        learned_: float
        _private: int = 3

    class Child(Base):
        third: Any = None
        first: int = 10

    assert list(inspect.signature(Child).parameters) == ["first", "second", "third"]
    model = Child(third=5)
    assert model.get_params() == {"first": 10, "second": "a", "third": 5}
    assert vars(model) == model.get_params()
    assert inspect.signature(Child).parameters["first"].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match=r"Child.__init__\(\) got an unexpected .*'fourth'"):
        Child(fourth=1)


def test_attributes_leave_no_trace():
    class Model(Estimator):
        depth: int = 3
        tree_: Any = attribute()
        kind: str = attribute()

    class Named(Model):
        kind: str = "a"

    assert list(inspect.signature(Model).parameters) == ["depth"]
    assert not hasattr(Model(), "tree_")
    assert Named(kind="b").get_params() == {"depth": 3, "kind": "b"}


def test_type_checkers_see_the_parameters_and_nothing_else():
    # They take every annotated attribute of an estimator for a parameter of its constructor.
    for name in ht.__all__:
        getattr(ht, name)
    classes = [Estimator]
    for cls in classes:
        classes += [c for c in cls.__subclasses__() if c.__module__.startswith("hybridtrees.")]
    for cls in set(classes):
        node = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation):
                assert line.value is not None, (cls, ast.unparse(line))


def test_positional_parameters_come_first():
    class Bagged(Estimator):
        _positional = ("n_estimators",)
        depth: int = 3
        n_estimators: int = 100

    assert Bagged(7).n_estimators == 7
    with pytest.raises(TypeError):
        Bagged(7, 3)


def test_a_constructor_of_ones_own_is_kept():
    class Own(Estimator):
        depth: int = 3

        def __init__(self, depth=4):
            self.depth = depth

    assert Own().depth == 4


def test_classes_below_keep_a_constructor_that_was_written():
    class Own(Estimator):
        depth: int = 3

        def __init__(self, label="x", depth=4):
            self.depth, self.label = depth, label

    class Below(Own):
        """A docstring only."""

    class Named:
        def __init__(self, *args, label="x", **kwargs):
            super().__init__(*args, **kwargs)
            self.label = label

    class Plain(Estimator):
        depth: int = 3

    class Mixed(Named, Plain):
        pass

    assert vars(Below("q")) == {"depth": 4, "label": "q"}
    assert vars(Mixed(label="q", depth=5)) == {"depth": 5, "label": "q"}


def test_class_variables_are_no_parameters():
    class Counted(Estimator):
        counter: ClassVar[int] = 0
        depth: int = 3

    assert Counted().get_params() == {"depth": 3}
