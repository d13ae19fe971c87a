// A hash of the bytes of a tensor, 16 bytes for each tile of it. Compiled by nvrtc, with masks.cu behind it; hashing.py
// says how it is used.
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
typedef unsigned char u8;
typedef unsigned short u16;
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

// BLAKE3's rounds of a state, v, with a message, m.
DEVICE void rounds(u32 (&v)[16], const u32 (&m)[16]) {
    constexpr int order[7][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
        {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
        {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
        {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};
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
}

// The value that a message, m, makes of one.
DEVICE Value compressed(const Value& h, const u32 (&m)[16], u32 tile, u32 thread, u32 flags) {
    u32 v[16] = {h.v[0],      h.v[1],      h.v[2],      h.v[3],      h.v[4], h.v[5], h.v[6],        h.v[7],
                 0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, tile,   thread, MESSAGE_BYTES, flags};
    rounds(v, m);
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

// 16 bytes, of which `unit` lie together at a multiple of themselves.
DEVICE void load(const u8* from, u32 unit, u32* to) {
    if (unit >= 16) {
        const uint4 w = *(const uint4*)from;
        to[0] = w.x, to[1] = w.y, to[2] = w.z, to[3] = w.w;
    } else if (unit >= 4) {
#pragma unroll
        for (int k = 0; k < 4; ++k) to[k] = ((const u32*)from)[k];
    } else if (unit == 2) {
#pragma unroll
        for (int k = 0; k < 4; ++k) to[k] = ((const u16*)from)[2 * k] | (u32)((const u16*)from)[2 * k + 1] << 16;
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
            to[k] = from[4 * k] | (u32)from[4 * k + 1] << 8 | (u32)from[4 * k + 2] << 16 | (u32)from[4 * k + 3] << 24;
    }
}

// The value of thread `t`: of its words of a tile that lies at `data` and has `size` bytes.
DEVICE Value taken(const u8* data, u64 size, u32 unit, u32 t, u32 tile, u64 bytes) {
    const u64 whole = size / 16, rest = size % 16;
    Value h = begun(bytes);
    u32 m[16], next[16];
    u64 i = t;
    const bool full = i + 3 * THREADS < whole;
    if (full) {
#pragma unroll
        for (int k = 0; k < 4; ++k) load(data + 16 * (i + k * THREADS), unit, next + 4 * k);
    }
    for (; i + 3 * THREADS < whole; i += 4 * THREADS) {
#pragma unroll
        for (int k = 0; k < 16; ++k) m[k] = next[k];
        if (i + 7 * THREADS < whole) {  // on its way while this one is taken in
#pragma unroll
            for (int k = 0; k < 4; ++k) load(data + 16 * (i + (4 + k) * THREADS), unit, next + 4 * k);
        }
        h = compressed(h, m, tile, t, KEYED);
    }
    if (i < whole || (rest && i == whole)) {  // what is left of the tile, filled up with zeros
#pragma unroll
        for (int k = 0; k < 16; ++k) m[k] = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k, i += THREADS) {
            if (i < whole) {
                load(data + 16 * i, unit, m + 4 * k);
            } else if (i == whole) {
                for (u32 at = 0; at < rest; ++at)
                    (at < 4 ? m[4 * k] : at < 8 ? m[4 * k + 1] : at < 12 ? m[4 * k + 2] : m[4 * k + 3]) |=
                        (u32)data[16 * whole + at] << 8 * (at % 4);
            }
        }
        h = compressed(h, m, tile, t, KEYED);
    }
    return h;
}

#ifndef HOST
// One block a tile of `tile_bytes` bytes, or fewer where `data` ends, which has `here` of them and is aligned to `unit`.
// `bytes` has the whole message. The first tile here is number `first`, and so are all of them unless `numbered`.
// Writes 16 bytes a tile.
extern "C" __global__ void __launch_bounds__(THREADS) hash_tiles(const u8* data, u64 here, u64 tile_bytes, u64 bytes,
                                                                 u32 first, u32 numbered, u32 unit, uint4* out) {
    __shared__ Value values[THREADS];
    const u64 begin = (u64)blockIdx.x * tile_bytes;
    const u64 end = begin + tile_bytes < here ? begin + tile_bytes : here;
    const u32 t = threadIdx.x, tile = first + numbered * blockIdx.x;
    Value h = taken(data + begin, end - begin, unit, t, tile, bytes);
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
