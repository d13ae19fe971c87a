"""Texts in the forms in which compute-sanitizer prints them.

Written by hand after its manual (releases 2022.4 to 2026.4), with names and numbers of our own: they are not
recordings. What a device really prints is tested by test_planted.py, where there is one.
"""

OUT_OF_BOUNDS_WRITE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at twice(const float *, float *, int)+0x110 in /cache/staging/0a/src/cuda.cu:10
=========     by thread (136,0,0) in block (19,0,0)
=========     Address 0x7f1234604e20 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f1234600000 of size 20,000 bytes
=========
========= ERROR SUMMARY: 1 error
"""
OUT_OF_BOUNDS_READ = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 8 bytes
=========     at load(const double *, int)+0x30 in /cache/staging/0a/src/cuda.cu:6
=========     by thread (0,1,0) in block (2,3,4)
=========     Address 0x7f1234604e20 is out of bounds
=========         Device Frame: inner(const double *)+0x10 in /cache/staging/0a/src/cuda.cu:8
=========         Device Frame:void ns::outer<(int)4, float>(const double *)+0x90 in /cache/staging/0a/src/cuda.cu:12
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernel [0x6f1234] in libcudart.so.13
=========
========= Invalid __global__ read of size 8 bytes
=========     at load(const double *, int)+0x30 in /cache/staging/0a/src/cuda.cu:6
=========     by thread (1,1,0) in block (2,3,4)
=========     Address 0x7f1234604e28 is out of bounds
=========         Device Frame: inner(const double *)+0x10 in /cache/staging/0a/src/cuda.cu:8
=========         Device Frame:void ns::outer<(int)4, float>(const double *)+0x90 in /cache/staging/0a/src/cuda.cu:12
=========
========= ERROR SUMMARY: 7 errors
========= ERROR SUMMARY: 5 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
MISALIGNED = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ atomic of size 16 bytes
=========     at twice(const float *, float *, int):0x90 in /cache/staging/0a/src/cuda.cu:9
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x4 is misaligned
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at twice(const float *, float *, int)+0x90 in /s/src/cuda.cu:9
=========     and Read access at twice(const float *, float *, int)+0x100 in /s/src/cuda.cu:10 [508 hazards]
=========     and Read access at twice(const float *, float *, int)+0x140 in /s/src/cuda.cu:11 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
HAZARD = """\
========= COMPUTE-SANITIZER
========= WARNING: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in block (1,0,0) :
=========     Write Thread (35,0,0) at twice(const float *, float *, int)+0x90 in /s/src/cuda.cu:9
=========     Read Thread (32,0,0) at twice(const float *, float *, int)+0x120 in /s/src/cuda.cu:10
=========     Current Value : 35
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
UNINITIALIZED = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at twice(const float *, float *, int)+0x70 in /s/src/cuda.cu:9
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::reduce_kernel<(int)512>(T1)+0x70
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 2 errors
"""
BARRIER = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp
=========     at [clone twice(const float *, float *, int)] part()+0xf0 in /s/src/cuda.cu:11
=========     by thread (96,0,0) in block (0,0,0)
=========         Device Frame: twice(const float *, float *, int)+0xe40 in /s/src/cuda.cu:11
=========
========= ERROR SUMMARY: 1 error
"""
HEAP = """\
========= COMPUTE-SANITIZER
========= Malloc/Free error encountered : Double free
=========     at 0x79d8
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400aff920
=========         Device Frame: twice(const float *, float *, int)+0xe40 in /s/src/cuda.cu:11
=========
========= ERROR SUMMARY: 1 error
"""
OLD_FORM = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at 0x160 in /s/src/cuda.cu:6:twice(const float *, float *, int)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510c00001 is misaligned
=========
========= ERROR SUMMARY: 1 error
"""
NO_LINE_INFO = """\
========= COMPUTE-SANITIZER
========= Invalid __local__ write of size 4 bytes
=========     at unaligned_kernel()+0x50
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0xfffff8 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
CLUSTER = """\
========= COMPUTE-SANITIZER
========= Potential invalid __shared__ read of size 4 bytes
=========     at remote(int *, int)+0x170 in /s/src/cuda.cu:10
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x1000400 is located in a block that might have already exited
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
NEVER_SEEN = """\
========= COMPUTE-SANITIZER
========= Something of a release to come
=========     at twice(const float *, float *, int)+0x50 in /s/src/cuda.cu:7
=========     by thread (1,2,3) in block (4,5,6)
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = """\
========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""
CLEAN_OF_RACES = """\
========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""
NOT_STARTED = """\
========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Error: couldn't find exit code.
"""
CUT_OFF = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at twice(const float *, float *, int)+0x110 in /cache/staging/0a/src/cuda.cu:10
"""
EVERY = {name: text for name, text in globals().items() if name.isupper()}
