"""Models do not depend on the vectors of the machine."""

import pytest
import width_models
from fresh_python import run_python

from hybridtrees.core.base._threads import vector_bits


def printed(monkeypatch, bits):
    monkeypatch.setenv("HYBRIDTREES_VECTOR_BITS", bits)
    done = run_python(width_models.__file__)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(vector_bits() == 128, reason="this machine has vectors of one width")
def test_models_are_equal_for_all_widths(monkeypatch):
    monkeypatch.delenv("HYBRIDTREES_VECTOR_BITS", raising=False)
    widest, *expected = printed(monkeypatch, "")
    assert len(expected) > 15
    for bits in ("128", "256"):
        used, *found = printed(monkeypatch, bits)
        assert int(used) == min(int(bits), int(widest))
        assert found == expected


def test_the_variable_takes_effect_only_for_known_widths(monkeypatch):
    code = "from hybridtrees.core.base._threads import vector_bits; print(vector_bits())"
    monkeypatch.delenv("HYBRIDTREES_VECTOR_BITS", raising=False)
    widest = run_python("-c", code).stdout
    for unknown in ("7", "512", "all"):
        monkeypatch.setenv("HYBRIDTREES_VECTOR_BITS", unknown)
        assert run_python("-c", code).stdout == widest
