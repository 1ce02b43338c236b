"""Ensembles whose members have names: a parameter `estimators`, nested parameters, "drop"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from hybridtrees._parameters import attribute
from hybridtrees.ensembles.members import Ensemble, check_member

DROP = "drop"


class NamedMembers(Ensemble):
    """An ensemble of members with names.

    Parameters
    ----------
    estimators : list of (str, estimator) pairs
        The members and their names. ``set_params(name="drop")`` leaves a member out, and
        ``set_params(name__parameter=value)`` sets one of its parameters.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted members.
    named_estimators_ : dict of str to estimator
        The same by name.
    """

    _positional: ClassVar[tuple[str, ...]] = ("estimators",)

    estimators: Sequence[tuple[str, Any]] = ()

    estimators_: list[Any] = attribute()

    @property
    def named_estimators_(self) -> dict[str, Any]:
        """The fitted members by name."""
        self._check_is_fitted()
        return dict(zip(self._names, self.estimators_, strict=True))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters, and with `deep` the members and their parameters.

        Parameters
        ----------
        deep : bool
            Whether to include members as ``<name>`` and their parameters as
            ``<name>__<parameter>``.

        Returns
        -------
        params : dict
        """
        params = super().get_params(deep)
        if deep:
            for name, member in self._pairs():
                params[name] = member
                if hasattr(member, "get_params"):
                    params |= {f"{name}__{k}": v for k, v in member.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, replace members by their names, or set members' parameters.

        Returns
        -------
        self : estimator
        """
        own = self._parameter_defaults()
        # The list first: the other names are those of its members.
        if "estimators" in params:
            super().set_params(estimators=params.pop("estimators"))
        members = dict(self._pairs())
        inner: dict[str, dict[str, Any]] = {}
        for key in [key for key in params if key.partition("__")[0] not in own]:
            name, nested, parameter = key.partition("__")
            if name not in members:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}. Valid "
                    f"parameters are: {[*own, *members]}."
                )
            if nested:
                inner.setdefault(name, {})[parameter] = params.pop(key)
            else:
                members[name] = params.pop(key)
        super().set_params(**params)
        if members != dict(self._pairs()):
            self.estimators = list(members.items())
        for name, values in inner.items():
            members[name].set_params(**values)
        return self

    def _pairs(self) -> list[tuple[str, Any]]:
        """Return the members as far as they are pairs; what is not is refused by `fit`."""
        try:
            return [(name, member) for name, member in self.estimators]
        except (TypeError, ValueError):
            return []

    def _check_members(self) -> list[tuple[str, Any]]:
        """Check the members, and return those that are not dropped."""
        pairs = self._pairs()
        if not pairs or len(pairs) != len(self.estimators):
            raise ValueError(
                "estimators must be a list of pairs (name, estimator), at least one, got "
                f"{self.estimators!r}"
            )
        names = [name for name, _ in pairs]
        for name in names:
            if not isinstance(name, str) or not name or "__" in name:
                raise ValueError(f"names of estimators must be strings without '__', got {name!r}")
            if name in self._parameter_defaults():
                raise ValueError(f"the name {name!r} of a member is that of a parameter")
        if len(set(names)) < len(names):
            raise ValueError(f"names of estimators must differ, got {names}")
        kept = [(name, m) for name, m in pairs if not (isinstance(m, str) and m == DROP)]
        if not kept:
            raise ValueError("all estimators are dropped: at least one is needed")
        for name, member in kept:
            check_member(member, f"the member {name!r}", self)
        self._names = [name for name, _ in kept]
        return kept
