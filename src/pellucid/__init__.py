"""pellucid: train transformer language models you can see through.

    run = pellucid.load("runs/my-run")         # a trained run: run.model, run.tokenizer
    pellucid.train(["my-text.txt"])            # the same thing as `pellucid train my-text.txt`

Names are loaded when first used, so that `import pellucid.maths` does not load torch.
"""

from pellucid.version import __version__

# Nothing of the standard library is imported here: with `python -m pellucid` that would look in the
# working folder first, and only `__main__` takes it off the path.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pellucid import diagnosis
    from pellucid.errors import (
        CheckpointError,
        ConfigError,
        Interrupted,
        MathsError,
        NonFiniteError,
        PellucidError,
        RunError,
        TextError,
    )
    from pellucid.explain import film, trace
    from pellucid.lab import compare
    from pellucid.runs import Run, classify, embed, evaluate, fill, generate, load, resume, train

_ROOM_OF = {
    "CheckpointError": "errors",
    "ConfigError": "errors",
    "Interrupted": "errors",
    "MathsError": "errors",
    "NonFiniteError": "errors",
    "PellucidError": "errors",
    "Run": "runs",
    "RunError": "errors",
    "TextError": "errors",
    "classify": "runs",
    "compare": "lab",
    "embed": "runs",
    "evaluate": "runs",
    "fill": "runs",
    "film": "explain",
    "generate": "runs",
    "load": "runs",
    "resume": "runs",
    "trace": "explain",
    "train": "runs",
}

#: What a notebook shows with pictures: `web` draws them.
_SHOWN = ("load", "resume", "trace", "train")

#: Rooms under their own name: `pellucid.diagnosis.check(model)`.
_ROOMS = ("diagnosis",)

#: The public API under semantic versioning. Rooms are public too, as far as their own `__all__`.
__all__ = [
    "CheckpointError",
    "ConfigError",
    "Interrupted",
    "MathsError",
    "NonFiniteError",
    "PellucidError",
    "Run",
    "RunError",
    "TextError",
    "__version__",
    "classify",
    "compare",
    "diagnosis",
    "embed",
    "evaluate",
    "fill",
    "film",
    "generate",
    "load",
    "resume",
    "trace",
    "train",
]


def __getattr__(name: str) -> object:
    if name in _ROOM_OF:
        import sys
        from importlib import import_module

        from pellucid.cores import let_waiting_threads_sleep, warn_of_spinning

        if "torch" not in sys.modules:
            let_waiting_threads_sleep()
        elif name in ("resume", "train"):
            warn_of_spinning()
        if name == "trace" or (name in _SHOWN and "IPython" in sys.modules):
            import_module("pellucid.web.notebook")
        return getattr(import_module(f"pellucid.{_ROOM_OF[name]}"), name)
    if name in _ROOMS:
        from importlib import import_module

        return import_module(f"pellucid.{name}")
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
