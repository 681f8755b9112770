"""Names that other libraries do not promise to keep: they stand in one file, and each does what its public calls do.

A test that fails names the private name that a new version of torch, CuPy or Gymnasium lacks or has changed.
"""

import ast
import copy
import ctypes
from pathlib import Path

import gymnasium
import pytest
import torch
import torch.distributed._symmetric_memory as symmetric_memory

import gpu_vecenv
from gpu_vecenv.backend import private
from tests.devices import DEVICES

PACKAGE = Path(gpu_vecenv.__file__).parent
LIBRARIES = {"torch", "cupy", "cupy_backends", "gymnasium"}
CPU = torch.device("cpu")


def by_public_calls(make, *args):
    """Result of a function of ``private`` if every private name is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private, "_find", lambda module, name, public: public)
        patch.setattr(private, "_has", lambda value, *names: False)
        return make(*args)


def private_attributes(text):
    """Attributes with a leading underscore of objects other than the instance or class around them."""
    attributes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if node.attr[0] == "_" and ast.unparse(node.value) not in ("self", "cls", "super()")}


def private_names(text):
    """Dotted names of other libraries in a text that have a part with a leading underscore, and ``cupy_backends``."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Attribute, ast.Name)):
            found.add(ast.unparse(node).removeprefix("self._").removeprefix("self."))
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    parts = {name: name.split(".") for name in found}
    return {
        name for name, (first, *rest) in parts.items()
        if first == "cupy_backends" or (first in LIBRARIES and any(part[:1] == "_" and part[:2] != "__" for part in rest))
    }  # fmt: skip


def test_the_search_finds_private_names():
    text = "from torch.utils._pytree import tree_leaves\nimport cupy_backends\nself._torch._C._getDevice()\ntorch.__version__"
    assert private_names(text) == {"torch.utils._pytree.tree_leaves", "cupy_backends", "torch._C", "torch._C._getDevice"}


def test_private_names_stand_in_one_file():
    folders = (PACKAGE, PACKAGE.parent / "envs", PACKAGE.parent / "adapters")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    users = {path.name: private_names(path.read_text()) for path in files if path.name != "private.py"}
    assert {name: names for name, names in users.items() if names} == {}


def test_no_file_reads_private_attributes_of_tensors_modules_and_storages():
    theirs = {*dir(torch.Tensor), *dir(torch.nn.Module()), *dir(torch.UntypedStorage), *dir(gymnasium.vector.VectorEnv)}
    assert {"_version", "_forward_hooks", "_cdata", "_np_random"} <= theirs
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "private.py"]
    users = {path.name: private_attributes(path.read_text()) & theirs for path in files}
    assert {(name, each) for name, attributes in users.items() for each in attributes if not each.startswith("__")} == set()


NAMES = {
    private.norms: (), private.fused_adam: (), private.run_backward: (), private.empty_strided: (CPU,),
    private.multiples: (), private.subtract: (), private.layer_by_onednn: (), private.gradients: (),
}  # fmt: skip
ON_GPU = {private.current_device: (), private.current_stream: (), private.launch_kernel: (), private.empty_strided: ("cuda",)}


@pytest.mark.parametrize(
    ("make", "args"),
    [*NAMES.items(), *(pytest.param(*item, marks=pytest.mark.gpu) for item in ON_GPU.items())],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_this_version_has_the_private_name(monkeypatch, make, args):
    missing, find = [], private._find

    def record(module, name, public):
        if find(module, name, missing) is missing:
            missing.append(name)
        return public

    monkeypatch.setattr(private, "_find", record)
    make(*map(torch.device, args))
    assert missing == [], "private.py uses public calls instead, which are slower; find what took the place of this name"


def test_this_version_has_sums_on_symmetric_memory():
    """There are no public calls; a GPU test compares the sums with NCCL's."""
    empty, rendezvous = (getattr(symmetric_memory, name) for name in ("empty", "rendezvous"))
    assert callable(empty) and callable(rendezvous)
    arguments = torch.ops.symm_mem.one_shot_all_reduce_copy_out.default._schema.arguments
    assert [each.name for each in arguments] == ["symm_buffer", "local_input", "reduce_op", "group_name", "out"]


def test_without_symmetric_memory_there_are_no_direct_sums():
    with pytest.raises(RuntimeError, match="no sum on symmetric memory"):
        by_public_calls(private.one_shot_sum, "group", 4, CPU)


def test_norms_are_those_of_public_calls():
    tensors = [torch.randn(5, 3), torch.randn(7), torch.tensor([3.0, 4.0])]
    ours, expected = (make(tensors) for make in (private.norms(), by_public_calls(private.norms)))
    torch.testing.assert_close(list(ours), list(expected))
    assert ours[2] == 5


def test_multiples_and_differences_are_those_of_public_calls():
    tensors, factor = [torch.randn(5, 3), torch.randn(7)], torch.tensor(0.25)
    results = []
    names = private.multiples, private.subtract
    for multiples, subtract in ([make() for make in names], [by_public_calls(make) for make in names]):
        changed = [x.clone() for x in tensors]
        subtract(changed, multiples(tensors, factor))
        results.append(changed)
    torch.testing.assert_close(*results, rtol=0, atol=0)
    torch.testing.assert_close(results[0], [0.75 * x for x in tensors])


@pytest.mark.parametrize("closed", [0.0, 1.0])
@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_adam_are_those_of_public_calls(device, closed):
    generator = torch.Generator().manual_seed(0)
    start = [[torch.rand(shape, generator=generator).to(device) for shape in ((4, 3), (5,))] for _ in range(4)]
    rate, scale, flag = (torch.tensor(value, device=device) for value in (0.03, 2.5, closed))
    results = []
    for adam in (private.fused_adam(), by_public_calls(private.fused_adam)):
        parameters, gradients, first, second = copy.deepcopy(start)
        steps = [torch.zeros((), device=device) for _ in parameters]
        for _ in range(3):
            for step in steps:
                step += 1 - flag
            adam(parameters, [x.clone() for x in gradients], first, second, [], steps, lr=rate, beta1=0.9, beta2=0.999,
                 weight_decay=0.0, eps=1e-5, amsgrad=False, maximize=False, grad_scale=scale, found_inf=flag)  # fmt: skip
        results.append([*parameters, *first, *second])
    torch.testing.assert_close(*results)
    assert torch.equal(results[0][0], start[0][0]) == bool(closed)


def test_gradients_are_those_of_public_calls():
    gradients = []
    for run in (private.run_backward(), by_public_calls(private.run_backward)):
        x = torch.arange(4.0, requires_grad=True)
        for _ in range(2):  # gradients are added up
            run((x.square(), x.sum()), (torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor(10.0)))
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)
    assert gradients[0].tolist() == [20, 28, 44, 68]


def test_derivatives_are_those_of_public_calls():
    results = []
    for derive in (private.gradients(), by_public_calls(private.gradients)):
        x, y = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        results.append(derive([x * y, x.sum()], [y, x], [torch.tensor([1.0, 2.0, 3.0]), torch.tensor(10.0)]))
        assert x.grad is None
    torch.testing.assert_close(*map(list, results))
    assert results[0][1].tolist() == [10, 12, 16]


@pytest.mark.parametrize("after", ["none", "relu"])
def test_layers_by_onednn_are_those_of_public_calls(after):
    x, weight, bias = torch.randn(5, 3), torch.randn(4, 3), torch.randn(4)
    layers = private.layer_by_onednn(), by_public_calls(private.layer_by_onednn)
    for matrix, numbers in ((weight, bias), (weight.t().contiguous().t(), None)):
        found, want = (layer(x, matrix, numbers, after, [], "") for layer in layers)
        torch.testing.assert_close(found, want)
        assert bool((found < 0).any()) == (after == "none")


def test_changes_in_place_are_seen_by_public_calls():
    for version in (private.version(), by_public_calls(private.version)):
        x = torch.zeros(3)
        before = version(x)
        assert version(x) == before
        x += 1
        assert version(x) != before


def test_layers_compute_what_they_do_by_public_calls():
    layers, x, seen = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)), torch.randn(5, 3), []
    call, public = private.call_layers(lambda *_: None), by_public_calls(private.call_layers, lambda *_: None)
    assert call.__name__ == "call", "a module of torch has lost one of its attributes for functions that are attached to it"
    assert torch.equal(call(layers, x), public(layers, x))
    assert not any(map(private.has_functions(), layers)) and by_public_calls(private.has_functions)(layers[0])
    layers[0].register_forward_hook(lambda *_: seen.append(1))
    assert [*map(private.has_functions(), layers)] == [True, False, False]
    call(layers, x)
    assert seen == [1]


@pytest.mark.parametrize("device", DEVICES)
def test_new_tensors_are_those_of_public_calls(device):
    device = torch.device(device)
    for make in (private.empty_strided(device), by_public_calls(private.empty_strided, device)):
        made = make((2, 3), (3, 1), torch.int16)
        assert (made.shape, made.stride(), made.dtype, made.device) == ((2, 3), (3, 1), torch.int16, device)


def test_each_operation_is_run_by_the_function():
    seen = []

    def run(operation, arguments, keywords):
        seen.append(str(operation))
        return operation(*arguments, **keywords)

    x = torch.ones(3, requires_grad=True)
    with private.each_operation(run):
        private.run_backward()(((x * 2).sum(),), (torch.tensor(1.0),))
    assert {"aten.mul.Tensor", "aten.sum.default", "aten.expand.default"} <= set(seen)


@pytest.mark.parametrize("make", [lambda: gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu").unwrapped])
def test_copies_draw_what_their_original_draws(make):
    for generator_of in (private.generator_of, lambda env: by_public_calls(private.generator_of, env)):
        env, other = make(), make()
        env.reset(seed=3)
        for name, value in copy.deepcopy(generator_of(env)).items():
            setattr(other, name, value)
        assert env.np_random.integers(2**60) == other.np_random.integers(2**60)
    assert set(private.generator_of(env)) == {"_np_random", "_np_random_seed"}, "Gymnasium's class has lost one of the attributes"


@pytest.mark.gpu
def test_the_current_device_and_stream_are_those_of_public_calls():
    torch.zeros(1, device="cuda")
    stream = torch.cuda.Stream()
    for context in (torch.cuda.stream(stream), torch.cuda.stream(torch.cuda.default_stream())):
        with context:
            index = private.current_device()()
            assert index == by_public_calls(private.current_device)()
            assert private.current_stream()(index) == by_public_calls(private.current_stream)(index)


@pytest.mark.gpu
def test_launches_are_those_of_public_calls():
    import cupy

    kernel = cupy.RawModule(code='extern "C" __global__ void add(int* x) { atomicAdd(x, 1); }').get_function("add").kernel.ptr
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    address = ctypes.c_void_p(x.data_ptr())
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    stream = torch.cuda.current_stream().cuda_stream
    for launch in (private.launch_kernel(), by_public_calls(private.launch_kernel)):
        launch(kernel, 2, 1, 1, 32, 1, 1, 0, stream, ctypes.addressof(pointers), 0)
    assert x.item() == 128
