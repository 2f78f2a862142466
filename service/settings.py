"""Every setting, in one table: its name, default, bounds and help.

`POLYSEME_` + the name in upper case sets it in the environment, `--name` on `polyseme serve`;
`docs/settings.md` and `polyseme serve --help` are made from this table.
"""

import os
from pathlib import Path
from typing import Annotated

from platformdirs import user_data_path
from pydantic import DirectoryPath, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from service.encoding.limits import Limits
from service.store.manifest import NAME_PATTERN

PREFIX = "POLYSEME_"
BUNDLED = "wiki-en"


def usable_cpus() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_models_dir() -> Path:
    """Where the models of this user are, unless a setting says otherwise; it need not exist."""
    return user_data_path("polyseme", appauthor=False) / "models"


class Settings(BaseSettings):
    """The settings of a service."""

    # An empty variable is what compose files and shells leave of one that is not set.
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid"
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on")
    workers: int = Field(
        default_factory=usable_cpus,
        ge=1,
        le=256,
        description="worker processes; the default is the number of processors",
    )
    threads: int = Field(4, ge=1, le=256, description="threads of each worker")
    timeout: int = Field(
        60, ge=1, le=3600, description="seconds after which a silent worker is replaced"
    )
    graceful_timeout: int = Field(
        30, ge=0, le=3600, description="seconds to finish answers after SIGTERM"
    )
    keep_alive: int = Field(
        5, ge=0, le=3600, description="seconds an idle connection is kept for its next request"
    )
    # One that is named has to be there; the default one is used where it is.
    models_dir: DirectoryPath = Field(
        default_factory=default_models_dir,
        validate_default=False,
        description="folder of model folders, beside the bundled; the default is `polyseme/models`"
        " in the folder for this user's data",
    )
    model: str = Field(BUNDLED, pattern=NAME_PATTERN, description="name of the default model")
    verify_models: bool = Field(
        True, description="compare checksums and look for NaN when a model is loaded"
    )
    preload_models: bool = Field(
        False, description="load every model at the start, not at its first use"
    )
    max_body_bytes: int = Field(
        4 << 20, ge=1, le=1 << 30, description="largest body of a request, in bytes"
    )
    max_sentences: int = Field(
        16_384, ge=1, le=1_000_000, description="most sentences of one request"
    )
    max_sentence_tokens: int = Field(
        1024, ge=1, le=1_000_000, description="most tokens of one sentence"
    )
    max_tokens: int = Field(524_288, ge=1, le=10_000_000, description="most tokens of one request")
    max_trace_tokens: int = Field(64, ge=1, le=1024, description="most tokens of a trace")
    max_trace_bytes: int = Field(
        Limits.max_trace_bytes, ge=1, le=1 << 32, description="largest trace, in bytes"
    )
    max_answer_bytes: int = Field(4 << 30, ge=1, le=1 << 40, description="largest answer, in bytes")
    stream_bytes: int = Field(
        Limits.stream_bytes,
        ge=1,
        le=1 << 30,
        description="an answer of /v1/encode that may be larger, in bytes, is sent as it is made",
    )
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (), description="keys that open /v1, separated by commas; without any, it is open"
    )
    rate_limit: str = Field(
        "", description="most requests of one caller, such as `100/minute`; empty for no limit"
    )

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split(cls, keys: object) -> object:
        return (
            [key.strip() for key in keys.split(",") if key.strip()]
            if isinstance(keys, str)
            else keys
        )

    @field_validator("rate_limit")
    @classmethod
    def _is_a_rate(cls, rate: str) -> str:
        if rate:
            from limits import parse_many  # noqa: PLC0415 - not without a rate

            parse_many(rate)
        return rate

    def limits(self) -> Limits:
        """The limits on one request."""
        return Limits(**{name: getattr(self, name) for name in Limits.__dataclass_fields__})
