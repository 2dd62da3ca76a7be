"""Tables that cannot be written."""

import pandas as pd
import pytest

from poolwise import InputError
from poolwise.adapters.frames import write_frame


@pytest.mark.parametrize("names", [["x", "x"], ["1", 1]])
def test_columns_of_one_name(names, tmp_path):
    """No reader could tell them apart; the message is that of `from_frame`, and no file is written."""
    with pytest.raises(InputError, match=f"frame: has two columns named '{names[0]}'"):
        write_frame(pd.DataFrame([[1, 2]], columns=names), tmp_path / "t.csv")

    assert [] == list(tmp_path.iterdir())
