// What the submissions' inline assembly does, for cuda_on_cpu.h: barriers with transaction counts, bulk copies, and the
// tensor cores' products with operands laid out and rounded as PTX's manual says. Sums are rounded towards zero, as on the
// device, which is why kernels may not sum much there.
#pragma once

#include "cuda_on_cpu.h"

#include <condition_variable>
#include <map>

inline const void* shared_base;  // the start of dynamic shared memory: address 0

inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(static_cast<const char*>(pointer) - static_cast<const char*>(shared_base));
}

struct EmulatedBarrier {
    int arrivals = 0, pending = 0, phase = 0;
    long bytes = 0;  // announced and not yet copied
};

inline std::mutex barriers_mutex;
inline std::condition_variable barriers_changed;
inline std::map<uint64_t*, EmulatedBarrier> barriers;

template <typename Change>
void change_barrier(uint64_t* barrier, Change change) {
    const std::lock_guard<std::mutex> lock(barriers_mutex);
    EmulatedBarrier& state = barriers[barrier];
    change(state);
    if (state.pending == 0 && state.bytes == 0) {
        state.pending = state.arrivals;
        ++state.phase;
        barriers_changed.notify_all();
    }
}

inline void barrier_init(uint64_t* barrier, int arrivals) {
    const std::lock_guard<std::mutex> lock(barriers_mutex);
    barriers[barrier] = {arrivals, arrivals, 0, 0};
}

inline void barrier_init_done() {}

inline void barrier_arrive(uint64_t* barrier) {
    change_barrier(barrier, [](EmulatedBarrier& state) { --state.pending; });
}

inline void barrier_expect(uint64_t* barrier, int bytes) {
    change_barrier(barrier, [=](EmulatedBarrier& state) {
        state.bytes += bytes;
        --state.pending;
    });
}

inline void barrier_wait(uint64_t* barrier, int parity) {
    std::unique_lock<std::mutex> lock(barriers_mutex);
    barriers_changed.wait(lock, [=] { return barriers[barrier].phase % 2 != parity; });
}

inline void copy_bulk(void* to, const void* from, int bytes, uint64_t* barrier) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    change_barrier(barrier, [=](EmulatedBarrier& state) { state.bytes -= bytes; });
}

inline float towards_zero(double sum) {
    const float rounded = static_cast<float>(sum);
    return std::abs(static_cast<double>(rounded)) > std::abs(sum) ? std::nextafter(rounded, 0.0f) : rounded;
}

inline float exp2_fast(float x) {
    return std::exp2(x);
}

// ---- wgmma: both operands in shared memory, found through descriptors ----

// Like all wgmma, executed by whole warps: no thread of one goes on while another has not come here.
inline void products_begin() {
    current_block->warps[linear_thread() / 32]->arrive_and_wait();
}

inline void products_end(float (&)[64]) {
    current_block->warps[linear_thread() / 32]->arrive_and_wait();
}

// An operand's element: 128 bytes a row, eight rows `stride` bytes from the next eight, pieces of 16 bytes swapped by the
// address bits above them (128-byte swizzle).
inline double described(uint64_t descriptor, int row, int k) {
    if (descriptor >> 62 != 1) std::abort();
    const uint32_t start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
    const uint32_t stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
    uint32_t address = start + static_cast<uint32_t>(row) / 8 * stride + static_cast<uint32_t>(row) % 8 * 128 +
                       static_cast<uint32_t>(k) * 2;
    address ^= (address >> 7 & 7) << 4;
    return static_cast<double>(*reinterpret_cast<const __half*>(static_cast<const char*>(shared_base) + address));
}

inline void multiply(float (&sums)[64], uint64_t a, uint64_t b, int add) {
    const unsigned thread = linear_thread() % 128;
    const int first_row = static_cast<int>(thread / 32 * 16 + thread % 32 / 4);
    for (int below = 0; below < 2; ++below) {
        double left[16];
        for (int k = 0; k < 16; ++k) left[k] = described(a, first_row + 8 * below, k);
        for (int j = 0; j < 16; ++j) {
            for (int right = 0; right < 2; ++right) {
                float& to = sums[4 * j + 2 * below + right];
                double sum = add ? to : 0.0;
                const int column = 8 * j + 2 * static_cast<int>(thread % 4) + right;
                for (int k = 0; k < 16; ++k) sum += left[k] * described(b, column, k);
                to = towards_zero(sum);
            }
        }
    }
}

// ---- mma.sync: operands in the registers of a warp ----

struct Fragments {
    uint32_t a[4];
    uint32_t b[2];
};

inline Fragments fragments[1024];

inline double tf32(uint32_t bits) {
    bits &= 0xffffe000u;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline void multiply(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    const unsigned thread = linear_thread();
    Fragments* warp = fragments + thread / 32 * 32;
    std::copy(a, a + 4, fragments[thread].a);
    std::copy(b, b + 2, fragments[thread].b);
    std::barrier<>& together = *current_block->warps[thread / 32];
    together.arrive_and_wait();
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = thread % 32 / 4 + i / 2 * 8;
        const unsigned column = thread % 4 * 2 + i % 2;
        double sum = sums[i];
        for (unsigned k = 0; k < 8; ++k) {
            const uint32_t left = warp[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2];
            sum += tf32(left) * tf32(warp[column * 4 + k % 4].b[k / 4]);
        }
        sums[i] = towards_zero(sum);
    }
    together.arrive_and_wait();
}
