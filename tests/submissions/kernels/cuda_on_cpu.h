// Runs a CUDA kernel's text on a CPU, for tests: one host thread for each thread of a block, blocks one after another.
//
// Enough of CUDA for the example submissions: thread and block indices, static and dynamic shared memory, __syncthreads,
// __shfl_xor_sync over full warps, atomicAdd, asynchronous copies that happen no sooner than they are waited for, halves.
// It shows wrong index arithmetic and missing cases, not missing barriers that a GPU would punish, and it says nothing
// about speed.
#pragma once

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline thread_local dim3 threadIdx;
inline thread_local dim3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

#define __global__ static
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

using std::max;
using std::min;

using __half = _Float16;

inline __half __float2half_rn(float value) {
    return static_cast<__half>(value);
}

inline float __half2float(__half value) {
    return static_cast<float>(value);
}

inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

// Copies that this thread has begun, a group for each commit; the last group is open.
inline thread_local std::deque<std::vector<std::function<void()>>> copies{{}};

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || reinterpret_cast<uintptr_t>(from) % bytes != 0) std::abort();
    copies.back().push_back([=] { std::memcpy(to, from, bytes); });
}

inline void __pipeline_commit() {
    copies.emplace_back();
}

// Until no more than `newest` groups are on their way.
inline void __pipeline_wait_prior(size_t newest) {
    for (; copies.size() > newest + 1; copies.pop_front()) {
        for (const auto& copy : copies.front()) copy();
    }
}

struct Block {
    explicit Block(unsigned threads) : everyone(threads), exchange(threads) {
        for (unsigned first = 0; first < threads; first += 32) {
            warps.push_back(std::make_unique<std::barrier<>>(std::min(32u, threads - first)));
        }
    }
    std::barrier<> everyone;
    std::vector<std::unique_ptr<std::barrier<>>> warps;
    std::vector<float> exchange;
};

inline Block* current_block;
inline std::mutex atomics;

inline unsigned linear_thread() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

inline void __syncthreads() {
    current_block->everyone.arrive_and_wait();
}

inline float __shfl_xor_sync(unsigned, float value, int mask, int = 32) {
    const unsigned thread = linear_thread();
    std::barrier<>& warp = *current_block->warps[thread / 32];
    current_block->exchange[thread] = value;
    warp.arrive_and_wait();
    const float other = current_block->exchange[thread ^ static_cast<unsigned>(mask)];
    warp.arrive_and_wait();
    return other;
}

inline float atomicAdd(float* address, float value) {
    const std::lock_guard<std::mutex> lock(atomics);
    const float before = *address;
    *address += value;
    return before;
}

// A thread that returns early leaves every barrier, as on a GPU.
inline void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
    const unsigned threads = block.x * block.y * block.z;
    gridDim = grid;
    blockDim = block;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                Block state(threads);
                current_block = &state;
                std::vector<std::thread> running;
                for (unsigned i = 0; i < threads; ++i) {
                    running.emplace_back([&, i] {
                        threadIdx = dim3(i % block.x, i / block.x % block.y, i / block.x / block.y);
                        blockIdx = dim3(x, y, z);
                        kernel();
                        state.everyone.arrive_and_drop();
                        state.warps[i / 32]->arrive_and_drop();
                    });
                }
                for (std::thread& thread : running) thread.join();
            }
}
