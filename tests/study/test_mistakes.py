"""Mistakes that a first user made, and what each is told."""

import numpy as np
import pytest

import poolwise as pw

LINE = {"x": pw.Float(0, 1)}
FILL = pw.Settings(acquisition="fill")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def test_trial_of_another_study_is_refused(url):
    """A value would land on the same number of the wrong study."""
    ours = pw.Study(url, name="ours", space=LINE, minimize="loss", seed=1)
    theirs = pw.Study(url, name="theirs", space=LINE, minimize="loss", seed=2)
    ours.ask(2)
    (foreign, _) = theirs.ask(2)

    for act in (lambda: ours.tell(foreign, 1.0), lambda: ours.fail(foreign, "lost")):
        with pytest.raises(pw.ConflictError, match="another study"):
            act()
    assert 2 == len(ours.pending)


def test_numbers_beyond_all_floats():
    """Python has such whole numbers; they are an error like any other."""
    with pytest.raises(pw.InputError, match="beta"):
        pw.Settings(beta=10**400)
    with pytest.raises(pw.InputError, match="patience"):
        pw.Study(space={"x": pw.Float(0, 1)}, minimize="loss", patience=10**400)


def test_other_constraints_are_a_conflict(url):
    """Also where the space is not said again; a single constraint may be a text of its own."""
    with pw.Study(
        url, space={"x": pw.Float(0, 1), "y": pw.Float(0, 1)}, constraints="x <= y", minimize="loss"
    ) as study:
        assert all(trial.params["x"] <= trial.params["y"] for trial in study.ask(8))

    pw.Study(url, constraints=["x <= y"]).close()
    with pytest.raises(pw.ConflictError, match="other constraints"):
        pw.Study(url, constraints=["x >= y"])


def test_address_of_no_file_leaves_none(tmp_path):
    """A typing error does not make a database."""
    with pytest.raises(pw.StudyNotFound, match=r"typo\.db"):
        pw.Study(f"sqlite:///{tmp_path}/typo.db")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [True, False], ids=["file", "memory"])
def test_closed_study_says_so(kept, url):
    """The same words for a file and for memory; its name and address can still be read."""
    study = pw.Study(url if kept else None, space=LINE, minimize="loss")
    study.close()
    study.close()

    assert "minimize='loss'" in repr(study)
    with pytest.raises(pw.StorageError, match="is closed"):
        study.ask(1)


def test_function_of_other_arguments_costs_no_trial():
    """It would fail every trial; the study stays as it is."""
    study = pw.Study(space=LINE, minimize="loss")
    with pytest.raises(pw.InputError, match="parameters x"):
        study.run(lambda y: y, trials=8)
    assert [] == study.trials


def test_stopped_run_hands_its_study_back():
    """A study in memory can be had nowhere else."""

    def broken(x):
        raise RuntimeError("no luck")

    with pytest.raises(pw.RunStopped) as stopped:
        pw.minimize(broken, LINE, trials=16, q=1, executor="here")
    assert stopped.value.study.counts["failed"] > 5


def test_table_has_its_types_before_the_first_value():
    """Numbers and times, whether or not there are any."""
    study = pw.Study(space=LINE, minimize="loss", settings=FILL)
    study.ask(2)
    frame = study.to_frame()

    assert ["float64", "float64"] == [str(frame.dtypes[name]) for name in ("loss", "sem")]
    assert "datetime64[us, UTC]" == str(frame.dtypes["finished"])


def test_prediction_at_one_experiment():
    """A dictionary is one experiment."""
    study = pw.Study(space=LINE, minimize="loss")
    for trial in study.ask(6):
        study.tell(trial, trial.params["x"] ** 2)
    mean, deviation = study.model().predict({"x": 0.5})

    assert (1,) == mean.shape == deviation.shape
    np.testing.assert_allclose(0.25, mean, atol=0.05)
