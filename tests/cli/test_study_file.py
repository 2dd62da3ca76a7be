"""The study file: every mistake is an error that names the file, the key and the remedy."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolwise.cli.command import FileError
from poolwise.cli.study_file import KEYS, load
from poolwise.cli.template import Answers, text
from poolwise.study.definition import Settings
from poolwise.study.engine import path_of

LINE = 'minimize = "loss"\n[space.x]\ntype = "float"\nlow = 0\nhigh = 1\n'


def put(folder, content, name="study.toml"):
    path = folder / name
    path.write_text(content)
    return path


def test_a_small_file_is_enough(tmp_path):
    """A direction and a space; the database lies beside the file, whatever the current folder is."""
    file = load(put(tmp_path, LINE, "tune.toml"))

    assert ("study", 4, None, "loss") == (file.name, file.q, file.trials, file.objective)
    assert tmp_path / "tune.db" == path_of(file.url)


def test_everything_is_read(tmp_path):
    """Each key comes where it belongs."""
    content = """
        name = "all"
        url = "sqlite:///other.db"
        maximize = "yield"
        q = 3
        trials = 9
        seed = 7
        timeout = 2.5
        asynchronous = true
        command = ["prog", "{x}"]
        constraints = ["x < 0.5"]
        [space]
        fixed = 3
        [space.x]
        type = "float"
        low = 0
        high = 1
        [settings]
        acquisition = "ei"
    """
    file = load(put(tmp_path, content))

    assert ("all", 3, 9, 7, 2.5, True) == (file.name, file.q, file.trials, file.seed, file.timeout, file.asynchronous)
    assert (("prog", "{x}"), ("fixed", "x"), ("x < 0.5",)) == (file.command, file.space.names, file.space.constraints)
    assert Settings(acquisition="ei") == file.settings
    assert tmp_path / "other.db" == path_of(file.url)


def test_json_says_the_same(tmp_path):
    """A file that ends in .json has the same keys."""
    content = {"minimize": "loss", "space": {"x": {"type": "float", "low": 0, "high": 1}}}
    file = load(put(tmp_path, json.dumps(content), "study.json"))

    assert load(put(tmp_path, LINE)).space == file.space


@pytest.mark.parametrize(
    "content, words",
    [
        ("minimise = 'loss'\n" + LINE, ["minimise: unknown key", "Did you mean 'minimize'?"]),
        (LINE.replace("minimize", "maximize", 1).replace("maximize", "# ", 1), ["which way is better"]),
        ('maximize = "y"\n' + LINE, ["which way is better, once"]),
        ("q = 0\n" + LINE, ["q: expected a whole number, 1 or more, got 0"]),
        ("q = true\n" + LINE, ["q: expected a whole number", "got true"]),
        ("trials = '12'\n" + LINE, ['trials: expected a whole number, 1 or more, got "12"']),
        ("timeout = 0\n" + LINE, ["timeout: expected seconds"]),
        ("command = 'rm -rf /'\n" + LINE, ["command: expected a list of texts"]),
        ("function = 'os:system'\n" + LINE, ["function: unknown key"]),
        ("name = '../up'\n" + LINE, ["name: use 1 to 128 letters"]),
        (LINE.replace("loss", "state"), ["the objective's name"]),
        (LINE.replace('"float"', '"flaot"'), ["space.x: unknown type 'flaot'", "Did you mean 'float'?"]),
        (LINE.replace("high", "hihg"), ["space.x: unknown key 'hihg'", "Did you mean 'high'?"]),
        (LINE.replace("high = 1", "high = -1"), ["space.x: Float"]),
        (LINE + "trials = 8\n", ["unknown key 'trials'", "above the first [table]"]),
        ("constraints = ['x < y']\n" + LINE, ["constraint", "y"]),
        ('minimize = "loss"\n', ["space: has no parameters"]),
        (LINE + "[settings]\nacquisiton = 'ei'\n", ["settings.acquisiton", "Did you mean 'acquisition'?"]),
        (LINE + "[settings]\nacquisition = 'best'\n", ["settings.acquisition"]),
        ("url = 'mysql://x/y'\n" + LINE, ["url: unknown kind of database 'mysql'"]),
        ("url = 'sqlite:///a?b.db'\n" + LINE, ["url: an SQLite address is", "without '?'"]),
        ("url = 'sqlite://'\n" + LINE, ["url: a study of the command line is kept in a file"]),
        ("url_env = 'NOT_SET_ANYWHERE'\n" + LINE, ["url_env: the environment variable NOT_SET_ANYWHERE is not set"]),
        ("url_env = 'A'\nurl = 'sqlite:///a.db'\n" + LINE, ["url or url_env, not both"]),
        ("q = 1\nq = 2\n" + LINE, ["is not valid TOML"]),
    ],
)
def test_a_mistake_is_named(tmp_path, content, words):
    """The file, the key, what is wrong, and a suggestion where one is near."""
    path = put(tmp_path, content)

    with pytest.raises(FileError) as caught:
        load(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert [] == [word for word in words if word not in str(caught.value)]


@pytest.mark.parametrize("content", ["[]", "3", '{"q": 1, "q": 2}', "{", "[" * 100_000, "", "\ufeff", "{}"])
def test_no_json_is_an_error_of_ours(tmp_path, content):
    """JSON that is no study file."""
    with pytest.raises(FileError, match=r"study.json: "):
        load(put(tmp_path, content, "study.json"))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0", b"a = [", b"a" * 2_000_000, b"a = " + b"[" * 100_000, b"= 1"])
def test_no_toml_is_an_error_of_ours(tmp_path, content):
    """Bytes that are no study file."""
    path = tmp_path / "study.toml"
    path.write_bytes(content)

    with pytest.raises(FileError, match=r"study.toml: "):
        load(path)


def test_a_password_stays_out_of_the_file_and_out_of_sight(tmp_path, monkeypatch):
    """It is refused in the file, taken from the environment, and shown in neither place."""
    secret = "postgresql://me:hunter2@host/db"
    with pytest.raises(FileError, match="url_env") as caught:
        load(put(tmp_path, f"url = '{secret}'\n" + LINE))
    with pytest.raises(FileError, match="url_env"):
        load(put(tmp_path, "url = 'postgresql://host/db?password=hunter2'\n" + LINE))
    monkeypatch.setenv("STUDY_URL", secret)
    file = load(put(tmp_path, "url_env = 'STUDY_URL'\n" + LINE))

    assert ("hunter2", "host", "db") == (file.url.password, file.url.host, file.url.database)
    assert "hunter2" not in str(caught.value) + repr(file)


def test_a_file_that_is_not_there(tmp_path):
    """The message says how to make one."""
    with pytest.raises(FileError, match="poolwise init"):
        load(tmp_path / "study.toml")
    with pytest.raises(FileError, match="is a folder"):
        load(tmp_path)


def test_a_file_in_another_encoding(tmp_path):
    """The message says which is wanted."""
    (tmp_path / "study.toml").write_bytes('minimize = "Größe"'.encode("cp1252"))

    with pytest.raises(FileError, match="save it as UTF-8"):
        load(tmp_path / "study.toml")


def test_the_template_is_a_study_file(tmp_path):
    """What `init` writes can be read, with names that need quotes too."""
    space = {
        'a "b" = c': {"type": "float", "low": 1e-05, "high": 1.0, "log": True},
        "ok": {"type": "int", "low": 1, "high": 2},
    }
    answers = Answers("n", "minimize", "l\\o", 2, 8, ["p", '{a "b" = c}', "{ok}"], space)
    file = load(put(tmp_path, text(answers)))

    assert tuple(space) == file.space.names
    assert ("l\\o", 2, 8, tuple(answers.command)) == (file.minimize, file.q, file.trials, file.command)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "low", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from([*KEYS, "minimise", ""]), values, max_size=5))
def test_no_content_breaks_the_reader(tmp_path, content):
    """Whatever a file holds, it is a study or a FileError."""
    path = put(tmp_path, json.dumps(content), "study.json")
    try:
        file = load(path)
    except FileError as error:
        assert str(error).startswith(str(path))
    else:
        assert file.space.names
