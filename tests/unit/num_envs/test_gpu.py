# SPDX-License-Identifier: BSD-3-Clause
"""GPU memory of a process tree, against a fake NVML."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from isaaclab_pc.errors import ConfigError
from isaaclab_pc.num_envs import gpu as gpu_module
from isaaclab_pc.num_envs.gpu import CudaMemory, Gpu, OwnMemory, held_by_libraries
from tests.fake_nvml import FakeGpu, FakeNvml, process
from tests.waiting import is_gone

MIB = 1 << 20


@pytest.fixture
def card(nvml: FakeNvml) -> FakeGpu:
    """The first of two GPUs, which the tests change."""
    card = FakeGpu("Fake gpu0", uuid="GPU-5a")
    nvml.gpus = [card, FakeGpu("Fake gpu1", uuid="GPU-6b")]
    return card


@pytest.fixture
def gpu(card: FakeGpu) -> Gpu:
    """That card, metered from now on."""
    return Gpu("cuda:0")


def test_memory_of_the_trees_processes_is_summed_and_its_peak_kept(card: FakeGpu, gpu: Gpu) -> None:
    card.compute = [process(7, 300 * MIB), process(99, 4000 * MIB)]
    # A process that computes and renders is in both lists.
    card.graphics = [process(7, 300 * MIB), process(8, 50 * MIB)]
    assert gpu.sample([7, 8]) == 350 * MIB
    card.compute = [process(7, 100 * MIB)]
    card.graphics = []
    assert gpu.sample([7, 8]) == 350 * MIB
    card.compute = []
    assert gpu.finish() == (350 * MIB, "process", 0)
    gpu.start()
    card.compute = [process(9, 100 * MIB)]
    assert gpu.sample([9]) == 100 * MIB, "a new tree has its own peak"


def test_a_neighbour_that_grows_outside_of_our_context_is_not_counted(card: FakeGpu, gpu: Gpu) -> None:
    card.used += 4000 * MIB
    gpu.sample([7])
    card.used += 300 * MIB
    card.compute = [process(7, 300 * MIB)]
    assert gpu.sample([7]) == 300 * MIB
    card.used += 4000 * MIB
    card.compute = []
    assert gpu.sample([7]) == 300 * MIB


@pytest.mark.parametrize("neighbour", [-500 * MIB, 2000 * MIB])
def test_a_neighbours_growth_is_taken_off(card: FakeGpu, gpu: Gpu, neighbour: int) -> None:
    card.used += neighbour + 700 * MIB
    gpu.sample([7])
    card.used -= 700 * MIB
    assert gpu.finish() == (700 * MIB, "card", neighbour)


def test_a_stranger_with_the_number_of_one_of_ours_is_not_counted(card: FakeGpu, gpu: Gpu) -> None:
    card.compute = [process(7, 4000 * MIB)]
    card.used += 4000 * MIB
    gpu.start()
    card.used += 300 * MIB
    assert gpu.sample([7]) == 300 * MIB
    card.used -= 300 * MIB
    assert gpu.finish() == (300 * MIB, "card", 0)


def test_a_process_that_outlives_the_tree_was_a_stranger(card: FakeGpu, gpu: Gpu) -> None:
    card.used += 4300 * MIB
    card.compute = [process(7, 4000 * MIB)]
    gpu.sample([7])
    card.used -= 300 * MIB
    assert gpu.finish() == (300 * MIB, "card", 4000 * MIB)


def test_memory_taken_back_late_is_ours(card: FakeGpu, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    card.used += 900 * MIB
    gpu.sample([7])

    def free_some(_: float) -> None:
        card.used = max(card.used - 300 * MIB, 1 << 30)

    monkeypatch.setattr("isaaclab_pc.num_envs.gpu.time.sleep", free_some)
    assert gpu.finish() == (900 * MIB, "card", 0)


def test_growth_of_the_device_stands_in_for_processes(card: FakeGpu, gpu: Gpu) -> None:
    card.graphics = None
    card.used += 700 * MIB
    card.compute = [process(7, None), process(1, 600 * MIB)]
    assert gpu.sample([7]) == 700 * MIB
    card.used -= 800 * MIB
    assert gpu.sample([7]) == 700 * MIB


WHOLE, DIVIDED = None, [None, FakeGpu("Fake mig1", uuid="MIG-7a"), FakeGpu("Fake mig2", uuid="MIG-7b")]


@pytest.mark.parametrize(
    ("instances", "device", "visible", "name"),
    [
        (WHOLE, "cuda", None, "gpu0"),
        (WHOLE, "cuda:1", None, "gpu1"),
        (WHOLE, "cuda:0", "1", "gpu1"),
        (WHOLE, "cuda:1", "1, 0", "gpu0"),
        (WHOLE, "cuda:0", "GPU-6b", "gpu1"),
        # CUDA shows the first instance of a divided GPU, unless another one is named.
        (DIVIDED, "cuda:0", None, "mig1"),
        (DIVIDED, "cuda:0", "0", "mig1"),
        (DIVIDED, "cuda:0", "GPU-5a", "mig1"),
        (DIVIDED, "cuda:1", "1,MIG-7b", "mig2"),
        ([], "cuda:0", None, "gpu0"),
        ([None, None], "cuda:0", None, "gpu0"),
    ],
)
def test_devices_are_counted_as_cuda_counts_them(
    monkeypatch: pytest.MonkeyPatch,
    nvml: FakeNvml,
    card: FakeGpu,
    instances: list[FakeGpu | None] | None,
    device: str,
    visible: str | None,
    name: str,
) -> None:
    card.instances = instances
    # Nobody needs to read the whole of a divided GPU.
    card.memory_error = nvml.NVMLError_NoPermission if instances is DIVIDED else None
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpu = Gpu(device)
    assert gpu.model == f"Fake {name} {8 << 30}"
    assert gpu.name == f"{gpu.model} driver 999.1"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The machine's memory, of which a GPU takes its own."""
    memory = SimpleNamespace(total=100 * MIB, available=80 * MIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return memory


def test_gpu_that_shares_the_machines_memory(nvml: FakeNvml, card: FakeGpu, machine: SimpleNamespace) -> None:
    card.memory_error = nvml.NVMLError_NotSupported
    gpu = Gpu("cuda:0")
    assert gpu.model == f"Fake gpu0 {100 * MIB}"
    assert gpu.free() == 80 * MIB

    machine.available = 50 * MIB
    card.compute = [process(7, 10 * MIB)]
    assert gpu.sample([7]) == 30 * MIB, "what the process has on the host comes out of the same memory"
    machine.available = 70 * MIB
    assert gpu.sample([7]) == 30 * MIB


def test_cuda_tells_the_memory_where_nvml_may_not(nvml: FakeNvml, card: FakeGpu) -> None:
    card.memory_error = nvml.NVMLError_NoPermission
    free = [70 * MIB]
    gpu = Gpu("cuda:0", cuda_memory=lambda: (free[0], 100 * MIB))
    assert gpu.model == f"Fake gpu0 {100 * MIB}"
    assert gpu.free() == 70 * MIB

    free[0] = 30 * MIB
    assert gpu.sample([7]) == 40 * MIB


def fake_cuda(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let children import a torch whose ``cuda.mem_get_info(device)`` has this body."""
    (folder / "torch.py").write_text(f"class cuda:\n    def mem_get_info(device):\n        {body}\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_a_child_asks_cuda(nvml: FakeNvml, card: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda(tmp_path, monkeypatch, "return {'cuda:1': (3, 7)}[device]")
    nvml.gpus = [FakeGpu(), card]
    card.memory_error = nvml.NVMLError_NoPermission
    gpu = Gpu("cuda:1")
    assert (gpu.free(), gpu.free()) == (3, 3)
    assert gpu.model == "Fake gpu0 7"

    (child,) = [one for one in psutil.Process().children() if "mem_get_info" in " ".join(one.cmdline())]
    del gpu
    assert is_gone(child.pid)


@pytest.mark.parametrize(
    "body",
    [
        "print('a library speaks', 7); return (3, 7)",
        "__import__('sys').stderr.write('x' * 200_000); return (3, 7)",
    ],
)
def test_cuda_is_heard_beside_other_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    fake_cuda(tmp_path, monkeypatch, body)
    memory = CudaMemory("cuda:0")
    assert memory.read() == memory.read() == (3, 7)


def test_cuda_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda(tmp_path, monkeypatch, "__import__('time').sleep(60)")
    monkeypatch.setattr("isaaclab_pc.num_envs.gpu._FIRST_S", 1.0)
    with pytest.raises(OSError, match="1 s"):
        CudaMemory("cuda:0").read()


UNREADABLE = r"^device=cuda:0: .*nvidia-smi -L.*num_envs"


def test_memory_that_nobody_tells_is_refused(
    nvml: FakeNvml, card: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cuda(tmp_path, monkeypatch, "raise RuntimeError('no-cuda-here')")
    card.memory_error = nvml.NVMLError_NoPermission
    with pytest.raises(ConfigError, match=UNREADABLE) as refused:
        Gpu("cuda:0")
    assert "RuntimeError: no-cuda-here" in str(refused.value)


def test_a_reading_that_blocks_is_given_up(card: FakeGpu, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isaaclab_pc.num_envs.gpu.DEADLINE_S", 0.2)
    card.blocked = threading.Event()
    try:
        for ask in (lambda: gpu.sample([7]), gpu.free, lambda: Gpu("cuda:0")):
            with pytest.raises(ConfigError, match=UNREADABLE):
                ask()
    finally:
        card.blocked.set()


def test_gpu_that_is_lost_while_it_is_metered_is_said(nvml: FakeNvml, card: FakeGpu, gpu: Gpu) -> None:
    card.memory_error = nvml.NVMLError_GpuIsLost
    with pytest.raises(ConfigError, match=UNREADABLE):
        gpu.sample([7])


@pytest.mark.parametrize(
    ("device", "visible", "has_driver"),
    [
        ("cuda:5", None, True),
        ("cuda:1", "0", True),
        ("cuda:0", "", True),
        ("cuda:0", "GPU-none", True),
        ("cuda:0", None, False),
    ],
)
def test_device_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, device: str, visible: str | None, has_driver: bool
) -> None:
    nvml.gpus = nvml.gpus if has_driver else None
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ConfigError, match=f"device={device}"):
        Gpu(device)


def test_real_library_without_a_gpu_gives_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match=UNREADABLE):
        Gpu("cuda:0")


@pytest.mark.gpu
def test_real_gpu_reports_the_memory_of_a_process() -> None:
    import torch

    gpu = Gpu("cuda:0")
    gpu.start()
    before = gpu.sample([os.getpid()])
    block = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda:0")
    assert gpu.sample([os.getpid()]) - before >= block.nbytes


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, card: FakeGpu) -> SimpleNamespace:
    """What torch and Warp tell of the GPU, and the limit that torch is given."""
    import torch
    import warp

    told = SimpleNamespace(reserved=0, reserved_peak=0, pool=0, limit=0.0)
    functions = {
        "memory_reserved": lambda device: told.reserved,
        "max_memory_reserved": lambda device: told.reserved_peak,
        "mem_get_info": lambda device: (card.total - card.used, card.total),
        "get_allocator_backend": lambda: "native",
        "set_per_process_memory_fraction": lambda fraction, device: setattr(told, "limit", fraction),
    }
    for name, function in functions.items():
        monkeypatch.setattr(torch.cuda, name, function)
    monkeypatch.setattr(warp, "is_mempool_enabled", lambda device: True)
    for name in ("current", "high"):
        monkeypatch.setattr(warp, f"get_mempool_used_mem_{name}", lambda device: told.pool)
    return told


@pytest.mark.parametrize("tells", [True, False])
def test_a_process_knows_its_own_memory(card: FakeGpu, libraries: SimpleNamespace, tells: bool) -> None:
    def takes(reserved: int, pool: int, beside: int) -> None:
        libraries.reserved = reserved
        libraries.reserved_peak = max(libraries.reserved_peak, reserved)
        libraries.pool = pool
        card.compute = [process(os.getpid(), reserved + pool + beside)] if tells else [process(os.getpid(), None)]

    own = OwnMemory("cuda:0")
    takes(300 * MIB, 200 * MIB, 400 * MIB)
    card.used += 900 * MIB
    assert own.read() == (900 * MIB, 900 * MIB)
    card.used += 4000 * MIB
    takes(500 * MIB, 200 * MIB, 400 * MIB)
    assert own.read() == (1100 * MIB, 1100 * MIB)
    takes(100 * MIB, 200 * MIB, 400 * MIB)
    assert own.read() == (700 * MIB, 1100 * MIB)


def test_a_budget_limits_torch_to_what_all_else_leaves(card: FakeGpu, libraries: SimpleNamespace) -> None:
    own = OwnMemory("cuda:0")
    libraries.reserved, libraries.pool = 300 * MIB, 200 * MIB
    card.used += 900 * MIB
    own.hold_to(2000 * MIB)
    assert libraries.limit == pytest.approx((2000 - 600) * MIB / card.total)
    own.hold_to(0.5)
    assert libraries.limit == pytest.approx((0.5 * (7 << 30) - 600 * MIB) / card.total)
    with pytest.raises(MemoryError, match=r"scaling\.budget"):
        own.hold_to(600 * MIB)


def test_what_torch_and_warp_share_counts_once(
    card: FakeGpu, libraries: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries.reserved, libraries.pool = 300 * MIB, 500 * MIB
    assert held_by_libraries("cuda:0", peak=False) == 800 * MIB
    monkeypatch.setattr("torch.cuda.get_allocator_backend", lambda: "cudaMallocAsync")
    assert held_by_libraries("cuda:0", peak=False) == 500 * MIB


def test_own_memory_where_the_driver_hangs(
    nvml: FakeNvml, card: FakeGpu, libraries: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_module, "DEADLINE_S", 0.2)
    own = OwnMemory("cuda:0")
    libraries.reserved = libraries.reserved_peak = 300 * MIB
    card.blocked = blocked = threading.Event()
    monkeypatch.setattr(nvml, "nvmlDeviceGetComputeRunningProcesses", lambda handle: blocked.wait())
    try:
        assert own.read() == own.read() == (300 * MIB, 300 * MIB)
    finally:
        card.blocked.set()
