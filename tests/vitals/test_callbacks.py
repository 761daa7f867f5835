"""Callbacks for trainers whose packages are not here say so, and what to do."""

from __future__ import annotations

import builtins
import importlib
import sys
from typing import Any

import pytest

from pellucid.errors import ConfigError


@pytest.mark.parametrize(
    ("module", "package"), [("huggingface", "transformers"), ("lightning", "lightning")]
)
def test_a_missing_package_is_said(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def none(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] in ("transformers", "lightning", "pytorch_lightning"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", none)
    monkeypatch.delitem(sys.modules, f"pellucid.vitals.{module}", raising=False)
    with pytest.raises(ConfigError, match=rf"pip install {package}"):
        importlib.import_module(f"pellucid.vitals.{module}")
