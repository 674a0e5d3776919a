"""Our dataclasses do what the standard ones do, and are made later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import msgspec
import pytest

from hangdoc.model import frozen
from hangdoc.model.sample import Frame


def made(decorate: Any, *, frozen: bool = True) -> Any:
    """The same class by one of the decorators."""
    body = {"__annotations__": {"one": "int", "text": "str", "many": "list[int]"}, "text": "x",
            "many": dataclasses.field(default_factory=list), "__module__": __name__, "__qualname__": "Thing"}  # fmt: skip
    return decorate(frozen=frozen)(type("Thing", (), body))


OURS, STANDARD = made(frozen.dataclass), made(dataclasses.dataclass)


@pytest.mark.parametrize("given", [((1,), {}), ((1, "y"), {}), ((1,), {"many": [2]}), ((), {"one": 1, "text": "y"})])
def test_objects_are_the_same(given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    words, named = given
    ours, standard = OURS(*words, **named), STANDARD(*words, **named)
    assert repr(ours) == repr(standard)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert ours == OURS(*words, **named)
    assert ours != standard
    assert ours != OURS(2)
    assert frozen.replace(ours, one=5) == dataclasses.replace(ours, one=5) == OURS(5, ours.text, ours.many)
    assert frozen.replace(ours) is not ours
    assert copy.deepcopy(ours) == ours


@pytest.mark.parametrize("given", [((), {}), ((1, "y", [], 4), {}), ((1,), {"odd": 1}), ((1,), {"one": 1})])
def test_wrong_arguments_are_refused(given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    for kind in (OURS, STANDARD):
        with pytest.raises(TypeError):
            kind(*given[0], **given[1])


def test_each_object_gets_a_list_of_its_own() -> None:
    assert OURS(1).many is not OURS(1).many


def test_one_that_is_not_frozen_can_be_changed_and_is_no_key() -> None:
    for decorate in (frozen.dataclass, dataclasses.dataclass):
        kind = made(decorate, frozen=False)
        one = kind(1)
        one.one, one.other = 2, 3
        assert one == kind(2)
        assert repr(one) == "Thing(one=2, text='x', many=[])"
        with pytest.raises(TypeError):
            hash(one)


def test_nothing_can_be_changed() -> None:
    one = OURS(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.one = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.other = 2


def test_what_can_be_hashed_is_equal_by_value() -> None:
    assert len({Frame("a", "f", "g"), Frame("a", "f", "g"), Frame("a", "f", "h")}) == 2
    assert pickle.loads(pickle.dumps(Frame("a", "f", "g"))) == Frame("a", "f", "g")
    with pytest.raises(TypeError):
        hash(OURS(1))


def test_whoever_asks_sees_the_standard_signature() -> None:
    ours, standard = (list(inspect.signature(kind).parameters) for kind in (OURS, STANDARD))
    assert ours == standard
    assert [one.name for one in dataclasses.fields(OURS)] == ours


def test_the_initialiser_is_made_for_the_first_object_and_not_by_decoding() -> None:
    kind = made(frozen.dataclass)
    decoded = msgspec.json.decode(b'{"one": 1, "many": [2]}', type=kind)
    assert isinstance(vars(kind)["__init__"], frozen._Init)
    assert decoded == kind(1, many=[2])
    assert inspect.isfunction(vars(kind)["__init__"])


def test_a_class_may_have_no_field() -> None:
    kind: Any = frozen.dataclass(frozen=True)(type("Nothing", (), {"__module__": __name__}))
    assert kind() == kind()
    assert hash(kind()) == hash(kind())
