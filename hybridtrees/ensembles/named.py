"""Ensembles whose members have names: a parameter `estimators`, nested parameters, "drop"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from hybridtrees._parameters import attribute
from hybridtrees.ensembles.members import LEAVE_OUT, Ensemble, check_member, check_takes_weight

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
                if not isinstance(name, str):  # refused by `fit`
                    continue
                params[name] = member
                if hasattr(member, "get_params") and not isinstance(member, type):
                    params |= {f"{name}__{k}": v for k, v in member.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, replace members by their names, or set members' parameters.

        Returns
        -------
        self : estimator
        """
        before = vars(self).copy()
        undo: list[tuple[Any, dict[str, Any]]] = []
        try:
            self._set_params(params, undo)
        except BaseException:  # a call that fails changes nothing, members included
            for member, values in reversed(undo):
                member.set_params(**values)
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _set_params(self, params: dict[str, Any], undo: list[tuple[Any, dict[str, Any]]]) -> None:
        """Set parameters; `undo` gets the members changed and their former parameters."""
        own = self._parameter_defaults()
        # The list first: the other names are those of its members.
        if "estimators" in params:
            super().set_params(estimators=params.pop("estimators"))
        members = {name: member for name, member in self._pairs() if isinstance(name, str)}
        replaced: dict[str, Any] = {}
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
                replaced[name] = params.pop(key)
        for name in {key.partition("__")[0] for key in params if "__" in key}:
            if hasattr(getattr(self, name), "get_params"):
                undo.append(_former(getattr(self, name), params, f"{name}__"))
        super().set_params(**params)
        if replaced:
            self.estimators = [(name, replaced.get(name, m)) for name, m in self._pairs()]
        for name, values in inner.items():
            member = replaced.get(name, members[name])
            if not hasattr(member, "set_params"):
                raise ValueError(f"the member {name!r} has no parameters, it is {member!r}")
            undo.append(_former(member, values))
            member.set_params(**values)

    def _pairs(self) -> list[tuple[str, Any]]:
        """Return the members as far as they are pairs; what is not is refused by `fit`."""
        try:
            return [(name, member) for name, member in self.estimators]
        except (TypeError, ValueError):
            return []

    def _check_members(self) -> list[tuple[str, Any]]:
        """Check the members, and return those that are not dropped."""
        pairs = self._pairs() if isinstance(self.estimators, list | tuple) else []
        if not pairs:
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

    def _check_weights(self, members: Sequence[tuple[str, Any]], weight: Any) -> None:
        """Refuse weights of rows if a member takes none, before any member is fitted."""
        for name, member in members if weight is not None else ():
            check_takes_weight(member, f"the member {name!r}", LEAVE_OUT, self)


def _former(member: Any, values: dict[str, Any], prefix: str = "") -> tuple[Any, dict[str, Any]]:
    """Return a member and the present values of the parameters that are to be set."""
    known = member.get_params()
    names = [key.removeprefix(prefix) for key in values if key.startswith(prefix)]
    return member, {name: known[name] for name in names if name in known}
