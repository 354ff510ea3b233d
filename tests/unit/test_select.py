"""Tag queries and the expansion of variations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cmbench.errors import Error
from cmbench.format.meta import parse_script
from cmbench.format.model import Script, Tags
from cmbench.index.select import expand, parse_tags, variation_of

WORDS = st.text("abc09.", min_size=1, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["", "_", "-", "-_"]), WORDS)))
def test_tags_survive_a_round_trip(words: list[tuple[str, str]]) -> None:
    tags = parse_tags(",".join(prefix + word for prefix, word in words))
    assert parse_tags(str(tags)) == tags
    assert len(tags.wanted) == len(set(tags.wanted))


@given(st.text())
def test_any_text_is_a_tag_query(text: str) -> None:
    assert isinstance(parse_tags(text), Tags)


def script(**meta: Any) -> Script:
    return parse_script({"alias": "x", "uid": "1", "tags": ["x"], **meta}, "/x", "r")


def names(one: Script, query: str) -> tuple[str, ...]:
    return expand(one, parse_tags(query)).variations


def test_aliases_bases_and_reasons() -> None:
    one = script(
        variations={
            "short": {"alias": "long"},
            "long": {},
            "derived": {"base": ["long"]},
        }
    )
    assert names(one, "x,_short") == ("short", "long")
    choice = expand(one, parse_tags("x,_derived"))
    assert choice.variations == ("derived", "long")
    assert choice.reasons == {"derived": "requested", "long": "base of _derived"}


def test_a_base_may_be_dynamic_and_defaults_may_be_excluded() -> None:
    one = script(
        variations={
            "bs.#": {"env": {"BS": "#"}},
            "big": {"base": ["bs.64"]},
            "a": {"group": "g", "default": True},
            "b": {"group": "g"},
        }
    )
    assert names(one, "x,_big") == ("big", "bs.64", "a")
    assert names(one, "x,-_a") == ()
    assert variation_of(one, "bs.1.5").settings.env == {"BS": "1.5"}


def test_default_variation_only_when_nothing_is_asked() -> None:
    one = script(default_variation="d", variations={"d": {}, "e": {}})
    assert names(one, "x") == ("d",)
    assert names(one, "x,_e") == ("e",)


@pytest.mark.parametrize(
    ("meta", "query", "code"),
    [
        ({"variations": {"a": {"group": "g"}, "b": {"group": "g"}}}, "x,_a,_b", "bad-value"),
        (
            {
                "variations": {
                    "a": {"group": "g", "default": True},
                    "b": {"group": "g", "default": True},
                }
            },
            "x",
            "bad-meta",
        ),
        ({"variations": {"a": {}}}, "x,_b", "variation-not-found"),
        ({"variations": {"a": {"base": ["gone"]}}}, "x,_a", "variation-not-found"),
        (
            {"variations": {"a": {}, "b": {}}, "invalid_variation_combinations": [["a", "b"]]},
            "x,_a,_b",
            "bad-value",
        ),
    ],
)
def test_refusals(meta: dict[str, Any], query: str, code: str) -> None:
    with pytest.raises(Error) as caught:
        names(script(**meta), query)
    assert caught.value.code == code


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.fixed_dictionaries(
            {},
            optional={
                "base": st.lists(st.sampled_from("abcdef"), max_size=3),
                "group": st.sampled_from(["g", "h"]),
                "default": st.booleans(),
                "default_variations": st.dictionaries(
                    st.sampled_from(["g", "h"]), st.sampled_from("abcdef"), max_size=2
                ),
            },
        ),
    ),
    st.lists(st.sampled_from("abcdef"), max_size=3),
)
@example(
    {"a": {"group": "g"}, "b": {"default": True, "group": "g", "default_variations": {"h": "a"}}},
    [],
)
def test_expansion_ends_and_holds_its_rules(variations: dict[str, Any], asked: list[str]) -> None:
    one = script(variations=variations)
    try:
        active = names(one, ",".join(["x", *("_" + a for a in asked)]))
    except Error:
        return
    assert len(active) == len(set(active))
    assert set(asked) <= set(active)
    based = {base for block in variations.values() for base in block.get("base", ())}
    # A base is taken whatever its group: the linter, not the expansion, speaks against that.
    groups = [variations[n]["group"] for n in active if "group" in variations[n] and n not in based]
    assert len(groups) == len(set(groups))
    for name in active:
        assert set(variations[name].get("base", ())) <= set(active)
