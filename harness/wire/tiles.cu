// A hash of the bytes of a tensor, 16 bytes for each tile of it. Compiled by nvrtc; hashing.py says how it is used.
//
//     tile    bytes of a block of threads: thread t takes the words t, t + THREADS, ... of 16 bytes, four to a message
//     value   32 bytes of a thread: BLAKE3's compression of its messages, one after another
//     tree    values of threads are compressed two by two, in order, until one is left, whose first half is the hash
//
// The compression is BLAKE3's, with all its rounds: O'Connor et al., "BLAKE3: one function, fast everywhere", 2020,
// section 2.2. How its parts hang together is our own, so that neighbours in a block read neighbours in memory: the key
// says how many bytes the whole message has, the counter says the tile and the thread.
#ifndef HOST
#define DEVICE __device__ __forceinline__
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

constexpr u32 THREADS = 128;
constexpr u32 MESSAGE_BYTES = 64;
constexpr u32 KEYED = 16, PARENT = 4;  // BLAKE3's flags

struct Value {
    u32 v[8];
};

DEVICE u32 turned(u32 x, int by) { return (x >> by) | (x << (32 - by)); }

DEVICE void mix(u32& a, u32& b, u32& c, u32& d, u32 x, u32 y) {
    a += b + x;
    d = turned(d ^ a, 16);
    c += d;
    b = turned(b ^ c, 12);
    a += b + y;
    d = turned(d ^ a, 8);
    c += d;
    b = turned(b ^ c, 7);
}

// The value that a message, m, makes of one.
DEVICE Value compressed(const Value& h, const u32 (&m)[16], u32 tile, u32 thread, u32 flags) {
    constexpr int order[7][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
        {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
        {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
        {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};
    u32 v[16] = {h.v[0],      h.v[1],      h.v[2],      h.v[3],      h.v[4], h.v[5], h.v[6],        h.v[7],
                 0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, tile,   thread, MESSAGE_BYTES, flags};
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const int(&o)[16] = order[round];
        mix(v[0], v[4], v[8], v[12], m[o[0]], m[o[1]]);
        mix(v[1], v[5], v[9], v[13], m[o[2]], m[o[3]]);
        mix(v[2], v[6], v[10], v[14], m[o[4]], m[o[5]]);
        mix(v[3], v[7], v[11], v[15], m[o[6]], m[o[7]]);
        mix(v[0], v[5], v[10], v[15], m[o[8]], m[o[9]]);
        mix(v[1], v[6], v[11], v[12], m[o[10]], m[o[11]]);
        mix(v[2], v[7], v[8], v[13], m[o[12]], m[o[13]]);
        mix(v[3], v[4], v[9], v[14], m[o[14]], m[o[15]]);
    }
    Value next;
#pragma unroll
    for (int i = 0; i < 8; ++i) next.v[i] = v[i] ^ v[i + 8];
    return next;
}

// The key of a message of `bytes` bytes, where every thread begins.
DEVICE Value begun(u64 bytes) {
    return {{0x6a09e667u ^ (u32)bytes, 0xbb67ae85u ^ (u32)(bytes >> 32), 0x3c6ef372u, 0xa54ff53au, 0x510e527fu,
             0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u}};
}

DEVICE Value joined(const Value& left, const Value& right, u32 tile, u64 bytes) {
    u32 m[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) m[i] = left.v[i], m[i + 8] = right.v[i];
    return compressed(begun(bytes), m, tile, 0, KEYED | PARENT);
}

#ifndef HOST
// One block a tile of `tile_bytes` bytes, or fewer where `data`, which is aligned to 16 bytes and has `here` of them,
// ends. `bytes` has the whole message. The first tile here is number `first`, and so are all of them unless `numbered`.
// Writes 16 bytes a tile.
extern "C" __global__ void __launch_bounds__(THREADS) hash_tiles(const uint4* data, u64 here, u64 tile_bytes, u64 bytes,
                                                                 u32 first, u32 numbered, uint4* out) {
    __shared__ Value values[THREADS];
    const u64 begin = (u64)blockIdx.x * tile_bytes;
    const u64 end = begin + tile_bytes < here ? begin + tile_bytes : here;
    const u64 whole = (end - begin) / 16, rest = (end - begin) % 16;
    const uint4* words = data + begin / 16;
    const u32 t = threadIdx.x, tile = first + numbered * blockIdx.x;
    Value h = begun(bytes);
    u64 i = t;
    for (; i + 3 * THREADS < whole; i += 4 * THREADS) {
        uint4 w[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) w[k] = __ldg(words + i + k * THREADS);
        const u32 m[16] = {w[0].x, w[0].y, w[0].z, w[0].w, w[1].x, w[1].y, w[1].z, w[1].w,
                           w[2].x, w[2].y, w[2].z, w[2].w, w[3].x, w[3].y, w[3].z, w[3].w};
        h = compressed(h, m, tile, t, KEYED);
    }
    if (i < whole || (rest && i == whole)) {  // what is left of the tile, filled up with zeros
        u32 m[16] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k, i += THREADS) {
            if (i < whole) {
                const uint4 w = __ldg(words + i);
                m[4 * k] = w.x, m[4 * k + 1] = w.y, m[4 * k + 2] = w.z, m[4 * k + 3] = w.w;
            } else if (i == whole) {
                for (u64 at = 0; at < rest; ++at)
                    (at < 4 ? m[4 * k] : at < 8 ? m[4 * k + 1] : at < 12 ? m[4 * k + 2] : m[4 * k + 3]) |=
                        (u32)((const unsigned char*)(words + whole))[at] << 8 * (at % 4);
            }
        }
        h = compressed(h, m, tile, t, KEYED);
    }
    values[t] = h;
    for (u32 half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (t < half) {
            h = joined(values[t], values[t + half], tile, bytes);
            values[t] = h;
        }
    }
    if (t == 0) out[blockIdx.x] = make_uint4(h.v[0], h.v[1], h.v[2], h.v[3]);
}
#endif
