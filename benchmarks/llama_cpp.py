"""llama.cpp by its C API, called in a loop from C, without a binding in between.

Comes in: a GGUF file; where llama.cpp is, as an installed llama-cpp-python or a checkout that was
built. Goes out: a function that writes tokens. If llama.cpp or a C compiler is missing, it says so.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("llama_loop.c")


class Place(NamedTuple):
    """Where a built llama.cpp is: the folders of its headers, and its library."""

    headers: tuple[Path, ...]
    library: Path


def place_of(checkout: Path | None) -> Place | str:
    """Where llama.cpp is; or why it is left out.

    `checkout` is a folder of llama.cpp, built (`cmake -B build && cmake --build build -t llama`);
    None takes llama-cpp-python where it is installed.
    """
    root = checkout if checkout is not None else _installed()
    if root is None:
        return "llama-cpp-python is not installed, and --llama-cpp names no checkout"
    headers = {file.parent for name in ("llama.h", "ggml-backend.h") for file in root.rglob(name)}
    libraries = [*root.rglob("libllama.so"), *root.rglob("libllama.dylib")]
    if not libraries:
        return f"there is no built libllama in {root}: cmake -B build && cmake --build build"
    if not any((folder / "llama.h").is_file() for folder in headers):
        return f"there is no llama.h in {root}: name a checkout with --llama-cpp"
    return Place(tuple(sorted(headers)), libraries[0])


def _installed() -> Path | None:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        return None
    # its wheel puts the headers next to the package
    package = Path(spec.origin).parent
    return package.parent if (package.parent / "include" / "llama.h").is_file() else package


def built(place: Place, folder: Path) -> Path:
    """The program, compiled against that llama.cpp.

    Raises:
        SystemExit: there is no compiler, or it refuses; says what it said.
    """
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("llama.cpp is called from C, and there is no C compiler: set CC")
    program, home = folder / "llama_loop.so", place.library.parent
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(program), str(SOURCE)]
    command += [f"-I{headers}" for headers in place.headers]
    command += [f'-DLIBRARY_HOME="{home}"']
    command += [f"-L{home}", "-lllama", "-lggml", f"-Wl,-rpath,{home}", f"-Wl,-rpath-link,{home}"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"llama_loop.c does not fit this llama.cpp:\n{process.stderr}")
    return program


def writer(
    program: Path, file: Path, length: int, threads: int
) -> Callable[[Sequence[int], int], list[int]]:
    """What writes so many tokens after a prompt, the loop in C.

    Raises:
        SystemExit: llama.cpp cannot read the file, or stops in the middle.
    """
    loop = ctypes.CDLL(str(program))
    loop.writer_open.argtypes = [ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32]
    loop.writer_open.restype = ctypes.c_void_p
    int_pointer = ctypes.POINTER(ctypes.c_int32)
    loop.writer_write.argtypes = [
        ctypes.c_void_p,
        int_pointer,
        ctypes.c_int32,
        ctypes.c_int32,
        int_pointer,
    ]
    opened = loop.writer_open(str(file).encode(), length, threads)
    if opened is None:
        raise SystemExit(f"llama.cpp does not read {file}")

    def write(prompt: Sequence[int], n: int) -> list[int]:
        prompt_ids, new_ids = (ctypes.c_int32 * len(prompt))(*prompt), (ctypes.c_int32 * n)()
        count = loop.writer_write(opened, prompt_ids, len(prompt), n, new_ids)
        if count != n:
            raise SystemExit(f"llama.cpp wrote {count} of {n} tokens")
        return list(new_ids)

    return write
