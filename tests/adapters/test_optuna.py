"""Poolwise inside Optuna: its own sampler tests, pools across asks, samplers and processes, and the export."""

import copy
import gc
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)
from optuna.trial import TrialState, create_trial

from poolwise.adapters.optuna import PoolSampler, to_optuna
from poolwise.adapters.optuna_limits import MOMENT, margin_of
from poolwise.adapters.optuna_seats import point_of
from poolwise.adapters.optuna_space import chebyshev, distribution_of, finite, frame_of, observe, parameter_of, pareto
from poolwise.errors import InputError
from poolwise.space.parameters import Choice, Float, Int
from poolwise.space.space import Space
from poolwise.study.definition import Definition, Settings
from poolwise.study.errors import ConflictError
from poolwise.study.model import learn
from poolwise.study.study import Study
from poolwise.study.trial import Trial

EXAMPLE = Path(__file__).parents[2] / "examples" / "optuna" / "tune.py"
SQUARE = {"x": FloatDistribution(-10, 10), "y": FloatDistribution(-10, 10)}


# Optuna leaves connections to the collector, of which Python 3.13 warns; those of this module are collected in it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]


@pytest.fixture(scope="module")
def collected():
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def quiet():
    """Optuna's log is not what is tested."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)


class TestOptunasOwnCases(BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase):
    """What Optuna asks of every sampler, of those that sample jointly, and of those for several objectives."""

    @pytest.fixture
    def sampler(self):
        return lambda: PoolSampler(q=8, seed=0)


def new_study(q=8, *, seed=0, space=SQUARE, storage=None, **options):
    sampler = PoolSampler(q, seed, space, **options)
    return optuna.create_study(sampler=sampler, storage=storage, study_name="s", load_if_exists=True)


def bowl(params):
    return (params["x"] - 3) ** 2 + (params["y"] + 2) ** 2


def play(study, rounds, q, value=bowl, space=SQUARE):
    """Rounds of q trials, all asked for before any is told."""
    for _ in range(rounds):
        for trial in [study.ask(space) for _ in range(q)]:
            study.tell(trial, value(trial.params))


def pools(study):
    """The pools that were stored, by the trial that chose them."""
    found = {}
    for trial in study.trials:
        parts = [trial.system_attrs[key] for key in sorted(trial.system_attrs) if key.startswith("poolwise:pool")]
        if parts:
            found[trial.number] = json.loads("".join(parts))
    return found


def corners(study):
    return [(trial.params["x"], trial.params["y"]) for trial in study.trials]


def test_trials_asked_for_together_are_one_pool():
    """The first of eight chooses for all, and each takes its place; the first pool fills the space evenly."""
    study = new_study()
    trials = [study.ask(SQUARE) for _ in range(8)]

    [pool] = pools(study).values()
    assert pool["members"] == [[trial.params["x"], trial.params["y"]] for trial in trials]
    for name in SQUARE:
        assert list(range(8)) == sorted(math.floor((trial.params[name] + 10) / 2.5) for trial in trials)


def test_pools_follow_the_model_and_end_when_something_is_told():
    """Each round of four is one pool, chosen with all that was told; it comes close to the optimum."""
    study = new_study(4)
    play(study, rounds=6, q=4)

    assert {4 * i: 4 for i in range(6)} == {number: len(pool["members"]) for number, pool in pools(study).items()}
    assert [None, 4, 8, 12, 16, 20] == [pool["known"] for pool in pools(study).values()]
    assert study.best_value < 0.05


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.RUNNING])
def test_a_place_that_another_trial_has_taken_is_not_handed_out(state):
    study = new_study(4)
    study.ask(SQUARE)
    x, y = pools(study)[0]["members"][2]
    value = 1.0 if state == TrialState.COMPLETE else None
    study.add_trial(create_trial(state=state, params={"x": x, "y": y}, distributions=SQUARE, value=value))

    third = study.ask(SQUARE)

    assert third.number == 2
    assert {"x": x, "y": y} != third.params
    assert sorted(pools(study)) == [0, 2]


@pytest.mark.parametrize("avoid", [True, False])
def test_a_failure_ends_a_pool_where_failures_are_avoided(avoid):
    study = new_study(4, avoid_failed=avoid)
    play(study, rounds=2, q=4)
    trials = [study.ask(SQUARE) for _ in range(2)]

    study.tell(trials[1], state=TrialState.FAIL)
    study.ask(SQUARE)

    assert sorted(pools(study)) == ([0, 4, 8, 10] if avoid else [0, 4, 8])


def test_one_trial_at_a_time_is_no_pool():
    """Where trials have run one after the other, the next is chosen for itself."""
    study = new_study(4)
    play(study, rounds=7, q=1)

    assert [4, 1, 1, 1] == [len(pool["members"]) for pool in pools(study).values()]


def test_suggestions_in_any_order_take_their_own_places():
    """Trials that suggest in the reverse order of their numbers are still one pool."""
    study = new_study(4)
    trials = [study.ask() for _ in range(4)]
    points = [[trial.suggest_float(name, -10, 10) for name in SQUARE] for trial in reversed(trials)]

    [pool] = pools(study).values()
    assert pool["members"] == points[::-1]


def test_samplers_that_share_a_storage_share_pools(tmp_path):
    """Four samplers, as in four processes, see the same pool; the next ones know what the others are running."""
    url = f"sqlite:///{tmp_path}/s.db"
    studies = [new_study(4, storage=url) for _ in range(4)]
    play(studies[0], rounds=2, q=4)
    trials = [study.ask(SQUARE) for study in studies]
    late = studies[0].ask(SQUARE)

    assert 4 == len(pools(studies[0])[8]["members"])
    assert {8, 12} == {number for number in pools(studies[0]) if number >= 8}
    points = [(t.params["x"], t.params["y"]) for t in (*trials, late)]
    assert 0.1 < min(math.dist(a, b) for i, a in enumerate(points) for b in points[:i])


def test_simultaneous_asks_take_different_places(tmp_path):
    """Those that choose at the same time, before either has stored a pool, choose the same one and share it."""
    url = f"sqlite:///{tmp_path}/s.db"
    one, other = new_study(2, storage=url), new_study(2, storage=url)
    first, second = one.ask(), other.ask()
    later = other.sampler.sample_relative(other, second._cached_frozen_trial, SQUARE)
    [pool] = pools(other).values()
    one._storage._backend.set_trial_system_attr(second._trial_id, "poolwise:pool:0", None)  # not seen by the first
    one._storage._backend.set_trial_system_attr(second._trial_id, "poolwise:params:0", None)
    earlier = one.sampler.sample_relative(one, first._cached_frozen_trial, SQUARE)

    assert pool["members"] == [list(earlier.values()), list(later.values())]


def test_the_same_seed_gives_the_same_trials_and_copies_go_on():
    """Two studies agree; a pickled sampler, or a reseeded one, chooses what the first would have chosen."""
    one, other = new_study(4), new_study(4)
    for study in (one, other):
        play(study, rounds=2, q=4)
    other.sampler = pickle.loads(pickle.dumps(copy.deepcopy(other.sampler)))  # noqa: S301
    other.sampler.reseed_rng()
    play(one, rounds=1, q=4)
    play(other, rounds=1, q=4)

    assert corners(one) == corners(other)
    assert 12 == len(set(corners(one)))


def test_without_a_seed_studies_differ():
    """The seed is the study's own."""
    studies = [optuna.create_study(sampler=PoolSampler(search_space=SQUARE)) for _ in range(2)]
    points = [study.ask(SQUARE).params for study in studies]

    assert points[0] != points[1]


def test_threads_never_run_the_same_point():
    """Four threads, one sampler."""
    study = new_study(4)
    study.optimize(lambda t: bowl({n: t.suggest_float(n, -10, 10) for n in SQUARE}), n_trials=16, n_jobs=4)

    assert 16 == len(set(corners(study)))
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def test_every_kind_of_parameter_comes_back_as_it_is():
    """Choices keep their types, steps their grid, integers are integers; also names that Poolwise would not take."""
    space = {
        "number": CategoricalDistribution([None, True, 2, 0.5, "Relu", "relu"]),
        "a `b`": IntDistribution(3, 21, step=3),
        "n": IntDistribution(1, 1000, log=True),
        "s": FloatDistribution(-0.3, 0.9, step=0.1),
        "huge": IntDistribution(0, 2**60),
        "one": FloatDistribution(1, 1),
    }
    study = new_study(8, space=space)
    trials = [study.ask(space) for _ in range(8)]

    for trial in trials:
        assert any(trial.params["number"] is choice for choice in space["number"].choices)
        assert {int, float} == {type(trial.params[name]) for name in ("a `b`", "n", "s", "huge", "one")}
        assert 0 == trial.params["a `b`"] % 3
        assert trial.params["s"] == round(trial.params["s"], 1)
    assert {"number", "a `b`", "n", "s"} == set(study.sampler.infer_relative_search_space(study, study.trials[0]))


def test_a_space_that_was_tried_to_its_end_is_tried_again():
    """Four experiments, nine trials: the first four are different, the others still valid."""
    space = {"a": CategoricalDistribution(["u", "v"]), "b": CategoricalDistribution([0, 1])}
    study = new_study(4, space=space)
    play(study, rounds=9, q=1, value=lambda params: params["b"], space=space)

    assert 4 == len({tuple(trial.params.values()) for trial in study.trials[:4]})
    assert 9 == len(study.trials)


def frozen(x, value=None, state=TrialState.COMPLETE, **others):
    return create_trial(
        params={"x": x}, distributions={"x": FloatDistribution(0, 1)}, value=value, state=state, **others
    )


def test_what_trials_say():
    """Complete trials have values, pruned ones their last or are avoided; infinite ones lie beyond the finite ones."""
    trials = [
        frozen(0.1, 3.0),
        frozen(0.2, math.inf),
        frozen(0.3, state=TrialState.PRUNED, intermediate_values={1: 9.0, 2: 5.0}),
        frozen(0.4, state=TrialState.PRUNED),
        frozen(0.5, state=TrialState.FAIL),
        frozen(0.6, 1.0, constraints={"c": 0.0, "d": 0.1}),
        frozen(0.7, 2.0, constraints={"c": 0.0}),
    ]
    frame = frame_of({"x": FloatDistribution(0, 1)})
    placed = [(trial, frame.point(trial.params)) for trial in trials]
    minimize = [optuna.study.StudyDirection.MINIMIZE]
    seen = observe(frame, placed, minimize, avoid_failed=False)

    assert [[0.1], [0.2], [0.3], [0.7]] == seen.told
    assert [-3.0, -8.0, -5.0, -2.0] == seen.values[:, 0].tolist()
    assert [[0.4], [0.6]] == seen.avoided
    assert [[0.5]] == seen.lost
    assert [[0.4], [0.5], [0.6]] == observe(frame, placed, minimize, avoid_failed=True).avoided


def test_constraints_of_a_function_are_stored():
    """As Optuna's own samplers store them; what violates one is not the best."""
    study = new_study(2, constraints_func=lambda trial: (trial.params["x"], -1.0))
    play(study, rounds=1, q=2)

    assert all({"0": trial.params["x"], "1": -1.0} == trial.constraints for trial in study.trials)
    assert study.best_params["x"] <= 0


@pytest.mark.parametrize(
    "values, replaced",
    [
        ([3.0, math.inf, 5.0, -math.inf], [3.0, 7.0, 5.0, 1.0]),
        ([-math.inf, 2e-9], [0.0, 2e-9]),
        ([math.inf, -math.inf], [1.0, -1.0]),
        ([-1e308, -math.inf, 1e308], [-1e308, -sys.float_info.max, 1e308]),
    ],
)
def test_infinite_values_lie_beyond_the_finite_ones(values, replaced):
    """So that the only good trial among them stays the best, whatever the unit."""
    assert replaced == finite(np.array(values)[:, None])[:, 0].tolist()


HALF = {"kind": CategoricalDistribution(["a", "b"]), "x": FloatDistribution(-5, 5), "z": FloatDistribution(0, 1)}


def conditional(trial):
    """A bowl whose z is suggested for one kind only, the worse one."""
    kind, x = trial.suggest_categorical("kind", ["a", "b"]), trial.suggest_float("x", -5, 5)
    return (x - 1) ** 2 + (1 + trial.suggest_float("z", 0, 1) if kind == "a" else 0)


def test_a_parameter_that_some_trials_lack():
    """Those count with what was chosen for it: the model learns from them, and no point is tried for ever."""
    study = new_study(1, seed=2, space=HALF)
    study.optimize(conditional, n_trials=20)
    points = [tuple(trial.params.values()) for trial in study.trials]

    assert study.best_value < 1e-3
    assert max(points.count(point) for point in points) < 7


def test_where_trials_lie():
    """By what was chosen for what they lack, else in its middle; nowhere while they run, or with nothing in common."""
    frame = frame_of(HALF)
    chosen = {"poolwise:params:0": json.dumps({"space": frame.mark, "point": [1, 2.0, 0.9]})}
    some = {"params": {"kind": "b", "x": 3.0}, "distributions": {name: HALF[name] for name in ("kind", "x")}}
    other = {"params": {"x0": 3.0}, "distributions": {"x0": HALF["x"]}}

    assert [1, 3.0, 0.9] == point_of(create_trial(value=1.0, system_attrs=chosen, **some), frame)
    assert [1, 3.0, 0.5] == point_of(create_trial(value=1.0, **some), frame)
    assert point_of(create_trial(state=TrialState.RUNNING, **some), frame) is None
    assert point_of(create_trial(value=1.0, **other), frame) is None


def test_a_name_that_no_trial_has_is_told_once():
    """With what is missing, and what there is; trials still count."""
    study = new_study(1, space={"x": SQUARE["x"], "Y": SQUARE["y"]})
    with pytest.warns(UserWarning, match=r"none of 4 complete trials has \['Y'\]; they have \['x', 'y'\]") as told:
        study.optimize(lambda t: bowl({n: t.suggest_float(n, -10, 10) for n in SQUARE}), n_trials=8)

    assert 1 == len(told)
    assert any(pool["known"] is not None for pool in pools(study).values())


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_fixed_parameters_of_optunas_wrapper():
    """It takes its names out of the search space that it is given."""
    sampler = optuna.samplers.PartialFixedSampler({"x": 1.0}, PoolSampler(4, 0, SQUARE))
    study = optuna.create_study(sampler=sampler)
    play(study, rounds=3, q=4)

    assert {1.0} == {trial.params["x"] for trial in study.trials}
    assert 12 == len(set(corners(study)))
    assert set(SQUARE) == set(sampler._base_sampler.infer_relative_search_space(study, study.trials[0]))


def beyond(error):
    """A bowl that cannot be evaluated on the side where its optimum would be."""

    def run(trial):
        value = bowl({name: trial.suggest_float(name, -10, 10) for name in SQUARE})
        if trial.params["x"] > 1:
            raise error
        return value

    return run


def test_pruned_trials_without_a_value_are_avoided():
    """Invalid trials are pruned at once: pools keep away from where they were."""
    study = new_study(4)
    study.optimize(beyond(optuna.TrialPruned()), n_trials=24)

    assert sum(trial.state == TrialState.PRUNED for trial in study.trials) < 12


def test_failed_trials_are_not_tried_again():
    """Also where failures are ignored: otherwise the same model wants the same point for ever."""
    study = new_study(1)
    study.optimize(beyond(ValueError()), n_trials=24, catch=(ValueError,))
    points = np.array(corners(study))
    apart = np.abs(points[:, None, :] - points[None, :, :]).max(axis=2) + np.eye(len(points))

    assert apart.min() > 1e-3


def test_more_trials_in_any_order_than_one_pool_holds():
    """They choose anew where all places of a pool are taken."""
    study = new_study(8)
    trials = [study.ask() for _ in range(100)]
    points = [tuple(trial.suggest_float(name, -10, 10) for name in SQUARE) for trial in reversed(trials)]

    assert 100 == len(set(points))


def test_chebyshev_prefers_the_front_where_its_weights_point():
    """The best of a weighing is on the Pareto front; equal weights prefer its middle, others its ends."""
    angles = np.linspace(0, np.pi / 2, 21)
    front = np.stack([np.cos(angles), np.sin(angles)], axis=1) - 1
    values = np.concatenate([front, 0.9 * front - 0.3])

    assert [True] * 21 + [False] * 21 == pareto(values).tolist()
    assert 10 == np.argmax(chebyshev(values, np.array([0.5, 0.5])))
    assert np.argmax(chebyshev(values, np.array([0.95, 0.05]))) < 5
    assert np.argmax(chebyshev(values * 1e6, np.array([0.05, 0.95]))) in range(16, 21)


@pytest.mark.slow
def test_several_objectives_spread_over_the_front():
    """Two bowls: after four pools, trials lie near the line between their centres, and all along it."""
    space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    sampler = PoolSampler(8, 0, space)
    study = optuna.create_study(sampler=sampler, directions=["minimize", "maximize"])
    for _ in range(4):
        for trial in [study.ask(space) for _ in range(8)]:
            x, y = trial.params["x"], trial.params["y"]
            study.tell(trial, (((x - 0.2) ** 2 + (y - 0.5) ** 2), -((x - 0.8) ** 2 + (y - 0.5) ** 2)))

    near = [t.params["x"] for t in study.trials[8:] if abs(t.params["y"] - 0.5) < 0.1 and 0.1 < t.params["x"] < 0.9]
    assert len(near) >= 12
    assert max(near) - min(near) > 0.4


def test_a_margin_is_what_the_model_predicts():
    """Means and deviations agree with the model's to the noise that keeps its matrix invertible."""
    space = Space({"x0": Float(0, 1), "x1": Float(0, 1)})
    U = space.sample(20, seed=1)
    rows = zip(space.decode_many(U), 3 * np.cos(6 * U.sum(axis=1)) + 1, strict=True)
    plain = Definition(space, "margin", "maximize", settings=Settings(warp=False))  # as margins are learned
    model = learn(plain, [Trial(0, row, "told", MOMENT, float(y)) for row, y in rows])
    at = space.sample(50, seed=2)
    mean, deviation = model.at(at)

    assert 1e-3 > np.abs(margin_of(model).score(at, 0.0) - mean).max()
    assert 1e-3 > np.abs(margin_of(model).score(at, 2.0) - (mean - 2 * deviation)).max()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["function", "trial"])
def test_constraints_are_learned(given):
    """The best feasible point is on the edge of what is allowed; it is found, and clear violations become rare."""

    def violation(params):
        return 3.0 - params["x"] - params["y"]

    options = {"constraints_func": lambda t: (violation(t.params), -1.0)} if given == "function" else {}
    clear, bests = 0, []
    for seed in range(3):
        study = new_study(4, seed=seed, **options)
        for _ in range(8):
            for trial in [study.ask(SQUARE) for _ in range(4)]:
                if given == "trial":
                    trial.set_constraint("c", violation(trial.params))
                study.tell(trial, trial.params["x"] ** 2 + trial.params["y"] ** 2)
        bests.append(study.best_value)
        clear += sum(violation(trial.params) > 0.1 for trial in study.trials[16:])

    assert 4.5 <= min(bests) and max(bests) < 4.7
    assert np.median(bests) < 4.6
    assert clear <= 3 * 16 / 6


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"q": 0}, "q: expected a whole number, 1 or more, got 0"),
        ({"seed": -1}, "seed: expected"),
        ({"q": True}, "q: expected"),
        ({"n_startup_trials": 1.5}, "n_startup_trials: expected"),
    ],
)
def test_wrong_arguments_are_told(arguments, words):
    """With their name and what to change."""
    with pytest.raises(InputError, match=words):
        PoolSampler(**arguments)


def test_numbers_of_numpy_are_taken():
    """Seeds often come from an array."""
    one, other = new_study(np.int64(4), seed=np.uint32(3)), new_study(4, seed=3)
    for study in (one, other):
        study.ask(SQUARE)

    assert corners(one) == corners(other)


def test_distributions_that_have_no_parameter():
    """Fixed ones, and those beyond what a space can hold, are left to the independent sampler."""
    assert parameter_of(FloatDistribution(1.0, 1.0000001, log=True)) is None
    assert parameter_of(FloatDistribution(-1e300, 1e300)) is None
    assert parameter_of(CategoricalDistribution(["a"])) is None
    assert Choice([0, 1]) == parameter_of(CategoricalDistribution(["a", math.nan]))
    assert frame_of({"c": CategoricalDistribution(["a"])}) is None


def test_a_missing_optuna_is_told():
    """The message is the pip line."""
    code = "import sys; sys.modules['optuna'] = None\nimport poolwise.adapters.optuna"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "pip install 'poolwise[optuna]'" in done.stderr.splitlines()[-1]


@pytest.fixture
def exported(tmp_path):
    """A study with a trial of every state, and where its copy goes."""
    space = {"x": Float(0, 1, step=0.25), "n": Int(1, 8, log=True), "kind": Choice(["a", None]), "fixed": 3}
    study = Study(space=space, constraints=["x * n <= 6"], maximize="gain", name="lab")
    told, failed, pending = study.ask(3)
    study.tell(told, 2.5, 0.1)
    study.fail(failed, "out of memory")
    study.add({"x": 0.3, "n": 9, "kind": "a"}, 4.0)
    return study, f"sqlite:///{tmp_path}/optuna.db", pending


def test_export_shows_every_trial(exported):
    """States, values, parameters, distributions and reasons are those of the study."""
    study, storage, _ = exported
    to_optuna(study, storage)
    copied = optuna.load_study(study_name="lab", storage=storage)

    assert ["COMPLETE", "FAIL", "RUNNING", "COMPLETE"] == [trial.state.name for trial in copied.trials]
    assert [trial.params for trial in study.trials] == [trial.params for trial in copied.trials]
    assert (4.0, ["gain"]) == (copied.best_value, copied.metric_names)
    assert {"pool": 0, "reason": "out of memory"} == copied.trials[1].user_attrs
    assert {"pool": 0, "sem": 0.1} == copied.trials[0].user_attrs
    assert FloatDistribution(0, 1, step=0.25) == copied.trials[0].distributions["x"]
    assert IntDistribution(1, 9, log=True) == copied.trials[3].distributions["n"]
    assert ["x * n <= 6"] == copied.user_attrs["constraints"]


def test_a_value_between_whole_numbers_is_a_note(exported):
    """Optuna has no range that holds it; a study does, for an added trial."""
    study, storage, _ = exported
    study.add({"x": 0.3, "n": 3.5, "kind": "a"}, 1.0)
    copied = to_optuna(study, storage).trials[-1]

    assert "n" not in copied.params
    assert 3.5 == copied.user_attrs["n"]


def test_a_second_export_adds_what_is_new(exported):
    """What was running is finished, new trials follow, the rest stays; what was replaced is a conflict."""
    study, storage, pending = exported
    to_optuna(study, storage)
    study.fail(pending, "power cut")
    study.ask(1)
    copied = to_optuna(study, storage)
    again = to_optuna(study, storage)

    assert ["COMPLETE", "FAIL", "FAIL", "COMPLETE", "RUNNING"] == [trial.state.name for trial in copied.trials]
    assert "power cut" == copied.trials[2].user_attrs["reason"]
    assert 5 == len(again.trials)
    study.tell(0, 7.0, replace=True)
    with pytest.raises(ConflictError, match=r"trial 0: was exported as COMPLETE with \[2.5\]"):
        to_optuna(study, storage)
    assert 7.0 == to_optuna(study, storage, name="lab-2").trials[0].value


def test_export_leaves_other_studies_alone(exported):
    """A study of that name that is not this one's copy is not written to."""
    study, storage, _ = exported
    other = optuna.create_study(study_name="lab", storage=storage, direction="maximize")
    other.add_trial(create_trial(value=1.0))

    with pytest.raises(ConflictError, match="another one of that name; give name="):
        to_optuna(study, storage)
    assert 1 == len(other.trials)


def test_export_of_another_study_of_the_same_name(exported):
    """Studies in memory have the same address; their parameters tell them apart."""
    study, storage, _ = exported
    to_optuna(study, storage)
    other = Study(space=study.space, maximize="gain", name="lab", seed=1)
    other.ask(1)

    with pytest.raises(ConflictError, match="this is another study of the same name"):
        to_optuna(other, storage)


def test_steps_that_do_not_divide_their_range():
    """The last value is the largest one below high, and Optuna has nothing to warn of."""
    distribution = distribution_of(Float(0, 1, step=0.3))

    assert FloatDistribution(0, 0.9, step=0.3) == distribution


def test_the_example_runs():
    """Its first pool; more of it in the slow test of processes."""
    done = subprocess.run([sys.executable, str(EXAMPLE), "--trials", "4"], capture_output=True, text=True, check=True)

    assert "4 trials, error 0." in done.stdout


@pytest.mark.slow
def test_processes_share_a_study(tmp_path):
    """Three processes on one storage: no point twice, none lost, and the model is used."""
    command = [sys.executable, str(EXAMPLE), "--trials", "12", "--storage", f"sqlite:///{tmp_path}/wine.db"]
    first = subprocess.run([*command[:3], "1", *command[4:]], check=True)  # makes the tables
    workers = [subprocess.Popen(command) for _ in range(3)]
    codes = [worker.wait() for worker in workers]
    study = optuna.load_study(study_name="wine", storage=command[-1])

    assert [0, 0, 0, 0] == [first.returncode, *codes]
    assert 37 == len({tuple(trial.params.values()) for trial in study.trials})
    assert any(pool["known"] is not None for pool in pools(study).values())
