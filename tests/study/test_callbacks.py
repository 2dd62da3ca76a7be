"""Watchers of a run: what they are told, and what is none."""

import pytest

from poolwise import Callback, Float, InputError, Study


class Notes(Callback):
    """Keeps what it is told."""

    def __init__(self):
        self.said = []

    def on_start(self, study, trials):
        self.said.append(("start", trials))

    def on_ask(self, study, pool):
        self.said.append(("ask", [trial.state for trial in pool]))

    def on_tell(self, study, trial):
        self.said.append(("tell", trial.number, trial.value, study.trial(trial.number).state))

    def on_fail(self, study, trial):
        self.said.append(("fail", trial.number, "broken" in trial.reason))

    def on_end(self, study):
        self.said.append(("end", study.counts["told"]))


def test_a_watcher_is_told_everything_in_order():
    """Values and failures are stored before they are told of."""
    values = iter([1.0, ValueError("broken")])

    def f(x):
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return value

    notes = Notes()
    with Study(space={"x": Float(0, 1)}, minimize="loss") as study:
        study.run(f, trials=2, executor="here", callbacks=[notes])

    assert [("start", 2), ("ask", ["pending"]), ("tell", 0, 1.0, "told")] == notes.said[:3]
    assert [("ask", ["pending"]), ("fail", 1, True), ("end", 1)] == notes.said[3:]


@pytest.mark.parametrize(
    "callbacks, words",
    [(Notes(), "expected a list"), ([Notes], "is no object with methods"), ([print], "is no object with methods")],
    ids=["one", "a class", "a function"],
)
def test_what_would_never_be_called(callbacks, words):
    """It is refused before the first trial."""
    with Study(space={"x": Float(0, 1)}, minimize="loss") as study, pytest.raises(InputError, match=words):
        study.run(lambda x: x, trials=2, callbacks=callbacks)
