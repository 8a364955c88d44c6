from __future__ import annotations

from typing import Any

from kveval.config.sweep import SweepConfig, validate_config

MINIMAL: dict[str, Any] = {"model": "m", "variants": ["bf16"], "tasks": ["t"], "context_lengths": [512]}


def config(**changes: Any) -> SweepConfig:
    return validate_config(MINIMAL | changes)


def test_a_run_keeps_no_secret_of_the_environment() -> None:
    env = {
        "HF_TOKEN": "s3cret", "MY_API_KEY": "s3cret", "API_KEY_FILE": "s3cret", "SECRET_OF_MINE": "s3cret",
        "DB_PASS": "s3cret", "DB_URL": "postgres://u:s3cr@t@h/x", "INDEX": "https://s3cret@a/b,https://c:s3cret@d/e@f",
        "TOKENIZERS_PARALLELISM": "false", "HF_ENDPOINT": "https://host:8000/a@b",
    }  # fmt: skip
    made = config(engine={"env": env}, variants=[{"name": "bf16", "kv_cache_dtype": "bfloat16", "env": env}])
    kept = {
        "HF_TOKEN": "(hidden)", "MY_API_KEY": "(hidden)", "API_KEY_FILE": "(hidden)", "SECRET_OF_MINE": "(hidden)",
        "DB_PASS": "(hidden)", "DB_URL": "postgres://(hidden)@h/x",
        "INDEX": "https://(hidden)@a/b,https://(hidden)@d/e@f",
        "TOKENIZERS_PARALLELISM": "false", "HF_ENDPOINT": "https://host:8000/a@b",
    }  # fmt: skip
    stored = made.model_dump(mode="json")
    assert stored["engine"]["env"] == stored["variants"][0]["env"] == kept
    assert made.engine.env == made.variants[0].env == env
