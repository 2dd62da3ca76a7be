"""Mistakes that a first user made, and what each is told."""

import os
import sys
from multiprocessing.reduction import ForkingPickler

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


def test_parameters_that_were_changed_are_named(url):
    """Not only another study's trial has other parameters."""
    with pw.Study(url, space=LINE, minimize="loss") as study:
        [trial] = study.ask()
        trial.params["x"] = 2.0
        with pytest.raises(pw.ConflictError, match="or its params were changed"):
            study.tell(trial, 1.0)


def test_a_stopped_run_is_sent_to_another_process():
    """With its message; its study stays."""
    stopped = pw.RunStopped("no luck")
    stopped.study = pw.Study(space=LINE, minimize="loss")
    arrived = ForkingPickler.loads(ForkingPickler.dumps(stopped))

    assert (pw.RunStopped, "no luck", None) == (type(arrived), str(arrived), arrived.study)


@pytest.mark.parametrize("kept, words", [(True, "open it there by its address"), (False, "in this process only")])
def test_a_study_is_not_sent_to_another_process(kept, words, url):
    with (
        pw.Study(url if kept else None, space=LINE, minimize="loss") as study,
        pytest.raises(TypeError, match=words),
    ):
        ForkingPickler.dumps(study)


@pytest.mark.skipif(sys.platform == "win32", reason="has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_study_in_memory_is_not_forked():
    """A child is told so, and not of a missing table."""
    study = pw.Study(space=LINE, minimize="loss")
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            study.trials  # noqa: B018
        except pw.StorageError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.wait()

    assert "is in the process that made it" in os.read(read, 1000).decode()
    assert [] == study.trials
    os.close(read)
    os.close(write)


def test_constraints_of_an_iterator(url):
    """They are read once."""
    texts = ["x < 0.5"]
    with pw.Study(url, space=LINE, constraints=(text for text in texts), minimize="loss") as study:
        assert tuple(texts) == study.space.constraints
    pw.Study(url, constraints=iter(texts)).close()


def test_numbers_of_numpy_are_numbers(url):
    """They are stored as plain ones, and agree with these."""
    settings = pw.Settings(model_trials=np.int64(32))
    with pw.Study(url, space=LINE, minimize="loss", seed=np.int32(7), settings=settings) as study:
        assert (int, 7) == (type(study.seed), study.seed)
        assert (int, 32) == (type(study.settings.model_trials), study.settings.model_trials)
    pw.Study(url, seed=7, settings=pw.Settings(model_trials=32)).close()
    pw.Study(url, seed=np.uint8(7)).close()
