"""Build the compiled kernels: a table of extensions, flags by compiler, switches for tests."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def switched_on(name: str) -> bool:
    """Whether an environment variable asks for a variant of the build."""
    return os.environ.get(name, "0") not in ("", "0")


DEBUG = switched_on("HYBRIDTREES_DEBUG")
NO_OPENMP = switched_on("HYBRIDTREES_NO_OPENMP")
SANITIZE = switched_on("HYBRIDTREES_SANITIZE")

# module -> uses OpenMP
EXTENSIONS = {
    "hybridtrees.core.base._types": False,
    "hybridtrees.core.base._threads": True,
    "hybridtrees.core.bins._sketch": True,
    "hybridtrees.core.bins._bins": True,
    "hybridtrees.core.search._histogram": True,
    "hybridtrees.core.search._split": True,
    "hybridtrees.core.search._sorted": True,
    "hybridtrees.core.search._criteria": False,
    "hybridtrees.core.search._search": True,
    "hybridtrees.core.search._sorted_search": True,
    "hybridtrees.core.search._drawn_search": False,
    "hybridtrees.core.search._histogram_search": True,
    "hybridtrees.core.search._block_search": False,
    "hybridtrees.core.search.lines._linear_tree_fit": False,
    "hybridtrees.core.search.lines._linear_tree_search": True,
    "hybridtrees.core.search.lines._piecewise_scan": False,
    "hybridtrees.core.search.lines._piecewise_search": True,
    "hybridtrees.core.grow._grow": True,
    "hybridtrees.core.grow._leaf_passes": True,
    "hybridtrees.core.tree._layout": False,
    "hybridtrees.core.tree._predict": True,
    "hybridtrees.core.tree._packed": True,
    "hybridtrees.core.tree._shap": True,
    "hybridtrees.core.tree._walk": True,
    "hybridtrees.losses._kernels": True,
    "hybridtrees.linear._descent": False,
    "hybridtrees.linear._passes": True,
}

# One module holds the run-time code of Cython (memoryviews and the like) for all the others.
SHARED = "hybridtrees._cython_runtime"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "nonecheck": False,  # a check for None needs the GIL, which the kernels do not have
    "cdivision": True,
    "embedsignature": True,
    # True of every module: kernels work without the GIL anyway, on objects that belong to one fit
    # or are not written to any more (trees, bins). Variables of a module are constants, written
    # when it is loaded, apart from scratch memory (`_sketch.pyx`) and flags (`interrupt.h`,
    # `start_threads.h`), of which each thread has its own, and the width of vectors, for which
    # every thread finds the same number.
    "freethreading_compatible": True,
}

# Contraction to fused multiply-add is off so that a model does not depend on the vector
# width that the loop happened to be compiled for.
# Kernels with checks are for tests, and compile in half the time with less effort.
UNIX_FLAGS = [
    "-O1" if DEBUG or SANITIZE else "-O3",
    "-g0",  # a quarter less time to compile; names of functions stay
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
]
if DEBUG:
    # Newer compilers stop at these by themselves.
    UNIX_FLAGS += ["-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration"]
# The first finding of either sanitizer ends the process: a test run cannot pass over it.
SANITIZE_FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
if SANITIZE:
    UNIX_FLAGS += [*SANITIZE_FLAGS, "-fno-omit-frame-pointer"]
MSVC_FLAGS = ["/O2", "/fp:precise", "/std:c11"]

SERIAL_BUILD = """
***************************************************************************
hybridtrees: the compiler cannot build OpenMP programs. The package is built
SERIAL: every result is the same, but n_jobs has no effect on speed. Install
the OpenMP runtime of your compiler (libomp for clang) and reinstall.
***************************************************************************
"""


def openmp_flags(compiler_type: str, compiler: list[str]) -> tuple[list[str], list[str]] | None:
    """(compile, link) flags with which a small OpenMP program builds, or None."""
    if compiler_type == "msvc":
        return ["/openmp"], []
    if sys.platform == "darwin":
        candidates = [(["-Xpreprocessor", "-fopenmp"], ["-lomp"]), (["-fopenmp"], ["-fopenmp"])]
    else:
        candidates = [(["-fopenmp"], ["-fopenmp"])]
    program = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    for compile_args, link_args in candidates:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(program)
            command = [*compiler, *compile_args, str(source), "-o", str(Path(folder, "probe"))]
            try:
                done = subprocess.run([*command, *link_args], capture_output=True, check=False)
            except OSError:  # no such compiler: the build itself will say so
                return None
            if done.returncode == 0:
                return compile_args, link_args
    return None


class BuildExtensions(build_ext):
    """Translate to C, choose the flags once the compiler is known, and compile on all cores."""

    def finalize_options(self):
        """Set the number of compilers here: an editable install forgets the options of setup."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        """Translate, add the flags, then build. A source archive or metadata need none of it."""
        translated = cythonize(
            self.extensions,
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            build_dir="build/cython-debug" if DEBUG else "build/cython",
            # Elsewhere new processes would run this file again.
            nthreads=os.cpu_count() if sys.platform == "linux" else 0,
        )
        for extension, c in zip(self.extensions, translated, strict=True):
            assert extension.name == c.name
            extension.sources = c.sources
        kind = self.compiler.compiler_type
        openmp = None
        if not NO_OPENMP:
            command = [*getattr(self.compiler, "compiler_so", ["cc"])]
            openmp = openmp_flags(kind, command + os.environ.get("LDFLAGS", "").split())
        if openmp is None:
            print(SERIAL_BUILD, file=sys.stderr)
        for extension in self.extensions:
            extension.extra_compile_args += MSVC_FLAGS if kind == "msvc" else UNIX_FLAGS
            if SANITIZE:
                extension.extra_link_args += SANITIZE_FLAGS
            if openmp is not None and EXTENSIONS.get(extension.name, False):
                extension.extra_compile_args += openmp[0]
                extension.extra_link_args += openmp[1]
        super().build_extensions()


def build_mode_stamp() -> str:
    """Touch a file whose time changes when the mode does, so that switching modes rebuilds."""
    stamp = Path("build", "mode.txt")
    stamp.parent.mkdir(exist_ok=True)
    mode = f"debug={DEBUG} no_openmp={NO_OPENMP} sanitize={SANITIZE}\n"
    if not stamp.exists() or stamp.read_text() != mode:
        stamp.write_text(mode)
    return str(stamp)


def extensions() -> list[Extension]:
    """Return the table above as Extension objects, each depending on the shared headers."""
    shared = [build_mode_stamp(), *map(str, Path("hybridtrees").rglob("*.pxd"))]
    shared += map(str, Path("hybridtrees").rglob("*.h"))
    macros = [("HYBRIDTREES_DEBUG", "1")] if DEBUG else []
    return [
        Extension(
            name,
            [name.replace(".", "/") + ".pyx"],
            depends=shared,
            include_dirs=[
                f"hybridtrees/{folder}"
                for folder in ("core/base/simd", "core/tree", "losses", "linear")
            ],
            define_macros=macros,
        )
        for name in EXTENSIONS
    ] + [Extension(SHARED, [], depends=shared[:1])]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExtensions})
