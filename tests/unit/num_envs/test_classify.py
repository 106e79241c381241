# SPDX-License-Identifier: BSD-3-Clause
"""Out of memory, a crash, or the user's error: real messages of every library that allocates."""

import signal

import pytest
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg

from isaaclab_pc.num_envs.classify import classify_exit, contact_overflow, out_of_memory_line
from isaaclab_pc.num_envs.trial import Outcome

OUT_OF_MEMORY = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
    "RuntimeError: CUDA error: out of memory",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB.",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "node1:41:41 [0] transport.cc:153 NCCL WARN Cuda failure 2 'out of memory'",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers "
    "are out of shared memory. ERROR: Unexpected bus error. This might be caused by insufficient shared memory (shm).",
    "MemoryError",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape (1000000, 1000000)",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "OSError: [Errno 12] Cannot allocate memory",
    "RuntimeError: Failed to allocate 8589934592 bytes on device 'cuda:0'",
    "RuntimeError: Failed to allocate 68719476736 bytes on device 'cpu'",
    "Warp error: Failed to allocate 4096 bytes on device 'cuda:0' (in function wp_alloc_device_async)",
    "Warp CUDA error 2: out of memory (in function wp_alloc_device_async, warp.cu:498)",
    "PxgCudaDeviceMemoryAllocator fail to allocate memory 339738624 bytes!! Result = 2",
    "[Error] PxgCudaDeviceMemoryAllocator failed to allocate memory 2147483648 bytes! Result = 2",
    "PxgPinnedMemoryAllocate failed to allocate memory 71303168 bytes! Result = 2",
    "PhysX warning: Failed to allocate pinned memory., FILE PxgCudaMemoryAllocator.cpp, LINE 59",
    "[Error] [carb.graphics-vulkan.plugin] VkResult: ERROR_OUT_OF_DEVICE_MEMORY",
    "[Error] [carb.graphics-vulkan.plugin] Out of GPU memory allocating resource 'MemoryManager-allocate'",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=17.0. Some of your processes may have been killed",
]
OTHER_FAILURES = [
    "ValueError: K=5000 is larger than the 4096 pixels of the camera",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmulAlgoGetHeuristic`",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x3 and 4x128)",
    "PxgDynamicsMemoryConfig::collisionStackSize buffer overflow detected, please increase its size",
    "[Info] memory pools are not enabled on device cuda:0",
    "FileNotFoundError: [Errno 2] No such file or directory: 'robot.usd'",
]


@pytest.mark.parametrize("message", OUT_OF_MEMORY)
def test_failed_allocation_of_any_library_is_out_of_memory(message: str) -> None:
    output = f"Traceback (most recent call last):\n  File ...\n  {message}\nand thousands of lines after it\n"
    assert classify_exit(1, output) == (Outcome.OOM, message)


@pytest.mark.parametrize("message", OTHER_FAILURES)
def test_other_failure_is_the_users_error_with_its_message(message: str) -> None:
    assert out_of_memory_line(message) == ""
    outcome, detail = classify_exit(1, f"Traceback (most recent call last):\n{message}\n\n")
    assert outcome is Outcome.ERROR
    assert message in detail


@pytest.mark.parametrize(
    ("returncode", "output", "oom_kills", "outcome", "named"),
    [
        (-signal.SIGKILL, "", 0, Outcome.OOM, "SIGKILL"),
        (137, "", 0, Outcome.OOM, "SIGKILL"),
        # A process of the child's was the victim.
        (1, "RuntimeError: dead", 1, Outcome.OOM, "cgroup"),
        (1, "RuntimeError: dead", 0, Outcome.ERROR, "RuntimeError: dead"),
        (-signal.SIGSEGV, "", 0, Outcome.CRASH, "SIGSEGV"),
        (139, "", 0, Outcome.CRASH, "SIGSEGV"),
        (-signal.SIGABRT, "terminate called ... 'std::bad_alloc'", 0, Outcome.OOM, "std::bad_alloc"),
        (-signal.SIGABRT, "free(): invalid pointer", 0, Outcome.CRASH, "SIGABRT"),
        # It recovered from that.
        (0, "CUDA out of memory", 0, Outcome.ERROR, ""),
        (3, "\n\n", 0, Outcome.ERROR, "exit code 3"),
    ],
)
def test_outcome(returncode: int, output: str, oom_kills: int, outcome: Outcome, named: str) -> None:
    found, detail = classify_exit(returncode, output, oom_kills=oom_kills)
    assert found is outcome
    assert named in detail


# From Isaac Lab's issues 176, 981, 1199 and 1389, and from the texts in PhysX 5's libPhysXGpu_64.so.
KIT = "2023-12-19 20:04:05 [5,983,110ms] [Error] [omni.physx.plugin] PhysX error: "
INCREASE = "buffer overflow detected, please increase its size"
MISSES = "otherwise, the simulation will miss interactions"
OVERFLOWS = [
    (KIT + f"Patch {INCREASE} to at least 219146 in the scene desc!", {"gpu_max_rigid_patch_count": 219146}),
    (f"Friction patch {INCREASE} in the scene desc!", {"gpu_max_rigid_patch_count": 0}),
    (f"Contact {INCREASE} to at least 737280 in the scene desc!", {"gpu_max_rigid_contact_count": 737280}),
    (f"Force {INCREASE} in the scene desc!", {"gpu_max_rigid_contact_count": 0}),
    (
        "/src/PxgNarrowphaseCore.cpp (2185) : internal error : PxgDynamicsMemoryConfig::collisionStackSize "
        f"{INCREASE} to at least 1484688128 in the scene desc!",
        {"gpu_collision_stack_size": 1484688128},
    ),
    (
        f"PxGpuDynamicsMemoryConfig::collisionStackSize {INCREASE} to at least 73774744 in the scene desc! Contacts "
        "have been dropped.",
        {"gpu_collision_stack_size": 73774744},
    ),
    *(
        (f"{text} PxGpuDynamicsMemoryConfig::{name} to 16790{blank}, {MISSES}", {field: 16790})
        for text, blank in ((KIT + "The application needs to increase", " "), ("The application needs to increase", ""))
        for name, field in (
            ("totalAggregatePairsCapacity", "gpu_total_aggregate_pairs_capacity"),
            ("foundLostPairsCapacity", "gpu_found_lost_pairs_capacity"),
            ("foundLostAggregatePairsCapacity buffers", "gpu_found_lost_aggregate_pairs_capacity"),
        )
    ),
]


@pytest.mark.parametrize(("message", "sizes"), OVERFLOWS)
def test_physx_that_drops_contacts_names_the_field_and_the_size(message: str, sizes: dict[str, int]) -> None:
    lines = ["Starting the simulation\n", f"  {message}\n", ", FILE PxgNarrowphaseCore.cpp, LINE 1240\n"]
    assert contact_overflow(lines) == (message, sizes)


@pytest.mark.parametrize("field", sorted({field for _, sizes in OVERFLOWS for field in sizes}))
def test_a_field_that_is_named_exists_in_both_physx_configs(field: str) -> None:
    assert hasattr(OvPhysxCfg(), field)
    assert hasattr(PhysxCfg(), field)


def test_the_largest_size_asked_for_counts_and_the_first_line_is_shown() -> None:
    text = f"Patch {INCREASE} to at least {{}} in the scene desc!"
    found = contact_overflow([text.format(size) for size in (219146, 224549, 221977)])
    assert found == (text.format(219146), {"gpu_max_rigid_patch_count": 224549})


def test_other_lines_are_no_dropped_contacts() -> None:
    settings, unknown = "[INFO] gpu_max_rigid_patch_count = 163840", "RuntimeError: buffer overflow detected"
    for line in ("", settings, f"Particle system contact {INCREASE}", unknown, *OUT_OF_MEMORY):
        assert contact_overflow([line]) == ("", {}), line
