"""Structures of programs in files: told by the names of our own classes, and by no other."""

import jax
import numpy as np
import pytest

import poolwise as pw
from poolwise.acquisition.expectation import Estimate
from poolwise.kept import NotKept, build, describe, write
from poolwise.pool.field import field_of
from poolwise.pytree import pytree


@pytree
class Foreign:
    """A class that is not the library's."""

    number: float


def test_a_structure_is_what_was_described(posterior):
    """With shapes for arrays, classes for fields that are a part of the program, and None where there is nothing."""
    with jax.enable_x64(True):
        value = [(field_of(posterior), None), {"a": Estimate(np.zeros(3), np.zeros(()))}]
    made = build(describe(value))

    assert jax.tree.structure(value) == jax.tree.structure(made)
    assert [np.shape(leaf) for leaf in jax.tree.leaves(value)] == [leaf.shape for leaf in jax.tree.leaves(made)]
    assert pw.Matern52 is made[0][0].kernel


@pytest.mark.parametrize(
    "value", [Foreign(np.zeros(2)), pw.integrand(lambda y, mean: y[0]), object()], ids=["class", "function", "object"]
)
def test_what_is_not_ours_is_not_kept(value):
    """A class or a function of the user's may be another one next time, under the same name."""
    with pytest.raises(NotKept):
        describe(value)


@pytest.mark.parametrize("name", ["os:system", "poolwise_other.thing:Thing", "poolwise.kept:_sources"])
def test_a_file_names_no_class_of_others(name):
    """Nothing else is imported, and no function of ours is called."""
    with pytest.raises(NotKept):
        build({"class": name, "fields": []})


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    """Its place is taken by a folder."""
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(OSError):
        write(place, lambda x: x + 1, (((jax.ShapeDtypeStruct((2,), np.float32),), {})), {})

    assert [place] == list(tmp_path.iterdir())
