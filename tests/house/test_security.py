"""What SECURITY.md says about executing and unpickling holds for every module."""

import ast
from collections.abc import Iterator

import tree

# A private cache; two unpicklers of nothing but arrays: the files of CIFAR, weights with a known SHA-256.
UNPICKLERS = {"kernels.compiling", "experiments.data.files", "encoders.weights"}
RUNNERS = {"models.programs", "experiments.runs", "starting"}  # the program of a recipe; git; hedgerow itself


def calls() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(module, the function as written, its keyword arguments as written) of every call."""
    for module in tree.modules():
        for node in ast.walk(ast.parse(tree.source(module).read_text())):
            if isinstance(node, ast.Call):
                given = {one.arg or "**": ast.unparse(one.value) for one in node.keywords}
                yield module, ast.unparse(node.func), given


def test_nothing_is_unpickled_but_the_cache_of_kernels_the_files_of_cifar_and_known_weights() -> None:
    found = {module for module, name, _ in calls() if name in ("pickle.load", "pickle.loads", "pickle.Unpickler")}
    found |= {module for module in tree.modules() if "pickle.Unpickler)" in tree.source(module).read_text()}
    assert found == UNPICKLERS
    allowed = [given.get("allow_pickle") for _, name, given in calls() if name in ("np.load", "numpy.load")]
    assert allowed
    assert set(allowed) == {"False"}


def test_weights_are_read_as_weights_only() -> None:
    given = [keywords for _, name, keywords in calls() if name == "torch.load"]
    assert given
    assert all(keywords.get("weights_only") == "True" for keywords in given)


def test_programs_are_run_in_few_places_and_never_by_a_shell() -> None:
    running = [(module, given) for module, name, given in calls() if name.startswith("subprocess.")]
    assert {module for module, _ in running} == RUNNERS
    assert not any("shell" in given for _, given in running)
    assert not [name for _, name, _ in calls() if name in ("eval", "exec", "os.system", "os.popen")]


def test_the_page_names_what_it_is_about() -> None:
    text = (tree.ROOT / "SECURITY.md").read_text()
    for words in (
        "--allow-programs",
        "allow_pickle",
        "weights_only=True",
        "NUMBA_CACHE_DIR",
        "Reporting a vulnerability",
    ):
        assert words in text
