"""A study that needs no model."""

import pytest

from poolwise import Float, Settings, Study


@pytest.fixture
def study():
    with Study(space={"x": Float(0, 1)}, minimize="loss", settings=Settings(acquisition="fill")) as study:
        yield study
