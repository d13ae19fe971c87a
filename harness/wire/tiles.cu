// A hash of the bytes of a tensor, 16 bytes for each tile of it. Compiled by nvrtc; hashing.py says how it is used.
//
//     tile    bytes of a block of threads: thread t takes the words t, t + THREADS, ... of 16 bytes, one after another
//     state   16 bytes of a thread; a word is added by xor, and PASSES passes of a permutation follow
//     tree    states of threads are joined two by two, in order, until one is left
//
// The permutation is that of Chaskey: Mouha et al., "Chaskey: An Efficient MAC Algorithm for 32-bit Microcontrollers",
// 2014. It can be run backwards, so what a state of 128 bits keeps is that nobody finds words that lead from one given
// state to another by less than 2^64 tries.
#ifndef HOST
#define DEVICE __device__ __forceinline__
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

constexpr u32 THREADS = 256;
constexpr int PASSES = 4, LAST_PASSES = 8;

struct State {
    u32 v[4];
};

DEVICE u32 turned(u32 x, int by) { return (x << by) | (x >> (32 - by)); }

DEVICE void permute(State& s, int passes) {
#pragma unroll
    for (int pass = 0; pass < passes; ++pass) {
        s.v[0] += s.v[1];
        s.v[1] = turned(s.v[1], 5) ^ s.v[0];
        s.v[0] = turned(s.v[0], 16);
        s.v[2] += s.v[3];
        s.v[3] = turned(s.v[3], 8) ^ s.v[2];
        s.v[0] += s.v[3];
        s.v[3] = turned(s.v[3], 13) ^ s.v[0];
        s.v[2] += s.v[1];
        s.v[1] = turned(s.v[1], 7) ^ s.v[2];
        s.v[2] = turned(s.v[2], 16);
    }
}

// The state of thread `t` of tile `tile` of a message of `bytes` bytes, of which the tile's are `data`.
DEVICE State begun(u32 t, u32 tile, u64 bytes) {
    State s = {{0x243f6a88u ^ t, 0x85a308d3u ^ tile, 0x13198a2eu ^ (u32)bytes, 0x03707344u ^ (u32)(bytes >> 32)}};
    permute(s, LAST_PASSES);
    return s;
}

DEVICE void add(State& s, u32 a, u32 b, u32 c, u32 d) {
    s.v[0] ^= a;
    s.v[1] ^= b;
    s.v[2] ^= c;
    s.v[3] ^= d;
    permute(s, PASSES);
}

// Not the same for (s, other) as for (other, s).
DEVICE void join(State& s, const State& other) {
    permute(s, LAST_PASSES);
    for (int i = 0; i < 4; ++i) s.v[i] ^= other.v[i];
    permute(s, LAST_PASSES);
}

#ifndef HOST
// One block a tile of `tile_bytes` bytes, or fewer where `data`, which is aligned to 16 bytes and has `here` of them,
// ends. `bytes` has the whole message. The first tile here is number `first`, and so are all of them unless `numbered`.
// Writes 16 bytes a tile.
extern "C" __global__ void __launch_bounds__(THREADS) hash_tiles(const uint4* data, u64 here, u64 tile_bytes, u64 bytes,
                                                                 u32 first, u32 numbered, uint4* out) {
    __shared__ State states[THREADS];
    const u64 begin = (u64)blockIdx.x * tile_bytes;
    const u64 end = begin + tile_bytes < here ? begin + tile_bytes : here;
    const u64 words = (end - begin) / 16, rest = (end - begin) % 16;
    const uint4* tile = data + begin / 16;
    State s = begun(threadIdx.x, first + numbered * blockIdx.x, bytes);
    u64 i = threadIdx.x;
    for (; i + 7 * THREADS < words; i += 8 * THREADS) {
        uint4 w[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) w[k] = __ldg(tile + i + k * THREADS);
#pragma unroll
        for (int k = 0; k < 8; ++k) add(s, w[k].x, w[k].y, w[k].z, w[k].w);
    }
    for (; i < words; i += THREADS) {
        const uint4 w = __ldg(tile + i);
        add(s, w.x, w.y, w.z, w.w);
    }
    if (rest && i == words) {  // the last bytes, filled up with zeros
        u32 last[4] = {};
        for (u64 at = 0; at < rest; ++at) last[at / 4] |= (u32)((const unsigned char*)(tile + words))[at] << 8 * (at % 4);
        add(s, last[0], last[1], last[2], last[3]);
    }
    states[threadIdx.x] = s;
    for (u32 half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) join(states[threadIdx.x], states[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) out[blockIdx.x] = make_uint4(states[0].v[0], states[0].v[1], states[0].v[2], states[0].v[3]);
}
#endif
