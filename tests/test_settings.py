"""Settings from the environment and from arguments; errors name the invalid one."""

import os

import pytest

import polyseme
from polyseme.settings import PREFIX, SettingError, Settings, default_models_dir, unknown_variables


def settings(monkeypatch, **variables):
    for name, value in variables.items():
        monkeypatch.setenv(PREFIX + name.upper(), value)
    return Settings()


def test_an_empty_variable_counts_as_unset(monkeypatch):
    plain = Settings()
    assert settings(monkeypatch, **dict.fromkeys(Settings.model_fields, "")) == plain


def test_keys_are_separated_by_commas_and_not_in_the_repr(monkeypatch):
    made = settings(monkeypatch, api_keys=" k3y-a, k3y-b ,,")
    assert [key.get_secret_value() for key in made.api_keys] == ["k3y-a", "k3y-b"]
    assert "k3y" not in repr(made)


def test_there_is_a_worker_for_each_usable_processor_by_default(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert Settings().workers == 3
    assert settings(monkeypatch, workers="7").workers == 7


def test_models_are_in_the_users_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_models_dir() == tmp_path / "polyseme" / "models"
    assert Settings().models_dir == default_models_dir()
    assert not Settings().models_dir.exists()
    assert settings(monkeypatch, models_dir=str(tmp_path)).models_dir == tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"),
        ("workers", "0"),
        ("models_dir", "no/such/folder"),
        ("model", "../up"),
        ("rate_limit", "sometimes"),
        ("rate_limit", "0/minute"),
        ("rate_limit", "1/99999999999years"),
        *(("rate_limit", rate) for rate in ("0s/minute", "5s", "5s/eternity", "1/s")),
        ("rate_limit_storage", "memcached://localhost"),
        ("rate_limit_storage", "redis://localhost:port/0"),
        ("rate_limit_storage", "redis://localhost/0?nonsense=1"),
        ("otlp_endpoint", "collector:4318"),
        ("otlp_endpoint", "grpc://collector:4317"),
        ("otlp_endpoint", "http://"),
        ("max_tokens", "many"),
    ],
)
def test_the_error_of_an_invalid_variable_has_its_name(monkeypatch, name, value):
    with pytest.raises(SettingError, match=f"^POLYSEME_{name.upper()}: ") as caught:
        settings(monkeypatch, **{name: value})
    assert caught.value.name == name


def test_an_argument_overrides_a_variable_and_its_error_has_its_name(monkeypatch):
    monkeypatch.setenv("POLYSEME_PORT", "1")
    assert Settings(port=2, max_tokens=5).port == 2
    assert Settings(max_tokens=5).limits().max_tokens == 5
    with pytest.raises(SettingError, match=r"^port: must be at most 65535\.$"):
        Settings(port=70_000)
    with pytest.raises(SettingError, match=r"^models_dir: must be an existing folder\.$"):
        polyseme.load(models_dir="no/such/folder")


def test_the_warning_of_an_unknown_variable_suggests_the_most_similar_one(monkeypatch):
    for name in ("POLYSEME_MODLE", "polyseme_zzz", "POLYSEME_MODEL", "POLYSEME_API_KEY"):
        monkeypatch.setenv(name, "x")
    assert unknown_variables() == [
        "POLYSEME_MODLE is not a setting; did you mean `POLYSEME_MODEL`?",
        "polyseme_zzz is not a setting.",
    ]
    monkeypatch.delenv("POLYSEME_MODEL")
    monkeypatch.delenv("polyseme_zzz")
    with pytest.warns(UserWarning, match="POLYSEME_MODLE is not a setting"):
        polyseme.load()


def test_traces_without_their_extra_name_its_install_command(monkeypatch):
    monkeypatch.setattr("polyseme.settings.find_spec", lambda _: None)
    with pytest.raises(SettingError, match=r"pip install 'polyseme\[telemetry\]'\.$"):
        Settings(otlp_endpoint="http://127.0.0.1:9")
